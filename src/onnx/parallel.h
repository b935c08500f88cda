/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_ONNX_PARALLEL_H
#define UPCONV_ONNX_PARALLEL_H

#include "program.h"

struct uc_threads;
/* task->op->run, on all threads where that is worth it. */
void uc_run_parallel(struct uc_threads *threads, const uc_onnx_task *task, const uc_view *in,
                     const uc_view *out);

#endif
