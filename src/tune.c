/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions: found, made, kept. */
#include "tune.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"
#include "tune_measure.h"

struct uc_tuner {
  pthread_mutex_t measuring; /* one at a time, or they would measure each other */
  pthread_mutex_t lock;      /* guards text */
  char *text;                /* decisions of this context, as in the file; NULL: none yet */
};

upconv_status uc_tuner_create(uc_tuner **result) {
  uc_tuner *tuner = calloc(1, sizeof *tuner);
  if (!tuner) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a context");
  pthread_mutex_init(&tuner->measuring, NULL);
  pthread_mutex_init(&tuner->lock, NULL);
  *result = tuner;
  return UPCONV_OK;
}

void uc_tuner_destroy(uc_tuner *tuner) {
  if (!tuner) return;
  pthread_mutex_destroy(&tuner->measuring);
  pthread_mutex_destroy(&tuner->lock);
  free(tuner->text);
  free(tuner);
}

/* ---- kept in memory ---- */

static bool has_own(uc_tuner *tuner) {
  pthread_mutex_lock(&tuner->lock);
  bool found = tuner->text != NULL;
  pthread_mutex_unlock(&tuner->lock);
  return found;
}

static bool find_own(uc_tuner *tuner, const char *key, uc_decision *decision) {
  pthread_mutex_lock(&tuner->lock);
  const char *text = tuner->text ? tuner->text : "";
  bool found = uc_tune_text_find(text, strlen(text), key, decision);
  pthread_mutex_unlock(&tuner->lock);
  return found;
}

static void keep_own(uc_tuner *tuner, const char *key, const uc_decision *decision) {
  pthread_mutex_lock(&tuner->lock);
  const char *old = tuner->text ? tuner->text : "";
  char *text = uc_tune_text_put(old, strlen(old), key, decision);
  if (text) {
    free(tuner->text);
    tuner->text = text;
  }
  pthread_mutex_unlock(&tuner->lock);
}

/* ---- found ---- */

/* Without a file and own decisions this is one attempt to open it. */
static bool find(const upconv_plan *plan, uc_decision *decision) {
  uc_tuner *tuner = plan->context->tuner;
  size_t length = 0;
  char *path = uc_tune_store_path();
  char *text = path ? uc_tune_store_read(path, &length) : NULL;
  bool own = has_own(tuner), found = false;
  char *key = own || text ? uc_tune_key(plan) : NULL;
  if (key && own) found = find_own(tuner, key, decision);
  if (key && text && !found) found = uc_tune_text_find(text, length, key, decision);
  free(key);
  free(text);
  free(path);
  return found;
}

/* ---- made ---- */

static void print_times(const upconv_tune_result *result, uc_decision *decision) {
  uc_text text;
  const char *name = result->trial[result->chosen].candidate;
  uc_text_init(&text, decision->candidate, sizeof decision->candidate);
  uc_text_add(&text, "%s", name);
  uc_text_init(&text, decision->times, sizeof decision->times);
  for (int i = 0; i < result->count; i++) {
    const upconv_trial *t = &result->trial[i];
    if (t->runs == 0) continue;
    uc_text_add(&text, "%s%s %.4g ms", text.length > 0 ? ", " : "", t->candidate,
                t->quartile * 1e3);
  }
}

static void keep(const upconv_plan *plan, upconv_tune_result *result, uc_decision *decision) {
  char *key = uc_tune_key(plan);
  if (!key) return;
  keep_own(plan->context->tuner, key, decision);
  result->stored = uc_tune_store_put(key, decision);
  free(key);
}

static upconv_status measure(const upconv_plan *plan, const upconv_tune_options *options,
                             upconv_tune_result *result, uc_decision *decision) {
  upconv_status status = uc_tune_measure(plan, options, result);
  if (status != UPCONV_OK) return status;
  print_times(result, decision);
  if (!options->dry_run) keep(plan, result, decision);
  return UPCONV_OK;
}

upconv_status uc_tune_plan(const upconv_plan *plan, const upconv_tune_options *options,
                           upconv_tune_result *result) {
  upconv_tune_result found;
  uc_decision decision;
  pthread_mutex_lock(&plan->context->tuner->measuring);
  upconv_status status = measure(plan, options, &found, &decision);
  pthread_mutex_unlock(&plan->context->tuner->measuring);
  if (status == UPCONV_OK) *result = found;
  return status;
}

upconv_status upconv_tune(upconv_context *context, const upconv_problem *problem,
                          const upconv_epilogue *epilogue, const upconv_tune_options *options,
                          upconv_tune_result *result) {
  static const upconv_tune_options defaults = {0};
  if (!context || !problem || !result)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s: must not be NULL",
                   !context   ? "context"
                   : !problem ? "problem"
                              : "result");
  if (!options) options = &defaults;
  if (!(options->seconds >= 0) || options->seconds > 1e6)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "seconds = %g: must be from 0 to 1000000",
                   options->seconds);
  const upconv_plan_options as = {.constants = options->constants,
                                  .no_rewrite = options->no_rewrite};
  upconv_plan *plan = NULL;
  upconv_status status = uc_plan_lower(context, problem, epilogue, &as, &plan);
  if (status != UPCONV_OK) return status;
  status = uc_tune_plan(plan, options, result);
  upconv_plan_destroy(plan);
  return status;
}

/* ---- for plans ---- */

static upconv_tuning wanted(const upconv_plan_options *options) {
  if (options->tuning != UPCONV_TUNING_DEFAULT) return options->tuning;
  const char *text = getenv("UPCONV_TUNE");
  return text && strcmp(text, "1") == 0 ? UPCONV_TUNING_MEASURE : UPCONV_TUNING_STORED;
}

/* false: it names nothing that applies. */
static bool follow(upconv_plan *plan, uc_choice choice) {
  const uc_candidate *c = uc_candidate_named(plan->decision.candidate);
  if (!c || c->refuses(plan->context, &plan->lowered)) return false;
  plan->candidate = c;
  plan->choice = choice;
  return true;
}

static bool follow_stored(upconv_plan *plan) {
  return find(plan, &plan->decision) && follow(plan, UC_CHOICE_STORED);
}

static bool has_choice(const upconv_plan *plan) {
  int count = 0;
  for (int i = 0; uc_candidate_at(i) && count < 2; i++)
    count += !uc_candidate_at(i)->refuses(plan->context, &plan->lowered);
  return count > 1;
}

/* Another thread may have decided while this one waited. */
static void follow_measured(upconv_plan *plan) {
  static const upconv_tune_options defaults = {0};
  upconv_tune_result result;
  pthread_mutex_lock(&plan->context->tuner->measuring);
  if (!follow_stored(plan) && measure(plan, &defaults, &result, &plan->decision) == UPCONV_OK)
    follow(plan, UC_CHOICE_MEASURED);
  pthread_mutex_unlock(&plan->context->tuner->measuring);
}

void uc_tune_choose(upconv_plan *plan, const upconv_plan_options *options) {
  upconv_tuning tuning = wanted(options);
  if (plan->no_fuse || tuning == UPCONV_TUNING_OFF || !plan->context->meter) return;
  if (follow_stored(plan) || tuning != UPCONV_TUNING_MEASURE) return;
  if (has_choice(plan)) follow_measured(plan);
}
