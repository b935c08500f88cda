/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *units_number(double value, char text[UNITS_SIZE]) {
  double size = fabs(value);
  int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  if (size > 0 && (size < 0.0995 || size >= 1e6))
    snprintf(text, UNITS_SIZE, "%.2g", value);
  else
    snprintf(text, UNITS_SIZE, "%.*f", decimals, value);
  return text;
}

static const char *with_unit(double value, const char *unit, char text[UNITS_SIZE]) {
  char number[UNITS_SIZE];
  snprintf(text, UNITS_SIZE, "%.12s %.9s", units_number(value, number), unit);
  return text;
}

const char *units_seconds(double seconds, char text[UNITS_SIZE]) {
  if (seconds < 999.5e-6) return with_unit(seconds * 1e6, "us", text);
  if (seconds < 0.9995) return with_unit(seconds * 1e3, "ms", text);
  return with_unit(seconds, "s", text);
}

/* Scales by powers of 1000. */
static const char *with_prefix(double value, const char *unit, char text[UNITS_SIZE]) {
  static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
  int i = 0;
  for (; fabs(value) >= 999.5 && i < 5; i++) value /= 1000;
  char prefixed[UNITS_SIZE];
  snprintf(prefixed, sizeof prefixed, "%s%.8s", prefixes[i], unit);
  return with_unit(value, prefixed, text);
}

const char *units_bytes(double bytes, char text[UNITS_SIZE]) {
  return with_prefix(bytes, "B", text);
}

const char *units_rate(double per_second, const char *unit, char text[UNITS_SIZE]) {
  return with_prefix(per_second, unit, text);
}

const char *units_shape(int rank, const int64_t *shape, char text[UNITS_SHAPE_SIZE]) {
  size_t length = 0;
  length += (size_t)snprintf(text, UNITS_SHAPE_SIZE, "[");
  for (int i = 0; i < rank && length + 24 < UNITS_SHAPE_SIZE; i++)
    length += (size_t)snprintf(text + length, UNITS_SHAPE_SIZE - length, "%s%" PRId64,
                               i ? ", " : "", shape[i]);
  snprintf(text + length, UNITS_SHAPE_SIZE - length, "]");
  return text;
}
