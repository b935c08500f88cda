/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators are drawn one after the other and kept if the library accepts the text so far: it knows
 * which shapes fit. What is drawn stays in a range where results say something: roots of what is
 * not negative, exponentials of what is bounded, quotients by what is away from 0.
 */
#include "random_epilogue.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "upconv/upconv.h"

enum { MOST_VALUES = 16, MOST_OUTPUTS = 24000 };

typedef struct generator {
  uint64_t *r;
  int nd;
  int64_t stride;
  char *text;
  int values;                 /* so far, the convolution's included */
  bool positive[MOST_VALUES]; /* the value is above some small positive number */
  int names;
  char draft[RANDOM_TEXT]; /* what is tried */
  int drafted;             /* operators in it */
  bool makes_positive;
} generator;

static int64_t any(generator *g, int64_t low, int64_t high) {
  return check_random_range(g->r, low, high);
}

static bool one_in(generator *g, int n) { return any(g, 1, n) == 1; }

static void add(generator *g, const char *format, ...) CHECK_PRINTF(2, 3);
static void add(generator *g, const char *format, ...) {
  size_t length = strlen(g->draft);
  va_list values;
  va_start(values, format);
  vsnprintf(g->draft + length, sizeof g->draft - length, format, values);
  va_end(values);
}

/* Starts an operator of the draft. */
static void op(generator *g, const char *name) {
  add(g, " | %s", name);
  g->drafted++;
}

/* ---- operands ---- */

static const char *constant(generator *g) {
  static const char *const some[] = {"0.5", "-1", "2", "0.1", "1", "0", "3", "-0.25", "1.5", "0.7"};
  return some[any(g, 0, (int64_t)CHECK_COUNT(some) - 1)];
}

static const char *divisor(generator *g) {
  static const char *const some[] = {"0.5", "-1", "2", "3", "-0.7", "1.5"};
  return some[any(g, 0, (int64_t)CHECK_COUNT(some) - 1)];
}

/* A new parameter, or an earlier one that happens to have that name. */
static void param(generator *g, char kind) {
  int number = g->names && one_in(g, 6) ? (int)any(g, 0, g->names - 1) : g->names++;
  add(g, " @%c%d%s", kind, number, one_in(g, 3) ? "[]" : "");
}

static void tensor(generator *g) {
  static const char *const axes[] = {"ncw", "nchw", "ncdhw"};
  static const char *const dtype[] = {"", "", ":f16", ":bf16"};
  add(g, " #t%d", g->names++);
  if (one_in(g, 2)) {
    char some[8];
    int n = 0;
    for (const char *c = axes[g->nd - 1]; *c; c++)
      if (one_in(g, 2)) some[n++] = *c;
    some[n] = '\0';
    if (n) add(g, "[%s]", some);
  }
  add(g, "%s", dtype[any(g, 0, 3)]);
}

static void operand(generator *g) {
  switch (any(g, 0, 6)) {
  case 0:
    add(g, " %s", constant(g));
    break;
  case 1:
  case 2:
  case 3:
    param(g, 'p');
    break;
  case 4:
    tensor(g);
    break;
  default:
    add(g, " %%%d", (int)any(g, 0, g->values - 1));
    break;
  }
}

static void number(generator *g) {
  if (one_in(g, 3))
    add(g, " %s", constant(g));
  else
    param(g, 'p');
}

/* ---- windows ---- */

static void per_axis(generator *g, const char *name, int64_t low, int64_t high) {
  bool same = one_in(g, 2);
  add(g, " %s%lld", name, (long long)any(g, low, high));
  for (int i = 1; i < g->nd && !same; i++) add(g, "x%lld", (long long)any(g, low, high));
}

static void window(generator *g, bool average) {
  if (one_in(g, 3)) { /* the convolution's stride, or a divisor of it */
    int64_t size = g->stride % 2 == 0 && one_in(g, 2) ? 2 : g->stride > 1 ? g->stride : 2;
    add(g, " %lld", (long long)size);
    if (average && one_in(g, 4)) add(g, " exclude_pad");
    return;
  }
  per_axis(g, "", 1, 3);
  if (!one_in(g, 3)) per_axis(g, "s", 1, 3);
  if (one_in(g, 2)) {
    per_axis(g, "p", 0, 1);
    if (one_in(g, 2)) per_axis(g, "pe", 0, 1);
  }
  if (one_in(g, 2)) per_axis(g, "d", 1, 2);
  if (one_in(g, 4)) add(g, " ceil");
  if (average && one_in(g, 3)) add(g, " exclude_pad");
  if (average && one_in(g, 6)) add(g, " div=%lld", (long long)any(g, 2, 5));
}

/* ---- operators ---- */

static void arithmetic(generator *g) {
  switch (any(g, 0, 7)) {
  case 0:
  case 1:
    op(g, "add");
    operand(g);
    return;
  case 2:
    op(g, "sub");
    operand(g);
    return;
  case 3:
    op(g, "sub");
    operand(g);
    add(g, " %%%d", g->values - 1);
    return;
  case 4:
  case 5:
    op(g, "mul");
    operand(g);
    return;
  case 6:
    op(g, "div");
    if (one_in(g, 2))
      add(g, " %s", divisor(g));
    else
      param(g, 'q');
    return;
  default:
    break;
  }
  int by = (int)any(g, 0, g->values - 1);
  if (!g->positive[by]) {
    op(g, "abs");
    op(g, "add 1");
    by = g->values + 1;
  }
  op(g, "div");
  operand(g);
  add(g, " %%%d", by);
}

static void batch_norm(generator *g) {
  op(g, "batch_norm");
  add(g, " mean=@m%d var=@v%d", g->names, g->names + 1);
  if (!one_in(g, 4)) add(g, " weight=@w%d", g->names + 2);
  if (!one_in(g, 4)) add(g, " bias=@b%d", g->names + 3);
  if (one_in(g, 2)) add(g, " eps=%s", one_in(g, 2) ? "0.001" : "0.1");
  g->names += 4;
}

static void activation(generator *g) {
  static const char *const plain[] = {
      "relu",
      "leaky_relu 0.2",
      "leaky_relu -0.3",
      "leaky_relu",
      "elu",
      "elu 0.4",
      "selu",
      "selu",
      "celu",
      "celu 0.6",
      "softplus",
      "softplus 2 3",
      "softsign",
      "softsign",
      "gelu",
      "gelu",
      "gelu_tanh",
      "gelu_tanh",
      "silu",
      "silu",
      "mish",
      "mish",
      "hardswish",
      "hardswish",
      "hardsigmoid",
      "hardsigmoid 0.2 0.4",
      "clamp 0 6",
      "clamp -0.5 0.75",
      "sigmoid",
      "tanh",
      "abs",
      "neg",
      "neg",
      "relu",
  };
  op(g, plain[any(g, 0, (int64_t)CHECK_COUNT(plain) - 1)]);
  g->makes_positive = strstr(g->draft, "| sigmoid") || strstr(g->draft, "| softplus");
}

static void guarded(generator *g) {
  switch (any(g, 0, 5)) {
  case 0:
    op(g, "abs");
    op(g, "sqrt");
    break;
  case 1:
    op(g, "relu");
    op(g, "sqrt");
    break;
  case 2:
    op(g, "clamp -4 4");
    op(g, "exp");
    g->makes_positive = true;
    break;
  case 3:
    op(g, "tanh");
    op(g, "exp");
    g->makes_positive = true;
    break;
  case 4:
    op(g, "prelu");
    number(g);
    break;
  default:
    op(g, "two_slope");
    number(g);
    number(g);
    break;
  }
}

static void pool(generator *g) {
  switch (any(g, 0, 4)) {
  case 0:
  case 1:
    op(g, "max_pool");
    window(g, false);
    break;
  case 2:
  case 3:
    op(g, "avg_pool");
    window(g, true);
    break;
  default:
    op(g, "extreme_pool");
    window(g, false);
    add(g, " dir=");
    if (one_in(g, 3))
      add(g, "%s", constant(g));
    else
      add(g, "@p%d", g->names++);
    break;
  }
}

static void over_channels(generator *g) {
  static const char *const some[] = {"softmax",   "softmax",   "log_softmax", "log_softmax",
                                     "logsumexp", "logsumexp", "sum c",       "mean c",
                                     "max c",     "min c"};
  op(g, some[any(g, 0, (int64_t)CHECK_COUNT(some) - 1)]);
}

static void over_space(generator *g) {
  static const char *const kind[] = {"sum", "mean", "max", "min"};
  static const char *const axes[] = {"w", "hw", "dhw"};
  if (one_in(g, 4)) {
    op(g, one_in(g, 2) ? "global_avg_pool" : "global_max_pool");
    return;
  }
  char some[8];
  int n = 0;
  for (const char *c = axes[g->nd - 1]; *c; c++)
    if (!one_in(g, 3)) some[n++] = *c;
  some[n] = '\0';
  op(g, kind[any(g, 0, 3)]);
  add(g, " %s", n ? some : "w");
}

/* Chains that rewrite rules look for, and that models have. */
static void chain(generator *g) {
  switch (any(g, 0, 8)) {
  case 0:
  case 1: /* scale, average, shift, scale */
    op(g, "mul");
    param(g, 'p');
    op(g, "avg_pool");
    if (one_in(g, 2))
      add(g, " %lld", (long long)(g->stride > 1 ? g->stride : 2));
    else
      window(g, true);
    op(g, "add");
    param(g, 'p');
    op(g, "mul");
    param(g, 'p');
    break;
  case 2: /* leaky, scale, leaky, max-pool */
    op(g, "leaky_relu 0.2");
    op(g, "mul");
    param(g, 'p');
    op(g, "leaky_relu 0.2");
    op(g, "max_pool");
    window(g, false);
    break;
  case 3:
    batch_norm(g);
    activation(g);
    break;
  case 4: /* gating by a mean */
    op(g, "global_avg_pool");
    op(g, "sigmoid");
    op(g, "mul");
    add(g, " %%%d %%%d", g->values - 1, g->values + 1);
    break;
  case 5:
  case 6: { /* a pool of a pool, with a monotone function between them */
    bool average = one_in(g, 2);
    int64_t size = any(g, 2, 3);
    op(g, average ? "avg_pool" : "max_pool");
    add(g, " %lld", (long long)size);
    if (!average && one_in(g, 2)) op(g, "relu");
    op(g, average ? "avg_pool" : "max_pool");
    add(g, " %lld s%lld", (long long)any(g, 2, 3), (long long)any(g, 1, 2));
    break;
  }
  case 7:
    op(g, "add");
    param(g, 'p');
    op(g, "max_pool");
    window(g, false);
    op(g, "hardswish");
    break;
  default: /* x f(x) */
    op(g, "sigmoid");
    op(g, "mul");
    add(g, " %%%d %%%d", g->values - 1, g->values);
    break;
  }
}

static void draw(generator *g) {
  switch (any(g, 0, 15)) {
  case 0:
  case 1:
  case 2:
    arithmetic(g);
    break;
  case 3:
  case 4:
  case 5:
  case 6:
    activation(g);
    break;
  case 7:
  case 8:
    guarded(g);
    break;
  case 9:
    batch_norm(g);
    break;
  case 10:
  case 11:
    pool(g);
    break;
  case 12:
    over_channels(g);
    break;
  case 13:
    over_space(g);
    break;
  default:
    chain(g);
    break;
  }
}

/* ---- acceptance ---- */

static bool is_accepted(const char *text) {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  if (upconv_problem_parse(text, &problem, &epilogue)) return false;
  int64_t shape[UPCONV_MAX_RANK];
  upconv_problem_desc desc;
  bool accepted = !upconv_output_shape(problem, epilogue, shape);
  if (accepted && !upconv_problem_get_desc(problem, &desc)) {
    int64_t count = 1;
    for (int i = 0; i < desc.spatial_dims + 2; i++) count *= shape[i];
    accepted = count <= MOST_OUTPUTS;
  }
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
  return accepted;
}

/* Draws one operator, or a few that belong together, and appends them if they fit. */
static void try_one(generator *g) {
  char both[2 * RANDOM_TEXT];
  g->draft[0] = '\0';
  g->drafted = 0;
  g->makes_positive = false;
  draw(g);
  if (g->values + g->drafted >= MOST_VALUES) return;
  snprintf(both, sizeof both, "%s%s", g->text, g->draft);
  if (strlen(both) >= RANDOM_TEXT || !is_accepted(both)) return;
  memcpy(g->text, both, strlen(both) + 1);
  g->values += g->drafted;
  g->positive[g->values - 1] = g->makes_positive;
}

void random_epilogue(uint64_t *random, int nd, int64_t stride, char text[RANDOM_TEXT]) {
  enum { MOST_TRIES = 40 };
  generator g = {.r = random, .nd = nd, .stride = stride, .text = text, .values = 1};
  int wanted = (int)any(&g, 0, 6);
  for (int i = 0; i < MOST_TRIES && g.values <= wanted; i++) try_one(&g);
}
