/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CLI_MEMORY_H
#define UPCONV_CLI_MEMORY_H

#include <stddef.h>

/* Memory aligned to 64 bytes, freed by free(), or NULL. *total, the caller's sum, grows by size; more than the machine has
   is refused here, since the system might hand it out and then kill the program that uses it. */
void *memory_allocate(size_t size, size_t *total);

#endif
