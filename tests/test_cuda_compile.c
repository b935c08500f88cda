/* SPDX-License-Identifier: Apache-2.0 */
// labels: compile
// timeout: 900
/*
 * Generated kernels compile, for every architecture; no GPU is needed, only NVRTC. Those that are finished in registers
 * use no local memory. Some minutes of work, shared by a process per core.
 *
 * UPCONV_REQUIRE_NVRTC: a machine without NVRTC, or one whose NVRTC does not know them all, fails instead of skipping.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "cuda/cache.h"
#include "cuda/cubin.h"
#include "cuda/engine.h"
#include "cuda/nvrtc.h"
#include "cuda_jobs.h"
#include "monotonic.h"
#include "plan.h"
#include "tally.h"

static cuda_job jobs[JOB_MOST];
static int job_count;

/* ---------------------------------------------------------------- one job, in a worker */

/* What a worker tells: less than a pipe takes at once. */
typedef struct report {
  int job;
  int plans, fused, tiled, tiled_spills;
  char failure[1024], spills[512]; /* "" when all is well */
} report;

static void add(char *text, size_t capacity, const char *format, va_list values) {
  size_t length = strlen(text);
  if (length > 0 && length + 2 < capacity) {
    strcpy(text + length, "; ");
    length += 2;
  }
  vsnprintf(text + length, capacity - length, format, values);
}

static void add_failure(report *r, const char *format, ...) CHECK_PRINTF(2, 3);
static void add_failure(report *r, const char *format, ...) {
  va_list values;
  va_start(values, format);
  add(r->failure, sizeof r->failure, format, values);
  va_end(values);
}

static void add_spill(report *r, const char *format, ...) CHECK_PRINTF(2, 3);
static void add_spill(report *r, const char *format, ...) {
  va_list values;
  va_start(values, format);
  add(r->spills, sizeof r->spills, format, values);
  va_end(values);
}

/* The whole file, with a 0 behind it; NULL if there is none. */
static char *read_file(const char *folder, const char *name, const char *ending, size_t *size) {
  char path[2048];
  snprintf(path, sizeof path, "%s/%.*s%s", folder, (int)strcspn(name, "."), name, ending);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  char *data = NULL;
  if (fseek(file, 0, SEEK_END) == 0) {
    *size = (size_t)ftell(file);
    rewind(file);
    data = calloc(*size + 1, 1);
  }
  if (data && fread(data, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return data;
}

/* Whether an entry of the cache was compiled from this source: beside the image lies a line about the compiler, then the
 * source. */
static bool is_of(const char *folder, const char *name, const char *source) {
  size_t size;
  char *text = read_file(folder, name, ".cu", &size);
  const char *line_end = text ? strchr(text, '\n') : NULL;
  bool same = line_end && strcmp(line_end + 1, source) == 0;
  free(text);
  return same;
}

/* Local memory of the kernel in a cache entry, which is a header and the image; -1: it is not there. */
static int64_t frame_in(const char *folder, const char *name, const char *kernel) {
  enum { MOST = 16 };
  uc_cubin_function function[MOST];
  size_t size;
  char *data = read_file(folder, name, ".bin", &size);
  char *image = data ? memmem(data, size, "\177ELF", 4) : NULL;
  int count = image ? uc_cubin_functions(image, size - (size_t)(image - data), function, MOST) : -1;
  int64_t frame = -1;
  for (int i = 0; i < count; i++)
    if (strcmp(function[i].name, kernel) == 0) frame = function[i].frame;
  free(data);
  return frame;
}

static int is_entry(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && strcmp(dot, ".bin") == 0;
}

static void judge(report *r, const upconv_plan *plan, const uc_cuda_kernel *k) {
  const char *folder = getenv("UPCONV_CACHE_DIR");
  struct dirent **entry;
  int count = scandir(folder, &entry, is_entry, alphasort);
  int64_t frame = -1;
  for (int i = 0; i < count; i++) {
    if (is_of(folder, entry[i]->d_name, k->source))
      frame = frame_in(folder, entry[i]->d_name, k->name);
    free(entry[i]);
  }
  if (count >= 0) free(entry);
  r->fused += k->fused;
  r->tiled += !k->fused;
  r->tiled_spills += !k->fused && frame > 0;
  const char *candidate = upconv_plan_candidate(plan);
  if (frame < 0) add_failure(r, "%s: the cache has no code of %s", candidate, k->name);
  if (k->fused && frame > 0) add_spill(r, "%s, %s: %d bytes", candidate, k->name, (int)frame);
}

/* candidate NULL: the planner's choice. */
static void compile(report *r, upconv_context *context, const char *text, const char *candidate) {
  const char *name = candidate ? candidate : "the planner's choice";
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  upconv_plan *plan = NULL;
  upconv_plan_options options = {.candidate = candidate};
  upconv_status status = upconv_problem_parse(text, &problem, &epilogue);
  if (status == UPCONV_OK) status = upconv_plan_create(context, problem, epilogue, &options, &plan);
  bool refused =
      candidate && status == UPCONV_UNSUPPORTED && strstr(upconv_last_error(), " does not apply: ");
  if (status == UPCONV_OK) {
    r->plans++;
    const uc_cuda_engine *e = plan->state;
    for (int i = 0; i < e->kernel_count; i++) judge(r, plan, &e->kernel[i]);
  } else if (!refused) {
    add_failure(r, "%s: %s", name, upconv_last_error());
  }
  if (uc_cuda_cache_clear(NULL) != UPCONV_OK) add_failure(r, "%s: %s", name, upconv_last_error());
  upconv_plan_destroy(plan);
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
}

static void run_job(const cuda_job *j, report *r) {
  char device[32];
  snprintf(device, sizeof device, "cuda:%s", j->arch);
  upconv_context_options options = {.device = device};
  upconv_context *context = NULL;
  if (upconv_context_create(&options, &context) != UPCONV_OK) {
    add_failure(r, "%s", upconv_last_error());
    return;
  }
  if (!j->every) compile(r, context, j->text, NULL);
  for (int i = 0; j->every && uc_candidate_at(i); i++)
    if (!uc_candidate_at(i)->host_memory) compile(r, context, j->text, uc_candidate_at(i)->name);
  if (r->plans == 0 && !r->failure[0]) add_failure(r, "no candidate applies");
  upconv_context_destroy(context);
}

/* ---------------------------------------------------------------- all jobs */

static int core_count(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Takes jobs until there are none left, or the test is stopped. */
static _Noreturn void be_worker(int number, const char *folder, atomic_int *next, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char cache[1024];
  snprintf(cache, sizeof cache, "%s/%d", folder, number);
  setenv("UPCONV_CACHE_DIR", cache, 1);
  for (int i; (i = atomic_fetch_add(next, 1)) < job_count;) {
    report r = {.job = i};
    run_job(&jobs[i], &r);
    if (write(to, &r, sizeof r) != (ssize_t)sizeof r) _exit(1);
  }
  rmdir(cache);
  _exit(0);
}

typedef struct totals {
  int plans, fused, tiled, fused_spills, tiled_spills;
} totals;

static void count(totals *t, const report *r) {
  const cuda_job *j = &jobs[r->job];
  tally("architecture", j->arch);
  tally("family", j->family);
  t->plans += r->plans;
  t->fused += r->fused;
  t->tiled += r->tiled;
  t->tiled_spills += r->tiled_spills;
  if (!r->spills[0]) return;
  t->fused_spills++;
  printf("local memory: %s, %s: %s\n", j->arch, j->text, r->spills);
}

static void collect(int from) {
  bool done[JOB_MOST] = {false};
  totals t = {0};
  report r;
  while (read(from, &r, sizeof r) == (ssize_t)sizeof r) {
    const cuda_job *j = &jobs[r.job];
    done[r.job] = true;
    count(&t, &r);
    CHECK_MSG(r.failure[0] == '\0', "for %s: %s: %s", j->arch, j->text, r.failure);
  }
  for (int i = 0; i < job_count; i++)
    CHECK_MSG(done[i], "a worker did not survive %s for %s", jobs[i].text, jobs[i].arch);
  CHECK_MSG(t.fused_spills == 0, "%d jobs, listed above", t.fused_spills);
  printf(
      "%d jobs, %d plans: %d kernels finished in registers, %d with tile buffers (%d of them use "
      "local memory)\n",
      job_count, t.plans, t.fused, t.tiled, t.tiled_spills);
}

static void run_all(void) {
  const char *root = getenv("TMPDIR");
  char folder[512];
  snprintf(folder, sizeof folder, "%s/upconv-compile-XXXXXX", root && *root ? root : "/tmp");
  int ends[2];
  atomic_int *next =
      mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(next != MAP_FAILED) || !CHECK(mkdtemp(folder)) || !CHECK(pipe(ends) == 0)) return;
  fflush(NULL);
  int workers = core_count();
  for (int i = 0; i < workers; i++)
    if (fork() == 0) {
      close(ends[0]);
      be_worker(i, folder, next, ends[1]);
    }
  close(ends[1]);
  collect(ends[0]);
  close(ends[0]);
  while (wait(NULL) > 0) continue;
  CHECK_MSG(rmdir(folder) == 0, "%s is not empty", folder);
  munmap(next, sizeof *next);
}

/* Leaves out what this compiler does not know. */
static void drop_unknown_archs(void) {
  int kept = 0;
  for (int i = 0; i < job_count; i++)
    if (uc_nvrtc_supports(jobs[i].arch)) jobs[kept++] = jobs[i];
  if (kept < job_count)
    printf("left out: %d jobs for architectures that this NVRTC does not know\n", job_count - kept);
  if (getenv("UPCONV_REQUIRE_NVRTC")) CHECK_INT(kept, job_count);
  job_count = kept;
}

static void covering_set_compiles(void) {
  int major, minor;
  upconv_status status = uc_nvrtc_version(&major, &minor);
  if (status != UPCONV_OK && !getenv("UPCONV_REQUIRE_NVRTC")) CHECK_SKIP(upconv_last_error());
  if (!CHECK_STATUS(status, UPCONV_OK)) return;
  job_count = cuda_jobs(jobs);
  drop_unknown_archs();
  double start = uc_now();
  run_all();
  printf("NVRTC %d.%d (%s), on %d cores in %.0f s\n", major, minor, uc_nvrtc_path(), core_count(),
         uc_now() - start);
  tally_print(1);
  tally_free();
}

/* ---------------------------------------------------------------- the judge is awake */

static uint32_t frame_of(const char *source) {
  void *image = NULL;
  size_t size = 0;
  uc_cubin_function function[2] = {{"", 0}, {"", 0}};
  if (!CHECK_STATUS(uc_nvrtc_compile(source, "sm_80", NULL, 0, &image, &size, NULL), UPCONV_OK))
    return 0;
  CHECK_INT(uc_cubin_functions(image, size, function, 2), 1);
  CHECK_STR(function[0].name, "f");
  CHECK_INT(uc_cubin_functions(image, size, function, 0), -1);
  for (size_t cut = 0; cut < size; cut += 7) uc_cubin_functions(image, cut, function, 2);
  free(image);
  return function[0].frame;
}

static void sees_local_memory(void) {
  int major, minor;
  if (uc_nvrtc_version(&major, &minor) != UPCONV_OK) CHECK_SKIP(upconv_last_error());
  CHECK_INT(frame_of("extern \"C\" __global__ void f(int *p) { p[threadIdx.x] = 7; }"), 0);
  /* indexed at run time, so it lies in memory */
  CHECK(frame_of("extern \"C\" __global__ void f(int *p) {\n"
                 "  int a[64];\n"
                 "  for (int i = 0; i < 64; i++) a[p[i]] = i;\n"
                 "  p[threadIdx.x] = a[p[threadIdx.x]];\n}") >= 256);
  /* more live values than registers: spilled */
  CHECK(
      frame_of("extern \"C\" __global__ void __launch_bounds__(1024, 2) f(float *p) {\n"
               "  float a[96];\n"
               "#pragma unroll\n  for (int i = 0; i < 96; i++) a[i] = p[i * 1024 + threadIdx.x];\n"
               "  __syncthreads();\n"
               "#pragma unroll\n  for (int i = 0; i < 96; i++) p[threadIdx.x * 96 + i] = a[i] * "
               "a[95 - i];\n}") > 0);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"covering_set_compiles", covering_set_compiles},
      {"sees_local_memory", sees_local_memory},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
