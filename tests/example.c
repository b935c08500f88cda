/* SPDX-License-Identifier: Apache-2.0 */
#include "example.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

int64_t example_product(const int64_t *shape, int rank) {
  int64_t p = 1;
  for (int i = 0; i < rank; i++) p *= shape[i];
  return p;
}

/* ((i a + b) mod m - h) / q */
static float *fill(int64_t n, int64_t a, int64_t b, int64_t m, int64_t h, int64_t q) {
  float *data = malloc(((size_t)n + 1) * sizeof *data);
  for (int64_t i = 0; i < n; i++) data[i] = (float)((i * a + b) % m - h) / (float)q;
  return data;
}

static float *fill_param(const char *name, int number, int64_t n) {
  float *data = fill(n, 5, number * 3 + 2, 9, 3, 4);
  if (name[0] == 'v') /* a variance */
    for (int64_t i = 0; i < n; i++) data[i] = fabsf(data[i]) + 0.25f;
  return data;
}

/* The shape of the value that operator op makes, as users see it. */
static void shape_after(const example *e, int op, int64_t *shape) {
  int64_t conv[UC_RANK], all[16][UC_RANK], in_size[UC_AXES];
  int nd = e->problem->nd;
  for (int a = 0; a < UC_AXES; a++) in_size[a] = e->problem->axis[a].in_size;
  CHECK_STATUS(uc_problem_conv_shape(e->problem, e->problem->batch, in_size, conv), UPCONV_OK);
  CHECK_STATUS(uc_epilogue_shapes(e->epilogue, conv, all), UPCONV_OK);
  for (int i = 0; i < nd + 2; i++) shape[i] = all[op + 1][i < 2 ? i : i + UC_AXES - nd];
}

static void declare_operand(example *e, int op, const upconv_operand *operand) {
  int64_t shape[UC_RANK];
  int nd = e->problem->nd;
  shape_after(e, op, shape);
  if (operand->kind == UPCONV_OPERAND_PARAM && !e->param[operand->index]) {
    const uc_param_decl *decl = &e->epilogue->param[operand->index];
    int64_t n = decl->per_channel ? shape[1] : 1;
    e->param[operand->index] = fill_param(decl->name, operand->index, n);
    e->param_view[operand->index] =
        upconv_tensor_dense(e->param[operand->index], UPCONV_F32, 1, &n, UPCONV_CHANNELS_FIRST);
  }
  if (operand->kind == UPCONV_OPERAND_TENSOR && !e->tensor[operand->index]) {
    uint32_t axes = e->epilogue->tensor[operand->index].axes;
    for (int i = 0; i < nd + 2; i++)
      if (!(axes >> (i < 2 ? i : i + UC_AXES - nd) & 1)) shape[i] = 1;
    e->tensor[operand->index] = fill(example_product(shape, nd + 2), 13, 7, 21, 10, 8);
    e->tensor_view[operand->index] = upconv_tensor_dense(e->tensor[operand->index], UPCONV_F32,
                                                         nd + 2, shape, UPCONV_CHANNELS_FIRST);
  }
}

bool example_make(const char *text, example *e) {
  *e = (example){.problem = NULL};
  check_context("%s", text);
  if (!CHECK_STATUS(upconv_problem_parse(text, &e->problem, &e->epilogue), UPCONV_OK)) return false;
  const upconv_problem *p = e->problem;
  int nd = p->nd;
  e->x_shape[0] = p->batch;
  e->x_shape[1] = e->weight_shape[0] = p->in_channels;
  e->weight_shape[1] = p->out_channels / p->groups;
  for (int i = 0; i < nd; i++) {
    e->x_shape[2 + i] = p->axis[UC_AXES - nd + i].in_size;
    e->weight_shape[2 + i] = p->axis[UC_AXES - nd + i].kernel;
  }
  e->x = fill(example_product(e->x_shape, nd + 2), 37, 11, 64, 32, 16);
  e->weight = fill(example_product(e->weight_shape, nd + 2), 29, 5, 33, 16, 16);
  e->bias = p->bias ? fill(p->out_channels, 7, 3, 16, 8, 8) : NULL;
  for (int i = 0; i < e->epilogue->op_count; i++)
    for (int k = 0; k < UPCONV_MAX_OPERANDS; k++)
      declare_operand(e, i, &e->epilogue->op[i].operand[k]);
  e->parameters =
      (upconv_parameters){.weight = upconv_tensor_dense(e->weight, UPCONV_F32, nd + 2,
                                                        e->weight_shape, UPCONV_CHANNELS_FIRST),
                          .params = e->param_view,
                          .param_count = e->epilogue->param_count};
  if (p->bias)
    e->parameters.bias =
        upconv_tensor_dense(e->bias, UPCONV_F32, 1, &p->out_channels, UPCONV_CHANNELS_FIRST);
  e->arguments = (upconv_arguments){
      .x = upconv_tensor_dense(e->x, UPCONV_F32, nd + 2, e->x_shape, UPCONV_CHANNELS_FIRST),
      .tensors = e->tensor_view,
      .tensor_count = e->epilogue->tensor_count};
  if (!CHECK_STATUS(upconv_output_shape(e->problem, e->epilogue, e->y_shape), UPCONV_OK))
    return false;
  e->count = example_product(e->y_shape, nd + 2);
  e->value = malloc(((size_t)e->count + 1) * sizeof *e->value);
  e->bound = malloc(((size_t)e->count + 1) * sizeof *e->bound);
  e->value[e->count] = e->bound[e->count] = 12345; /* a guard */
  return true;
}

void example_destroy(example *e) {
  if (e->value) {
    CHECK(e->value[e->count] == 12345);
    CHECK(e->bound[e->count] == 12345);
  }
  upconv_problem_destroy(e->problem);
  upconv_epilogue_destroy(e->epilogue);
  for (int i = 0; i < EXAMPLE_DECLARED; i++) {
    free(e->param[i]);
    free(e->tensor[i]);
  }
  free(e->x);
  free(e->weight);
  free(e->bias);
  free(e->value);
  free(e->bound);
  check_context(NULL);
}
