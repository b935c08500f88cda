/* SPDX-License-Identifier: Apache-2.0 */
/* A small JSON writer. Numbers that JSON lacks (NaN, infinities) are written as null. */
#ifndef UPCONV_CLI_JSON_H
#define UPCONV_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_writer {
  FILE *file;
  int depth;
  bool has_items; /* in the innermost object or array */
} json_writer;

/* key is NULL inside arrays and at the top. open and close: '{' and '}', or '[' and ']'. */
void json_open(json_writer *json, const char *key, char bracket);
void json_close(json_writer *json, char bracket);
void json_string(json_writer *json, const char *key, const char *value);
void json_number(json_writer *json, const char *key, double value);
void json_integer(json_writer *json, const char *key, int64_t value);
void json_bool(json_writer *json, const char *key, bool value);

#endif
