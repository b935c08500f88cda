/* SPDX-License-Identifier: Apache-2.0
 *
 * What each rewrite rule makes of given programs, and the programs on which it must not fire.
 */
// labels: valgrind
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lowered.h"

static const char plain[] = "ci2 co4 in6x6 k3 s2 p1";

/* ---- what comes out ---- */

typedef struct result {
  char conv[256], tail[512], rules[512];
} result;

static void print_rules(const uc_lowered *lowered, char *buffer, size_t capacity) {
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  for (int i = 0; i < lowered->fired_count; i++)
    uc_text_add(&text, "%s%s", i ? " " : "", lowered->fired[i].rule);
}

static bool lower(const char *problem_text, const char *epilogue_text,
                  const upconv_parameters *constants, result *r) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  check_context("%s | %s", problem_text, epilogue_text);
  bool parsed =
      CHECK_STATUS(upconv_problem_parse(problem_text, &problem, NULL), UPCONV_OK) &&
      CHECK_STATUS(upconv_epilogue_parse(problem->nd, epilogue_text, &epilogue), UPCONV_OK);
  bool done = parsed && CHECK_STATUS(uc_lower(problem, epilogue, constants, false, &lowered), 0);
  if (done) {
    upconv_problem_print(&lowered.conv, NULL, r->conv, sizeof r->conv, NULL);
    upconv_epilogue_print(lowered.tail, r->tail, sizeof r->tail, NULL);
    print_rules(&lowered, r->rules, sizeof r->rules);
    uc_lowered_free(&lowered);
  }
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
  return done;
}

static void check_rewrite(const char *problem, const char *epilogue, const char *conv,
                          const char *tail, const char *rules) {
  result r;
  if (!lower(problem, epilogue, NULL, &r)) return;
  CHECK_STR(r.conv, conv);
  CHECK_STR(r.tail, tail);
  CHECK_STR(r.rules, rules);
  check_context(NULL);
}

static void check_tail(const char *epilogue, const char *tail) {
  result r;
  if (!lower(plain, epilogue, NULL, &r)) return;
  CHECK_STR(r.tail, tail);
  check_context(NULL);
}

/* The rule, by name, does not fire. */
static void check_not(const char *rule, const char *problem, const char *epilogue) {
  result r;
  if (!lower(problem, epilogue, NULL, &r)) return;
  CHECK_MSG(!strstr(r.rules, rule), "%s fired: %s | %s", rule, r.conv, r.tail);
  check_context(NULL);
}

/* ---- the founding models ---- */

static void scale_pool(void) {
  check_rewrite("n128 ci3 co16 in16x32x32 k3 s2 p1 bias",
                "mul @scale1[] | avg_pool 2 | add @bias | mul @scale2[]",
                "n128 ci3 co16 in16x32x32 k2 p1 bias", "",
                "fold-scale fold-avg-pool fold-bias fold-scale");
}

static void grouped(void) {
  check_rewrite("n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1", "",
                "n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1", "", "");
}

static void double_leaky_max(void) {
  check_rewrite("n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias",
                "leaky_relu 0.2 | mul @multiplier | leaky_relu 0.2 | max_pool 2",
                "n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias",
                "extreme_pool 2 dir=@multiplier | two_slope @t1 @t2",
                "hoist-max-pool merge-activations merge-activations");
}

/* ---- folds ---- */

static void folds(void) {
  static const char *const form[] = {"mul @a",
                                     "mul @a[] %0",
                                     "mul 2",
                                     "div @a",
                                     "div 2",
                                     "neg",
                                     "add @a",
                                     "add 2 %0",
                                     "sub @a[]",
                                     "sub 1 %0",
                                     "sub @a %0",
                                     "mul @a | add @b",
                                     "sub 1 | div 2",
                                     "batch_norm mean=@m var=@v weight=@w bias=@b",
                                     "mul @a | batch_norm mean=@m var=@v | neg | add @b"};
  for (size_t i = 0; i < CHECK_COUNT(form); i++) check_tail(form[i], "");
  /* A bias appears where one is needed, and only there. */
  check_rewrite(plain, "mul @a", "ci2 co4 in6x6 k3 s2 p1", "", "fold-scale");
  check_rewrite(plain, "add @a", "ci2 co4 in6x6 k3 s2 p1 bias", "", "fold-bias");
}

static void folds_not(void) {
  check_not("fold-norm", plain, "relu | batch_norm mean=@m var=@v");
  check_not("fold-norm", plain, "batch_norm mean=@m var=@v | add %0");
  check_not("fold-norm", plain, "batch_norm %0 mean=@m var=@v | mul %0 %1 | add @a");
  check_not("fold-scale", plain, "relu | mul @a");
  check_not("fold-scale", plain, "mul %0 %0");
  check_not("fold-scale", plain, "mul #t");
  check_not("fold-scale", plain, "mul #t[c]");
  check_not("fold-scale", plain, "div 1 %0");
  check_not("fold-scale", plain, "div @a %0");
  check_not("fold-scale", plain, "div 0");
  check_not("fold-scale", plain, "mul inf");
  check_not("fold-scale", plain, "mul @a | add %0");
  check_not("fold-scale", plain, "neg | relu | add %0");
  check_not("fold-scale", plain, "div @a | mul %0 %1");
  check_not("fold-bias", plain, "relu | add @a");
  check_not("fold-bias", plain, "add %0 %0");
  check_not("fold-bias", plain, "add #t");
  check_not("fold-bias", plain, "sub #t %0");
  check_not("fold-bias", plain, "add inf");
  check_not("fold-bias", plain, "sub inf %0");
  check_not("fold-bias", plain, "add @a | mul %0");
}

static void avg_pool(void) {
  /* The stride of the pool is a part of the convolution's: what is left is a stride. */
  check_rewrite("ci2 co4 in6 k4 s4", "avg_pool 2", "ci2 co4 in6 k2 s2", "", "fold-avg-pool");
  /* Overlapping windows. */
  check_rewrite("ci2 co4 in6 k4 s2 p1", "avg_pool 3 s2", "ci2 co4 in6 k3 p1 pe2", "",
                "fold-avg-pool");
  /* Taps that are apart become a dilation. */
  check_rewrite("ci2 co4 in6 k3 s2 d4", "avg_pool 2", "ci2 co4 in6 k3 d2 pe1", "", "fold-avg-pool");
  /* Windows without a tap: the output is the bias. */
  check_rewrite("ci2 co4 in6 k1 s4 p-1 pe0", "avg_pool 1 s4", "ci2 co4 in6 k1", "",
                "fold-avg-pool");
}

static void avg_pool_not(void) {
  const char *rule = "fold-avg-pool";
  check_not(rule, plain, "avg_pool 2 p1");
  check_not(rule, plain, "avg_pool 2 p0 pe1");
  check_not(rule, plain, "avg_pool 2 p0x1 exclude_pad");
  check_not(rule, plain, "avg_pool 2 ceil");
  check_not(rule, plain, "avg_pool 2 d2");
  check_not(rule, plain, "avg_pool 3");
  check_not(rule, plain, "avg_pool 2x3");
  check_not(rule, "ci2 co4 in6x6 k3 s2x3", "avg_pool 2");
  check_not(rule, plain, "avg_pool 2 | sum hw | add %0");
  check_not(rule, plain, "relu | avg_pool 2");
  check_not(rule, plain, "max_pool 2");
  check_not(rule, plain, "mean hw");
  /* More multiply-adds than before. */
  check_not(rule, plain, "avg_pool 2 s1");
  check_not(rule, "ci2 co4 in40 k2 s2", "avg_pool 5 s2");
}

/* ---- hoist-max-pool ---- */

static void hoist(void) {
  check_tail("tanh | max_pool 2", "max_pool 2 | tanh");
  check_tail("gelu | neg | max_pool 2", "gelu | extreme_pool 2 dir=-1 | neg");
  check_tail("gelu | sub 1 %1 | add @a | max_pool 3 s2 p1",
             "gelu | extreme_pool 3 s2 p1 dir=-1 | sub 1 %2 | add @a");
  check_tail("gelu | mul @a | max_pool 2", "gelu | extreme_pool 2 dir=@a | mul @a");
  check_tail("gelu | div @a | max_pool 2", "gelu | extreme_pool 2 dir=@a | div @a");
  check_tail("gelu | batch_norm mean=@m var=@v weight=@w | max_pool 2",
             "gelu | extreme_pool 2 dir=@w | batch_norm mean=@m var=@v weight=@w");
  check_tail("gelu | neg | extreme_pool 2 dir=-1", "gelu | max_pool 2 | neg");
  check_tail("gelu | elu | extreme_pool 2 dir=@d", "gelu | extreme_pool 2 dir=@d | elu");
  check_tail("gelu | mul -2 | neg | max_pool 2", "gelu | max_pool 2 | mul 2");
  /* Behind both pools, which each see the function before them. */
  check_tail("gelu | max_pool 2 | tanh | max_pool 2", "gelu | max_pool 4 | tanh");
  /* Reductions over space, too. */
  check_tail("gelu | tanh | max hw", "gelu | max hw | tanh");
  check_tail("gelu | neg | max w", "gelu | min w | neg");
  check_tail("gelu | mul -2 | add @a | min h", "gelu | max h | mul -2 | add @a");
  /* The operand may have other readers: only the function's own result may not. */
  check_tail("gelu | tanh | max_pool 2 | sum %1 hw | add %3",
             "gelu | max_pool 2 | tanh | sum %1 hw | add %3");
}

static void hoist_not(void) {
  static const char *const form[] = {"exp",
                                     "abs | sqrt",
                                     "gelu",
                                     "gelu_tanh",
                                     "silu",
                                     "mish",
                                     "hardswish",
                                     "abs",
                                     "div 1 %1",
                                     "div @a %1",
                                     "div 0",
                                     "leaky_relu -0.1",
                                     "elu -1",
                                     "selu -1 1",
                                     "selu 1 -1",
                                     "celu -0.5",
                                     "softplus -1",
                                     "softplus 1 5",
                                     "hardsigmoid -0.1",
                                     "prelu @a",
                                     "prelu -0.1",
                                     "two_slope @a @b",
                                     "two_slope 1 -1",
                                     "two_slope -1 1",
                                     "mul %1 %1",
                                     "add %0 %1",
                                     "mul #t",
                                     "add #t[c]",
                                     "mul inf",
                                     "softmax",
                                     "avg_pool 2 s1",
                                     "clamp inf inf"};
  for (size_t i = 0; i < CHECK_COUNT(form); i++) {
    char text[128];
    snprintf(text, sizeof text, "gelu | %s | max_pool 2", form[i]);
    check_not("hoist-max-pool", plain, text);
  }
  /* No reduction has a direction that differs by channel, and f may differ by channel. */
  check_not("hoist-max-pool", plain, "gelu | mul @a | max hw");
  check_not("hoist-max-pool", plain, "gelu | tanh | max c");
  check_not("hoist-max-pool", plain, "gelu | add @a | max c");
  check_not("hoist-max-pool", plain, "gelu | tanh | sum hw");
  check_not("hoist-max-pool", plain, "gelu | tanh | mean hw");
  /* Nothing gained: as many elements behind the pool. */
  check_not("hoist-max-pool", plain, "gelu | tanh | max_pool 3 s1 p1");
  /* The function's result has another reader, or is the result. */
  check_not("hoist-max-pool", plain, "gelu | tanh | max_pool 2 | sum hw | mul %2");
  check_not("hoist-max-pool", plain, "gelu | tanh | mean hw | max_pool %2 2 | add %3");
  check_not("hoist-max-pool", plain, "gelu | tanh | avg_pool 2");
  check_not("hoist-max-pool", plain, "max_pool 2 | tanh");
}

/* ---- merge-activations ---- */

static void merge(void) {
  check_tail("gelu | relu | relu", "gelu | relu");
  check_tail("gelu | leaky_relu 0.5 | leaky_relu 0.5", "gelu | leaky_relu 0.25");
  check_tail("gelu | neg | neg", "gelu");
  check_tail("gelu | mul @a | mul @b", "gelu | mul @t0");
  check_tail("gelu | mul 2 | div 4", "gelu | mul 0.5");
  check_tail("gelu | abs | neg", "gelu | two_slope -1 1");
  check_tail("gelu | neg | relu", "gelu | two_slope 0 -1");
  check_tail("gelu | abs | relu", "gelu | abs");
  check_tail("gelu | relu | mul @a", "gelu | two_slope @a 0");
  check_tail("gelu | prelu @a | leaky_relu 0.5", "gelu | prelu @t0");
  check_tail("gelu | leaky_relu 0.5 | mul 2", "gelu | two_slope 2 1");
  check_tail("gelu | two_slope 2 0.5 | two_slope 0.5 2", "gelu");
  check_tail("gelu | mul -3 | neg", "gelu | mul 3");
  check_tail("gelu | mul 1 | abs | abs | tanh", "gelu | abs | tanh");
}

static void merge_not(void) {
  const char *rule = "merge-activations";
  check_not(rule, plain, "gelu | relu | add 1");
  check_not(rule, plain, "gelu | add 1 | relu");
  check_not(rule, plain, "gelu | relu | sigmoid | relu");
  check_not(rule, plain, "gelu | relu | mul @a | mul %2");
  check_not(rule, plain, "gelu | mul inf | relu");
  check_not(rule, plain, "gelu | relu | div 1 %2");
  check_not(rule, plain, "gelu | relu | div 0");
  check_not(rule, plain, "gelu | relu | mul %2 %2");
  check_not(rule, plain, "gelu | relu | mul #t");
  check_not(rule, plain, "gelu | relu | prelu #t");
  check_not(rule, plain, "gelu | mul 1e200 | mul 1e200");
  check_not(rule, plain, "gelu | relu");
  check_not(rule, plain, "relu | avg_pool 2 | relu");
}

/* ---- merge-pools ---- */

static void pools(void) {
  check_tail("max_pool 2 | max_pool 3", "max_pool 6");
  check_tail("gelu | max_pool 2 | relu | max_pool 3 s2 | tanh",
             "gelu | max_pool 6 s4 | relu | tanh");
  check_tail("gelu | avg_pool 2x1 | avg_pool 1x3 s2x3", "gelu | avg_pool 2x3 s4x3");
  check_tail("extreme_pool 2 dir=@a | extreme_pool 2 dir=@a", "extreme_pool 4 dir=@a");
  check_tail("extreme_pool 2 dir=-1 | extreme_pool 2 dir=-1 | sum %1 hw",
             "extreme_pool 2 dir=-1 | sum hw");
  check_tail("max_pool 2 | max_pool 1 s2 | max_pool 2", "max_pool 2 s4 | max_pool 2");
}

static void pools_not(void) {
  const char *rule = "merge-pools";
  check_not(rule, plain, "max_pool 2 | avg_pool 2");
  check_not(rule, plain, "max_pool 2 s1 | max_pool 2");
  check_not(rule, plain, "max_pool 2 s3 | max_pool 2");
  check_not(rule, plain, "max_pool 2 p1 | max_pool 2");
  check_not(rule, plain, "max_pool 2 | max_pool 2 p0 pe1");
  check_not(rule, plain, "max_pool 2 d2 | max_pool 2");
  check_not(rule, plain, "max_pool 2 | max_pool 2 d2");
  check_not(rule, plain, "max_pool 2 ceil | max_pool 2");
  check_not(rule, plain, "max_pool 2 | max_pool 2 ceil");
  check_not(rule, plain, "gelu | avg_pool 2 div=3 | avg_pool 2");
  check_not(rule, plain, "gelu | avg_pool 2 | avg_pool 2 div=4");
  check_not(rule, plain, "extreme_pool 2 dir=@a | extreme_pool 2 dir=@b");
  check_not(rule, plain, "extreme_pool 2 dir=1 | extreme_pool 2 dir=-1");
  check_not(rule, plain, "max_pool 2 | extreme_pool 2 dir=@a");
  check_not(rule, plain, "max_pool 2 | max_pool 2 | sum %1 hw | add %2");
  check_not(rule, plain, "max_pool 2 | gelu | max_pool 2");
}

/* ---- what does nothing ---- */

static void nothing(void) {
  check_tail("relu | exp %0", "exp");
  check_tail("gelu | softmax | tanh %1 | add %1 %3", "gelu | tanh | add %1 %2");
  check_tail("relu | add #a %0 | mul #b %0", "declare #a #b | mul #b %0");
  check_tail("gelu | mul 1", "gelu");
  check_tail("mul 1 | div 1 | clamp | leaky_relu 1 | max_pool 1 | avg_pool 1", "");
  check_tail("gelu | extreme_pool 1 dir=@d | tanh", "gelu | tanh");
  check_tail("gelu | mul @unused | tanh %1", "gelu | tanh");
}

static void nothing_not(void) {
  check_not("drop", plain, "gelu | add 0");
  check_not("drop", plain, "gelu | sub 0");
  check_not("drop", plain, "gelu | clamp -inf 3");
  check_not("drop", plain, "gelu | avg_pool 1 div=2");
  check_not("drop", plain, "gelu | max_pool 1 s2");
  check_not("drop", plain, "gelu | div 1 %1");
  check_not("drop", plain, "gelu | mul @one");
  check_not("drop", plain, "gelu | tanh | add %1");
}

static void unread_planes(void) {
  /* 11 planes each, 10 read. */
  check_rewrite(plain, "max_pool 2", "ci2 co4 in6x6 k3 s2 p1 pe2", "max_pool 2", "drop-dead");
  check_rewrite("ci2 co4 in6x6 k3 s2 p1 op1x0", "tanh | max_pool 2",
                "ci2 co4 in6x6 k3 s2 p1 pe1x2 op1x0", "max_pool 2 | tanh",
                "hoist-max-pool drop-dead");
  /* Only at this size, so that nothing changes: the stride of the pool does not divide the
     convolution's. */
  check_rewrite(plain, "max_pool 3", "ci2 co4 in6x6 k3 s2 p1", "max_pool 3", "drop-dead");
  check_not("drop-dead", plain, "max_pool 2 ceil");
  check_not("drop-dead", plain, "max_pool 2 p0 pe1");
  check_not("drop-dead", plain, "max_pool 2 | sum hw | add %0");
  check_not("drop-dead", plain, "max_pool 3 s2");
  check_not("drop-dead", "ci2 co4 in6x6 k3 s2 p1 op1", "max_pool 2");
}

static void details(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  if (!CHECK_STATUS(upconv_problem_parse("ci2 co4 in6x6 k3 s2 p1 | mul @a | max_pool 2 | relu %0 | "
                                         "sum %2 c",
                                         &problem, &epilogue),
                    UPCONV_OK))
    return;
  if (CHECK_STATUS(uc_lower(problem, epilogue, NULL, false, &lowered), UPCONV_OK)) {
    CHECK_INT(lowered.fired_count, 3);
    CHECK_STR(lowered.fired[0].detail, "relu %0");
    CHECK_STR(lowered.fired[1].detail, "mul @a");
    CHECK_STR(lowered.fired[2].detail,
              "max_pool 2, 1 unread at the end of h, 1 unread at the end of w");
    uc_lowered_free(&lowered);
  }
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
}

/* ---- constants ---- */

static void check_constant(const char *epilogue, float a, float b, const char *tail) {
  float value[4] = {a, b, a, b};
  int64_t shape = 4;
  upconv_tensor tensor = upconv_tensor_dense(value, UPCONV_F32, 1, &shape, UPCONV_CHANNELS_FIRST);
  upconv_parameters constants = {.params = &tensor, .param_count = 1};
  result r;
  if (lower(plain, epilogue, &constants, &r)) CHECK_STR(r.tail, tail);
  check_context(NULL);
}

static void constants(void) {
  check_constant("gelu | prelu @a | max_pool 2", 0.5f, 0, "gelu | max_pool 2 | prelu @a");
  check_constant("gelu | prelu @a | max_pool 2", 0.5f, -0.1f, "gelu | prelu @a | max_pool 2");
  check_constant("gelu | mul @a | max_pool 2", 2, 0.5f, "gelu | max_pool 2 | mul @a");
  check_constant("gelu | mul @a | max_pool 2", -2, 0, "gelu | extreme_pool 2 dir=-1 | mul @a");
  check_constant("gelu | mul @a | max_pool 2", -2, 1, "gelu | extreme_pool 2 dir=@a | mul @a");
  check_constant("gelu | neg | extreme_pool 2 dir=@a", 1, 0, "gelu | extreme_pool 2 dir=-1 | neg");
  check_constant("gelu | neg | extreme_pool 2 dir=@a", -1, -2, "gelu | max_pool 2 | neg");
  check_constant("gelu | neg | extreme_pool 2 dir=@a", -1, 0,
                 "gelu | extreme_pool 2 dir=@t0 | neg");
  check_constant("gelu | mul @a", 1, 1, "gelu");
  check_constant("gelu | mul @a", 1, 2, "gelu | mul @a");
  /* Derived parameters are known too. */
  check_constant("gelu | two_slope @a 0.5 | leaky_relu 0.5", 2, 3, "gelu | two_slope @a 0.25");
  check_constant("gelu | prelu @a | mul @a", 1, 1, "gelu");
}

static void constants_are_checked(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  if (!CHECK_STATUS(upconv_problem_parse("ci2 co4 in6x6 k3 | mul @a", &problem, &epilogue),
                    UPCONV_OK))
    return;
  float value[3] = {1, 2, 3};
  int64_t shape = 3;
  upconv_tensor tensor = upconv_tensor_dense(value, UPCONV_F32, 1, &shape, UPCONV_CHANNELS_FIRST);
  upconv_parameters wrong = {.params = &tensor, .param_count = 1};
  CHECK_STATUS(uc_lower(problem, epilogue, &wrong, false, &lowered), UPCONV_INVALID_ARGUMENT);
  CHECK_STR(upconv_last_error(), "parameter @a: shape[0] is 3; it must be 4");
  wrong.param_count = 0;
  CHECK_STATUS(uc_lower(problem, epilogue, &wrong, false, &lowered), UPCONV_INVALID_ARGUMENT);
  CHECK_STR(upconv_last_error(), "param_count is 0; the epilogue has 1 parameters");
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
}

/* ---- lowering ---- */

static void no_rewrite(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  if (!CHECK_STATUS(upconv_problem_parse("ci2 co4 in6x6 k3 s2 | mul @a | relu | relu | max_pool 3",
                                         &problem, &epilogue),
                    UPCONV_OK))
    return;
  if (CHECK_STATUS(uc_lower(problem, epilogue, NULL, true, &lowered), UPCONV_OK)) {
    char text[128];
    upconv_problem_print(&lowered.conv, lowered.tail, text, sizeof text, NULL);
    CHECK_STR(text, "ci2 co4 in6x6 k3 s2 | mul @a | relu | relu | max_pool 3");
    CHECK_INT(lowered.fired_count, 0);
    CHECK_INT(lowered.fold_count, 0);
    uc_lowered_free(&lowered);
  }
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
}

static void refusals(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  if (!CHECK_STATUS(upconv_problem_parse("ci2 co4 in6x6 k3 s2", &problem, NULL), UPCONV_OK)) return;
  CHECK_STATUS(upconv_epilogue_parse(3, "relu", &epilogue), UPCONV_OK);
  CHECK_STATUS(uc_lower(problem, epilogue, NULL, false, &lowered), UPCONV_INVALID_ARGUMENT);
  CHECK_STR(upconv_last_error(), "the epilogue has 3 spatial axes; the problem needs 2");
  upconv_epilogue_destroy(epilogue);
  /* The window does not fit. */
  CHECK_STATUS(upconv_epilogue_parse(2, "max_pool 99", &epilogue), UPCONV_OK);
  CHECK_STATUS(uc_lower(problem, epilogue, NULL, false, &lowered), UPCONV_INVALID_ARGUMENT);
  upconv_epilogue_destroy(epilogue);
  if (CHECK_STATUS(uc_lower(problem, NULL, NULL, false, &lowered), UPCONV_OK)) {
    CHECK_INT(lowered.tail->op_count, 0);
    uc_lowered_free(&lowered);
  }
  upconv_problem_destroy(problem);
}

/* Sizes of declarations: one number, the convolution's channels, or those of a reduced value. */
static void param_sizes(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  uc_lowered lowered;
  if (!CHECK_STATUS(upconv_problem_parse(
                        "ci2 co6 in4 k3 | gelu | mul @a | relu | add @b[] | sum c | add @c | "
                        "mul @e %4 | add %6",
                        &problem, &epilogue),
                    UPCONV_OK))
    return;
  if (CHECK_STATUS(uc_lower(problem, epilogue, NULL, false, &lowered), UPCONV_OK)) {
    /* mul | relu merge to a two_slope of two parameters. */
    CHECK_INT(lowered.tail->param_count, 5);
    for (int i = 0; i < lowered.tail->param_count; i++) {
      const char *name = lowered.tail->param[i].name;
      int64_t wanted = name[0] == 'b' || name[0] == 'c' ? 1 : 6;
      CHECK_MSG(uc_lowered_param_size(&lowered, i) == wanted, "@%s", name);
      CHECK_INT(lowered.tail->param[i].per_channel, name[0] != 'b');
    }
    uc_lowered_free(&lowered);
  }
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
}

/* A derived parameter does not take a name that the caller has given. Declarations are in the order
   in which the printed tail mentions them, and need no list. */
static void names(void) {
  check_tail("gelu | batch_norm mean=@m var=@v weight=@w bias=@b",
             "gelu | batch_norm mean=@m var=@v weight=@w bias=@b");
  check_tail("gelu | mul @a | mul @b | max_pool 2", "gelu | extreme_pool 2 dir=@t0 | mul @t1");
  check_tail("gelu | mul @t0 | mul @b | add #t1", "gelu | mul @t2 | add #t1");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"scale_pool", scale_pool},
      {"grouped", grouped},
      {"double_leaky_max", double_leaky_max},
      {"folds", folds},
      {"folds_not", folds_not},
      {"avg_pool", avg_pool},
      {"avg_pool_not", avg_pool_not},
      {"hoist", hoist},
      {"hoist_not", hoist_not},
      {"merge", merge},
      {"merge_not", merge_not},
      {"pools", pools},
      {"pools_not", pools_not},
      {"nothing", nothing},
      {"nothing_not", nothing_not},
      {"unread_planes", unread_planes},
      {"details", details},
      {"constants", constants},
      {"constants_are_checked", constants_are_checked},
      {"no_rewrite", no_rewrite},
      {"refusals", refusals},
      {"param_sizes", param_sizes},
      {"names", names},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
