/* SPDX-License-Identifier: Apache-2.0 */
/* What args.h prints: the help of a command, and suggestions for mistyped words. */
#include <stdio.h>
#include <string.h>

#include "args.h"

enum { WIDTH = 79, HELP_COLUMN = 24 };

void args_print_wrapped(const char *text, int indent, int column) {
  bool line_has_word = false;
  while (*text) {
    size_t length = strcspn(text, " \n");
    if (line_has_word && column + 1 + (int)length > WIDTH) {
      printf("\n%*s", indent, "");
      column = indent;
      line_has_word = false;
    }
    if (line_has_word) putchar(' ');
    printf("%.*s", (int)length, text);
    column += (int)length + line_has_word;
    line_has_word = true;
    text += length;
    if (*text == '\n') {
      printf("\n%*s", text[1] ? indent : 0, "");
      column = indent;
      line_has_word = false;
    }
    if (*text) text++;
  }
  putchar('\n');
}

static void print_option(const char *name, const char *value, const char *help) {
  char left[96];
  snprintf(left, sizeof left, "  --%s%s%s", name, value ? " " : "", value ? value : "");
  printf("%-*s", HELP_COLUMN, left);
  if (strlen(left) >= HELP_COLUMN) printf("\n%*s", HELP_COLUMN, "");
  args_print_wrapped(help, HELP_COLUMN, HELP_COLUMN);
}

void args_print_help(const arg_command *command) {
  const char *lead = "usage: ";
  const char *form = command->usage;
  do {
    size_t length = strcspn(form, "\n");
    printf("%supconv %s%s%.*s\n", lead, command->name, length ? " " : "", (int)length, form);
    lead = "       ";
    form += length + (form[length] == '\n');
  } while (*form);
  printf("\n");
  args_print_wrapped(command->summary, 0, 0);
  if (command->details) {
    printf("\n");
    args_print_wrapped(command->details, 0, 0);
  }
  printf("\noptions:\n");
  for (int i = 0; i < command->option_count; i++)
    print_option(command->options[i].name, command->options[i].value, command->options[i].help);
  print_option("help", NULL, "prints this");
  if (command->examples) printf("\nexamples:\n%s", command->examples);
}

/* Optimal string alignment distance: insertions, deletions, substitutions, and swaps of neighbours. */
static int edit_distance(const char *a, const char *b) {
  enum { MAX = 32 };
  int rows = (int)strlen(a), columns = (int)strlen(b);
  if (rows > MAX || columns > MAX) return MAX;
  int d[MAX + 1][MAX + 1];
  for (int i = 0; i <= rows; i++) d[i][0] = i;
  for (int j = 0; j <= columns; j++) d[0][j] = j;
  for (int i = 1; i <= rows; i++) {
    for (int j = 1; j <= columns; j++) {
      int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
      if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
      d[i][j] = best;
    }
  }
  return d[rows][columns];
}

const char *args_suggest(const char *word, const char *const *names) {
  const char *nearest = NULL;
  int limit = strlen(word) < 4 ? 1 : 2; /* farther away it is no slip of the fingers */
  for (; *names; names++) {
    int distance = edit_distance(word, *names);
    bool begins = strlen(word) >= 3 && strncmp(word, *names, strlen(word)) == 0;
    if (begins && distance > 1) distance = 1;
    if (distance > limit) continue;
    nearest = *names;
    limit = distance - 1;
  }
  return nearest;
}
