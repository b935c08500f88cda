/* SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "monotonic.h"
#include "progress.h"
#include "status.h"

enum { WARM_UPS = 1, MIN_RUNS = 7, MIN_LONG_RUNS = 3, MAX_RUNS = 1000 };
static const double ENOUGH_TIME = 1.0;  /* inside the runs */
static const double LONGEST_TIME = 3.0; /* with the evictions between them */
static const double WARM_UP_TIME = 0.1;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Value at a fraction of the way through sorted samples, between neighbours in proportion. */
static double quantile(const double *sorted, int count, double fraction) {
  double place = fraction * (double)(count - 1);
  int below = (int)place;
  if (below + 1 >= count) return sorted[count - 1];
  return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

timing_stats timing_summarise(double *sample, int count) {
  qsort(sample, (size_t)count, sizeof *sample, compare_doubles);
  timing_stats stats = {.runs = count, .fastest = sample[0], .slowest = sample[count - 1]};
  stats.median = quantile(sample, count, 0.5);
  double quartiles = quantile(sample, count, 0.75) - quantile(sample, count, 0.25);
  stats.spread = stats.median > 0 ? 0.5 * quartiles / stats.median : 0;
  return stats;
}

/* Replaces the caches' contents by clean lines: nothing is left to be written back inside the timed run. */
static void evict(const volatile uint64_t *buffer, size_t words) {
  for (size_t i = 0; i < words; i += 8) (void)buffer[i];
}

/* What is read to evict the host's caches. */
typedef struct eviction {
  uint64_t *buffer; /* NULL: nothing */
  size_t words;
} eviction;

static bool run_once(bool (*run)(void *data), void *data, const timing_options *options,
                     const eviction *e, double *seconds) {
  if (options->gpu)
    return gpu_time(options->gpu, options->stream, options->cold, run, data, seconds);
  if (e->buffer) evict(e->buffer, e->words);
  double start = uc_now();
  if (!run(data)) return false;
  *seconds = uc_now() - start;
  return true;
}

/* Runs until there are enough samples. Returns how many, or -1. */
static int collect(bool (*run)(void *data), void *data, const timing_options *options,
                   const eviction *e, double *sample) {
  static const eviction nothing = {NULL, 0};
  double total = 0, began = uc_now(), ignored;
  for (int i = 0; i < WARM_UPS || uc_now() - began < WARM_UP_TIME; i++)
    if (!run_once(run, data, options, &nothing, &ignored)) return -1;
  int count = 0, wanted = options->repeat ? options->repeat : MAX_RUNS;
  began = uc_now();
  progress_start(options->label, options->repeat ? wanted : 100);
  while (count < wanted) {
    if (!run_once(run, data, options, e, &sample[count])) return -1;
    total += sample[count++];
    double elapsed = uc_now() - began;
    bool enough = (count >= MIN_RUNS && total >= ENOUGH_TIME) ||
                  (count >= MIN_LONG_RUNS && elapsed >= LONGEST_TIME);
    if (!options->repeat && enough) break;
    double part = fmax(total / ENOUGH_TIME, elapsed / LONGEST_TIME);
    progress_update(options->repeat ? count : (int64_t)(100 * part));
  }
  progress_end();
  return count;
}

bool timing_measure(bool (*run)(void *data), void *data, const timing_options *options,
                    timing_stats *stats) {
  size_t size = options->cold && !options->gpu ? 2 * probe_cache_size() : 0;
  eviction e = {.buffer = size ? malloc(size) : NULL, .words = size / sizeof *e.buffer};
  double *sample = malloc(sizeof *sample * (size_t)(options->repeat ? options->repeat : MAX_RUNS));
  int count = -1;
  if (sample && (e.buffer || !size)) {
    if (e.buffer) memset(e.buffer, 1, size);
    count = collect(run, data, options, &e, sample);
    progress_end();
    if (count > 0) *stats = timing_summarise(sample, count);
  } else {
    uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  }
  free(e.buffer);
  free(sample);
  return count > 0;
}
