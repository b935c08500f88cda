/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for NVRTC: the image of a kernel is the path of a library that the host's compiler made of its text. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

struct Program {
  std::string source, image, log;
};

static std::string environment(const char *name, const std::string &otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

static uint64_t hash_of(const std::string &text) {
  uint64_t h = 1469598103934665603u;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211u;
  return h;
}

static void read_all(const std::string &path, std::string &text) {
  FILE *f = fopen(path.c_str(), "rb");
  char part[4096];
  if (!f) return;
  while (size_t n = fread(part, 1, sizeof part, f)) text.append(part, n);
  fclose(f);
}

extern "C" {
const char *nvrtcGetErrorString(int result) { return result ? "compilation" : "success"; }
int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
int nvrtcGetNumSupportedArchs(int *count) { return *count = 5, 0; }
int nvrtcGetSupportedArchs(int *arch) {
  const int known[5] = {75, 80, 86, 89, 90};
  memcpy(arch, known, sizeof known);
  return 0;
}
int nvrtcCreateProgram(Program **p, const char *source, const char *, int, const char *const *,
                       const char *const *) {
  *p = new Program{source, "", ""};
  return 0;
}
int nvrtcDestroyProgram(Program **p) { return delete *p, *p = nullptr, 0; }

int nvrtcCompileProgram(Program *p, int count, const char *const *option) {
  std::string arch = "900", here = environment("EMULATOR_SOURCE", EMULATOR_SOURCE), all;
  for (int i = 0; i < count; i++)
    if (const char *sm = strstr(option[i], "sm_")) arch = std::string(sm + 3, 2) + "0";
  std::string flags =
      environment("EMULATOR_FLAGS", "-O1 -march=native -ffp-contract=off -fno-strict-aliasing");
  for (const char *name : {"/prelude.h", "/transform.py"}) read_all(here + name, all);
  std::string change = environment(
      "EMULATOR_CHANGE", ""); /* of the text: a sed script, to see that a test notices it */
  all += change + arch + flags + p->source;
  char name[64];
  snprintf(name, sizeof name, "%016llx", (unsigned long long)hash_of(all));
  std::string cache = environment("EMULATOR_CACHE", "/tmp/upconv_emulator");
  mkdir(cache.c_str(), 0777);
  std::string base = cache + "/" + name, mine = base + "." + std::to_string(getpid());
  if (access((base + ".so").c_str(), R_OK) != 0) {
    FILE *f = fopen((mine + ".cu").c_str(), "w");
    if (!f) return 1;
    fwrite(p->source.data(), 1, p->source.size(), f);
    fclose(f);
    std::string command = "exec 2>" + mine + ".log; sed -i \"$EMULATOR_CHANGE\" " + mine +
                          ".cu && g++ -E -P -w -x c++ -D__CUDA_ARCH__=" + arch +
                          " -D__CUDACC__=1 " + mine + ".cu -o " + mine + ".ii && python3 " + here +
                          "/transform.py " + mine + ".ii " + mine + ".cpp && g++ " + flags +
                          " -std=c++17 -w -fpermissive -shared -fPIC -I" + here + " " + mine +
                          ".cpp -o " + mine + ".so";
    int result = system(command.c_str());
    read_all(mine + ".log", p->log);
    if (result != 0)
      return fprintf(stderr, "emulator: %s.cpp: %s\n", mine.c_str(), p->log.c_str()), 6;
    if (!p->log.empty()) fprintf(stderr, "%s", p->log.c_str());
    for (const char *end : {".cu", ".cpp", ".so"})
      rename((mine + end).c_str(), (base + end).c_str());
    for (const char *end : {".ii", ".log"}) unlink((mine + end).c_str());
  }
  if (const char *used = getenv("EMULATOR_USED")) {
    FILE *f = fopen(used, "a");
    if (f) fprintf(f, "%s.cu\n", base.c_str()), fclose(f);
  }
  p->image = "EMULATOR" + base + ".so";
  p->image.push_back('\0');
  return 0;
}
int nvrtcGetProgramLogSize(Program *p, size_t *size) { return *size = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *p, char *log) { return strcpy(log, p->log.c_str()), 0; }
int nvrtcGetPTXSize(Program *p, size_t *size) { return *size = p->image.size(), 0; }
int nvrtcGetPTX(Program *p, char *image) {
  return memcpy(image, p->image.data(), p->image.size()), 0;
}
int nvrtcGetCUBINSize(Program *p, size_t *size) { return nvrtcGetPTXSize(p, size); }
int nvrtcGetCUBIN(Program *p, char *image) { return nvrtcGetPTX(p, image); }
}
