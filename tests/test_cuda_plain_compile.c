/* SPDX-License-Identifier: Apache-2.0 */
// labels: compile
// timeout: 900
/*
 * Kernels of plain operations compile: every function, type and kind for one architecture, and in turns for the others, where
 * functions are those of one type. No GPU is needed, only NVRTC.
 *
 * UPCONV_REQUIRE_NVRTC: a machine without NVRTC, or one whose NVRTC does not know them all, fails instead of skipping.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cuda/nvrtc.h"
#include "cuda/plain_parts.h"
#include "cuda_jobs.h"

enum { ARCHS = 1 + JOB_OTHER_ARCHS, MAIN = 0 };

static const uc_plain_dtype floats[] = {UC_PLAIN_F32, UC_PLAIN_F64, UC_PLAIN_F16, UC_PLAIN_BF16};

static struct {
  const char *arch;
  upconv_context *context;
  uc_plain_set *set;
  int prepared;
} target[ARCHS];
static int turn;

/* False: there is no NVRTC. Architectures that it does not know have no set. */
static bool open_targets(void) {
  int major, minor;
  bool required = getenv("UPCONV_REQUIRE_NVRTC") != NULL;
  if (uc_nvrtc_version(&major, &minor) != UPCONV_OK && !required) return false;
  for (int i = 0; i < ARCHS; i++) {
    char device[32];
    target[i].arch = i == MAIN ? JOB_MAIN_ARCH : cuda_job_other_archs[i - 1];
    if (!uc_nvrtc_supports(target[i].arch) && !required) continue;
    snprintf(device, sizeof device, "cuda:%s", target[i].arch);
    upconv_context_options options = {.device = device};
    if (CHECK_STATUS(upconv_context_create(&options, &target[i].context), UPCONV_OK))
      CHECK_STATUS(uc_cuda_plain_set_create(target[i].context, &target[i].set), UPCONV_OK);
  }
  return true;
}

static void close_targets(void) {
  for (int i = 0; i < ARCHS; i++) {
    if (target[i].set)
      printf("%s: %d operations, %d modules\n", target[i].arch, target[i].prepared,
             uc_cuda_plain_set_modules(target[i].set));
    uc_cuda_plain_set_destroy(target[i].set);
    upconv_context_destroy(target[i].context);
    memset(&target[i], 0, sizeof target[i]);
  }
}

static void compile_for(int i, const uc_plain_op *op) {
  uc_plain *plain = NULL;
  if (!target[i].set) return;
  if (uc_cuda_plain_prepare(target[i].set, op, &plain) != UPCONV_OK)
    CHECK_MSG(false, "kind %d, fn %s, %s, for %s: %s", (int)op->kind, uc_plain_fn_define(op->fn),
              uc_plain_dtype_name(op->out.dtype), target[i].arch, upconv_last_error());
  else
    CHECK(++target[i].prepared > 0);
  uc_cuda_plain_destroy(plain);
}

/* For the main architecture, and for the one whose turn it is. */
static void compile(const uc_plain_op *op) {
  compile_for(MAIN, op);
  compile_for(1 + turn++ % JOB_OTHER_ARCHS, op);
}

/* [2, 3, 4], dense */
static uc_plain_view cube(uc_plain_dtype dtype) {
  return (uc_plain_view){.dtype = dtype, .rank = 3, .shape = {2, 3, 4}, .stride = {12, 4, 1}};
}

static void compile_fn(uc_plain_fn fn, uc_plain_dtype in, uc_plain_dtype out, bool everywhere) {
  uc_plain_op op = {.kind = UC_PLAIN_ELEMENTWISE, .fn = fn, .out = cube(out)};
  for (int k = 0; k < uc_plain_fn_operands(fn); k++) op.in[k] = cube(in);
  if (fn == UC_PLAIN_WHERE) op.in[0].dtype = UC_PLAIN_BOOL;
  if (fn == UC_PLAIN_CLIP && turn % 2) op.in[1].dtype = UC_PLAIN_NONE;
  if (everywhere)
    compile(&op);
  else
    compile_for(MAIN, &op);
}

static void functions_compile(void) {
  for (int fn = 1; fn < UC_PLAIN_FNS; fn++) {
    bool compares = fn >= UC_PLAIN_EQUAL && fn <= UC_PLAIN_LESS_EQUAL;
    for (int d = 0; d < 3; d++) {
      uc_plain_dtype dtype = floats[d < 2 ? d : 2 + fn % 2];
      compile_fn((uc_plain_fn)fn, dtype, compares ? UC_PLAIN_BOOL : dtype, d == 0);
    }
    if (!uc_plain_fn_has_int((uc_plain_fn)fn)) continue;
    uc_plain_dtype dtype = (uc_plain_dtype)(UC_PLAIN_I8 + fn % 9);
    compile_fn((uc_plain_fn)fn, dtype, compares ? UC_PLAIN_BOOL : dtype, false);
  }
}

static void casts_compile(void) {
  for (int from = UC_PLAIN_F32; from < UC_PLAIN_DTYPES; from++)
    for (int to = UC_PLAIN_F32; to < UC_PLAIN_DTYPES; to++) {
      uc_plain_op op = {.kind = UC_PLAIN_ELEMENTWISE, .fn = UC_PLAIN_CAST};
      op.in[0] = cube((uc_plain_dtype)from);
      op.out = cube((uc_plain_dtype)to);
      compile_for(turn++ % ARCHS, &op);
    }
}

static void other_kinds_compile(uc_plain_dtype dtype) {
  const uc_plain_view all = cube(dtype);
  const uc_plain_view vector = {.dtype = UC_PLAIN_F32, .rank = 1, .shape = {3}, .stride = {1}};
  uc_plain_op op = {.in = {all}, .out = all};
  op.kind = UC_PLAIN_COPY;
  compile(&op);
  op.kind = UC_PLAIN_MAP;
  compile(&op);
  op.kind = UC_PLAIN_POOL;
  op.window = (upconv_window){.kernel = {1}, .stride = {1}, .dilation = {1}};
  compile(&op);
  op.average = true;
  compile(&op);
  op.kind = UC_PLAIN_MATMUL;
  op.in[1] = op.in[0];
  op.in[1].shape[1] = 4;
  op.in[1].stride[0] = 16;
  compile(&op);
  if (uc_plain_is_int(dtype)) return;
  op.kind = UC_PLAIN_SOFTMAX;
  op.axes = 2;
  compile(&op);
  op.log = true;
  compile(&op);
  for (int k = 1; k < 5; k++) op.in[k] = vector;
  op.in[2].dtype = dtype;
  op.kind = UC_PLAIN_BATCH_NORM;
  compile(&op);
  op.kind = UC_PLAIN_INSTANCE_NORM;
  compile(&op);
}

static void kinds_compile(void) {
  for (int d = UC_PLAIN_F32; d < UC_PLAIN_DTYPES; d++) other_kinds_compile((uc_plain_dtype)d);
}

static void reductions_compile(void) {
  for (int kind = 0; kind < UC_PLAIN_REDUCES; kind++)
    for (int d = UC_PLAIN_F32; d < UC_PLAIN_DTYPES; d++) {
      uc_plain_op op = {.kind = UC_PLAIN_REDUCE, .reduce = (uc_plain_reduce)kind, .axes = 4};
      if (d > UC_PLAIN_F64 && (d + kind) % 4) continue; /* integers in turns */
      op.in[0] = op.out = cube((uc_plain_dtype)d);
      op.out.shape[2] = 1;
      compile(&op);
    }
}

/* Each test on targets of its own. */
static void on_targets(void (*test)(void)) {
  if (!open_targets()) CHECK_SKIP(upconv_last_error());
  test();
  close_targets();
}

static void functions(void) { on_targets(functions_compile); }
static void casts(void) { on_targets(casts_compile); }
static void kinds(void) { on_targets(kinds_compile); }
static void reductions(void) { on_targets(reductions_compile); }

int main(int argc, char **argv) {
  setenv("UPCONV_CACHE_DIR", "", 1);
  static const check_test tests[] = {
      {"functions", functions}, {"casts", casts}, {"kinds", kinds}, {"reductions", reductions}};
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
