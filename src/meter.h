/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What measuring needs of a device: memory, a clock, and caches that hold nothing of the run before. A context has the one
 * of its device; one that only plans has none.
 */
#ifndef UPCONV_METER_H
#define UPCONV_METER_H

#include <stddef.h>

#include "upconv/upconv.h"

typedef struct uc_meter uc_meter;

struct uc_meter {
  const struct uc_meter_kind *kind;
  void *stream; /* what is measured is put there; NULL on the CPU */
};

typedef struct uc_meter_kind {
  /* An error where the device can not be measured now, as while a stream of it is being captured. To be closed by the same
     thread. */
  upconv_status (*open)(upconv_context *context, uc_meter **meter);
  void (*close)(uc_meter *meter);
  /* Aligned to 64 bytes. UPCONV_OUT_OF_MEMORY says how much was wanted. */
  upconv_status (*allocate)(uc_meter *meter, size_t bytes, void **memory);
  void (*release)(uc_meter *meter, void *memory); /* NULL is fine */
  /* Returns when `from` is no longer read. */
  upconv_status (*upload)(uc_meter *meter, void *to, const void *from, size_t bytes);
  /* Empties the caches, then measures run(data) from its beginning until all that it put on the stream is done. */
  upconv_status (*time)(uc_meter *meter, upconv_status (*run)(void *data), void *data,
                        double *seconds);
} uc_meter_kind;

extern const uc_meter_kind uc_meter_cpu, uc_meter_cuda;

#endif
