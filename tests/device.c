/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/cuda/cache.h"
#include "../src/cuda/driver.h"
#include "../src/status.h"

enum { GUARD = 256, MOST_BUFFERS = 80, GUARD_BYTE = 0xA5, FLUSH_BYTES = 256 << 20 };

static uc_cuda_device device;
static const uc_cuda_driver *cuda;
static bool guards_intact = true;

upconv_status device_open(void) {
  if (cuda) return UPCONV_OK;
  upconv_status status = uc_cuda_device_open(0, &device);
  if (status == UPCONV_OK) status = uc_cuda_enter(&device);
  if (status == UPCONV_OK) cuda = device.driver;
  return status;
}

void device_close(void) {
  if (!cuda) return;
  uc_cuda_leave(&device);
  uc_cuda_device_close(&device);
  cuda = NULL;
}

bool device_guards_intact(void) { return guards_intact; }

/* A host buffer's copy. */
typedef struct buffer {
  char *host;
  size_t bytes;
  uc_cuda_pointer base; /* GUARD bytes before the copy, which keeps the host address modulo GUARD */
  size_t shift;
  bool output;
} buffer;

typedef struct session {
  buffer buffer[MOST_BUFFERS];
  int count;
} session;

static size_t whole_bytes(const buffer *b) { return b->bytes + b->shift + 2 * GUARD; }

/* Copies bytes at host to the device; *where: their address there. */
static upconv_status upload(session *s, void *host, size_t bytes, bool output, void **where) {
  *where = NULL;
  if (!host) return UPCONV_OK;
  if (s->count == MOST_BUFFERS) return uc_fail(UPCONV_UNSUPPORTED, "too many buffers");
  buffer *b = &s->buffer[s->count++];
  *b = (buffer){host, bytes, 0, (uintptr_t)host % GUARD, output};
  upconv_status status =
      uc_cuda_check(cuda, cuda->cuMemAlloc(&b->base, whole_bytes(b)), "allocating a test buffer");
  if (status != UPCONV_OK) return status;
  cuda->cuMemsetD8Async(b->base, GUARD_BYTE, whole_bytes(b), NULL);
  uc_cuda_pointer to = b->base + GUARD + b->shift;
  if (bytes > 0)
    status = uc_cuda_check(cuda, cuda->cuMemcpyHtoDAsync(to, host, bytes, NULL),
                           "copying to the device");
  *where = (void *)(uintptr_t)to; // NOLINT(performance-no-int-to-ptr)
  return status;
}

static bool is_guard(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != GUARD_BYTE) return false;
  return true;
}

/* Results to the host; guards of every buffer checked; inputs must not have changed. */
static upconv_status download(const buffer *b) {
  size_t bytes = whole_bytes(b);
  unsigned char *copy = malloc(bytes);
  if (!copy) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory");
  upconv_status status = uc_cuda_check(cuda, cuda->cuMemcpyDtoHAsync(copy, b->base, bytes, NULL),
                                       "copying from the device");
  if (status == UPCONV_OK)
    status = uc_cuda_check(cuda, cuda->cuStreamSynchronize(NULL), "running the kernels");
  size_t at = GUARD + b->shift;
  if (status == UPCONV_OK) {
    if (!is_guard(copy, at) || !is_guard(copy + at + b->bytes, bytes - at - b->bytes))
      guards_intact = false;
    if (b->output)
      memcpy(b->host, copy + at, b->bytes);
    else if (memcmp(b->host, copy + at, b->bytes) != 0)
      guards_intact = false;
  }
  free(copy);
  return status;
}

static upconv_status finish(session *s, upconv_status status) {
  upconv_status first = status == UPCONV_OK ? uc_cuda_check(cuda, cuda->cuStreamSynchronize(NULL),
                                                            "running the kernels")
                                            : status;
  for (int i = 0; i < s->count; i++) {
    if (first == UPCONV_OK) first = download(&s->buffer[i]);
    cuda->cuMemFree(s->buffer[i].base);
  }
  return first;
}

/* Bytes from the first to the last element of a view. */
static size_t span(const upconv_tensor *t) {
  int64_t last = 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->shape[i] == 0) return 0;
    last += (t->shape[i] - 1) * t->stride[i];
  }
  return (size_t)(last + 1) * upconv_dtype_size(t->dtype);
}

static upconv_status upload_view(session *s, const upconv_tensor *host, bool output,
                                 upconv_tensor *view) {
  *view = *host;
  return upload(s, host->data, host->data ? span(host) : 0, output, &view->data);
}

upconv_status device_pack(const upconv_plan *plan, const upconv_parameters *p, void *packed) {
  session s = {.count = 0};
  upconv_parameters there = *p;
  upconv_tensor params[MOST_BUFFERS];
  void *to;
  upconv_status status = upload_view(&s, &p->weight, false, &there.weight);
  if (status == UPCONV_OK) status = upload_view(&s, &p->bias, false, &there.bias);
  for (int i = 0; i < p->param_count && status == UPCONV_OK; i++)
    status = upload_view(&s, &p->params[i], false, &params[i]);
  there.params = params;
  if (status == UPCONV_OK) status = upload(&s, packed, upconv_plan_packed_size(plan), true, &to);
  if (status == UPCONV_OK) status = upconv_plan_pack(plan, &there, to, NULL);
  return finish(&s, status);
}

static upconv_status upload_arguments(session *s, const upconv_plan *plan,
                                      const upconv_arguments *a, upconv_tensor *tensors,
                                      upconv_arguments *there) {
  *there = *a;
  void *packed = NULL;
  upconv_status status = upload_view(s, &a->x, false, &there->x);
  if (status == UPCONV_OK) status = upload_view(s, &a->y, true, &there->y);
  for (int i = 0; i < a->tensor_count && status == UPCONV_OK; i++)
    status = upload_view(s, &a->tensors[i], false, &tensors[i]);
  if (a->tensors) there->tensors = tensors;
  if (status == UPCONV_OK)
    status = upload(s, (void *)(uintptr_t)a->packed, upconv_plan_packed_size(plan), false,
                    &packed); // NOLINT
  there->packed = packed;
  if (status == UPCONV_OK)
    status = upload(s, a->workspace, a->workspace_size, true, &there->workspace);
  return status;
}

upconv_status device_execute(const upconv_plan *plan, const upconv_arguments *arguments) {
  session s = {.count = 0};
  upconv_arguments there;
  upconv_tensor tensors[MOST_BUFFERS];
  upconv_status status = upload_arguments(&s, plan, arguments, tensors, &there);
  if (status == UPCONV_OK) status = upconv_execute(plan, &there);
  return finish(&s, status);
}

/* ---- timing ---- */

static const char flush_source[] =
    "extern \"C\" __global__ void flush(const float4 *p, long long n, float *sink) {\n"
    "  float sum = 0;\n"
    "  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) sum += "
    "p[i].x + p[i].w;\n"
    "  if (sum == 12345.678f) *sink = sum;\n"
    "}\n";

typedef struct flusher {
  uc_cuda_module module;
  uc_cuda_function function;
  uc_cuda_pointer memory;
} flusher;

static upconv_status make_flusher(flusher *f) {
  char arch[16];
  void *image = NULL;
  size_t size = 0;
  snprintf(arch, sizeof arch, "sm_%d%d", device.major, device.minor);
  upconv_status status = uc_cuda_cache_get(flush_source, arch, NULL, 0, &image, &size, NULL);
  if (status == UPCONV_OK)
    status = uc_cuda_check(cuda, cuda->cuModuleLoadData(&f->module, image), "loading");
  free(image);
  if (status == UPCONV_OK)
    status =
        uc_cuda_check(cuda, cuda->cuModuleGetFunction(&f->function, f->module, "flush"), "flush");
  if (status == UPCONV_OK)
    status = uc_cuda_check(cuda, cuda->cuMemAlloc(&f->memory, FLUSH_BYTES), "allocating");
  if (status == UPCONV_OK) cuda->cuMemsetD8Async(f->memory, 1, FLUSH_BYTES, NULL);
  return status;
}

static upconv_status flush(const flusher *f) {
  long long n = FLUSH_BYTES / 16;
  void *parameters[] = {(void *)(uintptr_t)&f->memory, &n, (void *)(uintptr_t)&f->memory}; // NOLINT
  return uc_cuda_check(
      cuda, cuda->cuLaunchKernel(f->function, 528, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL),
      "flush");
}

static upconv_status time_once(const upconv_plan *plan, const upconv_arguments *there,
                               const flusher *f, uc_cuda_event *event, float *ms) {
  upconv_status status = flush(f);
  if (status != UPCONV_OK) return status;
  cuda->cuEventRecord(event[0], NULL);
  status = upconv_execute(plan, there);
  cuda->cuEventRecord(event[1], NULL);
  if (status == UPCONV_OK)
    status = uc_cuda_check(cuda, cuda->cuEventSynchronize(event[1]), "running the kernels");
  if (status == UPCONV_OK)
    status = uc_cuda_check(cuda, cuda->cuEventElapsedTime(ms, event[0], event[1]), "timing");
  return status;
}

upconv_status device_time(const upconv_plan *plan, const upconv_arguments *arguments, int runs,
                          float *ms) {
  session s = {.count = 0};
  upconv_arguments there;
  upconv_tensor tensors[MOST_BUFFERS];
  flusher f = {NULL, NULL, 0};
  uc_cuda_event event[2] = {NULL, NULL};
  float warm;
  upconv_status status = upload_arguments(&s, plan, arguments, tensors, &there);
  if (status == UPCONV_OK) status = make_flusher(&f);
  for (int i = 0; i < 2 && status == UPCONV_OK; i++)
    status =
        uc_cuda_check(cuda, cuda->cuEventCreate(&event[i], UC_EVENT_DEFAULT), "creating an event");
  for (int i = 0; i < 5 && status == UPCONV_OK; i++)
    status = time_once(plan, &there, &f, event, &warm);
  for (int i = 0; i < runs && status == UPCONV_OK; i++)
    status = time_once(plan, &there, &f, event, &ms[i]);
  for (int i = 0; i < 2; i++)
    if (event[i]) cuda->cuEventDestroy(event[i]);
  if (f.memory) cuda->cuMemFree(f.memory);
  if (f.module) cuda->cuModuleUnload(f.module);
  return finish(&s, status);
}
