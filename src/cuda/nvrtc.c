/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC may be called from several threads: it locks what it must by itself. Loading it is all that
 * happens once.
 */
#include "nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "status.h"
#include "text.h"

typedef struct program_s *program;

/* Results of NVRTC that are told apart here. */
enum { NVRTC_SUCCESS = 0, NVRTC_OUT_OF_MEMORY = 1 };

enum { OLDEST_MAJOR = 12, MAX_ARCHS = 64 };

typedef struct compiler {
  const char *path;
  int major, minor;
  int arch[MAX_ARCHS]; /* compute capabilities that it knows, ascending: 90 is 9.0 */
  int arch_count;

  const char *(*nvrtcGetErrorString)(int result);
  int (*nvrtcVersion)(int *major, int *minor);
  int (*nvrtcGetNumSupportedArchs)(int *count);
  int (*nvrtcGetSupportedArchs)(int *arch);
  int (*nvrtcCreateProgram)(program *program, const char *source, const char *name,
                            int header_count, const char *const *headers,
                            const char *const *header_names);
  int (*nvrtcDestroyProgram)(program *program);
  int (*nvrtcCompileProgram)(program program, int option_count, const char *const *options);
  int (*nvrtcGetProgramLogSize)(program program, size_t *size);
  int (*nvrtcGetProgramLog)(program program, char *log);
  int (*nvrtcGetPTXSize)(program program, size_t *size);
  int (*nvrtcGetPTX)(program program, char *image);
  int (*nvrtcGetCUBINSize)(program program, size_t *size);
  int (*nvrtcGetCUBIN)(program program, char *image);
} compiler;

#define SYMBOL(name) \
  { #name, offsetof(compiler, name) }

static const uc_library_symbol symbols[] = {
    SYMBOL(nvrtcGetErrorString),
    SYMBOL(nvrtcVersion),
    SYMBOL(nvrtcGetNumSupportedArchs),
    SYMBOL(nvrtcGetSupportedArchs),
    SYMBOL(nvrtcCreateProgram),
    SYMBOL(nvrtcDestroyProgram),
    SYMBOL(nvrtcCompileProgram),
    SYMBOL(nvrtcGetProgramLogSize),
    SYMBOL(nvrtcGetProgramLog),
    SYMBOL(nvrtcGetPTXSize),
    SYMBOL(nvrtcGetPTX),
    SYMBOL(nvrtcGetCUBINSize),
    SYMBOL(nvrtcGetCUBIN),
};

/* What the first caller found; never changes afterwards. */
static struct {
  upconv_status status;
  char message[1024];
  compiler compiler;
} loaded;

/* ---------------------------------------------------------------- loading */

static const char *reject(void *handle) {
  void *symbol = dlsym(handle, "nvrtcVersion");
  if (!symbol) return "is not NVRTC";
  int (*get_version)(int *, int *) = NULL;
  memcpy(&get_version, &symbol, sizeof get_version);
  int major = 0, minor = 0;
  if (get_version(&major, &minor) != NVRTC_SUCCESS) return "does not tell its version";
  return major < OLDEST_MAJOR ? "is older than 12.0" : NULL;
}

static upconv_status open_library(uc_library *library) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  static const uc_library_wanted wanted = {
      .what = "NVRTC (NVIDIA's run-time compiler)",
      .variable = "UPCONV_NVRTC",
      .names = names,
      .toolkit = true,
      .reject = reject,
  };
  return uc_library_open(&wanted, library);
}

/* NVRTC loads its built-in functions by name when it compiles, and finds them only if its folder is
   one of the loader's. Once they are loaded from there, the name finds them everywhere. If this
   fails, NVRTC says so later. */
static void load_builtins(const compiler *c) {
  const char *slash = strrchr(c->path, '/');
  char path[4096];
  if (!slash) return;
  int n = snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - c->path),
                   c->path, c->major, c->minor);
  if (n > 0 && (size_t)n < sizeof path) dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static upconv_status check(const compiler *c, int result, const char *what) {
  if (result == NVRTC_SUCCESS) return UPCONV_OK;
  const char *text = c->nvrtcGetErrorString(result);
  return uc_fail(result == NVRTC_OUT_OF_MEMORY ? UPCONV_OUT_OF_MEMORY : UPCONV_DEVICE_ERROR,
                 "%s: %s", what, text ? text : "unknown error");
}

static upconv_status query(compiler *c) {
  upconv_status status = check(c, c->nvrtcVersion(&c->major, &c->minor), "nvrtcVersion");
  if (status != UPCONV_OK) return status;
  int result = c->nvrtcGetNumSupportedArchs(&c->arch_count);
  status = check(c, result, "nvrtcGetNumSupportedArchs");
  if (status != UPCONV_OK) return status;
  if (c->arch_count < 1 || c->arch_count > MAX_ARCHS)
    return uc_fail(UPCONV_DEVICE_ERROR, "%s knows %d architectures; 1 to %d are expected", c->path,
                   c->arch_count, MAX_ARCHS);
  return check(c, c->nvrtcGetSupportedArchs(c->arch), "nvrtcGetSupportedArchs");
}

static upconv_status load(compiler *c) {
  uc_library library;
  upconv_status status = open_library(&library);
  if (status != UPCONV_OK) return status;
  c->path = library.path;
  status = uc_library_symbols(&library, symbols, sizeof symbols / sizeof symbols[0], c);
  if (status == UPCONV_OK) status = query(c);
  if (status == UPCONV_OK) load_builtins(c);
  return status;
}

static void load_once(void) {
  loaded.status = load(&loaded.compiler);
  if (loaded.status != UPCONV_OK)
    snprintf(loaded.message, sizeof loaded.message, "%s", upconv_last_error());
}

/* NULL: there is none; loaded.status and the last error say why. */
static const compiler *get_compiler(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  if (loaded.status == UPCONV_OK) return &loaded.compiler;
  uc_fail(loaded.status, "%s", loaded.message);
  return NULL;
}

upconv_status uc_nvrtc_version(int *major, int *minor) {
  const compiler *c = get_compiler();
  if (!c) return loaded.status;
  *major = c->major;
  *minor = c->minor;
  return UPCONV_OK;
}

const char *uc_nvrtc_path(void) {
  const compiler *c = get_compiler();
  return c ? c->path : NULL;
}

/* ---------------------------------------------------------------- architectures */

/* The newest known architecture that is not newer than `capability`, or 0. */
static int find_arch(const compiler *c, int capability) {
  int found = 0;
  for (int i = 0; i < c->arch_count; i++)
    if (c->arch[i] <= capability && c->arch[i] > found) found = c->arch[i];
  return found;
}

/* Features of one device alone began with 9.0. */
static bool has_specific(int capability) { return capability >= 90; }

bool uc_nvrtc_supports(const char *arch) {
  const compiler *c = get_compiler();
  if (!c) return false;
  int capability, length = 0;
  if (sscanf(arch, "sm_%d%n", &capability, &length) != 1 &&
      sscanf(arch, "compute_%d%n", &capability, &length) != 1)
    return false;
  if (capability <= 0 || find_arch(c, capability) != capability) return false;
  const char *suffix = arch + length;
  return *suffix == '\0' || (strcmp(suffix, "a") == 0 && has_specific(capability));
}

upconv_status uc_nvrtc_choose_arch(int major, int minor, bool specific,
                                   char arch[UC_CUDA_ARCH_SIZE]) {
  const compiler *c = get_compiler();
  if (!c) return loaded.status;
  int capability = 10 * major + minor;
  int found = find_arch(c, capability);
  if (!found)
    return uc_fail(UPCONV_UNSUPPORTED,
                   "compute capability %d.%d: NVRTC %d.%d supports %d.%d and later", major, minor,
                   c->major, c->minor, c->arch[0] / 10, c->arch[0] % 10);
  if (specific && (found != capability || !has_specific(capability)))
    return uc_fail(UPCONV_UNSUPPORTED,
                   "compute capability %d.%d: NVRTC %d.%d does not know features of it alone",
                   major, minor, c->major, c->minor);
  uc_text text;
  uc_text_init(&text, arch, UC_CUDA_ARCH_SIZE);
  uc_text_add(&text, "%s_%d%s", found == capability ? "sm" : "compute", found, specific ? "a" : "");
  return UPCONV_OK;
}

/* ---------------------------------------------------------------- compiling */

/* The line of the log that says best what went wrong: the first with "error" in it, else the first.
   */
static void find_error_line(const char *log, const char **line, int *length) {
  const char *error = strstr(log, ": error");
  if (!error) error = strstr(log, "error");
  const char *begin = error ? error : log + strspn(log, "\r\n \t");
  while (begin > log && begin[-1] != '\n') begin--;
  begin += strspn(begin, " \t");
  *line = begin;
  *length = (int)strcspn(begin, "\r\n");
}

/* "" when there is none to be had. NULL: no memory. */
static char *read_log(const compiler *c, program p) {
  size_t size = 0;
  if (c->nvrtcGetProgramLogSize(p, &size) != NVRTC_SUCCESS) size = 0;
  char *log = calloc(size + 1, 1);
  if (log && size > 1 && c->nvrtcGetProgramLog(p, log) != NVRTC_SUCCESS) log[0] = '\0';
  return log;
}

static upconv_status fail_to_compile(const compiler *c, int result, const char *arch,
                                     const char *log) {
  const char *line = "";
  int length = 0;
  if (log) find_error_line(log, &line, &length);
  upconv_status status = check(c, result, "NVRTC");
  if (length == 0) return uc_fail_in(status, "kernel for %s", arch);
  return uc_fail(status, "kernel for %s: NVRTC %d.%d: %.*s", arch, c->major, c->minor, length,
                 line);
}

static upconv_status read_image(const compiler *c, program p, bool ptx, void **image,
                                size_t *size) {
  size_t bytes = 0;
  int result = ptx ? c->nvrtcGetPTXSize(p, &bytes) : c->nvrtcGetCUBINSize(p, &bytes);
  upconv_status status = check(c, result, ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
  if (status != UPCONV_OK) return status;
  if (bytes == 0) return uc_fail(UPCONV_DEVICE_ERROR, "NVRTC gave an empty image");
  char *data = malloc(bytes);
  if (!data) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a kernel of %zu bytes", bytes);
  result = ptx ? c->nvrtcGetPTX(p, data) : c->nvrtcGetCUBIN(p, data);
  status = check(c, result, ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
  if (status != UPCONV_OK) {
    free(data);
    return status;
  }
  *image = data;
  *size = bytes;
  return UPCONV_OK;
}

/* Compiles a program that exists. option[0] is left for the architecture. */
static upconv_status compile(const compiler *c, program p, const char *arch, const char **option,
                             int option_count, void **image, size_t *size, char **log) {
  char arch_option[64];
  snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%.32s", arch);
  option[0] = arch_option;
  int result = c->nvrtcCompileProgram(p, option_count, option);
  char *text = read_log(c, p);
  upconv_status status;
  if (result != NVRTC_SUCCESS)
    status = fail_to_compile(c, result, arch, text);
  else if (!text)
    status = uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the compiler's log");
  else
    status = read_image(c, p, strncmp(arch, "compute_", 8) == 0, image, size);
  if (log)
    *log = text;
  else
    free(text);
  return status;
}

upconv_status uc_nvrtc_compile(const char *source, const char *arch, const char *const *options,
                               int option_count, void **image, size_t *size, char **log) {
  if (log) *log = NULL;
  const compiler *c = get_compiler();
  if (!c) return loaded.status;
  const char **option = calloc((size_t)option_count + 1, sizeof *option);
  if (!option) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %d options", option_count);
  for (int i = 0; i < option_count; i++) option[i + 1] = options[i];
  program p = NULL;
  int result = c->nvrtcCreateProgram(&p, source, "upconv.cu", 0, NULL, NULL);
  upconv_status status = check(c, result, "nvrtcCreateProgram");
  if (status == UPCONV_OK) {
    status = compile(c, p, arch, option, option_count + 1, image, size, log);
    c->nvrtcDestroyProgram(&p);
  }
  free(option);
  return status;
}
