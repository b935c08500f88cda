/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_gpu.h"
#include "monotonic.h"

enum { GUARD = 256, GUARD_BYTE = 0xA5 };

const uc_cuda_driver *gpu;
upconv_context *gpu_context;
static uc_cuda_device device;

upconv_status gpu_open(void) {
  upconv_status status = uc_cuda_device_open(0, &device);
  if (status == UPCONV_OK) status = uc_cuda_enter(&device);
  if (status == UPCONV_OK) gpu = device.driver;
  return status;
}

void gpu_close(void) {
  if (!gpu) return;
  uc_cuda_leave(&device);
  uc_cuda_device_close(&device);
  gpu = NULL;
}

bool gpu_enter(void) { return CHECK_STATUS(uc_cuda_enter(&device), UPCONV_OK); }

void gpu_leave(void) { uc_cuda_leave(&device); }

bool gpu_check_result(int result, const char *text, const char *file, int line) {
  if (result == UC_CUDA_SUCCESS) return check_true(true, text, file, line);
  uc_cuda_check(gpu, result, "the driver says");
  return check_message(false, text, file, line, "%s", upconv_last_error());
}

/* ---- memory ---- */

void *gpu_address(const gpu_buffer *b) {
  return (void *)(uintptr_t)(b->base + GUARD + b->shift); // NOLINT(performance-no-int-to-ptr)
}

static bool fill(uc_cuda_pointer to, unsigned char value, size_t bytes) {
  return bytes == 0 || GPU_CHECK(gpu->cuMemsetD8Async(to, value, bytes, NULL));
}

bool gpu_poison(const gpu_buffer *b) {
  return fill(b->base + GUARD + b->shift, CHECK_POISON, b->bytes) && gpu_run_sync(NULL);
}

static void *allocate(gpu_buffer *b, size_t bytes, size_t shift, bool raw) {
  *b = (gpu_buffer){0, bytes, shift};
  size_t before = GUARD + shift;
  if (!GPU_CHECK(gpu->cuMemAlloc(&b->base, before + bytes + GUARD))) {
    b->base = 0;
    return NULL;
  }
  bool done =
      fill(b->base, GUARD_BYTE, before) && fill(b->base + before + bytes, GUARD_BYTE, GUARD);
  if (done) done = raw ? gpu_run_sync(NULL) : gpu_poison(b);
  return done ? gpu_address(b) : NULL;
}

void *gpu_alloc(gpu_buffer *b, size_t bytes, size_t shift) {
  return allocate(b, bytes, shift, false);
}

/* Without poison, compute-sanitizer's initcheck sees what is read before it is written. */
void *gpu_alloc_scratch(gpu_buffer *b, size_t bytes) {
  return allocate(b, bytes, 0, getenv("CHECK_GPU_RAW") != NULL);
}

static bool is_guard(uc_cuda_pointer at, size_t bytes) {
  unsigned char copy[2 * GUARD];
  if (!CHECK(bytes <= sizeof copy)) return false;
  if (!GPU_CHECK(gpu->cuMemcpyDtoHAsync(copy, at, bytes, NULL)) || !gpu_run_sync(NULL))
    return false;
  for (size_t i = 0; i < bytes; i++)
    if (copy[i] != GUARD_BYTE) return false;
  return true;
}

void gpu_free(gpu_buffer *b) {
  if (!b->base) return;
  size_t before = GUARD + b->shift;
  CHECK_MSG(is_guard(b->base, before), "something was written before a buffer of %zu bytes",
            b->bytes);
  CHECK_MSG(is_guard(b->base + before + b->bytes, GUARD),
            "something was written after a buffer of %zu bytes", b->bytes);
  GPU_CHECK(gpu->cuMemFree(b->base));
  *b = (gpu_buffer){0, 0, 0};
}

bool gpu_write(void *to, const void *from, size_t bytes) {
  return bytes == 0 || (GPU_CHECK(gpu->cuMemcpyHtoDAsync((uintptr_t)to, from, bytes, NULL)) &&
                        gpu_run_sync(NULL));
}

bool gpu_read(void *to, const void *from, size_t bytes) {
  return bytes == 0 || (GPU_CHECK(gpu->cuMemcpyDtoHAsync(to, (uintptr_t)from, bytes, NULL)) &&
                        gpu_run_sync(NULL));
}

bool gpu_run_sync(uc_cuda_stream stream) { return GPU_CHECK(gpu->cuStreamSynchronize(stream)); }

double gpu_now_ms(void) { return uc_now() * 1e3; }

int gpu_cores(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count > 32 ? 32 : (int)count;
}
