/* SPDX-License-Identifier: Apache-2.0 */
#include "float_program.h"

#include <math.h>
#include <stdlib.h>

/* A value: shape N, C, D, H, W, or an operand whose axes of extent 1 are broadcast. */
typedef struct array {
  int64_t shape[UC_RANK];
  float *data;
} array;

static int64_t count_of(const int64_t shape[UC_RANK]) {
  int64_t count = 1;
  for (int i = 0; i < UC_RANK; i++) count *= shape[i];
  return count;
}

/* Counts i through all indices of shape; false after the last. */
static bool next_index(const int64_t shape[UC_RANK], int64_t i[UC_RANK]) {
  for (int a = UC_RANK - 1; a >= 0; a--) {
    if (++i[a] < shape[a]) return true;
    i[a] = 0;
  }
  return false;
}

static float at(const array *v, const int64_t i[UC_RANK]) {
  int64_t index = 0;
  for (int a = 0; a < UC_RANK; a++) index = index * v->shape[a] + (v->shape[a] == 1 ? 0 : i[a]);
  return v->data[index];
}

/* ---- convolution ---- */

/* The input index that tap k gives output o along an axis; false where there is none. */
static bool reads(const uc_axis *a, int64_t in_size, int64_t o, int64_t k, int64_t *i) {
  int64_t r = o + a->pad_begin - a->dilation * k;
  *i = r / a->stride;
  return r >= 0 && r % a->stride == 0 && *i < in_size;
}

static float conv_element(const upconv_problem *p, const float_inputs *in,
                          const int64_t o[UC_RANK]) {
  int64_t group_in = p->in_channels / p->groups, group_out = p->out_channels / p->groups;
  int64_t group = o[1] / group_out, k[UC_AXES], i[UC_AXES];
  const int64_t K[UC_AXES] = {p->axis[0].kernel, p->axis[1].kernel, p->axis[2].kernel};
  const int64_t *X = in->x_shape;
  float sum = in->bias ? in->bias[o[1]] : 0;
  for (int64_t e = group * group_in; e < (group + 1) * group_in; e++)
    for (k[0] = 0; k[0] < K[0]; k[0]++)
      for (k[1] = 0; k[1] < K[1]; k[1]++)
        for (k[2] = 0; k[2] < K[2]; k[2]++) {
          bool inside = true;
          for (int a = 0; a < UC_AXES; a++)
            inside = inside && reads(&p->axis[a], X[2 + a], o[2 + a], k[a], &i[a]);
          if (!inside) continue;
          int64_t w = (e * group_out + o[1] % group_out) * K[0] * K[1] * K[2];
          w += (k[0] * K[1] + k[1]) * K[2] + k[2];
          int64_t x = (((o[0] * X[1] + e) * X[2] + i[0]) * X[3] + i[1]) * X[4] + i[2];
          sum += in->x[x] * in->weight[w];
        }
  return sum;
}

/* ---- elementwise ---- */

static float function_of(upconv_op_kind kind, float x, const double *attr) {
  float a = (float)attr[0], b = (float)attr[1];
  switch ((int)kind) {
  case UPCONV_OP_RELU:
    return x > 0 || isnan(x) ? x : 0;
  case UPCONV_OP_LEAKY_RELU:
    return x > 0 ? x : a * x;
  case UPCONV_OP_ELU:
    return x > 0 ? x : a * expm1f(x);
  case UPCONV_OP_SELU:
    return b * (x > 0 ? x : a * expm1f(x));
  case UPCONV_OP_CELU:
    return x > 0 ? x : a * expm1f(x / a);
  case UPCONV_OP_SOFTPLUS:
    return x * a > b ? x : log1pf(expf(x * a)) / a;
  case UPCONV_OP_SOFTSIGN:
    return x / (1 + fabsf(x));
  case UPCONV_OP_GELU:
    return 0.5f * x * (1 + erff(x * sqrtf(0.5f)));
  case UPCONV_OP_GELU_TANH:
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  case UPCONV_OP_SILU:
    return x / (1 + expf(-x));
  case UPCONV_OP_MISH:
    return x * tanhf(log1pf(expf(x)));
  case UPCONV_OP_HARDSWISH:
    return x * (fminf(fmaxf(x + 3, 0), 6) / 6);
  case UPCONV_OP_HARDSIGMOID:
    return fminf(fmaxf(a * x + b, 0), 1);
  case UPCONV_OP_CLAMP:
    return fminf(fmaxf(x, a), b);
  case UPCONV_OP_SIGMOID:
    return 1 / (1 + expf(-x));
  case UPCONV_OP_TANH:
    return tanhf(x);
  case UPCONV_OP_ABS:
    return fabsf(x);
  case UPCONV_OP_NEG:
    return -x;
  case UPCONV_OP_SQRT:
    return sqrtf(x);
  case UPCONV_OP_EXP:
    return expf(x);
  default:
    return NAN;
  }
}

static float combine(const upconv_op *op, const float v[UPCONV_MAX_OPERANDS]) {
  switch ((int)op->kind) {
  case UPCONV_OP_ADD:
    return v[0] + v[1];
  case UPCONV_OP_SUB:
    return v[0] - v[1];
  case UPCONV_OP_MUL:
    return v[0] * v[1];
  case UPCONV_OP_DIV:
    return v[0] / v[1];
  case UPCONV_OP_PRELU:
    return v[0] > 0 ? v[0] : v[1] * v[0];
  case UPCONV_OP_TWO_SLOPE:
    return v[0] > 0 ? v[1] * v[0] : v[2] * v[0];
  case UPCONV_OP_BATCH_NORM:
    return (v[0] - v[3]) / sqrtf(v[4] + (float)op->attr[0]) * v[1] + v[2];
  default:
    return function_of(op->kind, v[0], op->attr);
  }
}

/* ---- pooling ---- */

static float pool_element(const upconv_op *op, const array *from, float direction,
                          const int64_t o[UC_RANK]) {
  const upconv_window *w = &op->window;
  bool average = op->kind == UPCONV_OP_AVG_POOL, least = direction < 0;
  float result = average ? 0 : least ? INFINITY : -INFINITY;
  const int64_t K[UC_RANK] = {1, 1, w->kernel[0], w->kernel[1], w->kernel[2]};
  int64_t k[UC_RANK] = {0}, i[UC_RANK] = {o[0], o[1]};
  do {
    bool inside = true;
    for (int a = 0; a < UC_AXES; a++) {
      i[2 + a] = o[2 + a] * w->stride[a] - w->pad_begin[a] + k[2 + a] * w->dilation[a];
      inside = inside && i[2 + a] >= 0 && i[2 + a] < from->shape[2 + a];
    }
    if (!inside) continue;
    float x = at(from, i);
    if (average)
      result += x;
    else if (isnan(x) || (least ? x < result : x > result))
      result = isnan(result) ? result : x;
  } while (next_index(K, k));
  return average ? result / (float)uc_window_divisor(w, o + 2, from->shape + 2) : result;
}

/* ---- channels and reductions ---- */

static float over_channels(upconv_op_kind kind, const array *from, const int64_t o[UC_RANK]) {
  int64_t i[UC_RANK] = {o[0], 0, o[2], o[3], o[4]};
  float most = -INFINITY, sum = 0;
  for (i[1] = 0; i[1] < from->shape[1]; i[1]++) most = fmaxf(most, at(from, i));
  for (i[1] = 0; i[1] < from->shape[1]; i[1]++) sum += expf(at(from, i) - most);
  if (kind == UPCONV_OP_LOGSUMEXP) return most + logf(sum);
  float x = at(from, o) - most;
  return kind == UPCONV_OP_SOFTMAX ? expf(x) / sum : x - logf(sum);
}

static float reduce_element(const upconv_op *op, const array *from, const int64_t o[UC_RANK]) {
  if (op->kind == UPCONV_OP_LOGSUMEXP) return over_channels(op->kind, from, o);
  int64_t extent[UC_RANK] = {1, 1, 1, 1, 1}, k[UC_RANK] = {0}, i[UC_RANK];
  for (int a = 1; a < UC_RANK; a++)
    if (op->axes >> (a - 1) & 1) extent[a] = from->shape[a];
  float sum = 0, most = -INFINITY, least = INFINITY;
  double long_sum = 0;
  do {
    for (int a = 0; a < UC_RANK; a++) i[a] = o[a] + k[a];
    float x = at(from, i);
    sum += x;
    long_sum += (double)x;
    most = isnan(x) || x > most ? x : most;
    least = isnan(x) || x < least ? x : least;
  } while (next_index(extent, k));
  if (!(op->axes & UC_AXES_CHANNEL)) sum = (float)long_sum;
  if (op->kind == UPCONV_OP_SUM) return sum;
  if (op->kind == UPCONV_OP_MEAN) return sum / (float)count_of(extent);
  return op->kind == UPCONV_OP_MAX ? most : least;
}

/* ---- the program ---- */

typedef struct program {
  const upconv_problem *problem;
  const upconv_epilogue *epilogue;
  const float_inputs *in;
  array *value;
} program;

static float operand_at(const program *p, const upconv_op *op, int number,
                        const int64_t i[UC_RANK]) {
  const upconv_operand *operand = &op->operand[number];
  switch (operand->kind) {
  case UPCONV_OPERAND_VALUE:
    return at(&p->value[operand->index], i);
  case UPCONV_OPERAND_CONSTANT:
    return (float)operand->constant;
  case UPCONV_OPERAND_PARAM: {
    bool per_channel = p->epilogue->param[operand->index].per_channel;
    return p->in->param[operand->index][per_channel ? i[1] : 0];
  }
  case UPCONV_OPERAND_TENSOR: {
    array t = {.data = p->in->tensor[operand->index]};
    uint32_t axes = p->epilogue->tensor[operand->index].axes;
    const array *result = &p->value[op - p->epilogue->op + 1];
    for (int a = 0; a < UC_RANK; a++) t.shape[a] = axes >> a & 1 ? result->shape[a] : 1;
    return at(&t, i);
  }
  case UPCONV_OPERAND_NONE:
    break;
  }
  return number == 1 ? 1 : 0; /* the weight and bias of batch_norm */
}

static float op_element(const program *p, const upconv_op *op, const int64_t i[UC_RANK]) {
  const upconv_operand *first = &op->operand[0];
  const array *from = first->kind == UPCONV_OPERAND_VALUE ? &p->value[first->index] : NULL;
  float v[UPCONV_MAX_OPERANDS];
  switch (uc_op_classify(op->kind)) {
  case UC_CLASS_POOL:
    return pool_element(op, from, op->kind == UPCONV_OP_EXTREME_POOL ? operand_at(p, op, 1, i) : 1,
                        i);
  case UC_CLASS_CHANNELS:
    return over_channels(op->kind, from, i);
  case UC_CLASS_REDUCE:
    return reduce_element(op, from, i);
  case UC_CLASS_ELEMENTWISE:
    break;
  }
  for (int k = 0; k < UPCONV_MAX_OPERANDS; k++) v[k] = operand_at(p, op, k, i);
  return combine(op, v);
}

static bool run(program *p, const int64_t (*shape)[UC_RANK]) {
  for (int v = 0; v <= p->epilogue->op_count; v++) {
    array *result = &p->value[v];
    for (int a = 0; a < UC_RANK; a++) result->shape[a] = shape[v][a];
    int64_t count = count_of(shape[v]), i[UC_RANK] = {0};
    result->data = malloc(((size_t)count + 1) * sizeof *result->data);
    if (!result->data) return false;
    for (int64_t n = 0; n < count; n++) {
      result->data[n] =
          v == 0 ? conv_element(p->problem, p->in, i) : op_element(p, &p->epilogue->op[v - 1], i);
      next_index(shape[v], i);
    }
  }
  return true;
}

float *float_program(const upconv_problem *problem, const upconv_epilogue *epilogue,
                     const float_inputs *inputs) {
  int values = epilogue->op_count + 1;
  int64_t(*shape)[UC_RANK] = malloc((size_t)values * sizeof *shape);
  program p = {problem, epilogue, inputs, calloc((size_t)values, sizeof *p.value)};
  float *result = NULL;
  if (shape && p.value &&
      !uc_problem_conv_shape(problem, inputs->x_shape[0], inputs->x_shape + 2, shape[0]) &&
      !uc_epilogue_shapes(epilogue, shape[0], shape) && run(&p, (const int64_t(*)[UC_RANK])shape)) {
    result = p.value[values - 1].data;
    p.value[values - 1].data = NULL;
  }
  for (int v = 0; p.value && v < values; v++) free(p.value[v].data);
  free(p.value);
  free(shape);
  return result;
}
