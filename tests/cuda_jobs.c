/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cuda_covering.h"

const char *const cuda_job_other_archs[JOB_OTHER_ARCHS] = {"sm_75", "sm_80",  "sm_86",
                                                           "sm_89", "sm_100", "sm_120"};

typedef struct job_list {
  cuda_job *job;
  int count;
} job_list;

static void add(job_list *list, const char *family, const char *arch, const char *text) {
  if (!CHECK(list->count < JOB_MOST)) return;
  cuda_job *j = &list->job[list->count++];
  *j = (cuda_job){.family = family, .arch = arch, .every = strcmp(arch, JOB_MAIN_ARCH) == 0};
  CHECK(snprintf(j->text, sizeof j->text, "%s", text) < JOB_TEXT);
}

static const char *other(size_t turn) { return cuda_job_other_archs[turn % JOB_OTHER_ARCHS]; }

/* A family has fewer cases than there are architectures, or more: the turns go on until both are through. */
static void add_covering(job_list *list) {
  for (size_t first = 0, end; first < covering_case_count; first = end) {
    const char *family = covering_cases[first].family;
    for (end = first; end < covering_case_count; end++) {
      if (strcmp(covering_cases[end].family, family) != 0) break;
      add(list, family, JOB_MAIN_ARCH, covering_cases[end].text);
    }
    size_t count = end - first, turns = count > JOB_OTHER_ARCHS ? count : JOB_OTHER_ARCHS;
    for (size_t i = 0; i < turns; i++)
      add(list, family, other(first + i), covering_cases[first + i % count].text);
  }
}

/* tokens: put behind the problem, in front of what follows it. */
static void add_with(job_list *list, const char *family, const char *arch, const char *line,
                     const char *tokens) {
  char text[2 * JOB_TEXT];
  int problem = (int)strcspn(line, "|");
  snprintf(text, sizeof text, "%.*s %s %s", problem, line, tokens, line + problem);
  add(list, family, arch, text);
}

static void add_founding(job_list *list, const char *line) {
  static const char *const modes[] = {"math=ieee", "math=tf32", "dtype=f16"};
  for (size_t m = 0; m < CHECK_COUNT(modes); m++) {
    add_with(list, "founding models", JOB_MAIN_ARCH, line, modes[m]);
    for (size_t a = 0; a < JOB_OTHER_ARCHS; a++)
      add_with(list, "founding models", other(a), line, modes[m]);
  }
}

static void add_suite_line(job_list *list, const char *line, size_t index) {
  static const char family[] = "users' suite";
  add_with(list, family, JOB_MAIN_ARCH, line, "math=tf32");
  add_with(list, family, JOB_MAIN_ARCH, line, "dtype=f16");
  add_with(list, family, other(index), line, "math=ieee");
  add_with(list, family, other(index + 2), line, "math=tf32");
  add_with(list, family, other(index + 4), line, "dtype=f16");
}

/* bench/suite.txt begins with the three founding models. */
static void add_suite(job_list *list) {
  const char *root = getenv("UPCONV_SOURCE_DIR");
  char path[1024], line[JOB_TEXT];
  snprintf(path, sizeof path, "%s/bench/suite.txt", root ? root : ".");
  FILE *file = fopen(path, "r");
  if (!CHECK_MSG(file, "%s", path)) return;
  size_t count = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0') continue;
    if (count < 3)
      add_founding(list, line);
    else
      add_suite_line(list, line, count);
    count++;
  }
  fclose(file);
  CHECK_MSG(count > 20, "%s holds %zu problems", path, count);
}

int cuda_jobs(cuda_job *jobs) {
  job_list list = {jobs, 0};
  add_covering(&list);
  add_suite(&list);
  return list.count;
}
