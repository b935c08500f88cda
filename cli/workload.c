/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "cli.h"
#include "cuda/memory.h"
#include "epilogue.h"
#include "memory.h"
#include "plan.h"
#include "random.h"
#include "status.h"
#include "tensor.h"

/* Memory that workload_destroy frees; NULL and the library's error when there is none. */
static void *allocate(workload *w, size_t size) {
  void **grown = realloc(w->memory, ((size_t)w->memory_count + 1) * sizeof *grown);
  if (grown) w->memory = grown;
  void *data = grown ? memory_allocate(size, &w->memory_size) : NULL;
  if (data)
    w->memory[w->memory_count++] = data;
  else
    uc_fail(UPCONV_OUT_OF_MEMORY, "out of memory: %zu bytes wanted, besides %zu", size,
            w->memory_size);
  return data;
}

/* A dense tensor; its elements are left for the caller to fill. */
static upconv_status make_tensor(workload *w, upconv_dtype dtype, int rank, const int64_t *shape,
                                 upconv_layout layout, upconv_tensor *tensor) {
  int64_t count, bytes;
  if (!uc_product(shape, rank, &count) || !uc_mul(count, (int64_t)upconv_dtype_size(dtype), &bytes))
    return uc_fail(UPCONV_OVERFLOW, "a tensor has more than 2^63 bytes");
  void *data = allocate(w, (size_t)bytes);
  if (!data) return UPCONV_OUT_OF_MEMORY;
  *tensor = upconv_tensor_dense(data, dtype, rank, shape, layout);
  return UPCONV_OK;
}

static size_t tensor_bytes(const upconv_tensor *t) {
  size_t bytes = upconv_dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) bytes *= (size_t)t->shape[i]; /* fits: see make_tensor */
  return bytes;
}

static void fill(workload *w, const upconv_tensor *tensor, double low, double high) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
  for (int64_t i = 0; i < count; i++)
    uc_store(tensor->data, tensor->dtype, i, low + (high - low) * random_unit(&w->seed));
}

static void flip_signs(workload *w, const upconv_tensor *tensor) {
  for (int64_t i = 0; i < (tensor->rank ? tensor->shape[0] : 1); i++) {
    double value = uc_load(tensor->data, tensor->dtype, i);
    if (random_unit(&w->seed) < 0.5) uc_store(tensor->data, tensor->dtype, i, -value);
  }
}

/* The operator that reads a parameter or tensor first, and as which operand; -1: none does. */
static int find_user(const upconv_epilogue *epilogue, upconv_operand_kind kind, int index,
                     int *operand) {
  for (int i = 0; i < epilogue->op_count; i++) {
    for (int k = 0; k < UPCONV_MAX_OPERANDS; k++) {
      const upconv_operand *o = &epilogue->op[i].operand[k];
      if (o->kind != kind || o->index != index) continue;
      *operand = k;
      return i;
    }
  }
  return -1;
}

/* Numbers like those of a network, and of both signs, except for variances. */
static upconv_status make_param(workload *w, int index, int64_t (*shape)[UC_RANK],
                                upconv_tensor *param) {
  const upconv_epilogue *epilogue = w->source->epilogue;
  int operand = 0, user = find_user(epilogue, UPCONV_OPERAND_PARAM, index, &operand);
  bool per_channel = epilogue->param[index].per_channel;
  upconv_status status =
      make_tensor(w, UPCONV_F32, per_channel, &shape[user + 1][1], UPCONV_CHANNELS_FIRST, param);
  if (status != UPCONV_OK) return status;
  fill(w, param, 0.5, 1.5);
  bool variance = user >= 0 && epilogue->op[user].kind == UPCONV_OP_BATCH_NORM && operand == 4;
  if (!variance) flip_signs(w, param);
  return UPCONV_OK;
}

static upconv_status make_extra(workload *w, int index, int64_t (*shape)[UC_RANK],
                                upconv_tensor *tensor) {
  const upconv_epilogue *epilogue = w->source->epilogue;
  const uc_tensor_decl *decl = &epilogue->tensor[index];
  int operand = 0, user = find_user(epilogue, UPCONV_OPERAND_TENSOR, index, &operand);
  int64_t extent[UC_RANK];
  int rank = 0;
  for (int axis = 0; axis < UC_RANK; axis++) {
    if (axis >= 2 && axis < UC_RANK - epilogue->nd) continue; /* an axis the problem lacks */
    extent[rank++] = decl->axes & 1u << axis ? shape[user + 1][axis] : 1;
  }
  upconv_status status =
      make_tensor(w, decl->dtype, rank, extent, w->source->problem->y_layout, tensor);
  if (status == UPCONV_OK) fill(w, tensor, 0, 1);
  return status;
}

static upconv_status make_weights(workload *w) {
  const upconv_problem *p = w->source->problem;
  int64_t shape[UPCONV_MAX_RANK] = {p->in_channels, p->out_channels / p->groups};
  for (int i = 0; i < p->nd; i++) shape[2 + i] = p->axis[UC_AXES - p->nd + i].kernel;
  upconv_status status =
      make_tensor(w, p->w_dtype, p->nd + 2, shape, UPCONV_CHANNELS_FIRST, &w->parameters.weight);
  if (status != UPCONV_OK) return status;
  /* PyTorch's range for new layers. */
  double fan_in = (double)shape[1] * (double)uc_problem_kernel_size(p);
  double bound = 1 / sqrt(fan_in);
  fill(w, &w->parameters.weight, -bound, bound);
  if (!p->bias) return UPCONV_OK;
  status =
      make_tensor(w, UPCONV_F32, 1, &p->out_channels, UPCONV_CHANNELS_FIRST, &w->parameters.bias);
  if (status == UPCONV_OK) fill(w, &w->parameters.bias, -bound, bound);
  return status;
}

/* Parameters and tensors of the epilogue. */
static upconv_status make_operands(workload *w) {
  const upconv_epilogue *epilogue = w->source->epilogue;
  size_t values = (size_t)epilogue->op_count + 1;
  int64_t(*shape)[UC_RANK] = allocate(w, values * sizeof *shape);
  upconv_tensor *params = allocate(w, (size_t)epilogue->param_count * sizeof *params);
  upconv_tensor *tensors = allocate(w, (size_t)epilogue->tensor_count * sizeof *tensors);
  if (!shape || !params || !tensors) return UPCONV_OUT_OF_MEMORY;
  const upconv_problem *p = w->source->problem;
  int64_t in_size[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) in_size[a] = p->axis[a].in_size;
  upconv_status status = uc_problem_conv_shape(p, p->batch, in_size, shape[0]);
  if (status == UPCONV_OK) status = uc_epilogue_shapes(epilogue, shape[0], shape);
  for (int i = 0; i < epilogue->param_count && status == UPCONV_OK; i++)
    status = make_param(w, i, shape, &params[i]);
  for (int i = 0; i < epilogue->tensor_count && status == UPCONV_OK; i++)
    status = make_extra(w, i, shape, &tensors[i]);
  w->parameters.params = params;
  w->parameters.param_count = epilogue->param_count;
  w->arguments.tensors = tensors;
  w->arguments.tensor_count = epilogue->tensor_count;
  return status;
}

static upconv_status make_x_and_y(workload *w) {
  const upconv_problem *p = w->source->problem;
  int64_t x_shape[UPCONV_MAX_RANK] = {p->batch, p->in_channels}, y_shape[UPCONV_MAX_RANK];
  for (int i = 0; i < p->nd; i++) x_shape[2 + i] = p->axis[UC_AXES - p->nd + i].in_size;
  upconv_status status = upconv_output_shape(p, w->source->epilogue, y_shape);
  if (status == UPCONV_OK)
    status = make_tensor(w, p->x_dtype, p->nd + 2, x_shape, p->x_layout, &w->arguments.x);
  if (status == UPCONV_OK)
    status = make_tensor(w, p->y_dtype, p->nd + 2, y_shape, p->y_layout, &w->arguments.y);
  if (status != UPCONV_OK) return status;
  fill(w, &w->arguments.x, 0, 1);
  memset(w->arguments.y.data, 0xff, tensor_bytes(&w->arguments.y)); /* what nobody writes is NaN */
  return UPCONV_OK;
}

static upconv_status make_plan(workload *w, upconv_context *context,
                               const upconv_plan_options *options) {
  upconv_plan_options with_constants = *options;
  with_constants.constants = &w->parameters;
  return upconv_plan_create(context, w->source->problem, w->source->epilogue, &with_constants,
                            &w->plan);
}

/* ---- on a GPU ---- */

static bool has_gpu(const workload *w) { return uc_cuda_has_device(w->context); }

/* Memory where the plan runs. */
static upconv_status allocate_there(workload *w, size_t size, void **memory) {
  if (!has_gpu(w)) {
    *memory = allocate(w, size);
    return *memory ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
  }
  void **grown = realloc(w->device_memory, ((size_t)w->device_count + 1) * sizeof *grown);
  if (!grown) return uc_fail(UPCONV_OUT_OF_MEMORY, "out of memory");
  w->device_memory = grown;
  upconv_status status = uc_cuda_memory_alloc(w->context, size ? size : 1, memory);
  if (status == UPCONV_OK) w->device_memory[w->device_count++] = *memory;
  return status;
}

/* Moves a tensor, which is dense, to the GPU. */
static upconv_status move(workload *w, upconv_tensor *t) {
  const void *from = t->data;
  if (!from) return UPCONV_OK;
  upconv_status status = allocate_there(w, tensor_bytes(t), &t->data);
  if (status != UPCONV_OK) return status;
  return uc_cuda_memory_upload(w->context, t->data, from, tensor_bytes(t), NULL);
}

/* Moves a list of tensors, which is copied before. */
static upconv_status move_all(workload *w, const upconv_tensor *from, int count,
                              const upconv_tensor **to) {
  upconv_tensor *there = allocate(w, (size_t)count * sizeof *there);
  if (!there) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < count && status == UPCONV_OK; i++) {
    there[i] = from[i];
    status = move(w, &there[i]);
  }
  *to = there;
  return status;
}

static upconv_status move_workload(workload *w) {
  upconv_parameters *p = &w->parameters_there;
  upconv_arguments *a = &w->arguments_there;
  upconv_status status = move(w, &p->weight);
  if (status == UPCONV_OK) status = move(w, &p->bias);
  if (status == UPCONV_OK) status = move_all(w, p->params, p->param_count, &p->params);
  if (status == UPCONV_OK) status = move(w, &a->x);
  if (status == UPCONV_OK) status = move(w, &a->y);
  if (status == UPCONV_OK) status = move_all(w, a->tensors, a->tensor_count, &a->tensors);
  return status;
}

/* ---- the whole ---- */

static upconv_status prepare(workload *w) {
  void *packed;
  upconv_arguments *a = &w->arguments_there;
  w->parameters_there = w->parameters;
  *a = w->arguments;
  upconv_status status = has_gpu(w) ? move_workload(w) : UPCONV_OK;
  if (status == UPCONV_OK) status = allocate_there(w, upconv_plan_packed_size(w->plan), &packed);
  if (status != UPCONV_OK) return status;
  a->packed = packed;
  status = upconv_plan_pack(w->plan, &w->parameters_there, packed, NULL);
  if (status == UPCONV_OK)
    status = upconv_plan_workspace_size(w->plan, a->x.shape, &a->workspace_size);
  if (status != UPCONV_OK) return status;
  return allocate_there(w, a->workspace_size, &a->workspace);
}

int workload_create(upconv_context *context, const problem_text *source,
                    const upconv_plan_options *options, workload *w) {
  *w = (workload){.source = source, .seed = 1, .context = context};
  upconv_status status = make_weights(w);
  if (status == UPCONV_OK) status = make_operands(w);
  if (status == UPCONV_OK) status = make_plan(w, context, options);
  if (status == UPCONV_OK) status = make_x_and_y(w);
  if (status == UPCONV_OK) status = prepare(w);
  return status == UPCONV_OK ? CLI_RIGHT : cli_fail_library(source->text);
}

void workload_destroy(workload *w) {
  upconv_plan_destroy(w->plan);
  for (int i = 0; i < w->device_count; i++) uc_cuda_memory_free(w->context, w->device_memory[i]);
  free(w->device_memory);
  for (int i = 0; i < w->memory_count; i++) free(w->memory[i]);
  free(w->memory);
  *w = (workload){0};
}

bool workload_execute(void *data) {
  const workload *w = data;
  return upconv_execute(w->plan, &w->arguments_there) == UPCONV_OK;
}

static upconv_status fetch_y(const workload *w) {
  const upconv_tensor *y = &w->arguments.y;
  if (!has_gpu(w)) return UPCONV_OK;
  upconv_status status = uc_cuda_memory_download(w->context, y->data, w->arguments_there.y.data,
                                                 tensor_bytes(y), NULL);
  return status == UPCONV_OK ? uc_cuda_stream_wait(w->context, NULL) : status;
}

upconv_status workload_verify(const workload *w, double *worst) {
  int64_t count;
  if (!uc_product(w->arguments.y.shape, w->arguments.y.rank, &count)) return UPCONV_OVERFLOW;
  size_t total = w->memory_size;
  double *value = count < PTRDIFF_MAX / 16 ? memory_allocate((size_t)count * 16, &total) : NULL;
  if (!value) return uc_fail(UPCONV_OUT_OF_MEMORY, "out of memory for the float64 oracle");
  double *bound = value + count;
  const upconv_error_model model = uc_plan_error_model(w->plan);
  upconv_status status = fetch_y(w);
  if (status == UPCONV_OK)
    status = upconv_reference(w->source->problem, w->source->epilogue, &w->parameters,
                              &w->arguments, &model, value, bound);
  if (status == UPCONV_OK) status = upconv_compare(&w->arguments.y, value, bound, worst, NULL);
  free(value);
  return status;
}
