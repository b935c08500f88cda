/* SPDX-License-Identifier: Apache-2.0 */
// labels: parallel
/* Plain operators that are large enough to be cut among threads: the same bits for any number of
   them, and right ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "onnx_case.h"

/* y of the graph for inputs 0, 1, 2, ... scaled, with this many threads. */
static void run_with(const onnx_build *b, int threads, uc_onnx_tensor *y) {
  const upconv_context_options options = {.threads = threads};
  upconv_context *context;
  uc_onnx_model *model;
  uc_onnx_session *session;
  uc_onnx_tensor x;
  uint64_t seed = 5;
  int64_t count;
  *y = (uc_onnx_tensor){.name = NULL};
  CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK);
  if (!CHECK_STATUS(uc_onnx_model_parse(b->data, b->size, NULL, &model), UPCONV_OK)) return;
  CHECK_STATUS(uc_onnx_session_create(model, context, NULL, &session), UPCONV_OK);
  CHECK_STATUS(uc_onnx_model_input_tensor(model, 0, NULL, 0, 1, &x), UPCONV_OK);
  CHECK(uc_onnx_tensor_elements(&x, &count));
  float *data = malloc((size_t)count * sizeof *data);
  if (!data) abort();
  for (int64_t i = 0; i < count; i++) data[i] = (float)(4 * check_random_unit(&seed) - 2);
  x.data = data;
  CHECK_STATUS(uc_onnx_run(session, &x, 1, y, 1), UPCONV_OK);
  uc_onnx_session_destroy(session);
  uc_onnx_model_destroy(model);
  upconv_context_destroy(context);
  free(data);
}

static void same_for_any_threads(onnx_build *b) {
  uc_onnx_tensor one, many;
  size_t bytes;
  onnx_output(b, "y");
  onnx_end(b);
  run_with(b, 1, &one);
  for (int threads = 2; threads <= 5; threads += 3) {
    run_with(b, threads, &many);
    if (CHECK(one.data && many.data && uc_onnx_tensor_bytes(&one, &bytes)))
      CHECK_MSG(memcmp(one.data, many.data, bytes) == 0, "%d threads", threads);
    uc_onnx_tensor_free(&many);
  }
  uc_onnx_tensor_free(&one);
  onnx_free(b);
}

/* The same graph, small enough for the oracle's patience but large enough to be cut. */
static void right_as_well(onnx_build *b) {
  onnx_case c;
  onnx_output(b, "y");
  if (onnx_case_open(&c, b, 1, NULL)) onnx_case_run(&c);
  onnx_case_close(&c);
}

static onnx_build start(const char *dims) {
  onnx_build b = onnx_begin(18);
  onnx_input(&b, "x", ONNX_FLOAT, dims);
  return b;
}

static onnx_build broadcast_add(void) {
  onnx_build b = start("1,6,100,101");
  onnx_random(&b, "k", "6,1,101", 1);
  onnx_node(&b, "Add", "k,x", "y");
  return b;
}

static onnx_build sum_of_three(void) {
  onnx_build b = start("5,7000");
  onnx_random(&b, "k", "5,1", 1);
  onnx_node(&b, "Sum", "k,x,x", "y");
  return b;
}

static onnx_build clip(void) {
  onnx_build b = start("40000");
  onnx_number(&b, "low", -0.5);
  onnx_node(&b, "Clip", "x,low", "y");
  return b;
}

static onnx_build softmax(const char *dims, int axis) {
  onnx_build b = start(dims);
  onnx_node(&b, "Softmax", "x", "y");
  onnx_int(&b, "axis", axis);
  return b;
}

static onnx_build reduce(const char *axes, int keepdims) {
  onnx_build b = start("3,20,30,31");
  onnx_int64s(&b, "axes", axes);
  onnx_node(&b, "ReduceMean", "x,axes", "y");
  onnx_int(&b, "keepdims", keepdims);
  return b;
}

static onnx_build pool(void) {
  onnx_build b = start("1,5,90,91");
  onnx_node(&b, "AveragePool", "x", "y");
  onnx_ints(&b, "kernel_shape", "3,2");
  onnx_ints(&b, "strides", "2,1");
  onnx_ints(&b, "pads", "1,0,2,1");
  onnx_int(&b, "ceil_mode", 1);
  return b;
}

static onnx_build gemm(int transposed) {
  onnx_build b = start("9,40");
  onnx_random(&b, "w", transposed ? "5000,40" : "40,5000", 1);
  onnx_random(&b, "c", "5000", 2);
  onnx_node(&b, "Gemm", "x,w,c", "y");
  onnx_int(&b, "transB", transposed);
  return b;
}

static onnx_build matmul(void) {
  onnx_build b = start("3,20,17");
  onnx_random(&b, "w", "3,17,700", 1);
  onnx_node(&b, "MatMul", "x,w", "y");
  return b;
}

static onnx_build norm(const char *op, const char *inputs) {
  onnx_build b = start("1,12,60,61");
  onnx_random(&b, "s", "12", 1);
  onnx_random(&b, "o", "12", 2);
  onnx_random(&b, "m", "12", 3);
  float variance[12];
  for (int i = 0; i < 12; i++) variance[i] = (float)(i + 1);
  onnx_floats(&b, "v", "12", variance);
  onnx_node(&b, op, inputs, "y");
  return b;
}

static onnx_build resize(void) {
  onnx_build b = start("2,3,40,41");
  onnx_floats(&b, "scales", "4", (const float[]){1, 1, 2, 3});
  onnx_node(&b, "Resize", "x,,scales", "y");
  return b;
}

typedef struct graph {
  const char *name;
  onnx_build (*make)(void);
} graph;

static onnx_build softmax_inside(void) { return softmax("4,9,1000", 1); }
static onnx_build softmax_last(void) { return softmax("400,99", -1); }
static onnx_build reduce_channels(void) { return reduce("1", 0); }
static onnx_build reduce_space(void) { return reduce("2,3", 1); }
static onnx_build reduce_outer(void) { return reduce("0,2", 0); }
static onnx_build gemm_plain(void) { return gemm(0); }
static onnx_build gemm_transposed(void) { return gemm(1); }
static onnx_build batch_norm(void) { return norm("BatchNormalization", "x,s,o,m,v"); }
static onnx_build instance_norm(void) { return norm("InstanceNormalization", "x,s,o"); }

static const graph graphs[] = {
    {"broadcast_add", broadcast_add},
    {"sum_of_three", sum_of_three},
    {"clip", clip},
    {"softmax_inside", softmax_inside},
    {"softmax_last", softmax_last},
    {"reduce_channels", reduce_channels},
    {"reduce_space", reduce_space},
    {"reduce_outer", reduce_outer},
    {"pool", pool},
    {"gemm_plain", gemm_plain},
    {"gemm_transposed", gemm_transposed},
    {"matmul", matmul},
    {"batch_norm", batch_norm},
    {"instance_norm", instance_norm},
    {"resize", resize},
};

static void same_bits(void) {
  for (size_t i = 0; i < CHECK_COUNT(graphs); i++) {
    check_context("%s", graphs[i].name);
    onnx_build b = graphs[i].make();
    same_for_any_threads(&b);
  }
  check_context(NULL);
}

static void right(void) {
  for (size_t i = 0; i < CHECK_COUNT(graphs); i++) {
    check_context("%s", graphs[i].name);
    onnx_build b = graphs[i].make();
    right_as_well(&b);
  }
  check_context(NULL);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {{"same_bits", same_bits}, {"right", right}};
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
