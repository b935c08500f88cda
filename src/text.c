/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void uc_text_init(uc_text *text, char *buffer, size_t capacity) {
  text->buffer = buffer;
  text->capacity = capacity;
  text->length = 0;
  if (capacity) buffer[0] = '\0';
}

void uc_text_add(uc_text *text, const char *format, ...) {
  bool room = text->length < text->capacity;
  char *end = room ? text->buffer + text->length : NULL;
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(end, room ? text->capacity - text->length : 0, format, arguments);
  va_end(arguments);
  if (n > 0) text->length += (size_t)n;
}

/* Significant decimal digits and the power of ten of the first one: 0.25 is "25", -1. */
typedef struct decimal {
  char digit[32];
  int count;
  int exponent;
} decimal;

/*
 * The digits of a finite value > 0, rounded to count of them. printf's decimal point depends on the
 * locale, so it is skipped, whatever it is; and strtod is given none when the digits are read back.
 */
static decimal to_decimal(double value, int count) {
  char buffer[64];
  snprintf(buffer, sizeof buffer, "%.*e", count - 1, value);
  decimal d = {.count = 0, .exponent = 0};
  const char *p = buffer;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') d.digit[d.count++] = *p;
  d.digit[d.count] = '\0';
  if (*p == 'e') d.exponent = atoi(p + 1);
  return d;
}

static double from_decimal(const decimal *d) {
  char buffer[64];
  snprintf(buffer, sizeof buffer, "%se%d", d->digit, d->exponent - (d->count - 1));
  return strtod(buffer, NULL);
}

static decimal shortest(double value) {
  enum { ALWAYS_ENOUGH = 17 };
  decimal d = to_decimal(value, 1);
  for (int count = 2; count <= ALWAYS_ENOUGH && from_decimal(&d) != value; count++)
    d = to_decimal(value, count);
  return d;
}

static void add_fixed(uc_text *text, const decimal *d) {
  if (d->exponent < 0) {
    uc_text_add(text, "0.%.*s%s", -d->exponent - 1, "000", d->digit);
  } else if (d->count <= d->exponent + 1) {
    uc_text_add(text, "%s%.*s", d->digit, d->exponent + 1 - d->count, "0000000000000000");
  } else {
    uc_text_add(text, "%.*s.%s", d->exponent + 1, d->digit, d->digit + d->exponent + 1);
  }
}

static void add_scientific(uc_text *text, const decimal *d) {
  uc_text_add(text, "%c%s%se%c%02d", d->digit[0], d->count > 1 ? "." : "", d->digit + 1,
              d->exponent < 0 ? '-' : '+', abs(d->exponent));
}

void uc_text_add_double(uc_text *text, double value) {
  enum { LOWEST_FIXED = -4, HIGHEST_FIXED = 15 };
  if (isnan(value)) {
    uc_text_add(text, "nan");
    return;
  }
  if (signbit(value)) uc_text_add(text, "-");
  value = fabs(value);
  if (isinf(value)) {
    uc_text_add(text, "inf");
  } else if (value == 0) {
    uc_text_add(text, "0");
  } else {
    decimal d = shortest(value);
    if (d.exponent < LOWEST_FIXED || d.exponent > HIGHEST_FIXED)
      add_scientific(text, &d);
    else
      add_fixed(text, &d);
  }
}

/* ---- sizes ---- */

static bool all_are(const int64_t *value, int count, int64_t wanted) {
  for (int i = 0; i < count; i++)
    if (value[i] != wanted) return false;
  return true;
}

void uc_text_add_sizes(uc_text *text, const int64_t *value, int count) {
  int shown = all_are(value, count, value[0]) ? 1 : count;
  for (int i = 0; i < shown; i++) uc_text_add(text, "%s%lld", i ? "x" : "", (long long)value[i]);
}

void uc_text_add_padding(uc_text *text, const int64_t *begin, const int64_t *end, int count) {
  bool differ = false;
  for (int i = 0; i < count; i++) differ = differ || begin[i] != end[i];
  if (!all_are(begin, count, 0)) {
    uc_text_add(text, " p");
    uc_text_add_sizes(text, begin, count);
  }
  if (differ) {
    uc_text_add(text, " pe");
    uc_text_add_sizes(text, end, count);
  }
}
