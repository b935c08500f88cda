/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do at best, measured: the rate of copying memory, and of multiply-adds. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monotonic.h"
#include "timing.h"

enum { PASSES = 7, MAX_THREADS = 256 };

size_t probe_cache_size(void) {
  /* Virtual machines report the caches of the whole host, of which a few cores reach a part. */
  const size_t least = (size_t)32 << 20, most = (size_t)128 << 20;
  long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
  size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (size <= 0 || (size_t)size < least) return least;
  return (size_t)size > most ? most : (size_t)size;
}

/* One thread's share of a probe. */
typedef struct worker {
  char *to;
  const char *from;
  size_t size; /* of the copy; 0: run the multiply-add probe */
  double rate;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  if (w->size)
    memcpy(w->to, w->from, w->size);
  else
    w->rate = probe_fma_one_thread();
  return NULL;
}

/* Runs every worker on a thread of its own; the last one on this one. */
static void run_all(worker *workers, int count) {
  pthread_t thread[MAX_THREADS];
  bool started[MAX_THREADS];
  for (int i = 0; i + 1 < count; i++)
    started[i] = pthread_create(&thread[i], NULL, work, &workers[i]) == 0;
  work(&workers[count - 1]);
  for (int i = 0; i + 1 < count; i++) {
    if (started[i])
      pthread_join(thread[i], NULL);
    else
      work(&workers[i]);
  }
}

static double probe_copy(int threads) {
  size_t share = (2 * probe_cache_size() / (size_t)threads + 4095) & ~(size_t)4095;
  size_t size = share * (size_t)threads;
  char *from = malloc(size), *to = malloc(size);
  double best = 0;
  if (from && to) {
    memset(from, 1, size);
    memset(to, 2, size);
    worker workers[MAX_THREADS];
    for (int i = 0; i < threads; i++)
      workers[i] = (worker){to + share * (size_t)i, from + share * (size_t)i, share, 0};
    for (int pass = 0; pass < PASSES; pass++) {
      double start = uc_now();
      run_all(workers, threads);
      double rate = 2.0 * (double)size / (uc_now() - start);
      if (rate > best) best = rate;
    }
  }
  free(from);
  free(to);
  return best;
}

static double probe_fma(int threads) {
  worker workers[MAX_THREADS] = {{NULL, NULL, 0, 0}};
  double best = 0;
  for (int pass = 0; pass < PASSES; pass++) {
    run_all(workers, threads);
    double sum = 0;
    for (int i = 0; i < threads; i++) sum += workers[i].rate;
    if (sum > best) best = sum;
  }
  return best;
}

probe_result probe_machine(int threads) {
  if (threads < 1) threads = 1;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  return (probe_result){.copy_rate = probe_copy(threads), .fma_rate = probe_fma(threads)};
}
