/* SPDX-License-Identifier: Apache-2.0 */
#include "random_problem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "random_epilogue.h"
#include "upconv/upconv.h"

static int64_t any(uint64_t *r, int64_t low, int64_t high) {
  return check_random_range(r, low, high);
}

static bool one_in(uint64_t *r, int n) { return any(r, 1, n) == 1; }

/* One of the values, the first ones more often when they are repeated. */
#define PICK(r, ...)                     \
  (((const int64_t[]){__VA_ARGS__})[any( \
      r, 0, (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)) - 1)])

static void append(char *text, const char *format, ...) CHECK_PRINTF(2, 3);
static void append(char *text, const char *format, ...) {
  size_t length = strlen(text);
  va_list values;
  va_start(values, format);
  vsnprintf(text + length, RANDOM_TEXT - length, format, values);
  va_end(values);
}

/* ---- geometry ---- */

typedef struct axis {
  int64_t in, k, s, d, p, pe, op;
} axis;

static int64_t out_size(const axis *a) {
  return (a->in - 1) * a->s - a->p - a->pe + a->d * (a->k - 1) + a->op + 1;
}

static void random_padding(uint64_t *r, axis *a) {
  int64_t reach = a->d * (a->k - 1);
  switch (any(r, 0, 7)) {
  case 0:
  case 1:
    a->p = a->pe = 0;
    break;
  case 2:
  case 3:
    a->p = a->pe = any(r, 0, reach / 2);
    break;
  case 4:
    a->p = any(r, 0, reach);
    a->pe = any(r, 0, reach);
    break;
  case 5: /* beyond the kernel: the input is cropped */
    a->p = reach + any(r, 1, a->s);
    a->pe = any(r, 0, reach);
    break;
  case 6: /* negative: the output is extended by the bias */
    a->p = -any(r, 1, 4);
    a->pe = any(r, -3, reach / 2);
    break;
  default:
    a->p = any(r, 0, reach / 2);
    a->pe = any(r, -3, reach + 2);
    break;
  }
}

static void random_axis(uint64_t *r, bool longest, axis *a) {
  a->s = PICK(r, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5);
  a->d = PICK(r, 1, 1, 1, 1, 1, 2, 2, 3, 4, 6);
  a->k = PICK(r, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5, 7);
  if (a->s > 1 && one_in(r, 6)) a->k = any(r, 1, a->s - 1);
  a->in = PICK(r, 1, 1, 2, 3, 3, 4, 5, 6, 8);
  if (longest && one_in(r, 4)) a->in = any(r, 9, 70);
  int64_t most_op = (a->s > a->d ? a->s : a->d) - 1;
  a->op = one_in(r, 3) ? any(r, 0, most_op) : 0;
  random_padding(r, a);
}

/* The stride and padding of a U-Net's step, a GAN's and the like: what users run. */
static void usual_axis(uint64_t *r, bool longest, axis *a) {
  static const axis usual[] = {
      {0, 2, 2, 1, 0, 0, 0}, {0, 3, 2, 1, 1, 1, 0}, {0, 3, 2, 1, 1, 1, 1}, {0, 4, 2, 1, 1, 1, 0},
      {0, 3, 1, 1, 1, 1, 0}, {0, 8, 4, 1, 2, 2, 0}, {0, 4, 4, 1, 0, 0, 0},
  };
  *a = usual[any(r, 0, (int64_t)CHECK_COUNT(usual) - 1)];
  a->in = any(r, 2, 6);
  if (longest && one_in(r, 3)) a->in = any(r, 9, 40);
}

static void random_axes(uint64_t *r, int nd, axis *a) {
  bool usual = one_in(r, 4);
  for (int i = 0; i < nd; i++) {
    do {
      (usual ? usual_axis : random_axis)(r, i == nd - 1, &a[i]);
      if (one_in(r, 30)) a[i].pe += out_size(&a[i]); /* an empty output */
    } while (out_size(&a[i]) < 0 || out_size(&a[i]) > 200 ||
             (out_size(&a[i]) == 0 && !one_in(r, 2)));
    if (one_in(r, 8)) a[i] = (axis){1, 1, 1, 1, 0, 0, 0};
  }
}

/* ---- channels ---- */

typedef struct channels {
  int64_t in, out, groups;
} channels;

static channels random_channels(uint64_t *r) {
  channels c = {0, 0, 1};
  int64_t per_group_in = PICK(r, 1, 1, 2, 2, 3, 4, 5, 8, 16, 17);
  int64_t per_group_out = PICK(r, 1, 1, 2, 2, 3, 4, 5, 6, 8, 8, 9, 16, 17, 33);
  switch (any(r, 0, 9)) {
  case 0:
  case 1: /* depthwise */
    c.groups = any(r, 2, 9);
    per_group_in = 1;
    per_group_out = PICK(r, 1, 1, 1, 2, 3);
    break;
  case 2:
  case 3:
    c.groups = any(r, 2, 4);
    if (per_group_in > 8) per_group_in = 8;
    if (per_group_out > 9) per_group_out = 9;
    break;
  default:
    break;
  }
  c.in = per_group_in * c.groups;
  c.out = per_group_out * c.groups;
  return c;
}

static channels dense_channels(uint64_t *r) {
  channels c = {.groups = PICK(r, 1, 1, 1, 2, 3)};
  c.in = c.groups * PICK(r, 2, 3, 4, 5, 7, 8, 8, 9, 12, 16, 16, 17, 24, 32, 40);
  c.out = c.groups * PICK(r, 4, 5, 7, 8, 8, 9, 16, 16, 17, 24, 32, 40);
  return c;
}

/* ---- text ---- */

static void append_axes(char *text, const char *name, int nd, const axis *a, size_t field) {
  append(text, " %s", name);
  for (int i = 0; i < nd; i++) {
    int64_t value;
    memcpy(&value, (const char *)&a[i] + field, sizeof value);
    append(text, "%s%lld", i ? "x" : "", (long long)value);
  }
}

static void append_types(uint64_t *r, char *text) {
  static const char *const dtype[] = {"f32", "f32", "f32", "f16", "bf16"};
  static const char *const layout[] = {"ncdhw", "ncdhw", "ndhwc"};
  const char *x = dtype[any(r, 0, 4)], *w = dtype[any(r, 0, 4)], *y = dtype[any(r, 0, 4)];
  append(text, " x=%s w=%s y=%s xlayout=%s ylayout=%s", x, w, y, layout[any(r, 0, 2)],
         layout[any(r, 0, 2)]);
  if (one_in(r, 10)) append(text, " math=tf32");
}

/* x and w of one 16-bit type, or float32 that may be rounded to TF32. */
static void append_dense_types(uint64_t *r, char *text) {
  static const char *const types[] = {"x=f16 w=f16", "x=bf16 w=bf16", "math=tf32",
                                      "x=f16 math=tf32"};
  static const char *const y[] = {"f32", "f16", "bf16"};
  append(text, " %s y=%s", types[any(r, 0, 3)], y[any(r, 0, 2)]);
  if (one_in(r, 3)) append(text, " xlayout=ndhwc");
  if (one_in(r, 3)) append(text, " ylayout=ndhwc");
}

/* Multiply-adds and outputs: small, so that thousands of problems run under sanitizers; sometimes
 * large enough for tiles. */
static bool has_fair_size(uint64_t *r, int nd, int64_t batch, const channels *c, const axis *a,
                          double scale) {
  double macs = (double)(batch * c->in * (c->out / c->groups)), outputs = (double)(batch * c->out);
  for (int i = 0; i < nd; i++) {
    macs *= (double)(a[i].in * a[i].k);
    outputs *= (double)out_size(&a[i]);
  }
  if (one_in(r, 15)) scale *= 6;
  return macs <= 1e5 * scale && outputs <= 4e3 * scale;
}

static void problem_text(uint64_t seed, bool dense, char text[RANDOM_TEXT]) {
  uint64_t state = seed, *r = &state;
  int nd = (int)any(r, 1, 3);
  axis a[UPCONV_MAX_SPATIAL];
  channels c;
  int64_t batch = one_in(r, 30) ? 0 : PICK(r, 1, 1, 1, 2, 2, 3);
  do {
    random_axes(r, nd, a);
    c = (dense ? dense_channels : random_channels)(r);
  } while (!has_fair_size(r, nd, batch, &c, a, dense ? 10 : 1));
  text[0] = '\0';
  append(text, "n%lld ci%lld co%lld g%lld", (long long)batch, (long long)c.in, (long long)c.out,
         (long long)c.groups);
  append_axes(text, "in", nd, a, offsetof(axis, in));
  append_axes(text, "k", nd, a, offsetof(axis, k));
  append_axes(text, "s", nd, a, offsetof(axis, s));
  append_axes(text, "d", nd, a, offsetof(axis, d));
  append_axes(text, "p", nd, a, offsetof(axis, p));
  append_axes(text, "pe", nd, a, offsetof(axis, pe));
  append_axes(text, "op", nd, a, offsetof(axis, op));
  if (!one_in(r, 3)) append(text, " bias");
  (dense ? append_dense_types : append_types)(r, text);
  if (!dense || one_in(r, 2)) random_epilogue(r, nd, a[nd - 1].s, text);
}

void random_problem_text(uint64_t seed, char text[RANDOM_TEXT]) { problem_text(seed, false, text); }

void random_dense_text(uint64_t seed, char text[RANDOM_TEXT]) { problem_text(seed, true, text); }
