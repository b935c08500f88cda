/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that pools and convolutions share. */
#include <string.h>

#include "../checked.h"
#include "../status.h"
#include "ops.h"

/* Sizes are bounded, so that products of a few of them fit 64 bits. */
static const int64_t LARGEST = INT64_C(1) << 30;

static upconv_status read_positive(const uc_onnx_task *t, const char *name, int nd, int64_t *values,
                                   bool *given) {
  int count;
  upconv_status status = uc_task_ints(t, name, UPCONV_MAX_SPATIAL, values, &count);
  if (status) return status;
  *given = count > 0;
  if (count != 0 && count != nd)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "attribute '%s' has %d entries; there are %d axes",
                   name, count, nd);
  for (int i = 0; i < nd; i++) {
    if (!*given) values[i] = 1;
    if (values[i] < 1 || values[i] > LARGEST)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s[%d] is %lld; allowed: 1 to %lld", name, i,
                     (long long)values[i], (long long)LARGEST);
  }
  return UPCONV_OK;
}

static upconv_status read_pads(const uc_onnx_task *t, uc_window_attrs *w) {
  int64_t pads[2 * UPCONV_MAX_SPATIAL];
  int count;
  upconv_status status = uc_task_ints(t, "pads", 2 * UPCONV_MAX_SPATIAL, pads, &count);
  if (status) return status;
  if (count != 0 && count != 2 * w->nd)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "attribute 'pads' has %d entries; there are %d axes",
                   count, w->nd);
  for (int i = 0; i < count; i++)
    if (pads[i] < -LARGEST || pads[i] > LARGEST)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "pads[%d] is %lld; allowed: up to %lld", i,
                     (long long)pads[i], (long long)LARGEST);
  for (int i = 0; i < w->nd && count; i++) {
    w->pad_begin[i] = pads[i];
    w->pad_end[i] = pads[w->nd + i];
  }
  return UPCONV_OK;
}

static upconv_status read_auto_pad(const uc_onnx_task *t, upconv_auto_pad *mode) {
  static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  const char *text;
  upconv_status status = uc_task_string(t, "auto_pad", "NOTSET", &text);
  for (int i = 0; i < 4 && !status; i++)
    if (strcmp(text, names[i]) == 0) {
      *mode = (upconv_auto_pad)i;
      return UPCONV_OK;
    }
  return status ? status
                : uc_fail(UPCONV_INVALID_ARGUMENT,
                          "attribute 'auto_pad' is '%.40s'; allowed: NOTSET, VALID, SAME_UPPER, "
                          "SAME_LOWER",
                          text);
}

upconv_status uc_read_window(const uc_onnx_task *t, int rank, uc_window_attrs *w) {
  bool given;
  *w = (uc_window_attrs){.nd = rank - 2};
  if (w->nd < 1 || w->nd > UPCONV_MAX_SPATIAL)
    return uc_fail(UPCONV_UNSUPPORTED, "the input has rank %d; supported: 3 to %d", rank,
                   UPCONV_MAX_SPATIAL + 2);
  upconv_status status = read_positive(t, "kernel_shape", w->nd, w->kernel, &w->has_kernel);
  if (!status) status = read_positive(t, "strides", w->nd, w->stride, &given);
  if (!status) status = read_positive(t, "dilations", w->nd, w->dilation, &given);
  if (!status) status = read_pads(t, w);
  if (!status) status = read_auto_pad(t, &w->auto_pad);
  return status;
}

upconv_status uc_resolve_auto_pad(uc_window_attrs *w, const int64_t *size) {
  for (int i = 0; i < w->nd && w->auto_pad != UPCONV_PAD_NOTSET; i++) {
    int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1, out = 0, total = 0;
    if (w->auto_pad != UPCONV_PAD_VALID && size[i] > 0) {
      out = uc_ceil_div(size[i], w->stride[i]);
      if (!uc_mul(out - 1, w->stride[i], &total) || !uc_add(total, reach - size[i], &total))
        return uc_fail(UPCONV_OVERFLOW, "the padding of axis %d does not fit 64 bits", i);
      total = uc_max(total, 0);
    }
    bool upper = w->auto_pad == UPCONV_PAD_SAME_UPPER;
    w->pad_begin[i] = upper ? total / 2 : total - total / 2;
    w->pad_end[i] = total - w->pad_begin[i];
  }
  w->auto_pad = UPCONV_PAD_NOTSET;
  return UPCONV_OK;
}
