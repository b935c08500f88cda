/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads that sleep between jobs. A job is a count of independent tasks; which thread runs which task is not
 * fixed, so tasks must not depend on it. A second caller that finds the pool busy runs its own tasks by itself: nested
 * and concurrent use never blocks.
 */
#ifndef UPCONV_CPU_THREADS_H
#define UPCONV_CPU_THREADS_H

#include <stdint.h>

#include "upconv/upconv.h"

typedef struct uc_threads uc_threads;

/* worker is in [0, threads): it tells which scratch memory to use. */
typedef void (*uc_task)(void *job, int64_t task, int worker);

/* threads 0: the number of processors that the affinity mask allows. */
upconv_status uc_threads_create(int threads, uc_threads **pool);
void uc_threads_destroy(uc_threads *pool);
int uc_threads_count(const uc_threads *pool);

/* Runs tasks 0 .. count - 1 and returns when all are done. */
void uc_threads_run(uc_threads *pool, int64_t count, uc_task task, void *job);

#endif
