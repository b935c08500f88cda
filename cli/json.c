/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <inttypes.h>
#include <math.h>

static void put_text(FILE *file, const char *text) {
  putc('"', file);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(file, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7F)
      fprintf(file, "\\u%04x", *c);
    else
      putc(*c, file);
  }
  putc('"', file);
}

/* The comma behind the item before, a new line, and the key. */
static void begin_item(json_writer *json, const char *key) {
  if (json->has_items) putc(',', json->file);
  if (json->depth) fprintf(json->file, "\n%*s", 2 * json->depth, "");
  json->has_items = true;
  if (!key) return;
  put_text(json->file, key);
  fputs(": ", json->file);
}

void json_open(json_writer *json, const char *key, char bracket) {
  begin_item(json, key);
  putc(bracket, json->file);
  json->depth++;
  json->has_items = false;
}

void json_close(json_writer *json, char bracket) {
  json->depth--;
  if (json->has_items) fprintf(json->file, "\n%*s", 2 * json->depth, "");
  putc(bracket, json->file);
  json->has_items = true;
  if (json->depth == 0) putc('\n', json->file);
}

void json_string(json_writer *json, const char *key, const char *value) {
  begin_item(json, key);
  put_text(json->file, value);
}

void json_number(json_writer *json, const char *key, double value) {
  begin_item(json, key);
  if (isfinite(value))
    fprintf(json->file, "%.9g", value);
  else
    fputs("null", json->file);
}

void json_integer(json_writer *json, const char *key, int64_t value) {
  begin_item(json, key);
  fprintf(json->file, "%" PRId64, value);
}

void json_bool(json_writer *json, const char *key, bool value) {
  begin_item(json, key);
  fputs(value ? "true" : "false", json->file);
}
