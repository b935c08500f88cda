/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of problems, the text writer, numbers in text, messages. */
// labels: valgrind
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "problem.h"
#include "scan.h"
#include "status.h"
#include "text.h"
#include "upconv/upconv.h"

static bool says(const char *part) { return strstr(upconv_last_error(), part) != NULL; }

/* ---- text ---- */

static void prints_canonically(void) {
  static const struct {
    const char *text, *printed;
  } cases[] = {
      {"n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 d1 p1x2x3 pe1x2x3 op1 bias x=f16 w=f16 y=f32 "
       "math=tf32 xlayout=ndhwc ylayout=ndhwc",
       "n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1 bias x=f16 w=f16 math=tf32 layout=ndhwc"},
      {" \t k3x3\n in4x4\rco2  ci1 ", "ci1 co2 in4x4 k3"},
      {"ci1 co1 in4x5 k3x3 s2x2 d1x2 p1x1 pe2x1", "ci1 co1 in4x5 k3 s2 d1x2 p1 pe2x1"},
      {"ci1 co1 in4 k1 pe-2", "ci1 co1 in4 k1 pe-2"},
      {"ci1 co1 in4 k1 p-1 pe0", "ci1 co1 in4 k1 p-1 pe0"},
      {"ci1 co1 in4 k1 dtype=bf16", "ci1 co1 in4 k1 dtype=bf16"},
      {"ci1 co1 in4 k1 y=f32 dtype=f16", "ci1 co1 in4 k1 x=f16 w=f16"},
      {"ci1 co1 in4 k1 x=f32 y=bf16 w=f32", "ci1 co1 in4 k1 y=bf16"},
      {"ci1 co1 in4 k1 layout=ndhwc xlayout=ncdhw", "ci1 co1 in4 k1 ylayout=ndhwc"},
      {"n0 ci1 co1 in0 k1 s1 op0 math=ieee", "n0 ci1 co1 in0 k1"},
      {"n0 ci1 co1 in2 k1|", "n0 ci1 co1 in2 k1"},
      {"ci1 co1 in2 k1 | relu", "ci1 co1 in2 k1"},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem *problem = NULL;
    char printed[256];
    size_t length;
    check_context("%s", cases[n].text);
    if (!CHECK_STATUS(upconv_problem_parse(cases[n].text, &problem, NULL), UPCONV_OK)) continue;
    CHECK_STATUS(upconv_problem_print(problem, NULL, printed, sizeof printed, &length), UPCONV_OK);
    CHECK_STR(printed, cases[n].printed);
    CHECK_INT(length, strlen(printed));
    upconv_problem_destroy(problem);
  }
}

static upconv_problem_desc random_desc(uint64_t *seed) {
  upconv_problem_desc d;
  upconv_problem_desc_init(&d, (int)check_random_range(seed, 1, 3));
  d.batch = check_random_range(seed, 0, 3);
  d.groups = check_random_range(seed, 1, 3);
  d.in_channels = d.groups * check_random_range(seed, 1, 3);
  d.out_channels = d.groups * check_random_range(seed, 1, 3);
  for (int i = 0; i < d.spatial_dims; i++) {
    d.in_size[i] = check_random_range(seed, 4, 13);
    d.kernel[i] = check_random_range(seed, 1, 4);
    d.stride[i] = check_random_range(seed, 1, 4);
    d.dilation[i] = check_random_range(seed, 1, 4);
    d.pad_begin[i] = check_random_range(seed, -1, 1);
    d.pad_end[i] = check_random_range(seed, -1, 1);
    d.output_padding[i] = check_random_range(seed, 0, d.stride[i] - 1);
  }
  d.bias = check_random_range(seed, 0, 1);
  d.x_dtype = (upconv_dtype)check_random_range(seed, 0, 2);
  d.w_dtype = (upconv_dtype)check_random_range(seed, 0, 2);
  d.y_dtype = (upconv_dtype)check_random_range(seed, 0, 2);
  d.x_layout = (upconv_layout)check_random_range(seed, 0, 1);
  d.y_layout = (upconv_layout)check_random_range(seed, 0, 1);
  d.math = (upconv_math)check_random_range(seed, 0, 1);
  return d;
}

static bool same_desc(const upconv_problem_desc *a, const upconv_problem_desc *b) {
  const int64_t *const of_a[] = {a->in_size,   a->kernel,  a->stride,        a->dilation,
                                 a->pad_begin, a->pad_end, a->output_padding};
  const int64_t *const of_b[] = {b->in_size,   b->kernel,  b->stride,        b->dilation,
                                 b->pad_begin, b->pad_end, b->output_padding};
  bool same = a->spatial_dims == b->spatial_dims && a->batch == b->batch &&
              a->in_channels == b->in_channels && a->out_channels == b->out_channels &&
              a->groups == b->groups && a->bias == b->bias && a->x_dtype == b->x_dtype &&
              a->w_dtype == b->w_dtype && a->y_dtype == b->y_dtype && a->x_layout == b->x_layout &&
              a->y_layout == b->y_layout && a->math == b->math;
  for (size_t f = 0; f < CHECK_COUNT(of_a); f++)
    for (int i = 0; i < a->spatial_dims; i++) same = same && of_a[f][i] == of_b[f][i];
  return same;
}

static void text_round_trips(void) {
  uint64_t seed = 6;
  for (int n = 0; n < 2000; n++) {
    upconv_problem_desc d = random_desc(&seed), back, read;
    upconv_problem *problem = NULL, *again = NULL;
    char text[256], twice[256];
    if (!CHECK_STATUS(upconv_problem_create(&d, &problem), UPCONV_OK)) continue;
    CHECK_STATUS(upconv_problem_get_desc(problem, &back), UPCONV_OK);
    CHECK(same_desc(&d, &back));
    CHECK_STATUS(upconv_problem_print(problem, NULL, text, sizeof text, NULL), UPCONV_OK);
    check_context("%s", text);
    if (CHECK_STATUS(upconv_problem_parse(text, &again, NULL), UPCONV_OK)) {
      CHECK_STATUS(upconv_problem_get_desc(again, &read), UPCONV_OK);
      CHECK(same_desc(&d, &read));
      CHECK_STATUS(upconv_problem_print(again, NULL, twice, sizeof twice, NULL), UPCONV_OK);
      CHECK_STR(text, twice);
    }
    upconv_problem_destroy(problem);
    upconv_problem_destroy(again);
  }
}

static void refuses_bad_text(void) {
  static const struct {
    const char *text, *part, *other;
  } cases[] = {
      {"", "column 1", "'ci' is missing"},
      {"ci1 in3 k1", "column 11", "'co' is missing"},
      {"ci1 co1 k1", "", "'in' is missing"},
      {"ci1 co1 in3", "", "'k' is missing"},
      {"ci1 co1 in3 k1 z4", "column 16, 'z4'", "no such field"},
      {"ci1 co1 in3 k1 sx", "column 16, 'sx'", "no such field"},
      {"ci1 co1 in3 k1 s", "column 16, 's'", "'s' must be followed by"},
      {"ci1 co1 in3 k1 s2x", "column 16, 's2x'", "3x5x7"},
      {"ci1 co1 in3 k1 s2.5", "'s2.5'", "3x5x7"},
      {"ci1 co1 in3 k1 s+2", "'s+2'", "3x5x7"},
      {"ci1 co1 in3 k1x", "'k1x'", "3x5x7"},
      {"ci1 co1 in3x3x3x3 k1", "'in3x3x3x3'", "up to three"},
      {"ci1 co1 in3x3 k1x2x3", "'k1x2x3'", "3 numbers, but 'in' has 2"},
      {"ci1x2 co1 in3 k1", "'ci1x2'", "an integer"},
      {"ci9223372036854775808 co1 in3 k1", "'ci9223372036854775808'", "an integer of 64 bits"},
      {"ci1 co1 in3 k1 ci1", "column 16", "'ci' is given twice"},
      {"ci1 co1 in3 k1 bias1", "'bias1'", "nothing"},
      {"ci1 co1 in3 k1 x=f64", "'x=f64'", "=f32, =f16 or =bf16"},
      {"ci1 co1 in3 k1 x=f16x", "'x=f16x'", "=f32, =f16 or =bf16"},
      {"ci1 co1 in3 k1 layout=nchw", "'layout=nchw'", "=ncdhw or =ndhwc"},
      {"ci1 co1 in3 k1 math=fast", "'math=fast'", "=ieee or =tf32"},
      {"ci1 co1 in3 k1 | | relu", "column 18, '|'", "expected an operator"},
      {"ci1 co1 in3 k1 | nope", "column 18, 'nope'", "expected an operator"},
      {"ci1 co1 in3 k1 s0", "stride along width is 0", "1 to"},
  };
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    upconv_problem *problem = NULL;
    upconv_epilogue *epilogue = NULL;
    check_context("%s", cases[n].text);
    CHECK_STATUS(upconv_problem_parse(cases[n].text, &problem, &epilogue), UPCONV_INVALID_ARGUMENT);
    CHECK_MSG(says(cases[n].part) && says(cases[n].other), "%s", upconv_last_error());
    CHECK(!problem && !epilogue);
  }
}

static void bounds_the_text(void) {
  char *text = malloc(UC_MAX_TEXT + 2);
  if (!CHECK(text != NULL)) return;
  memset(text, ' ', UC_MAX_TEXT + 1);
  memcpy(text, "ci1 co1 in3 k1", 14);
  text[UC_MAX_TEXT + 1] = '\0';
  upconv_problem *problem = NULL;
  CHECK_STATUS(upconv_problem_parse(text, &problem, NULL), UPCONV_INVALID_ARGUMENT);
  text[UC_MAX_TEXT] = '\0';
  CHECK_STATUS(upconv_problem_parse(text, &problem, NULL), UPCONV_OK);
  upconv_problem_destroy(problem);
  free(text);
  CHECK_STATUS(upconv_problem_parse(NULL, &problem, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_problem_parse("ci1 co1 in3 k1", NULL, NULL), UPCONV_INVALID_ARGUMENT);
}

static void prints_with_the_epilogue(void) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  char *text = check_alloc(64, 0);
  size_t length = 0;
  CHECK_STATUS(upconv_problem_parse("ci1 co1 in3 k1|relu|neg", &problem, &epilogue), UPCONV_OK);
  CHECK_INT(upconv_epilogue_op_count(epilogue), 2);
  CHECK_STATUS(upconv_problem_print(problem, epilogue, text, 64, &length), UPCONV_OK);
  CHECK_STR(text, "ci1 co1 in3 k1 | relu | neg");
  CHECK_INT(length, 27);
  /* Too little room: cut, with a terminating 0, and the full length all the same. */
  check_poison(text, 64);
  CHECK_STATUS(upconv_problem_print(problem, epilogue, text, 8, &length), UPCONV_OK);
  CHECK_STR(text, "ci1 co1");
  CHECK_INT(length, 27);
  CHECK(check_is_poison(text + 8, 56));
  CHECK_STATUS(upconv_problem_print(problem, epilogue, NULL, 0, &length), UPCONV_OK);
  CHECK_INT(length, 27);
  CHECK_STATUS(upconv_problem_print(problem, epilogue, NULL, 5, NULL), UPCONV_INVALID_ARGUMENT);
  CHECK_FREE(text);
  upconv_problem_destroy(problem);
  upconv_epilogue_destroy(epilogue);
}

/* ---- numbers ---- */

static void print_double(double value, char *buffer, size_t capacity) {
  uc_text text;
  uc_text_init(&text, buffer, capacity);
  uc_text_add_double(&text, value);
  CHECK_INT(text.length, strlen(buffer));
}

static bool read_double(const char *text, double *value) {
  return uc_token_double((uc_token){text, strlen(text)}, value);
}

static void prints_short_numbers(void) {
  static const struct {
    double value;
    const char *printed;
  } cases[] = {{0, "0"},
               {-0.0, "-0"},
               {0.2, "0.2"},
               {-2.5, "-2.5"},
               {100, "100"},
               {123456789, "123456789"},
               {1e15, "1000000000000000"},
               {1e16, "1e+16"},
               {1e-4, "0.0001"},
               {1e-5, "1e-05"},
               {1.25e-7, "1.25e-07"},
               {0.1 + 0.2, "0.30000000000000004"},
               {1.0 / 3, "0.3333333333333333"},
               {5e-324, "5e-324"},
               {1.7976931348623157e308, "1.7976931348623157e+308"},
               {(double)INFINITY, "inf"},
               {-(double)INFINITY, "-inf"}};
  char buffer[64];
  for (size_t n = 0; n < CHECK_COUNT(cases); n++) {
    print_double(cases[n].value, buffer, sizeof buffer);
    CHECK_STR(buffer, cases[n].printed);
  }
}

static void round_trip_numbers(int count, uint64_t seed) {
  char buffer[64], shorter[64];
  for (int n = 0; n < count; n++) {
    uint64_t bits = check_random(&seed);
    double value, back = 0;
    memcpy(&value, &bits, sizeof value);
    if (n % 2) value = (double)check_random_range(&seed, -99999, 99999) / 1000;
    if (isnan(value)) continue;
    print_double(value, buffer, sizeof buffer);
    CHECK_MSG(read_double(buffer, &back) && memcmp(&value, &back, sizeof back) == 0, "%a as %s",
              value, buffer);
    CHECK(!strchr(buffer, ','));
    /* One digit less would be another number. */
    size_t digits = 0;
    for (const char *p = buffer; *p && *p != 'e'; p++) digits += *p >= '0' && *p <= '9';
    if (digits < 2 || n % 2) continue;
    snprintf(shorter, sizeof shorter, "%.*e", (int)digits - 2, value);
    CHECK_MSG(strtod(shorter, NULL) != value || buffer[0] == '0' || buffer[1] == '0' ||
                  value == floor(value),
              "%s could be %s", buffer, shorter);
  }
}

static void numbers_round_trip(void) { round_trip_numbers(20000, 7); }

static void reads_numbers_strictly(void) {
  static const char *const bad[] = {"",
                                    "-",
                                    ".",
                                    "e5",
                                    "1e",
                                    "1e+",
                                    "1e+-5",
                                    "1.5x",
                                    "0x10",
                                    "1 ",
                                    "nan",
                                    "--1",
                                    "1..2",
                                    "infinity",
                                    "1e999",
                                    "-1e999",
                                    "1e-999",
                                    "1,5",
                                    "1e99999999999999999999",
                                    "0e1000000",
                                    "0.5e-9223372036854775808"};
  static const struct {
    const char *text;
    double value;
  } good[] = {{"1", 1},
              {"+1", 1},
              {"-.5", -0.5},
              {"5.", 5},
              {"1E3", 1000},
              {"1e+3", 1000},
              {"25e-2", .25},
              {"0e999", 0},
              {"00012", 12},
              {"inf", (double)INFINITY},
              {"-inf", -(double)INFINITY},
              {"1e-320", 1e-320},
              {"0.000000000000000000001", 1e-21}};
  double value = 42;
  int64_t whole = 42;
  for (size_t i = 0; i < CHECK_COUNT(bad); i++) {
    CHECK_MSG(!read_double(bad[i], &value), "'%s' was read", bad[i]);
    CHECK(value == 42);
  }
  for (size_t i = 0; i < CHECK_COUNT(good); i++) {
    CHECK_MSG(read_double(good[i].text, &value) && value == good[i].value, "'%s' is %g",
              good[i].text, value);
  }
  char longest[256] = "0.";
  memset(longest + 2, '1', 253);
  CHECK(!read_double(longest, &value));
  CHECK(uc_token_int((uc_token){"-9223372036854775808", 20}, &whole) && whole == INT64_MIN);
  CHECK(uc_token_int((uc_token){"9223372036854775807", 19}, &whole) && whole == INT64_MAX);
  CHECK(!uc_token_int((uc_token){"9223372036854775808", 19}, &whole));
  CHECK(!uc_token_int((uc_token){"-9223372036854775809", 20}, &whole));
  CHECK(!uc_token_int((uc_token){"-", 1}, &whole));
}

/* Makes a German locale in a new folder, if the machine has the sources of one, and chooses it. */
static bool make_locale(char *folder) {
  char command[256];
  if (!mkdtemp(folder)) return false;
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
           folder);
  return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
         setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
}

static void remove_locale(const char *folder) {
  char command[256];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK_INT(system(command), 0);
  unsetenv("LOCPATH");
}

/* The same where the decimal point is a comma. */
static void numbers_ignore_the_locale(void) {
  char folder[] = "/tmp/upconv-locale-XXXXXX", comma[8];
  bool installed = setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
  if (installed || make_locale(folder)) {
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK_STR(comma, "0,5");
    prints_short_numbers();
    round_trip_numbers(2000, 8);
    reads_numbers_strictly();
    setlocale(LC_NUMERIC, "C");
  } else {
    check_skip("no locale with a decimal comma, and none could be made");
  }
  if (!installed) remove_locale(folder);
}

/* ---- errors ---- */

static void messages_are_one_line(void) {
  CHECK_STATUS(uc_fail(UPCONV_OVERFLOW, "a\nb\tc %d", 5), UPCONV_OVERFLOW);
  CHECK_STR(upconv_last_error(), "a?b?c 5");
  CHECK_STATUS(uc_fail_in(UPCONV_OVERFLOW, "in %s", "here"), UPCONV_OVERFLOW);
  CHECK_STR(upconv_last_error(), "in here: a?b?c 5");
  uc_fail(UPCONV_OVERFLOW, "<%s>", upconv_last_error());
  CHECK_STR(upconv_last_error(), "<in here: a?b?c 5>");
  char huge[5000];
  memset(huge, 'x', sizeof huge - 1);
  huge[sizeof huge - 1] = '\0';
  uc_fail(UPCONV_OVERFLOW, "%s", huge);
  uc_fail_in(UPCONV_OVERFLOW, "%s", huge);
  CHECK(strlen(upconv_last_error()) > 100 && strlen(upconv_last_error()) < sizeof huge);
  CHECK_STR(upconv_status_string(UPCONV_OK), "ok");
  CHECK_STR(upconv_status_string(UPCONV_INVALID_ARGUMENT), "invalid argument");
  CHECK(upconv_status_string((upconv_status)99) != NULL);
  CHECK(upconv_version()[0] >= '0' && upconv_version()[0] <= '9');
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"prints_canonically", prints_canonically},
      {"text_round_trips", text_round_trips},
      {"refuses_bad_text", refuses_bad_text},
      {"bounds_the_text", bounds_the_text},
      {"prints_with_the_epilogue", prints_with_the_epilogue},
      {"prints_short_numbers", prints_short_numbers},
      {"numbers_round_trip", numbers_round_trip},
      {"numbers_ignore_the_locale", numbers_ignore_the_locale},
      {"reads_numbers_strictly", reads_numbers_strictly},
      {"messages_are_one_line", messages_are_one_line},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
