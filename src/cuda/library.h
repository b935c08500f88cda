/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens a shared library at run time, so that none is needed to build or to start. */
#ifndef UPCONV_CUDA_LIBRARY_H
#define UPCONV_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "upconv/upconv.h"

typedef struct uc_library_wanted {
  const char *what;     /* for messages: "the NVIDIA driver library" */
  const char *variable; /* environment variable that names the file; nothing else is tried then */
  const char *const *names;   /* file names, best first; ends with NULL */
  const char *const *folders; /* absolute folders to try after the loader's own; ends with NULL */
  bool toolkit;               /* also in CUDA toolkits and in the Python packages of NVIDIA */
  /* Looks at an opened library. NULL: it is good; else why not, and the search goes on. */
  const char *(*reject)(void *handle);
} uc_library_wanted;

typedef struct uc_library {
  void *handle; /* stays open as long as the process lives */
  char *path;   /* absolute where the loader knows it; from malloc */
} uc_library;

/*
 * In this order: the file that the environment variable names; what the process has loaded already;
 * the loader's path; the folders; CUDA_HOME, CUDA_PATH, CONDA_PREFIX; /usr/local/cuda,
 * /usr/local/cuda-*, newest first; the nvidia packages in the site-packages of
 * UPCONV_SITE_PACKAGES, of this process's Python, of VIRTUAL_ENV. UPCONV_DEVICE_ERROR says where
 * was looked.
 */
upconv_status uc_library_open(const uc_library_wanted *wanted, uc_library *library);

/* Where a table of functions keeps the address of a symbol. */
typedef struct uc_library_symbol {
  const char *name;
  size_t offset; /* of the function pointer in the table */
} uc_library_symbol;

/* Fills in the table. UPCONV_DEVICE_ERROR names the library and the first symbol that it lacks. */
upconv_status uc_library_symbols(const uc_library *library, const uc_library_symbol *symbol,
                                 size_t count, void *table);

/* The folders that a search in toolkits and Python packages visits, in order, as strings that
   free() releases. Stores at most capacity of them and returns how many. */
int uc_library_folders(char **folder, int capacity);

#endif
