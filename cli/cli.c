/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "progress.h"
#include "upconv/upconv.h"

/* A file name or a model's text may hold anything, but an error stays one printable line. */
static void make_one_line(char *text) {
  for (char *c = text; *c; c++) {
    unsigned char u = (unsigned char)*c;
    if (u == '\n' || u == '\r' || u == '\t')
      *c = ' ';
    else if (u < 0x20 || u == 0x7F)
      *c = '?';
  }
}

static void print_error(const char *format, va_list values) {
  char text[2048];
  vsnprintf(text, sizeof text, format, values);
  make_one_line(text);
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
