/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of epilogues: canonical printing, reading it back, errors with their place. */
// labels: valgrind
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "epilogue.h"
#include "scan.h"
#include "upconv/upconv.h"

static bool says(const char *part) { return strstr(upconv_last_error(), part) != NULL; }

/* The printed form in memory of exactly its size, to be freed. */
static char *print(const upconv_epilogue *epilogue) {
  size_t length = 0, again = 0;
  CHECK_STATUS(upconv_epilogue_print(epilogue, NULL, 0, &length), UPCONV_OK);
  char *text = malloc(length + 1);
  if (!text) abort();
  CHECK_STATUS(upconv_epilogue_print(epilogue, text, length + 1, &again), UPCONV_OK);
  CHECK_INT(again, length);
  CHECK_INT(strlen(text), length);
  return text;
}

static void prints_canonically(void) {
  static const struct {
    int nd;
    const char *text, *printed;
  } cases[] = {
      {1, "", ""},
      {1, "  \n", ""},
      {3, "leaky_relu 0.2|max_pool 2", "leaky_relu 0.2 | max_pool 2"},
      {3, "scale @s[] | avg_pool 2 | add @b | mul 1e-3",
       "mul @s[] | avg_pool 2 | add @b | mul 0.001"},
      {2, "add 0.5 | sub %0 %1 | div 1 %2 | add #t | mul %0 #t", ""},
      {2, "relu %0 | sigmoid %0 | mul %1 | mul %0 %1", "relu | sigmoid %0 | mul %1 | mul %0 %1"},
      {2, "leaky_relu 0.01 | leaky_relu 1e-2", "leaky_relu | leaky_relu"},
      {2, "elu 1 | elu 2 | celu 1 | celu .5", "elu | elu 2 | celu | celu 0.5"},
      {2, "softplus 1 20 | softplus 2 | softplus 1 10 | softplus 3 10",
       "softplus | softplus 2 | softplus 1 10 | softplus 3 10"},
      {2, "selu | selu 1.5 | hardsigmoid 0.2 0.5 | hardsigmoid 0.2 0.4",
       "selu | selu 1.5 | hardsigmoid 0.2 | hardsigmoid 0.2 0.4"},
      {2, "clamp 0 6 | clamp -inf 6 | clamp 0 inf | clamp",
       "clamp 0 6 | clamp -inf 6 | clamp 0 | clamp"},
      {2, "softsign|gelu|gelu_tanh|silu|mish|hardswish|sigmoid|tanh|abs|neg|sqrt|exp",
       "softsign | gelu | gelu_tanh | silu | mish | hardswish | sigmoid | tanh | abs | neg | sqrt "
       "| exp"},
      {2, "prelu @a | prelu %0 0.25 | prelu #t[c]", ""},
      {2, "two_slope 1 @b | two_slope %0 @b 0.5 | two_slope @b[x] 1", NULL},
      {2, "two_slope 1 @b | two_slope %0 @b 0.5", ""},
      {2, "batch_norm var=@v mean=@m", "declare @v @m | batch_norm mean=@m var=@v"},
      {2, "batch_norm %0 eps=0.001 bias=@b weight=@w mean=@m[] var=@v",
       "declare @b @w @m[] @v | batch_norm mean=@m[] var=@v weight=@w bias=@b eps=0.001"},
      {2, "relu | batch_norm %0 mean=@m var=@m eps=1e-05", "relu | batch_norm %0 mean=@m var=@m"},
      {2, "max_pool 3x2 s3x2 p1 pe1 d1", "max_pool 3x2 p1"},
      {2, "max_pool 3x2 s3x2 p1 pe1x0 d1 ceil", "max_pool 3x2 p1 pe1x0 ceil"},
      {3, "avg_pool 2x3x3 s2 p1 pe0 exclude_pad div=4 | avg_pool %0 2", ""},
      {3,
       "extreme_pool 2 dir=@m s1 | extreme_pool %0 3 dir=-1 | extreme_pool 2 s3 d2 p1 ceil dir=0.5",
       "extreme_pool 2 s1 dir=@m | extreme_pool %0 3 dir=-1 | extreme_pool 2 s3 d2 p1 ceil "
       "dir=0.5"},
      {3, "sum c | mean dhw | max hd | min w | softmax | log_softmax %0 | logsumexp",
       "sum c | mean dhw | max dh | min w | softmax | log_softmax %0 | logsumexp"},
      {3, "global_avg_pool | global_max_pool %0", "mean dhw | max %0 dhw"},
      {1, "global_avg_pool | global_max_pool", "mean w | max w"},
      {1, "add #a[ncw] | add #b[wc]:bf16 | add #c[] | add #d:f16 | add #b[cw]:bf16",
       "add #a | add #b[cw]:bf16 | add #c[] | add #d:f16 | add #b[cw]:bf16"},
      {3, "add #a[ncdhw]:f32 | add #b[ndhw]", "add #a | add #b[ndhw]"},
      {1, "declare @b @a[] #t | add @b | mul @a[]", "declare @b @a[] #t | add @b | mul @a[]"},
      {1, "declare @b @a[] #t | add @b | mul @a[] | mul #t", "add @b | mul @a[] | mul #t"},
      {1, "declare @b @a | add @a | mul @b", "declare @b @a | add @a | mul @b"},
      {1, "declare | relu", "relu"},
      {1, "declare #x", "declare #x"},
      {1, "add inf | mul -0 | mul 100000", ""},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_epilogue *epilogue = NULL;
    check_context("%s", cases[n].text);
    upconv_status wanted = cases[n].printed ? UPCONV_OK : UPCONV_INVALID_ARGUMENT;
    CHECK_STATUS(upconv_epilogue_parse(cases[n].nd, cases[n].text, &epilogue), wanted);
    if (!epilogue) continue;
    char *text = print(epilogue);
    if (cases[n].printed)
      CHECK_STR(text, cases[n].printed[0] || n < 2 ? cases[n].printed : cases[n].text);
    free(text);
    upconv_epilogue_destroy(epilogue);
  }
}

/* ---- random programs ---- */

static upconv_operand random_operand(const upconv_epilogue *e, uint64_t *seed, bool any) {
  upconv_operand operand = {UPCONV_OPERAND_CONSTANT, 0, 0};
  int64_t choice = check_random_range(seed, any ? 0 : 2, any ? 4 : 3);
  if (choice == 0) {
    operand.kind = UPCONV_OPERAND_VALUE;
    operand.index = (int)check_random_range(seed, 0, e->op_count);
  } else if (choice == 3) {
    operand.kind = UPCONV_OPERAND_PARAM;
    operand.index = (int)check_random_range(seed, 0, e->param_count - 1);
  } else if (choice == 4) {
    operand.kind = UPCONV_OPERAND_TENSOR;
    operand.index = (int)check_random_range(seed, 0, e->tensor_count - 1);
  } else {
    operand.constant = ldexp(check_random_unit(seed) - 0.5, (int)check_random_range(seed, -60, 60));
  }
  return operand;
}

static upconv_op random_op(const upconv_epilogue *e, uint64_t *seed) {
  upconv_op op;
  upconv_op_kind kind = (upconv_op_kind)check_random_range(seed, 0, UPCONV_OP_COUNT - 1);
  CHECK_STATUS(upconv_op_init(&op, kind), UPCONV_OK);
  op.operand[0].kind = UPCONV_OPERAND_VALUE;
  op.operand[0].index = (int)check_random_range(seed, 0, 1)
                            ? e->op_count
                            : (int)check_random_range(seed, 0, e->op_count);
  for (int j = 1; j < uc_op_operand_count(kind); j++) {
    op.operand[j] = random_operand(e, seed, kind <= UPCONV_OP_DIV);
    if (kind != UPCONV_OP_BATCH_NORM) continue;
    op.operand[j] = (upconv_operand){UPCONV_OPERAND_PARAM,
                                     (int)check_random_range(seed, 0, e->param_count - 1), 0};
    if (j < 3 && check_random_range(seed, 0, 1)) op.operand[j].kind = UPCONV_OPERAND_NONE;
  }
  for (int i = 0; i < uc_op_attr_count(kind); i++)
    if (check_random_range(seed, 0, 1)) op.attr[i] = 1 + check_random_unit(seed);
  for (int i = 0; i < e->nd; i++) {
    op.window.kernel[i] = check_random_range(seed, 1, 3);
    op.window.stride[i] = check_random_range(seed, 0, 3);
    op.window.dilation[i] = check_random_range(seed, 1, 2);
    op.window.pad_begin[i] = check_random_range(seed, 0, op.window.kernel[i] - 1);
    op.window.pad_end[i] = check_random_range(seed, 0, op.window.kernel[i] - 1);
  }
  op.window.ceil_mode = check_random_range(seed, 0, 1);
  op.window.count_include_pad = check_random_range(seed, 0, 1);
  if (kind == UPCONV_OP_AVG_POOL) op.window.divisor = check_random_range(seed, -1, 1);
  if (kind > UPCONV_OP_LOGSUMEXP)
    op.axes = (uint32_t)check_random_range(seed, 1, (1 << e->nd) - 1) << 1;
  if (kind > UPCONV_OP_LOGSUMEXP && check_random_range(seed, 0, 2) == 0)
    op.axes = UPCONV_AXIS_CHANNEL;
  return op;
}

static upconv_epilogue *random_epilogue(uint64_t *seed) {
  static const char *const params[3] = {"b", "a", "layer.0_weight"};
  upconv_epilogue *e = NULL;
  int nd = (int)check_random_range(seed, 1, 3);
  if (!CHECK_STATUS(upconv_epilogue_create(nd, &e), UPCONV_OK)) abort();
  for (int64_t i = check_random_range(seed, 0, 2); i < 3; i++)
    CHECK_STATUS(upconv_epilogue_param(e, params[i], check_random_range(seed, 0, 1), NULL),
                 UPCONV_OK);
  for (int64_t i = check_random_range(seed, 0, 1); i < 2; i++) {
    uint32_t axes = (uint32_t)check_random_range(seed, 0, (4 << nd) - 1);
    upconv_dtype dtype = (upconv_dtype)check_random_range(seed, 0, 2);
    CHECK_STATUS(upconv_epilogue_tensor(e, i ? "t" : "u", axes, dtype, NULL), UPCONV_OK);
  }
  for (int64_t n = check_random_range(seed, 0, 12); n > 0; n--) {
    upconv_op op = random_op(e, seed);
    CHECK_STATUS(upconv_epilogue_append(e, &op, NULL), UPCONV_OK);
  }
  return e;
}

/* The same operators without declarations: parameters and tensors are those they mention. */
static upconv_epilogue *undeclared(upconv_epilogue *e) {
  upconv_epilogue *result = NULL;
  char *text = print(e);
  const char *ops = strstr(text, " | ");
  ops = strncmp(text, "declare", 7) != 0 ? text : (ops ? ops + 3 : "");
  check_context("%s", ops);
  if (!CHECK_STATUS(upconv_epilogue_parse(e->nd, ops, &result), UPCONV_OK)) abort();
  free(text);
  upconv_epilogue_destroy(e);
  return result;
}

static bool same_operand(const upconv_operand *a, const upconv_operand *b) {
  return a->kind == b->kind && a->index == b->index && a->constant == b->constant;
}

static bool same_op(const upconv_op *a, const upconv_op *b) {
  const upconv_window *v = &a->window, *w = &b->window;
  bool same = a->kind == b->kind && a->axes == b->axes && v->ceil_mode == w->ceil_mode &&
              v->count_include_pad == w->count_include_pad && v->divisor == w->divisor;
  for (int i = 0; i < UPCONV_MAX_OPERANDS; i++)
    same = same && same_operand(&a->operand[i], &b->operand[i]);
  for (int i = 0; i < UPCONV_MAX_ATTRS; i++) same = same && a->attr[i] == b->attr[i];
  for (int i = 0; i < UC_AXES; i++)
    same = same && v->kernel[i] == w->kernel[i] && v->stride[i] == w->stride[i] &&
           v->dilation[i] == w->dilation[i] && v->pad_begin[i] == w->pad_begin[i] &&
           v->pad_end[i] == w->pad_end[i];
  return same;
}

static bool same_epilogue(const upconv_epilogue *a, const upconv_epilogue *b) {
  bool same = a->nd == b->nd && a->op_count == b->op_count && a->param_count == b->param_count &&
              a->tensor_count == b->tensor_count;
  for (int i = 0; same && i < a->op_count; i++) same = same_op(&a->op[i], &b->op[i]);
  for (int i = 0; same && i < a->param_count; i++)
    same = strcmp(a->param[i].name, b->param[i].name) == 0 &&
           a->param[i].per_channel == b->param[i].per_channel;
  for (int i = 0; same && i < a->tensor_count; i++)
    same = strcmp(a->tensor[i].name, b->tensor[i].name) == 0 &&
           a->tensor[i].axes == b->tensor[i].axes && a->tensor[i].dtype == b->tensor[i].dtype;
  return same;
}

static void reads_back_what_it_prints(void) {
  uint64_t seed = 21;
  int declared = 0, kinds[UPCONV_OP_COUNT] = {0};
  for (int n = 0; n < 4000; n++) {
    upconv_epilogue *e = random_epilogue(&seed), *back = NULL, *copy = NULL;
    if (n % 2) e = undeclared(e);
    char *text = print(e);
    check_context("%dd: %s", e->nd, text);
    if (CHECK_STATUS(upconv_epilogue_parse(e->nd, text, &back), UPCONV_OK)) {
      CHECK(same_epilogue(e, back));
      char *twice = print(back);
      CHECK_STR(text, twice);
      free(twice);
    }
    if (CHECK_STATUS(uc_epilogue_copy(e, &copy), UPCONV_OK)) CHECK(same_epilogue(e, copy));
    declared += strncmp(text, "declare", 7) == 0;
    for (int i = 0; i < e->op_count; i++) kinds[e->op[i].kind]++;
    free(text);
    upconv_epilogue_destroy(e);
    upconv_epilogue_destroy(back);
    upconv_epilogue_destroy(copy);
  }
  CHECK_MSG(declared > 1000 && declared < 3000, "%d", declared);
  for (int k = 0; k < UPCONV_OP_COUNT; k++) CHECK_MSG(kinds[k] >= 50, "kind %d: %d", k, kinds[k]);
}

/* The largest program prints a text that is still allowed. */
static void the_largest_program_fits(void) {
  upconv_epilogue *e = NULL, *back = NULL;
  char name[UC_MAX_NAME + 1];
  CHECK_STATUS(upconv_epilogue_create(3, &e), UPCONV_OK);
  memset(name, 'n', sizeof name);
  name[UC_MAX_NAME] = '\0';
  for (int i = 0; i < UC_MAX_PARAMS + UC_MAX_TENSORS; i++) {
    for (int d = 0, rest = i; d < 4; d++, rest /= 10) name[d] = (char)('0' + rest % 10);
    if (i < UC_MAX_PARAMS)
      upconv_epilogue_param(e, name, false, NULL);
    else
      upconv_epilogue_tensor(e, name, 0x1e, UPCONV_BF16, NULL);
  }
  upconv_op op;
  upconv_op_init(&op, UPCONV_OP_BATCH_NORM);
  op.attr[0] = 1.2345678901234567e-300;
  for (int i = 0; i < UC_MAX_OPS; i++) {
    op.operand[0] = (upconv_operand){UPCONV_OPERAND_VALUE, 0, 0};
    for (int j = 1; j < 5; j++)
      op.operand[j] = (upconv_operand){UPCONV_OPERAND_PARAM, UC_MAX_PARAMS - 1 - 4 * i - j % 4, 0};
    upconv_epilogue_append(e, &op, NULL);
  }
  char *text = print(e);
  CHECK_INT(upconv_epilogue_op_count(e), UC_MAX_OPS);
  CHECK_MSG(strlen(text) > 1000000 && strlen(text) + 1000 < UC_MAX_TEXT, "%zu", strlen(text));
  if (CHECK_STATUS(upconv_epilogue_parse(3, text, &back), UPCONV_OK)) CHECK(same_epilogue(e, back));
  free(text);
  upconv_epilogue_destroy(e);
  upconv_epilogue_destroy(back);
}

/* ---- errors ---- */

static void refuses_bad_text(void) {
  static const struct {
    const char *text, *place, *part;
  } cases[] = {
      {"|", "column 1, '|'", "expected an operator"},
      {"relu |", "column 7, end of text", "expected an operator"},
      {"relu | | relu", "column 8, '|'", "expected an operator"},
      {"Relu", "column 1, 'Relu'", "expected an operator"},
      {"relu | declare @a", "column 8, 'declare'", "expected an operator"},
      {"declare a", "column 9, 'a'", "expected @parameter or #tensor"},
      {"declare @a @a[] | relu", "column 12, '@a[]'", "it was @name before"},
      {"declare @a #a | relu", "column 12, '#a'", "already in use"},
      {"relu 1", "column 6, '1'", "too much"},
      {"relu %1", "column 6, '%1'", "%0 to %0"},
      {"relu %-1", "'%-1'", "no such value"},
      {"relu %x", "'%x'", "no such value"},
      {"relu %99999999999999999999", "'%99999999999999999999'", "no such value"},
      {"add", "column 4, end of text", "an operand is missing"},
      {"two_slope 1", "column 12", "an operand is missing"},
      {"add %0 1 2", "column 10, '2'", "too much"},
      {"add 1 2", "column 1, 'add'", "no operand is a value"},
      {"add 0.5x", "column 5, '0.5x'", "not an operand"},
      {"add nan", "column 5, 'nan'", "not an operand"},
      {"add 1e400", "column 5, '1e400'", "float64's range"},
      {"add @", "column 6", "a name has 1 to 127"},
      {"add @a[", "'@a['", "@name[] (one number)"},
      {"add @a[x]", "'@a[x]'", "@name[] (one number)"},
      {"add @a-b", "'@a-b'", "letters, digits"},
      {"mul @a[] | add @a", "column 16, '@a'", "it was @name[] before"},
      {"add #", "", "a name has 1 to 127"},
      {"add #t[dd]", "'#t[dd]'", "a tensor is #name"},
      {"add #t[x]", "'#t[x]'", "a tensor is #name"},
      {"add #t[d]", "'#t[d]'", "2 spatial letters"},
      {"add #t[c", "'#t[c'", "a tensor is #name"},
      {"add #t:f64", "'#t:f64'", "f32, f16 or bf16"},
      {"add #t[c]f16", "'#t[c]f16'", "a tensor is #name"},
      {"add #t | add #t[c]", "column 14, '#t[c]'", "other axes or another dtype"},
      {"add #t | add #t:f16", "column 14, '#t:f16'", "other axes or another dtype"},
      {"leaky_relu x", "column 12, 'x'", "not a number"},
      {"leaky_relu 0.1 0.2", "column 16, '0.2'", "too much"},
      {"softplus 0", "column 1, 'softplus'", "beta is 0"},
      {"prelu %0 %0", "column 1, 'prelu'", "operand 1 is a value"},
      {"batch_norm mean=@m", "column 1, 'batch_norm'", "operand 4 is nothing"},
      {"batch_norm mean=@m mean=@v var=@v", "column 20, 'mean=@v'", "given twice"},
      {"batch_norm mean=@m var=@v eps=1 eps=2", "column 33, 'eps=2'", "given twice"},
      {"batch_norm mean=@m var=@v eps=x", "'eps=x'", "eps must be a number"},
      {"batch_norm mean=1 var=@v", "column 1", "operand 3 is a constant"},
      {"batch_norm scale=@s", "'scale=@s'", "allowed: mean="},
      {"max_pool", "column 9, end of text", "the kernel is missing"},
      {"max_pool 2x2x2", "'2x2x2'", "each of 2 axes"},
      {"max_pool x", "'x'", "one integer"},
      {"max_pool 2 s0", "'s0'", "a stride is at least 1"},
      {"max_pool 2 s1 s1", "column 15, 's1'", "given twice"},
      {"max_pool 2 ceil ceil", "column 17", "given twice"},
      {"max_pool 2 exclude_pad", "'exclude_pad'", "no such option"},
      {"max_pool 2 div=2", "'div=2'", "expected one integer"},
      {"avg_pool 2 div=0", "'div=0'", "other than 0"},
      {"max_pool 2 dir=1", "'dir=1'", "expected one integer"},
      {"extreme_pool 2", "column 1", "operand 1 is nothing"},
      {"max_pool 2 p2", "column 1, 'max_pool'", "pad_begin along height is 2"},
      {"max_pool 0", "column 1", "kernel along height is 0"},
      {"sum", "column 4, end of text", "expected axes: c, or some of hw"},
      {"sum ch", "column 1, 'sum'", "axes"},
      {"sum d", "column 5, 'd'", "some of hw"},
      {"sum hh", "column 5, 'hh'", "some of hw"},
      {"logsumexp c", "column 11, 'c'", "too much"},
      {"global_avg_pool 2", "column 17, '2'", "too much"},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_epilogue *epilogue = NULL;
    check_context("%s", cases[n].text);
    CHECK_STATUS(upconv_epilogue_parse(2, cases[n].text, &epilogue), UPCONV_INVALID_ARGUMENT);
    CHECK_MSG(says(cases[n].place) && says(cases[n].part), "%s", upconv_last_error());
    CHECK(!epilogue);
  }
  upconv_epilogue *epilogue = NULL;
  CHECK_STATUS(upconv_epilogue_parse(2, NULL, &epilogue), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_parse(2, "relu", NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_parse(0, "relu", &epilogue), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_parse(4, "relu", &epilogue), UPCONV_UNSUPPORTED);
  CHECK_STATUS(upconv_epilogue_print(NULL, NULL, 0, NULL), UPCONV_INVALID_ARGUMENT);
}

static void long_tokens_are_cut_in_messages(void) {
  char text[600];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  upconv_epilogue *epilogue = NULL;
  CHECK_STATUS(upconv_epilogue_parse(1, text, &epilogue), UPCONV_INVALID_ARGUMENT);
  CHECK(strlen(upconv_last_error()) < 120 && says("xxx...'"));
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"prints_canonically", prints_canonically},
      {"reads_back_what_it_prints", reads_back_what_it_prints},
      {"the_largest_program_fits", the_largest_program_fits},
      {"refuses_bad_text", refuses_bad_text},
      {"long_tokens_are_cut_in_messages", long_tokens_are_cut_in_messages},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
