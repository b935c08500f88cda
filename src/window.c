/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index arithmetic of pooling windows: window o covers start + t * dilation for t in [0, kernel),
 * with start = o * stride - pad_begin.
 */
#include "checked.h"
#include "epilogue.h"

int64_t uc_window_output(const upconv_window *window, int a, int64_t in_size) {
  int64_t stride = window->stride[a];
  int64_t room = in_size + window->pad_begin[a] + window->pad_end[a] -
                 window->dilation[a] * (window->kernel[a] - 1) - 1;
  if (!window->ceil_mode) return uc_floor_div(room, stride) + 1;
  int64_t size = uc_ceil_div(room, stride) + 1;
  bool starts_behind = (size - 1) * stride >= in_size + window->pad_begin[a];
  return starts_behind ? size - 1 : size;
}

uc_range uc_window_input(const upconv_window *window, int a, uc_range out, int64_t in_size) {
  uc_range none = {0, 0}, in;
  if (out.begin >= out.end) return none;
  int64_t reach = window->dilation[a] * (window->kernel[a] - 1);
  in.begin = uc_max(0, out.begin * window->stride[a] - window->pad_begin[a]);
  in.end = uc_min(in_size, (out.end - 1) * window->stride[a] - window->pad_begin[a] + reach + 1);
  return in.begin < in.end ? in : none;
}

/* Elements of window o along axis a that lie before `end`. */
static int64_t count_before(const upconv_window *window, int a, int64_t o, int64_t end) {
  int64_t start = o * window->stride[a] - window->pad_begin[a];
  int64_t count = uc_ceil_div(end - start, window->dilation[a]);
  return uc_min(uc_max(count, 0), window->kernel[a]);
}

/* With ceil_mode the last window may reach beyond the padding at the end: that never counts. */
double uc_window_divisor(const upconv_window *window, const int64_t o[UC_AXES],
                         const int64_t in_size[UC_AXES]) {
  if (window->divisor) return (double)window->divisor;
  double divisor = 1;
  for (int a = 0; a < UC_AXES; a++) {
    int64_t end = in_size[a] + (window->count_include_pad ? window->pad_end[a] : 0);
    int64_t count = count_before(window, a, o[a], end);
    if (!window->count_include_pad) count -= count_before(window, a, o[a], 0);
    divisor *= (double)count;
  }
  return divisor;
}
