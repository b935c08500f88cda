/* SPDX-License-Identifier: Apache-2.0 */
/* upconv tune: measures candidates and keeps what was fastest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "json.h"
#include "model.h"
#include "problem_text.h"
#include "progress.h"
#include "tune.h"
#include "units.h"
#include "work_list.h"

enum { MAX_MILLISECONDS = 3600000 };

typedef struct tune_values {
  arg_list what;
  const char *then, *from, *device;
  arg_list shapes, dims;
  bool dry_run, json, show, clear;
  int math, threads, milliseconds;
} tune_values;

typedef struct tune {
  const tune_values *values;
  upconv_context *context;
  char *path; /* of the decisions; NULL: they are not kept */
  json_writer json;
} tune;

/* ---- printing ---- */

static void print_trial(const upconv_trial *t, bool chosen) {
  char fastest[UNITS_SIZE], quartile[UNITS_SIZE], median[UNITS_SIZE], estimated[UNITS_SIZE];
  const char *mark = chosen ? "*" : " ";
  units_seconds(t->estimated, estimated);
  if (t->runs == 0)
    cli_print_line("  %s %-14s %10s %10s %10s %10s   not measured: %s", mark, t->candidate, "", "",
                   "", estimated, t->why);
  else
    printf("  %s %-14s %10s %10s %10s %10s %6d\n", mark, t->candidate,
           units_seconds(t->fastest, fastest), units_seconds(t->quartile, quartile),
           units_seconds(t->median, median), estimated, t->runs);
}

static void print_text(const tune *t, const char *text, const upconv_tune_result *r) {
  const char *chosen = r->trial[r->chosen].candidate;
  printf("\n");
  cli_print_line("%s", text);
  printf("    %-14s %10s %10s %10s %10s %6s\n", "candidate", "fastest", "quartile", "median",
         "estimated", "runs");
  for (int i = 0; i < r->count; i++) print_trial(&r->trial[i], i == r->chosen);
  printf("  %s%s%s; ", chosen, r->chosen == 0 ? ", as the model says" : ", where the model says ",
         r->chosen == 0 ? "" : r->trial[0].candidate);
  if (t->values->dry_run)
    printf("not kept: --dry-run\n");
  else if (r->stored)
    cli_print_line("kept in %s", t->path);
  else if (t->path)
    cli_print_line("not kept: %s cannot be written", t->path);
  else
    printf("not kept: UPCONV_TUNE_FILE is empty, or there is no home folder\n");
}

static void print_json(tune *t, const char *text, const upconv_tune_result *r) {
  json_writer *json = &t->json;
  json_open(json, NULL, '{');
  json_string(json, "text", text);
  json_string(json, "chosen", r->trial[r->chosen].candidate);
  json_string(json, "model_choice", r->trial[0].candidate);
  json_bool(json, "stored", r->stored);
  json_open(json, "candidates", '[');
  for (int i = 0; i < r->count; i++) {
    const upconv_trial *trial = &r->trial[i];
    json_open(json, NULL, '{');
    json_string(json, "name", trial->candidate);
    json_number(json, "estimated_s", trial->estimated);
    json_integer(json, "runs", trial->runs);
    if (trial->runs > 0) {
      json_number(json, "fastest_s", trial->fastest);
      json_number(json, "quartile_s", trial->quartile);
      json_number(json, "median_s", trial->median);
    } else {
      json_string(json, "not_measured", trial->why);
    }
    json_close(json, '}');
  }
  json_close(json, ']');
  json_close(json, '}');
}

static void print_head(tune *t) {
  const char *device = upconv_context_describe(t->context);
  if (!t->values->json) {
    printf("%s\n", device);
    return;
  }
  t->json.file = stdout;
  json_open(&t->json, NULL, '{');
  json_string(&t->json, "version", upconv_version());
  json_string(&t->json, "device", device);
  json_integer(&t->json, "threads", upconv_context_threads(t->context));
  json_open(&t->json, "results", '[');
}

/* ---- measuring ---- */

enum { BAR_PARTS = 1000 };

static void show_progress(void *data, double part) {
  (void)data;
  progress_update((int64_t)(part * BAR_PARTS));
}

static int tune_plan(tune *t, const upconv_plan *plan, const char *text) {
  const tune_values *v = t->values;
  const upconv_tune_options options = {
      .dry_run = v->dry_run, .seconds = 1e-3 * v->milliseconds, .progress = show_progress};
  upconv_tune_result result;
  progress_start(text, BAR_PARTS);
  upconv_status status = uc_tune_plan(plan, &options, &result);
  progress_end();
  if (status != UPCONV_OK) return cli_fail_library(text);
  if (v->json)
    print_json(t, text, &result);
  else
    print_text(t, text, &result);
  fflush(stdout);
  return CLI_RIGHT;
}

static int parse_text(const tune_values *v, const char *text, problem_text *p) {
  arg_list words = {.count = 1, .item = &text};
  return problem_text_parse("tune", &words, v->then, p);
}

static int tune_text(tune *t, const char *text) {
  problem_text p;
  int code = parse_text(t->values, text, &p);
  if (code) return code;
  const upconv_plan_options options = {0};
  upconv_plan *plan = NULL;
  if (uc_plan_lower(t->context, p.problem, p.epilogue, &options, &plan) == UPCONV_OK)
    code = tune_plan(t, plan, p.text);
  else
    code = cli_fail_library(p.text);
  upconv_plan_destroy(plan);
  problem_text_free(&p);
  return code;
}

#ifdef UPCONV_WITH_ONNX

static int tune_segment(tune *t, const upconv_plan *plan) {
  const uc_lowered *l = &plan->lowered;
  size_t length = 0;
  upconv_problem_print(&l->source, l->source_tail, NULL, 0, &length);
  char *text = malloc(length + 1);
  if (!text) return cli_fail("tune: out of memory");
  upconv_problem_print(&l->source, l->source_tail, text, length + 1, NULL);
  int code = tune_plan(t, plan, text);
  free(text);
  return code;
}

/* Whether a segment before has the same plan. */
static bool is_repeated(model_run *run, int index, const upconv_plan *plan) {
  const upconv_plan *other = NULL;
  for (int i = 0; i < index; i++)
    if (uc_onnx_segment_plan(run->session, run->inputs, run->input_count, i, &other) == UPCONV_OK &&
        other == plan)
      return true;
  return false;
}

static int tune_segments(tune *t, model_run *run) {
  const upconv_plan *plan = NULL;
  int code = CLI_RIGHT;
  for (int i = 0; (i == 0 || plan) && code == CLI_RIGHT; i++) {
    if (uc_onnx_segment_plan(run->session, run->inputs, run->input_count, i, &plan) != UPCONV_OK)
      return model_fail(run);
    if (plan && !is_repeated(run, i, plan)) code = tune_segment(t, plan);
  }
  return code;
}

static int tune_model(tune *t, const char *path) {
  const tune_values *v = t->values;
  if (v->then) return cli_fail("tune: --then goes with a problem in text form, not with %s", path);
  uc_onnx_options options = {.math = (upconv_math)v->math};
  model_run run;
  int code = model_open("tune", path, t->context, &options, &run);
  if (code == CLI_RIGHT) code = model_shapes(&run, &v->shapes, &v->dims, 1);
  if (code == CLI_RIGHT) code = tune_segments(t, &run);
  model_close(&run);
  return code;
}

#else

static int tune_model(tune *t, const char *path) {
  (void)t, (void)path;
  return fail_without_onnx("tune");
}

#endif

/* ---- what is kept ---- */

static int fail_unkept(void) {
  return cli_fail("tune: UPCONV_TUNE_FILE is empty, or there is no home folder: nothing is kept");
}

static int print_decisions(const char *path, const char *text, size_t length) {
  uc_field f[UC_TUNE_FIELDS];
  int count = 0;
  for (const char *at = text; uc_tune_next(&at, text + length, f);) count++;
  cli_print_line("%s: %d decision%s", path, count, count == 1 ? "" : "s");
  for (const char *at = text; uc_tune_next(&at, text + length, f);)
    cli_print_line("%.*s: %.*s of %.*s, on %.*s", (int)f[1].length, f[1].text, (int)f[3].length,
                   f[3].text, (int)f[4].length, f[4].text, (int)f[0].length, f[0].text);
  return CLI_RIGHT;
}

static int show_or_clear(const tune_values *v) {
  if (v->show && v->clear) return cli_fail("tune: --show and --clear are two things");
  if (v->what.count > 0 || v->from || v->then)
    return cli_fail("tune: --%s takes no problem", v->show ? "show" : "clear");
  char *path = uc_tune_store_path();
  if (!path) return fail_unkept();
  size_t length = 0;
  char *text = uc_tune_store_read(path, &length);
  int code = CLI_RIGHT;
  if (v->show)
    code = print_decisions(path, text ? text : "", text ? length : 0);
  else if (!uc_tune_store_clear(path))
    code = cli_fail("tune: %s: %s", path, strerror(errno));
  else
    cli_print_line("%s: %s", path, text ? "removed" : "nothing to remove");
  free(text);
  free(path);
  return code;
}

/* ---- the command ---- */

/* A mistake in a text shows before the measuring starts. */
static int check_list(const tune_values *v, const work_list *list) {
  bool models = false;
  for (int i = 0; i < list->count; i++) {
    problem_text p;
    if (is_model(list->item[i])) {
      models = true;
      continue;
    }
    int code = parse_text(v, list->item[i], &p);
    if (code) return code;
    problem_text_free(&p);
    if (v->math) return cli_fail("tune: --math goes with models; a text says math=tf32 itself");
  }
  if (!models && v->shapes.count + v->dims.count > 0)
    return cli_fail("tune: --shape and --dim go with models; a text says in12x24x48 itself");
  return CLI_RIGHT;
}

static int tune_all(tune *t, const work_list *list) {
  int code = CLI_RIGHT;
  print_head(t);
  for (int i = 0; i < list->count && code == CLI_RIGHT; i++)
    code = is_model(list->item[i]) ? tune_model(t, list->item[i]) : tune_text(t, list->item[i]);
  if (t->values->json) {
    json_close(&t->json, ']');
    json_close(&t->json, '}');
  }
  return code;
}

static int run(const void *values) {
  const tune_values *v = values;
  if (v->show || v->clear) return show_or_clear(v);
  tune t = {.values = v, .path = uc_tune_store_path()};
  work_list list = {0};
  int code = work_list_make("tune", v->from, &v->what, &list);
  if (code == CLI_RIGHT) code = check_list(v, &list);
  if (code == CLI_RIGHT) code = open_context("tune", v->device, v->threads, &t.context);
  if (code == CLI_RIGHT) code = tune_all(&t, &list);
  upconv_context_destroy(t.context);
  work_list_free(&list);
  free(t.path);
  return code;
}

static const arg_option options[] = {
    {"then", ARG_TEXT, "TEXT", offsetof(tune_values, then), 0, 0,
     "what follows the convolution, as \"leaky_relu 0.2 | max_pool 2\""},
    {"from", ARG_TEXT, "FILE", offsetof(tune_values, from), 0, 0,
     "a file with one problem or model a line; '#' starts a comment"},
    {"shape", ARG_LIST, "X=1,3,16,32", offsetof(tune_values, shapes), 0, 0,
     "shape of a model's input; may be repeated"},
    {"dim", ARG_LIST, "N=SIZE", offsetof(tune_values, dims), 0, 0,
     "size of a model's symbolic dimension (1 if not given); may be repeated"},
    {"milliseconds", ARG_COUNT, "N", offsetof(tune_values, milliseconds), 1, MAX_MILLISECONDS,
     "how long to measure a problem, about; if not given, 300 for each candidate"},
    {"dry-run", ARG_FLAG, NULL, offsetof(tune_values, dry_run), 0, 0, "keeps nothing"},
    {"json", ARG_FLAG, NULL, offsetof(tune_values, json), 0, 0, "prints JSON"},
    {"show", ARG_FLAG, NULL, offsetof(tune_values, show), 0, 0, "prints what is kept, no more"},
    {"clear", ARG_FLAG, NULL, offsetof(tune_values, clear), 0, 0, "removes what is kept, no more"},
    {"math", ARG_CHOICE, MATH_CHOICES, offsetof(tune_values, math), 0, 0,
     "arithmetic of a model (the text says math=tf32)"},
    {"device", ARG_TEXT, "NAME", offsetof(tune_values, device), 0, 0, DEVICE_HELP},
    {"threads", ARG_COUNT, "N", offsetof(tune_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_tune = {
    .name = "tune",
    .summary = "Measures all candidates, so that plans take the fastest.",
    .usage =
        "\"TEXT\"... [--then \"TEXT\"] [OPTION...]\nMODEL.onnx... [OPTION...]\n--show | --clear",
    .details =
        "Runs every candidate for a problem, or for each segment of a model, on made-up data, and "
        "keeps which was fastest. From then on whoever plans the same problem on the same device "
        "gets that one: this program, the library, the Python package. Without tuning a cost "
        "model chooses; it is given up where another candidate is 2 % faster or more. Decisions "
        "are lines of text in UPCONV_TUNE_FILE, or tuning.txt in the folder that 'upconv cache' "
        "names. With UPCONV_TUNE=1 in the environment, planning tunes by itself.",
    .examples = "  upconv tune \"n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4\"\n"
                "  upconv tune \"ci64 co32 in128x128 k4 s2 p1 bias\" --then relu --dry-run\n"
                "  upconv tune decoder.onnx --dim N=8 --device cuda\n"
                "  upconv tune --show\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(tune_values),
    .positionals = offsetof(tune_values, what),
    .max_positionals = -1,
    .positional = "problem or model",
    .run = run,
};
