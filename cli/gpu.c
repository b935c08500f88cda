/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <stdlib.h>

#include "cuda/cache.h"
#include "cuda/clock.h"
#include "cuda/engine.h"
#include "cuda/memory.h"
#include "status.h"

enum { THREADS = 256, BLOCKS_PER_SM = 8, STEPS = 2048, PASSES = 7 };

/* Chains of multiply-adds that do not wait for each other, as many as hide the latency. What stands behind the last `if` is
   never done: the compiler does not know. */
static const char kernels[] =
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
  uc_cuda_clock *clock;
  uc_cuda_module module; /* of the kernels above */
};

static upconv_status check(const gpu_meter *g, int result, const char *what) {
  return uc_cuda_check(g->context->device->driver, result, what);
}

/* ---- life ---- */

static upconv_status load(gpu_meter *g) {
  void *image = NULL;
  size_t size;
  upconv_status status =
      uc_cuda_cache_get(kernels, g->context->target->arch, NULL, 0, &image, &size, NULL);
  if (!status) status = uc_cuda_enter(g->context->device);
  if (!status) {
    status = uc_cuda_load_module(g->context->device, image, &g->module);
    uc_cuda_leave(g->context->device);
  }
  free(image);
  return status;
}

upconv_status gpu_open(const upconv_context *context, gpu_meter **result) {
  *result = NULL;
  if (!uc_cuda_has_device(context)) return UPCONV_OK;
  gpu_meter *g = calloc(1, sizeof *g);
  if (!g) return uc_fail(UPCONV_OUT_OF_MEMORY, "out of memory");
  g->context = context;
  upconv_status status = load(g);
  if (!status) status = uc_cuda_clock_open(context, &g->clock);
  if (status)
    gpu_close(g);
  else
    *result = g;
  return status;
}

void gpu_close(gpu_meter *g) {
  if (!g) return;
  uc_cuda_clock_close(g->clock);
  if (g->module && uc_cuda_enter(g->context->device) == UPCONV_OK) {
    g->context->device->driver->cuModuleUnload(g->module);
    uc_cuda_leave(g->context->device);
  }
  free(g);
}

/* ---- measuring ---- */

typedef struct timed_run {
  bool (*run)(void *data);
  void *data;
} timed_run;

static upconv_status run_timed(void *data) {
  const timed_run *t = data;
  return t->run(t->data) ? UPCONV_OK : UPCONV_DEVICE_ERROR;
}

bool gpu_time(gpu_meter *g, void *stream, bool cold, bool (*run)(void *data), void *data,
              double *seconds) {
  timed_run timed = {run, data};
  return uc_cuda_clock_time(g->clock, stream, cold, run_timed, &timed, seconds) == UPCONV_OK;
}

/* ---- what it can do at best ---- */

typedef struct probe {
  const gpu_meter *gpu;
  uc_cuda_function function; /* NULL: copy half of the buffer to the other one */
} probe;

static bool run_probe(void *data) {
  const probe *p = data;
  const gpu_meter *g = p->gpu;
  char *buffer = uc_cuda_clock_buffer(g->clock), *half = buffer + UC_CUDA_CLOCK_BYTES / 2;
  if (!p->function)
    return !uc_cuda_memory_copy(g->context, half, buffer, UC_CUDA_CLOCK_BYTES / 2, NULL);
  uc_cuda_pointer sink = (uintptr_t)buffer;
  int steps = STEPS;
  void *parameters[] = {&sink, &steps};
  unsigned blocks = (unsigned)(g->context->target->sm_count * BLOCKS_PER_SM);
  return !check(g,
                g->context->device->driver->cuLaunchKernel(p->function, blocks, 1, 1, THREADS, 1, 1,
                                                           0, NULL, parameters, NULL),
                "cuLaunchKernel");
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
  status =
      check(g, g->context->device->driver->cuModuleGetFunction(&function, g->module, name), name);
  uc_cuda_leave(g->context->device);
  if (!status) *result = rate(g, function, threads * STEPS * flop);
  return status;
}

upconv_status gpu_probe(gpu_meter *g, probe_result *result) {
  *result = (probe_result){.copy_rate = rate(g, NULL, UC_CUDA_CLOCK_BYTES)};
  /* Of a thread in a step: 16 chains; 8 instructions, of which a warp shares 16 x 8 x depth. */
  upconv_status status = probe_arithmetic(g, "rate_fma", 2 * 16, &result->fma_rate);
  if (status || g->context->target->major < 8) return status;
  status = probe_arithmetic(g, "rate_tf32", 2.0 * 8 * 16 * 8 * 8 / 32, &result->tf32_rate);
  if (status) return status;
  return probe_arithmetic(g, "rate_half", 2.0 * 8 * 16 * 8 * 16 / 32, &result->half_rate);
}
