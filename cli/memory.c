/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

static size_t machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX / 2;
}

void *memory_allocate(size_t size, size_t *total) {
  size_t limit = machine_memory();
  if (size > limit || *total > limit - size) return NULL;
  void *data = aligned_alloc(ALIGNMENT, size / ALIGNMENT * ALIGNMENT + ALIGNMENT);
  if (data) *total += size;
  return data;
}
