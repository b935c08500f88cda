/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling windows: sizes, inputs, divisors, against windows laid one by one and against PyTorch. */
// labels: valgrind
#include "check.h"
#include "checked.h"
#include "epilogue.h"
#include "upconv/upconv.h"

static upconv_window random_window(uint64_t *seed) {
  upconv_window w = {.ceil_mode = check_random_range(seed, 0, 1),
                     .count_include_pad = check_random_range(seed, 0, 1)};
  for (int a = 0; a < UC_AXES; a++) {
    w.kernel[a] = check_random_range(seed, 1, 4);
    w.stride[a] = check_random_range(seed, 1, 5);
    w.dilation[a] = check_random_range(seed, 1, 3);
    int64_t reach = w.dilation[a] * (w.kernel[a] - 1);
    w.pad_begin[a] = check_random_range(seed, 0, reach);
    w.pad_end[a] = check_random_range(seed, 0, reach);
  }
  return w;
}

/* Windows laid one by one: whole ones; with ceil_mode one more if elements or padding are left,
   unless it would start behind the input. */
static int64_t count_windows(const upconv_window *w, int a, int64_t in_size) {
  int64_t end = in_size + w->pad_end[a], start = -w->pad_begin[a], count = 0;
  int64_t reach = w->dilation[a] * (w->kernel[a] - 1), covered = start;
  for (; start + reach < end; start += w->stride[a], count++) covered = start + reach + 1;
  if (w->ceil_mode && covered < end && start < in_size && count) count++;
  return count;
}

static void window_sizes(void) {
  uint64_t seed = 11;
  int compared = 0;
  for (int n = 0; n < 20000; n++) {
    upconv_window w = random_window(&seed);
    int64_t in_size = check_random_range(&seed, 1, 12), wanted = count_windows(&w, 1, in_size);
    int64_t got = uc_window_output(&w, 1, in_size);
    if (wanted == 0) continue; /* the window does not fit; with ceil_mode a cut one may */
    CHECK_INT(got, wanted);
    compared++;
  }
  CHECK(compared > 10000);
}

static void window_inputs_and_divisors(void) {
  uint64_t seed = 12;
  for (int n = 0; n < 3000; n++) {
    upconv_window w = random_window(&seed);
    int64_t in_size[UC_AXES], o[UC_AXES], product = 1;
    for (int a = 0; a < UC_AXES; a++) {
      in_size[a] = check_random_range(&seed, 1, 9);
      o[a] = check_random_range(&seed, 0, 4);
      int64_t count = 0, first = in_size[a], last = -1;
      for (int64_t t = 0; t < w.kernel[a]; t++) {
        int64_t i = o[a] * w.stride[a] - w.pad_begin[a] + t * w.dilation[a];
        bool inside = i >= 0 && i < in_size[a];
        count += w.count_include_pad ? i < in_size[a] + w.pad_end[a] : inside;
        if (inside) first = uc_min(first, i), last = i;
      }
      product *= count;
      uc_range got = uc_window_input(&w, a, (uc_range){o[a], o[a] + 1}, in_size[a]);
      if (last >= 0) CHECK(got.begin <= first && got.end >= last + 1 && got.end <= in_size[a]);
      if (w.dilation[a] == 1) {
        CHECK_INT(got.begin, last < 0 ? 0 : first);
        CHECK_INT(got.end, last + 1);
      }
      uc_range wide = uc_window_input(&w, a, (uc_range){0, o[a] + 1}, in_size[a]);
      if (last >= 0) CHECK(wide.begin == 0 || w.pad_begin[a] == 0);
      if (last >= 0) CHECK(wide.end >= got.end);
    }
    CHECK_NEAR(uc_window_divisor(&w, o, in_size), product, 0);
    w.divisor = 7;
    CHECK_NEAR(uc_window_divisor(&w, o, in_size), 7, 0);
    uc_range none = uc_window_input(&w, 0, (uc_range){2, 2}, 9);
    CHECK(none.begin == none.end);
  }
}

/* Sizes and divisors that PyTorch's AvgPool1d shows when it averages ones. */
static void windows_of_pytorch(void) {
  static const struct {
    int64_t in_size, kernel, stride, pad;
    bool ceil_mode, include;
    int64_t size;
    double divisor[10];
  } cases[] = {
      {7, 2, 1, 1, true, false, 8, {1, 2, 2, 2, 2, 2, 2, 1}},
      {4, 4, 1, 2, true, true, 5, {4, 4, 4, 4, 4}},
      {5, 1, 3, 0, true, false, 2, {1, 1}},
      {5, 4, 2, 0, true, false, 2, {4, 3}},
      {8, 3, 1, 1, false, false, 8, {2, 3, 3, 3, 3, 3, 3, 2}},
      {9, 2, 2, 1, false, true, 5, {2, 2, 2, 2, 2}},
      {6, 4, 4, 0, true, true, 2, {4, 2}},
      {7, 2, 3, 0, true, false, 3, {2, 2, 1}},
      {3, 4, 4, 2, false, false, 1, {2}},
      {1, 4, 2, 1, true, false, 1, {1}},
      {1, 4, 2, 1, true, true, 1, {3}},
      {1, 4, 2, 2, true, false, 2, {1, 1}},
      {5, 4, 3, 2, true, true, 3, {4, 4, 3}},
      {5, 4, 4, 1, true, false, 2, {3, 2}},
      {5, 4, 4, 1, true, true, 2, {4, 3}},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_window w = {.kernel = {1, 1, cases[n].kernel},
                       .stride = {1, 1, cases[n].stride},
                       .dilation = {1, 1, 1},
                       .pad_begin = {0, 0, cases[n].pad},
                       .pad_end = {0, 0, cases[n].pad},
                       .ceil_mode = cases[n].ceil_mode,
                       .count_include_pad = cases[n].include};
    const int64_t in_size[UC_AXES] = {1, 1, cases[n].in_size};
    check_context("case %zu", n);
    CHECK_INT(uc_window_output(&w, 2, in_size[2]), cases[n].size);
    for (int64_t o = 0; o < cases[n].size; o++)
      CHECK_NEAR(uc_window_divisor(&w, (const int64_t[]){0, 0, o}, in_size), cases[n].divisor[o],
                 0);
  }
}

/* A pool is refused iff some window touches no element. */
static void empty_windows_are_refused(void) {
  uint64_t seed = 13;
  int refused = 0, accepted = 0;
  for (int n = 0; n < 20000; n++) {
    upconv_epilogue *e = NULL;
    upconv_op op;
    CHECK_STATUS(upconv_epilogue_create(1, &e), UPCONV_OK);
    CHECK_STATUS(upconv_op_init(&op, UPCONV_OP_MAX_POOL), UPCONV_OK);
    op.operand[0].kind = UPCONV_OPERAND_VALUE;
    upconv_window w = random_window(&seed);
    w.dilation[0] += check_random_range(&seed, 0, 6);
    op.window = w;
    int64_t size = check_random_range(&seed, 0, 9), shape[2][UC_RANK];
    const int64_t conv[UC_RANK] = {1, 1, 1, 1, size};
    CHECK_STATUS(upconv_epilogue_append(e, &op, NULL), UPCONV_OK);
    int64_t windows = uc_window_output(&e->op[0].window, 2, size);
    bool bad = windows <= 0 && size > 0;
    for (int64_t o = 0; o < windows; o++) {
      bool touches = false;
      for (int64_t t = 0; t < w.kernel[0]; t++) {
        int64_t i = o * w.stride[0] - w.pad_begin[0] + t * w.dilation[0];
        touches = touches || (i >= 0 && i < size);
      }
      bad = bad || !touches;
    }
    CHECK_STATUS(uc_epilogue_shapes(e, conv, shape), bad ? UPCONV_INVALID_ARGUMENT : UPCONV_OK);
    if (!bad) CHECK_INT(shape[1][4], uc_max(windows, 0));
    refused += bad;
    accepted += !bad;
    upconv_epilogue_destroy(e);
  }
  CHECK(refused > 1000 && accepted > 1000);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"window_sizes", window_sizes},
      {"window_inputs_and_divisors", window_inputs_and_divisors},
      {"windows_of_pytorch", windows_of_pytorch},
      {"empty_windows_are_refused", empty_windows_are_refused},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
