/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that are the same on every machine. */
#ifndef UPCONV_CLI_RANDOM_H
#define UPCONV_CLI_RANDOM_H

#include <stdint.h>

/* Uniform in [0, 1), 24 bits: exact in float32. The state is the seed, of any value (splitmix64). */
static inline double random_unit(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (double)((z ^ z >> 31) >> 40) * 0x1p-24;
}

#endif
