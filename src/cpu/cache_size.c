/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_size.h"

#include <unistd.h>

size_t uc_cpu_cache_size(void) {
  const size_t least = (size_t)32 << 20, most = (size_t)128 << 20;
  long size = -1;
#ifdef _SC_LEVEL3_CACHE_SIZE
  size = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (size <= 0 || (size_t)size < least) return least;
  return (size_t)size > most ? most : (size_t)size;
}
