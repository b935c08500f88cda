/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <stdlib.h>

#include "cuda/cache.h"
#include "cuda/engine.h"
#include "cuda/memory.h"
#include "status.h"

enum { BUFFER_BYTES = 256 << 20, THREADS = 256, BLOCKS_PER_SM = 8, STEPS = 2048, PASSES = 7 };

/* Chains of multiply-adds that do not wait for each other, as many as hide the latency. What stands behind the last `if` is
   never done: the compiler does not know. */
static const char kernels[] =
    "extern \"C\" __global__ void evict(const float4 *p, long long n, float *sink) {\n"
    "  float sum = 0;\n"
    "  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)\n"
    "    sum += p[i].x + p[i].w;\n"
    "  if (sum == 12345.678f) *sink = sum;\n"
    "}\n"
    "extern \"C\" __global__ void rate_fma(float *sink, int steps) {\n"
    "  float c[16], sum = 0;\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 16; i++) c[i] = threadIdx.x + i;\n"
    "  for (int step = 0; step < steps; step++)\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 16; i++) c[i] = fmaf(c[i], 0.999f, 0.001f);\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 16; i++) sum += c[i];\n"
    "  if (sum == 12345.678f) *sink = sum;\n"
    "}\n"
    "#if __CUDA_ARCH__ >= 800\n"
    "template <bool half> __device__ void multiply(float (&c)[4], unsigned a, unsigned b) {\n"
    "  if (half)\n"
    "    asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, \"\n"
    "                 \"{%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};\"\n"
    "                 : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a), "
    "\"r\"(b));\n"
    "  else\n"
    "    asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, \"\n"
    "                 \"{%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};\"\n"
    "                 : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a), "
    "\"r\"(b));\n"
    "}\n"
    "template <bool half> __device__ void rate(float *sink, int steps) {\n"
    "  float c[8][4] = {}, sum = 0;\n"
    "  for (int step = 0; step < steps; step++)\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 8; i++) multiply<half>(c[i], threadIdx.x & 1, threadIdx.x & 2);\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 8; i++) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];\n"
    "  if (sum == 12345.678f) *sink = sum;\n"
    "}\n"
    "extern \"C\" __global__ void rate_tf32(float *s, int steps) { rate<false>(s, steps); }\n"
    "extern \"C\" __global__ void rate_half(float *s, int steps) { rate<true>(s, steps); }\n"
    "#endif\n";

struct gpu_meter {
  const upconv_context *context;
  const uc_cuda_driver *driver;
  uc_cuda_module module;
  uc_cuda_function evict;
  uc_cuda_event event[2];
  void *buffer;
};

/* ---- driver calls, with the device's context current ---- */

static upconv_status check(const gpu_meter *g, int result, const char *what) {
  return uc_cuda_check(g->driver, result, what);
}

static upconv_status find(const gpu_meter *g, const char *name, uc_cuda_function *function) {
  return check(g, g->driver->cuModuleGetFunction(function, g->module, name), name);
}

static upconv_status load(gpu_meter *g) {
  void *image = NULL;
  size_t size;
  upconv_status status =
      uc_cuda_cache_get(kernels, g->context->target->arch, NULL, 0, &image, &size, NULL);
  if (!status) status = uc_cuda_load_module(g->context->device, image, &g->module);
  free(image);
  return status ? status : find(g, "evict", &g->evict);
}

static upconv_status prepare(gpu_meter *g) {
  upconv_status status = load(g);
  for (int i = 0; i < 2 && !status; i++)
    status = check(g, g->driver->cuEventCreate(&g->event[i], UC_EVENT_DEFAULT), "cuEventCreate");
  if (!status) status = uc_cuda_memory_alloc(g->context, BUFFER_BYTES, &g->buffer);
  if (!status)
    status = check(g, g->driver->cuMemsetD8Async((uintptr_t)g->buffer, 1, BUFFER_BYTES, NULL),
                   "cuMemsetD8");
  return status ? status : uc_cuda_stream_wait(g->context, NULL);
}

static upconv_status launch(const gpu_meter *g, uc_cuda_function function, void *stream,
                            void **parameters) {
  unsigned blocks = (unsigned)(g->context->target->sm_count * BLOCKS_PER_SM);
  return check(
      g,
      g->driver->cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL),
      "cuLaunchKernel");
}

static upconv_status evict(const gpu_meter *g, void *stream) {
  uc_cuda_pointer from = (uintptr_t)g->buffer;
  long long count = BUFFER_BYTES / 16;
  void *parameters[] = {&from, &count, &from};
  return launch(g, g->evict, stream, parameters);
}

static upconv_status record(const gpu_meter *g, int i, void *stream) {
  return check(g, g->driver->cuEventRecord(g->event[i], stream), "cuEventRecord");
}

static upconv_status read_events(const gpu_meter *g, double *seconds) {
  float milliseconds = 0;
  upconv_status status =
      check(g, g->driver->cuEventSynchronize(g->event[1]), "running on the device");
  if (!status)
    status = check(g, g->driver->cuEventElapsedTime(&milliseconds, g->event[0], g->event[1]),
                   "cuEventElapsedTime");
  *seconds = 1e-3 * (double)milliseconds;
  return status;
}

static bool time_entered(const gpu_meter *g, void *stream, bool cold, bool (*run)(void *data),
                         void *data, double *seconds) {
  if (cold && evict(g, stream)) return false;
  return !record(g, 0, stream) && run(data) && !record(g, 1, stream) && !read_events(g, seconds);
}

/* ---- life ---- */

upconv_status gpu_open(const upconv_context *context, gpu_meter **result) {
  *result = NULL;
  if (!uc_cuda_has_device(context)) return UPCONV_OK;
  gpu_meter *g = calloc(1, sizeof *g);
  if (!g) return uc_fail(UPCONV_OUT_OF_MEMORY, "out of memory");
  g->context = context;
  g->driver = context->device->driver;
  upconv_status status = uc_cuda_enter(context->device);
  if (!status) {
    status = prepare(g);
    uc_cuda_leave(context->device);
  }
  if (status)
    gpu_close(g);
  else
    *result = g;
  return status;
}

void gpu_close(gpu_meter *g) {
  if (!g) return;
  uc_cuda_memory_free(g->context, g->buffer);
  if (uc_cuda_enter(g->context->device) == UPCONV_OK) {
    for (int i = 0; i < 2; i++)
      if (g->event[i]) g->driver->cuEventDestroy(g->event[i]);
    if (g->module) g->driver->cuModuleUnload(g->module);
    uc_cuda_leave(g->context->device);
  }
  free(g);
}

bool gpu_time(gpu_meter *g, void *stream, bool cold, bool (*run)(void *data), void *data,
              double *seconds) {
  if (uc_cuda_enter(g->context->device) != UPCONV_OK) return false;
  bool good = time_entered(g, stream, cold, run, data, seconds);
  uc_cuda_leave(g->context->device);
  return good;
}

/* ---- what it can do at best ---- */

typedef struct probe {
  const gpu_meter *gpu;
  uc_cuda_function function; /* NULL: copy half of the buffer to the other one */
} probe;

static bool run_probe(void *data) {
  const probe *p = data;
  char *half = (char *)p->gpu->buffer + BUFFER_BYTES / 2;
  uc_cuda_pointer sink = (uintptr_t)p->gpu->buffer;
  int steps = STEPS;
  void *parameters[] = {&sink, &steps};
  if (p->function) return !launch(p->gpu, p->function, NULL, parameters);
  return !uc_cuda_memory_copy(p->gpu->context, half, p->gpu->buffer, BUFFER_BYTES / 2, NULL);
}

/* The best of a few passes; 0 when one fails. */
static double rate(gpu_meter *g, uc_cuda_function function, double work) {
  probe p = {g, function};
  double best = 0, seconds;
  for (int i = 0; i < PASSES; i++) {
    if (!gpu_time(g, NULL, true, run_probe, &p, &seconds)) return 0;
    if (seconds > 0 && work / seconds > best) best = work / seconds;
  }
  return best;
}

static upconv_status probe_arithmetic(gpu_meter *g, const char *name, double flop, double *result) {
  uc_cuda_function function;
  double threads = (double)g->context->target->sm_count * BLOCKS_PER_SM * THREADS;
  upconv_status status = uc_cuda_enter(g->context->device);
  if (status) return status;
  status = find(g, name, &function);
  uc_cuda_leave(g->context->device);
  if (!status) *result = rate(g, function, threads * STEPS * flop);
  return status;
}

upconv_status gpu_probe(gpu_meter *g, probe_result *result) {
  *result = (probe_result){.copy_rate = rate(g, NULL, BUFFER_BYTES)};
  /* Of a thread in a step: 16 chains; 8 instructions, of which a warp shares 16 x 8 x depth. */
  upconv_status status = probe_arithmetic(g, "rate_fma", 2 * 16, &result->fma_rate);
  if (status || g->context->target->major < 8) return status;
  status = probe_arithmetic(g, "rate_tf32", 2.0 * 8 * 16 * 8 * 8 / 32, &result->tf32_rate);
  if (status) return status;
  return probe_arithmetic(g, "rate_half", 2.0 * 8 * 16 * 8 * 16 / 32, &result->half_rate);
}
