/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations outside of segments. */
#include <math.h>
#include <string.h>

#include "../status.h"
#include "ops.h"
#include "rows.h"

static upconv_status check_channels(uc_onnx_program *p, const uc_onnx_task *t, int inputs) {
  const uc_value *x = uc_task_in(p, t, 0);
  if (x->rank < 2)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "the input has rank %d; it must be at least 2",
                   x->rank);
  for (int k = 1; k < inputs; k++) {
    const uc_value *v = uc_task_in(p, t, k);
    upconv_status status = uc_task_is_float(p, t, k);
    if (status) return status;
    if (!v || v->rank != 1 || v->shape[0] != x->shape[1])
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "input %d does not hold one number for each of the "
                     "%lld channels",
                     k, (long long)x->shape[1]);
  }
  return uc_task_is_float(p, t, 0);
}

/* ---- BatchNormalization, inference ---- */

upconv_status uc_plan_batch_norm(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *x = uc_task_in(p, t, 0);
  int64_t training, spatial, is_test;
  upconv_status status = uc_task_float(t, "epsilon", 1e-5, &t->attr[0]);
  if (!status) status = uc_task_int(t, "training_mode", 0, &training);
  if (!status) status = uc_task_int(t, "spatial", 1, &spatial);
  /* Before operator set 7 training was the default. */
  if (!status) status = uc_task_int(t, "is_test", p->model->opset >= 7, &is_test);
  if (!status) status = check_channels(p, t, 5);
  if (status) return status;
  if (training) return uc_fail(UPCONV_UNSUPPORTED, "attribute 'training_mode' is not 0");
  if (!is_test) return uc_fail(UPCONV_UNSUPPORTED, "attribute 'is_test' is 0: training");
  if (!spatial) return uc_fail(UPCONV_UNSUPPORTED, "attribute 'spatial' is 0");
  return uc_set_result(p, t, 0, x->dtype, x->rank, x->shape);
}

/* A vector of channels as a view that is broadcast along the spatial axes. */
static uc_view along_channels(const uc_view *vector, int rank) {
  uc_view view = *vector;
  view.rank = rank - 1;
  for (int i = 1; i < view.rank; i++) view.shape[i] = 1;
  return view;
}

void uc_run_batch_norm(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  uc_view vectors[4];
  const uc_view *views[6] = {out, &in[0]};
  for (int k = 0; k < 4; k++) {
    vectors[k] = along_channels(&in[1 + k], out->rank);
    views[2 + k] = &vectors[k];
  }
  double row[5][UC_ROW]; /* x, scale, bias, mean, variance */
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 6, views); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      for (int k = 0; k < 5; k++)
        uc_row_load(row[k], views[1 + k], walk.at[1 + k] + done * walk.step[1 + k],
                    walk.step[1 + k], n);
      for (int64_t i = 0; i < n; i++)
        row[0][i] = (row[0][i] - row[3][i]) / sqrt(row[4][i] + t->attr[0]) * row[1][i] + row[2][i];
      uc_row_store(out, walk.at[0] + done * walk.step[0], walk.step[0], row[0], n);
    }
}

/* ---- InstanceNormalization ---- */

upconv_status uc_plan_instance_norm(uc_onnx_program *p, uc_onnx_task *t) {
  const uc_value *x = uc_task_in(p, t, 0);
  upconv_status status = uc_task_float(t, "epsilon", 1e-5, &t->attr[0]);
  if (!status) status = check_channels(p, t, 3);
  return status ? status : uc_set_result(p, t, 0, x->dtype, x->rank, x->shape);
}

/* The elements of one channel of one item, in rows; what is done with them is in `moment`. */
static double mean_power(const uc_view *view, double shift, int power) {
  double sum = 0, row[UC_ROW];
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 1, &view); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      uc_row_load(row, view, walk.at[0] + done * walk.step[0], walk.step[0], n);
      for (int64_t i = 0; i < n; i++)
        sum += power == 1 ? row[i] : (row[i] - shift) * (row[i] - shift);
    }
  return sum / (double)uc_shape_count(view->rank, view->shape);
}

static void affine(const uc_view *in, const uc_view *out, double shift, double scale, double bias) {
  const uc_view *views[] = {out, in};
  double row[UC_ROW];
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 2, views); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      int64_t n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      uc_row_load(row, in, walk.at[1] + done * walk.step[1], walk.step[1], n);
      for (int64_t i = 0; i < n; i++) row[i] = (row[i] - shift) * scale + bias;
      uc_row_store(out, walk.at[0] + done * walk.step[0], walk.step[0], row, n);
    }
}

/* The view of channel c of item n. */
static uc_view channel_of(const uc_view *view, int64_t n, int64_t c) {
  uc_view part = *view;
  part.shape[0] = part.shape[1] = 1;
  part.data = (char *)view->data + (n * view->stride[0] + c * view->stride[1]) *
                                       (int64_t)uc_onnx_dtype_size(view->dtype);
  return part;
}

void uc_run_instance_norm(const uc_onnx_task *t, const uc_view *in, const uc_view *out) {
  for (int64_t n = 0; n < out->shape[0]; n++)
    for (int64_t c = 0; c < out->shape[1]; c++) {
      uc_view from = channel_of(&in[0], n, c), to = channel_of(out, n, c);
      double mean = mean_power(&from, 0, 1), variance = mean_power(&from, mean, 2);
      double scale = uc_onnx_get(in[1].data, in[1].dtype, c * in[1].stride[0]);
      double bias = uc_onnx_get(in[2].data, in[2].dtype, c * in[2].stride[0]);
      affine(&from, &to, mean, scale / sqrt(variance + t->attr[0]), bias);
    }
}
