/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

#include <stdlib.h>

#include "../checked.h"
#include "../plan.h"
#include "../status.h"
#include "memory.h"
#include "plain_parts.h"

static const struct {
  const char *name;
  const uc_plain_family *family;
} kinds[UC_PLAIN_KINDS] = {
    [UC_PLAIN_ELEMENTWISE] = {"elementwise", &uc_plain_elementwise},
    [UC_PLAIN_COPY] = {"copy", &uc_plain_copy},
    [UC_PLAIN_MAP] = {"map", &uc_plain_map},
    [UC_PLAIN_POOL] = {"pool", &uc_plain_pool},
    [UC_PLAIN_REDUCE] = {"reduce", &uc_plain_reduction},
    [UC_PLAIN_SOFTMAX] = {"softmax", &uc_plain_softmax},
    [UC_PLAIN_MATMUL] = {"matmul", &uc_plain_matmul},
    [UC_PLAIN_GEMM] = {"gemm", &uc_plain_gemm},
    [UC_PLAIN_BATCH_NORM] = {"batch_norm", &uc_plain_batch_norm},
    [UC_PLAIN_INSTANCE_NORM] = {"instance_norm", &uc_plain_instance_norm},
};

/* ---- sets ---- */

upconv_status uc_cuda_plain_set_create(const upconv_context *context, uc_plain_set **set) {
  *set = NULL;
  if (!context || !context->target)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "context: %s is not of CUDA",
                   context ? context->describe : "NULL");
  *set = calloc(1, sizeof **set);
  if (!*set) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a set of kernels");
  (*set)->context = context;
  return UPCONV_OK;
}

void uc_cuda_plain_set_destroy(uc_plain_set *set) {
  if (!set) return;
  uc_plain_modules_free(set);
  free(set);
}

int uc_cuda_plain_set_modules(const uc_plain_set *set) { return set->modules; }

/* ---- checks ---- */

/* Sizes, and the bytes between any two elements, fit 64 bits. */
static bool fits(const uc_plain_view *v) {
  int64_t count, reach = 0, size = (int64_t)uc_plain_dtype_size(v->dtype);
  if (!uc_product(v->shape, v->rank, &count) || count > INT64_MAX / 64) return false;
  for (int i = 0; i < v->rank && count > 0; i++) {
    int64_t span;
    if (v->stride[i] == INT64_MIN) return false;
    if (!uc_mul(v->shape[i] - 1, v->stride[i] < 0 ? -v->stride[i] : v->stride[i], &span) ||
        !uc_add(reach, span, &reach))
      return false;
  }
  return reach <= INT64_MAX / 2 / size;
}

static upconv_status check_view(const uc_plain_view *v, bool result, const char *name) {
  if (uc_plain_dtype_size(v->dtype) == 0)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s.dtype = %d: there is no such type", name,
                   (int)v->dtype);
  if (v->rank < 0 || v->rank > UC_PLAIN_RANK)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s.rank = %d: allowed are 0 to %d", name, v->rank,
                   UC_PLAIN_RANK);
  for (int i = 0; i < v->rank; i++) {
    if (v->shape[i] < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s.shape[%d] = %lld", name, i,
                     (long long)v->shape[i]);
    if (result && v->shape[i] > 1 && v->stride[i] == 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "%s.stride[%d] = 0: elements of a result must not share memory", name, i);
  }
  if (!fits(v)) return uc_fail(UPCONV_OVERFLOW, "%s: its size does not fit 64 bits", name);
  return UPCONV_OK;
}

static upconv_status check_views(const uc_plain_op *op, const uc_plain_family *family) {
  upconv_status status = check_view(&op->out, true, "out");
  for (int k = 0; k < family->most && status == UPCONV_OK; k++) {
    char name[16] = "in[0]";
    name[3] = (char)('0' + k);
    if (op->in[k].dtype == UC_PLAIN_NONE && k >= family->least) continue;
    status = check_view(&op->in[k], false, name);
  }
  return status;
}

/* ---- preparation ---- */

void *uc_plain_new_state(uc_plain *plain, size_t size) {
  plain->state = calloc(1, size);
  if (!plain->state) uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for an operation");
  return plain->state;
}

upconv_status uc_cuda_plain_prepare(uc_plain_set *set, const uc_plain_op *op, uc_plain **plain) {
  *plain = NULL;
  if ((unsigned)op->kind >= UC_PLAIN_KINDS)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "kind = %d: there is no such operation", (int)op->kind);
  const uc_plain_family *family = kinds[op->kind].family;
  upconv_status status = check_views(op, family);
  if (status != UPCONV_OK) return uc_fail_in(status, "%s", kinds[op->kind].name);
  uc_plain *made = calloc(1, sizeof *made);
  if (!made) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for an operation");
  made->set = set;
  made->op = *op;
  made->empty = uc_plain_count(&op->out) == 0;
  status = family->prepare(made);
  for (int i = 0; i < UC_PLAIN_RANK; i++) made->op.map[i] = NULL; /* the caller's */
  if (status != UPCONV_OK) {
    uc_cuda_plain_destroy(made);
    return uc_fail_in(status, "%s", kinds[op->kind].name);
  }
  *plain = made;
  return UPCONV_OK;
}

void uc_cuda_plain_destroy(uc_plain *plain) {
  if (!plain) return;
  if (plain->device_data) uc_cuda_memory_free(plain->set->context, plain->device_data);
  free(plain->state);
  free(plain);
}

size_t uc_cuda_plain_workspace(const uc_plain *plain) {
  return plain->empty ? 0 : plain->workspace;
}

/* ---- runs ---- */

bool uc_plain_is_aligned(const void *address, size_t bytes) {
  return (uintptr_t)address % bytes == 0;
}

int64_t uc_plain_blocks(int64_t items) { return uc_ceil_div(items, UC_PLAIN_THREADS); }

upconv_status uc_plain_launch(const uc_plain *plain, uc_cuda_function function, int64_t blocks,
                              const void *arguments, uc_cuda_stream stream) {
  const uc_cuda_driver *d = plain->set->context->device->driver;
  void *parameters[] = {(void *)(uintptr_t)arguments};
  unsigned grid = (unsigned)uc_min(uc_max(blocks, 1), INT32_MAX);
  return uc_cuda_check(
      d,
      d->cuLaunchKernel(function, grid, 1, 1, UC_PLAIN_THREADS, 1, 1, 0, stream, parameters, NULL),
      "a launch");
}

static upconv_status check_address(const void *address, const uc_plain_view *v, const char *name,
                                   int index) {
  bool empty = v->dtype == UC_PLAIN_NONE || uc_plain_count(v) == 0;
  if (!address && !empty)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s %d is NULL and not empty", name, index);
  if (!empty && !uc_plain_is_aligned(address, uc_plain_dtype_size(v->dtype)))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s %d: its address is no multiple of %zu", name, index,
                   uc_plain_dtype_size(v->dtype));
  return UPCONV_OK;
}

static upconv_status check_call(const uc_plain *p, const uc_plain_call *call) {
  const uc_plain_family *family = kinds[p->op.kind].family;
  upconv_status status = check_address(call->out, &p->op.out, "output", 0);
  for (int k = 0; k < family->most && status == UPCONV_OK; k++)
    if (p->op.in[k].dtype != UC_PLAIN_NONE)
      status = check_address(call->in[k], &p->op.in[k], "input", k);
  if (status != UPCONV_OK || p->workspace == 0) return status;
  if (!call->workspace || !uc_plain_is_aligned(call->workspace, UC_PLAIN_ALIGNMENT))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "workspace: %zu bytes are needed, at a multiple of %d",
                   p->workspace, (int)UC_PLAIN_ALIGNMENT);
  return UPCONV_OK;
}

upconv_status uc_cuda_plain_run(const uc_plain *plain, const void *const *in, void *out,
                                void *workspace, uc_cuda_stream stream) {
  const upconv_context *context = plain->set->context;
  const uc_plain_call call = {in, out, workspace, stream};
  if (!uc_cuda_has_device(context))
    return uc_fail(UPCONV_DEVICE_ERROR, "%s; there is nothing to run on", context->describe);
  if (plain->empty) return UPCONV_OK;
  upconv_status status = check_call(plain, &call);
  if (status == UPCONV_OK) status = uc_cuda_enter(context->device);
  if (status != UPCONV_OK) return uc_fail_in(status, "%s", kinds[plain->op.kind].name);
  status = kinds[plain->op.kind].family->run(plain, &call);
  uc_cuda_leave(context->device);
  return status == UPCONV_OK ? status : uc_fail_in(status, "%s", kinds[plain->op.kind].name);
}
