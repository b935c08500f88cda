/* SPDX-License-Identifier: Apache-2.0
 *
 * The harness that check.h describes.
 */
#include "check.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_BAD_NAME = 2, EXIT_ALL_SKIPPED = 77 };

/* The running test. Checks may come from any of its threads. */
static atomic_long checks_made;
static atomic_long checks_failed;
static atomic_long test_skipped;
static const char *test_name = "";
static char skip_reason[256];
static _Thread_local char context[1024];

/* ---- checks ---- */

static void print_place(const char *file, int line) {
  flockfile(stdout);
  printf("FAIL %s\n  %s:%d: ", test_name, file, line);
}

static bool end_failure(void) {
  if (context[0]) printf("  with %s\n", context);
  fflush(stdout);
  funlockfile(stdout);
  return false;
}

/* Counts a check; true if it failed and is still worth printing: a loop that fails a million times prints its start. */
static bool count_failure(bool held) {
  enum { PRINTED_PER_TEST = 20 };
  atomic_fetch_add(&checks_made, 1);
  if (held) return false;
  long before = atomic_fetch_add(&checks_failed, 1);
  if (before == PRINTED_PER_TEST) printf("  (more failures of %s are not shown)\n", test_name);
  return before < PRINTED_PER_TEST;
}

bool check_true(bool held, const char *text, const char *file, int line) {
  if (!count_failure(held)) return held;
  print_place(file, line);
  printf("%s does not hold\n", text);
  return end_failure();
}

bool check_message(bool held, const char *text, const char *file, int line, const char *format,
                   ...) {
  if (!count_failure(held)) return held;
  print_place(file, line);
  printf("%s does not hold: ", text);
  va_list values;
  va_start(values, format);
  vprintf(format, values);
  va_end(values);
  putchar('\n');
  return end_failure();
}

bool check_int(intmax_t a, intmax_t b, const char *a_text, const char *b_text, const char *file,
               int line) {
  if (!count_failure(a == b)) return a == b;
  print_place(file, line);
  printf("%s is %jd, not %jd (%s)\n", a_text, a, b, b_text);
  return end_failure();
}

bool check_string(const char *a, const char *b, const char *a_text, const char *b_text,
                  const char *file, int line) {
  bool held = a == b || (a && b && strcmp(a, b) == 0);
  if (!count_failure(held)) return held;
  print_place(file, line);
  printf("%s is not %s\n    %s\n    %s\n", a_text, b_text, a ? a : "(null)", b ? b : "(null)");
  return end_failure();
}

bool check_near(double a, double b, double tolerance, const char *a_text, const char *b_text,
                const char *file, int line) {
  bool held = fabs(a - b) <= tolerance || a == b;
  if (!count_failure(held)) return held;
  print_place(file, line);
  printf("%s is %.17g, not %.17g (%s): %.3g apart, %.3g allowed\n", a_text, a, b, b_text,
         fabs(a - b), tolerance);
  return end_failure();
}

bool check_status(int got, int wanted, const char *text, const char *wanted_text,
                  const char *(*last_error)(void), const char *file, int line) {
  if (!count_failure(got == wanted)) return got == wanted;
  const char *message = last_error();
  print_place(file, line);
  printf("%s returned %d, not %d (%s)\n  last error: %s\n", text, got, wanted, wanted_text,
         message ? message : "");
  return end_failure();
}

void check_skip(const char *reason) {
  snprintf(skip_reason, sizeof skip_reason, "%s", reason);
  atomic_store(&test_skipped, 1);
}

void check_context(const char *format, ...) {
  context[0] = '\0';
  if (!format) return;
  va_list values;
  va_start(values, format);
  vsnprintf(context, sizeof context, format, values);
  va_end(values);
}

/* ---- guarded buffers ----
 *
 * One block: header and guard, then the data, then a guard. The data starts on a 64-byte boundary plus `misalign`. */

enum { GUARD = 256, ALIGN = 64 };

typedef struct buffer_header {
  unsigned char *block;
  size_t bytes;
} buffer_header;

/* Neighbouring bytes differ, so that a fill which runs over the edge is seen whatever it fills with. */
static unsigned char guard_byte(size_t i) { return (unsigned char)(i * 37 + 11); }

static buffer_header read_header(const unsigned char *data) {
  buffer_header header;
  memcpy(&header, data - GUARD - sizeof header, sizeof header);
  return header;
}

void *check_alloc(size_t bytes, size_t misalign) {
  size_t extra = sizeof(buffer_header) + 2 * (size_t)GUARD + ALIGN + misalign;
  unsigned char *block = bytes <= SIZE_MAX - extra ? malloc(bytes + extra) : NULL;
  if (!block) {
    fprintf(stderr, "check_alloc: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  unsigned char *data = block + sizeof(buffer_header) + GUARD;
  data += (ALIGN - (uintptr_t)data % ALIGN) % ALIGN + misalign;
  buffer_header header = {block, bytes};
  memcpy(data - GUARD - sizeof header, &header, sizeof header);
  for (size_t i = 0; i < GUARD; i++) {
    *(data - GUARD + i) = guard_byte(i);
    data[bytes + i] = guard_byte(i);
  }
  check_poison(data, bytes);
  return data;
}

void check_poison(void *data, size_t bytes) {
  if (bytes) memset(data, CHECK_POISON, bytes);
}

bool check_is_poison(const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++)
    if (p[i] != CHECK_POISON) return false;
  return true;
}

bool check_guards(const void *buffer, const char *text, const char *file, int line) {
  if (!buffer) return true;
  const unsigned char *data = buffer;
  size_t bytes = read_header(data).bytes;
  long long written = 0;
  bool held = true;
  for (size_t i = 0; i < GUARD && held; i++) {
    if (data[bytes + i] != guard_byte(i)) {
      held = false;
      written = (long long)bytes + (long long)i;
    } else if (*(data - 1 - i) != guard_byte(GUARD - 1 - i)) {
      held = false;
      written = -1 - (long long)i;
    }
  }
  if (!count_failure(held)) return held;
  print_place(file, line);
  printf("byte %lld of %s, which has %zu, was written\n", written, text, bytes);
  return end_failure();
}

bool check_free(void *buffer, const char *text, const char *file, int line) {
  bool held = check_guards(buffer, text, file, line);
  if (buffer) free(read_header(buffer).block);
  return held;
}

/* ---- random numbers: splitmix64 ---- */

uint64_t check_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

int64_t check_random_range(uint64_t *state, int64_t low, int64_t high) {
  uint64_t span = (uint64_t)high - (uint64_t)low + 1;
  uint64_t offset = span ? check_random(state) % span : check_random(state);
  return (int64_t)((uint64_t)low + offset);
}

double check_random_unit(uint64_t *state) { return (double)(check_random(state) >> 11) * 0x1p-53; }

/* ---- running ---- */

typedef struct tally {
  int passed, failed, skipped;
} tally;

static void run_test(const check_test *test, tally *counts) {
  test_name = test->name;
  atomic_store(&checks_made, 0);
  atomic_store(&checks_failed, 0);
  atomic_store(&test_skipped, 0);
  check_context(NULL);
  test->run();
  long failed = atomic_load(&checks_failed);
  if (failed) {
    printf("FAIL %s: %ld of %ld checks\n", test->name, failed, atomic_load(&checks_made));
    counts->failed++;
  } else if (atomic_load(&test_skipped)) {
    printf("SKIP %s: %s\n", test->name, skip_reason);
    counts->skipped++;
  } else if (!atomic_load(&checks_made)) {
    printf("FAIL %s: it made no check\n", test->name);
    counts->failed++;
  } else {
    printf("ok   %s\n", test->name);
    counts->passed++;
  }
  fflush(stdout);
}

static const check_test *find_test(const check_test *tests, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(tests[i].name, name) == 0) return &tests[i];
  return NULL;
}

int check_main(int argc, char **argv, const check_test *tests, size_t count) {
  if (argc == 2 && strcmp(argv[1], "-l") == 0) {
    for (size_t i = 0; i < count; i++) puts(tests[i].name);
    return 0;
  }
  for (int i = 1; i < argc; i++) {
    if (find_test(tests, count, argv[i])) continue;
    fprintf(stderr, "no test is called '%s' (-l lists them)\n", argv[i]);
    return EXIT_BAD_NAME;
  }
  tally counts = {0, 0, 0};
  if (argc > 1)
    for (int i = 1; i < argc; i++) run_test(find_test(tests, count, argv[i]), &counts);
  else
    for (size_t i = 0; i < count; i++) run_test(&tests[i], &counts);
  printf("%d passed, %d failed, %d skipped\n", counts.passed, counts.failed, counts.skipped);
  if (counts.failed) return 1;
  return counts.passed ? 0 : EXIT_ALL_SKIPPED;
}
