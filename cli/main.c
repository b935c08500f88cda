/* SPDX-License-Identifier: Apache-2.0 */
/* The program upconv: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "commands.h"

static const arg_command *const commands[] = {
    &command_run,  &command_test,    &command_plan,  &command_bench,   &command_tune,
    &command_demo, &command_devices, &command_cache, &command_version,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
  fputs("usage: upconv COMMAND ...\n\n"
        "Runs transposed convolutions fused with what follows them.\n\ncommands:\n",
        to);
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
  fputs("\n'upconv COMMAND --help' shows a command's options, with examples.\n"
        "Exit codes: 0 right, 1 wrong result, 2 bad usage or input.\n",
        to);
}

static const arg_command *find(const char *name) {
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  return NULL;
}

static int fail_unknown(const char *name) {
  const char *names[COMMANDS + 1] = {NULL};
  for (int i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
  const char *near = args_suggest(name, names);
  if (near) return cli_fail("unknown command '%s'; did you mean '%s'?", name, near);
  return cli_fail("unknown command '%s'; see 'upconv --help'", name);
}

static int run(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) {
    print_help(stderr);
    return CLI_BAD;
  }
  if (strcmp(name, "--version") == 0) name = "version";
  bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
  if (help && argc == 2) {
    print_help(stdout);
    return CLI_RIGHT;
  }
  if (help) name = argv[2];
  const arg_command *command = find(name);
  if (!command) return fail_unknown(name);
  if (!help) return args_run(command, argc - 2, argv + 2);
  args_print_help(command);
  return CLI_RIGHT;
}

int main(int argc, char **argv) { return cli_finish(run(argc, argv)); }
