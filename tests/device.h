/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs plans of a CUDA context on tensors in host memory, so that the same tests serve both: every buffer is copied to the
 * device between guards, gaps between elements included, and back. Statuses are the library's.
 */
#ifndef UPCONV_TESTS_DEVICE_H
#define UPCONV_TESTS_DEVICE_H

#include <stdbool.h>

#include "upconv/upconv.h"

/* The first device. UPCONV_DEVICE_ERROR with the reason when there is none. */
upconv_status device_open(void);
void device_close(void);

/* packed: a host buffer of upconv_plan_packed_size bytes. */
upconv_status device_pack(const upconv_plan *plan, const upconv_parameters *parameters,
                          void *packed);
/* arguments as for upconv_execute on the host; packed as device_pack filled it. */
upconv_status device_execute(const upconv_plan *plan, const upconv_arguments *arguments);

/* Milliseconds of each of `runs` executions after a few others, the second-level cache evicted by reading before each. */
upconv_status device_time(const upconv_plan *plan, const upconv_arguments *arguments, int runs,
                          float *ms);

/* True if every guard of every buffer so far was intact. */
bool device_guards_intact(void);

#endif
