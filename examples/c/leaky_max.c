/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transposed convolution and what follows it, from the description to the result:
 *
 *   ConvTranspose3d(16, 32, 3, stride=2, padding=1, output_padding=1)
 *   LeakyReLU(0.2), a factor for each channel, LeakyReLU(0.2), MaxPool3d(2)
 *
 * Says what was planned, and compares the result with the library's float64 oracle: exit code 1 if
 * it is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <upconv/upconv.h>

enum { IN_CHANNELS = 16, OUT_CHANNELS = 32, KERNEL = 3, RANK = 5 };

/* Every function that can fail returns a status, and says in upconv_last_error what was wrong. */
static void need(upconv_status status) {
  if (status == UPCONV_OK) return;
  fprintf(stderr, "%s: %s\n", upconv_status_string(status), upconv_last_error());
  exit(2);
}

/* Packed buffers and workspaces must be aligned to 64 bytes. */
static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (memory) return memory;
  fprintf(stderr, "no memory for %zu bytes\n", bytes);
  exit(2);
}

static size_t count_of(const upconv_tensor *tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
  return count;
}

static upconv_tensor make_tensor(int rank, const int64_t *shape) {
  upconv_tensor tensor = upconv_tensor_dense(NULL, UPCONV_F32, rank, shape, UPCONV_CHANNELS_FIRST);
  tensor.data = allocate(count_of(&tensor) * sizeof(float));
  return tensor;
}

/* Numbers from low to high, the same each time. */
static upconv_tensor make_random(int rank, const int64_t *shape, double low, double high) {
  static unsigned state = 1;
  upconv_tensor tensor = make_tensor(rank, shape);
  float *number = tensor.data;
  for (size_t i = 0; i < count_of(&tensor); i++) {
    state = state * 1664525u + 1013904223u;
    number[i] = (float)(low + (high - low) * (state >> 8) / 0x1000000);
  }
  return tensor;
}

static upconv_problem *describe(void) {
  upconv_problem_desc desc;
  need(upconv_problem_desc_init(&desc, 3));
  desc.batch = 2;
  desc.in_channels = IN_CHANNELS;
  desc.out_channels = OUT_CHANNELS;
  desc.bias = true;
  const int64_t in_size[3] = {8, 16, 16};
  for (int i = 0; i < 3; i++) {
    desc.in_size[i] = in_size[i];
    desc.kernel[i] = KERNEL;
    desc.stride[i] = 2;
    desc.pad_begin[i] = desc.pad_end[i] = 1;
    desc.output_padding[i] = 1;
  }
  upconv_problem *problem;
  need(upconv_problem_create(&desc, &problem));
  return problem;
}

/* The largest error of y as a fraction of the error that it may have. */
static double verify(const upconv_problem *problem, const upconv_epilogue *epilogue,
                     const upconv_parameters *parameters, const upconv_arguments *arguments) {
  size_t count = count_of(&arguments->y);
  double worst;
  double *value = allocate(count * sizeof *value), *bound = allocate(count * sizeof *bound);
  need(upconv_reference(problem, epilogue, parameters, arguments, NULL, value, bound));
  need(upconv_compare(&arguments->y, value, bound, &worst, NULL));
  free(value);
  free(bound);
  return worst;
}

static void report(const upconv_context *context, const upconv_plan *plan, const upconv_tensor *y,
                   double worst) {
  printf("%s, candidate %s\nrules:", upconv_context_describe(context), upconv_plan_candidate(plan));
  for (int i = 0; upconv_plan_rule(plan, i); i++) printf(" %s", upconv_plan_rule(plan, i));
  printf("\ny: ");
  for (int i = 0; i < y->rank; i++) printf("%s%lld", i ? " x " : "", (long long)y->shape[i]);
  printf("; largest error %.2f of what it may be\n", worst);
}

int main(void) {
  /* Describe, and plan once: a plan serves every batch and every size of x. */
  upconv_context *context;
  upconv_epilogue *epilogue;
  upconv_plan *plan;
  upconv_problem *problem = describe();
  const char *tail = "leaky_relu 0.2 | mul @multiplier | leaky_relu 0.2 | max_pool 2";
  need(upconv_context_create(NULL, &context));
  need(upconv_epilogue_parse(3, tail, &epilogue));
  need(upconv_plan_create(context, problem, epilogue, NULL, &plan));

  /* Pack once, and again whenever weights or parameters change. */
  const int64_t weight_shape[RANK] = {IN_CHANNELS, OUT_CHANNELS, KERNEL, KERNEL, KERNEL};
  const int64_t channels[1] = {OUT_CHANNELS};
  upconv_tensor multiplier = make_random(1, channels, -1, 1);
  upconv_parameters parameters = {.weight = make_random(RANK, weight_shape, -0.05, 0.05),
                                  .bias = make_random(1, channels, -0.05, 0.05),
                                  .params = &multiplier,
                                  .param_count = 1};
  void *packed = allocate(upconv_plan_packed_size(plan));
  need(upconv_plan_pack(plan, &parameters, packed, NULL));

  /* Execute as often as you like; nothing is allocated there. */
  const int64_t x_shape[RANK] = {2, IN_CHANNELS, 8, 16, 16};
  int64_t y_shape[RANK];
  need(upconv_plan_output_shape(plan, x_shape, y_shape));
  upconv_arguments arguments = {
      .x = make_random(RANK, x_shape, 0, 1), .y = make_tensor(RANK, y_shape), .packed = packed};
  need(upconv_plan_workspace_size(plan, x_shape, &arguments.workspace_size));
  arguments.workspace = allocate(arguments.workspace_size);
  need(upconv_execute(plan, &arguments));

  double worst = verify(problem, epilogue, &parameters, &arguments);
  report(context, plan, &arguments.y, worst);

  free(arguments.workspace);
  free(arguments.y.data);
  free(arguments.x.data);
  free(packed);
  free(parameters.weight.data);
  free(parameters.bias.data);
  free(multiplier.data);
  upconv_plan_destroy(plan);
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
  upconv_context_destroy(context);
  return worst <= 1 ? 0 : 1;
}
