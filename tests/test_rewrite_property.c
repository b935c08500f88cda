/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rewrite rule on random programs: it fires, and the rewritten program has the results of the
 * original one, for the nominal sizes and others, in float64: differences are held to a small part
 * of what float32 would be allowed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lowered.h"
#include "reference.h"
#include "small_program.h"

enum { CASES = 300 };

static bool has_fired(const uc_lowered *lowered, const char *rule) {
  for (int i = 0; i < lowered->fired_count; i++)
    if (strcmp(lowered->fired[i].rule, rule) == 0) return true;
  return false;
}

static void describe(const uc_lowered *lowered) {
  char before[SMALL_TEXT], conv[512], tail[SMALL_TEXT];
  upconv_problem_print(&lowered->source, lowered->source_tail, before, sizeof before, NULL);
  upconv_problem_print(&lowered->conv, NULL, conv, sizeof conv, NULL);
  upconv_epilogue_print(lowered->tail, tail, sizeof tail, NULL);
  check_context("%s => %s | %s", before, conv, tail);
}

/* ---- one comparison ---- */

typedef struct tally {
  int64_t elements, undecided;
  int runs; /* programs and sizes compared */
} tally;

/*
 * Rounding in float64 is 2^-29 of that in float32, for which the oracle's bound allows a few
 * roundings of each intermediate; 1e-5 of the bound is 180 roundings in float64.
 */
static bool same(double a, double b, double bound) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= 1e-5 * bound;
}

static void compare(const uc_lowered *lowered, uint64_t *random, int64_t batch,
                    const int64_t *in_size, tally *count) {
  small_data data;
  if (small_data_create(&data, random, &lowered->source, lowered->source_tail, batch, in_size)) {
    size_t n = (size_t)data.y_count + 1;
    double *result[4];
    for (int i = 0; i < 4; i++) result[i] = calloc(n, sizeof(double));
    upconv_status original =
        upconv_reference(&lowered->source, lowered->source_tail, &data.parameters, &data.arguments,
                         NULL, result[0], result[1]);
    CHECK_STATUS(original, UPCONV_OK);
    /* Sizes are asked of the source: where its result is empty the lowered program need not be
       valid. */
    if (data.y_count)
      CHECK_STATUS(uc_reference_lowered(lowered, &data.parameters, &data.arguments, NULL, result[2],
                                        result[3]),
                   UPCONV_OK);
    int64_t wrong = data.y_count;
    for (int64_t i = data.y_count - 1; i >= 0; i--) {
      double bound = result[1][i] + result[3][i];
      count->undecided += isinf(bound) ? 1 : 0;
      if (!isinf(bound) && !same(result[0][i], result[2][i], bound)) wrong = i;
    }
    CHECK_MSG(wrong == data.y_count, "element %lld: %.17g became %.17g (float32 bound %.3g)",
              (long long)wrong, result[0][wrong], result[2][wrong], result[1][wrong]);
    count->elements += data.y_count;
    count->runs++;
    for (int i = 0; i < 4; i++) free(result[i]);
  }
  small_data_free(&data);
}

/* The nominal size and two others. */
static void compare_sizes(const uc_lowered *lowered, uint64_t *random, tally *count) {
  int nd = lowered->source.nd;
  for (int turn = 0; turn < 3; turn++) {
    int64_t in_size[UPCONV_MAX_SPATIAL];
    for (int i = 0; i < nd; i++) {
      int64_t nominal = lowered->source.axis[UC_AXES - nd + i].in_size;
      in_size[i] = turn ? check_random_range(random, 0, nominal + 2) : nominal;
    }
    compare(lowered, random, turn ? 1 : lowered->source.batch, in_size, count);
  }
}

/* ---- one property ---- */

typedef struct property {
  const char *rule;
  void (*prepare)(uint64_t *random, upconv_problem_desc *desc); /* may be NULL */
  bool (*write)(uint64_t *random, small_program *program);      /* false: does not fit; try again */
  bool always; /* every program written must make the rule fire */
} property;

static void run_case(const property *tested, uint64_t *random, int *fired, tally *count) {
  upconv_problem_desc desc = small_problem(random);
  if (tested->prepare) tested->prepare(random, &desc);
  small_program program;
  if (!small_program_init(&program, &desc)) return;
  upconv_epilogue *epilogue = NULL;
  if (tested->write(random, &program)) {
    int more = (int)check_random_range(random, 0, 3);
    /* Another reader of an earlier value can stop a rule, rightly. */
    if (tested->always)
      small_program_append_chain(&program, random, more);
    else
      small_program_append_any(&program, random, more);
    epilogue = small_program_epilogue(&program);
  }
  uc_lowered lowered;
  if (epilogue && CHECK_STATUS(uc_lower(program.problem, epilogue, NULL, false, &lowered), 0)) {
    describe(&lowered);
    bool did = has_fired(&lowered, tested->rule);
    if (tested->always) CHECK_MSG(did, "%s did not fire", tested->rule);
    if (did) {
      (*fired)++;
      compare_sizes(&lowered, random, count);
    }
    uc_lowered_free(&lowered);
    check_context(NULL);
  }
  upconv_epilogue_destroy(epilogue);
  small_program_free(&program);
}

static void run_property(const property *tested) {
  uint64_t random = 20240607;
  for (const char *c = tested->rule; *c; c++) random = random * 31 + (uint64_t)*c;
  int fired = 0;
  tally count = {0, 0, 0};
  for (int attempt = 0; attempt < 40 * CASES && fired < CASES; attempt++)
    run_case(tested, &random, &fired, &count);
  printf("  %s: %d programs, %d runs, %lld elements, %lld undecided\n", tested->rule, fired,
         count.runs, (long long)count.elements, (long long)count.undecided);
  CHECK_INT(fired, CASES);
  CHECK(count.runs > CASES + CASES / 2);
  CHECK(count.undecided * 20 < count.elements);
}

/* ---- folds ---- */

static bool write_norm(uint64_t *random, small_program *program) {
  static const char *const form[] = {
      "batch_norm mean=@$ var=@$",
      "batch_norm mean=@$ var=@$ weight=@$",
      "batch_norm mean=@$ var=@$ bias=@$ eps=0.1",
      "batch_norm mean=@$[] var=@$ weight=@$ bias=@$[]",
  };
  return small_program_append(program, PICK_ONE(random, form));
}

static void fold_norm(void) { run_property(&(property){"fold-norm", NULL, write_norm, true}); }

static bool write_scale(uint64_t *random, small_program *program) {
  static const char *const form[] = {"mul @$",   "mul @$[]", "mul @$ %0", "mul -0.7", "mul 1.5 %0",
                                     "div @$[]", "div @$",   "div -3",    "neg",      "mul 0"};
  return small_program_append(program, PICK_ONE(random, form));
}

static void fold_scale(void) { run_property(&(property){"fold-scale", NULL, write_scale, true}); }

static bool write_bias(uint64_t *random, small_program *program) {
  static const char *const form[] = {"add @$",   "add @$[]",  "add @$ %0",  "add 0.7", "sub @$",
                                     "sub @$[]", "sub @$ %0", "sub 1.5 %0", "sub -2"};
  return small_program_append(program, PICK_ONE(random, form));
}

static void fold_bias(void) { run_property(&(property){"fold-bias", NULL, write_bias, true}); }

/* Several folds in a row, in any order, with pools between them. */
static bool write_chain(uint64_t *random, small_program *program) {
  bool fits = true;
  for (int i = 0; i < 4 && fits; i++) {
    int64_t kind = check_random_range(random, 0, 3);
    if (kind == 0) fits = write_norm(random, program);
    if (kind == 1) fits = write_scale(random, program);
    if (kind == 2) fits = write_bias(random, program);
    if (kind == 3) small_program_append(program, "avg_pool 2");
  }
  return fits && small_program_append(program, "mul @$");
}

static void even_stride(uint64_t *random, upconv_problem_desc *desc) {
  for (int i = 0; i < desc->spatial_dims; i++)
    desc->stride[i] = 2 * check_random_range(random, 1, 2);
}

static void fold_chain(void) {
  run_property(&(property){"fold-scale", even_stride, write_chain, false});
}

/* ---- fold-avg-pool ---- */

static int64_t random_divisor(uint64_t *random, int64_t number) {
  int64_t divisor;
  do divisor = check_random_range(random, 1, number);
  while (number % divisor);
  return divisor;
}

/* A stride that divides the convolution's and any window: equal to the stride, overlapping, with
   gaps. */
static bool write_avg_pool(uint64_t *random, small_program *program) {
  char text[128];
  int64_t kernel[UC_AXES], stride[UC_AXES];
  for (int a = 0; a < UC_AXES; a++) {
    int64_t s = program->problem->axis[a].stride;
    stride[a] = check_random_range(random, 0, 2) ? s : random_divisor(random, s);
    kernel[a] = check_random_range(random, 0, 2) ? stride[a] : check_random_range(random, 1, 5);
  }
  char *end = text + sprintf(text, "avg_pool ");
  int first = UC_AXES - program->problem->nd;
  for (int a = first; a < UC_AXES; a++)
    end += sprintf(end, "%s%d", a > first ? "x" : "", (int)kernel[a]);
  for (int a = first; a < UC_AXES; a++)
    end += sprintf(end, "%s%d", a > first ? "x" : " s", (int)stride[a]);
  if (check_random_range(random, 0, 3) == 0) end += sprintf(end, " exclude_pad");
  if (check_random_range(random, 0, 3) == 0) sprintf(end, " div=3");
  return small_program_append(program, text);
}

static void fold_avg_pool(void) {
  run_property(&(property){"fold-avg-pool", NULL, write_avg_pool, false});
}

/* Window = stride = the convolution's stride, no dilation: taps per input never grow, so at sizes
   without much border the rule must fire. */
static void plain_stride(uint64_t *random, upconv_problem_desc *desc) {
  for (int i = 0; i < desc->spatial_dims; i++) {
    desc->stride[i] = check_random_range(random, 2, 3);
    desc->dilation[i] = 1;
    desc->output_padding[i] = check_random_range(random, 0, 1);
    desc->pad_begin[i] = check_random_range(random, 0, 1);
    desc->pad_end[i] = check_random_range(random, 0, 1);
    desc->in_size[i] = check_random_range(random, 3, 4);
  }
}

static bool write_plain_avg_pool(uint64_t *random, small_program *program) {
  char text[64];
  (void)random;
  const uc_axis *axis = program->problem->axis;
  int first = UC_AXES - program->problem->nd;
  char *end = text + sprintf(text, "avg_pool ");
  for (int a = first; a < UC_AXES; a++)
    end += sprintf(end, "%s%d", a > first ? "x" : "", (int)axis[a].stride);
  return small_program_append(program, text);
}

static void fold_avg_pool_plain(void) {
  run_property(&(property){"fold-avg-pool", plain_stride, write_plain_avg_pool, true});
}

/* ---- hoist-max-pool ---- */

/* Window, padding and mode vary; the stride is more than 1 somewhere. */
static bool append_max_pool(uint64_t *random, small_program *program) {
  static const char *const window[] = {
      "2",           "3 s2",         "3 s2 p1",     "2 s3",    "3 s2 ceil",
      "2 s2 p1 pe0", "3 s3 p1 ceil", "4 s2 p2 pe1", "2 s2 d2", "3 s2 d2 p1 ceil",
      "1 s2"};
  static const char *const direction[] = {" dir=@$", " dir=@$[]", " dir=-1", " dir=0"};
  char text[128];
  bool extreme = check_random_range(random, 0, 2) == 0;
  snprintf(text, sizeof text, "%s %s%s", extreme ? "extreme_pool" : "max_pool",
           PICK_ONE(random, window), extreme ? PICK_ONE(random, direction) : "");
  return small_program_append(program, text);
}

/* A function that does not fold and is not monotone, then monotone ones, then the pool. */
static bool write_hoist(uint64_t *random, small_program *program) {
  static const char *const monotone[] = {"relu",
                                         "leaky_relu 0.2",
                                         "elu 0.5",
                                         "selu",
                                         "celu 0.7",
                                         "softplus",
                                         "softplus 2 25",
                                         "softsign",
                                         "sigmoid",
                                         "tanh",
                                         "hardsigmoid",
                                         "clamp -0.6 0.4",
                                         "clamp 0",
                                         "add @$",
                                         "add 0.3",
                                         "sub @$",
                                         "sub 0.4",
                                         "mul 1.5",
                                         "div 2",
                                         "neg",
                                         "sub @$ %p",
                                         "sub 1 %p",
                                         "mul -0.5",
                                         "div -3",
                                         "mul @$",
                                         "mul @$[]",
                                         "mul @$ %p",
                                         "div @$",
                                         "prelu 0.1",
                                         "two_slope 0.5 2",
                                         "two_slope -1 -0.5",
                                         "batch_norm mean=@$ var=@$ weight=@$",
                                         "batch_norm mean=@$ var=@$"};
  bool fits = small_program_append(program, "gelu");
  int64_t length = check_random_range(random, 1, 4);
  for (int64_t i = 0; i < length && fits; i++) {
    /* %p is the previous value. */
    char text[128];
    const char *form = PICK_ONE(random, monotone), *mark = strstr(form, "%p");
    int head = mark ? (int)(mark - form) : (int)strlen(form);
    snprintf(text, sizeof text, mark ? "%.*s%%%d" : "%.*s", head, form, program->ops);
    fits = small_program_append(program, text);
  }
  static const char *const reduction[] = {"max w", "min w", "global_max_pool"};
  if (!fits || check_random_range(random, 0, 5)) return fits && append_max_pool(random, program);
  /* Factors of unknown sign stay before a reduction. */
  return small_program_append(program, "tanh") &&
         small_program_append(program, PICK_ONE(random, reduction));
}

static void hoist_max_pool(void) {
  run_property(&(property){"hoist-max-pool", NULL, write_hoist, true});
}

/* ---- merge-activations ---- */

static bool write_merge(uint64_t *random, small_program *program) {
  static const char *const piecewise[] = {"relu",
                                          "leaky_relu 0.2",
                                          "leaky_relu -0.3",
                                          "prelu @$",
                                          "prelu @$[]",
                                          "prelu -0.4",
                                          "neg",
                                          "abs",
                                          "mul @$",
                                          "mul -2",
                                          "mul 0.25",
                                          "mul @$[]",
                                          "div 3",
                                          "div @$",
                                          "two_slope @$ @$",
                                          "mul 0",
                                          "two_slope 2 @$",
                                          "two_slope -1 3"};
  bool fits = small_program_append(program, "gelu");
  int64_t length = check_random_range(random, 2, 5);
  for (int64_t i = 0; i < length && fits; i++)
    fits = small_program_append(program, PICK_ONE(random, piecewise));
  /* Keeps a pool that may follow from tearing the chain apart. */
  return fits && small_program_append(program, "gelu");
}

static void merge_activations(void) {
  run_property(&(property){"merge-activations", NULL, write_merge, true});
}

/* ---- merge-pools ---- */

static bool write_pools(uint64_t *random, small_program *program) {
  static const char *const form[] = {"max_pool %d | max_pool %d s%d",
                                     "max_pool %d | max_pool %d s1",
                                     "gelu | avg_pool %d | avg_pool %d s%d exclude_pad",
                                     "gelu | max_pool %d | relu | max_pool %d s%d",
                                     "extreme_pool %d dir=@d | extreme_pool %d s%d dir=@d"};
  char text[128];
  snprintf(text, sizeof text, PICK_ONE(random, form), (int)check_random_range(random, 2, 3),
           (int)check_random_range(random, 2, 3), (int)check_random_range(random, 2, 4));
  return small_program_append(program, text);
}

static void merge_pools(void) {
  run_property(&(property){"merge-pools", even_stride, write_pools, true});
}

/* ---- what does nothing ---- */

static bool write_dead(uint64_t *random, small_program *program) {
  static const char *const form[] = {"relu | exp %0 | tanh %1", "tanh | mul @$ %1 | add @$ %1",
                                     "softmax %0 | max_pool 2 %0 | gelu %0",
                                     "sum c | add #$ %0 | neg %0"};
  return small_program_append(program, PICK_ONE(random, form));
}

static bool write_identity(uint64_t *random, small_program *program) {
  static const char *const form[] = {
      "gelu | mul 1",     "gelu | mul 1 %1",      "gelu | div 1",
      "gelu | clamp",     "gelu | leaky_relu 1",  "gelu | max_pool 1",
      "avg_pool 1 | exp", "gelu | two_slope 1 1", "mul 1",
      "clamp | add %1 %0"};
  return small_program_append(program, PICK_ONE(random, form));
}

static void drop_dead(void) { run_property(&(property){"drop-dead", NULL, write_dead, true}); }
static void drop_identity(void) {
  run_property(&(property){"drop-identity", NULL, write_identity, true});
}

/* Pools that leave planes at the end unread, at this size or at every one. */
static bool write_unread(uint64_t *random, small_program *program) {
  return append_max_pool(random, program);
}

static void drop_planes(void) {
  run_property(&(property){"drop-dead", even_stride, write_unread, false});
}

/* ---- everything at once ---- */

static bool write_anything(uint64_t *random, small_program *program) {
  small_program_append_any(program, random, (int)check_random_range(random, 1, 8));
  return program->ops > 0;
}

static void anything(void) {
  static const char *const rule[] = {"fold-scale", "hoist-max-pool", "merge-activations"};
  for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
    run_property(&(property){rule[i], even_stride, write_anything, false});
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"fold_norm", fold_norm},
      {"fold_scale", fold_scale},
      {"fold_bias", fold_bias},
      {"fold_chain", fold_chain},
      {"fold_avg_pool", fold_avg_pool},
      {"fold_avg_pool_plain", fold_avg_pool_plain},
      {"hoist_max_pool", hoist_max_pool},
      {"merge_activations", merge_activations},
      {"merge_pools", merge_pools},
      {"drop_dead", drop_dead},
      {"drop_identity", drop_identity},
      {"drop_planes", drop_planes},
      {"anything", anything},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
