/* SPDX-License-Identifier: Apache-2.0 */
#include "cost.h"

#include <math.h>

#include "../checked.h"
#include "../status.h"
#include "pack.h"

static const double CLOCK = 1.5e9, START = 3e-6, BYTES_PER_SM = 2.5e10;

/* What a kernel does in a clock on one multiprocessor. */
typedef struct rates {
  double products, outputs;
} rates;

static double elements(const int64_t shape[UC_RANK]) {
  double count = 1;
  for (int a = 0; a < UC_RANK; a++) count *= (double)shape[a];
  return count;
}

/* Elements of the result. A program whose values have no sizes at the nominal extents is not built either. */
static double result_elements(const uc_lowered *lowered) {
  int64_t shape[UC_CUDA_MAX_VALUES + 1][UC_RANK];
  if (lowered->tail->op_count >= UC_CUDA_MAX_VALUES ||
      uc_lowered_nominal_shapes(lowered, shape) != UPCONV_OK)
    return 0;
  return elements(shape[lowered->tail->op_count]);
}

/* least: seconds that one block takes at any rate. */
static double cost_at(const uc_cuda_target *target, const uc_lowered *lowered, rates rate,
                      double least) {
  const upconv_problem *p = &lowered->conv;
  int64_t in_size[UC_AXES];
  double inputs = (double)p->batch * (double)p->in_channels, outputs = result_elements(lowered);
  for (int a = 0; a < UC_AXES; a++) {
    in_size[a] = p->axis[a].in_size;
    inputs *= (double)in_size[a];
  }
  double products = uc_problem_macs(p, p->batch, in_size);
  double compute = (products / rate.products + outputs / rate.outputs) / (CLOCK * target->sm_count);
  double bytes = inputs * (double)upconv_dtype_size(p->x_dtype) +
                 outputs * (double)upconv_dtype_size(p->y_dtype);
  return START + fmax(fmax(compute, least), bytes / (BYTES_PER_SM * target->sm_count));
}

static bool channels_last(const uc_lowered *lowered) {
  return lowered->source.y_layout == UPCONV_CHANNELS_LAST;
}

double uc_cuda_ffma_cost(const uc_cuda_target *target, const uc_lowered *lowered) {
  const upconv_problem *p = &lowered->conv;
  rates rate = {80, channels_last(lowered) ? 0.4 : 2.6};
  rate.products *=
      fmin(1, (double)(p->out_channels / p->groups) / 4); /* sums that share an input */
  return cost_at(target, lowered, rate, 0);
}

double uc_cuda_depthwise_cost(const uc_cuda_target *target, const uc_lowered *lowered) {
  return cost_at(target, lowered, (rates){100, 16}, 0);
}

/* The share of a fragment's rows or columns that is not padding. */
static double used(int64_t channels, int64_t unit) {
  return (double)channels / (double)(uc_ceil_div(channels, unit) * unit);
}

double uc_cuda_mma_cost(const uc_cuda_target *target, const uc_lowered *lowered,
                        upconv_dtype word) {
  const upconv_problem *p = &lowered->conv;
  int64_t in = p->in_channels / p->groups, width = 0;
  int64_t words = uc_ceil_div(in, word == UPCONV_F32 ? 1 : 2);
  rates rate = {word == UPCONV_F32 ? 200 : 400, 8};
  rate.products *= used(words, uc_cuda_step_words(words)) * used(p->out_channels / p->groups, 8);
  /* stores in single elements */
  const uc_axis *axis = &p->axis[2];
  bool odd = uc_axis_output(axis, axis->in_size, &width) && width % 4 != 0;
  if (channels_last(lowered))
    rate.outputs = 2.2;
  else if (odd)
    rate.outputs = 1.5;
  /* a block goes through the depth step by step */
  double steps = (double)uc_ceil_div(words, 8) * (double)uc_problem_kernel_size(p);
  return cost_at(target, lowered, rate, steps * (word == UPCONV_F32 ? 5e-8 : 1e-7));
}

/* Counted, not measured: a step of the depth is four loads of the input and an instruction of the tensor cores for every
   eight channels and part of a weight; an output takes about twelve more slots of a warp's 32. */
double uc_cuda_flat_cost(const uc_cuda_target *target, const uc_lowered *lowered, int64_t parts) {
  const upconv_problem *p = &lowered->conv;
  int64_t phases = p->axis[0].stride * p->axis[1].stride * p->axis[2].stride;
  int64_t depth = p->in_channels / p->groups * uc_problem_kernel_size(p);
  rates rate = {parts == 1 ? 260 : 200, channels_last(lowered) ? 2.2 : 3.6};
  rate.products *= used(p->out_channels / p->groups, 8) * used(uc_ceil_div(depth, phases), 4);
  return cost_at(target, lowered, rate, 0);
}
