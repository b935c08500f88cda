/* SPDX-License-Identifier: Apache-2.0
 *
 * A small test harness. A test is a function; a test program is a table of them:
 *
 *     static void adds(void) { CHECK_INT(1 + 1, 2); }
 *
 *     int main(int argc, char **argv) {
 *       static const check_test tests[] = {{"adds", adds}};
 *       return check_main(argc, argv, tests, CHECK_COUNT(tests));
 *     }
 *
 * A failed check is printed with its place and values, and the test goes on; every check is an expression that is true
 * when it held, so `if (!CHECK(p)) return;` leaves early. A test that made no check at all has failed. Checks may be made
 * from any thread. The program runs all tests, or those named on its command line (-l lists them), and ends with the line
 * `N passed, N failed, N skipped`.
 */
#ifndef UPCONV_TESTS_CHECK_H
#define UPCONV_TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CHECK_PRINTF(string, values) __attribute__((format(printf, string, values)))
#else
#define CHECK_PRINTF(string, values)
#endif

typedef struct check_test {
  const char *name;
  void (*run)(void);
} check_test;

#define CHECK_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Runs the tests. Returns main's exit code: 0, 1 on a failure, 2 on a name that is not in the table, 77 if every test was
 * skipped. */
int check_main(int argc, char **argv, const check_test *tests, size_t count);

/* The condition holds. */
#define CHECK(condition) check_true((condition) ? true : false, #condition, __FILE__, __LINE__)

/* The condition holds; the rest is a printf format and its values, printed when it does not. */
#define CHECK_MSG(condition, ...) \
  check_message((condition) ? true : false, #condition, __FILE__, __LINE__, __VA_ARGS__)

/* Two integers of any type, two strings (either may be NULL), two numbers at most `tolerance` apart, are equal. */
#define CHECK_INT(a, b) check_int((intmax_t)(a), (intmax_t)(b), #a, #b, __FILE__, __LINE__)
#define CHECK_STR(a, b) check_string((a), (b), #a, #b, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, tolerance) \
  check_near((double)(a), (double)(b), (double)(tolerance), #a, #b, __FILE__, __LINE__)

/* `expression` returns this upconv_status; when it does not, the message of upconv_last_error() is printed too. */
#define CHECK_STATUS(expression, status)                                                  \
  check_status((int)(expression), (int)(status), #expression, #status, upconv_last_error, \
               __FILE__, __LINE__)

/* Leaves the test function, and has the test counted as skipped unless a check failed. */
#define CHECK_SKIP(reason) \
  do {                     \
    check_skip(reason);    \
    return;                \
  } while (0)

/* A line printed with each later failure of this test on this thread, such as the problem being run; NULL takes it away. */
void check_context(const char *format, ...) CHECK_PRINTF(1, 2);

/* A buffer of `bytes` bytes between two guards. It starts `misalign` bytes after a 64-byte boundary and holds
 * CHECK_POISON in every byte: a NaN as f32, f16, bf16 or f64. Stops the program if there is no memory. */
#define CHECK_POISON 0xFF
void *check_alloc(size_t bytes, size_t misalign);

/* True if each of the bytes still holds CHECK_POISON: nobody wrote there. */
bool check_is_poison(const void *data, size_t bytes);
void check_poison(void *data, size_t bytes);

/* Nobody wrote outside a buffer of check_alloc; CHECK_FREE checks that too, then frees it. NULL is all right. */
#define CHECK_GUARDS(buffer) check_guards((buffer), #buffer, __FILE__, __LINE__)
#define CHECK_FREE(buffer) check_free((buffer), #buffer, __FILE__, __LINE__)

/* A small generator of random numbers that is the same everywhere: the state is the seed, of any value. */
uint64_t check_random(uint64_t *state);
int64_t check_random_range(uint64_t *state, int64_t low, int64_t high); /* low and high included */
double check_random_unit(uint64_t *state);                              /* in [0, 1) */

/* What the macros call. */
bool check_true(bool held, const char *text, const char *file, int line);
bool check_message(bool held, const char *text, const char *file, int line, const char *format, ...)
    CHECK_PRINTF(5, 6);
bool check_int(intmax_t a, intmax_t b, const char *a_text, const char *b_text, const char *file,
               int line);
bool check_string(const char *a, const char *b, const char *a_text, const char *b_text,
                  const char *file, int line);
bool check_near(double a, double b, double tolerance, const char *a_text, const char *b_text,
                const char *file, int line);
bool check_status(int got, int wanted, const char *text, const char *wanted_text,
                  const char *(*last_error)(void), const char *file, int line);
bool check_guards(const void *buffer, const char *text, const char *file, int line);
bool check_free(void *buffer, const char *text, const char *file, int line);
void check_skip(const char *reason);

#endif
