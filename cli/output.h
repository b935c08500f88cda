/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are written whole or not at all: a temporary file in the same folder, flushed to the disk, then renamed.
 * What already lies at the path stays until then. A path that names something else than a regular file, such as
 * /dev/null or a pipe, is written directly. A signal that ends the program removes the temporary files.
 */
#ifndef UPCONV_CLI_OUTPUT_H
#define UPCONV_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

typedef struct output_file {
  const char *name; /* as the user gave it, for messages */
  char *path;       /* with symbolic links resolved */
  char *temporary;  /* NULL: written directly */
  int fd;           /* -1: not open */
  struct output_file *next;
} output_file;

/* name must outlive the file. The file must not be moved in memory until it is committed or discarded. */
bool output_open(output_file *file, const char *name, cli_error *error);
bool output_write(output_file *file, const void *data, size_t size, cli_error *error);
/* Everything is on the disk, under the temporary name. Further writes are not allowed. */
bool output_flush(output_file *file, cli_error *error);
/* Puts a flushed file in its place. */
bool output_commit(output_file *file, cli_error *error);
/* Removes what has not been committed. Does nothing to a file that is not open, all bytes zero, or committed. */
void output_discard(output_file *file);

#endif
