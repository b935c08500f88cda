/* SPDX-License-Identifier: Apache-2.0 */
#include "work_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static bool add(work_list *list, const char *text) {
  char **grown = realloc(list->item, ((size_t)list->count + 1) * sizeof *grown);
  if (!grown) return false;
  list->item = grown;
  list->item[list->count] = strdup(text);
  return list->item[list->count++] != NULL;
}

void work_list_free(work_list *list) {
  for (int i = 0; i < list->count; i++) free(list->item[i]);
  free(list->item);
}

static int read_file(const char *command, const char *path, work_list *list) {
  FILE *file = fopen(path, "r");
  if (!file) return cli_fail("%s: %s: %s", command, path, strerror(errno));
  char *line = NULL;
  size_t size = 0;
  bool good = true;
  while (good && getline(&line, &size, file) >= 0) {
    line[strcspn(line, "\r\n")] = 0;
    const char *text = line + strspn(line, " \t");
    if (*text && *text != '#') good = add(list, text);
  }
  int code = CLI_RIGHT;
  if (!good)
    code = cli_fail("%s: out of memory", command);
  else if (ferror(file))
    code = cli_fail("%s: %s: %s", command, path, strerror(errno));
  free(line);
  fclose(file);
  return code;
}

int work_list_make(const char *command, const char *file, const arg_list *words, work_list *list) {
  int code = file ? read_file(command, file, list) : CLI_RIGHT;
  if (code) return code;
  for (int i = 0; i < words->count; i++)
    if (!add(list, words->item[i])) return cli_fail("%s: out of memory", command);
  if (list->count == 0)
    return cli_fail("%s: no problem or model given; see 'upconv %s --help'", command, command);
  return CLI_RIGHT;
}
