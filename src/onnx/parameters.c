/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the graph as tensors of the library. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "plans.h"

upconv_tensor uc_source_tensor(const uc_onnx_source *source, int nd, const uc_view *view) {
  upconv_tensor tensor = {.data = view->data, .rank = nd + 2};
  (void)uc_onnx_engine_dtype(view->dtype, &tensor.dtype);
  for (int axis = 0; axis < nd + 2; axis++) {
    int dim = source->dim[axis];
    tensor.shape[axis] = dim < 0 ? 1 : view->shape[dim];
    tensor.stride[axis] = dim < 0 ? 1 : view->stride[dim];
  }
  return tensor;
}

static upconv_tensor plain_tensor(const uc_view *view) {
  upconv_tensor tensor = {.data = view->data, .rank = view->rank};
  (void)uc_onnx_engine_dtype(view->dtype, &tensor.dtype);
  for (int i = 0; i < view->rank; i++) {
    tensor.shape[i] = view->shape[i];
    tensor.stride[i] = view->stride[i];
  }
  return tensor;
}

/* One number, or one per channel. */
static upconv_tensor param_tensor(const uc_onnx_source *source, const uc_view *view) {
  upconv_tensor tensor = {.data = view->data};
  (void)uc_onnx_engine_dtype(view->dtype, &tensor.dtype);
  int dim = source->dim[1];
  if (!source->per_channel) return tensor;
  tensor.rank = 1;
  tensor.shape[0] = view->shape[dim];
  tensor.stride[0] = view->stride[dim];
  return tensor;
}

uc_view uc_constant_of_program(const void *program, int value) {
  return uc_constant_view(&((const uc_onnx_program *)program)->value[value]);
}

/* [out, in / groups, K...] to [in, out / groups, K...], flipped. Bits are moved, so the type
   does not matter. */
static upconv_status transpose_weights(const uc_segment *s, const uc_view *from,
                                       uc_parameters *parameters) {
  const upconv_problem_desc *d = &s->desc;
  size_t size = uc_onnx_dtype_size(from->dtype);
  int64_t shape[UPCONV_MAX_RANK] = {d->in_channels, d->out_channels / d->groups, 1, 1, 1};
  int64_t k[3] = {1, 1, 1}, stride[3] = {0, 0, 0}, i[3];
  int nd = d->spatial_dims;
  for (int a = 0; a < nd; a++) {
    k[3 - nd + a] = shape[2 + a] = d->kernel[a];
    stride[3 - nd + a] = from->stride[2 + a];
  }
  char *to = uc_onnx_new(uc_shape_count(nd + 2, shape), size);
  if (!to) return UPCONV_OUT_OF_MEMORY;
  parameters->weight = to;
  int64_t group_in = d->in_channels / d->groups, group_out = shape[1];
  for (int64_t in = 0; in < d->in_channels; in++)
    for (int64_t out = 0; out < group_out; out++)
      for (i[0] = k[0] - 1; i[0] >= 0; i[0]--)
        for (i[1] = k[1] - 1; i[1] >= 0; i[1]--)
          for (i[2] = k[2] - 1; i[2] >= 0; i[2]--, to += size) {
            int64_t at = (in / group_in * group_out + out) * from->stride[0] +
                         in % group_in * from->stride[1];
            for (int a = 0; a < 3; a++) at += i[a] * stride[a];
            memcpy(to, (const char *)from->data + at * (int64_t)size, size);
          }
  upconv_dtype dtype = UPCONV_F32;
  (void)uc_onnx_engine_dtype(from->dtype, &dtype);
  parameters->given.weight =
      upconv_tensor_dense(parameters->weight, dtype, nd + 2, shape, UPCONV_CHANNELS_FIRST);
  return UPCONV_OK;
}

upconv_status uc_parameters_make(const uc_segment *s, uc_view_function view, const void *context,
                                 uc_parameters *parameters) {
  *parameters = (uc_parameters){.weight = NULL};
  uc_view weight = view(context, s->weight);
  parameters->params = uc_onnx_new(s->param_count, sizeof *parameters->params);
  if (!parameters->params) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < s->param_count; i++) {
    uc_view param = view(context, s->param[i].value);
    parameters->params[i] = param_tensor(&s->param[i], &param);
  }
  parameters->given.params = parameters->params;
  parameters->given.param_count = s->param_count;
  if (s->bias >= 0) {
    uc_view bias = view(context, s->bias);
    parameters->given.bias = plain_tensor(&bias);
  }
  parameters->given.weight = plain_tensor(&weight);
  upconv_status status = s->conv ? transpose_weights(s, &weight, parameters) : UPCONV_OK;
  if (status) uc_parameters_free(parameters);
  return status;
}

void uc_parameters_free(uc_parameters *parameters) {
  free(parameters->params);
  free(parameters->weight);
  *parameters = (uc_parameters){.weight = NULL};
}
