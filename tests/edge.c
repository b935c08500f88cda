/* SPDX-License-Identifier: Apache-2.0 */
#include "edge.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct extent {
  size_t page, size; /* of the whole mapping, forbidden page included */
} extent;

static extent extent_of(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (extent){page, (bytes + page - 1) / page * page + page};
}

void *edge_alloc(size_t bytes) {
  extent e = extent_of(bytes);
  char *start = mmap(NULL, e.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED || mprotect(start + e.size - e.page, e.page, PROT_NONE)) {
    fprintf(stderr, "edge_alloc: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  return start + e.size - e.page - bytes;
}

void edge_free(void *data, size_t bytes) {
  extent e = extent_of(bytes);
  munmap((char *)data + bytes + e.page - e.size, e.size);
}
