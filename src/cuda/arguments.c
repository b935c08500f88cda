/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <string.h>

void uc_cuda_put(uc_cuda_arguments *a, const void *data, size_t size) {
  size_t unit = size < 8 ? size : 8;
  a->length = (a->length + unit - 1) / unit * unit;
  memcpy(a->bytes + a->length, data, size);
  a->length += size;
}

void uc_cuda_put_int(uc_cuda_arguments *a, int64_t value) {
  int32_t v = (int32_t)value;
  uc_cuda_put(a, &v, sizeof v);
}

void uc_cuda_put_i64(uc_cuda_arguments *a, int64_t value) { uc_cuda_put(a, &value, sizeof value); }

static bool is_broadcast(const upconv_tensor *t, int i) {
  return t->stride[i] == 0 && t->shape[i] == 1;
}

/* Coordinates in a kernel are those of the whole tensor, so the origin is moved back by the offset. */
void uc_cuda_put_view(uc_cuda_arguments *a, const upconv_tensor *t, bool may_broadcast) {
  int64_t origin = 0;
  for (int i = 0; i < UC_RANK; i++) origin -= t->offset[i] * t->stride[i];
  uc_cuda_put_i64(a, (int64_t)(intptr_t)t->data + origin * (int64_t)upconv_dtype_size(t->dtype));
  for (int i = 0; i < UC_RANK; i++) uc_cuda_put_i64(a, t->stride[i]);
  /* where it is broadcast, it holds everything; an x of extent 1 is not broadcast, whatever its stride */
  for (int i = 1; i < UC_RANK; i++)
    uc_cuda_put_int(a, may_broadcast && is_broadcast(t, i) ? INT32_MIN : t->offset[i]);
  for (int i = 1; i < UC_RANK; i++)
    uc_cuda_put_int(a,
                    may_broadcast && is_broadcast(t, i) ? INT32_MAX : t->offset[i] + t->shape[i]);
}
