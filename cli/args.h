/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines. A command declares its options in a table, from which they are parsed and --help is printed. Values go
 * into a struct of the command's own, at the offsets that the table names.
 *
 * Long options only, as --name VALUE or --name=VALUE, anywhere among the other arguments; "--" ends them. An option
 * given twice counts the last time, except that lists collect.
 */
#ifndef UPCONV_CLI_ARGS_H
#define UPCONV_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum arg_kind {
  ARG_FLAG,   /* bool */
  ARG_TEXT,   /* const char * */
  ARG_CHOICE, /* int: which of the words of `value`, as in "ieee|tf32" */
  ARG_COUNT,  /* int in [min, max] */
  ARG_LIST,   /* arg_list: each time it is given adds one */
} arg_kind;

typedef struct arg_list {
  int count;
  const char **item;
} arg_list;

typedef struct arg_option {
  const char *name; /* without the dashes */
  arg_kind kind;
  const char *value; /* what --help calls the value: "FILE"; NULL for a flag */
  size_t offset;     /* in the command's struct */
  int min, max;      /* ARG_COUNT */
  const char *help;
} arg_option;

typedef struct arg_command {
  const char *name;
  const char *summary; /* one line, for the list of commands */
  const char *usage;   /* what follows "upconv NAME"; further lines are further forms */
  const char *details; /* paragraphs, wrapped when printed */
  const char *examples;
  const arg_option *options;
  int option_count;
  size_t values_size; /* of the command's struct */
  size_t positionals; /* offset of the arg_list of arguments that are no options */
  int min_positionals, max_positionals; /* max -1: any number */
  const char *positional;               /* what they are, for errors: "model" */
  /* values: the command's struct; members that were not given are zero. */
  int (*run)(const void *values);
} arg_command;

/* Parses, then runs the command or prints its help. Returns the exit code. */
int args_run(const arg_command *command, int argc, char **argv);

void args_print_help(const arg_command *command);

/* Prints text, indented, in lines of at most 79 characters. The first line starts at `column`, where the cursor is. */
void args_print_wrapped(const char *text, int indent, int column);

/* The name nearest to `word` that a typing mistake could explain, or NULL. names ends with NULL. */
const char *args_suggest(const char *word, const char *const *names);

/* A value of the form NAME=VALUE: the part behind the first '=', or NULL. *length receives the length of NAME. */
const char *args_split(const char *text, size_t *length);

#endif
