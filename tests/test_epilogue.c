/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues: operators, what append refuses, what is stored, shapes. */
// labels: valgrind
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "epilogue.h"
#include "op.h"
#include "upconv/upconv.h"

/* ---- helpers ---- */

static bool says(const char *part) { return strstr(upconv_last_error(), part) != NULL; }

static const upconv_operand no_operand = {UPCONV_OPERAND_NONE, 0, 0};

static upconv_operand value(int index) { return (upconv_operand){UPCONV_OPERAND_VALUE, index, 0}; }
static upconv_operand constant(double c) { return (upconv_operand){UPCONV_OPERAND_CONSTANT, 0, c}; }
static upconv_operand param(int index) { return (upconv_operand){UPCONV_OPERAND_PARAM, index, 0}; }
static upconv_operand tensor(int index) {
  return (upconv_operand){UPCONV_OPERAND_TENSOR, index, 0};
}

static upconv_epilogue *create(int nd) {
  upconv_epilogue *epilogue = NULL;
  if (!CHECK_STATUS(upconv_epilogue_create(nd, &epilogue), UPCONV_OK)) abort();
  return epilogue;
}

static upconv_op make(upconv_op_kind kind, upconv_operand a, upconv_operand b, upconv_operand c) {
  upconv_op op;
  CHECK_STATUS(upconv_op_init(&op, kind), UPCONV_OK);
  op.operand[0] = a;
  op.operand[1] = b;
  op.operand[2] = c;
  return op;
}

static upconv_op unary(upconv_op_kind kind) { return make(kind, value(0), no_operand, no_operand); }

/* Appending it fails with a message that holds the part, and leaves the epilogue alone. */
static void refuses(upconv_epilogue *epilogue, upconv_op op, const char *part) {
  int count = upconv_epilogue_op_count(epilogue);
  upconv_operand result = {UPCONV_OPERAND_TENSOR, 77, 0};
  CHECK_STATUS(upconv_epilogue_append(epilogue, &op, &result), UPCONV_INVALID_ARGUMENT);
  CHECK_MSG(says(part), "'%s' lacks '%s'", upconv_last_error(), part);
  CHECK_INT(upconv_epilogue_op_count(epilogue), count);
  CHECK_INT(result.index, 77);
}

static void accepts(upconv_epilogue *epilogue, upconv_op op) {
  upconv_operand result = no_operand;
  CHECK_STATUS(upconv_epilogue_append(epilogue, &op, &result), UPCONV_OK);
  CHECK_INT(result.kind, UPCONV_OPERAND_VALUE);
  CHECK_INT(result.index, upconv_epilogue_op_count(epilogue));
}

/* ---- operators ---- */

static void defaults_are_pytorchs(void) {
  static const struct {
    upconv_op_kind kind;
    double attr[UPCONV_MAX_ATTRS];
  } cases[] = {
      {UPCONV_OP_LEAKY_RELU, {0.01, 0}},
      {UPCONV_OP_ELU, {1, 0}},
      {UPCONV_OP_SELU, {1.6732632423543772848170429916717, 1.0507009873554804934193349852946}},
      {UPCONV_OP_CELU, {1, 0}},
      {UPCONV_OP_SOFTPLUS, {1, 20}},
      {UPCONV_OP_HARDSIGMOID, {1.0 / 6, 0.5}},
      {UPCONV_OP_CLAMP, {-(double)INFINITY, (double)INFINITY}},
      {UPCONV_OP_BATCH_NORM, {1e-5, 0}},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_op op;
    CHECK_STATUS(upconv_op_init(&op, cases[n].kind), UPCONV_OK);
    for (int i = 0; i < UPCONV_MAX_ATTRS; i++) CHECK(op.attr[i] == cases[n].attr[i]);
  }
  upconv_op op;
  CHECK_STATUS(upconv_op_init(&op, UPCONV_OP_AVG_POOL), UPCONV_OK);
  CHECK(op.window.count_include_pad && !op.window.ceil_mode && op.window.divisor == 0);
  for (int i = 0; i < UPCONV_MAX_SPATIAL; i++)
    CHECK(op.window.kernel[i] == 1 && op.window.stride[i] == 0 && op.window.dilation[i] == 1);
  CHECK_STATUS(upconv_op_init(&op, UPCONV_OP_COUNT), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_op_init(NULL, UPCONV_OP_ADD), UPCONV_INVALID_ARGUMENT);
}

static void every_operator_is_described(void) {
  for (int k = 0; k < UPCONV_OP_COUNT; k++) {
    upconv_op_kind kind = (upconv_op_kind)k;
    const uc_op_info *info = uc_op_describe(kind);
    if (!CHECK(info && info->name)) continue;
    for (int j = 0; j < k; j++) CHECK(strcmp(info->name, upconv_op_name((upconv_op_kind)j)) != 0);
    uc_op_class wanted = UC_CLASS_ELEMENTWISE;
    if (kind >= UPCONV_OP_MAX_POOL) wanted = UC_CLASS_POOL;
    if (kind >= UPCONV_OP_SOFTMAX) wanted = UC_CLASS_CHANNELS;
    if (kind >= UPCONV_OP_LOGSUMEXP) wanted = UC_CLASS_REDUCE;
    CHECK_INT(uc_op_classify(kind), wanted);
    int operands =
        kind <= UPCONV_OP_DIV || kind == UPCONV_OP_PRELU || kind == UPCONV_OP_EXTREME_POOL ? 2 : 1;
    if (kind == UPCONV_OP_TWO_SLOPE) operands = 3;
    if (kind == UPCONV_OP_BATCH_NORM) operands = 5;
    CHECK_INT(uc_op_operand_count(kind), operands);
    /* Attributes: those that upconv.h lists, and no others. */
    static const upconv_op_kind one[] = {UPCONV_OP_LEAKY_RELU, UPCONV_OP_ELU, UPCONV_OP_CELU,
                                         UPCONV_OP_BATCH_NORM};
    static const upconv_op_kind two[] = {UPCONV_OP_SELU, UPCONV_OP_SOFTPLUS, UPCONV_OP_HARDSIGMOID,
                                         UPCONV_OP_CLAMP};
    int attrs = 0;
    for (size_t i = 0; i < CHECK_COUNT(one); i++) attrs += (kind == one[i]) + 2 * (kind == two[i]);
    CHECK_INT(uc_op_attr_count(kind), attrs);
  }
  CHECK(!uc_op_describe(UPCONV_OP_COUNT));
  CHECK_STR(upconv_op_name(UPCONV_OP_COUNT), "unknown");
}

/* ---- what append refuses ---- */

static void refuses_bad_operands(void) {
  upconv_epilogue *e = create(2);
  CHECK_STATUS(upconv_epilogue_param(e, "p", true, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_epilogue_tensor(e, "t", UPCONV_TENSOR_FULL, UPCONV_F32, NULL), UPCONV_OK);
  refuses(e, make(UPCONV_OP_ADD, value(0), no_operand, no_operand), "operand 1 is nothing");
  refuses(e, make(UPCONV_OP_ADD, value(1), value(0), no_operand), "index 1; there are 1");
  refuses(e, make(UPCONV_OP_ADD, value(-1), value(0), no_operand), "index -1");
  refuses(e, make(UPCONV_OP_ADD, value(0), param(1), no_operand), "a parameter with index 1");
  refuses(e, make(UPCONV_OP_ADD, value(0), tensor(1), no_operand), "a tensor with index 1");
  refuses(e, make(UPCONV_OP_ADD, value(0), constant((double)NAN), no_operand), "NaN");
  refuses(e, make(UPCONV_OP_ADD, constant(1), param(0), no_operand), "no operand is a value");
  refuses(e, make(UPCONV_OP_RELU, param(0), no_operand, no_operand), "operand 0 is a parameter");
  refuses(e, make(UPCONV_OP_RELU, no_operand, no_operand, no_operand), "operand 0 is nothing");
  refuses(e, make(UPCONV_OP_PRELU, value(0), value(0), no_operand), "operand 1 is a value");
  refuses(e, make(UPCONV_OP_TWO_SLOPE, value(0), param(0), tensor(0)), "operand 2 is a tensor");
  refuses(e, make(UPCONV_OP_EXTREME_POOL, value(0), tensor(0), no_operand), "operand 1");
  refuses(e,
          make(UPCONV_OP_ADD, value(0), (upconv_operand){(upconv_operand_kind)9, 0, 0}, no_operand),
          "kind of operand 1 is 9");
  upconv_op op = unary(UPCONV_OP_BATCH_NORM);
  refuses(e, op, "operand 3 is nothing");
  op.operand[3] = op.operand[4] = param(0);
  accepts(e, op);
  op.operand[1] = constant(1);
  refuses(e, op, "operand 1 is a constant");
  op = unary(UPCONV_OP_RELU);
  op.kind = UPCONV_OP_COUNT;
  refuses(e, op, "operator kind");
  accepts(e, make(UPCONV_OP_SUB, constant(1), value(0), no_operand));
  accepts(e, make(UPCONV_OP_PRELU, value(2), tensor(0), no_operand));
  CHECK_STATUS(upconv_epilogue_append(NULL, &op, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_append(e, NULL, NULL), UPCONV_INVALID_ARGUMENT);
  upconv_epilogue_destroy(e);
}

static void refuses_bad_attributes(void) {
  upconv_epilogue *e = create(1);
  CHECK_STATUS(upconv_epilogue_param(e, "p", true, NULL), UPCONV_OK);
  for (int k = 0; k < UPCONV_OP_COUNT; k++) {
    upconv_op op = unary((upconv_op_kind)k);
    if (op.kind == UPCONV_OP_BATCH_NORM) op.operand[3] = op.operand[4] = param(0);
    for (int i = 0; i < uc_op_attr_count(op.kind); i++) {
      upconv_op bad = op;
      bad.attr[i] = (double)NAN;
      refuses(e, bad, "is NaN");
    }
  }
  upconv_op op = unary(UPCONV_OP_SOFTPLUS);
  op.attr[0] = 0;
  refuses(e, op, "beta is 0");
  op.attr[0] = -1;
  accepts(e, op);
  op = unary(UPCONV_OP_CELU);
  op.attr[0] = 0;
  refuses(e, op, "alpha is 0");
  op = unary(UPCONV_OP_BATCH_NORM);
  op.operand[3] = op.operand[4] = param(0);
  op.attr[0] = -1;
  refuses(e, op, "eps is negative");
  op.attr[0] = 0;
  accepts(e, op);
  op = unary(UPCONV_OP_CLAMP);
  op.attr[0] = 6, op.attr[1] = 0;
  accepts(e, op);
  upconv_epilogue_destroy(e);
}

static void refuses_bad_windows(void) {
  upconv_epilogue *e = create(2);
  const upconv_op good = unary(UPCONV_OP_MAX_POOL);
  upconv_op op;
  op = good, op.window.kernel[1] = 0, refuses(e, op, "kernel along width is 0");
  op = good, op.window.stride[0] = -1, refuses(e, op, "stride along height is -1");
  op = good, op.window.dilation[0] = 0, refuses(e, op, "dilation along height is 0");
  op = good, op.window.pad_begin[0] = -1, refuses(e, op, "pad_begin along height is -1");
  op = good, op.window.pad_end[1] = 1, refuses(e, op, "pad_end along width is 1");
  op = good, op.window.kernel[1] = 3, op.window.dilation[1] = 2, op.window.pad_begin[1] = 5;
  refuses(e, op, "pad_begin along width is 5; allowed: 0 to 4");
  op.window.pad_begin[1] = 4;
  accepts(e, op);
  op = good, op.window.kernel[0] = INT64_MAX, refuses(e, op, "kernel along height");
  op = good, op.window.divisor = 3, refuses(e, op, "only avg_pool");
  op = unary(UPCONV_OP_AVG_POOL), op.window.divisor = 3, accepts(e, op);
  /* A third axis is not there in 2-D, and is not looked at. */
  op = good, op.window.kernel[2] = 0, accepts(e, op);
  op = good, op.window.stride[0] = op.window.stride[1] = op.window.stride[2] = 1;
  op.window.kernel[0] = 2;
  CHECK_STATUS(uc_epilogue_append_canonical(e, &op), UPCONV_INVALID_ARGUMENT);
  CHECK(says("the window has a depth"));
  upconv_epilogue_destroy(e);
}

static void refuses_bad_axes(void) {
  upconv_epilogue *e = create(2);
  upconv_op op = unary(UPCONV_OP_SUM);
  refuses(e, op, "axes");
  op.axes = UPCONV_AXIS_CHANNEL | UPCONV_AXIS_SPATIAL(0), refuses(e, op, "axes");
  op.axes = UPCONV_AXIS_SPATIAL(2), refuses(e, op, "axes");
  op.axes = UPCONV_AXIS_SPATIAL(30), refuses(e, op, "axes");
  op.axes = UPCONV_AXIS_CHANNEL, accepts(e, op);
  op.axes = UPCONV_AXIS_SPATIAL(0) | UPCONV_AXIS_SPATIAL(1), accepts(e, op);
  op = unary(UPCONV_OP_LOGSUMEXP);
  op.axes = UPCONV_AXIS_SPATIAL(1), refuses(e, op, "channels alone");
  op = unary(UPCONV_OP_SOFTMAX);
  op.axes = 0, refuses(e, op, "channels alone");
  accepts(e, unary(UPCONV_OP_SOFTMAX));
  accepts(e, unary(UPCONV_OP_LOGSUMEXP));
  upconv_epilogue_destroy(e);
}

static void refuses_bad_names(void) {
  upconv_epilogue *e = create(1);
  static const char *const bad[] = {"", "a b", "a|b", "[]", "a\n", "\xc3\xa4", "@a", "a-b"};
  for (size_t i = 0; i < CHECK_COUNT(bad); i++) {
    CHECK_STATUS(upconv_epilogue_param(e, bad[i], true, NULL), UPCONV_INVALID_ARGUMENT);
    CHECK_STATUS(upconv_epilogue_tensor(e, bad[i], 0, UPCONV_F32, NULL), UPCONV_INVALID_ARGUMENT);
  }
  char name[UC_MAX_NAME + 2];
  memset(name, 'x', sizeof name);
  name[UC_MAX_NAME + 1] = '\0';
  CHECK_STATUS(upconv_epilogue_param(e, name, true, NULL), UPCONV_INVALID_ARGUMENT);
  name[UC_MAX_NAME] = '\0';
  CHECK_STATUS(upconv_epilogue_param(e, name, true, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_epilogue_param(e, name, false, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_tensor(e, name, 0, UPCONV_F32, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK(says("already in use"));
  CHECK_STATUS(upconv_epilogue_tensor(e, "Az.0_", 0, UPCONV_F32, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_epilogue_param(e, "Az.0_", 0, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_tensor(e, "t", 8, UPCONV_F32, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_tensor(e, "t", 7, (upconv_dtype)4, NULL), UPCONV_UNSUPPORTED);
  CHECK_STATUS(upconv_epilogue_param(NULL, "a", 0, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_param(e, NULL, 0, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_INT(upconv_epilogue_param_count(e), 1);
  CHECK_INT(upconv_epilogue_tensor_count(e), 1);
  CHECK_STR(upconv_epilogue_tensor_name(e, 0), "Az.0_");
  CHECK_STR(upconv_epilogue_tensor_name(e, 1), NULL);
  CHECK_STR(upconv_epilogue_param_name(e, -1), NULL);
  CHECK_STR(upconv_epilogue_param_name(e, 0), name);
  CHECK_STR(upconv_epilogue_param_name(e, 1), NULL);
  CHECK_STR(upconv_epilogue_param_name(NULL, 0), NULL);
  CHECK_STR(upconv_epilogue_tensor_name(NULL, 0), NULL);
  CHECK_STR(upconv_epilogue_tensor_name(e, -1), NULL);
  CHECK_INT(upconv_epilogue_op_count(NULL), 0);
  CHECK_INT(upconv_epilogue_param_count(NULL), 0);
  CHECK_INT(upconv_epilogue_tensor_count(NULL), 0);
  upconv_epilogue_destroy(e);
}

static void limits_the_counts(void) {
  upconv_epilogue *e = create(1);
  upconv_op op = unary(UPCONV_OP_RELU);
  char name[16];
  for (int i = 0; i < UC_MAX_OPS; i++) {
    op.operand[0].index = i;
    upconv_epilogue_append(e, &op, NULL);
    snprintf(name, sizeof name, "t%d", i);
    if (i < UC_MAX_TENSORS) upconv_epilogue_tensor(e, name, 0, UPCONV_F32, NULL);
  }
  CHECK_INT(upconv_epilogue_op_count(e), UC_MAX_OPS);
  CHECK_STATUS(upconv_epilogue_append(e, &op, NULL), UPCONV_UNSUPPORTED);
  CHECK(says("1024"));
  CHECK_INT(upconv_epilogue_tensor_count(e), UC_MAX_TENSORS);
  CHECK_STATUS(upconv_epilogue_tensor(e, "u", 0, UPCONV_F32, NULL), UPCONV_UNSUPPORTED);
  for (int i = 0; i < UC_MAX_PARAMS; i++) {
    snprintf(name, sizeof name, "p%d", i);
    upconv_epilogue_param(e, name, true, NULL);
  }
  CHECK_INT(upconv_epilogue_param_count(e), UC_MAX_PARAMS);
  CHECK_STATUS(upconv_epilogue_param(e, "u", true, NULL), UPCONV_UNSUPPORTED);
  upconv_epilogue_destroy(e);
  CHECK_STATUS(upconv_epilogue_create(0, &e), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_epilogue_create(4, &e), UPCONV_UNSUPPORTED);
  CHECK_STATUS(upconv_epilogue_create(1, NULL), UPCONV_INVALID_ARGUMENT);
}

/* ---- what is stored ---- */

static void stores_canonical_operators(void) {
  upconv_epilogue *e = create(2);
  upconv_op op = unary(UPCONV_OP_MAX_POOL);
  op.window.kernel[0] = 3, op.window.kernel[1] = 5, op.window.stride[1] = 2;
  op.window.pad_end[1] = 1, op.window.count_include_pad = false;
  op.attr[1] = 7, op.axes = 0xff, op.operand[0].constant = 3, op.operand[2] = constant(1);
  accepts(e, op);
  const upconv_op *stored = &e->op[0];
  const upconv_window *w = &stored->window;
  CHECK(w->kernel[0] == 1 && w->kernel[1] == 3 && w->kernel[2] == 5);
  CHECK(w->stride[0] == 1 && w->stride[1] == 3 && w->stride[2] == 2);
  CHECK(w->dilation[0] == 1 && w->pad_end[2] == 1 && w->count_include_pad);
  CHECK(stored->attr[1] == 0 && stored->axes == 0 && stored->operand[0].constant == 0);
  CHECK_INT(stored->operand[2].kind, UPCONV_OPERAND_NONE);
  op = unary(UPCONV_OP_MEAN);
  op.axes = UPCONV_AXIS_SPATIAL(0);
  accepts(e, op);
  CHECK_INT(e->op[1].axes, 4); /* height */
  CHECK_STATUS(upconv_epilogue_tensor(e, "t", 0xb, UPCONV_BF16, NULL), UPCONV_OK);
  CHECK_INT(e->tensor[0].axes, 1 | 2 | 16); /* batch, channels, width */
  CHECK_STATUS(upconv_epilogue_tensor(e, "u", UPCONV_TENSOR_FULL, UPCONV_F32, NULL), UPCONV_OK);
  CHECK_INT(e->tensor[1].axes, 1 | 2 | 8 | 16);
  upconv_epilogue_destroy(e);
}

static void copies_are_separate(void) {
  upconv_epilogue *e = NULL, *copy = NULL;
  const char *text =
      "declare @b @a[] #t[nw]:f16 | mul @a[] | add #t[nw]:f16 | max_pool 3 s2 p1 ceil";
  char printed[128];
  CHECK_STATUS(upconv_epilogue_parse(3, text, &e), UPCONV_OK);
  CHECK_STATUS(uc_epilogue_copy(e, &copy), UPCONV_OK);
  upconv_epilogue_destroy(e);
  CHECK_INT(copy->nd, 3);
  CHECK_STATUS(upconv_epilogue_print(copy, printed, sizeof printed, NULL), UPCONV_OK);
  CHECK_STR(printed, text);
  upconv_epilogue_destroy(copy);
  upconv_epilogue_destroy(NULL);
}

/* ---- shapes ---- */

static void shapes_of_programs(void) {
  static const struct {
    const char *problem; /* with its epilogue */
    int rank;
    int64_t shape[UPCONV_MAX_RANK];
  } cases[] = {
      {"n128 ci3 co16 in16x32x32 k3 s2 p1 bias | mul @s[] | avg_pool 2 | add @b | mul @t[]",
       5,
       {128, 16, 15, 31, 31}},
      {"n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias | leaky_relu 0.2 | mul @m | leaky_relu 0.2 | "
       "max_pool 2",
       5,
       {16, 32, 16, 32, 32}},
      {"n2 ci3 co4 in5x6 k3 | sigmoid | mul %0 %1 | softmax", 4, {2, 4, 7, 8}},
      {"n2 ci3 co4 in5x6 k3 | mean hw | sub %0 %1", 4, {2, 4, 7, 8}},
      {"n2 ci3 co4 in5x6 k3 | mean hw", 4, {2, 4, 1, 1}},
      {"n2 ci3 co4 in5x6 k3 | max h", 4, {2, 4, 1, 8}},
      {"n2 ci3 co4 in5x6 k3 | logsumexp | add @b", 4, {2, 1, 7, 8}},
      {"n2 ci3 co4 in5x6 k3 | mean hw | sum %0 c | add %1 %2", 4, {2, 4, 7, 8}},
      {"n2 ci3 co4 in5x6 k3 | global_max_pool | add #t", 4, {2, 4, 1, 1}},
      {"n2 ci3 co4 in5x6 k3 | max_pool 2x3 s1x2 | avg_pool 2 p1", 4, {2, 4, 4, 2}},
      {"n2 ci3 co4 in5 k3 | extreme_pool 3 s2 ceil dir=@m", 3, {2, 4, 3}},
      {"n0 ci3 co4 in5 k3 | mean w | softmax", 3, {0, 4, 1}},
      {"n2 ci3 co4 in3 k1 p1 pe2 | relu | max_pool 2", 3, {2, 4, 0}},
      {"n0 ci3 co4 in3 k1 p1 pe2 | mean w", 3, {0, 4, 1}},
      {"n2 ci3 co4 in5 k3 | add #t[c] | mul #u[] | add #t[c]", 3, {2, 4, 7}},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem *problem = NULL;
    upconv_epilogue *epilogue = NULL;
    int64_t shape[UPCONV_MAX_RANK] = {0};
    check_context("%s", cases[n].problem);
    if (!CHECK_STATUS(upconv_problem_parse(cases[n].problem, &problem, &epilogue), UPCONV_OK))
      continue;
    CHECK_STATUS(upconv_output_shape(problem, epilogue, shape), UPCONV_OK);
    for (int i = 0; i < cases[n].rank; i++) CHECK_INT(shape[i], cases[n].shape[i]);
    upconv_problem_destroy(problem);
    upconv_epilogue_destroy(epilogue);
  }
}

static void refuses_what_does_not_fit(void) {
  static const struct {
    const char *problem, *part;
    upconv_status status;
  } cases[] = {
      {"ci1 co4 in5 k3 | max_pool 2 | add %0 %1", "operand 1 has 3 width, another 7",
       UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in5 k3 | mul @a | sum c | mul @a", "operator 2 (mul): parameter 'a' is used with 1",
       UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in5 k3 | add #t | max_pool 2 | add #t", "tensor 't' is used with 3 width here",
       UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in5 k3 | max_pool 8", "operator 0 (max_pool): the window", UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in5 k4 | max_pool 2 d9 p1", "wholly in the padding", UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in1 k1 p1 pe0 | max_pool 3 s1 p2", "wholly in the padding",
       UPCONV_INVALID_ARGUMENT},
      {"ci1 co4 in1 k1 p1 pe0 | mean w", "extent 0", UPCONV_UNSUPPORTED},
      {"ci1 co4 in1152921504606846976 k1 n0 | avg_pool 2 p1 | max_pool 2", "", UPCONV_OK},
      {"ci1 co1 in1x576460752303423488 k1 | avg_pool 2x1 s1 p1x0",
       "operator 0 (avg_pool): the number", UPCONV_OVERFLOW},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem *problem = NULL;
    upconv_epilogue *epilogue = NULL;
    int64_t shape[UPCONV_MAX_RANK] = {-5};
    check_context("%s", cases[n].problem);
    if (!CHECK_STATUS(upconv_problem_parse(cases[n].problem, &problem, &epilogue), UPCONV_OK))
      continue;
    CHECK_STATUS(upconv_output_shape(problem, epilogue, shape), cases[n].status);
    if (cases[n].status) CHECK_MSG(says(cases[n].part), "%s", upconv_last_error());
    if (cases[n].status) CHECK_INT(shape[0], -5);
    upconv_problem_destroy(problem);
    upconv_epilogue_destroy(epilogue);
  }
  upconv_problem *problem = NULL;
  upconv_epilogue *e = create(2);
  int64_t shape[UPCONV_MAX_RANK];
  CHECK_STATUS(upconv_problem_parse("ci1 co1 in3 k1", &problem, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_output_shape(problem, e, shape), UPCONV_INVALID_ARGUMENT);
  CHECK(says("the epilogue is 2-D and the problem 1-D"));
  CHECK_STATUS(upconv_output_shape(problem, NULL, shape), UPCONV_OK);
  CHECK_INT(shape[2], 3);
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(e);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"defaults_are_pytorchs", defaults_are_pytorchs},
      {"every_operator_is_described", every_operator_is_described},
      {"refuses_bad_operands", refuses_bad_operands},
      {"refuses_bad_attributes", refuses_bad_attributes},
      {"refuses_bad_windows", refuses_bad_windows},
      {"refuses_bad_axes", refuses_bad_axes},
      {"refuses_bad_names", refuses_bad_names},
      {"limits_the_counts", limits_the_counts},
      {"stores_canonical_operators", stores_canonical_operators},
      {"copies_are_separate", copies_are_separate},
      {"shapes_of_programs", shapes_of_programs},
      {"refuses_what_does_not_fit", refuses_what_does_not_fit},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
