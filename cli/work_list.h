/* SPDX-License-Identifier: Apache-2.0 */
/* Problems and models that a command works through: from its command line, and from a file. */
#ifndef UPCONV_CLI_WORK_LIST_H
#define UPCONV_CLI_WORK_LIST_H

#include "args.h"

/* Texts and names of files, copied. */
typedef struct work_list {
  char **item;
  int count;
} work_list;

/* Those of the file, one a line (NULL: no file; blank lines, and lines that start with '#', are skipped), then the words. To be
   freed whatever this returns; prints what is wrong and returns CLI_BAD, also for a list of nothing. */
int work_list_make(const char *command, const char *file, const arg_list *words, work_list *list);
void work_list_free(work_list *list);

#endif
