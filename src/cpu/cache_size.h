/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CPU_CACHE_SIZE_H
#define UPCONV_CPU_CACHE_SIZE_H

#include <stddef.h>

/* Bytes of the last-level cache that a few cores reach: at least 32 MiB where the system does not say, at most 128 MiB,
   since virtual machines report the caches of the whole host. */
size_t uc_cpu_cache_size(void);

#endif
