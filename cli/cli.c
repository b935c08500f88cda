/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "progress.h"
#include "upconv/upconv.h"

/* Bytes of the printable UTF-8 character at text, 0 if there is none: a control character, or not UTF-8 at all. */
static int character_length(const unsigned char *text) {
  static const unsigned least[] = {0, 0, 0xA0, 0x800, 0x10000}; /* 0x80 to 0x9F are controls too */
  unsigned lead = text[0];
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  unsigned code = lead & (0x7Fu >> length);
  for (int i = 1; i < length; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3Fu);
  }
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= least[length] && code <= 0x10FFFF && !surrogate ? length : 0;
}

void cli_clean(char *text, bool keep_lines) {
  for (unsigned char *c = (unsigned char *)text; *c;) {
    int length = character_length(c);
    bool blank = *c == '\n' || *c == '\r' || *c == '\t';
    if (length == 0 && !(keep_lines && *c == '\n')) *c = blank ? ' ' : '?';
    c += length ? length : 1;
  }
}

void cli_print_line(const char *format, ...) {
  char text[2048];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  cli_clean(text, false);
  puts(text);
}

static void print_error(const char *format, va_list values) {
  char text[2048];
  vsnprintf(text, sizeof text, format, values);
  cli_clean(text, false);
  progress_clear();
  fprintf(stderr, "upconv: %s\n", text);
}

int cli_fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  print_error(format, values);
  va_end(values);
  return CLI_BAD;
}

int cli_fail_library(const char *what) { return cli_fail("%s: %s", what, upconv_last_error()); }

int cli_finish(int code) {
  bool lost = ferror(stdout) != 0;
  if (fflush(stdout) == 0 && !lost) return code;
  return cli_fail("standard output: %s", errno ? strerror(errno) : "could not be written");
}

bool cli_error_set(cli_error *error, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error->text, sizeof error->text, format, values);
  va_end(values);
  return false;
}
