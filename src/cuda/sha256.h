/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4). */
#ifndef UPCONV_CUDA_SHA256_H
#define UPCONV_CUDA_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { UC_SHA256_SIZE = 32 };

typedef struct uc_sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64]; /* bytes % 64 of it are waiting */
} uc_sha256;

void uc_sha256_init(uc_sha256 *hash);
void uc_sha256_add(uc_sha256 *hash, const void *data, size_t size);
void uc_sha256_end(uc_sha256 *hash, uint8_t digest[UC_SHA256_SIZE]);

#endif
