/* SPDX-License-Identifier: Apache-2.0 */
/* A problem's data, on the host and on the device, and what the oracle says. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check_gpu.h"
#include "check_gpu_tensor.h"

enum { MOST_THREADS = 32 };

/* ---- tensors ---- */

static int64_t product(const int64_t *shape, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= shape[i];
  return p;
}

bool gpu_tensor_make(upconv_dtype dtype, int rank, const int64_t *shape, upconv_layout layout,
                     gpu_place place, gpu_tensor *t) {
  static const int64_t wider = 3, concat_channels = 8;
  int64_t larger[UPCONV_MAX_RANK];
  size_t size = upconv_dtype_size(dtype), shift = place == GPU_MISALIGNED ? size : 0;
  *t = (gpu_tensor){.bytes = NULL};
  for (int a = 0; a < rank; a++)
    larger[a] = shape[a] + (place == GPU_SLICE              ? wider
                            : place == GPU_CONCAT && a == 1 ? concat_channels
                                                            : 0);
  t->host = upconv_tensor_dense(NULL, dtype, rank, larger, layout);
  int64_t first = 0;
  for (int a = 0; a < rank; a++) {
    first += (larger[a] - shape[a]) / 2 * t->host.stride[a];
    t->host.shape[a] = shape[a];
  }
  t->first = (size_t)first * size;
  t->byte_count = (size_t)product(larger, rank) * size;
  t->bytes = check_alloc(t->byte_count, shift);
  t->host.data = t->bytes + t->first;
  t->there = t->host;
  char *address = gpu_alloc(&t->buffer, t->byte_count, shift);
  t->there.data = address ? address + t->first : NULL;
  return address != NULL;
}

void gpu_tensor_free(gpu_tensor *t) {
  CHECK_FREE(t->bytes);
  t->bytes = NULL;
  gpu_free(&t->buffer);
}

/* ---- data ---- */

static void fill(uint64_t *random, double scale, const upconv_tensor *view) {
  int64_t index[UPCONV_MAX_RANK] = {0};
  if (random_tensor_count(view) == 0) return;
  do random_tensor_store(view, index, scale * (2 * check_random_unit(random) - 1));
  while (random_tensor_next(view, index));
}

/* A factor of 0 for everything would hide all errors. */
static void keep_scalars_away_from_0(random_inputs *in) {
  static const int64_t only[UPCONV_MAX_RANK] = {0};
  for (int i = 0; i < in->param_count; i++)
    if (random_tensor_count(&in->param[i].view) == 1)
      random_tensor_store(&in->param[i].view, only, 0.5 * (i + 1));
}

static bool upload(const random_tensor *host, gpu_buffer *b, upconv_tensor *there) {
  *there = host->view;
  if (!host->buffer) return true;
  if (!b->base) {
    /* As far after a multiple of 64 bytes as on the host. */
    if (!gpu_alloc(b, host->bytes, (uintptr_t)host->buffer % 64)) return false;
  }
  there->data = gpu_address(b);
  return gpu_write(there->data, host->buffer, host->bytes);
}

static bool upload_all(gpu_task *t) {
  const random_inputs *in = &t->inputs;
  bool done = gpu_write(gpu_address(&t->x.buffer), t->x.bytes, t->x.byte_count);
  t->parameters = (upconv_parameters){.params = t->param_view, .param_count = in->param_count};
  done = done && upload(&in->weight, &t->weight, &t->parameters.weight);
  done = done && upload(&in->bias, &t->bias, &t->parameters.bias);
  for (int i = 0; i < in->param_count && done; i++)
    done = upload(&in->param[i], &t->param[i], &t->param_view[i]);
  for (int i = 0; i < in->tensor_count && done; i++)
    done = upload(&in->tensor[i], &t->tensor[i], &t->tensor_view[i]);
  return done;
}

bool gpu_task_make(const char *text, uint64_t seed, gpu_place x_place, gpu_task *t) {
  memset(t, 0, sizeof *t);
  t->text = text;
  check_context("%s", text);
  if (!CHECK_STATUS(upconv_problem_parse(text, &t->problem, &t->epilogue), UPCONV_OK)) return false;
  CHECK_STATUS(upconv_problem_get_desc(t->problem, &t->desc), UPCONV_OK);
  t->rank = t->desc.spatial_dims + 2;
  if (!CHECK_STATUS(upconv_output_shape(t->problem, t->epilogue, t->y_shape), UPCONV_OK))
    return false;
  t->y_count = product(t->y_shape, t->rank);
  uint64_t random = seed;
  random_inputs_create(&random, t->problem, text, &t->inputs);
  keep_scalars_away_from_0(&t->inputs);
  int64_t shape[UPCONV_MAX_RANK];
  memcpy(shape, t->inputs.x.view.shape, sizeof shape);
  random_tensor_free(&t->inputs.x); /* its place is chosen here */
  if (!gpu_tensor_make(t->desc.x_dtype, t->rank, shape, t->desc.x_layout, x_place, &t->x))
    return false;
  fill(&random, 1, &t->x.host);
  return upload_all(t);
}

static void drop_oracle(gpu_task *t) {
  free(t->value);
  free(t->bound);
  t->value = t->bound = NULL;
}

bool gpu_task_refill(gpu_task *t, uint64_t seed) {
  random_inputs *in = &t->inputs;
  drop_oracle(t);
  fill(&seed, 1, &t->x.host);
  fill(&seed, 0.3, &in->weight.view);
  if (in->bias.buffer) fill(&seed, 0.5, &in->bias.view);
  for (int i = 0; i < in->param_count; i++) fill(&seed, 1, &in->param[i].view);
  for (int i = 0; i < in->tensor_count; i++) fill(&seed, 1, &in->tensor[i].view);
  return upload_all(t);
}

void gpu_task_free(gpu_task *t) {
  drop_oracle(t);
  if (t->problem) random_inputs_free(&t->inputs);
  gpu_tensor_free(&t->x);
  gpu_free(&t->weight);
  gpu_free(&t->bias);
  for (int i = 0; i < MOST_DECLARED; i++) {
    gpu_free(&t->param[i]);
    gpu_free(&t->tensor[i]);
  }
  upconv_problem_destroy(t->problem);
  upconv_epilogue_destroy(t->epilogue);
  memset(t, 0, sizeof *t);
}

/* ---- the oracle ---- */

typedef struct oracle {
  gpu_task *task;
  upconv_error_model model;
  int64_t batch, at_once;
  atomic_llong next;
} oracle;

static upconv_tensor part_of_batch(const upconv_tensor *whole, int64_t batch, int64_t from,
                                   int64_t count) {
  upconv_tensor part = *whole;
  if (whole->shape[0] != batch || batch == 1) return part;
  part.data = (char *)part.data + from * part.stride[0] * (int64_t)upconv_dtype_size(part.dtype);
  part.shape[0] = count;
  return part;
}

static void run_part(oracle *o, int64_t from) {
  gpu_task *t = o->task;
  int64_t rest = o->batch - from, count = rest < o->at_once ? rest : o->at_once;
  int64_t at = t->y_count / o->batch * from;
  upconv_tensor tensors[MOST_DECLARED];
  for (int i = 0; i < t->inputs.tensor_count; i++)
    tensors[i] = part_of_batch(&t->inputs.tensor_view[i], o->batch, from, count);
  upconv_arguments a = {.x = part_of_batch(&t->x.host, o->batch, from, count),
                        .y = {.dtype = t->desc.y_dtype},
                        .tensors = tensors,
                        .tensor_count = t->inputs.tensor_count};
  CHECK_STATUS(upconv_reference(t->problem, t->epilogue, &t->inputs.parameters, &a, &o->model,
                                t->value + at, t->bound + at),
               UPCONV_OK);
}

static void *run_parts(void *argument) {
  oracle *o = argument;
  check_context("%s", o->task->text);
  for (;;) {
    int64_t from = atomic_fetch_add(&o->next, o->at_once);
    if (from >= o->batch) return NULL;
    run_part(o, from);
  }
}

/* Elements where rounding decides are not compared, so there must be few of them. */
static bool few_undecided(const gpu_task *t) {
  int64_t undecided = 0;
  for (int64_t i = 0; i < t->y_count; i++) undecided += isinf(t->bound[i]) ? 1 : 0;
  return CHECK_MSG(undecided * 100 <= t->y_count, "rounding decides %lld of %lld elements",
                   (long long)undecided, (long long)t->y_count);
}

bool gpu_oracle(gpu_task *t) {
  int threads = gpu_cores(), started = 0;
  oracle o = {.task = t, .batch = t->x.host.shape[0]};
  bool f32 = t->desc.x_dtype == UPCONV_F32 || t->desc.w_dtype == UPCONV_F32;
  o.model.tensor_core = !f32 || t->desc.math == UPCONV_MATH_TF32;
  if (f32 && t->desc.math == UPCONV_MATH_TF32) o.model.operand_rounding = 0x1p-11;
  drop_oracle(t);
  t->value = malloc(((size_t)t->y_count + 1) * sizeof(double));
  t->bound = malloc(((size_t)t->y_count + 1) * sizeof(double));
  if (!CHECK(t->value && t->bound)) return false;
  if (t->y_count == 0) return true;
  o.at_once = o.batch / (4 * threads) + 1;
  if (o.batch <= 256) o.at_once = 1;
  atomic_init(&o.next, 0);
  pthread_t thread[MOST_THREADS];
  while (started < threads && started < o.batch &&
         pthread_create(&thread[started], NULL, run_parts, &o) == 0)
    started++;
  if (started == 0) run_parts(&o);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  return few_undecided(t);
}
