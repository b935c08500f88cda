/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/* Plain operators and shape arithmetic: what decoders have between their convolutions, against
   numbers worked out by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "onnx_case.h"

/* Runs the graph on x = 0, 1, 2, ... and compares its first output. */
static void gives(onnx_build *b, int64_t symbol, const char *shape, const float *wanted) {
  onnx_case c;
  if (onnx_case_open(&c, b, symbol, NULL)) {
    int64_t count;
    char got[64] = "";
    for (int i = 0; i < c.input_count; i++)
      if (CHECK(uc_onnx_tensor_elements(&c.input[i], &count)))
        for (int64_t k = 0; k < count; k++)
          uc_onnx_set(c.input[i].data, c.input[i].dtype, k, (double)k);
    if (onnx_case_run(&c)) {
      const uc_onnx_tensor *y = &c.output[0];
      for (int i = 0; i < y->rank; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", i ? "," : "",
                 (long long)y->shape[i]);
      CHECK_STR(got, shape);
      CHECK(uc_onnx_tensor_elements(y, &count));
      for (int64_t i = 0; i < count && strcmp(got, shape) == 0; i++)
        CHECK_NEAR(uc_onnx_get(y->data, y->dtype, i), wanted[i], 1e-6);
    }
  }
  onnx_case_close(&c);
}

static onnx_build start(int64_t opset, const char *dims) {
  onnx_build b = onnx_begin(opset);
  onnx_input(&b, "x", ONNX_FLOAT, dims);
  return b;
}

/* ---- shape arithmetic ---- */

/* x.view(x.shape[0], -1, 2): how PyTorch's exporter writes it. */
static void shape_gather_concat(void) {
  onnx_build b = start(13, "N,2,3");
  onnx_int64s(&b, "zero", "0");
  onnx_int64s(&b, "tail", "-1,2");
  onnx_node(&b, "Shape", "x", "s");
  onnx_node(&b, "Gather", "s,zero", "n");
  onnx_node(&b, "Concat", "n,tail", "t");
  onnx_int(&b, "axis", 0);
  onnx_node(&b, "Reshape", "x,t", "y");
  onnx_output(&b, "y");
  gives(&b, 2, "2,3,2", (const float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

/* Scalars through Unsqueeze, Cast, Mul, Add, Sub and Div on integers: [N * 3, 6 / 2]. */
static void integer_arithmetic(void) {
  onnx_build b = start(13, "N,3");
  onnx_int64s(&b, "one_d", "0");
  onnx_int64s(&b, "six", "6");
  onnx_int64s(&b, "four", "4");
  onnx_int64s(&b, "one", "1");
  onnx_node(&b, "Constant", "", "i0");
  onnx_int(&b, "value_int", 0);
  onnx_node(&b, "Constant", "", "i1");
  onnx_int(&b, "value_int", 1);
  onnx_node(&b, "Shape", "x", "s");
  onnx_node(&b, "Gather", "s,i0", "n");
  onnx_node(&b, "Gather", "s,i1", "c");
  onnx_node(&b, "Mul", "n,c", "nc");
  onnx_node(&b, "Cast", "nc", "nf");
  onnx_int(&b, "to", ONNX_FLOAT);
  onnx_node(&b, "Cast", "nf", "ni");
  onnx_int(&b, "to", ONNX_INT64);
  onnx_node(&b, "Unsqueeze", "ni,one_d", "nv");
  onnx_node(&b, "Div", "six,four", "q"); /* 1 */
  onnx_node(&b, "Sub", "q,one", "r");    /* 0 */
  onnx_node(&b, "Add", "r,one", "t");    /* 1 */
  onnx_node(&b, "Concat", "nv,t", "shape");
  onnx_int(&b, "axis", 0);
  onnx_node(&b, "Reshape", "x,shape", "y");
  onnx_output(&b, "y");
  gives(&b, 2, "6,1", (const float[]){0, 1, 2, 3, 4, 5});
}

static void slice_of_a_shape(void) {
  onnx_build b = start(13, "N,2,3");
  onnx_int64s(&b, "one", "1");
  onnx_int64s(&b, "end", "9223372036854775807");
  onnx_int64s(&b, "minus", "-1");
  onnx_node(&b, "Shape", "x", "s");
  onnx_node(&b, "Slice", "s,one,end", "tail");
  onnx_node(&b, "ReduceProd", "tail", "p");
  onnx_int(&b, "keepdims", 1);
  onnx_node(&b, "Concat", "minus,p", "t");
  onnx_int(&b, "axis", 0);
  onnx_node(&b, "Reshape", "x,t", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "1,6", (const float[]){0, 1, 2, 3, 4, 5});
}

static void constant_of_shape_and_expand(void) {
  onnx_build b = start(13, "N,1,2");
  onnx_int64s(&b, "three", "1,3,1");
  onnx_node(&b, "Shape", "x", "s");
  onnx_node(&b, "Mul", "s,three", "t");
  onnx_node(&b, "Expand", "x,t", "e");
  onnx_node(&b, "ConstantOfShape", "t", "z");
  onnx_node(&b, "Add", "e,z", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "1,3,2", (const float[]){0, 1, 0, 1, 0, 1});
}

/* A shape that is an input of the graph: it decides the plan, and another value makes another
   one. */
static void shape_as_input(void) {
  onnx_build b = start(13, "6");
  onnx_case c;
  onnx_input(&b, "s", ONNX_INT64, "2");
  onnx_node(&b, "Reshape", "x,s", "y");
  onnx_output(&b, "y");
  onnx_end(&b);
  c = (onnx_case){.text = NULL};
  uc_onnx_tensor out = {.name = NULL};
  float x[6] = {0};
  int64_t s[2] = {2, 3};
  uc_onnx_tensor in[2] = {{.dtype = UC_ONNX_FLOAT, .rank = 1, .shape = {6}, .data = x},
                          {.dtype = UC_ONNX_INT64, .rank = 1, .shape = {2}, .data = s}};
  CHECK_STATUS(upconv_context_create(NULL, &c.context), UPCONV_OK);
  CHECK_STATUS(uc_onnx_model_parse(b.data, b.size, NULL, &c.model), UPCONV_OK);
  CHECK_STATUS(uc_onnx_session_create(c.model, c.context, NULL, &c.session), UPCONV_OK);
  CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_OK);
  CHECK(out.shape[0] == 2 && out.shape[1] == 3);
  uc_onnx_tensor_free(&out);
  s[0] = -1;
  s[1] = 1;
  CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_OK);
  CHECK(out.shape[0] == 6 && out.shape[1] == 1);
  uc_onnx_tensor_free(&out);
  in[1].data = NULL;
  CHECK_STATUS(uc_onnx_shapes(c.session, in, 2, &out, 1), UPCONV_UNSUPPORTED);
  onnx_case_close(&c);
  onnx_free(&b);
}

/* ---- views ---- */

static void slices(void) {
  onnx_build b = start(13, "3,4");
  onnx_int64s(&b, "starts", "-1,1");
  onnx_int64s(&b, "ends", "-9,100");
  onnx_int64s(&b, "axes", "0,-1");
  onnx_int64s(&b, "steps", "-2,2");
  onnx_node(&b, "Slice", "x,starts,ends,axes,steps", "v");
  onnx_node(&b, "Neg", "v", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "2,2", (const float[]){-9, -11, -1, -3});
}

static void split_and_glue(void) {
  onnx_build b = start(13, "2,4");
  onnx_int64s(&b, "sizes", "1,3");
  onnx_node(&b, "Split", "x,sizes", "p,q");
  onnx_int(&b, "axis", 1);
  onnx_node(&b, "Concat", "q,p", "y");
  onnx_int(&b, "axis", 1);
  onnx_output(&b, "y");
  gives(&b, 1, "2,4", (const float[]){1, 2, 3, 0, 5, 6, 7, 4});
}

/* A reshape of a transpose cannot be a view. */
static void reshape_of_a_transpose(void) {
  onnx_build b = start(13, "2,3");
  onnx_int64s(&b, "s", "6");
  onnx_node(&b, "Transpose", "x", "t");
  onnx_node(&b, "Reshape", "t,s", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "6", (const float[]){0, 3, 1, 4, 2, 5});
}

/* ... and its result not a part in place: its rows are neither the input's nor the result's. */
static void reshape_beside_another(void) {
  onnx_build b = start(13, "4,3");
  onnx_int64s(&b, "s", "6,2");
  onnx_floats(&b, "k", "6,1", (const float[]){90, 91, 92, 93, 94, 95});
  onnx_node(&b, "Transpose", "x", "t");
  onnx_node(&b, "Reshape", "t,s", "r");
  onnx_node(&b, "Concat", "k,r", "y");
  onnx_int(&b, "axis", 1);
  onnx_output(&b, "y");
  gives(&b, 1, "6,3",
        (const float[]){90, 0, 3, 91, 6, 9, 92, 1, 4, 93, 7, 10, 94, 2, 5, 95, 8, 11});
}

static void squeezes(void) {
  onnx_build b = start(11, "1,3,1");
  onnx_node(&b, "Squeeze", "x", "a");
  onnx_ints(&b, "axes", "-1");
  onnx_node(&b, "Unsqueeze", "a", "y");
  onnx_ints(&b, "axes", "0,3");
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,3,1", (const float[]){0, 1, 2});
}

static void depth_to_space(void) {
  onnx_build b = start(13, "1,4,1,2");
  onnx_node(&b, "DepthToSpace", "x", "y");
  onnx_int(&b, "blocksize", 2);
  onnx_string(&b, "mode", "CRD");
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,2,4", (const float[]){0, 2, 1, 3, 4, 6, 5, 7});
}

/* ---- moves ---- */

static void resize_nearest(void) {
  onnx_build b = start(13, "1,1,2,3");
  onnx_floats(&b, "scales", "4", (const float[]){1, 1, 1, 2});
  onnx_node(&b, "Resize", "x,,scales", "y");
  onnx_string(&b, "mode", "nearest");
  onnx_string(&b, "coordinate_transformation_mode", "asymmetric");
  onnx_string(&b, "nearest_mode", "floor");
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,2,6", (const float[]){0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
}

static void upsample_of_old(void) {
  onnx_build b = start(9, "1,1,2,2");
  onnx_floats(&b, "scales", "4", (const float[]){1, 1, 2, 1});
  onnx_node(&b, "Upsample", "x,scales", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,4,2", (const float[]){0, 1, 0, 1, 2, 3, 2, 3});
}

static void pads(void) {
  onnx_build b = start(13, "1,3");
  onnx_int64s(&b, "p", "0,2,0,-1");
  onnx_number(&b, "v", 9);
  onnx_node(&b, "Pad", "x,p,v", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "1,4", (const float[]){9, 9, 0, 1});
}

static void reflected_pads(void) {
  onnx_build b = start(10, "1,3");
  onnx_node(&b, "Pad", "x", "y");
  onnx_ints(&b, "pads", "0,2,0,1");
  onnx_string(&b, "mode", "reflect");
  onnx_output(&b, "y");
  gives(&b, 1, "1,6", (const float[]){2, 1, 0, 1, 2, 1});
}

/* ---- arithmetic ---- */

static void gemm(void) {
  onnx_build b = start(13, "2,3");
  onnx_floats(&b, "w", "2,3", (const float[]){1, 0, 2, 0, 1, 0});
  onnx_floats(&b, "c", "2", (const float[]){10, 20});
  onnx_node(&b, "Gemm", "x,w,c", "y");
  onnx_int(&b, "transB", 1);
  onnx_float(&b, "alpha", 2);
  onnx_float(&b, "beta", 0.5);
  onnx_output(&b, "y");
  gives(&b, 1, "2,2", (const float[]){13, 12, 31, 18});
}

/* Batches are broadcast. */
static void matmul(void) {
  onnx_build b = start(13, "2,1,2");
  onnx_floats(&b, "w", "2,2", (const float[]){1, 2, 3, 4});
  onnx_node(&b, "MatMul", "x,w", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "2,1,2", (const float[]){3, 4, 11, 16});
}

static void instance_norm(void) {
  onnx_build b = start(13, "1,1,2");
  onnx_floats(&b, "s", "1", (const float[]){2});
  onnx_floats(&b, "o", "1", (const float[]){5});
  onnx_node(&b, "InstanceNormalization", "x,s,o", "y");
  onnx_float(&b, "epsilon", 0);
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,2", (const float[]){3, 7});
}

/* Sum of three, Max and Min of several, Where, Pow. */
static void chains(void) {
  onnx_build b = start(13, "3");
  onnx_floats(&b, "k", "3", (const float[]){2, 2, 2});
  onnx_floats(&b, "one", "1", (const float[]){1});
  onnx_node(&b, "Sum", "x,k,one", "a"); /* 3 4 5 */
  onnx_node(&b, "Min", "a,k,x", "m");   /* 0 1 2 */
  onnx_node(&b, "Greater", "x,one", "g");
  onnx_node(&b, "Pow", "a,k", "p"); /* 9 16 25 */
  onnx_node(&b, "Where", "g,p,m", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "3", (const float[]){0, 1, 25});
}

/* Before operator set 7 an attribute says where the second operand lies. */
static void broadcast_of_old(void) {
  onnx_build b = start(6, "2,2,2");
  onnx_floats(&b, "k", "2", (const float[]){10, 20});
  onnx_node(&b, "Add", "x,k", "y");
  onnx_int(&b, "broadcast", 1);
  onnx_int(&b, "axis", 1);
  onnx_output(&b, "y");
  gives(&b, 1, "2,2,2", (const float[]){10, 11, 22, 23, 14, 15, 26, 27});
}

static void prelu_of_old(void) {
  onnx_build b = start(6, "1,2,2");
  onnx_floats(&b, "k", "2", (const float[]){10, 20});
  onnx_node(&b, "Neg", "x", "n");
  onnx_node(&b, "PRelu", "n,k", "y");
  onnx_output(&b, "y");
  gives(&b, 1, "1,2,2", (const float[]){0, -10, -40, -60});
}

/* ---- padding rules ---- */

/* SAME: the output has size * stride elements; an odd element of padding goes where the name
   says. */
static void same_padding(void) {
  static const struct {
    const char *mode;
    float wanted[4];
  } table[] = {
      /* x = 0 1, kernel 1 10 100, stride 2: all sums are 0 0 1 10 100; one element is cut off. */
      {"SAME_UPPER", {0, 0, 1, 10}},
      {"SAME_LOWER", {0, 1, 10, 100}},
  };
  for (size_t i = 0; i < CHECK_COUNT(table); i++) {
    onnx_build b = start(11, "1,1,2");
    check_context("%s", table[i].mode);
    onnx_floats(&b, "w", "1,1,3", (const float[]){1, 10, 100});
    onnx_node(&b, "ConvTranspose", "x,w", "y");
    onnx_ints(&b, "strides", "2");
    onnx_string(&b, "auto_pad", table[i].mode);
    onnx_output(&b, "y");
    gives(&b, 1, "1,1,4", table[i].wanted);
  }
  check_context(NULL);
}

static void output_shape(void) {
  onnx_build b = start(11, "1,1,2");
  onnx_floats(&b, "w", "1,1,3", (const float[]){1, 10, 100});
  onnx_node(&b, "ConvTranspose", "x,w", "y");
  onnx_ints(&b, "strides", "2");
  onnx_ints(&b, "output_shape", "6");
  onnx_output(&b, "y");
  gives(&b, 1, "1,1,6", (const float[]){0, 0, 1, 10, 100, 0});
}

/* ---- a GAN's head ---- */

static void latent_vector(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "z", ONNX_FLOAT, "N,5");
  onnx_random(&b, "fc", "5,12", 1);
  onnx_random(&b, "fb", "12", 2);
  onnx_random(&b, "w", "3,2,4,4", 3);
  onnx_int64s(&b, "grid", "-1,3,2,2");
  onnx_node(&b, "Gemm", "z,fc,fb", "h");
  onnx_node(&b, "Relu", "h", "r");
  onnx_node(&b, "Reshape", "r,grid", "g");
  onnx_node(&b, "ConvTranspose", "g,w", "c");
  onnx_ints(&b, "strides", "2,2");
  onnx_ints(&b, "pads", "1,1,1,1");
  onnx_node(&b, "Tanh", "c", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 3, NULL) && onnx_case_steps(&c, 1, 2) && onnx_case_run(&c))
    CHECK(c.output[0].rank == 4 && c.output[0].shape[0] == 3 && c.output[0].shape[3] == 4);
  onnx_case_close(&c);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"shape_gather_concat", shape_gather_concat},
      {"integer_arithmetic", integer_arithmetic},
      {"slice_of_a_shape", slice_of_a_shape},
      {"constant_of_shape_and_expand", constant_of_shape_and_expand},
      {"shape_as_input", shape_as_input},
      {"slices", slices},
      {"split_and_glue", split_and_glue},
      {"reshape_of_a_transpose", reshape_of_a_transpose},
      {"reshape_beside_another", reshape_beside_another},
      {"squeezes", squeezes},
      {"depth_to_space", depth_to_space},
      {"resize_nearest", resize_nearest},
      {"upsample_of_old", upsample_of_old},
      {"pads", pads},
      {"reflected_pads", reflected_pads},
      {"gemm", gemm},
      {"matmul", matmul},
      {"instance_norm", instance_norm},
      {"chains", chains},
      {"broadcast_of_old", broadcast_of_old},
      {"prelu_of_old", prelu_of_old},
      {"same_padding", same_padding},
      {"output_shape", output_shape},
      {"latent_vector", latent_vector},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
