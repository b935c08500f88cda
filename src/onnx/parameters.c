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

/* [out, in / groups, K...] as [in, out / groups, K...], flipped: with groups apart, the same
   elements under other strides. */
static uc_view transposed_view(const upconv_problem_desc *d, const uc_view *from) {
  int64_t group_in = d->in_channels / d->groups, group_out = d->out_channels / d->groups;
  int64_t at = 0;
  uc_view view = {.dtype = from->dtype, .rank = d->spatial_dims + 3};
  view.shape[0] = d->groups;
  view.shape[1] = group_in;
  view.shape[2] = group_out;
  view.stride[0] = group_out * from->stride[0];
  view.stride[1] = from->stride[1];
  view.stride[2] = from->stride[0];
  for (int a = 0; a < d->spatial_dims; a++) {
    view.shape[3 + a] = d->kernel[a];
    view.stride[3 + a] = -from->stride[2 + a];
    at += (d->kernel[a] - 1) * from->stride[2 + a];
  }
  view.data = (char *)from->data + at * (int64_t)uc_onnx_dtype_size(from->dtype);
  return view;
}

size_t uc_parameters_room(const uc_segment *s, uc_onnx_dtype dtype) {
  const upconv_problem_desc *d = &s->desc;
  int64_t count = d->in_channels * (d->out_channels / d->groups);
  for (int a = 0; a < d->spatial_dims; a++) count *= d->kernel[a];
  return s->conv ? (size_t)count * uc_onnx_dtype_size(dtype) : 0;
}

/* A Conv's weights in the transposed form. Bits are moved, so the type does not matter. */
static upconv_status transpose_weights(const uc_segment *s, const uc_device *device, void *room,
                                       upconv_tensor *weight, const uc_view *given) {
  const upconv_problem_desc *d = &s->desc;
  uc_view from = transposed_view(d, given), to = from;
  to.data = room;
  uc_dense_strides(to.rank, to.shape, to.stride);
  int64_t shape[UPCONV_MAX_RANK] = {d->in_channels, d->out_channels / d->groups};
  memcpy(shape + 2, d->kernel, sizeof d->kernel);
  *weight =
      upconv_tensor_dense(room, weight->dtype, d->spatial_dims + 2, shape, UPCONV_CHANNELS_FIRST);
  return device->kind->copy(device, &from, &to);
}

upconv_status uc_parameters_make(const uc_segment *s, const uc_device *device,
                                 uc_view_function view, const void *context, void *room,
                                 uc_parameters *parameters) {
  *parameters = (uc_parameters){.params = uc_onnx_new(s->param_count, sizeof(upconv_tensor))};
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
  uc_view weight = view(context, s->weight);
  parameters->given.weight = plain_tensor(&weight);
  upconv_status status = UPCONV_OK;
  if (s->conv && !room) {
    parameters->device = device;
    status =
        device->kind->allocate(device, uc_parameters_room(s, weight.dtype), &parameters->weight);
    room = parameters->weight;
  }
  if (s->conv && !status)
    status = transpose_weights(s, device, room, &parameters->given.weight, &weight);
  if (status) uc_parameters_free(parameters);
  return status;
}

void uc_parameters_free(uc_parameters *parameters) {
  free(parameters->params);
  if (parameters->device) parameters->device->kind->release(parameters->device, parameters->weight);
  *parameters = (uc_parameters){.params = NULL};
}
