/* SPDX-License-Identifier: Apache-2.0 */
/* A problem with everything that it takes to run it: a plan, random data, packed weights, workspace. */
#ifndef UPCONV_CLI_WORKLOAD_H
#define UPCONV_CLI_WORKLOAD_H

#include "problem_text.h"
#include "upconv/upconv.h"

typedef struct workload {
  const problem_text *source;
  upconv_plan *plan;
  upconv_parameters parameters;
  upconv_arguments arguments; /* in the host's memory */
  /* What runs: the same on the CPU; on a GPU, with copies in its memory. */
  const upconv_context *context;
  upconv_parameters parameters_there;
  upconv_arguments arguments_there;
  uint64_t seed; /* state of the random numbers */
  void **memory; /* all that was allocated on the host */
  int memory_count;
  size_t memory_size;
  void **device_memory; /* and on a GPU */
  int device_count;
} workload;

/* The text must outlive the workload, which is destroyed whatever this returns. Prints what is wrong and returns CLI_BAD. */
int workload_create(upconv_context *context, const problem_text *source,
                    const upconv_plan_options *options, workload *w);
void workload_destroy(workload *w);

/* One execution, on a GPU put on the default stream. data: the workload. false: upconv_last_error says why. */
bool workload_execute(void *data);

/* Largest error of the output as a fraction of its bound, by the float64 oracle. */
upconv_status workload_verify(const workload *w, double *worst);

#endif
