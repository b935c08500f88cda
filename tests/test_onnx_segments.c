/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/* How graphs are cut: what joins a convolution's segment, what ends it, and that results stay
   right either way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "onnx_case.h"

static onnx_build start(int64_t opset) {
  onnx_build b = onnx_begin(opset);
  onnx_input(&b, "x", ONNX_FLOAT, "2,3,4,5");
  onnx_random(&b, "w", "3,4,3,3", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  return b;
}

static void ends_as(onnx_build *b, const char *operators) {
  char epilogue[512];
  onnx_output(b, "y");
  snprintf(epilogue, sizeof epilogue, "n2 ci3 co4 in4x5 k3%s%s", *operators ? " | " : "",
           operators);
  (void)onnx_case_fuses(b, epilogue);
}

/* Runs a graph that is cut into this many steps, whatever its text is. */
static void cuts_into(onnx_build *b, int segments, int plain) {
  onnx_case c;
  if (onnx_case_open(&c, b, 3, NULL)) {
    onnx_case_steps(&c, segments, plain);
    onnx_case_run(&c);
    onnx_case_run_plain(&c);
  }
  onnx_case_close(&c);
}

/* ---- operands ---- */

static void constants_on_either_side(void) {
  onnx_build b = start(13);
  onnx_number(&b, "k", 0.5);
  onnx_floats(&b, "one_element", "1,1,1", (const float[]){2});
  onnx_node(&b, "Sub", "k,c", "a");
  onnx_node(&b, "Div", "a,one_element", "b");
  onnx_node(&b, "Mul", "k,b", "y");
  ends_as(&b, "sub 0.5 %0 | div 2 | mul 0.5 %2");
}

static void channel_parameters(void) {
  onnx_build b = start(13);
  onnx_random(&b, "p", "4,1,1", 2);
  onnx_random(&b, "q", "1,4,1,1", 3);
  onnx_random(&b, "slope", "4,1,1", 4);
  onnx_node(&b, "Add", "c,p", "a");
  onnx_node(&b, "Mul", "q,a", "b");
  onnx_node(&b, "PRelu", "b,slope", "y");
  ends_as(&b, "add @p | mul @q %1 | prelu @slope");
}

/* Along the width, not the channels: a tensor that is broadcast. */
static void tensors_of_some_axes(void) {
  onnx_build b = start(13);
  onnx_random(&b, "row", "7", 2);
  onnx_random(&b, "plane", "6,7", 3);
  onnx_random(&b, "item", "2,4,1,1", 4);
  onnx_node(&b, "Add", "c,row", "a");
  onnx_node(&b, "Mul", "a,plane", "b");
  onnx_node(&b, "Add", "b,item", "y");
  ends_as(&b, "add #row[w] | mul #plane[hw] | add #item[nc]");
}

/* An operand that makes the result larger does not fit an epilogue. */
static void growing_operand(void) {
  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "2,3,4,5");
  onnx_random(&b, "w", "3,1,3,3", 1);
  onnx_random(&b, "p", "4,1,1", 2);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_node(&b, "Add", "c,p", "y");
  onnx_output(&b, "y");
  cuts_into(&b, 1, 1);
}

static void residual_and_gate(void) {
  onnx_build b = start(13);
  onnx_input(&b, "r", ONNX_FLOAT, "2,4,6,7");
  onnx_input(&b, "mask", ONNX_FLOAT, "2,1,6,7");
  onnx_node(&b, "Add", "r,c", "a");
  onnx_node(&b, "Tanh", "a", "t");
  onnx_node(&b, "Mul", "t,mask", "m");
  onnx_node(&b, "Add", "m,a", "y");
  ends_as(&b, "add #r %0 | tanh | mul #mask[nhw] | add %1");
}

/* Weights, bias and a scale that are inputs of the graph: packed again at each run. */
static void parameters_at_run_time(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "x", ONNX_FLOAT, "1,2,5");
  onnx_input(&b, "w", ONNX_FLOAT, "2,3,4");
  onnx_input(&b, "b", ONNX_FLOAT, "3");
  onnx_input(&b, "s", ONNX_FLOAT, "3,1");
  onnx_node(&b, "ConvTranspose", "x,w,b", "c");
  onnx_node(&b, "Mul", "c,s", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0) && onnx_case_run(&c)) {
    float before = ((float *)c.output[0].data)[3];
    ((float *)c.input[1].data)[0] += 1;
    ((float *)c.input[3].data)[0] += 1;
    onnx_case_run(&c);
    CHECK(before != ((float *)c.output[0].data)[3]);
  }
  onnx_case_close(&c);
}

/* ---- operators ---- */

static void batch_norm(void) {
  onnx_build b = start(15);
  onnx_random(&b, "g", "4", 2);
  onnx_random(&b, "h", "4", 3);
  onnx_random(&b, "m", "4", 4);
  onnx_floats(&b, "v", "4", (const float[]){1, 2, 3, 0.5f});
  onnx_node(&b, "BatchNormalization", "c,g,h,m,v", "n");
  onnx_float(&b, "epsilon", 0.25);
  onnx_node(&b, "Relu", "n", "y");
  ends_as(&b, "batch_norm mean=@m var=@v weight=@g bias=@h eps=0.25 | relu");
}

static void activations(void) {
  static const struct {
    const char *op, *text;
  } table[] = {
      {"Relu", "relu"},
      {"LeakyRelu", "leaky_relu 0.009999999776482582"},
      {"Elu", "elu 1"},
      {"Softplus", "softplus 1 inf"},
      {"Softsign", "softsign"},
      {"Sigmoid", "sigmoid"},
      {"Tanh", "tanh"},
      {"Abs", "abs"},
      {"Neg", "neg"},
      {"Exp", "exp"},
      {"HardSwish", "hardswish"},
      {"Mish", "mish"},
      {"Gelu", "gelu"},
  };
  for (size_t i = 0; i < CHECK_COUNT(table); i++) {
    onnx_build b = start(20);
    onnx_case c;
    char wanted[64];
    check_context("%s", table[i].op);
    onnx_node(&b, table[i].op, "c", "y");
    onnx_output(&b, "y");
    /* A default attribute may be left out of the text. */
    snprintf(wanted, sizeof wanted, "k3 | %.*s", (int)strcspn(table[i].text, " "), table[i].text);
    if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0) &&
        onnx_case_says(&c, wanted) && onnx_case_run(&c))
      onnx_case_run_plain(&c);
    onnx_case_close(&c);
  }
  check_context(NULL);
}

static void clips(void) {
  onnx_build b = start(13);
  onnx_number(&b, "low", -0.5);
  onnx_number(&b, "high", 0.75);
  onnx_node(&b, "Clip", "c,low", "a");
  onnx_node(&b, "Clip", "a,,high", "b");
  onnx_node(&b, "Max", "b,low", "d");
  onnx_node(&b, "Min", "high,d", "y");
  ends_as(&b, "clamp -0.5 | clamp -inf 0.75 | clamp -0.5 | clamp -inf 0.75");
}

/* Before operator set 11 the bounds are attributes. */
static void clip_of_old(void) {
  onnx_build b = start(9);
  onnx_node(&b, "Clip", "c", "y");
  onnx_float(&b, "min", 0);
  onnx_float(&b, "max", 6);
  ends_as(&b, "clamp 0 6");
}

static void pools(void) {
  onnx_build b = start(13);
  onnx_node(&b, "MaxPool", "c", "a");
  onnx_ints(&b, "kernel_shape", "2,2");
  onnx_node(&b, "AveragePool", "a", "y");
  onnx_ints(&b, "kernel_shape", "3,2");
  onnx_ints(&b, "strides", "2,1");
  onnx_ints(&b, "pads", "1,0,1,1");
  onnx_int(&b, "ceil_mode", 1);
  ends_as(&b, "max_pool 2 s1 | avg_pool 3x2 s2x1 p1x0 pe1 ceil exclude_pad");
}

static void global_pools(void) {
  onnx_build b = start(13);
  onnx_node(&b, "GlobalAveragePool", "c", "a");
  onnx_node(&b, "Flatten", "a", "f");
  onnx_node(&b, "Relu", "f", "y");
  ends_as(&b, "mean hw | relu");
}

/* keepdims 0: the epilogue keeps the axis, the graph's value has lost it. */
static void reductions_that_drop_axes(void) {
  onnx_build b = start(13);
  onnx_number(&b, "k", 10);
  onnx_node(&b, "ReduceMean", "c", "a");
  onnx_ints(&b, "axes", "1");
  onnx_int(&b, "keepdims", 0);
  onnx_node(&b, "ReduceMax", "a", "m");
  onnx_ints(&b, "axes", "-1,-2");
  onnx_int(&b, "keepdims", 0);
  onnx_node(&b, "Mul", "m,k", "y");
  ends_as(&b, "mean c | max hw | mul 10");
}

/* Axes as an input, channels and space together. */
static void reduction_over_all(void) {
  onnx_build b = start(18);
  onnx_int64s(&b, "axes", "1,2,3");
  onnx_node(&b, "ReduceMean", "c,axes", "y");
  ends_as(&b, "mean c | mean hw");
}

static void reduction_over_the_batch(void) {
  onnx_build b = start(13);
  onnx_node(&b, "ReduceSum", "c", "y");
  onnx_output(&b, "y");
  cuts_into(&b, 1, 1);
}

static void log_sum_exp(void) {
  onnx_build b = start(13);
  onnx_node(&b, "ReduceLogSumExp", "c", "a");
  onnx_ints(&b, "axes", "1");
  onnx_node(&b, "HardSigmoid", "a", "y");
  onnx_float(&b, "alpha", 0.25);
  ends_as(&b, "logsumexp | hardsigmoid 0.25");
}

static void softmax(void) {
  onnx_build b = start(13);
  onnx_node(&b, "Softmax", "c", "a");
  onnx_int(&b, "axis", 1);
  onnx_node(&b, "LogSoftmax", "a", "y");
  onnx_int(&b, "axis", -3);
  ends_as(&b, "softmax | log_softmax");
}

/* Before operator set 13 axis 1 means axes 1, 2 and 3 together: another function. */
static void softmax_of_old(void) {
  onnx_build b = start(12);
  onnx_case c;
  onnx_node(&b, "Softmax", "c", "y");
  onnx_int(&b, "axis", 1);
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 1) && onnx_case_run(&c)) {
    double sum = 0;
    for (int64_t i = 0; i < 4 * 6 * 7; i++) sum += (double)((float *)c.output[0].data)[i];
    CHECK_NEAR(sum, 1, 1e-5);
  }
  onnx_case_close(&c);
}

/* How PyTorch's exporter wrote softmax over channels then: between two transposes. */
static void softmax_between_transposes(void) {
  onnx_build b = start(11);
  onnx_node(&b, "Transpose", "c", "t");
  onnx_ints(&b, "perm", "0,3,2,1");
  onnx_node(&b, "Softmax", "t", "s");
  onnx_int(&b, "axis", 3);
  onnx_node(&b, "Transpose", "s", "y");
  onnx_ints(&b, "perm", "0,3,2,1");
  ends_as(&b, "softmax");
}

/* Channels last at the end: the library writes that order itself. */
static void transposed_output(void) {
  onnx_build b = start(13);
  onnx_node(&b, "Transpose", "c", "t");
  onnx_ints(&b, "perm", "0,2,3,1");
  onnx_node(&b, "Relu", "t", "y");
  ends_as(&b, "relu");
}

/* A sum of a value and its own transpose: height and width do not meet. */
static void sum_with_a_transpose(void) {
  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "2,3,4,4");
  onnx_random(&b, "w", "3,4,3,3", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_node(&b, "Transpose", "c", "t");
  onnx_ints(&b, "perm", "0,1,3,2");
  onnx_node(&b, "Add", "c,t", "y");
  onnx_output(&b, "y");
  cuts_into(&b, 1, 1);
}

/* Means over height and over width, of shapes [2,4,1,7] and [2,4,6,1]: their sum has both axes
   again. */
static void sum_of_means(void) {
  onnx_build b = start(13);
  onnx_node(&b, "ReduceMean", "c", "mh");
  onnx_ints(&b, "axes", "2");
  onnx_node(&b, "ReduceMean", "c", "mw");
  onnx_ints(&b, "axes", "3");
  onnx_node(&b, "Mul", "mh,mw", "y");
  ends_as(&b, "mean h | mean %0 w | mul %1 %2");
}

static void powers(void) {
  onnx_build b = start(13);
  onnx_number(&b, "two", 2);
  onnx_number(&b, "one", 1);
  onnx_node(&b, "Pow", "c,two", "p");
  onnx_node(&b, "Add", "p,one", "q");
  onnx_node(&b, "Sqrt", "q", "r");
  onnx_node(&b, "Reciprocal", "r", "y");
  ends_as(&b, "mul %0 | add 1 | sqrt | div 1 %3");
}

/* ---- Conv ---- */

static void conv_of_stride_1(void) {
  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "2,4,6,7");
  onnx_random(&b, "w", "6,2,3,2", 1);
  onnx_random(&b, "b", "6", 2);
  onnx_node(&b, "Conv", "x,w,b", "c");
  onnx_int(&b, "group", 2);
  onnx_ints(&b, "pads", "1,0,2,1");
  onnx_ints(&b, "dilations", "2,1");
  onnx_node(&b, "Relu", "c", "y");
  onnx_output(&b, "y");
  (void)onnx_case_fuses(&b, "n2 ci4 co6 g2 in6x7 k3x2 d2x1 p3x1 pe2x0 bias | relu");
}

/* A Conv's result against its definition, which shares nothing with the transposed form. */
static void conv_definition(const float *x, const float *w, int stride, float *y) {
  enum { IN = 3, OUT = 2, SIZE = 8, K = 3 };
  int out_size = (SIZE + 2 - K) / stride + 1;
  for (int o = 0; o < OUT; o++)
    for (int i = 0; i < out_size; i++) {
      double sum = 0;
      for (int c = 0; c < IN; c++)
        for (int k = 0; k < K; k++) {
          int at = i * stride - 1 + k;
          if (at >= 0 && at < SIZE)
            sum += (double)x[c * SIZE + at] * (double)w[(o * IN + c) * K + k];
        }
      y[o * out_size + i] = (float)sum;
    }
}

static void conv_by_definition(void) {
  for (int stride = 1; stride <= 3; stride++) {
    onnx_build b = onnx_begin(13);
    onnx_case c;
    char text[16];
    float wanted[16];
    onnx_input(&b, "x", ONNX_FLOAT, "1,3,8");
    onnx_input(&b, "w", ONNX_FLOAT, "2,3,3");
    onnx_node(&b, "Conv", "x,w", "y");
    snprintf(text, sizeof text, "%d", stride);
    onnx_ints(&b, "strides", text);
    onnx_ints(&b, "pads", "1,1");
    onnx_output(&b, "y");
    if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0) && onnx_case_run(&c)) {
      int64_t count;
      conv_definition(c.input[0].data, c.input[1].data, stride, wanted);
      CHECK(uc_onnx_tensor_elements(&c.output[0], &count));
      CHECK_INT(count, 2 * ((8 + 2 - 3) / stride + 1));
      for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(((float *)c.output[0].data)[i], wanted[i], 1e-5);
    }
    onnx_case_close(&c);
  }
}

/* ---- branches ---- */

/* Two convolutions, one sum: it joins the first, which then runs after the second. */
static void sum_of_two_convolutions(void) {
  onnx_build b = start(13);
  onnx_random(&b, "v", "3,4,3,3", 5);
  onnx_node(&b, "ConvTranspose", "x,v", "d");
  onnx_node(&b, "Relu", "d", "e");
  onnx_node(&b, "Add", "c,e", "a");
  onnx_node(&b, "Sigmoid", "a", "y");
  onnx_output(&b, "y");
  cuts_into(&b, 2, 0);
}

/* Both parts are made inside the result: no memory but the output's, and workspace. */
static void concat_in_place(void) {
  onnx_build b = start(13);
  onnx_case c;
  size_t bytes;
  onnx_random(&b, "v", "3,5,3,3", 5);
  onnx_node(&b, "ConvTranspose", "x,v", "d");
  onnx_node(&b, "Relu", "d", "e");
  onnx_node(&b, "Concat", "c,e", "y");
  onnx_int(&b, "axis", 1);
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 2, 1) && onnx_case_run(&c)) {
    size_t workspace = 0;
    for (int i = 0; i < 2; i++) {
      const upconv_plan *plan;
      size_t one;
      const int64_t shape[] = {2, 3, 4, 5};
      CHECK_STATUS(uc_onnx_segment_plan(c.session, c.input, 1, i, &plan), UPCONV_OK);
      CHECK_STATUS(upconv_plan_workspace_size(plan, shape, &one), UPCONV_OK);
      if (one > workspace) workspace = one;
    }
    CHECK_STATUS(uc_onnx_memory(c.session, c.input, 1, &bytes), UPCONV_OK);
    CHECK_MSG(bytes < workspace + 64, "%zu bytes, workspace %zu", bytes, workspace);
  }
  onnx_case_close(&c);
}

/* Concat of a Concat, an input and a value that another reader needs: places inside places, and
   copies. */
static void concat_of_many(void) {
  onnx_build b = start(13);
  onnx_input(&b, "r", ONNX_FLOAT, "2,2,6,7");
  onnx_node(&b, "Relu", "c", "d");
  onnx_node(&b, "Neg", "c", "e");
  onnx_node(&b, "Concat", "d,e", "f");
  onnx_int(&b, "axis", 1);
  onnx_node(&b, "Concat", "f,r,d,d", "g");
  onnx_int(&b, "axis", 1);
  onnx_node(&b, "ReduceSum", "f", "h");
  onnx_node(&b, "Mul", "g,h", "y");
  onnx_output(&b, "y");
  onnx_output(&b, "e");
  cuts_into(&b, 1, 6);
}

static void concat_along_the_width(void) {
  onnx_build b = start(13);
  onnx_random(&b, "v", "3,4,3,2", 5);
  onnx_node(&b, "ConvTranspose", "x,v", "d");
  onnx_node(&b, "Concat", "c,d,c", "y");
  onnx_int(&b, "axis", -1);
  onnx_output(&b, "y");
  cuts_into(&b, 2, 1);
}

/* A skip: the convolution's value is read twice, inside and outside. */
static void skip_connection(void) {
  onnx_build b = start(13);
  onnx_random(&b, "v", "4,4,1,1", 5);
  onnx_node(&b, "Relu", "c", "d");
  onnx_node(&b, "Conv", "d,v", "e");
  onnx_node(&b, "Add", "e,d", "y");
  onnx_output(&b, "y");
  cuts_into(&b, 2, 0);
}

/* The same value as two outputs, an input as an output, a constant as an output. */
static void odd_outputs(void) {
  onnx_build b = start(13);
  onnx_number(&b, "k", 3);
  onnx_node(&b, "Identity", "c", "i");
  onnx_node(&b, "Identity", "x", "j");
  onnx_node(&b, "Identity", "k", "l");
  onnx_node(&b, "Transpose", "c", "t");
  onnx_output(&b, "c");
  onnx_output(&b, "i");
  onnx_output(&b, "j");
  onnx_output(&b, "l");
  onnx_output(&b, "t");
  onnx_output(&b, "c");
  cuts_into(&b, 1, 0);
}

/* ---- types and sizes ---- */

static void half_precision(void) {
  static const int types[] = {ONNX_FLOAT16, ONNX_BFLOAT16};
  for (int i = 0; i < 2; i++) {
    onnx_build b = onnx_begin(22);
    onnx_case c;
    onnx_input(&b, "x", types[i], "2,3,4,5");
    onnx_half_random(&b, "w", types[i], "3,4,3,3", 1);
    onnx_half_random(&b, "s", types[i], "4,1,1", 2);
    onnx_node(&b, "ConvTranspose", "x,w", "c");
    onnx_node(&b, "Mul", "c,s", "m");
    onnx_node(&b, "Cast", "m", "y");
    onnx_int(&b, "to", ONNX_FLOAT);
    onnx_output(&b, "y");
    if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0) &&
        onnx_case_says(&c, i ? "x=bf16 w=bf16" : "x=f16 w=f16") && onnx_case_run(&c))
      CHECK_INT(c.output[0].dtype, UC_ONNX_FLOAT);
    onnx_case_close(&c);
  }
}

/* Rounding to a narrower type ends a segment; what follows is computed on rounded values. */
static void cast_ends_a_segment(void) {
  onnx_build b = start(13);
  onnx_case c;
  onnx_node(&b, "Cast", "c", "h");
  onnx_int(&b, "to", ONNX_FLOAT16);
  onnx_node(&b, "Relu", "h", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 1) && onnx_case_run(&c))
    CHECK_INT(c.output[0].dtype, UC_ONNX_FLOAT16);
  onnx_case_close(&c);
}

/* One plan for all sizes; the plan for a second size is the very same. */
static void sizes_share_a_plan(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "x", ONNX_FLOAT, "N,3,H,W");
  onnx_random(&b, "w", "3,4,3,3", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_ints(&b, "strides", "2,2");
  onnx_node(&b, "Relu", "c", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 3, NULL) && onnx_case_run(&c)) {
    const upconv_plan *first, *other;
    CHECK_STATUS(uc_onnx_segment_plan(c.session, c.input, 1, 0, &first), UPCONV_OK);
    for (int64_t size = 1; size <= 9; size += 2)
      if (onnx_case_resize(&c, size) && onnx_case_run(&c)) {
        CHECK_STATUS(uc_onnx_segment_plan(c.session, c.input, 1, 0, &other), UPCONV_OK);
        CHECK(first == other);
        CHECK_INT(c.output[0].shape[0], size);
        CHECK_INT(c.output[0].shape[2], 2 * size + 1);
      }
  }
  onnx_case_close(&c);
}

static void empty_batch(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "x", ONNX_FLOAT, "N,3,4,5");
  onnx_random(&b, "w", "3,4,3,3", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_node(&b, "Softmax", "c", "y");
  onnx_int(&b, "axis", 2);
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 0, NULL) && onnx_case_run(&c)) CHECK_INT(c.output[0].shape[0], 0);
  onnx_case_close(&c);
}

/* The operator-by-operator baseline gives the same, within both bounds. */
static void without_fusion(void) {
  const uc_onnx_options options = {.no_fuse = true, .no_rewrite = true};
  onnx_build b = start(13);
  onnx_case c;
  onnx_random(&b, "p", "4,1,1", 2);
  onnx_node(&b, "Mul", "c,p", "m");
  onnx_node(&b, "AveragePool", "m", "y");
  onnx_ints(&b, "kernel_shape", "2,2");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, &options)) {
    CHECK(strstr(c.text, "rules") == NULL);
    onnx_case_run(&c);
  }
  onnx_case_close(&c);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"constants_on_either_side", constants_on_either_side},
      {"channel_parameters", channel_parameters},
      {"tensors_of_some_axes", tensors_of_some_axes},
      {"growing_operand", growing_operand},
      {"residual_and_gate", residual_and_gate},
      {"parameters_at_run_time", parameters_at_run_time},
      {"batch_norm", batch_norm},
      {"activations", activations},
      {"clips", clips},
      {"clip_of_old", clip_of_old},
      {"pools", pools},
      {"global_pools", global_pools},
      {"reductions_that_drop_axes", reductions_that_drop_axes},
      {"reduction_over_all", reduction_over_all},
      {"reduction_over_the_batch", reduction_over_the_batch},
      {"log_sum_exp", log_sum_exp},
      {"softmax", softmax},
      {"softmax_of_old", softmax_of_old},
      {"softmax_between_transposes", softmax_between_transposes},
      {"transposed_output", transposed_output},
      {"sum_with_a_transpose", sum_with_a_transpose},
      {"sum_of_means", sum_of_means},
      {"powers", powers},
      {"conv_of_stride_1", conv_of_stride_1},
      {"conv_by_definition", conv_by_definition},
      {"sum_of_two_convolutions", sum_of_two_convolutions},
      {"concat_in_place", concat_in_place},
      {"concat_of_many", concat_of_many},
      {"concat_along_the_width", concat_along_the_width},
      {"skip_connection", skip_connection},
      {"odd_outputs", odd_outputs},
      {"half_precision", half_precision},
      {"cast_ends_a_segment", cast_ends_a_segment},
      {"sizes_share_a_plan", sizes_share_a_plan},
      {"empty_batch", empty_batch},
      {"without_fusion", without_fusion},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
