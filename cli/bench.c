/* SPDX-License-Identifier: Apache-2.0 */
/* upconv bench: measures problems and models, and compares with what the machine can do at best. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "gpu.h"
#include "json.h"
#include "model.h"
#include "plan.h"
#include "timing.h"
#include "units.h"
#include "work_list.h"
#include "workload.h"

enum { MAX_REPEAT = 100000 };

typedef struct bench_values {
  arg_list what;
  const char *then, *from, *candidate, *device;
  arg_list shapes, dims;
  bool no_rewrite, no_fuse, warm, verify, json;
  int math, threads, repeat;
} bench_values;

/* What one problem or model came to. */
typedef struct bench_result {
  const char *text;
  char candidate[64]; /* "" for a model of several segments */
  timing_stats time;
  upconv_work work;  /* of what was measured */
  upconv_work least; /* of the fused plan: what the floor is made of */
  double flop_rate;  /* of the arithmetic that the fused plan uses */
  bool verified;
  double worst;
} bench_result;

typedef struct bench {
  const bench_values *values;
  upconv_context *context;
  gpu_meter *gpu; /* NULL: the CPU */
  probe_result machine;
  json_writer json;
} bench;

/* The rate of the multiply-adds that a plan is made of. */
static double find_flop_rate(const bench *b, const upconv_plan *plan) {
  upconv_error_model model = uc_plan_error_model(plan);
  if (!model.tensor_core) return b->machine.fma_rate;
  return model.operand_rounding > 0 ? b->machine.tf32_rate : b->machine.half_rate;
}

/* ---- printing */

/* Seconds below which the fused plan cannot get on this machine, and why. */
static double find_floor(const bench *b, const bench_result *r, const char **reason) {
  double copy = b->machine.copy_rate > 0 ? r->least.planned_bytes / b->machine.copy_rate : 0;
  double fma = r->flop_rate > 0 ? r->least.planned_flop / r->flop_rate : 0;
  *reason = copy > fma ? "memory" : "arithmetic";
  return copy > fma ? copy : fma;
}

static void print_text(const bench *b, const bench_result *r) {
  char median[UNITS_SIZE], memory[UNITS_SIZE], arithmetic[UNITS_SIZE], part[UNITS_SIZE];
  char least[UNITS_SIZE], fastest[UNITS_SIZE], worst[UNITS_SIZE];
  const char *reason;
  double floor = find_floor(b, r, &reason);
  printf("\n%s\n", r->text);
  printf("  %8s +- %4.1f %% %11s %14s %7s %% of the floor\n", units_seconds(r->time.median, median),
         100 * r->time.spread, units_rate(r->work.planned_bytes / r->time.median, "B/s", memory),
         units_rate(r->work.planned_flop / r->time.median, "FLOP/s", arithmetic),
         units_number(100 * floor / r->time.median, part));
  printf("  floor %s (%s), fastest %s, %d run%s%s%s\n", units_seconds(floor, least), reason,
         units_seconds(r->time.fastest, fastest), r->time.runs, r->time.runs == 1 ? "" : "s",
         *r->candidate ? ", " : "", r->candidate);
  if (r->verified)
    printf("  largest error %s of its bound: %s\n", units_number(r->worst, worst),
           r->worst <= 1 ? "right" : "WRONG");
}

static void print_json(bench *b, const bench_result *r) {
  json_writer *json = &b->json;
  const char *reason;
  double floor = find_floor(b, r, &reason);
  json_open(json, NULL, '{');
  json_string(json, "text", r->text);
  if (*r->candidate) json_string(json, "candidate", r->candidate);
  json_integer(json, "runs", r->time.runs);
  json_number(json, "median_s", r->time.median);
  json_number(json, "fastest_s", r->time.fastest);
  json_number(json, "slowest_s", r->time.slowest);
  json_number(json, "spread", r->time.spread);
  json_number(json, "bytes", r->work.planned_bytes);
  json_number(json, "flop", r->work.planned_flop);
  json_number(json, "source_bytes", r->work.source_bytes);
  json_number(json, "source_flop", r->work.source_flop);
  json_number(json, "floor_s", floor);
  json_string(json, "floor_reason", reason);
  json_number(json, "fraction_of_floor", floor / r->time.median);
  if (r->verified) {
    json_number(json, "error_over_bound", r->worst);
    json_bool(json, "right", r->worst <= 1);
  }
  json_close(json, '}');
}

static void print_head(bench *b) {
  const char *device = upconv_context_describe(b->context);
  if (b->values->json) {
    b->json.file = stdout;
    json_open(&b->json, NULL, '{');
    json_string(&b->json, "version", upconv_version());
    json_string(&b->json, "device", device);
    json_integer(&b->json, "threads", upconv_context_threads(b->context));
    json_string(&b->json, "caches", b->values->warm ? "warm" : "cold");
    json_number(&b->json, "copy_bytes_per_s", b->machine.copy_rate);
    json_number(&b->json, "fma_flop_per_s", b->machine.fma_rate);
    if (b->gpu) {
      json_number(&b->json, "tf32_flop_per_s", b->machine.tf32_rate);
      json_number(&b->json, "half_flop_per_s", b->machine.half_rate);
    }
    json_open(&b->json, "results", '[');
    return;
  }
  char copy[UNITS_SIZE], fma[UNITS_SIZE], tf32[UNITS_SIZE], half[UNITS_SIZE];
  printf("%s; %s caches; measured: copy %s, fma %s", device, b->values->warm ? "warm" : "cold",
         units_rate(b->machine.copy_rate, "B/s", copy),
         units_rate(b->machine.fma_rate, "FLOP/s", fma));
  if (b->machine.tf32_rate > 0)
    printf(", tf32 %s, 16 bit %s", units_rate(b->machine.tf32_rate, "FLOP/s", tf32),
           units_rate(b->machine.half_rate, "FLOP/s", half));
  printf("\n");
}

static int report(bench *b, const bench_result *r) {
  if (b->values->json)
    print_json(b, r);
  else
    print_text(b, r);
  fflush(stdout);
  return r->verified && !(r->worst <= 1) ? CLI_WRONG : CLI_RIGHT;
}

/* ---- problems in text form */

static int measure_text(bench *b, workload *w, bench_result *r) {
  const bench_values *v = b->values;
  timing_options options = {.repeat = v->repeat, .cold = !v->warm, .label = r->text, .gpu = b->gpu};
  if (!timing_measure(workload_execute, w, &options, &r->time)) return cli_fail_library(r->text);
  snprintf(r->candidate, sizeof r->candidate, "%s", upconv_plan_candidate(w->plan));
  if (upconv_plan_work(w->plan, &r->work) != UPCONV_OK) return cli_fail_library(r->text);
  if (!v->verify) return CLI_RIGHT;
  if (workload_verify(w, &r->worst) != UPCONV_OK) return cli_fail_library(r->text);
  r->verified = true;
  return CLI_RIGHT;
}

/* The work of the fused plan, whatever was measured. */
static int find_least(bench *b, const problem_text *p, const workload *w, bench_result *r) {
  upconv_plan *plan = NULL;
  upconv_plan_options options = {.constants = &w->parameters};
  upconv_status status = upconv_plan_create(b->context, p->problem, p->epilogue, &options, &plan);
  if (status == UPCONV_OK) status = upconv_plan_work(plan, &r->least);
  if (status == UPCONV_OK) r->flop_rate = find_flop_rate(b, plan);
  upconv_plan_destroy(plan);
  return status == UPCONV_OK ? CLI_RIGHT : cli_fail_library(r->text);
}

static int bench_problem(bench *b, const problem_text *p) {
  const bench_values *v = b->values;
  upconv_plan_options options = {
      .candidate = v->candidate, .no_rewrite = v->no_rewrite, .no_fuse = v->no_fuse};
  bench_result result = {.text = p->text};
  workload w;
  int code = workload_create(b->context, p, &options, &w);
  if (code == CLI_RIGHT) code = measure_text(b, &w, &result);
  if (code == CLI_RIGHT) code = find_least(b, p, &w, &result);
  workload_destroy(&w);
  return code == CLI_RIGHT ? report(b, &result) : code;
}

static int parse_text(const bench_values *v, const char *text, problem_text *p) {
  arg_list words = {.count = 1, .item = &text};
  return problem_text_parse("bench", &words, v->then, p);
}

static int bench_text(bench *b, const char *text) {
  problem_text p;
  int code = parse_text(b->values, text, &p);
  if (code) return code;
  code = bench_problem(b, &p);
  problem_text_free(&p);
  return code;
}

/* ---- models */

#ifdef UPCONV_WITH_ONNX

/* Of the segments' arithmetic, the fastest. */
static bool find_model_rate(const bench *b, model_run *run, double *rate) {
  const upconv_plan *plan = NULL;
  *rate = b->machine.fma_rate;
  for (int i = 0; i == 0 || plan; i++) {
    if (uc_onnx_segment_plan(run->session, run->inputs, run->input_count, i, &plan) != UPCONV_OK)
      return false;
    if (plan && find_flop_rate(b, plan) > *rate) *rate = find_flop_rate(b, plan);
  }
  return true;
}

static int verify_model(model_run *run, bench_result *r) {
  double *worst = calloc((size_t)run->output_count + 1, sizeof *worst);
  if (!worst) return cli_fail("bench: out of memory");
  int code = model_verify(run, worst);
  for (int i = 0; i < run->output_count; i++)
    if (!(worst[i] <= r->worst)) r->worst = worst[i];
  r->verified = code == CLI_RIGHT;
  free(worst);
  return code;
}

static int measure_model(bench *b, model_run *run, bench_result *r) {
  const bench_values *v = b->values;
  int code = model_shapes(run, &v->shapes, &v->dims, 1);
  if (code == CLI_RIGHT) code = model_fill(run);
  if (code == CLI_RIGHT) code = model_allocate_outputs(run);
  if (code == CLI_RIGHT) code = model_execute(run);
  if (code) return code;
  timing_options options = {.repeat = v->repeat, .cold = !v->warm, .label = r->text, .gpu = b->gpu};
  options.stream = uc_onnx_stream(run->session);
  if (!timing_measure(model_repeat, run, &options, &r->time)) return model_fail(run);
  if (uc_onnx_work(run->session, run->inputs, run->input_count, &r->work) != UPCONV_OK)
    return model_fail(run);
  if (v->verify) code = verify_model(run, r);
  if (code) return code;
  code = model_reopen(run, b->context, NULL);
  if (code) return code;
  if (uc_onnx_work(run->session, run->inputs, run->input_count, &r->least) != UPCONV_OK ||
      !find_model_rate(b, run, &r->flop_rate))
    return model_fail(run);
  return CLI_RIGHT;
}

static int bench_model(bench *b, const char *path) {
  const bench_values *v = b->values;
  if (v->then) return cli_fail("bench: --then goes with a problem in text form, not with %s", path);
  uc_onnx_options options = {.math = (upconv_math)v->math,
                             .no_rewrite = v->no_rewrite,
                             .no_fuse = v->no_fuse,
                             .candidate = v->candidate};
  bench_result result = {.text = path};
  model_run run;
  int code = model_open("bench", path, b->context, &options, &run);
  if (code == CLI_RIGHT) code = measure_model(b, &run, &result);
  model_close(&run);
  return code == CLI_RIGHT ? report(b, &result) : code;
}

#else

static int bench_model(bench *b, const char *path) {
  (void)b, (void)path;
  return fail_without_onnx("bench");
}

#endif

/* ---- the command */

/* A mistake in a text, or an option that would be ignored, shows before the measuring starts. */
static int check_list(const bench_values *v, const work_list *list) {
  bool models = false;
  for (int i = 0; i < list->count; i++) {
    if (is_model(list->item[i])) {
      models = true;
      continue;
    }
    problem_text p;
    int code = parse_text(v, list->item[i], &p);
    if (code) return code;
    problem_text_free(&p);
    if (v->math) return cli_fail("bench: --math goes with models; a text says math=tf32 itself");
  }
  if (!models && v->shapes.count + v->dims.count > 0)
    return cli_fail("bench: --shape and --dim go with models; a text says in12x24x48 itself");
  return CLI_RIGHT;
}

static int probe(bench *b) {
  if (gpu_open(b->context, &b->gpu) != UPCONV_OK) return cli_fail_library("bench");
  if (!b->gpu)
    b->machine = probe_machine(upconv_context_threads(b->context));
  else if (gpu_probe(b->gpu, &b->machine) != UPCONV_OK)
    return cli_fail_library("bench");
  return CLI_RIGHT;
}

static int bench_all(bench *b, const work_list *list) {
  int worst_code = CLI_RIGHT, code = CLI_RIGHT;
  print_head(b);
  for (int i = 0; i < list->count && code != CLI_BAD; i++) {
    const char *what = list->item[i];
    code = is_model(what) ? bench_model(b, what) : bench_text(b, what);
    if (code == CLI_WRONG) worst_code = CLI_WRONG;
  }
  if (b->values->json) {
    json_close(&b->json, ']');
    json_close(&b->json, '}');
  }
  return code == CLI_BAD ? CLI_BAD : worst_code;
}

static int run(const void *values) {
  bench b = {.values = values};
  work_list list = {0};
  int code = work_list_make("bench", b.values->from, &b.values->what, &list);
  if (code == CLI_RIGHT) code = check_list(b.values, &list);
  if (code == CLI_RIGHT)
    code = open_context("bench", b.values->device, b.values->threads, &b.context);
  if (code == CLI_RIGHT) code = probe(&b);
  if (code == CLI_RIGHT) code = bench_all(&b, &list);
  gpu_close(b.gpu);
  upconv_context_destroy(b.context);
  work_list_free(&list);
  return code;
}

static const arg_option options[] = {
    {"then", ARG_TEXT, "TEXT", offsetof(bench_values, then), 0, 0,
     "what follows the convolution, as \"leaky_relu 0.2 | max_pool 2\""},
    {"from", ARG_TEXT, "FILE", offsetof(bench_values, from), 0, 0,
     "a file with one problem or model a line; '#' starts a comment"},
    {"shape", ARG_LIST, "X=1,3,16,32", offsetof(bench_values, shapes), 0, 0,
     "shape of a model's input; may be repeated"},
    {"dim", ARG_LIST, "N=SIZE", offsetof(bench_values, dims), 0, 0,
     "size of a model's symbolic dimension (1 if not given); may be repeated"},
    {"repeat", ARG_COUNT, "N", offsetof(bench_values, repeat), 1, MAX_REPEAT,
     "runs to measure; if not given, as many as a steady median takes, about a second"},
    {"warm", ARG_FLAG, NULL, offsetof(bench_values, warm), 0, 0,
     "leaves the caches as the run before left them; else a large buffer is read between runs"},
    {"verify", ARG_FLAG, NULL, offsetof(bench_values, verify), 0, 0,
     "compares the result with the float64 oracle (slow); exit code 1 if it is wrong"},
    {"json", ARG_FLAG, NULL, offsetof(bench_values, json), 0, 0, "prints JSON"},
    {"candidate", ARG_TEXT, "NAME", offsetof(bench_values, candidate), 0, 0,
     "forces one of the candidates that 'upconv plan' lists"},
    {"no-rewrite", ARG_FLAG, NULL, offsetof(bench_values, no_rewrite), 0, 0,
     "leaves the program as written"},
    {"no-fuse", ARG_FLAG, NULL, offsetof(bench_values, no_fuse), 0, 0,
     "operator by operator, each result in memory"},
    {"math", ARG_CHOICE, MATH_CHOICES, offsetof(bench_values, math), 0, 0,
     "arithmetic of a model (the text says math=tf32)"},
    {"device", ARG_TEXT, "NAME", offsetof(bench_values, device), 0, 0, DEVICE_HELP},
    {"threads", ARG_COUNT, "N", offsetof(bench_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_bench = {
    .name = "bench",
    .summary = "Measures problems and models against the machine's floor.",
    .usage = "\"TEXT\"... [--then \"TEXT\"] [OPTION...]\nMODEL.onnx... [OPTION...]",
    .details =
        "Prints the median time, half the distance of the quartiles, the rates of memory and "
        "arithmetic, and the fraction of the floor: the larger of the fused plan's bytes over the "
        "copy rate and its FLOP over the multiply-add rate, both measured in the same run. Data "
        "are random and the same each time.",
    .examples = "  upconv bench \"n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4\"\n"
                "  upconv bench \"n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias\" \\\n"
                "    --then \"leaky_relu 0.2 | max_pool 2\" --verify\n"
                "  upconv bench models/gan3d.onnx --dim N=4 --json\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(bench_values),
    .positionals = offsetof(bench_values, what),
    .max_positionals = -1,
    .positional = "problem or model",
    .run = run,
};
