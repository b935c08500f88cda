/* SPDX-License-Identifier: Apache-2.0 */
/* A map from names to numbers. A search tree and not a hash table: names come from strangers,
   who could make them collide. */
#ifndef UPCONV_ONNX_NAMES_H
#define UPCONV_ONNX_NAMES_H

#include "upconv/upconv.h"

typedef struct uc_names {
  void *root;
} uc_names;

/* *number receives the name's number; *added says whether it is new and got `fresh`. */
upconv_status uc_names_add(uc_names *names, const char *name, int fresh, int *number, bool *added);
void uc_names_free(uc_names *names);

#endif
