/* SPDX-License-Identifier: Apache-2.0 */
/* Which problems the generated kernels are compiled for, and for which architectures: the covering set, the founding
 * models and the users' suite. */
#ifndef UPCONV_TESTS_CUDA_JOBS_H
#define UPCONV_TESTS_CUDA_JOBS_H

#include <stdbool.h>

enum { JOB_MOST = 1024, JOB_TEXT = 512 };

typedef struct cuda_job {
  char text[JOB_TEXT];
  const char *family, *arch;
  bool every; /* every candidate that applies, or only the planner's choice */
} cuda_job;

/* The architecture that meets every problem; the others take turns, so that each meets every family, and the founding
 * models in every mode. */
#define JOB_MAIN_ARCH "sm_90a"
enum { JOB_OTHER_ARCHS = 6 };
extern const char *const cuda_job_other_archs[JOB_OTHER_ARCHS];

/* Fills in at most JOB_MOST jobs and returns how many. A failed check where something is missing. */
int cuda_jobs(cuda_job *jobs);

#endif
