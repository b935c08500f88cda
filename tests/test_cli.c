/* SPDX-License-Identifier: Apache-2.0
 * labels: valgrind
 */
/* The parts of the program that need no process of their own: numbers, statistics, suggestions, JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "check.h"
#include "cli.h"
#include "json.h"
#include "timing.h"
#include "units.h"
#include "upconv/upconv.h"

static void prints_numbers(void) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {
      {0, "0.00"},     {1, "1.00"},    {9.994, "9.99"}, {9.996, "10.0"},   {99.94, "99.9"},
      {99.96, "100"},  {1234, "1234"}, {0.1, "0.10"},   {0.05, "0.05"},    {0.00123, "0.0012"},
      {1e-7, "1e-07"}, {2e6, "2e+06"}, {-3.5, "-3.50"}, {INFINITY, "inf"},
  };
  char text[UNITS_SIZE];
  for (size_t i = 0; i < CHECK_COUNT(cases); i++)
    CHECK_STR(units_number(cases[i].value, text), cases[i].text);
}

static void prints_units(void) {
  char text[UNITS_SIZE], shape[UNITS_SHAPE_SIZE];
  CHECK_STR(units_seconds(12.34e-3, text), "12.3 ms");
  CHECK_STR(units_seconds(999.4e-6, text), "999 us");
  CHECK_STR(units_seconds(999.6e-6, text), "1.00 ms");
  CHECK_STR(units_seconds(0.9996, text), "1.00 s");
  CHECK_STR(units_bytes(127.5e6, text), "128 MB");
  CHECK_STR(units_bytes(12, text), "12.0 B");
  CHECK_STR(units_rate(2.345e11, "FLOP/s", text), "234 GFLOP/s");
  CHECK_STR(units_rate(999.6e9, "B/s", text), "1.00 TB/s");
  CHECK_STR(units_shape(0, NULL, shape), "[]");
  CHECK_STR(units_shape(3, (const int64_t[]){1, 0, INT64_MAX}, shape),
            "[1, 0, 9223372036854775807]");
}

static void summarises_samples(void) {
  double five[] = {5, 1, 3, 2, 4};
  timing_stats stats = timing_summarise(five, 5);
  CHECK_INT(stats.runs, 5);
  CHECK_NEAR(stats.median, 3, 0);
  CHECK_NEAR(stats.fastest, 1, 0);
  CHECK_NEAR(stats.slowest, 5, 0);
  CHECK_NEAR(stats.spread, 1.0 / 3, 1e-15); /* quartiles 2 and 4 */
  double two[] = {4, 2};
  CHECK_NEAR(timing_summarise(two, 2).median, 3, 0);
  double one[] = {7};
  stats = timing_summarise(one, 1);
  CHECK_NEAR(stats.median, 7, 0);
  CHECK_NEAR(stats.spread, 0, 0);
}

typedef struct counter {
  int calls, give_up;
} counter;

static bool count_call(void *data) {
  counter *c = data;
  return ++c->calls != c->give_up;
}

static void measures_the_runs_that_were_asked_for(void) {
  counter c = {0, -1};
  timing_stats stats;
  timing_options options = {.repeat = 5, .label = "counting"};
  CHECK(timing_measure(count_call, &c, &options, &stats));
  CHECK_INT(stats.runs, 5);
  CHECK(c.calls > 5); /* warmed up */
  counter failing = {0, 1};
  CHECK(!timing_measure(count_call, &failing, &options, &stats));
  CHECK_INT(failing.calls, 1);
}

static void probes_the_machine(void) {
  if (getenv("UPCONV_LAUNCHER")) CHECK_SKIP("an emulated machine is slower than any");
  double one = probe_fma_one_thread();
  CHECK_MSG(one > 1e8 && one < 1e13, "%g FLOP/s", one);
}

static void suggests_what_was_meant(void) {
  static const char *const names[] = {"run",  "test",    "plan",    "bench",
                                      "demo", "devices", "version", NULL};
  CHECK_STR(args_suggest("bnech", names), "bench");
  CHECK_STR(args_suggest("benchh", names), "bench");
  CHECK_STR(args_suggest("dev", names), "devices");
  CHECK_STR(args_suggest("rnu", names), "run");
  CHECK_STR(args_suggest("tests", names), "test");
  CHECK_STR(args_suggest("frobnicate", names), NULL);
  CHECK_STR(args_suggest("", names), NULL);
  CHECK_STR(args_suggest("a-word-far-longer-than-any-command-there-could-be", names), NULL);
}

static void splits_at_the_first_equals(void) {
  size_t length = 0;
  CHECK_STR(args_split("x=a=b.npy", &length), "a=b.npy");
  CHECK_INT(length, 1);
  CHECK_STR(args_split("=", &length), "");
  CHECK_INT(length, 0);
  CHECK_STR(args_split("x.npy", &length), NULL);
}

static void cleans_what_it_prints(void) {
  static const struct {
    const char *from, *to;
  } cases[] = {
      {"plain", "plain"},
      {"two\nlines\t.", "two lines ."},
      {"\x1b[31mred\x7f", "?[31mred?"},
      {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"},
      {"cut \xE2\x82", "cut ??"},
      {"\xC0\x80\xED\xA0\x80", "?????"}, /* an overlong zero, a surrogate */
      {"\xC2\x9B", "??"},                /* a terminal's escape as one character */
      {"\xFF\xF5", "??"},
  };
  char text[64];
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    snprintf(text, sizeof text, "%s", cases[i].from);
    cli_clean(text, false);
    CHECK_STR(text, cases[i].to);
  }
  snprintf(text, sizeof text, "two\nlines\t.");
  cli_clean(text, true);
  CHECK_STR(text, "two\nlines .");
}

static void writes_json(void) {
  char text[512] = "";
  FILE *file = fmemopen(text, sizeof text, "w");
  if (!CHECK(file != NULL)) return;
  json_writer json = {.file = file};
  json_open(&json, NULL, '{');
  json_string(&json, "text", "a \"b\"\\\n\x1b");
  json_number(&json, "nan", NAN);
  json_number(&json, "half", 0.5);
  json_open(&json, "empty", '[');
  json_close(&json, ']');
  json_open(&json, "list", '[');
  json_integer(&json, NULL, INT64_MIN);
  json_bool(&json, NULL, true);
  json_close(&json, ']');
  json_close(&json, '}');
  CHECK_INT(fclose(file), 0);
  CHECK_STR(
      text,
      "{\n  \"text\": \"a \\\"b\\\"\\\\\\u000a\\u001b\",\n  \"nan\": null,\n  \"half\": 0.5,\n"
      "  \"empty\": [],\n  \"list\": [\n    -9223372036854775808,\n    true\n  ]\n}\n");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"prints_numbers", prints_numbers},
      {"prints_units", prints_units},
      {"summarises_samples", summarises_samples},
      {"measures_the_runs_that_were_asked_for", measures_the_runs_that_were_asked_for},
      {"probes_the_machine", probes_the_machine},
      {"suggests_what_was_meant", suggests_what_was_meant},
      {"splits_at_the_first_equals", splits_at_the_first_equals},
      {"cleans_what_it_prints", cleans_what_it_prints},
      {"writes_json", writes_json},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
