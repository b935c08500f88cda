/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring on the CPU: wall time, after other data went through the caches. */
#define _GNU_SOURCE
#include "../meter.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../monotonic.h"
#include "../status.h"

enum { ALIGNMENT = 64, LINE_WORDS = 8 };

/* Larger than second-level caches and a thread's share of most last-level ones. Reading more would take longer than most of
   what is measured: where the last level is larger, caches are not quite cold, and for all candidates the same. */
enum { EVICTED_BYTES = 32 << 20 };

typedef struct cpu_meter {
  uc_meter meter;
  uint64_t *buffer;
} cpu_meter;

static upconv_status open_meter(upconv_context *context, uc_meter **result) {
  (void)context;
  cpu_meter *m = calloc(1, sizeof *m);
  uint64_t *buffer = m ? malloc(EVICTED_BYTES) : NULL;
  if (!buffer) {
    free(m);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  }
  memset(buffer, 1, EVICTED_BYTES); /* its own pages, not one page of zeros */
  m->meter.kind = &uc_meter_cpu;
  m->buffer = buffer;
  *result = &m->meter;
  return UPCONV_OK;
}

static void close_meter(uc_meter *meter) {
  cpu_meter *m = (cpu_meter *)meter;
  free(m->buffer);
  free(m);
}

/* What can be had without making the machine swap, or a guess. */
static size_t available_memory(void) {
  unsigned long long kilobytes = 0;
  FILE *file = fopen("/proc/meminfo", "re");
  char line[128];
  while (file && kilobytes == 0 && fgets(line, sizeof line, file))
    if (strncmp(line, "MemAvailable:", 13) == 0) kilobytes = strtoull(line + 13, NULL, 10);
  if (file) fclose(file);
  if (kilobytes > 0 && kilobytes < SIZE_MAX / 1024) return (size_t)kilobytes * 1024;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 2 : SIZE_MAX / 2;
}

static upconv_status allocate(uc_meter *meter, size_t bytes, void **memory) {
  (void)meter;
  size_t available = available_memory();
  *memory = NULL;
  if (bytes < available)
    *memory = aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT + ALIGNMENT);
  if (!*memory)
    return uc_fail(UPCONV_OUT_OF_MEMORY, "%zu bytes are wanted to measure, and %zu are free", bytes,
                   available);
  return UPCONV_OK;
}

static void release(uc_meter *meter, void *memory) {
  (void)meter;
  free(memory);
}

static upconv_status upload(uc_meter *meter, void *to, const void *from, size_t bytes) {
  (void)meter;
  memcpy(to, from, bytes);
  return UPCONV_OK;
}

/* Read, not written: nothing is left to be written back within the measured run. */
static void evict(const cpu_meter *m) {
  const volatile uint64_t *at = m->buffer;
  for (size_t i = 0; i < EVICTED_BYTES / sizeof *at; i += LINE_WORDS) (void)at[i];
}

static upconv_status time_run(uc_meter *meter, upconv_status (*run)(void *data), void *data,
                              double *seconds) {
  evict((const cpu_meter *)meter);
  double begin = uc_now();
  upconv_status status = run(data);
  *seconds = uc_now() - begin;
  return status;
}

const uc_meter_kind uc_meter_cpu = {
    .open = open_meter,
    .close = close_meter,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .time = time_run,
};
