/* SPDX-License-Identifier: Apache-2.0 */
/* upconv plan: explains what would be done, for a problem in text form or for a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "model.h"
#include "problem_text.h"

typedef struct plan_values {
  arg_list what;
  const char *then, *candidate, *device;
  bool no_rewrite, no_fuse, source;
  int math, threads;
  arg_list shapes, dims;
} plan_values;

/* Calls print(object, buffer, capacity, &length) twice: for the length, then for the text. */
typedef upconv_status (*print_function)(const void *object, char *buffer, size_t capacity,
                                        size_t *length);

static int print_all(const void *object, print_function print) {
  size_t length = 0;
  if (print(object, NULL, 0, &length) != UPCONV_OK) return cli_fail_library("plan");
  char *text = malloc(length + 1);
  if (!text) return cli_fail("plan: out of memory");
  upconv_status status = print(object, text, length + 1, &length);
  if (status == UPCONV_OK) {
    cli_clean(text, true);
    fputs(text, stdout);
  }
  free(text);
  return status == UPCONV_OK ? CLI_RIGHT : cli_fail_library("plan");
}

static upconv_status print_plan(const void *object, char *buffer, size_t capacity, size_t *length) {
  return upconv_plan_print(object, buffer, capacity, length);
}

static upconv_status print_source(const void *object, char *buffer, size_t capacity,
                                  size_t *length) {
  return upconv_plan_source(object, buffer, capacity, length);
}

static int plan_text(const plan_values *v, upconv_context *context) {
  problem_text p;
  int code = problem_text_parse("plan", &v->what, v->then, &p);
  if (code) return code;
  upconv_plan_options options = {
      .candidate = v->candidate, .no_rewrite = v->no_rewrite, .no_fuse = v->no_fuse};
  upconv_plan *plan = NULL;
  if (upconv_plan_create(context, p.problem, p.epilogue, &options, &plan) == UPCONV_OK)
    code = print_all(plan, v->source ? print_source : print_plan);
  else
    code = cli_fail_library("plan");
  upconv_plan_destroy(plan);
  problem_text_free(&p);
  return code;
}

#ifdef UPCONV_WITH_ONNX

static upconv_status print_model(const void *object, char *buffer, size_t capacity,
                                 size_t *length) {
  const model_run *run = object;
  return uc_onnx_print(run->session, run->inputs, run->input_count, true, buffer, capacity, length);
}

static int plan_model(const plan_values *v, upconv_context *context) {
  model_run run;
  uc_onnx_options options = {.math = (upconv_math)v->math,
                             .no_rewrite = v->no_rewrite,
                             .no_fuse = v->no_fuse,
                             .candidate = v->candidate};
  int code = model_open("plan", v->what.item[0], context, &options, &run);
  if (code == CLI_RIGHT) code = model_shapes(&run, &v->shapes, &v->dims, 1);
  if (code == CLI_RIGHT) code = print_all(&run, print_model);
  model_close(&run);
  return code;
}

#else

static int plan_model(const plan_values *v, upconv_context *context) {
  (void)v, (void)context;
  return fail_without_onnx("plan");
}

#endif

static int run(const void *values) {
  const plan_values *v = values;
  bool model = is_model(v->what.item[0]);
  if (model && v->what.count > 1)
    return cli_fail("plan: one model at a time, not also '%s'", v->what.item[1]);
  if (model && v->then) return cli_fail("plan: --then goes with a problem in text form");
  if (model && v->source) return cli_fail("plan: --source goes with a problem in text form");
  if (!model && v->shapes.count + v->dims.count > 0)
    return cli_fail("plan: --shape and --dim go with a model; a text says in12x24x48 itself");
  if (!model && v->math)
    return cli_fail("plan: --math goes with a model; a text says math=tf32 itself");
  upconv_context *context;
  int code = open_context("plan", v->device, v->threads, &context);
  if (code) return code;
  code = model ? plan_model(v, context) : plan_text(v, context);
  upconv_context_destroy(context);
  return code;
}

static const arg_option options[] = {
    {"then", ARG_TEXT, "TEXT", offsetof(plan_values, then), 0, 0,
     "what follows the convolution, as \"leaky_relu 0.2 | max_pool 2\""},
    {"shape", ARG_LIST, "X=1,3,16,32", offsetof(plan_values, shapes), 0, 0,
     "shape of a model's input; may be repeated"},
    {"dim", ARG_LIST, "N=SIZE", offsetof(plan_values, dims), 0, 0,
     "size of a model's symbolic dimension (1 if not given); may be repeated"},
    {"candidate", ARG_TEXT, "NAME", offsetof(plan_values, candidate), 0, 0,
     "forces one of the candidates that the plan lists"},
    {"no-rewrite", ARG_FLAG, NULL, offsetof(plan_values, no_rewrite), 0, 0,
     "leaves the program as written"},
    {"no-fuse", ARG_FLAG, NULL, offsetof(plan_values, no_fuse), 0, 0,
     "operator by operator, each result in memory"},
    {"source", ARG_FLAG, NULL, offsetof(plan_values, source), 0, 0,
     "prints the generated CUDA program instead"},
    {"math", ARG_CHOICE, MATH_CHOICES, offsetof(plan_values, math), 0, 0,
     "arithmetic of a model (the text says math=tf32)"},
    {"device", ARG_TEXT, "NAME", offsetof(plan_values, device), 0, 0,
     "cpu (the default), one that 'upconv devices' lists, or an architecture: cuda:sm_90a"},
    {"threads", ARG_COUNT, "N", offsetof(plan_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_plan = {
    .name = "plan",
    .summary = "Explains how a problem or a model would be computed.",
    .usage = "\"TEXT\" [--then \"TEXT\"] [OPTION...]\nMODEL.onnx [--shape NAME=SIZES] [OPTION...]",
    .details =
        "Prints phases, taps, the rules that fired, FLOP and bytes before and after, the chosen "
        "candidate and the cost of the others. The text form of a problem is n (batch), ci and "
        "co (channels), in (input size), k (kernel), s (stride), d (dilation), p and pe (padding "
        "at the beginning and the end), op (output padding), g (groups), bias, dtype=f16, "
        "math=tf32, layout=ndhwc; only in, ci, co and k have no default. docs/PROGRAM.md "
        "describes it whole.",
    .examples = "  upconv plan \"n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4\"\n"
                "  upconv plan \"ci16 co32 in16x32x32 k3 s2 p1 op1 bias\" \\\n"
                "    --then \"leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2\"\n"
                "  upconv plan \"ci16 co32 in64 k4 s2 p1 | relu\" --device cuda:sm_90a --source\n"
                "  upconv plan decoder.onnx --dim N=8\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(plan_values),
    .positionals = offsetof(plan_values, what),
    .min_positionals = 1,
    .max_positionals = -1,
    .positional = "problem or model",
    .run = run,
};
