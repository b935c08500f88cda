/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests on a GPU: device memory between guards, a problem with its data there and what the oracle says, a plan run on it.
 * Everything checks what it does, so a false or NULL has been reported already.
 */
#ifndef UPCONV_TESTS_GPU_CHECK_GPU_H
#define UPCONV_TESTS_GPU_CHECK_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../src/cuda/driver.h"
#include "../check.h"
#include "../random_data.h"
#include "upconv/upconv.h"

/* ---- the device ---- */

extern const uc_cuda_driver *gpu;   /* NULL before gpu_open */
extern upconv_context *gpu_context; /* of the first device */

/* The first device, current for this thread. Not a check: the caller says why there is none. */
upconv_status gpu_open(void);
void gpu_close(void);
/* Around what another thread does. */
bool gpu_enter(void);
void gpu_leave(void);

/* A driver's result is success. */
#define GPU_CHECK(call) gpu_check_result((call), #call, __FILE__, __LINE__)
bool gpu_check_result(int result, const char *text, const char *file, int line);

/* ---- memory of the current device ---- */

/* Starts `shift` bytes after a multiple of 256, between guards, poisoned with CHECK_POISON. */
typedef struct gpu_buffer {
  uc_cuda_pointer base;
  size_t bytes, shift;
} gpu_buffer;

void *gpu_alloc(gpu_buffer *b, size_t bytes, size_t shift);
/* For what the library writes before it reads; not poisoned where CHECK_GPU_RAW is set. */
void *gpu_alloc_scratch(gpu_buffer *b, size_t bytes);
void *gpu_address(const gpu_buffer *b);
void gpu_free(gpu_buffer *b); /* checks the guards; also one that is all zero */
bool gpu_poison(const gpu_buffer *b);
bool gpu_write(void *to, const void *from, size_t bytes);
bool gpu_read(void *to, const void *from, size_t bytes);

/* ---- how a tensor lies in memory ---- */

typedef enum gpu_place {
  GPU_DENSE,
  GPU_MISALIGNED, /* dense, one element after a multiple of 256 bytes */
  GPU_CONCAT,     /* some channels of a tensor that has more, as in a U-Net */
  GPU_SLICE,      /* a box of a tensor that is larger along every axis */
  GPU_PLACES
} gpu_place;

typedef struct gpu_tensor {
  upconv_tensor host; /* in a buffer with poison wherever there is no element */
  unsigned char *bytes;
  size_t byte_count, first; /* byte of the view's first element */
  gpu_buffer buffer;
  upconv_tensor there;
} gpu_tensor;

/* ---- a problem ---- */

typedef struct gpu_task {
  const char *text;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_problem_desc desc;
  int rank;
  random_inputs inputs; /* but x */
  gpu_tensor x;
  int64_t y_shape[UPCONV_MAX_RANK], y_count;
  double *value, *bound; /* NULL before gpu_oracle */
  gpu_buffer weight, bias, param[MOST_DECLARED], tensor[MOST_DECLARED];
  upconv_tensor param_view[MOST_DECLARED], tensor_view[MOST_DECLARED];
  upconv_parameters parameters; /* on the device */
} gpu_task;

/* The same seed makes the same data. Free it whatever is returned. text must live as long. */
bool gpu_task_make(const char *text, uint64_t seed, gpu_place x_place, gpu_task *t);
void gpu_task_free(gpu_task *t);
/* New numbers in the same memory; what the oracle said is dropped. */
bool gpu_task_refill(gpu_task *t, uint64_t seed);
/* Fills in value and bound, with a thread per core over the batch. */
bool gpu_oracle(gpu_task *t);

/* ---- a run ---- */

typedef struct gpu_run {
  const gpu_task *task;
  const upconv_plan *plan; /* the caller's */
  gpu_buffer packed, workspace;
  gpu_tensor y;
  upconv_arguments arguments;
} gpu_run;

/* NULL after a failed check. candidate may be NULL. */
upconv_plan *gpu_plan(upconv_context *context, const gpu_task *t, const char *candidate);
/* Memory; nothing is packed yet. Free it whatever is returned. */
bool gpu_run_make(const gpu_task *t, const upconv_plan *plan, gpu_place y_place, gpu_run *r);
void gpu_run_free(gpu_run *r);
bool gpu_run_pack(const gpu_run *r, uc_cuda_stream stream);
bool gpu_run_execute(gpu_run *r, uc_cuda_stream stream);
bool gpu_run_sync(uc_cuda_stream stream);
/* y to the host; what lies beside it in its buffer is untouched. */
bool gpu_run_download(gpu_run *r);
/* Packs, executes, downloads. */
bool gpu_run_all(gpu_run *r);
/* The downloaded y is within the oracle's bounds. */
bool gpu_run_compare(const gpu_run *r, const char *what);
/* Both downloaded y are dense and equal bit for bit. */
bool gpu_runs_equal(const gpu_run *a, const gpu_run *b);

/* Every candidate on this problem, x and y placed so, against the oracle. */
bool gpu_check_candidates(upconv_context *context, const char *text, gpu_place x_place,
                          gpu_place y_place);

double gpu_now_ms(void);
int gpu_cores(void);

/* ---- tests ---- */

typedef struct gpu_tests {
  const check_test *test;
  size_t count;
} gpu_tests;

extern const gpu_tests gpu_model_tests, gpu_large_tests, gpu_stream_tests, gpu_cache_tests,
    gpu_edge_tests, gpu_tune_tests, gpu_plain_tests, gpu_plain_move_tests, gpu_plain_sum_tests;

/* Founding model C, as text. */
extern const char gpu_model_c[];

/* What the cache's tests start in processes of their own. Returns main's exit code. */
int gpu_child_plan(const char *text);  /* prints how many ms upconv_plan_create took */
int gpu_child_check(const char *text); /* gpu_check_candidates */

#endif
