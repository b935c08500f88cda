/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../status.h"

enum { MAX_THREADS = 1024, LINE = 128 /* bytes that processors pass on together, at most */ };

/* Tasks that a worker has left, as units: the first in the upper half, the end in the lower one. */
typedef struct share {
  _Alignas(LINE) _Atomic uint64_t left;
} share;

struct uc_threads {
  int count;   /* with the caller */
  int started; /* worker threads that exist: count - 1 once created */
  pthread_t *thread;
  pthread_mutex_t busy; /* held by the caller whose job runs */
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t wake, done;
  uint64_t generation; /* one more for every job */
  int running;         /* workers that have not finished the job */
  bool stop;
  uc_task task;
  void *job;
  int64_t total;
  int64_t unit; /* tasks of a unit: one, unless there are more tasks than a half can count */
  share *share; /* per worker */
};

typedef struct worker_start {
  uc_threads *pool;
  int worker;
} worker_start;

static uint64_t make_left(uint64_t first, uint64_t end) { return first << 32 | end; }

static uint32_t units_left(uint64_t left) { return (uint32_t)left - (uint32_t)(left >> 32); }

/* The first unit of a share, or its last one; -1 where none is left. */
static int64_t take(share *s, bool last) {
  uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed);
  while (units_left(left) > 0) {
    uint64_t rest = last ? left - 1 : left + make_left(1, 0);
    if (atomic_compare_exchange_weak_explicit(&s->left, &left, rest, memory_order_relaxed,
                                              memory_order_relaxed))
      return (int64_t)(last ? (uint32_t)rest : left >> 32);
  }
  return -1;
}

/* NULL: all are empty. */
static share *fullest(const uc_threads *pool) {
  share *most = NULL;
  uint32_t most_left = 0;
  for (int i = 0; i < pool->count; i++) {
    uint32_t left = units_left(atomic_load_explicit(&pool->share[i].left, memory_order_relaxed));
    if (left <= most_left) continue;
    most = &pool->share[i];
    most_left = left;
  }
  return most;
}

/* Equal shares of tasks that follow each other: neighbours write neighbouring memory, and lines that two processors write in
   turns are slow to come, above all where these have no cache in common. */
static void deal(uc_threads *pool, int64_t count) {
  pool->total = count;
  pool->unit = count / INT32_MAX + 1;
  uint64_t units = (uint64_t)((count + pool->unit - 1) / pool->unit), n = (uint64_t)pool->count;
  for (uint64_t i = 0; i < n; i++)
    atomic_store_explicit(&pool->share[i].left, make_left(i * units / n, (i + 1) * units / n),
                          memory_order_relaxed);
}

/* The worker's own tasks, and then, one by one from the end, those of whoever has most left. */
static void drain(uc_threads *pool, int worker) {
  for (;;) {
    int64_t unit = take(&pool->share[worker], false);
    if (unit < 0) {
      share *other = fullest(pool);
      if (!other) return;
      unit = take(other, true);
      if (unit < 0) continue;
    }
    int64_t first = unit * pool->unit;
    for (int64_t i = 0; i < pool->unit && first + i < pool->total; i++)
      pool->task(pool->job, first + i, worker);
  }
}

static void *worker_main(void *argument) {
  worker_start start = *(worker_start *)argument;
  free(argument);
  uc_threads *pool = start.pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->generation == seen && !pool->stop) pthread_cond_wait(&pool->wake, &pool->lock);
    if (pool->stop) break;
    seen = pool->generation;
    pthread_mutex_unlock(&pool->lock);
    drain(pool, start.worker);
    pthread_mutex_lock(&pool->lock);
    if (--pool->running == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static int allowed_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

static bool start_worker(uc_threads *pool, int worker) {
  worker_start *start = malloc(sizeof *start);
  if (!start) return false;
  *start = (worker_start){pool, worker};
  if (pthread_create(&pool->thread[worker - 1], NULL, worker_main, start) != 0) {
    free(start);
    return false;
  }
  pool->started++;
  return true;
}

upconv_status uc_threads_create(int threads, uc_threads **result) {
  if (threads < 0 || threads > MAX_THREADS)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "threads = %d: must be 0 (automatic) to %d", threads,
                   MAX_THREADS);
  if (threads == 0) threads = allowed_processors();
  uc_threads *pool = calloc(1, sizeof *pool);
  if (!pool) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a thread pool");
  pool->count = threads;
  pool->thread = calloc((size_t)threads, sizeof *pool->thread);
  pthread_mutex_init(&pool->busy, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->share = aligned_alloc(LINE, (size_t)threads * sizeof *pool->share);
  bool ok = pool->thread && pool->share;
  for (int worker = 1; ok && worker < threads; worker++) ok = start_worker(pool, worker);
  if (!ok) {
    uc_threads_destroy(pool);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "threads = %d: the system refused to start that many",
                   threads);
  }
  *result = pool;
  return UPCONV_OK;
}

void uc_threads_destroy(uc_threads *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->stop = true;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->thread[i], NULL);
  pthread_mutex_destroy(&pool->busy);
  pthread_mutex_destroy(&pool->lock);
  pthread_cond_destroy(&pool->wake);
  pthread_cond_destroy(&pool->done);
  free(pool->share);
  free(pool->thread);
  free(pool);
}

int uc_threads_count(const uc_threads *pool) { return pool->count; }

static void run_alone(int64_t count, uc_task task, void *job) {
  for (int64_t i = 0; i < count; i++) task(job, i, 0);
}

void uc_threads_run(uc_threads *pool, int64_t count, uc_task task, void *job) {
  if (count <= 1 || pool->count == 1 || pthread_mutex_trylock(&pool->busy) != 0) {
    run_alone(count, task, job);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  pool->task = task;
  pool->job = job;
  deal(pool, count);
  pool->running = pool->count - 1;
  pool->generation++;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  drain(pool, 0);
  pthread_mutex_lock(&pool->lock);
  while (pool->running > 0) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->busy);
}
