/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs to measure with: dense, in the layouts that the problem names, random and the same each time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "status.h"
#include "tensor.h"
#include "tune.h"

/* Elements that are made; larger tensors repeat them. What is computed does not depend on it, and nothing is as fast. */
enum { BLOCK = 1 << 16 };

static upconv_status allocate(uc_tune_data *d, size_t bytes, void **memory) {
  if (d->memory_count == d->memory_capacity) {
    int capacity = d->memory_capacity ? 2 * d->memory_capacity : 16;
    void **grown = realloc(d->memory, (size_t)capacity * sizeof *grown);
    if (!grown) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
    d->memory = grown;
    d->memory_capacity = capacity;
  }
  upconv_status status = d->meter->kind->allocate(d->meter, bytes, memory);
  if (status == UPCONV_OK) d->memory[d->memory_count++] = *memory;
  return status;
}

static double random_unit(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 40) * 0x1p-24;
}

static upconv_status fill(uc_tune_data *d, const upconv_tensor *t, size_t bytes, double low,
                          double high) {
  size_t size = upconv_dtype_size(t->dtype), block_bytes = BLOCK * size;
  void *block = malloc(block_bytes);
  if (!block) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  uint64_t state = bytes;
  for (int64_t i = 0; i < BLOCK; i++)
    uc_store(block, t->dtype, i, low + (high - low) * random_unit(&state));
  upconv_status status = UPCONV_OK;
  for (size_t at = 0; at < bytes && status == UPCONV_OK; at += block_bytes) {
    size_t part = bytes - at < block_bytes ? bytes - at : block_bytes;
    status = d->meter->kind->upload(d->meter, (char *)t->data + at, block, part);
  }
  free(block);
  return status;
}

/* A dense tensor of random numbers in [low, high). */
static upconv_status make(uc_tune_data *d, upconv_dtype dtype, int rank, const int64_t *shape,
                          upconv_layout layout, double low, double high, upconv_tensor *tensor) {
  int64_t count, bytes;
  void *memory = NULL;
  if (!uc_product(shape, rank, &count) || !uc_mul(count, (int64_t)upconv_dtype_size(dtype), &bytes))
    return uc_fail(UPCONV_OVERFLOW, "a tensor has more than 2^63 bytes");
  upconv_status status = allocate(d, (size_t)bytes, &memory);
  if (status != UPCONV_OK) return status;
  *tensor = upconv_tensor_dense(memory, dtype, rank, shape, layout);
  return fill(d, tensor, (size_t)bytes, low, high);
}

/* Numbers like those of a network; what follows the sums stays finite. */
static upconv_status make_weights(const upconv_problem *p, uc_tune_data *d) {
  int64_t shape[UPCONV_MAX_RANK] = {p->in_channels, p->out_channels / p->groups};
  for (int i = 0; i < p->nd; i++) shape[2 + i] = p->axis[UC_AXES - p->nd + i].kernel;
  double bound = 1 / sqrt((double)shape[1] * (double)uc_problem_kernel_size(p));
  upconv_status status = make(d, p->w_dtype, p->nd + 2, shape, UPCONV_CHANNELS_FIRST, -bound, bound,
                              &d->parameters.weight);
  if (status != UPCONV_OK || !p->bias) return status;
  return make(d, UPCONV_F32, 1, &p->out_channels, UPCONV_CHANNELS_FIRST, -bound, bound,
              &d->parameters.bias);
}

/* Positive, since one may be a variance. */
static upconv_status make_params(const uc_lowered *l, uc_tune_data *d) {
  int count = l->source_tail->param_count;
  upconv_tensor *param = calloc((size_t)count + 1, sizeof *param);
  if (!param) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  d->parameters.params = param;
  d->parameters.param_count = count;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < count && status == UPCONV_OK; i++) {
    int64_t size = uc_max(1, l->param[i].size);
    status = make(d, UPCONV_F32, l->param[i].per_channel, &size, UPCONV_CHANNELS_FIRST, 0.5, 1.5,
                  &param[i]);
  }
  return status;
}

/* The value that an extra tensor is combined with first; the convolution's where nothing reads it. */
static int user_of(const upconv_epilogue *tail, int tensor) {
  for (int k = 0; k < tail->op_count; k++)
    for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
      if (tail->op[k].operand[i].kind == UPCONV_OPERAND_TENSOR &&
          tail->op[k].operand[i].index == tensor)
        return k + 1;
  return 0;
}

/* The extents that a problem has: those of canonical axes that are there. */
static int user_axes(const int64_t canonical[UC_RANK], int nd, int64_t user[UPCONV_MAX_RANK]) {
  int rank = 0;
  for (int i = 0; i < UC_RANK; i++)
    if (i < 2 || i >= UC_RANK - nd) user[rank++] = canonical[i];
  return rank;
}

static upconv_status make_tensors(const uc_lowered *l, const int64_t (*shape)[UC_RANK],
                                  uc_tune_data *d) {
  const upconv_epilogue *tail = l->source_tail;
  upconv_tensor *tensor = calloc((size_t)tail->tensor_count + 1, sizeof *tensor);
  if (!tensor) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  d->arguments.tensors = tensor;
  d->arguments.tensor_count = tail->tensor_count;
  upconv_status status = UPCONV_OK;
  for (int t = 0; t < tail->tensor_count && status == UPCONV_OK; t++) {
    const uc_tensor_decl *decl = &tail->tensor[t];
    int64_t extent[UC_RANK], user[UPCONV_MAX_RANK];
    for (int i = 0; i < UC_RANK; i++)
      extent[i] = decl->axes >> i & 1 ? shape[user_of(tail, t)][i] : 1;
    int rank = user_axes(extent, tail->nd, user);
    status = make(d, decl->dtype, rank, user, l->source.y_layout, 0, 1, &tensor[t]);
  }
  return status;
}

static upconv_status make_x_and_y(const uc_lowered *l, const int64_t y_shape[UC_RANK],
                                  uc_tune_data *d) {
  const upconv_problem *p = &l->source;
  int64_t x[UC_RANK] = {p->batch, p->in_channels}, user[UPCONV_MAX_RANK];
  for (int a = 0; a < UC_AXES; a++) x[a + 2] = p->axis[a].in_size;
  int rank = user_axes(x, p->nd, user);
  upconv_status status = make(d, p->x_dtype, rank, user, p->x_layout, 0, 1, &d->arguments.x);
  if (status != UPCONV_OK) return status;
  user_axes(y_shape, p->nd, user);
  return make(d, p->y_dtype, rank, user, p->y_layout, 0, 1, &d->arguments.y);
}

static upconv_status source_shapes(const uc_lowered *l, int64_t (*shape)[UC_RANK]) {
  const upconv_problem *p = &l->source;
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = p->axis[a].in_size;
  upconv_status status = uc_problem_conv_shape(p, p->batch, in_size, shape[0]);
  return status ? status : uc_epilogue_shapes(l->source_tail, shape[0], shape);
}

upconv_status uc_tune_data_make(const upconv_plan *plan, uc_meter *meter, uc_tune_data *data) {
  const uc_lowered *l = &plan->lowered;
  *data = (uc_tune_data){.meter = meter};
  int64_t(*shape)[UC_RANK] = calloc((size_t)l->source_tail->op_count + 1, sizeof *shape), count = 0;
  if (!shape) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for shapes");
  const int64_t(*shapes)[UC_RANK] = (const int64_t(*)[UC_RANK])shape;
  const int64_t *y_shape = shapes[l->source_tail->op_count];
  upconv_status status = source_shapes(l, shape);
  if (status == UPCONV_OK && uc_product(y_shape, UC_RANK, &count) && count == 0)
    status = uc_fail(UPCONV_INVALID_ARGUMENT,
                     "problem: its output is empty, so there is nothing to measure");
  if (status == UPCONV_OK) status = make_weights(&l->source, data);
  if (status == UPCONV_OK) status = make_params(l, data);
  if (status == UPCONV_OK) status = make_tensors(l, shapes, data);
  if (status == UPCONV_OK) status = make_x_and_y(l, y_shape, data);
  free(shape);
  return status;
}

void uc_tune_data_free(uc_tune_data *data) {
  for (int i = 0; i < data->memory_count; i++)
    data->meter->kind->release(data->meter, data->memory[i]);
  free(data->memory);
  free((void *)data->parameters.params);
  free((void *)data->arguments.tensors);
  *data = (uc_tune_data){0};
}
