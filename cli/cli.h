/* SPDX-License-Identifier: Apache-2.0 */
/* What every command shares: exit codes and errors. */
#ifndef UPCONV_CLI_CLI_H
#define UPCONV_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes. */
enum { CLI_RIGHT = 0, CLI_WRONG = 1, CLI_BAD = 2 };

/* Prints "upconv: ..." on stderr, always one clean line. Returns CLI_BAD, so that a command writes
   `return cli_fail(...)`. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, ending in the library's last error: "what: message". */
int cli_fail_library(const char *what);

/* What strangers' files say may hold anything, but what is printed is printable UTF-8: other bytes become '?', and line ends
   and tabs become blanks, unless line ends are to stay. */
void cli_clean(char *text, bool keep_lines);

/* Prints one clean line on standard output. */
void cli_print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes standard output. Returns code, or CLI_BAD and a message if anything printed was lost. */
int cli_finish(int code);

/* A message that a helper hands back to its caller. */
typedef struct cli_error {
  char text[512];
} cli_error;

/* Stores the message and returns false. */
bool cli_error_set(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
