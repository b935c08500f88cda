/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's auto_pad and output_shape.
 *
 * The rule, per axis, as ConvTranspose-22 states it (and -1 and -11, whose text was corrected):
 *
 *   natural = s (I - 1) + op + d (K - 1) + 1
 *   wanted  = output_shape if given; else I s for SAME_UPPER and SAME_LOWER; else natural, with the
 *             pads as given (NOTSET) or none (VALID)
 *   total   = natural - wanted
 *   begin   = total / 2 for SAME_UPPER, else total - total / 2, also for NOTSET and VALID
 *   end     = total - begin
 *
 * So the odd element goes to the end for SAME_UPPER and to the beginning otherwise. output_shape
 * overrides pads.
 *
 * History. An earlier text had the two cases of an odd total the other way round in its formula,
 * against its own description of auto_pad (onnx issue 1609, pull request 3019), and SAME meant
 * wanted = I (onnx issue 3153). ONNX Runtime kept the old formula for the odd element until 1.13
 * (onnxruntime pull request 12537); a model made for an older one may be off by one element there.
 *
 * Where the text is silent, which is a wanted size above the natural one, this follows ONNX Runtime
 * (1.32) and the operator's shape inference: padding is never negative, so
 *   - SAME_* leaves the natural size, which is less than I s then (d (K - 1) + 1 + op < s);
 *   - output_shape is met by more elements at the end, without products unless taps reach there, as
 *     the operator's node test wants it. Here that is a negative pad_end. An excess of s or more is
 *     refused: no convolution would map such an output to this input.
 */
#include "checked.h"
#include "problem.h"
#include "status.h"

static const char *axis_label(int i, int nd) {
  static const char *const label[UC_AXES] = {"depth", "height", "width"};
  return label[UC_AXES - nd + i];
}

/* Pads of one axis: natural size and wanted size decide. */
static upconv_status split(const upconv_problem_desc *desc, int i, upconv_auto_pad mode,
                           const int64_t *output_shape, int64_t *begin, int64_t *end) {
  const uc_axis axis = {.in_size = desc->in_size[i],
                        .kernel = desc->kernel[i],
                        .stride = desc->stride[i],
                        .dilation = desc->dilation[i],
                        .output_padding = desc->output_padding[i]};
  int64_t natural;
  upconv_status status = uc_axis_check(&axis, UC_AXES - desc->spatial_dims + i);
  if (status) return status;
  if (!uc_axis_output(&axis, axis.in_size, &natural))
    return uc_fail(UPCONV_OVERFLOW, "the output size along %s does not fit 64 bits",
                   axis_label(i, desc->spatial_dims));
  int64_t wanted = output_shape ? output_shape[i] : axis.in_size * axis.stride;
  if (wanted < 0 || (output_shape && wanted - natural >= axis.stride))
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "output_shape along %s is %lld; allowed: 0 to %lld, the size without padding "
                   "plus stride - 1",
                   axis_label(i, desc->spatial_dims), (long long)wanted,
                   (long long)(natural + axis.stride - 1));
  int64_t total = uc_max(0, natural - wanted);
  *begin = mode == UPCONV_PAD_SAME_UPPER ? total / 2 : total - total / 2;
  *end = total - *begin;
  if (output_shape && wanted > natural) *end = natural - wanted;
  return UPCONV_OK;
}

upconv_status upconv_problem_desc_auto_pad(upconv_problem_desc *desc, upconv_auto_pad mode,
                                           const int64_t *output_shape) {
  if (!desc) return uc_fail(UPCONV_INVALID_ARGUMENT, "desc is NULL");
  if (desc->spatial_dims < 1 || desc->spatial_dims > UPCONV_MAX_SPATIAL)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "spatial_dims is %d; allowed: 1, 2, 3",
                   desc->spatial_dims);
  bool same = mode == UPCONV_PAD_SAME_UPPER || mode == UPCONV_PAD_SAME_LOWER;
  if (!same && mode != UPCONV_PAD_NOTSET && mode != UPCONV_PAD_VALID)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "auto_pad is %d; allowed: NOTSET, VALID, SAME_UPPER, SAME_LOWER", (int)mode);
  if (mode == UPCONV_PAD_NOTSET && !output_shape) return UPCONV_OK;
  upconv_problem_desc result = *desc;
  for (int i = 0; i < desc->spatial_dims; i++) {
    result.pad_begin[i] = result.pad_end[i] = 0;
    if (!same && !output_shape) continue;
    upconv_status status =
        split(desc, i, mode, output_shape, &result.pad_begin[i], &result.pad_end[i]);
    if (status) return status;
  }
  *desc = result;
  return UPCONV_OK;
}
