/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/* What exporters write for an activation becomes one operator of the epilogue, and what only
   looks like it does not. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "onnx_case.h"

/* A transposed convolution x -> c; what is built behind it ends in y. */
static onnx_build start(void) {
  onnx_build b = onnx_begin(17);
  onnx_input(&b, "x", ONNX_FLOAT, "2,3,4,5");
  onnx_random(&b, "w", "3,4,3,3", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  return b;
}

static void ends_as(onnx_build *b, const char *operators) {
  char epilogue[256];
  onnx_output(b, "y");
  snprintf(epilogue, sizeof epilogue, "n2 ci3 co4 in4x5 k3%s%s", *operators ? " | " : "",
           operators);
  (void)onnx_case_fuses(b, epilogue);
}

static void gelu_erf(void) {
  onnx_build b = start();
  onnx_number(&b, "root2", 1.4142135381698608);
  onnx_number(&b, "one", 1);
  onnx_number(&b, "half", 0.5);
  onnx_node(&b, "Div", "c,root2", "a");
  onnx_node(&b, "Erf", "a", "e");
  onnx_node(&b, "Add", "e,one", "f");
  onnx_node(&b, "Mul", "c,f", "g");
  onnx_node(&b, "Mul", "g,half", "y");
  ends_as(&b, "gelu");
}

/* 0.5 c + (0.5 c) erf(0.7071 c): grouped otherwise, operands exchanged. */
static void gelu_erf_grouped(void) {
  onnx_build b = start();
  onnx_number(&b, "k", 0.7071067690849304);
  onnx_number(&b, "half", 0.5);
  onnx_node(&b, "Mul", "k,c", "a");
  onnx_node(&b, "Erf", "a", "e");
  onnx_node(&b, "Mul", "half,c", "h");
  onnx_node(&b, "Mul", "h,e", "g");
  onnx_node(&b, "Add", "g,h", "y");
  ends_as(&b, "gelu");
}

static onnx_build gelu_tanh_with(double cubic) {
  onnx_build b = start();
  onnx_number(&b, "three", 3);
  onnx_number(&b, "cubic", cubic);
  onnx_number(&b, "k", 0.7978845834732056);
  onnx_number(&b, "one", 1);
  onnx_number(&b, "half", 0.5);
  onnx_node(&b, "Pow", "c,three", "p");
  onnx_node(&b, "Mul", "p,cubic", "q");
  onnx_node(&b, "Add", "c,q", "r");
  onnx_node(&b, "Mul", "r,k", "s");
  onnx_node(&b, "Tanh", "s", "t");
  onnx_node(&b, "Add", "t,one", "u");
  onnx_node(&b, "Mul", "c,half", "h");
  onnx_node(&b, "Mul", "h,u", "y");
  return b;
}

static void gelu_tanh(void) {
  onnx_build b = gelu_tanh_with(0.044714998453855515);
  ends_as(&b, "gelu_tanh");
}

/* c (1 + 0.044715 c c) instead of c + 0.044715 c^3 */
static void gelu_tanh_factored(void) {
  onnx_build b = start();
  onnx_number(&b, "cubic", 0.044715);
  onnx_number(&b, "k", 0.7978845608);
  onnx_number(&b, "one", 1);
  onnx_number(&b, "half", 0.5);
  onnx_node(&b, "Mul", "c,c", "p");
  onnx_node(&b, "Mul", "p,cubic", "q");
  onnx_node(&b, "Add", "q,one", "r");
  onnx_node(&b, "Mul", "c,k", "s");
  onnx_node(&b, "Mul", "s,r", "v");
  onnx_node(&b, "Tanh", "v", "t");
  onnx_node(&b, "Add", "one,t", "u");
  onnx_node(&b, "Mul", "u,c", "g");
  onnx_node(&b, "Mul", "half,g", "y");
  ends_as(&b, "gelu_tanh");
}

/* Another constant is another function: it fuses, but not as gelu. */
static void not_quite_gelu_tanh(void) {
  onnx_build b = gelu_tanh_with(0.05);
  onnx_case c;
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL)) {
    CHECK(strstr(c.text, "gelu") == NULL);
    onnx_case_run(&c);
  }
  onnx_case_close(&c);
}

static void silu(void) {
  onnx_build b = start();
  onnx_node(&b, "Sigmoid", "c", "s");
  onnx_node(&b, "Mul", "s,c", "y");
  ends_as(&b, "silu");
}

/* c / (1 + exp(-c)) */
static void silu_of_exp(void) {
  onnx_build b = start();
  onnx_number(&b, "one", 1);
  onnx_node(&b, "Neg", "c", "n");
  onnx_node(&b, "Exp", "n", "e");
  onnx_node(&b, "Add", "e,one", "d");
  onnx_node(&b, "Div", "c,d", "y");
  ends_as(&b, "silu");
}

/* The gate is of another value: a product of two values, not silu. */
static void gate_of_another_value(void) {
  onnx_build b = start();
  onnx_number(&b, "two", 2);
  onnx_node(&b, "Mul", "c,two", "a");
  onnx_node(&b, "Sigmoid", "a", "s");
  onnx_node(&b, "Mul", "s,c", "y");
  ends_as(&b, "mul 2 | sigmoid | mul %0");
}

static void mish(void) {
  onnx_build b = start();
  onnx_node(&b, "Softplus", "c", "s");
  onnx_node(&b, "Tanh", "s", "t");
  onnx_node(&b, "Mul", "c,t", "y");
  ends_as(&b, "mish");
}

/* tanh(log(1 + exp(c))) */
static void mish_of_exp(void) {
  onnx_build b = start();
  onnx_number(&b, "one", 1);
  onnx_node(&b, "Exp", "c", "e");
  onnx_node(&b, "Add", "one,e", "f");
  onnx_node(&b, "Log", "f", "s");
  onnx_node(&b, "Tanh", "s", "t");
  onnx_node(&b, "Mul", "c,t", "y");
  ends_as(&b, "mish");
}

/* c clip(c + 3, 0, 6) / 6 */
static void hardswish(void) {
  onnx_build b = start();
  onnx_number(&b, "three", 3);
  onnx_number(&b, "zero", 0);
  onnx_number(&b, "six", 6);
  onnx_node(&b, "Add", "c,three", "a");
  onnx_node(&b, "Clip", "a,zero,six", "k");
  onnx_node(&b, "Mul", "c,k", "m");
  onnx_node(&b, "Div", "m,six", "y");
  ends_as(&b, "hardswish");
}

static void hardswish_of_hardsigmoid(void) {
  onnx_build b = start();
  onnx_node(&b, "HardSigmoid", "c", "h");
  onnx_float(&b, "alpha", 1.0 / 6);
  onnx_node(&b, "Mul", "c,h", "y");
  ends_as(&b, "hardswish");
}

/* clip(c + 3, 0, 6) / 6 */
static void hardsigmoid(void) {
  onnx_build b = start();
  onnx_case c;
  onnx_number(&b, "three", 3);
  onnx_number(&b, "zero", 0);
  onnx_number(&b, "six", 6);
  onnx_node(&b, "Add", "c,three", "a");
  onnx_node(&b, "Clip", "a,zero,six", "k");
  onnx_node(&b, "Div", "k,six", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0) &&
      onnx_case_says(&c, "k3 | hardsigmoid\n"))
    onnx_case_run(&c);
  onnx_case_close(&c);
}

static void softplus_of_exp(void) {
  onnx_build b = start();
  onnx_number(&b, "one", 1);
  onnx_node(&b, "Exp", "c", "e");
  onnx_node(&b, "Add", "e,one", "f");
  onnx_node(&b, "Log", "f", "y");
  ends_as(&b, "softplus 1 inf");
}

static void softplus_with_beta(void) {
  onnx_build b = start();
  onnx_number(&b, "beta", 2);
  onnx_node(&b, "Mul", "c,beta", "a");
  onnx_node(&b, "Softplus", "a", "s");
  onnx_node(&b, "Div", "s,beta", "y");
  ends_as(&b, "softplus 2 inf");
}

/* PyTorch's, with its threshold. */
static void softplus_where(void) {
  onnx_build b = start();
  onnx_number(&b, "beta", 2);
  onnx_number(&b, "threshold", 15);
  onnx_node(&b, "Mul", "c,beta", "a");
  onnx_node(&b, "Softplus", "a", "s");
  onnx_node(&b, "Div", "s,beta", "d");
  onnx_node(&b, "Greater", "a,threshold", "g");
  onnx_node(&b, "Where", "g,c,d", "y");
  ends_as(&b, "softplus 2 15");
}

/* An inner value that is an output of the graph as well has to be kept: nothing may be
   swallowed. */
static void pattern_with_a_second_reader(void) {
  onnx_build b = start();
  onnx_case c;
  onnx_node(&b, "Sigmoid", "c", "s");
  onnx_node(&b, "Mul", "s,c", "y");
  onnx_output(&b, "y");
  onnx_output(&b, "s");
  if (onnx_case_open(&c, &b, 1, NULL)) {
    onnx_case_steps(&c, 1, 2);
    onnx_case_run(&c);
  }
  onnx_case_close(&c);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"gelu_erf", gelu_erf},
      {"gelu_erf_grouped", gelu_erf_grouped},
      {"gelu_tanh", gelu_tanh},
      {"gelu_tanh_factored", gelu_tanh_factored},
      {"not_quite_gelu_tanh", not_quite_gelu_tanh},
      {"silu", silu},
      {"silu_of_exp", silu_of_exp},
      {"gate_of_another_value", gate_of_another_value},
      {"mish", mish},
      {"mish_of_exp", mish_of_exp},
      {"hardswish", hardswish},
      {"hardswish_of_hardsigmoid", hardswish_of_hardsigmoid},
      {"hardsigmoid", hardsigmoid},
      {"softplus_of_exp", softplus_of_exp},
      {"softplus_with_beta", softplus_with_beta},
      {"softplus_where", softplus_where},
      {"pattern_with_a_second_reader", pattern_with_a_second_reader},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
