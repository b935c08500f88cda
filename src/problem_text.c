/* SPDX-License-Identifier: Apache-2.0 */
/* The one-line text form of a problem, printed and read. */
#include <stdlib.h>

#include "epilogue.h"
#include "epilogue_text.h"
#include "problem.h"
#include "scan.h"
#include "status.h"

static const char *const layout_name[] = {"ncdhw", "ndhwc"};
static const char *const math_name[] = {"ieee", "tf32"};

/* ---- printing ---- */

static void print_axes(uc_text *text, const char *key, const int64_t *value, int count,
                       int64_t otherwise) {
  bool is_default = true;
  for (int i = 0; i < count; i++) is_default = is_default && value[i] == otherwise;
  if (is_default) return;
  uc_text_add(text, " %s", key);
  uc_text_add_sizes(text, value, count);
}

static void print_geometry(const upconv_problem_desc *d, uc_text *text) {
  int nd = d->spatial_dims;
  if (d->batch != 1) uc_text_add(text, "n%lld ", (long long)d->batch);
  uc_text_add(text, "ci%lld co%lld", (long long)d->in_channels, (long long)d->out_channels);
  if (d->groups != 1) uc_text_add(text, " g%lld", (long long)d->groups);
  uc_text_add(text, " in");
  /* In full: the count of axes gives the rank. */
  for (int i = 0; i < nd; i++) uc_text_add(text, "%s%lld", i ? "x" : "", (long long)d->in_size[i]);
  uc_text_add(text, " k");
  uc_text_add_sizes(text, d->kernel, nd);
  print_axes(text, "s", d->stride, nd, 1);
  print_axes(text, "d", d->dilation, nd, 1);
  uc_text_add_padding(text, d->pad_begin, d->pad_end, nd);
  print_axes(text, "op", d->output_padding, nd, 0);
}

static void print_formats(const upconv_problem_desc *d, uc_text *text) {
  const upconv_dtype dtype[] = {d->x_dtype, d->w_dtype, d->y_dtype};
  if (dtype[0] == dtype[1] && dtype[0] == dtype[2]) {
    if (dtype[0] != UPCONV_F32) uc_text_add(text, " dtype=%s", upconv_dtype_name(dtype[0]));
  } else {
    for (int i = 0; i < 3; i++)
      if (dtype[i] != UPCONV_F32)
        uc_text_add(text, " %c=%s", "xwy"[i], upconv_dtype_name(dtype[i]));
  }
  if (d->math != UPCONV_MATH_IEEE) uc_text_add(text, " math=%s", math_name[d->math]);
  bool x_last = d->x_layout == UPCONV_CHANNELS_LAST, y_last = d->y_layout == UPCONV_CHANNELS_LAST;
  if (x_last || y_last)
    uc_text_add(text, " %slayout=%s", x_last && y_last ? "" : (x_last ? "x" : "y"),
                layout_name[UPCONV_CHANNELS_LAST]);
}

void uc_problem_print(const upconv_problem *problem, uc_text *text) {
  upconv_problem_desc desc;
  if (upconv_problem_get_desc(problem, &desc)) return;
  print_geometry(&desc, text);
  if (desc.bias) uc_text_add(text, " bias");
  print_formats(&desc, text);
}

upconv_status upconv_problem_print(const upconv_problem *problem, const upconv_epilogue *epilogue,
                                   char *buffer, size_t capacity, size_t *length) {
  if (!problem || (!buffer && capacity))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", problem ? "buffer" : "problem");
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  uc_problem_print(problem, &text);
  if (epilogue && (epilogue->op_count || epilogue->param_count || epilogue->tensor_count)) {
    uc_text_add(&text, " | ");
    uc_epilogue_print(epilogue, &text);
  }
  if (length) *length = text.length;
  return UPCONV_OK;
}

/* ---- reading ---- */

typedef enum field_kind { NUMBER, AXES, DTYPE, LAYOUT, MATH, FLAG } field_kind;

enum field_index {
  F_N,
  F_CI,
  F_CO,
  F_G,
  F_IN,
  F_K,
  F_S,
  F_D,
  F_P,
  F_PE,
  F_OP,
  F_BIAS,
  F_X,
  F_W,
  F_Y,
  F_DTYPE,
  F_XLAYOUT,
  F_YLAYOUT,
  F_LAYOUT,
  F_MATH,
  F_COUNT
};

static const struct {
  const char *key;
  field_kind kind;
} field[F_COUNT] = {
    [F_N] = {"n", NUMBER},
    [F_CI] = {"ci", NUMBER},
    [F_CO] = {"co", NUMBER},
    [F_G] = {"g", NUMBER},
    [F_IN] = {"in", AXES},
    [F_K] = {"k", AXES},
    [F_S] = {"s", AXES},
    [F_D] = {"d", AXES},
    [F_P] = {"p", AXES},
    [F_PE] = {"pe", AXES},
    [F_OP] = {"op", AXES},
    [F_BIAS] = {"bias", FLAG},
    [F_X] = {"x", DTYPE},
    [F_W] = {"w", DTYPE},
    [F_Y] = {"y", DTYPE},
    [F_DTYPE] = {"dtype", DTYPE},
    [F_XLAYOUT] = {"xlayout", LAYOUT},
    [F_YLAYOUT] = {"ylayout", LAYOUT},
    [F_LAYOUT] = {"layout", LAYOUT},
    [F_MATH] = {"math", MATH},
};

/* One field as found: its numbers, or the index of a choice. */
typedef struct found {
  uc_token token; /* NULL: not there */
  int count;
  int64_t value[UPCONV_MAX_SPATIAL];
} found;

/* The field whose key is all the letters that the token starts with, which are taken away.
   F_COUNT: none. */
static int match_field(uc_token *token) {
  size_t letters = 0;
  while (letters < token->length && token->begin[letters] >= 'a' && token->begin[letters] <= 'z')
    letters++;
  uc_token key = {token->begin, letters};
  for (int f = 0; f < F_COUNT; f++) {
    if (!uc_token_is(key, field[f].key)) continue;
    token->begin += letters;
    token->length -= letters;
    return f;
  }
  return F_COUNT;
}

static bool read_choice(uc_token token, const char *const *name, int count, int64_t *value) {
  for (int i = 0; i < count; i++)
    if (uc_token_is(token, name[i])) *value = i;
  return *value >= 0;
}

static upconv_status read_value(const uc_scan *scan, int f, uc_token token, found *result) {
  upconv_dtype dtype;
  bool good = false;
  result->count = 1;
  result->value[0] = -1;
  switch (field[f].kind) {
  case NUMBER:
    good = uc_token_int(token, &result->value[0]);
    break;
  case AXES:
    good = uc_token_sizes(token, result->value, &result->count);
    break;
  case FLAG:
    good = token.length == 0;
    break;
  case LAYOUT:
    good = uc_token_skip(&token, "=") && read_choice(token, layout_name, 2, &result->value[0]);
    break;
  case MATH:
    good = uc_token_skip(&token, "=") && read_choice(token, math_name, 2, &result->value[0]);
    break;
  case DTYPE:
    good = uc_token_skip(&token, "=") && uc_token_dtype(token, &dtype);
    if (good) result->value[0] = (int64_t)dtype;
    break;
  }
  static const char *const wanted[] = {
      [NUMBER] = "an integer of 64 bits", [AXES] = "\"2\" or \"3x5x7\", up to three integers",
      [DTYPE] = "=f32, =f16 or =bf16",    [LAYOUT] = "=ncdhw or =ndhwc",
      [MATH] = "=ieee or =tf32",          [FLAG] = "nothing"};
  if (good) return UPCONV_OK;
  return uc_scan_fail(scan, scan->token, UPCONV_INVALID_ARGUMENT, "'%s' must be followed by %s",
                      field[f].key, wanted[field[f].kind]);
}

/* All tokens up to the end or to '|'. */
static upconv_status read_fields(uc_scan *scan, found *all) {
  for (; !uc_scan_at_end(scan) && !uc_scan_at_bar(scan); uc_scan_next(scan)) {
    uc_token rest = scan->token;
    int f = match_field(&rest);
    if (f == F_COUNT)
      return uc_scan_fail(scan, scan->token, UPCONV_INVALID_ARGUMENT,
                          "no such field; allowed: n ci co g in k s d p pe op, bias, dtype= x= w= "
                          "y= layout= xlayout= ylayout= math=");
    if (all[f].token.begin)
      return uc_scan_fail(scan, scan->token, UPCONV_INVALID_ARGUMENT, "'%s' is given twice",
                          field[f].key);
    all[f].token = scan->token;
    upconv_status status = read_value(scan, f, rest, &all[f]);
    if (status) return status;
  }
  static const int required[] = {F_CI, F_CO, F_IN, F_K};
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    if (!all[required[i]].token.begin)
      return uc_scan_fail(scan, scan->token, UPCONV_INVALID_ARGUMENT, "'%s' is missing",
                          field[required[i]].key);
  return UPCONV_OK;
}

/* One number stands for all axes. */
static upconv_status spread(const uc_scan *scan, const found *from, int nd, int64_t *to) {
  if (!from->token.begin) return UPCONV_OK;
  if (from->count != 1 && from->count != nd)
    return uc_scan_fail(scan, from->token, UPCONV_INVALID_ARGUMENT, "%d numbers, but 'in' has %d",
                        from->count, nd);
  for (int i = 0; i < nd; i++) to[i] = from->value[from->count == 1 ? 0 : i];
  return UPCONV_OK;
}

static upconv_status fill_axes(const uc_scan *scan, const found *all, upconv_problem_desc *d) {
  const struct {
    int f;
    int64_t *to;
  } target[] = {{F_IN, d->in_size}, {F_K, d->kernel},         {F_S, d->stride},
                {F_D, d->dilation}, {F_P, d->pad_begin},      {F_P, d->pad_end},
                {F_PE, d->pad_end}, {F_OP, d->output_padding}};
  for (size_t i = 0; i < sizeof target / sizeof *target; i++) {
    upconv_status status = spread(scan, &all[target[i].f], d->spatial_dims, target[i].to);
    if (status) return status;
  }
  return UPCONV_OK;
}

/* The value of the first of two fields that is there. */
static int64_t first_of(const found *all, int specific, int general, int64_t otherwise) {
  if (all[specific].token.begin) return all[specific].value[0];
  return all[general].token.begin ? all[general].value[0] : otherwise;
}

static upconv_status to_desc(const uc_scan *scan, const found *all, upconv_problem_desc *d) {
  upconv_status status = upconv_problem_desc_init(d, all[F_IN].count);
  if (status) return status;
  d->batch = first_of(all, F_N, F_N, 1);
  d->in_channels = all[F_CI].value[0];
  d->out_channels = all[F_CO].value[0];
  d->groups = first_of(all, F_G, F_G, 1);
  d->bias = all[F_BIAS].token.begin != NULL;
  d->x_dtype = (upconv_dtype)first_of(all, F_X, F_DTYPE, UPCONV_F32);
  d->w_dtype = (upconv_dtype)first_of(all, F_W, F_DTYPE, UPCONV_F32);
  d->y_dtype = (upconv_dtype)first_of(all, F_Y, F_DTYPE, UPCONV_F32);
  d->x_layout = (upconv_layout)first_of(all, F_XLAYOUT, F_LAYOUT, UPCONV_CHANNELS_FIRST);
  d->y_layout = (upconv_layout)first_of(all, F_YLAYOUT, F_LAYOUT, UPCONV_CHANNELS_FIRST);
  d->math = (upconv_math)first_of(all, F_MATH, F_MATH, UPCONV_MATH_IEEE);
  return fill_axes(scan, all, d);
}

upconv_status upconv_problem_parse(const char *text, upconv_problem **problem,
                                   upconv_epilogue **epilogue) {
  if (!problem) return uc_fail(UPCONV_INVALID_ARGUMENT, "problem is NULL");
  uc_scan scan;
  found all[F_COUNT] = {{.count = 0}};
  upconv_problem_desc desc;
  upconv_problem *parsed = NULL;
  upconv_epilogue *tail = NULL;
  upconv_status status = uc_scan_init(&scan, text);
  if (!status) status = read_fields(&scan, all);
  if (!status) status = to_desc(&scan, all, &desc);
  if (!status) status = upconv_problem_create(&desc, &parsed);
  if (status) return status;
  if (uc_scan_at_bar(&scan)) uc_scan_next(&scan);
  status = uc_epilogue_scan(&scan, desc.spatial_dims, &tail);
  if (status) {
    upconv_problem_destroy(parsed);
    return status;
  }
  *problem = parsed;
  if (epilogue)
    *epilogue = tail;
  else
    upconv_epilogue_destroy(tail);
  return UPCONV_OK;
}
