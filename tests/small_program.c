/* SPDX-License-Identifier: Apache-2.0 */
#include "small_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "epilogue.h"
#include "problem.h"

/* ---- problems ---- */

static void random_axis(uint64_t *random, upconv_problem_desc *desc, int i) {
  /* Fewer positions in 3-D, so that the volume stays small. */
  int64_t largest = desc->spatial_dims == 3 ? 3 : desc->spatial_dims == 2 ? 5 : 9;
  desc->in_size[i] = check_random_range(random, 1, largest);
  desc->kernel[i] = check_random_range(random, 1, desc->spatial_dims == 3 ? 4 : 6);
  desc->stride[i] = check_random_range(random, 1, 4);
  desc->dilation[i] = check_random_range(random, 0, 2) ? 1 : check_random_range(random, 2, 3);
  desc->pad_begin[i] = check_random_range(random, -1, 3);
  desc->pad_end[i] =
      check_random_range(random, 0, 2) ? desc->pad_begin[i] : check_random_range(random, -2, 3);
  int64_t most = desc->stride[i] > desc->dilation[i] ? desc->stride[i] : desc->dilation[i];
  desc->output_padding[i] =
      check_random_range(random, 0, 1) ? 0 : check_random_range(random, 0, most - 1);
}

static bool has_output(const upconv_problem_desc *desc) {
  upconv_problem *problem = NULL;
  int64_t shape[UPCONV_MAX_RANK];
  if (upconv_problem_create(desc, &problem)) return false;
  bool fits = upconv_problem_conv_shape(problem, shape) == UPCONV_OK;
  for (int i = 0; i < desc->spatial_dims; i++) fits = fits && shape[2 + i] > 0;
  upconv_problem_destroy(problem);
  return fits;
}

upconv_problem_desc small_problem(uint64_t *random) {
  upconv_problem_desc desc;
  do {
    upconv_problem_desc_init(&desc, (int)check_random_range(random, 1, 3));
    desc.batch = check_random_range(random, 1, 2);
    desc.groups = check_random_range(random, 1, 3);
    desc.in_channels = desc.groups * check_random_range(random, 1, 3);
    desc.out_channels = desc.groups * check_random_range(random, 1, 3);
    desc.bias = check_random_range(random, 0, 1);
    for (int i = 0; i < desc.spatial_dims; i++) random_axis(random, &desc, i);
  } while (!has_output(&desc));
  return desc;
}

/* ---- programs ---- */

bool small_program_init(small_program *program, const upconv_problem_desc *desc) {
  *program = (small_program){.problem = NULL};
  return upconv_problem_create(desc, &program->problem) == UPCONV_OK;
}

void small_program_free(small_program *program) { upconv_problem_destroy(program->problem); }

upconv_epilogue *small_program_epilogue(const small_program *program) {
  upconv_epilogue *epilogue = NULL;
  if (upconv_epilogue_parse(program->problem->nd, program->text, &epilogue)) return NULL;
  return epilogue;
}

bool small_program_append(small_program *program, const char *ops) {
  small_program longer = *program;
  size_t length = strlen(longer.text);
  if (longer.ops) length += (size_t)sprintf(longer.text + length, " | ");
  for (; *ops && length + 24 < sizeof longer.text; ops++) {
    if (*ops == '$')
      length += (size_t)sprintf(longer.text + length, "p%d", longer.names++);
    else
      longer.text[length++] = *ops;
  }
  longer.text[length] = '\0';
  upconv_epilogue *epilogue = *ops ? NULL : small_program_epilogue(&longer);
  int64_t shape[UPCONV_MAX_RANK];
  bool valid = epilogue && !upconv_output_shape(longer.problem, epilogue, shape);
  longer.ops = upconv_epilogue_op_count(epilogue);
  upconv_epilogue_destroy(epilogue);
  if (valid) *program = longer;
  return valid;
}

/* Operators that read the previous value alone. */
static const char *const chain_form[] = {"relu",
                                         "leaky_relu 0.1",
                                         "leaky_relu -0.5",
                                         "prelu @$",
                                         "prelu 0.3",
                                         "elu 0.8",
                                         "selu",
                                         "celu 0.7",
                                         "softplus",
                                         "softplus 2 3",
                                         "softsign",
                                         "gelu",
                                         "gelu_tanh",
                                         "silu",
                                         "mish",
                                         "hardswish",
                                         "hardsigmoid",
                                         "hardsigmoid -0.3 0.4",
                                         "clamp -0.5 0.8",
                                         "sigmoid",
                                         "tanh",
                                         "abs",
                                         "neg",
                                         "abs | sqrt",
                                         "clamp -4 4 | exp",
                                         "two_slope @$ @$",
                                         "two_slope 0.5 @$[]",
                                         "add @$",
                                         "add 0.7",
                                         "sub @$",
                                         "mul @$",
                                         "mul @$[]",
                                         "mul -1.5",
                                         "div @$",
                                         "batch_norm mean=@$ var=@$",
                                         "batch_norm mean=@$ var=@$ weight=@$ bias=@$ eps=0.01",
                                         "max_pool 2",
                                         "max_pool 3 s2 p1",
                                         "max_pool 3 s1 p1 ceil",
                                         "extreme_pool 2 dir=@$",
                                         "extreme_pool 2 s1 dir=-1",
                                         "avg_pool 2",
                                         "avg_pool 3 s2 p1 exclude_pad",
                                         "avg_pool 2 s1 div=3",
                                         "softmax",
                                         "log_softmax",
                                         "logsumexp",
                                         "sum c",
                                         "mean w",
                                         "max c",
                                         "min w",
                                         "global_avg_pool"};

/* Operators that read older values or extra tensors. */
static const char *const other_form[] = {"sub 0.3 %0", "add #$", "mul #$[nc]",
                                         "add %0",     "mul %1", "add %1 %2"};

void small_program_append_chain(small_program *program, uint64_t *random, int count) {
  for (int i = 0; i < count; i++) small_program_append(program, PICK_ONE(random, chain_form));
}

void small_program_append_any(small_program *program, uint64_t *random, int count) {
  for (int i = 0; i < count; i++)
    small_program_append(program, check_random_range(random, 0, 4) ? PICK_ONE(random, chain_form)
                                                                   : PICK_ONE(random, other_form));
}

/* ---- data ---- */

static float *random_floats(uint64_t *random, int64_t count, double low, double high) {
  float *number = check_alloc((size_t)count * sizeof *number, 0);
  for (int64_t i = 0; i < count; i++)
    number[i] = (float)(low + (high - low) * check_random_unit(random));
  return number;
}

static upconv_tensor random_floats_tensor(uint64_t *random, int rank, const int64_t *shape) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  return upconv_tensor_dense(random_floats(random, count, -1, 1), UPCONV_F32, rank, shape,
                             UPCONV_CHANNELS_FIRST);
}

/* What a parameter is used for decides its values. */
static bool is_used_as(const upconv_epilogue *epilogue, int param, upconv_op_kind kind,
                       int position) {
  for (int i = 0; i < epilogue->op_count; i++) {
    const upconv_operand *operand = &epilogue->op[i].operand[position];
    if (epilogue->op[i].kind == kind && operand->kind == UPCONV_OPERAND_PARAM &&
        operand->index == param)
      return true;
  }
  return false;
}

static upconv_tensor random_param(uint64_t *random, const upconv_epilogue *epilogue, int param,
                                  int64_t size) {
  float *number = random_floats(random, size, 0.25, 2);
  bool variance = is_used_as(epilogue, param, UPCONV_OP_BATCH_NORM, 4);
  bool divisor = is_used_as(epilogue, param, UPCONV_OP_DIV, 1);
  for (int64_t i = 0; i < size && !variance; i++) {
    if (check_random_range(random, 0, 1)) number[i] = -number[i];
    if (!divisor && check_random_range(random, 0, 7) == 0) number[i] = 0;
  }
  return upconv_tensor_dense(number, UPCONV_F32, 1, &size, UPCONV_CHANNELS_FIRST);
}

/* Channels of the result of an operator that uses the parameter; 1 where nobody does or it is one
   number. */
static int64_t param_size(const upconv_epilogue *epilogue, int64_t (*shape)[UC_RANK], int param) {
  int64_t size = 1;
  for (int i = 0; i < epilogue->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      const upconv_operand *operand = &epilogue->op[i].operand[j];
      if (operand->kind == UPCONV_OPERAND_PARAM && operand->index == param) size = shape[i + 1][1];
    }
  return epilogue->param[param].per_channel ? size : 1;
}

static void tensor_shape(const upconv_epilogue *epilogue, int64_t (*shape)[UC_RANK], int tensor,
                         int64_t *result) {
  for (int a = 0; a < UC_RANK; a++) result[a] = 1;
  for (int i = 0; i < epilogue->op_count; i++)
    for (int j = 0; j < UPCONV_MAX_OPERANDS; j++) {
      const upconv_operand *operand = &epilogue->op[i].operand[j];
      if (operand->kind != UPCONV_OPERAND_TENSOR || operand->index != tensor) continue;
      for (int a = 0; a < UC_RANK; a++)
        result[a] = epilogue->tensor[tensor].axes >> a & 1 ? shape[i + 1][a] : 1;
    }
}

/* Canonical N, C, D, H, W to the problem's own rank. */
static void user_shape(int nd, const int64_t *canonical, int64_t *shape) {
  shape[0] = canonical[0];
  shape[1] = canonical[1];
  for (int i = 0; i < nd; i++) shape[2 + i] = canonical[UC_RANK - nd + i];
}

static void fill_parameters(small_data *data, uint64_t *random, const upconv_problem *problem,
                            const upconv_epilogue *epilogue, int64_t (*shape)[UC_RANK]) {
  int64_t weight[UC_RANK] = {problem->in_channels, problem->out_channels / problem->groups};
  for (int i = 0; i < problem->nd; i++)
    weight[2 + i] = problem->axis[UC_AXES - problem->nd + i].kernel;
  data->parameters.weight = random_floats_tensor(random, problem->nd + 2, weight);
  if (problem->bias)
    data->parameters.bias = random_floats_tensor(random, 1, &problem->out_channels);
  data->param = calloc((size_t)epilogue->param_count + 1, sizeof *data->param);
  data->tensor = calloc((size_t)epilogue->tensor_count + 1, sizeof *data->tensor);
  for (int i = 0; i < epilogue->param_count; i++)
    data->param[i] = random_param(random, epilogue, i, param_size(epilogue, shape, i));
  for (int i = 0; i < epilogue->tensor_count; i++) {
    int64_t canonical[UC_RANK], own[UC_RANK];
    tensor_shape(epilogue, shape, i, canonical);
    user_shape(problem->nd, canonical, own);
    data->tensor[i] = random_floats_tensor(random, problem->nd + 2, own);
  }
  data->parameters.params = data->param;
  data->parameters.param_count = epilogue->param_count;
}

bool small_data_create(small_data *data, uint64_t *random, const upconv_problem *problem,
                       const upconv_epilogue *epilogue, int64_t batch, const int64_t *in_size) {
  *data = (small_data){.param = NULL};
  int64_t canonical[UC_AXES], x[UC_RANK] = {batch, problem->in_channels}, y[UC_RANK];
  for (int a = 0; a < UC_AXES; a++)
    canonical[a] = a < UC_AXES - problem->nd ? 1 : in_size[a - (UC_AXES - problem->nd)];
  for (int i = 0; i < problem->nd; i++) x[2 + i] = in_size[i];
  int64_t(*shape)[UC_RANK] = malloc(((size_t)epilogue->op_count + 1) * sizeof *shape);
  bool fits = shape && !uc_problem_conv_shape(problem, batch, canonical, shape[0]) &&
              !uc_epilogue_shapes(epilogue, shape[0], shape);
  if (fits) {
    fill_parameters(data, random, problem, epilogue, shape);
    user_shape(problem->nd, shape[epilogue->op_count], y);
    data->arguments.x = random_floats_tensor(random, problem->nd + 2, x);
    data->arguments.y =
        upconv_tensor_dense(NULL, problem->y_dtype, problem->nd + 2, y, problem->y_layout);
    data->arguments.tensors = data->tensor;
    data->arguments.tensor_count = epilogue->tensor_count;
    data->y_count = 1;
    for (int i = 0; i < problem->nd + 2; i++) data->y_count *= y[i];
  }
  free(shape);
  return fits;
}

void small_data_free(small_data *data) {
  CHECK_FREE(data->parameters.weight.data);
  CHECK_FREE(data->parameters.bias.data);
  CHECK_FREE(data->arguments.x.data);
  for (int i = 0; i < data->parameters.param_count; i++) CHECK_FREE(data->param[i].data);
  for (int i = 0; i < data->arguments.tensor_count; i++) CHECK_FREE(data->tensor[i].data);
  free(data->param);
  free(data->tensor);
  *data = (small_data){.param = NULL};
}
