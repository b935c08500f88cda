/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: repeated runs, and what the machine can do at best. */
#ifndef UPCONV_CLI_TIMING_H
#define UPCONV_CLI_TIMING_H

#include <stdbool.h>
#include <stddef.h>

struct gpu_meter;

typedef struct timing_stats {
  int runs;
  double median, fastest, slowest; /* seconds */
  double spread; /* half the distance between the quartiles, as a fraction of the median */
} timing_stats;

/* Statistics of count > 0 samples, which are sorted in place. */
timing_stats timing_summarise(double *sample, int count);

typedef struct timing_options {
  int repeat;        /* runs; 0: as many as give a steady median in about a second */
  bool cold;         /* evict the caches before every run, by reading a large buffer */
  const char *label; /* of the progress bar */
  /* What runs is put on this stream of a GPU, whose events measure it; NULL: it runs on the CPU. */
  struct gpu_meter *gpu;
  void *stream;
} timing_options;

/* Warms up, then measures run(data), which returns false to give up. false: it gave up, or there is no memory: see
   upconv_last_error. */
bool timing_measure(bool (*run)(void *data), void *data, const timing_options *options,
                    timing_stats *stats);

/* ---- the machine (probe.c) */

typedef struct probe_result {
  double
      copy_rate; /* bytes read plus bytes written a second, by memcpy between buffers larger than any cache */
  double fma_rate; /* float32 operations a second in registers; a multiply-add counts 2 */
  double tf32_rate,
      half_rate; /* the same on tensor cores, with TF32 and with 16-bit operands; 0: there are none */
} probe_result;

/* Takes about half a second. Zeros where there is no memory for the buffers. */
probe_result probe_machine(int threads);

/* Bytes of the last level of cache, or a guess. */
size_t probe_cache_size(void);

/* FLOP/s of one thread on this machine's widest vectors (probe_fma.c). */
double probe_fma_one_thread(void);

#endif
