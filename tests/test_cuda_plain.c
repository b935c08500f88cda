/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/*
 * Plain operations without a GPU, on a stand-in for NVRTC: what is refused and how, which kernels are shared, axes that are
 * joined, numbers as bits. Whether kernels compile is test_cuda_plain_compile's part, whether they are right check_gpu's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cuda/memory.h"
#include "cuda/plain_parts.h"
#include "sandbox.h"
#include "tensor.h"

#define FAKE UPCONV_FAKES "/fake_nvrtc.so"

static upconv_context *open_for(const char *device) {
  upconv_context_options options = {.device = device};
  upconv_context *context = NULL;
  CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK);
  return context;
}

/* A dense view of up to three axes; sizes beyond the rank are ignored. */
static uc_plain_view dense(uc_plain_dtype dtype, int rank, int64_t a, int64_t b, int64_t c) {
  uc_plain_view v = {.dtype = dtype, .rank = rank, .shape = {a, b, c}};
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    v.stride[i] = stride;
    stride *= v.shape[i];
  }
  return v;
}

static uc_plain_op op_of(uc_plain_kind kind, uc_plain_view in, uc_plain_view out) {
  return (uc_plain_op){.kind = kind,
                       .in = {in},
                       .out = out,
                       .fn = UC_PLAIN_EXP,
                       .window = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}}};
}

/* ---------------------------------------------------------------- refusals */

static void refuses(uc_plain_set *set, const uc_plain_op *op, upconv_status status,
                    const char *part) {
  uc_plain *plain = NULL;
  CHECK_STATUS(uc_cuda_plain_prepare(set, op, &plain), status);
  CHECK(!plain);
  CHECK_SAYS(upconv_last_error(), part);
  uc_cuda_plain_destroy(plain);
}

static void views_are_checked(uc_plain_set *set) {
  const uc_plain_view x = dense(UC_PLAIN_F32, 3, 2, 3, 4);
  uc_plain_op good = op_of(UC_PLAIN_ELEMENTWISE, x, x), op = good;
  op.kind = UC_PLAIN_KINDS;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "kind = 10");
  op = good;
  op.out.dtype = UC_PLAIN_DTYPES;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "elementwise: out.dtype = 14");
  op = good;
  op.in[0].dtype = UC_PLAIN_NONE;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[0].dtype = 0");
  op = good;
  op.out.rank = 9;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "out.rank = 9: allowed are 0 to 8");
  op = good;
  op.in[0].shape[1] = -1;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[0].shape[1] = -1");
  op = good;
  op.out.stride[0] = 0;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "out.stride[0] = 0");
  op = good;
  op.out.shape[0] = op.out.shape[1] = INT64_C(1) << 31;
  refuses(set, &op, UPCONV_OVERFLOW, "out: its size does not fit 64 bits");
  op = good;
  op.in[0].stride[1] = INT64_MIN;
  refuses(set, &op, UPCONV_OVERFLOW, "in[0]: its size");
  op.in[0].stride[1] = INT64_MAX / 3;
  refuses(set, &op, UPCONV_OVERFLOW, "in[0]: its size");
}

static void elementwise_is_checked(uc_plain_set *set) {
  const uc_plain_view x = dense(UC_PLAIN_F32, 3, 2, 3, 4);
  uc_plain_op good = op_of(UC_PLAIN_ELEMENTWISE, x, x), op = good;
  op.fn = UC_PLAIN_FNS;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "fn = 49");
  op.fn = UC_PLAIN_ADD;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[1] is left out");
  op.in[1] = dense(UC_PLAIN_F32, 2, 2, 4, 0);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[1] cannot be broadcast");
  op.in[1] = (uc_plain_view){.dtype = UC_PLAIN_F32, .rank = 4, .shape = {1, 1, 1, 1}};
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[1] cannot be broadcast");
}

static void moves_are_checked(uc_plain_set *set) {
  const int64_t map[] = {0, 2, -1, 1}, wrong[] = {0, 3, -1, 1};
  const uc_plain_view x = dense(UC_PLAIN_F32, 2, 3, 4, 0);
  uc_plain_op op = op_of(UC_PLAIN_COPY, x, dense(UC_PLAIN_F16, 2, 3, 4, 0));
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[0] is float32 and out is float16");
  op = op_of(UC_PLAIN_COPY, x, dense(UC_PLAIN_F32, 2, 2, 4, 0));
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[0] has 12 elements and out 8");
  op = op_of(UC_PLAIN_MAP, x, dense(UC_PLAIN_F32, 2, 4, 4, 0));
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "axis 0 has size 3 in in[0], 4 in out, and no map");
  op.map[0] = wrong;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "map[0][1] = 3: allowed are -1 to 2");
  op.map[0] = map;
  op.out.rank = 1;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "one type and rank");
}

static void windows_are_checked(uc_plain_set *set) {
  const uc_plain_view x = dense(UC_PLAIN_F32, 3, 2, 3, 8), y = dense(UC_PLAIN_F32, 3, 2, 3, 4);
  uc_plain_op good = op_of(UC_PLAIN_POOL, x, y), op = good;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "out.shape[2] = 4: the window leads to 8");
  good.window.kernel[0] = good.window.stride[0] = 2;
  op = good;
  op.window.stride[0] = 0;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "window, axis 0: kernel 2, stride 0");
  op = good;
  op.window.kernel[0] = INT64_MAX;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "window, axis 0");
  op = good;
  op.window.divisor = -1;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "window.divisor = -1");
  op = good;
  op.out.shape[1] = 2;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "axis 0 or 1");
  op = op_of(UC_PLAIN_POOL, dense(UC_PLAIN_F32, 2, 3, 4, 0), dense(UC_PLAIN_F32, 2, 3, 4, 0));
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "rank 3 to 5");
}

static void reductions_are_checked(uc_plain_set *set) {
  const uc_plain_view x = dense(UC_PLAIN_F32, 2, 3, 4, 0), y = dense(UC_PLAIN_F32, 2, 3, 1, 0);
  uc_plain_op op = op_of(UC_PLAIN_REDUCE, x, y);
  op.axes = 1;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "out.shape[0] = 3: it must be 1");
  op.axes = 6;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "axes = 0x6: in[0] has rank 2");
  op.reduce = UC_PLAIN_REDUCES;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "reduce = 10");
  op = op_of(UC_PLAIN_SOFTMAX, x, y);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "one type and shape");
  op = op_of(UC_PLAIN_SOFTMAX, x, x);
  op.axes = 4;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "axes = 0x4");
  op.in[0].dtype = op.out.dtype = UC_PLAIN_I32;
  refuses(set, &op, UPCONV_UNSUPPORTED, "in[0] is int32; it must be floating point");
  op = op_of(UC_PLAIN_INSTANCE_NORM, x, x);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[1].dtype = 0");
  op.in[1] = op.in[2] = dense(UC_PLAIN_F32, 1, 3, 0, 0);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "each of the 4 channels");
  op = op_of(UC_PLAIN_BATCH_NORM, dense(UC_PLAIN_F32, 1, 3, 0, 0), dense(UC_PLAIN_F32, 1, 3, 0, 0));
  for (int k = 1; k < 5; k++) op.in[k] = op.in[0];
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "rank 1; it must be at least 2");
}

static void products_are_checked(uc_plain_set *set) {
  const uc_plain_view a = dense(UC_PLAIN_F32, 2, 3, 4, 0), b = dense(UC_PLAIN_F32, 2, 4, 5, 0);
  uc_plain_op op = op_of(UC_PLAIN_MATMUL, a, dense(UC_PLAIN_F32, 2, 3, 5, 0));
  op.in[1] = a;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "columns of in[0], rows of in[1]: 4 and 3");
  op.in[1] = b;
  op.out.shape[0] = 2;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "rows of out and in[0]: 2 and 3");
  op.out = dense(UC_PLAIN_F32, 3, 1, 3, 5);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "rank of out, and what it must be: 3 and 2");
  op.in[0] = dense(UC_PLAIN_F32, 3, 2, 3, 4);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[0] cannot be broadcast");
  op.in[0] = dense(UC_PLAIN_F32, 0, 0, 0, 0);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "ranks: 0 and 2");
  op = op_of(UC_PLAIN_GEMM, a, dense(UC_PLAIN_F32, 2, 3, 5, 0));
  op.in[1] = b;
  op.transpose[0] = true;
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "columns of in[0], rows of in[1]: 3 and 4");
  op.transpose[0] = false;
  op.in[2] = dense(UC_PLAIN_F32, 1, 4, 0, 0);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "in[2] cannot be broadcast");
  op.in[2] = dense(UC_PLAIN_F64, 1, 5, 0, 0);
  refuses(set, &op, UPCONV_INVALID_ARGUMENT, "of one type");
}

static void refusals(void) {
  upconv_context *context = open_for("cuda:sm_80");
  uc_plain_set *set = NULL;
  if (CHECK_STATUS(uc_cuda_plain_set_create(context, &set), UPCONV_OK)) {
    views_are_checked(set);
    elementwise_is_checked(set);
    moves_are_checked(set);
    windows_are_checked(set);
    reductions_are_checked(set);
    products_are_checked(set);
    CHECK_INT(uc_cuda_plain_set_modules(set), 0);
  }
  uc_cuda_plain_set_destroy(set);
  upconv_context_destroy(context);
}

/* ---------------------------------------------------------------- without a device */

static void nothing_to_run_on(void) {
  upconv_context *context = open_for("cuda:sm_80"), *cpu = open_for("cpu");
  uc_plain_set *set = NULL;
  uc_plain *plain = NULL;
  void *memory = &memory;
  uc_cuda_stream stream = NULL;
  const void *in[UC_PLAIN_INPUTS] = {NULL};
  const uc_plain_view x = dense(UC_PLAIN_F32, 2, 3, 4, 0);
  const uc_plain_op op = op_of(UC_PLAIN_ELEMENTWISE, x, x);
  CHECK_STATUS(uc_cuda_plain_set_create(cpu, &set), UPCONV_INVALID_ARGUMENT);
  CHECK_SAYS(upconv_last_error(), "is not of CUDA");
  CHECK(!set);
  CHECK_STATUS(uc_cuda_plain_set_create(context, &set), UPCONV_OK);
  CHECK_STATUS(uc_cuda_plain_prepare(set, &op, &plain), UPCONV_OK);
  CHECK_STATUS(uc_cuda_plain_run(plain, in, memory, NULL, NULL), UPCONV_DEVICE_ERROR);
  CHECK_SAYS(upconv_last_error(), "there is nothing to run on");
  uc_cuda_plain_destroy(plain);
  uc_cuda_plain_set_destroy(set);
  CHECK(!uc_cuda_has_device(context) && !uc_cuda_has_device(cpu) && !uc_cuda_has_device(NULL));
  CHECK_STATUS(uc_cuda_memory_alloc(cpu, 4, &memory), UPCONV_DEVICE_ERROR);
  CHECK(!memory);
  CHECK_SAYS(upconv_last_error(), "there is no device to keep data on");
  CHECK_STATUS(uc_cuda_stream_create(context, &stream), UPCONV_DEVICE_ERROR);
  CHECK_STATUS(uc_cuda_memory_upload(context, in, in, 1, NULL), UPCONV_DEVICE_ERROR);
  CHECK_STATUS(uc_cuda_stream_wait(context, NULL), UPCONV_DEVICE_ERROR);
  upconv_context_destroy(context);
  upconv_context_destroy(cpu);
}

/* ---------------------------------------------------------------- what is compiled */

static size_t prepared(uc_plain_set *set, const uc_plain_op *op) {
  uc_plain *plain = NULL;
  CHECK_STATUS(uc_cuda_plain_prepare(set, op, &plain), UPCONV_OK);
  size_t workspace = plain ? uc_cuda_plain_workspace(plain) : 0;
  uc_cuda_plain_destroy(plain);
  return workspace;
}

/* Sizes, strides and attributes are arguments; types and functions are not. */
static void kernels_are_shared(void) {
  upconv_context *context = open_for("cuda:sm_80");
  uc_plain_set *set = NULL;
  CHECK_STATUS(uc_cuda_plain_set_create(context, &set), UPCONV_OK);
  for (int64_t n = 1; n < 20; n += 6) {
    uc_plain_op op = op_of(UC_PLAIN_ELEMENTWISE, dense(UC_PLAIN_F32, 1, n, 0, 0),
                           dense(UC_PLAIN_F32, 2, 3, n, 0));
    op.attr[0] = (double)n;
    prepared(set, &op);
    op = op_of(UC_PLAIN_COPY, dense(UC_PLAIN_F16, 2, n, 4, 0), dense(UC_PLAIN_F16, 1, 4 * n, 0, 0));
    prepared(set, &op);
  }
  CHECK_INT(uc_cuda_plain_set_modules(set), 2);
  uc_plain_op op =
      op_of(UC_PLAIN_MAP, dense(UC_PLAIN_I8, 1, 4, 0, 0), dense(UC_PLAIN_I8, 1, 4, 0, 0));
  prepared(set, &op); /* a move as any other */
  CHECK_INT(uc_cuda_plain_set_modules(set), 2);
  op =
      op_of(UC_PLAIN_ELEMENTWISE, dense(UC_PLAIN_F16, 1, 4, 0, 0), dense(UC_PLAIN_F16, 1, 4, 0, 0));
  prepared(set, &op);
  op.fn = UC_PLAIN_LOG;
  prepared(set, &op);
  CHECK_INT(uc_cuda_plain_set_modules(set), 4);
  op.in[0].shape[0] = op.out.shape[0] = 0;
  op.fn = UC_PLAIN_COS;
  prepared(set, &op); /* nothing to do, nothing to compile */
  CHECK_INT(uc_cuda_plain_set_modules(set), 4);
  uc_cuda_plain_set_destroy(set);
  uc_cuda_plain_set_destroy(NULL);
  upconv_context_destroy(context);
}

static void workspaces(void) {
  upconv_context *context = open_for("cuda:sm_80");
  uc_plain_set *set = NULL;
  CHECK_STATUS(uc_cuda_plain_set_create(context, &set), UPCONV_OK);
  const uc_plain_view x = dense(UC_PLAIN_F32, 2, 3, 1 << 20, 0);
  uc_plain_op op = op_of(UC_PLAIN_REDUCE, x, dense(UC_PLAIN_F32, 2, 3, 1, 0));
  op.axes = 2;
  size_t split = prepared(set, &op); /* few outputs of many elements: several blocks each */
  CHECK_MSG(split > 16 && split < 1 << 20, "%zu", split);
  op = op_of(UC_PLAIN_REDUCE, dense(UC_PLAIN_F32, 2, 1 << 20, 3, 0),
             dense(UC_PLAIN_F32, 2, 1 << 20, 1, 0));
  op.axes = 2;
  CHECK_INT(prepared(set, &op), 0);
  op = op_of(UC_PLAIN_SOFTMAX, dense(UC_PLAIN_F32, 2, 1000, 3, 0),
             dense(UC_PLAIN_F32, 2, 1000, 3, 0));
  op.axes = 2;
  CHECK_MSG(prepared(set, &op) >= 3000 * sizeof(double), "statistics of 1000 rows");
  uc_cuda_plain_set_destroy(set);
  upconv_context_destroy(context);
}

/* ---------------------------------------------------------------- walks and numbers */

static void walks(void) {
  const int64_t shape[] = {2, 3, 1, 4, 5};
  const int64_t dense_and_row[][UC_PLAIN_RANK] = {{60, 20, 20, 5, 1}, {0, 0, 0, 0, 1}};
  const int64_t last[][UC_PLAIN_RANK] = {{60, 1, 3, 15, 3}, {120, 2, 6, 30, 6}};
  uc_plain_walk w;
  uc_plain_walk_make(&w, 5, shape, ~UINT32_C(0), 1, dense_and_row, false);
  CHECK_INT(w.rank, 1); /* one run of memory */
  CHECK_INT(w.count, 120);
  CHECK_INT(w.shape[0], 120);
  uc_plain_walk_make(&w, 5, shape, ~UINT32_C(0), 2, dense_and_row, false);
  CHECK_INT(w.rank, 2); /* rows, and what repeats them */
  CHECK_INT(w.shape[0], 24);
  CHECK_INT(w.stride[0][0], 5);
  CHECK_INT(w.stride[1][0], 0);
  CHECK(!uc_plain_walk_groups(&w, 2, 4, 0)); /* rows of 5 */
  CHECK(uc_plain_walk_groups(&w, 2, 5, 0));
  uc_plain_walk_make(&w, 5, shape, ~UINT32_C(0), 2, last, true);
  CHECK_INT(w.rank, 1); /* channels last, in the order of memory */
  CHECK_INT(w.stride[1][0], 2);
  CHECK(!uc_plain_walk_groups(&w, 2, 4, 2));
  CHECK(uc_plain_walk_groups(&w, 1, 4, 0));
  uc_plain_walk_make(&w, 5, shape, 4, 1, dense_and_row, false);
  CHECK_INT(w.rank, 1); /* no axis at all */
  CHECK_INT(w.count, 1);
  CHECK_INT(w.shape[0], 1);
}

static void numbers(void) {
  static const struct {
    uc_plain_dtype dtype;
    double value;
    uint64_t bits;
  } cases[] = {{UC_PLAIN_I8, -1e9, 0x80},        {UC_PLAIN_I8, 127.9, 0x7f},
               {UC_PLAIN_I8, -1.9, UINT64_MAX},  {UC_PLAIN_U8, -3, 0},
               {UC_PLAIN_U8, 300, 0xff},         {UC_PLAIN_I16, 40000, 0x7fff},
               {UC_PLAIN_I32, 3e9, 0x7fffffff},  {UC_PLAIN_I32, -3e9, 0x80000000},
               {UC_PLAIN_U32, 3e9, 3000000000},  {UC_PLAIN_I64, 1e30, INT64_MAX},
               {UC_PLAIN_U64, 1e30, UINT64_MAX}, {UC_PLAIN_U64, 0x1p63, UINT64_C(1) << 63},
               {UC_PLAIN_I64, NAN, 0},           {UC_PLAIN_BOOL, NAN, 1},
               {UC_PLAIN_BOOL, -0.0, 0},         {UC_PLAIN_F16, 65520, 0x7c00},
               {UC_PLAIN_F16, 65519, 0x7bff},    {UC_PLAIN_BF16, 1.00390625, 0x3f80},
               {UC_PLAIN_F32, 1, 0x3f800000},    {UC_PLAIN_F64, -2, UINT64_C(0xc) << 60}};
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    int unused = 64 - 8 * (int)uc_plain_dtype_size(cases[i].dtype);
    uint64_t got = uc_plain_encode(cases[i].dtype, cases[i].value);
    CHECK_MSG(got << unused == cases[i].bits << unused, "%s of %g is %llx",
              uc_plain_dtype_name(cases[i].dtype), cases[i].value, (unsigned long long)got);
  }
  CHECK_INT(uc_plain_dtype_size(UC_PLAIN_NONE), 0);
  CHECK_INT(uc_plain_dtype_size(UC_PLAIN_DTYPES), 0);
  CHECK_INT(uc_plain_fn_operands(UC_PLAIN_FN_NONE), 0);
  CHECK_INT(uc_plain_fn_operands(UC_PLAIN_XOR), 2);
  CHECK_INT(uc_plain_fn_operands(UC_PLAIN_CLIP), 3);
  CHECK_INT(uc_plain_fn_operands(UC_PLAIN_COS), 1);
}

int main(int argc, char **argv) {
  setenv("UPCONV_NVRTC", FAKE, 1);
  setenv("UPCONV_CACHE_DIR", "", 1);
  static const check_test tests[] = {
      {"refusals", refusals},
      {"nothing_to_run_on", nothing_to_run_on},
      {"kernels_are_shared", kernels_are_shared},
      {"workspaces", workspaces},
      {"walks", walks},
      {"numbers", numbers},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
