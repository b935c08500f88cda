/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libcuda with two imaginary devices, so that everything is tested without a GPU but
 * what kernels compute. FAKE_DRIVER chooses what is wrong with it:
 * - stub: every call fails, as the toolkit's stub library does
 * - old: it is of CUDA 11.4
 * - init: cuInit fails
 * - nodevice: cuInit finds no device
 * - zero: there are zero devices
 * - retain: there is no memory for a context
 * - attribute: the device does not tell its compute capability
 * - launch: the third launch of a kernel fails
 * - captured: a stream that waits for the default one is being captured
 *
 * Built with FAKE_LACKING it is a driver that lacks nearly all functions.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 2, STACK = 16 };

static int is_fault(const char *fault) {
  const char *given = getenv("FAKE_DRIVER");
  return given && strcmp(given, fault) == 0;
}

EXPORT int cuDriverGetVersion(int *version) {
  if (is_fault("stub")) return 34;
  *version = is_fault("old") ? 11040 : 12080;
  return 0;
}

#ifndef FAKE_LACKING

static int retained[DEVICES];
static int context_of[DEVICES]; /* their addresses are the contexts */
static _Thread_local void *stack[STACK];
static _Thread_local int depth;

EXPORT int fake_retained(int device) { return retained[device]; }
EXPORT int fake_depth(void) { return depth; }

EXPORT int cuInit(unsigned flags) {
  if (flags != 0) return 1;
  if (is_fault("stub")) return 34;
  if (is_fault("init")) return 999;
  return is_fault("nodevice") ? 100 : 0;
}

EXPORT int cuGetErrorName(int result, const char **name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
          : result == 999 ? "CUDA_ERROR_UNKNOWN"
                          : NULL;
  return *name ? 0 : 1;
}

EXPORT int cuGetErrorString(int result, const char **text) {
  *text = result == 2     ? "out of memory"
          : result == 222 ? "the provided PTX was compiled with an unsupported toolchain."
          : result == 999 ? "unknown error"
                          : NULL;
  return *text ? 0 : 1;
}

EXPORT int cuDeviceGetCount(int *count) {
  *count = is_fault("zero") ? 0 : DEVICES;
  return 0;
}

/* Handles that differ from the ordinals. */
EXPORT int cuDeviceGet(int *device, int ordinal) {
  if (ordinal < 0 || ordinal >= DEVICES) return 101;
  *device = 100 + ordinal;
  return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device - 100);
  return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = (size_t)(device - 99) << 34;
  return 0;
}

/* The numbers that NVIDIA gave the attributes, and what an H100 answers. */
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int known[][2] = {
      {1, 1024},    {8, 49152},     {9, 65536},   {12, 65536}, {16, 132},
      {37, 5120},   {38, 52428800}, {39, 2048},   {75, 9},     {76, 0},
      {81, 233472}, {82, 65536},    {97, 232448}, {106, 32},   {111, 1024},
  };
  if (is_fault("attribute") && attribute == 75) return 1;
  if (attribute == 76 && device == 101) {
    *value = 3;
    return 0;
  }
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i][0] == attribute) {
      *value = known[i][1];
      return 0;
    }
  return 1;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (is_fault("retain")) return 2;
  retained[device - 100]++;
  *context = &context_of[device - 100];
  return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  if (retained[device - 100] == 0) return 201;
  retained[device - 100]--;
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context) {
  if (!context || depth == STACK) return 201;
  stack[depth++] = context;
  return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return 201;
  *context = stack[--depth];
  return 0;
}

EXPORT int cuCtxGetCurrent(void **context) {
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return 0;
}

/* ---- memory: the host's, in whose place the device's stands ---- */

/*
 * Work is done when somebody waits for it, as late as a device may: a test sees what was read too
 * early or freed too soon. New memory is poisoned. All that happens is written down, one letter
 * each: Alloc, Free, H host to device, D device to host, C on the device, M memset, K kernel, S
 * wait. FAKE_MEMORY bytes may be allocated together; FAKE_DRIVER=launch: the third launch fails.
 */
enum { MOST_BLOCKS = 1024, MOST_WORK = 4096, MOST_LOG = 1 << 16, POISON = 0xA5, ALIGNMENT = 256 };

typedef struct block {
  char *data;
  size_t bytes;
} block;

typedef struct task {
  void *stream;
  char *to;
  const char *from;
  char *staged; /* what the host gave, copied at once */
  size_t bytes;
} task;

static block blocks[MOST_BLOCKS];
static task tasks[MOST_WORK];
static int block_count, task_count, launches, modules, streams, events;
static char log_text[MOST_LOG];
static size_t log_length;

static void note(char letter) {
  if (log_length + 1 < MOST_LOG) log_text[log_length++] = letter;
  log_text[log_length] = 0;
}

/* What happened since the last call. */
EXPORT const char *fake_log(void) {
  static char copy[MOST_LOG];
  memcpy(copy, log_text, log_length + 1);
  log_length = 0;
  log_text[0] = 0;
  return copy;
}

/* What is there and was not given back: blocks, modules, streams, events, unfinished work. */
EXPORT int fake_held(void) { return block_count + modules + streams + events + task_count; }

/* How many blocks hold these bytes. */
EXPORT int fake_holds(const void *data, size_t bytes) {
  int count = 0;
  for (int i = 0; i < block_count; i++)
    count += memmem(blocks[i].data, blocks[i].bytes, data, bytes) != NULL;
  return count;
}

/* A range that lies within one block. */
static int is_known(const void *data, size_t bytes) {
  const char *at = data;
  for (int i = 0; i < block_count; i++)
    if (at >= blocks[i].data && at + bytes <= blocks[i].data + blocks[i].bytes) return 1;
  return 0;
}

static void finish(const void *stream, int all) {
  int kept = 0;
  for (int i = 0; i < task_count; i++) {
    if (!all && tasks[i].stream != stream) {
      tasks[kept++] = tasks[i];
      continue;
    }
    memmove(tasks[i].to, tasks[i].staged ? tasks[i].staged : tasks[i].from, tasks[i].bytes);
    free(tasks[i].staged);
  }
  task_count = kept;
}

static int queue(void *stream, void *to, const void *from, size_t bytes, int staged) {
  if (task_count == MOST_WORK) return 2;
  task t = {stream, to, from, NULL, bytes};
  if (staged) {
    t.staged = malloc(bytes + 1);
    if (!t.staged) return 2;
    memcpy(t.staged, from, bytes);
  }
  tasks[task_count++] = t;
  return 0;
}

static size_t memory_limit(void) {
  const char *limit = getenv("FAKE_MEMORY");
  return limit ? (size_t)strtoull(limit, NULL, 10) : (size_t)1 << 32;
}

EXPORT int cuMemAlloc_v2(uintptr_t *address, size_t bytes) {
  size_t used = 0, padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (bytes == 0) return 1;
  for (int i = 0; i < block_count; i++) used += blocks[i].bytes;
  if (block_count == MOST_BLOCKS || padded > memory_limit() || used > memory_limit() - padded)
    return 2;
  char *data = aligned_alloc(ALIGNMENT, padded);
  if (!data) return 2;
  memset(data, POISON, padded);
  blocks[block_count++] = (block){data, bytes};
  *address = (uintptr_t)data;
  note('A');
  return 0;
}

EXPORT int cuMemFree_v2(uintptr_t address) {
  finish(NULL, 1);
  for (int i = 0; i < block_count; i++) {
    if ((uintptr_t)blocks[i].data != address) continue;
    free(blocks[i].data);
    blocks[i] = blocks[--block_count];
    note('F');
    return 0;
  }
  return 1;
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total) {
  *available = *total = memory_limit();
  return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(char *to, const void *from, size_t bytes, void *stream) {
  if (!is_known(to, bytes)) return 1;
  note('H');
  return queue(stream, to, from, bytes, 1);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, const char *from, size_t bytes, void *stream) {
  if (!is_known(from, bytes)) return 1;
  note('D');
  return queue(stream, to, from, bytes, 0);
}

EXPORT int cuMemcpyDtoDAsync_v2(char *to, const char *from, size_t bytes, void *stream) {
  if (!is_known(to, bytes) || !is_known(from, bytes)) return 1;
  note('C');
  return queue(stream, to, from, bytes, 0);
}

EXPORT int cuMemsetD8Async(char *to, unsigned char value, size_t bytes, void *stream) {
  (void)stream;
  if (!is_known(to, bytes)) return 1;
  finish(NULL, 1);
  memset(to, value, bytes);
  note('M');
  return 0;
}

/* ---- modules: kernels do nothing ---- */

static _Thread_local int capture_mode; /* 2: relaxed */

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

EXPORT int cuModuleLoadData(void **module, const void *image) {
  if (is_fault("capturing") && capture_mode != 2) return 900; /* not permitted */
  *module = strdup(image);
  modules += *module != NULL;
  return *module ? 0 : 2;
}

EXPORT int cuModuleUnload(void *module) {
  free(module);
  modules--;
  return 0;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)name;
  *function = module;
  return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)attribute;
  (void)function;
  *value = 0;
  return 0;
}

static char map_text[512];

/* What the last map was made of. */
EXPORT const char *fake_map(void) { return map_text; }

static void add_numbers(const char *name, const uint64_t *number, unsigned count) {
  size_t length = strlen(map_text);
  length += (size_t)snprintf(map_text + length, sizeof map_text - length, "%s", name);
  for (unsigned i = 0; i < count; i++)
    length += (size_t)snprintf(map_text + length, sizeof map_text - length, " %llu",
                               (unsigned long long)number[i]);
}

/* The limits of the real one, for words of 32 bits and rows of 128 bytes, or for words of 64 as they are. */
EXPORT int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, const void *address,
                                  const uint64_t *dims, const uint64_t *strides,
                                  const unsigned *box, const unsigned *steps, int interleave,
                                  int swizzle, int promotion, int fill) {
  int words = type == 2 && swizzle == 3 && box[0] * 4 <= 128;
  int halves = type == 4 && swizzle == 0 && box[0] % 2 == 0;
  if (!(words || halves) || rank < 3 || rank > 5 || interleave != 0 || fill != 0) return 1;
  if (promotion < 0 || promotion > 3) return 1;
  if (!address || (uintptr_t)address % 16 != 0 || (uintptr_t)map % 64 != 0) return 1;
  uint64_t boxes[5];
  for (unsigned i = 0; i < rank; i++) {
    boxes[i] = box[i];
    if (dims[i] == 0 || dims[i] > (uint64_t)1 << 32 || box[i] == 0 || box[i] > 256) return 1;
    if (steps[i] != 1) return 1;
  }
  for (unsigned i = 0; i + 1 < rank; i++)
    if (strides[i] % 16 != 0 || strides[i] >= (uint64_t)1 << 40) return 1;
  map_text[0] = 0;
  add_numbers("dims", dims, rank);
  add_numbers(", strides", strides, rank - 1);
  add_numbers(", box", boxes, rank);
  memset(map, 0, 128);
  return 0;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function;
  (void)attribute;
  (void)value;
  return 0;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_per_sm, void *function,
                                                       int threads, size_t shared) {
  (void)function;
  (void)threads;
  (void)shared;
  *blocks_per_sm = 2;
  return 0;
}

static int launch(char kind, const void *function, const unsigned grid[3],
                  const unsigned threads[3], void **parameters, void **extra) {
  if (!function || !parameters || extra || depth == 0) return 1;
  for (int i = 0; i < 3; i++)
    if (!grid[i] || !threads[i]) return 1;
  if (is_fault("launch") && ++launches == 3) return 999;
  note(kind);
  return 0;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          void *stream, void **parameters, void **extra) {
  const unsigned grid[] = {grid_x, grid_y, grid_z}, threads[] = {block_x, block_y, block_z};
  (void)shared;
  (void)stream;
  return launch('K', function, grid, threads, parameters, extra);
}

/* CUlaunchConfig, with the one attribute that is known here: 6, the kernel may begin before the one before it has ended. */
typedef struct launch_attribute {
  int id;
  char pad[4];
  int allowed;
  char rest[60];
} launch_attribute;

typedef struct launch_config {
  unsigned grid[3], block[3], shared;
  void *stream;
  const launch_attribute *attribute;
  unsigned attribute_count;
} launch_config;

EXPORT int cuLaunchKernelEx(const launch_config *c, void *function, void **parameters,
                            void **extra) {
  if (!c || c->attribute_count != 1 || !c->attribute || c->attribute->id != 6) return 1;
  return launch(c->attribute->allowed ? 'E' : 'K', function, c->grid, c->block, parameters, extra);
}

/* ---- streams and events: every event is a millisecond after the one before ---- */

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  *stream = malloc(1);
  streams += *stream != NULL;
  return *stream ? 0 : 2;
}

EXPORT int cuStreamDestroy_v2(void *stream) {
  finish(stream, 0);
  free(stream);
  streams--;
  return 0;
}

EXPORT int cuStreamSynchronize(void *stream) {
  finish(stream, stream == NULL);
  note('S');
  return 0;
}

EXPORT int cuStreamIsCapturing(void *stream, int *status) {
  if (!stream && is_fault("captured"))
    return 906; /* would end the capture, were it asked to do more */
  *status = 0;
  return 0;
}

EXPORT int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  *event = malloc(1);
  events += *event != NULL;
  return *event ? 0 : 2;
}

EXPORT int cuEventDestroy_v2(void *event) {
  free(event);
  events--;
  return 0;
}

EXPORT int cuEventRecord(void *event, void *stream) {
  (void)stream;
  return event ? 0 : 1;
}

EXPORT int cuEventSynchronize(void *event) {
  finish(NULL, 1);
  return event ? 0 : 1;
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  *milliseconds = 1;
  return begin && end ? 0 : 1;
}

/* There, and never called by a test without a GPU. */
#define UNSUPPORTED(name) \
  EXPORT int name(void) { return 801; }
UNSUPPORTED(cuModuleGetGlobal_v2)
UNSUPPORTED(cuPointerGetAttribute)
UNSUPPORTED(cuStreamBeginCapture_v2)
UNSUPPORTED(cuStreamEndCapture)
UNSUPPORTED(cuGraphInstantiateWithFlags)
UNSUPPORTED(cuGraphLaunch)
UNSUPPORTED(cuGraphExecDestroy)
UNSUPPORTED(cuGraphDestroy)

#endif
