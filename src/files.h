/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the library keeps for its user: where they lie, and how they are read and written. */
#ifndef UPCONV_FILES_H
#define UPCONV_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* UPCONV_CACHE_DIR, or XDG_CACHE_HOME/upconv, or ~/.cache/upconv. The folder need not be there yet; free() releases it.
   NULL: UPCONV_CACHE_DIR is empty, or there is no home folder. */
char *uc_cache_directory(void);

/* Makes the folder and those above it. They are this user's alone. */
bool uc_make_directory(const char *directory);

bool uc_read_all(int fd, void *to, size_t size);

typedef struct uc_part {
  const void *data;
  size_t size;
} uc_part;

/* Writes the parts one after the other. Under the path there is always a whole file: the old one, or the new one. While it
   is written it is .tmp-XXXXXX in the same folder. */
#define UC_TEMPORARY ".tmp-"
bool uc_write_file(const char *path, const uc_part *part, int count);

#endif
