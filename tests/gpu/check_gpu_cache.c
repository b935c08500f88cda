/* SPDX-License-Identifier: Apache-2.0 */
/* The cache as plans use it: compiled once for all extents and processes, whatever happens to its files. */
#include <dirent.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/cuda/cache.h"
#include "check_gpu.h"

enum { EXTENTS = 50, STARTS = 7, MOST_START_MS = 50, PROCESSES = 6, MOST_FILES = 64, PATH = 512 };

static const char small_text[] =
    "n2 ci4 co8 in5x6x7 k3 s2 p1 bias math=tf32 | relu | mul @m | max_pool 2";

extern char **environ;

/* ---- a cache of its own ---- */

static char folder[64], saved[PATH];
static bool was_set;

static bool cache_begin(void) {
  const char *before = getenv("UPCONV_CACHE_DIR");
  was_set = before != NULL;
  snprintf(saved, sizeof saved, "%s", before ? before : "");
  snprintf(folder, sizeof folder, "/tmp/upconv-check-gpu-XXXXXX");
  return CHECK(mkdtemp(folder) != NULL) && CHECK_INT(setenv("UPCONV_CACHE_DIR", folder, 1), 0);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info;
  (void)kind;
  (void)place;
  return remove(path);
}

static void cache_end(void) {
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  if (was_set)
    setenv("UPCONV_CACHE_DIR", saved, 1);
  else
    unsetenv("UPCONV_CACHE_DIR");
}

static int64_t entries(void) {
  uc_cuda_cache_info info;
  if (!CHECK_STATUS(uc_cuda_cache_list(&info), UPCONV_OK)) return -1;
  free(info.directory);
  return info.entries;
}

/* Names in the folder with this ending; returns how many. */
static int list(const char *ending, char (*path)[PATH]) {
  DIR *stream = opendir(folder);
  int count = 0;
  if (!CHECK(stream != NULL)) return 0;
  for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
    size_t length = strlen(entry->d_name), end = strlen(ending);
    if (length < end || strcmp(entry->d_name + length - end, ending) != 0 || count == MOST_FILES)
      continue;
    snprintf(path[count++], PATH, "%s/%s", folder, entry->d_name);
  }
  closedir(stream);
  return count;
}

/* ---- one plan for all extents ---- */

static bool run_extents(const upconv_plan *plan, const char *text) {
  gpu_task t;
  gpu_run run = {.task = NULL};
  bool right = gpu_task_make(text, 3, GPU_DENSE, &t) && gpu_oracle(&t) &&
               gpu_run_make(&t, plan, GPU_DENSE, &run) && gpu_run_all(&run) &&
               gpu_run_compare(&run, "other extents");
  gpu_run_free(&run);
  gpu_task_free(&t);
  return right;
}

static void check_extents(const char *head, const char *tail) {
  char text[256];
  uint64_t random = 50;
  gpu_task t;
  upconv_plan *plan = NULL;
  snprintf(text, sizeof text, "n2 in4x5x6 %s | %s", head, tail);
  if (gpu_task_make(text, 3, GPU_DENSE, &t)) {
    double begin = gpu_now_ms();
    plan = gpu_plan(gpu_context, &t, NULL);
    double ms = gpu_now_ms() - begin;
    if (plan) printf("     %s: plan created in %.0f ms\n", upconv_plan_candidate(plan), ms);
  }
  int64_t compiled = entries();
  CHECK_MSG(compiled > 0, "%lld entries", (long long)compiled);
  for (int i = 0; i < EXTENTS && plan; i++) {
    int n = (int)check_random_range(&random, 1, 5), d = (int)check_random_range(&random, 2, 9);
    int h = (int)check_random_range(&random, 2, 9), w = (int)check_random_range(&random, 2, 70);
    snprintf(text, sizeof text, "n%d in%dx%dx%d %s | %s", n, d, h, w, head, tail);
    if (!run_extents(plan, text)) break;
  }
  CHECK_INT(entries(), compiled);
  upconv_plan_destroy(plan);
  gpu_task_free(&t);
}

static void extents(void) {
  if (!cache_begin()) return;
  check_extents("ci16 co32 k3 s2 p1 op1 bias math=tf32",
                "leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2");
  check_extents("ci6 co10 k4 s2 p1 bias", "softmax | avg_pool 3 s1 p1 | mean dhw | exp");
  cache_end();
}

/* ---- processes ---- */

int gpu_child_plan(const char *text) {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_plan *plan = NULL;
  if (upconv_problem_parse(text, &problem, &epilogue) != UPCONV_OK) return 2;
  double begin = gpu_now_ms();
  upconv_status status = upconv_plan_create(gpu_context, problem, epilogue, NULL, &plan);
  double ms = gpu_now_ms() - begin;
  if (status == UPCONV_OK)
    printf("%.3f\n", ms);
  else
    printf("%s\n", upconv_last_error());
  upconv_plan_destroy(plan);
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
  return status == UPCONV_OK ? 0 : 1;
}

int gpu_child_check(const char *text) {
  return gpu_check_candidates(gpu_context, text, GPU_DENSE, GPU_DENSE) ? 0 : 1;
}

/* This program once more; its standard output goes to `output` unless that is -1. */
static bool start(const char *mode, const char *text, int output, pid_t *child) {
  char *argument[4] = {NULL};
  const char *const given[] = {"check_gpu", mode, text};
  posix_spawn_file_actions_t actions;
  bool done = CHECK_INT(posix_spawn_file_actions_init(&actions), 0);
  if (!done) return false;
  for (int i = 0; i < 3 && done; i++) done = CHECK((argument[i] = strdup(given[i])) != NULL);
  if (done && output >= 0)
    done = CHECK_INT(posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO), 0);
  done =
      done && CHECK_INT(posix_spawn(child, "/proc/self/exe", &actions, NULL, argument, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  for (int i = 0; i < 3; i++) free(argument[i]);
  return done;
}

static bool finish(pid_t child) {
  int status = 0;
  return CHECK_INT(waitpid(child, &status, 0), child) &&
         CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process ended with status %d",
                   status);
}

/* What the new process measured, or -1. */
static double start_ms(const char *text) {
  int ends[2];
  char answer[256] = "";
  pid_t child;
  if (!CHECK_INT(pipe(ends), 0)) return -1;
  bool started = start("--child-plan", text, ends[1], &child);
  close(ends[1]);
  ssize_t length = started ? read(ends[0], answer, sizeof answer - 1) : 0;
  close(ends[0]);
  bool done = started && finish(child);
  return CHECK_MSG(done && length > 0, "the process said '%s'", answer) ? strtod(answer, NULL) : -1;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* From upconv_plan_create to a plan that is ready; the start of the driver and of the context come before. */
static void second_process(void) {
  double ms[STARTS];
  if (!cache_begin()) return;
  printf("     cold: %.0f ms\n", start_ms(gpu_model_c));
  int64_t compiled = entries();
  CHECK_MSG(compiled > 0, "%lld entries", (long long)compiled);
  for (int i = 0; i < STARTS; i++) ms[i] = start_ms(gpu_model_c);
  CHECK_INT(entries(), compiled);
  qsort(ms, STARTS, sizeof *ms, by_value);
  printf("     warm: %.1f ms (%.1f to %.1f)\n", ms[STARTS / 2], ms[0], ms[STARTS - 1]);
  CHECK_MSG(ms[0] > 0 && ms[STARTS / 2] < MOST_START_MS, "%.1f ms, at most %d wanted",
            ms[STARTS / 2], MOST_START_MS);
  cache_end();
}

/* All start with an empty cache, and all want the same. */
static void many_processes(void) {
  static char path[MOST_FILES][PATH];
  pid_t child[PROCESSES];
  int started = 0;
  if (!cache_begin()) return;
  CHECK(gpu_check_candidates(gpu_context, small_text, GPU_DENSE, GPU_DENSE));
  int64_t alone = entries();
  CHECK(alone > 0);
  CHECK_STATUS(uc_cuda_cache_clear(NULL), UPCONV_OK);
  CHECK_INT(entries(), 0);
  while (started < PROCESSES && start("--child-check", small_text, -1, &child[started])) started++;
  for (int i = 0; i < started; i++) finish(child[i]);
  CHECK_INT(started, PROCESSES);
  CHECK_INT(entries(), alone);
  CHECK_INT(list(".bin", path), alone);
  CHECK_INT(list(".cu", path), alone);
  cache_end();
}

/* ---- damage ---- */

static long size_of(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

/* A wrong byte in the middle, an end that is missing, nothing left. */
static bool damage(const char *path, int way) {
  long size = size_of(path);
  if (way != 0) return CHECK_INT(truncate(path, way == 1 ? size / 2 : 0), 0);
  FILE *file = fopen(path, "r+b");
  if (!CHECK(file != NULL)) return false;
  fseek(file, size / 2, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, size / 2, SEEK_SET);
  fputc(byte ^ 0x55, file);
  return CHECK_INT(fclose(file), 0);
}

static int byte_in_the_middle(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!CHECK(file != NULL)) return -1;
  fseek(file, size_of(path) / 2, SEEK_SET);
  int byte = fgetc(file);
  fclose(file);
  return byte;
}

static void damaged_entries(void) {
  static char path[MOST_FILES][PATH];
  long size[MOST_FILES];
  int byte[MOST_FILES];
  if (!cache_begin()) return;
  for (int first = 0; first < 3; first++) {
    CHECK(gpu_check_candidates(gpu_context, small_text, GPU_DENSE, GPU_DENSE));
    int count = list(".bin", path);
    CHECK_MSG(count >= 2, "%d entries", count);
    for (int i = 0; i < count; i++) {
      size[i] = size_of(path[i]);
      byte[i] = byte_in_the_middle(path[i]);
      damage(path[i], (first + i) % 3);
    }
    CHECK(gpu_check_candidates(gpu_context, small_text, GPU_DENSE, GPU_DENSE));
    for (int i = 0; i < count; i++)
      CHECK_MSG(size_of(path[i]) == size[i] && byte_in_the_middle(path[i]) == byte[i],
                "%s was not made anew", path[i]);
  }
  cache_end();
}

static const check_test tests[] = {
    {"extents_compile_nothing", extents},
    {"second_process_starts_fast", second_process},
    {"processes_share_the_cache", many_processes},
    {"damaged_entries", damaged_entries},
};
const gpu_tests gpu_cache_tests = {tests, CHECK_COUNT(tests)};
