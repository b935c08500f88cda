/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MAX_OPTIONS = 24 };

static const arg_option *find_option(const arg_command *command, const char *name, size_t length) {
  for (int i = 0; i < command->option_count; i++) {
    const arg_option *option = &command->options[i];
    if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) return option;
  }
  return NULL;
}

static int fail_unknown(const arg_command *command, const char *argument, size_t length) {
  const char *names[MAX_OPTIONS + 2];
  int count = 0;
  for (int i = 0; i < command->option_count && i < MAX_OPTIONS; i++)
    names[count++] = command->options[i].name;
  names[count++] = "help";
  names[count] = NULL;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)length, argument);
  const char *near = args_suggest(name, names);
  if (near)
    return cli_fail("%s: unknown option --%s; did you mean --%s?", command->name, name, near);
  return cli_fail("%s: unknown option --%s; see 'upconv %s --help'", command->name, name,
                  command->name);
}

/* Position of text among the words of "a|b|c", or -1. */
static int find_choice(const char *words, const char *text) {
  size_t length = strlen(text);
  for (int i = 0; *words; i++) {
    size_t word = strcspn(words, "|");
    if (word == length && memcmp(words, text, length) == 0) return i;
    words += word + (words[word] == '|');
  }
  return -1;
}

static bool parse_count(const char *text, int min, int max, int *count) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end || errno || value < min || value > max) return false;
  *count = (int)value;
  return true;
}

static void add_to_list(arg_list *list, const char *text) { list->item[list->count++] = text; }

/* value is NULL for a flag. */
static int store_value(const arg_command *command, const arg_option *option, const char *value,
                       char *values) {
  void *target = values + option->offset;
  switch (option->kind) {
  case ARG_FLAG:
    *(bool *)target = true;
    break;
  case ARG_TEXT:
    *(const char **)target = value;
    break;
  case ARG_LIST:
    add_to_list(target, value);
    break;
  case ARG_CHOICE: {
    int choice = find_choice(option->value, value);
    if (choice < 0)
      return cli_fail("%s: --%s %s: must be one of %s", command->name, option->name, value,
                      option->value);
    *(int *)target = choice;
    break;
  }
  case ARG_COUNT:
    if (!parse_count(value, option->min, option->max, target))
      return cli_fail("%s: --%s %s: must be a whole number from %d to %d", command->name,
                      option->name, value, option->min, option->max);
    break;
  }
  return CLI_RIGHT;
}

/* Reads the option at argv[*index], and its value; *index moves to the last argument read. */
static int read_option(const arg_command *command, int argc, char **argv, int *index,
                       char *values) {
  const char *argument = argv[*index];
  if (argument[1] != '-')
    return cli_fail("%s: unknown option %s; options start with two dashes, see 'upconv %s --help'",
                    command->name, argument, command->name);
  const char *name = argument + 2;
  size_t length = strcspn(name, "=");
  const arg_option *option = find_option(command, name, length);
  if (!option) return fail_unknown(command, name, length);
  const char *value = name[length] ? name + length + 1 : NULL;
  if (option->kind == ARG_FLAG && value)
    return cli_fail("%s: --%s takes no value, not '%s'", command->name, option->name, value);
  if (option->kind != ARG_FLAG && !value) {
    if (*index + 1 >= argc)
      return cli_fail("%s: --%s needs a value: --%s %s", command->name, option->name, option->name,
                      option->value);
    value = argv[++*index];
  }
  return store_value(command, option, value, values);
}

static int parse(const arg_command *command, int argc, char **argv, char *values) {
  arg_list *positionals = (arg_list *)(void *)(values + command->positionals);
  bool options_ended = false;
  for (int i = 0; i < argc; i++) {
    if (!options_ended && strcmp(argv[i], "--") == 0) {
      options_ended = true;
    } else if (!options_ended && argv[i][0] == '-' && argv[i][1]) {
      int code = read_option(command, argc, argv, &i, values);
      if (code) return code;
    } else {
      if (positionals->count == command->max_positionals)
        return cli_fail("%s: unexpected argument '%s'; see 'upconv %s --help'", command->name,
                        argv[i], command->name);
      add_to_list(positionals, argv[i]);
    }
  }
  if (positionals->count < command->min_positionals)
    return cli_fail("%s: no %s given; see 'upconv %s --help'", command->name, command->positional,
                    command->name);
  return CLI_RIGHT;
}

/* Gives every list of the command's struct room for argc items: `room` holds all of them. */
static void place_lists(const arg_command *command, int argc, const char **room, char *values) {
  ((arg_list *)(void *)(values + command->positionals))->item = room;
  for (int i = 0; i < command->option_count; i++) {
    if (command->options[i].kind != ARG_LIST) continue;
    room += argc;
    ((arg_list *)(void *)(values + command->options[i].offset))->item = room;
  }
}

static bool asks_for_help(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

int args_run(const arg_command *command, int argc, char **argv) {
  if (asks_for_help(argc, argv)) {
    args_print_help(command);
    return CLI_RIGHT;
  }
  size_t lists = (size_t)command->option_count + 1;
  const char **room = calloc(lists * ((size_t)argc + 1), sizeof *room);
  char *values = calloc(1, command->values_size);
  int code = CLI_BAD;
  if (!room || !values) {
    cli_fail("%s: out of memory", command->name);
  } else {
    place_lists(command, argc + 1, room, values);
    code = parse(command, argc, argv, values);
    if (code == CLI_RIGHT) code = command->run(values);
  }
  free(values);
  free((void *)room);
  return code;
}

const char *args_split(const char *text, size_t *length) {
  const char *equals = strchr(text, '=');
  if (!equals) return NULL;
  *length = (size_t)(equals - text);
  return equals + 1;
}
