/* SPDX-License-Identifier: Apache-2.0 */
/* upconv demo: models side by side with the same library working operator by operator, and with the oracle. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "gpu.h"
#include "model.h"
#include "monotonic.h"
#include "progress.h"
#include "timing.h"
#include "units.h"

typedef struct demo_values {
  arg_list models, dims;
  const char *device;
  int batch, math, threads, repeat;
} demo_values;

enum { MAX_BATCH = 1 << 24 };

#ifdef UPCONV_WITH_ONNX

/* The oracle checks whole results if that takes no longer than this, else some entries of the batch. */
static const double ORACLE_TIME = 10; /* seconds */

typedef struct demo_row {
  double fused, unfused; /* seconds */
  double worst;          /* largest error over its bound */
  int64_t batch;         /* entries; 1 if the model has no batch axis */
  int64_t checked;       /* of them, by the oracle */
} demo_row;

static int measure(const demo_values *v, gpu_meter *gpu, model_run *run, const char *label,
                   double *median) {
  /* A GPU gets its work while it reads the large buffer that empties its cache. */
  timing_options options = {.repeat = v->repeat, .label = label, .gpu = gpu, .cold = gpu != NULL};
  timing_stats stats;
  int code = model_execute(run);
  if (code) return code;
  options.stream = uc_onnx_stream(run->session);
  if (!timing_measure(model_repeat, run, &options, &stats)) return model_fail(run);
  *median = stats.median;
  return CLI_RIGHT;
}

/* ---- checking entries of the batch */

static bool starts_with_symbol(const uc_onnx_value_info *info, const char **symbol) {
  if (info->rank < 1 || !info->symbol[0]) return false;
  if (!*symbol) *symbol = info->symbol[0];
  return strcmp(*symbol, info->symbol[0]) == 0;
}

/* True if the first axis of all inputs and outputs is one symbolic dimension, which occurs nowhere else. */
static bool has_batch_axis(const model_run *run) {
  const char *symbol = NULL;
  for (int i = 0; i < run->input_count + run->output_count; i++) {
    const uc_onnx_value_info *info = i < run->input_count
                                         ? uc_onnx_model_input(run->model, i)
                                         : uc_onnx_model_output(run->model, i - run->input_count);
    if (!starts_with_symbol(info, &symbol)) return false;
    for (int axis = 1; axis < info->rank; axis++)
      if (info->symbol[axis] && strcmp(info->symbol[axis], symbol) == 0) return false;
  }
  return symbol != NULL;
}

/* Makes views of one entry of the batch: dense tensors, so a part of the memory. */
static void cut(const uc_onnx_tensor *whole, int count, int64_t entry, uc_onnx_tensor *part) {
  for (int i = 0; i < count; i++) {
    part[i] = whole[i];
    part[i].shape[0] = 1;
    size_t bytes = 0;
    (void)uc_onnx_tensor_bytes(&part[i], &bytes); /* less than the whole, which was allocated */
    part[i].data = (char *)whole[i].data + (size_t)entry * bytes;
  }
}

/* `parts`: the run's session with inputs and outputs of its own, to be pointed at the entry. */
static int check_entry(const model_run *run, model_run *parts, int64_t entry, double *worst) {
  cut(run->inputs, run->input_count, entry, parts->inputs);
  cut(run->outputs, run->output_count, entry, parts->outputs);
  double *each = calloc((size_t)run->output_count + 1, sizeof *each);
  if (!each) return cli_fail("demo: out of memory");
  int code = model_verify(parts, each);
  for (int i = 0; i < run->output_count; i++)
    if (!(each[i] <= *worst)) *worst = each[i];
  free(each);
  return code;
}

/* Checks the first entry, the last, and as many between them as the time allows, evenly spread. */
static int check_entries(const model_run *run, model_run *parts, demo_row *row) {
  double began = uc_now();
  int code = check_entry(run, parts, 0, &row->worst);
  int64_t affordable = (int64_t)(ORACLE_TIME / (uc_now() - began + 1e-9));
  int64_t wanted = affordable < 2 ? 2 : affordable;
  if (wanted > row->batch) wanted = row->batch;
  progress_start("comparing with the float64 oracle", wanted);
  for (int64_t i = 1; i < wanted && code == CLI_RIGHT; i++) {
    progress_update(i);
    double place = (double)i / (double)(wanted - 1) * (double)(row->batch - 1);
    code = check_entry(run, parts, (int64_t)(place + 0.5), &row->worst);
  }
  progress_end();
  row->checked = wanted;
  return code;
}

static int check_whole(model_run *run, demo_row *row) {
  row->checked = row->batch;
  row->worst = 0;
  double *each = calloc((size_t)run->output_count + 1, sizeof *each);
  if (!each) return cli_fail("demo: out of memory");
  int code = model_verify(run, each);
  for (int i = 0; i < run->output_count; i++)
    if (!(each[i] <= row->worst)) row->worst = each[i];
  free(each);
  return code;
}

/* A model without a batch axis, or one that mixes the entries of its batch, is checked whole. */
static int check(model_run *run, demo_row *row) {
  row->batch = run->inputs[0].rank && has_batch_axis(run) ? run->inputs[0].shape[0] : 1;
  if (row->batch < 2) return check_whole(run, row);
  model_run parts = *run;
  parts.inputs = calloc((size_t)run->input_count, sizeof *parts.inputs);
  parts.outputs = calloc((size_t)run->output_count, sizeof *parts.outputs);
  int code = parts.inputs && parts.outputs ? check_entries(run, &parts, row)
                                           : cli_fail("demo: out of memory");
  free(parts.inputs);
  free(parts.outputs);
  if (code == CLI_RIGHT && !(row->worst <= 1)) code = check_whole(run, row);
  return code;
}

/* ---- rows */

enum { NAME_WIDTH = 20 };

static void print_row(const demo_values *v, const char *path, const demo_row *row) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char t[3][UNITS_SIZE], checked[48], ratio[UNITS_SIZE + 1];
  snprintf(ratio, sizeof ratio, "%sx", units_number(row->unfused / row->fused, t[2]));
  if (row->checked < row->batch)
    snprintf(checked, sizeof checked, "%" PRId64 "/%" PRId64, row->checked, row->batch);
  else
    snprintf(checked, sizeof checked, "all");
  printf("%-*.*s %-6s %5" PRId64 " %8s %8s %6s %7s %7s %s\n", NAME_WIDTH, (int)strcspn(name, "."),
         name, v->device ? v->device : "cpu", row->batch, units_seconds(row->fused, t[0]),
         units_seconds(row->unfused, t[1]), ratio, units_number(row->worst, t[2]), checked,
         row->worst <= 1 ? "ok" : "WRONG");
  fflush(stdout);
}

/* Of --batch, else of the model's metadata, else 1. */
static int find_batch(const demo_values *v, const model_run *run, int64_t *batch) {
  const char *text = uc_onnx_model_metadata(run->model, "upconv.demo_batch");
  *batch = v->batch ? v->batch : 1;
  if (v->batch || !text) return CLI_RIGHT;
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || *end || value < 1 || value > MAX_BATCH)
    return cli_fail("demo: %s: metadata entry upconv.demo_batch is '%s'; it must be from 1 to %d",
                    run->path, text, MAX_BATCH);
  *batch = value;
  return CLI_RIGHT;
}

static int demo_fill(const demo_values *v, model_run *run) {
  arg_list none = {0};
  int64_t batch;
  int code = find_batch(v, run, &batch);
  if (code == CLI_RIGHT) code = model_shapes(run, &none, &v->dims, batch);
  if (code == CLI_RIGHT && run->input_count == 0)
    code = cli_fail("demo: %s: the model has no inputs", run->path);
  if (code == CLI_RIGHT) code = model_fill(run);
  if (code == CLI_RIGHT) code = model_allocate_outputs(run);
  return code;
}

/* Unfused first, so that the outputs that are checked are the fused ones. */
static int demo_model(const demo_values *v, upconv_context *context, gpu_meter *gpu,
                      const char *path, int *worst_code) {
  uc_onnx_options fused = {.math = (upconv_math)v->math}, unfused = fused;
  unfused.no_fuse = true;
  demo_row row = {0};
  model_run run;
  int code = model_open("demo", path, context, &unfused, &run);
  if (code == CLI_RIGHT) code = demo_fill(v, &run);
  if (code == CLI_RIGHT) code = measure(v, gpu, &run, "operator by operator", &row.unfused);
  if (code == CLI_RIGHT) code = model_reopen(&run, context, &fused);
  if (code == CLI_RIGHT) code = measure(v, gpu, &run, "fused", &row.fused);
  if (code == CLI_RIGHT) code = check(&run, &row);
  if (code == CLI_RIGHT) print_row(v, path, &row);
  if (code == CLI_RIGHT && !(row.worst <= 1)) *worst_code = CLI_WRONG;
  model_close(&run);
  return code;
}

static int run(const void *values) {
  const demo_values *v = values;
  upconv_context *context;
  int code = open_context("demo", v->device, v->threads, &context);
  if (code) return code;
  printf("%s\n\n%-*s %-6s %5s %8s %8s %6s %7s %7s\n", upconv_context_describe(context), NAME_WIDTH,
         "model", "device", "batch", "fused", "unfused", "ratio", "error", "checked");
  fflush(stdout);
  int worst_code = CLI_RIGHT;
  gpu_meter *gpu;
  if (gpu_open(context, &gpu) != UPCONV_OK) code = cli_fail_library("demo");
  for (int i = 0; i < v->models.count && code == CLI_RIGHT; i++)
    code = demo_model(v, context, gpu, v->models.item[i], &worst_code);
  gpu_close(gpu);
  if (code == CLI_RIGHT)
    printf("\nunfused: the same library, operator by operator. error: the largest, as a\n"
           "fraction of its bound by the float64 oracle. checked: batch entries it saw.\n");
  upconv_context_destroy(context);
  return code ? code : worst_code;
}

#else

static int run(const void *values) {
  (void)values;
  return fail_without_onnx("demo");
}

#endif

static const arg_option options[] = {
    {"batch", ARG_COUNT, "N", offsetof(demo_values, batch), 1, MAX_BATCH,
     "size of symbolic dimensions; if not given, what the model's metadata entry "
     "upconv.demo_batch says, else 1"},
    {"dim", ARG_LIST, "N=SIZE", offsetof(demo_values, dims), 0, 0,
     "size of one symbolic dimension; may be repeated"},
    {"repeat", ARG_COUNT, "N", offsetof(demo_values, repeat), 1, 100000,
     "runs to measure; if not given, as many as a steady median takes, about a second"},
    {"math", ARG_CHOICE, MATH_CHOICES, offsetof(demo_values, math), 0, 0,
     "ieee: full float32 (the default); tf32: rounded operands where the device has that"},
    {"device", ARG_TEXT, "NAME", offsetof(demo_values, device), 0, 0, DEVICE_HELP},
    {"threads", ARG_COUNT, "N", offsetof(demo_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_demo = {
    .name = "demo",
    .summary = "Shows what fusing gains on models, and that the results are right.",
    .usage = "MODEL.onnx... [OPTION...]",
    .details = "One row a model: its median time fused and operator by operator, on random inputs, "
               "and the largest error as a fraction of its bound by the float64 oracle. Large "
               "batches are checked in part: the first entry, the last, and as many between them "
               "as ten seconds allow. The exit code is 1 if a bound is exceeded.",
    .examples = "  upconv demo models/*.onnx\n"
                "  upconv demo decoder.onnx --batch 16 --threads 1\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(demo_values),
    .positionals = offsetof(demo_values, models),
    .min_positionals = 1,
    .max_positionals = -1,
    .positional = "model",
    .run = run,
};
