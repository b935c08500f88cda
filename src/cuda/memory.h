/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory and streams of a context, for front-ends that keep their data on the device. */
#ifndef UPCONV_CUDA_MEMORY_H
#define UPCONV_CUDA_MEMORY_H

#include "driver.h"
#include "upconv/upconv.h"

/* UPCONV_DEVICE_ERROR from everything here when the context has no device: the CPU's, or one that only plans. */
bool uc_cuda_has_device(const upconv_context *context);

/* bytes 0 gives NULL. */
upconv_status uc_cuda_memory_alloc(const upconv_context *context, size_t bytes, void **memory);
/* Waits until the device no longer uses it. NULL is fine. */
void uc_cuda_memory_free(const upconv_context *context, void *memory);
/* What is free now, and all there is. */
upconv_status uc_cuda_memory_info(const upconv_context *context, size_t *available, size_t *total);

/* In the order of the stream. Host memory must stay until the stream has got there; uc_cuda_stream_wait makes sure. */
upconv_status uc_cuda_memory_upload(const upconv_context *context, void *to, const void *from,
                                    size_t bytes, uc_cuda_stream stream);
upconv_status uc_cuda_memory_download(const upconv_context *context, void *to, const void *from,
                                      size_t bytes, uc_cuda_stream stream);
upconv_status uc_cuda_memory_copy(const upconv_context *context, void *to, const void *from,
                                  size_t bytes, uc_cuda_stream stream);

/* One that does not wait for the default stream. */
upconv_status uc_cuda_stream_create(const upconv_context *context, uc_cuda_stream *stream);
void uc_cuda_stream_destroy(const upconv_context *context,
                            uc_cuda_stream stream); /* NULL is fine */
/* Until all that was put on the stream is done; an error of a kernel is reported here. */
upconv_status uc_cuda_stream_wait(const upconv_context *context, uc_cuda_stream stream);

#endif
