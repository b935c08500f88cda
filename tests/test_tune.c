/* SPDX-License-Identifier: Apache-2.0 */
// labels: parallel valgrind
/* Decisions: the text they are kept in, the file, plans that follow them, measuring. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "plan.h"
#include "sandbox.h"
#include "tune.h"

/* ---------------------------------------------------------------- the text */

static char *put(char *text, const char *key, const char *candidate) {
  uc_decision decision = {.times = "1 ms"};
  snprintf(decision.candidate, sizeof decision.candidate, "%s", candidate);
  char *result = uc_tune_text_put(text ? text : "", text ? strlen(text) : 0, key, &decision);
  free(text);
  return result;
}

static const char *find(const char *text, const char *key) {
  static uc_decision decision;
  return uc_tune_text_find(text, strlen(text), key, &decision) ? decision.candidate : "nothing";
}

static int count_lines(const char *text) {
  uc_field field[UC_TUNE_FIELDS];
  int count = 0;
  for (const char *at = text, *end = text + strlen(text); uc_tune_next(&at, end, field);) count++;
  return count;
}

static void keeps_one_line_a_key(void) {
  char *text = put(NULL, "cpu\ta\t-", "one");
  text = put(text, "cpu\tb\t-", "two");
  text = put(text, "cpu\ta\t-", "three");
  text = put(text, "gpu\ta\t-", "four");
  if (!CHECK(text != NULL)) return;
  CHECK_STR(find(text, "cpu\ta\t-"), "three");
  CHECK_STR(find(text, "cpu\tb\t-"), "two");
  CHECK_STR(find(text, "gpu\ta\t-"), "four");
  CHECK_STR(find(text, "cpu\ta"), "nothing");
  CHECK_STR(find(text, "cpu\ta\tfold-scale"), "nothing");
  CHECK_INT(count_lines(text), 3);
  CHECK(strncmp(text, "# ", 2) == 0);
  free(text);
}

static void refuses_what_is_no_line(void) {
  CHECK(put(NULL, "a\tb", "c") == NULL);
  CHECK(put(NULL, "a\tb\tc\td", "c") == NULL);
  CHECK(put(NULL, "a\t\tc", "c") == NULL);
  CHECK(put(NULL, "a\tb\nb\tc", "c") == NULL);
  CHECK(put(NULL, "a\tb\tc", "") == NULL);
}

static void ignores_damaged_lines(void) {
  static const char text[] =
      "k\tk\tk\tgood\t1 ms\n"
      "k\tk\tk\n"
      "\n"
      "k\tk\tk\t\t1 ms\n"
      "k\tk\tk\tbad\t1 ms\tmore\n"
      "k\tk\tk\tb\x01"
      "d\t1 ms\n"
      "# k\tk\tk\tbad\t1 ms\n"
      "k\tk\tk\ta-name-that-is-longer-than-any-candidate-of-this-library-could-ever-have\t1 ms\n"
      "other\tk\tk\tgood\t1 ms\n"
      "k\tk\tk\tcut\t1 m";
  CHECK_STR(find(text, "k\tk\tk"), "good");
  CHECK_INT(count_lines(text), 2);
  char *copy = strdup(text);
  if (copy) copy = put(copy, "new\tk\tk", "good");
  CHECK(copy != NULL);
  if (!copy) return;
  CHECK_INT(count_lines(copy), 3);
  CHECK(strstr(copy, "bad") == NULL && strstr(copy, "cut") == NULL);
  free(copy);
}

/* Whatever became of the file, reading it ends, and what is found is a name. */
static void survives_any_damage(void) {
  char *text = NULL, key[32];
  for (int i = 0; i < 20; i++) {
    snprintf(key, sizeof key, "d\tproblem %d\t-", i);
    text = put(text, key, "cpu-tiled");
  }
  if (!CHECK(text != NULL)) return;
  uint64_t random = 1;
  size_t length = strlen(text);
  for (int round = 0; round < 500; round++) {
    size_t at = (size_t)check_random_range(&random, 0, (int64_t)length - 1);
    text[at] = (char)check_random_range(&random, 1, 255);
    uc_field field[UC_TUNE_FIELDS];
    for (const char *line = text; uc_tune_next(&line, text + length, field);)
      if (!CHECK(field[3].length > 0 && field[3].length < UC_TUNE_NAME &&
                 field[4].text + field[4].length < text + length))
        break;
  }
  free(text);
}

static void forgets_the_oldest(void) {
  enum { LINE = 4096 };
  static char key[LINE];
  char *text = NULL;
  int made = 2 * UC_TUNE_LIMIT / LINE;
  for (int i = 0; i < made; i++) {
    int begin = snprintf(key, sizeof key, "device\tproblem %d ", i);
    memset(key + begin, 'x', sizeof key - (size_t)begin - 3);
    memcpy(key + sizeof key - 3, "\t-", 3);
    text = put(text, key, "cpu-tiled");
  }
  if (!CHECK(text != NULL)) return;
  CHECK(strlen(text) <= UC_TUNE_LIMIT && strlen(text) > UC_TUNE_LIMIT - 2 * LINE);
  CHECK(strstr(text, "problem 0 ") == NULL);
  CHECK_STR(find(text, key), "cpu-tiled");
  free(text);
}

/* ---------------------------------------------------------------- the file */

static void say_path(void) {
  char *path = uc_tune_store_path();
  sandbox_say("%s ", path ? path : "none");
  free(path);
}

static void find_paths(void) {
  setenv("HOME", "/home/somebody", 1);
  say_path();
  setenv("XDG_CACHE_HOME", "/caches", 1);
  say_path();
  setenv("UPCONV_CACHE_DIR", "kernels", 1);
  say_path();
  setenv("UPCONV_CACHE_DIR", "", 1);
  say_path();
  setenv("UPCONV_TUNE_FILE", "here.txt", 1);
  say_path();
  setenv("UPCONV_TUNE_FILE", "", 1);
  unsetenv("UPCONV_CACHE_DIR");
  say_path();
}

static void lies_where_the_environment_says(void) {
  CHECK_STR(sandbox_run(find_paths),
            "/home/somebody/.cache/upconv/tuning.txt /caches/upconv/tuning.txt kernels/tuning.txt "
            "none here.txt none ");
}

enum { WRITERS = 6, EACH = 25 };

static void write_many(void) {
  setenv("UPCONV_TUNE_FILE", "new/folder/tuning.txt", 1);
  for (int writer = 0; writer < WRITERS; writer++) {
    if (fork() != 0) continue;
    const uc_decision decision = {.candidate = "cpu-tiled", .times = "1 ms"};
    char key[64];
    for (int i = 0; i < EACH; i++) {
      snprintf(key, sizeof key, "device\twriter %d problem %d\t-", writer, i);
      if (!uc_tune_store_put(key, &decision)) _exit(1);
    }
    _exit(0);
  }
  int failed = 0;
  for (int status; wait(&status) > 0;) failed += status != 0;
  size_t length = 0;
  char *text = uc_tune_store_read("new/folder/tuning.txt", &length);
  sandbox_say("%d failed, %d lines", failed, text ? count_lines(text) : -1);
  free(text);
}

static void writers_lose_nothing(void) {
  CHECK_STR(sandbox_run(write_many), "0 failed, 150 lines");
}

/* ---------------------------------------------------------------- plans */

static const char text[] = "ci8 co16 in5x7 k3 s2 p1 bias | mul @scale | relu";

typedef struct trial {
  upconv_context *context;
  upconv_problem *problem;
  upconv_epilogue *epilogue;
} trial;

static void start(trial *t, const char *device, const char *problem) {
  const upconv_context_options options = {.device = device, .threads = 1};
  if (upconv_context_create(&options, &t->context) ||
      upconv_problem_parse(problem, &t->problem, &t->epilogue)) {
    sandbox_say("%s", upconv_last_error());
    exit(90);
  }
}

static void stop(trial *t) {
  upconv_problem_destroy(t->problem);
  upconv_epilogue_destroy(t->epilogue);
  upconv_context_destroy(t->context);
}

/* Candidate and who chose it: "cpu-tiled model ". */
static void say_plan(const trial *t, upconv_tuning tuning) {
  static const char *const choice[] = {"model", "named", "stored", "measured"};
  const upconv_plan_options options = {.tuning = tuning};
  upconv_plan *plan = NULL;
  if (upconv_plan_create(t->context, t->problem, t->epilogue, &options, &plan))
    sandbox_say("%s ", upconv_last_error());
  else
    sandbox_say("%s %s ", plan->candidate->name, choice[plan->choice]);
  upconv_plan_destroy(plan);
}

/* Stores a decision for the trial's problem. */
static void decide(const trial *t, const char *candidate) {
  const upconv_plan_options options = {0};
  upconv_plan *plan = NULL;
  uc_decision decision = {.times = "1 ms"};
  snprintf(decision.candidate, sizeof decision.candidate, "%s", candidate);
  if (uc_plan_lower(t->context, t->problem, t->epilogue, &options, &plan)) exit(91);
  char *key = uc_tune_key(plan);
  if (!key || !uc_tune_store_put(key, &decision)) exit(92);
  free(key);
  upconv_plan_destroy(plan);
}

static void follow(void) {
  trial t, renamed, other;
  start(&t, "cpu", text);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  decide(&t, "cpu-direct");
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  say_plan(&t, UPCONV_TUNING_OFF);
  start(&renamed, "cpu", "ci8 co16 in5x7 k3 s2 p1 bias | mul @anything.else | relu");
  say_plan(&renamed, UPCONV_TUNING_STORED);
  start(&other, "cpu", "ci8 co16 in5x8 k3 s2 p1 bias | mul @scale | relu");
  say_plan(&other, UPCONV_TUNING_STORED);
  setenv("UPCONV_TUNE_FILE", "", 1);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  stop(&t);
  stop(&renamed);
  stop(&other);
}

static void plans_follow_decisions(void) {
  CHECK_STR(sandbox_run(follow),
            "cpu-tiled model cpu-direct stored cpu-tiled model cpu-direct stored cpu-tiled model "
            "cpu-tiled model ");
}

static void name_nonsense(void) {
  trial t;
  start(&t, "cpu", text);
  decide(&t, "a-candidate-of-another-version");
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  decide(&t, "cuda-ffma");
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  static const char junk[] = "\0\xff\t\t\t\tno decision\n\n\t\n";
  char *path = uc_tune_store_path();
  sandbox_write(path, junk, sizeof junk - 1);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  unlink(path);
  if (mkdir(path, 0700) != 0) exit(93);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  free(path);
  stop(&t);
}

static void ignores_what_does_not_apply(void) {
  CHECK_STR(sandbox_run(name_nonsense),
            "cpu-tiled model cpu-tiled model cpu-tiled model cpu-tiled model ");
}

/* Constants let rules look at values: a factor of 1 goes. */
static void say_rules(void) {
  trial t;
  start(&t, "cpu", "ci2 co2 in4 k2 s2 | mul @s | max_pool 2");
  float one[] = {1, 1}, weight[8] = {1};
  const int64_t size = 2, weight_shape[] = {2, 2, 2};
  upconv_tensor s = upconv_tensor_dense(one, UPCONV_F32, 1, &size, UPCONV_CHANNELS_FIRST);
  const upconv_parameters constants = {
      .weight = upconv_tensor_dense(weight, UPCONV_F32, 3, weight_shape, UPCONV_CHANNELS_FIRST),
      .params = &s,
      .param_count = 1};
  const upconv_plan_options options[] = {{0}, {.constants = &constants}, {.no_rewrite = true}};
  for (int i = 0; i < 3; i++) {
    upconv_plan *plan = NULL;
    if (uc_plan_lower(t.context, t.problem, t.epilogue, &options[i], &plan)) exit(91);
    char *key = uc_tune_key(plan);
    sandbox_say("%s|", key ? strrchr(key, '\t') + 1 : "");
    free(key);
    upconv_plan_destroy(plan);
  }
  stop(&t);
}

static void keys_name_the_rules(void) {
  CHECK_STR(sandbox_run(say_rules), "fold-scale|drop-identity|-|");
}

/* ---------------------------------------------------------------- measuring */

static void progress(void *data, double part) {
  double *last = data;
  if (!(part >= 0 && part <= 1)) exit(94);
  *last = part;
}

static void measures_every_candidate(void) {
  trial t;
  start(&t, "cpu", text);
  double part = -1;
  upconv_tune_result result = {.count = -1};
  upconv_tune_options options = {
      .dry_run = true, .seconds = 0.05, .progress = progress, .progress_data = &part};
  CHECK_STATUS(upconv_tune(t.context, t.problem, t.epilogue, &options, &result), UPCONV_OK);
  CHECK_INT(result.count, 4);
  CHECK(!result.stored);
  CHECK_NEAR(part, 1, 0);
  for (int i = 0; i < result.count; i++) {
    const upconv_trial *one = &result.trial[i];
    CHECK_MSG(one->runs > 0 && one->fastest > 0 && one->fastest <= one->quartile &&
                  one->quartile <= one->median,
              "%s: %s", one->candidate, one->why);
    if (i > 0) CHECK(one->estimated >= one[-1].estimated);
  }
  CHECK(result.chosen >= 0 && result.chosen < result.count);
  double chosen = result.trial[result.chosen].quartile;
  for (int i = 0; i < result.count; i++) CHECK(chosen <= result.trial[i].quartile / 0.98);
  stop(&t);
}

static void explains_errors(void) {
  trial t, empty, huge;
  upconv_tune_result result = {.count = -1};
  upconv_tune_options options = {.seconds = -1};
  start(&t, "cpu", text);
  CHECK_STATUS(upconv_tune(NULL, t.problem, NULL, NULL, &result), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_tune(t.context, NULL, NULL, NULL, &result), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_tune(t.context, t.problem, NULL, NULL, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_tune(t.context, t.problem, NULL, &options, &result), UPCONV_INVALID_ARGUMENT);
  CHECK_SAYS(upconv_last_error(), "seconds = -1");
  start(&empty, "cpu", "n0 ci1 co1 in4 k2");
  CHECK_STATUS(upconv_tune(empty.context, empty.problem, NULL, NULL, &result),
               UPCONV_INVALID_ARGUMENT);
  CHECK_SAYS(upconv_last_error(), "empty");
  start(&huge, "cpu", "n100000 ci512 co1 in1000x1000 k2 s2");
  CHECK_STATUS(upconv_tune(huge.context, huge.problem, NULL, NULL, &result), UPCONV_OUT_OF_MEMORY);
  CHECK_SAYS(upconv_last_error(), "bytes");
  CHECK_INT(result.count, -1);
  stop(&t);
  stop(&empty);
  stop(&huge);
}

static void tune_while_planning(void) {
  trial t;
  start(&t, "cpu", "ci2 co3 in5 k3 s2");
  setenv("UPCONV_TUNE", "0", 1);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  setenv("UPCONV_TUNE", "1", 1);
  say_plan(&t, UPCONV_TUNING_STORED);
  const upconv_plan_options named = {.candidate = "cpu-direct"};
  upconv_plan *plan = NULL;
  if (upconv_plan_create(t.context, t.problem, t.epilogue, &named, &plan)) exit(91);
  upconv_plan_destroy(plan);
  char *path = uc_tune_store_path();
  sandbox_say("%s ", access(path, F_OK) ? "no file" : "a file");
  const upconv_plan_options options = {0};
  upconv_plan *first = NULL, *second = NULL, *later = NULL;
  if (upconv_plan_create(t.context, t.problem, t.epilogue, &options, &first)) exit(91);
  if (upconv_plan_create(t.context, t.problem, t.epilogue, &options, &second)) exit(91);
  setenv("UPCONV_TUNE", "", 1);
  trial again;
  start(&again, "cpu", "ci2 co3 in5 k3 s2");
  if (upconv_plan_create(again.context, again.problem, again.epilogue, NULL, &later)) exit(91);
  sandbox_say("%d %d %d %s ", first->choice == UC_CHOICE_MEASURED,
              second->choice == UC_CHOICE_STORED, later->choice == UC_CHOICE_STORED,
              first->candidate == second->candidate && first->candidate == later->candidate
                  ? "same"
                  : "different");
  char printed[8192];
  upconv_plan_print(later, printed, sizeof printed, NULL);
  sandbox_say("%s", strstr(printed, "chosen      by a stored measurement: ") ? "printed" : printed);
  upconv_plan_destroy(first);
  upconv_plan_destroy(second);
  upconv_plan_destroy(later);
  stop(&t);
  stop(&again);
  free(path);
}

static void the_environment_turns_it_on(void) {
  CHECK_STR(sandbox_run(tune_while_planning),
            "cpu-tiled model cpu-tiled model no file 1 1 1 same printed");
}

enum { PLANNERS = 4 };

typedef struct planner {
  const trial *shared;
  uc_choice choice;
  const char *candidate;
} planner;

static void *plan_at_once(void *data) {
  planner *p = data;
  const upconv_plan_options options = {.tuning = UPCONV_TUNING_MEASURE};
  upconv_plan *plan = NULL;
  if (upconv_plan_create(p->shared->context, p->shared->problem, p->shared->epilogue, &options,
                         &plan))
    exit(91);
  p->choice = plan->choice;
  p->candidate = plan->candidate->name;
  upconv_plan_destroy(plan);
  return NULL;
}

/* One thread measures, the others wait and follow. */
static void tune_in_threads(void) {
  trial t;
  pthread_t thread[PLANNERS];
  planner p[PLANNERS];
  start(&t, "cpu", "ci2 co3 in5 k3 s2");
  for (int i = 0; i < PLANNERS; i++) {
    p[i].shared = &t;
    if (pthread_create(&thread[i], NULL, plan_at_once, &p[i])) exit(97);
  }
  int measured = 0, same = 0;
  for (int i = 0; i < PLANNERS; i++) {
    pthread_join(thread[i], NULL);
    measured += p[i].choice == UC_CHOICE_MEASURED;
    same += p[i].candidate == p[0].candidate;
  }
  sandbox_say("%d measured, %d the same", measured, same);
  stop(&t);
}

static void one_thread_measures(void) {
  CHECK_STR(sandbox_run(tune_in_threads), "1 measured, 4 the same");
}

/* Whether it was stored, and whether the next plan follows it. */
static void say_tuned(const char *place) {
  trial t;
  upconv_tune_result result;
  const upconv_tune_options options = {.seconds = 0.01};
  setenv("UPCONV_TUNE_FILE", place, 1);
  start(&t, "cpu", "ci2 co3 in5 k3 s2");
  if (upconv_tune(t.context, t.problem, t.epilogue, &options, &result)) exit(91);
  upconv_plan *plan = NULL;
  if (upconv_plan_create(t.context, t.problem, t.epilogue, NULL, &plan)) exit(91);
  const char *chosen = result.trial[result.chosen].candidate;
  bool followed = plan->choice == UC_CHOICE_STORED && strcmp(plan->candidate->name, chosen) == 0;
  sandbox_say("%s %s, ", result.stored ? "stored" : "lost", followed ? "followed" : "not followed");
  upconv_plan_destroy(plan);
  stop(&t);
}

/* The context remembers what no file takes. */
static void tune_without_a_file(void) {
  struct stat null;
  say_tuned("here.txt");
  say_tuned("");
  say_tuned("/proc/no/where/tuning.txt");
  say_tuned("/dev/null");
  if (stat("/dev/null", &null) != 0 || !S_ISCHR(null.st_mode)) sandbox_say("/dev/null is gone ");
  if (uc_tune_store_clear("/dev/null")) sandbox_say("/dev/null was removed ");
  if (chmod(".", 0555) != 0 || (geteuid() == 0 && setuid(4242) != 0)) exit(95);
  say_tuned("there.txt");
}

static void does_without_a_file(void) {
  CHECK_STR(sandbox_run(tune_without_a_file),
            "stored followed, lost followed, lost followed, lost followed, lost followed, ");
}

static void plan_too_large(void) {
  trial t;
  start(&t, "cpu", "n100000 ci512 co1 in1000x1000 k2 s2");
  say_plan(&t, UPCONV_TUNING_MEASURE);
  stop(&t);
}

static void plans_need_no_memory_to_measure(void) {
  CHECK_SAYS(sandbox_run(plan_too_large), " model ");
}

/* ---------------------------------------------------------------- CUDA, without a GPU */

static void use_fakes(void) {
  setenv("UPCONV_LIBCUDA", UPCONV_FAKES "/fake_driver.so", 1);
  setenv("UPCONV_NVRTC", UPCONV_FAKES "/fake_nvrtc.so", 1);
}

static const char cuda_text[] = "n4 ci16 co16 in16x16 k4 s2 p1 dtype=f16 | relu";

static int held(void) {
  int (*get_held)(void) = NULL;
  void *handle = dlopen(UPCONV_FAKES "/fake_driver.so", RTLD_NOW | RTLD_NOLOAD);
  void *symbol = handle ? dlsym(handle, "fake_held") : NULL;
  if (!symbol) exit(96);
  memcpy(&get_held, &symbol, sizeof get_held);
  dlclose(handle);
  return get_held();
}

/* Every run takes a millisecond there, so the model's choice stays. */
static void tune_device(void) {
  use_fakes();
  trial t;
  start(&t, "cuda", cuda_text);
  upconv_tune_result r;
  upconv_tune_options options = {.seconds = 0.01};
  if (upconv_tune(t.context, t.problem, t.epilogue, &options, &r))
    sandbox_say("%s", upconv_last_error());
  else
    sandbox_say("%d %d %g %d ", r.count > 1, r.chosen, r.trial[0].median * 1e3, r.stored);
  say_plan(&t, UPCONV_TUNING_DEFAULT);
  stop(&t);
  sandbox_say("held %d", held());
}

/* What becomes of measuring on a device in that state, and what a plan then takes. */
static void tune_in_state(const char *variable, const char *value) {
  use_fakes();
  trial t;
  start(&t, "cuda", cuda_text);
  setenv(variable, value, 1);
  upconv_tune_result r;
  if (upconv_tune(t.context, t.problem, t.epilogue, NULL, &r))
    sandbox_say("%s; ", upconv_last_error());
  say_plan(&t, UPCONV_TUNING_MEASURE);
  stop(&t);
}

static void tune_captured(void) { tune_in_state("FAKE_DRIVER", "captured"); }

static void tune_full(void) {
  tune_in_state("FAKE_MEMORY", "1000000");
  sandbox_say("held %d", held());
}

static void plan_for_an_architecture(void) {
  use_fakes();
  trial t;
  start(&t, "cuda:sm_90a", cuda_text);
  upconv_tune_result r;
  if (upconv_tune(t.context, t.problem, t.epilogue, NULL, &r))
    sandbox_say("%s; ", upconv_last_error());
  say_plan(&t, UPCONV_TUNING_MEASURE);
  stop(&t);
}

static void measures_on_a_device(void) {
  CHECK_SAYS(sandbox_run(tune_device), "1 0 1 1 cuda-");
  CHECK_SAYS(sandbox_run(tune_device), " stored held 0");
  CHECK_SAYS(sandbox_run(tune_captured), "captured");
  CHECK_SAYS(sandbox_run(tune_captured), " model ");
  CHECK_SAYS(sandbox_run(tune_full), "out of memory");
  CHECK_SAYS(sandbox_run(tune_full), " model held 0");
  CHECK_SAYS(sandbox_run(plan_for_an_architecture), "nothing to measure on");
  CHECK_SAYS(sandbox_run(plan_for_an_architecture), " model ");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"keeps_one_line_a_key", keeps_one_line_a_key},
      {"refuses_what_is_no_line", refuses_what_is_no_line},
      {"ignores_damaged_lines", ignores_damaged_lines},
      {"survives_any_damage", survives_any_damage},
      {"forgets_the_oldest", forgets_the_oldest},
      {"lies_where_the_environment_says", lies_where_the_environment_says},
      {"writers_lose_nothing", writers_lose_nothing},
      {"plans_follow_decisions", plans_follow_decisions},
      {"ignores_what_does_not_apply", ignores_what_does_not_apply},
      {"keys_name_the_rules", keys_name_the_rules},
      {"measures_every_candidate", measures_every_candidate},
      {"explains_errors", explains_errors},
      {"the_environment_turns_it_on", the_environment_turns_it_on},
      {"one_thread_measures", one_thread_measures},
      {"does_without_a_file", does_without_a_file},
      {"plans_need_no_memory_to_measure", plans_need_no_memory_to_measure},
      {"measures_on_a_device", measures_on_a_device},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
