/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monotonic.h"
#include "status.h"

/*
 * Candidates are measured in rounds, one run of each a round, so that whatever else the machine does meets all of them alike.
 * Lower quartiles are compared, as other work lengthens runs and never shortens them. One that is far behind leaves the race
 * early.
 */
enum { MIN_ROUNDS = 5, MIN_LONG_ROUNDS = 2, MAX_ROUNDS = 100, WARM_UPS = 3 };
static const double WARM_UP_SECONDS = 0.15; /* enough for one candidate */
static const double SECONDS_EACH = 0.3;
/* After LONGEST times the seconds that were asked for, MIN_LONG_ROUNDS are enough. */
static const double LONGEST = 4;
/* Who takes FAR_BEHIND times as long as the fastest leaves, after ENOUGH_ROUNDS, or if one run is as much as COSTLY of the
   seconds. */
static const double FAR_BEHIND = 3, COSTLY = 0.05;
enum { ENOUGH_ROUNDS = 10 };
/* Of the time of the model's choice: closer ones are not worth another candidate. */
static const double NO_MATCH = 0.98;
/* By the estimate, times the lowest one, and seconds: such a candidate is not even tried. */
static const double HOPELESS = 30, HOPELESS_SECONDS = 1;

/* One candidate with what it needs beside the data. */
typedef struct runner {
  upconv_plan plan; /* shares what is lowered with the race's */
  void *packed;
  upconv_arguments arguments;
  double sample[MAX_ROUNDS];
  bool racing;
} runner;

typedef struct race {
  const upconv_plan *plan;
  const upconv_tune_options *options;
  upconv_tune_result *result;
  uc_meter *meter;
  uc_tune_data data;
  runner *runner; /* one a trial */
  double seconds, began;
} race;

static void report(const race *r, double part) {
  if (r->options->progress) r->options->progress(r->options->progress_data, part < 1 ? part : 1);
}

/* ---- the field ---- */

static void insert(upconv_tune_result *result, const char *name, double estimated) {
  int at = result->count++;
  for (; at > 0 && result->trial[at - 1].estimated > estimated; at--)
    result->trial[at] = result->trial[at - 1];
  result->trial[at] = (upconv_trial){.candidate = name, .estimated = estimated};
}

/* Every candidate that applies, by estimate; of equal ones the first of the table leads, as in plans. */
static upconv_status enter_all(const upconv_plan *plan, upconv_tune_result *result) {
  *result = (upconv_tune_result){0};
  for (int i = 0; uc_candidate_at(i) && result->count < UPCONV_MAX_TRIALS; i++) {
    const uc_candidate *c = uc_candidate_at(i);
    if (c->refuses(plan->context, &plan->lowered)) continue;
    insert(result, c->name, c->cost(plan->context, &plan->lowered));
  }
  if (result->count > 0) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED, "no candidate applies to this problem");
}

/* ---- one candidate ---- */

static upconv_status execute(void *data) {
  const runner *it = data;
  return upconv_execute(&it->plan, &it->arguments);
}

static upconv_status allocate(const race *r, runner *it) {
  const uc_meter_kind *kind = r->meter->kind;
  upconv_arguments *a = &it->arguments;
  upconv_status status = upconv_plan_workspace_size(&it->plan, a->x.shape, &a->workspace_size);
  if (!status) status = kind->allocate(r->meter, a->workspace_size, &a->workspace);
  if (!status) status = kind->allocate(r->meter, upconv_plan_packed_size(&it->plan), &it->packed);
  a->packed = it->packed;
  return status;
}

static upconv_status build(const race *r, const char *candidate, runner *it) {
  it->plan = *r->plan;
  it->plan.state = NULL;
  it->plan.candidate = uc_candidate_named(candidate);
  it->arguments = r->data.arguments;
  it->arguments.stream = r->meter->stream;
  upconv_status status = it->plan.candidate->create(it->plan.context, &it->plan.lowered,
                                                    it->plan.no_fuse, &it->plan.state);
  if (!status) status = allocate(r, it);
  if (!status)
    status = upconv_plan_pack(&it->plan, &r->data.parameters, it->packed, r->meter->stream);
  return status;
}

static void dismantle(const race *r, runner *it) {
  r->meter->kind->release(r->meter, it->arguments.workspace);
  r->meter->kind->release(r->meter, it->packed);
  if (it->plan.state) it->plan.candidate->destroy(it->plan.state);
}

static void give_up(const race *r, int i, const char *why) {
  snprintf(r->result->trial[i].why, sizeof r->result->trial[i].why, "%s", why);
  r->result->trial[i].runs = 0;
  r->runner[i].racing = false;
}

static bool is_hopeless(const upconv_tune_result *result, int i) {
  double estimated = result->trial[i].estimated;
  return estimated > HOPELESS_SECONDS && estimated > HOPELESS * result->trial[0].estimated;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void summarise(upconv_trial *trial, const double *sample) {
  double sorted[MAX_ROUNDS];
  int n = trial->runs;
  memcpy(sorted, sample, (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
  trial->fastest = sorted[0];
  trial->quartile = sorted[(n - 1) / 4];
  trial->median = 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

/* One run, which counts as the n-th; a failure ends this candidate's race. */
static upconv_status run_once(const race *r, int i, int n) {
  runner *it = &r->runner[i];
  upconv_trial *trial = &r->result->trial[i];
  upconv_status status = r->meter->kind->time(r->meter, execute, it, &it->sample[n]);
  if (status) {
    give_up(r, i, upconv_last_error());
    return status;
  }
  trial->runs = n + 1;
  summarise(trial, it->sample);
  return UPCONV_OK;
}

/* ---- the race ---- */

static double fastest_of_all(const upconv_tune_result *result) {
  double best = 0;
  for (int i = 0; i < result->count; i++) {
    const upconv_trial *t = &result->trial[i];
    if (t->runs > 0 && (best == 0 || t->fastest < best)) best = t->fastest;
  }
  return best;
}

/* Who is far behind keeps the time it has. */
static void drop_stragglers(const race *r) {
  double best = fastest_of_all(r->result);
  for (int i = 0; i < r->result->count; i++) {
    const upconv_trial *t = &r->result->trial[i];
    bool is_known = t->runs >= ENOUGH_ROUNDS || t->fastest > COSTLY * r->seconds;
    if (is_known && t->fastest > FAR_BEHIND * best) r->runner[i].racing = false;
  }
}

/* What a straggler is judged by; for the others it does not count. */
static upconv_status warm_up(const race *r, int i) {
  upconv_status status = UPCONV_OK;
  double began = uc_now();
  for (int n = 0; n < WARM_UPS && !status && (n == 0 || uc_now() - began < WARM_UP_SECONDS); n++)
    status = run_once(r, i, n);
  return status;
}

static upconv_status line_up(const race *r) {
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < r->result->count; i++) {
    report(r, 0);
    if (is_hopeless(r->result, i)) {
      give_up(r, i, "by the estimate far behind, and long");
      continue;
    }
    upconv_status failed = build(r, r->result->trial[i].candidate, &r->runner[i]);
    r->runner[i].racing = !failed;
    if (failed) give_up(r, i, upconv_last_error());
    if (!failed) failed = warm_up(r, i);
    if (failed) status = failed;
  }
  drop_stragglers(r);
  return fastest_of_all(r->result) > 0 ? UPCONV_OK : status;
}

static bool is_over(const race *r, int rounds) {
  double elapsed = uc_now() - r->began;
  report(r, elapsed / r->seconds);
  return (rounds >= MIN_ROUNDS && elapsed >= r->seconds) ||
         (rounds >= MIN_LONG_ROUNDS && elapsed >= LONGEST * r->seconds);
}

static void run_race(race *r) {
  r->began = uc_now();
  for (int round = 0; round < MAX_ROUNDS && !is_over(r, round); round++) {
    for (int i = 0; i < r->result->count; i++)
      if (r->runner[i].racing) run_once(r, i, round);
    drop_stragglers(r);
  }
}

/* The first is the model's choice. */
static int decide(const upconv_tune_result *result) {
  int best = -1;
  for (int i = 0; i < result->count; i++) {
    const upconv_trial *t = &result->trial[i];
    if (t->runs == 0) continue;
    double margin = best == 0 ? NO_MATCH : 1;
    if (best < 0 || t->quartile < margin * result->trial[best].quartile) best = i;
  }
  return best;
}

static upconv_status hold_race(race *r) {
  upconv_status status = uc_tune_data_make(r->plan, r->meter, &r->data);
  if (!status) status = line_up(r);
  if (status) return status;
  run_race(r);
  r->result->chosen = decide(r->result);
  report(r, 1);
  return r->result->chosen >= 0 ? UPCONV_OK : uc_fail(UPCONV_DEVICE_ERROR, "no candidate ran");
}

upconv_status uc_tune_measure(const upconv_plan *plan, const upconv_tune_options *options,
                              upconv_tune_result *result) {
  const uc_meter_kind *kind = plan->context->meter;
  if (!kind)
    return uc_fail(UPCONV_DEVICE_ERROR, "context: %s; there is nothing to measure on",
                   plan->context->describe);
  upconv_status status = enter_all(plan, result);
  if (status) return status;
  race r = {.plan = plan, .options = options, .result = result};
  r.seconds = options->seconds > 0 ? options->seconds : SECONDS_EACH * result->count;
  r.runner = calloc((size_t)result->count, sizeof *r.runner);
  if (!r.runner) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  status = kind->open(plan->context, &r.meter);
  if (!status) {
    status = hold_race(&r);
    for (int i = 0; i < result->count; i++) dismantle(&r, &r.runner[i]);
    uc_tune_data_free(&r.data);
    kind->close(r.meter);
  }
  free(r.runner);
  return status;
}
