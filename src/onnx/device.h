/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the numbers of a session lie and its plain operators run: the host (device_cpu.c) or a GPU
 * (device_cuda.c). What is asked of a GPU is queued in order; the host waits in finish alone.
 */
#ifndef UPCONV_ONNX_DEVICE_H
#define UPCONV_ONNX_DEVICE_H

#include "program.h"

typedef struct uc_device uc_device;

typedef struct uc_device_kind {
  /* Memory that the host cannot reach: data are uploaded, results downloaded. */
  bool separate;
  size_t alignment; /* of values and workspaces, and at least that of allocate */
  /* Released with release, which takes NULL too. */
  upconv_status (*allocate)(const uc_device *device, size_t bytes, void **memory);
  void (*release)(const uc_device *device, void *memory);
  upconv_status (*upload)(const uc_device *device, const void *host, size_t bytes, void *to);
  upconv_status (*download)(const uc_device *device, const void *from, size_t bytes, void *host);
  upconv_status (*finish)(const uc_device *device);
  /* Elements of one type and one shape. */
  upconv_status (*copy)(const uc_device *device, const uc_view *from, const uc_view *to);
  /* Makes a plain task, or one that copies its first input, ready; views have no data yet. *work
     (may be NULL) goes to run and discard, *workspace bytes of memory to run. */
  upconv_status (*prepare)(const uc_device *device, const uc_onnx_task *task, const uc_view *in,
                           const uc_view *out, void **work, size_t *workspace);
  void (*discard)(void *work);
  upconv_status (*run)(const uc_device *device, const uc_onnx_task *task, const void *work,
                       const uc_view *in, const uc_view *out, void *workspace);
  void (*close)(uc_device *device);
} uc_device_kind;

struct uc_device {
  const uc_device_kind *kind;
  const upconv_context *context; /* NULL: the host without threads */
  size_t memory;                 /* bytes that there are */
  void *stream;                  /* for the library; NULL on the host */
  void *plain;                   /* what device_cuda.c keeps for plain tasks */
};

/* Of the context, which must outlive it. */
upconv_status uc_device_open(const upconv_context *context, uc_device **device);
void uc_device_close(uc_device *device); /* NULL is fine */
/* Parts of it. */
upconv_status uc_device_open_cpu(const upconv_context *context, uc_device *device);
upconv_status uc_device_open_cuda(const upconv_context *context, uc_device *device);

/* A plain task as operations of the GPU: device_plain.c; uc_device_kind says what they do. */
upconv_status uc_device_plain_prepare(const uc_device *device, const uc_onnx_task *task,
                                      const uc_view *in, const uc_view *out, void **work,
                                      size_t *workspace);
void uc_device_plain_discard(void *work);
upconv_status uc_device_plain_run(const uc_device *device, const uc_onnx_task *task,
                                  const void *work, const uc_view *in, const uc_view *out,
                                  void *workspace);
upconv_status uc_device_plain_copy(const uc_device *device, const uc_view *from, const uc_view *to);

/* The host's memory, for what is planned and for the oracle. */
const uc_device *uc_device_host(void);

#endif
