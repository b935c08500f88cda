/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"

typedef struct named {
  int number;
  char name[];
} named;

static int compare(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

upconv_status uc_names_add(uc_names *names, const char *name, int fresh, int *number, bool *added) {
  size_t length = strlen(name);
  named *wanted = malloc(sizeof *wanted + length + 1);
  if (!wanted) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a name");
  wanted->number = fresh;
  memcpy(wanted->name, name, length + 1);
  named *const *found = tsearch(wanted, &names->root, compare);
  if (!found) {
    free(wanted);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a name");
  }
  *added = *found == wanted;
  *number = (*found)->number;
  if (!*added) free(wanted);
  return UPCONV_OK;
}

void uc_names_free(uc_names *names) {
  tdestroy(names->root, free);
  names->root = NULL;
}
