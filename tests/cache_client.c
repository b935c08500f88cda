/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_client.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda/cache.h"
#include "sandbox.h"

void client_start(void) {
  setenv("UPCONV_NVRTC", UPCONV_FAKES "/fake_nvrtc.so", 1);
  setenv("UPCONV_CACHE_DIR", "cache", 1);
  setenv("FAKE_NVRTC_COUNT", "count", 1);
}

static char *make_source(int id, size_t size) {
  char *source = malloc(size + 64);
  if (!source) exit(93);
  int n = snprintf(source, 64, "kernel %d\n", id);
  memset(source + n, 'a' + id % 26, size);
  source[(size_t)n + size] = '\0';
  return source;
}

/* As the stand-in makes it. */
static bool is_right(const char *image, size_t size, const char *source, const char *arch,
                     const char *const *options, int count) {
  char head[1024];
  int n = snprintf(head, sizeof head, "--gpu-architecture=%s ", arch);
  for (int i = 0; i < count; i++)
    n += snprintf(head + n, sizeof head - (size_t)n, "%s ", options[i]);
  n += snprintf(head + n, sizeof head - (size_t)n, ": ");
  return size == (size_t)n + strlen(source) + 1 && memcmp(image, head, (size_t)n) == 0 &&
         memcmp(image + n, source, size - (size_t)n) == 0;
}

char client_get_for(int id, size_t size, const char *arch, const char *const *options, int count) {
  char *source = make_source(id, size);
  void *image = NULL;
  size_t image_size = 0;
  bool hit = false;
  char result = 'E';
  if (uc_cuda_cache_get(source, arch, options, count, &image, &image_size, &hit) == UPCONV_OK) {
    bool right = is_right(image, image_size, source, arch, options, count);
    result = !right ? 'B' : hit ? 'h' : 'm';
    free(image);
  }
  free(source);
  return result;
}

char client_get(int id, size_t size) { return client_get_for(id, size, "sm_80", NULL, 0); }

void client_say_get(int id, size_t size) { sandbox_say("%c", client_get(id, size)); }

void client_say_list(void) {
  uc_cuda_cache_info info;
  if (uc_cuda_cache_list(&info) != UPCONV_OK) {
    sandbox_say("[%s]", upconv_last_error());
    return;
  }
  sandbox_say("[%s %d, %lld]", info.directory ? info.directory : "none", (int)info.entries,
              (long long)info.bytes);
  free(info.directory);
}

int client_compilations(void) {
  struct stat file;
  return stat("count", &file) == 0 ? (int)file.st_size : 0;
}

static bool ends_with(const char *name, const char *suffix) {
  size_t a = strlen(name), b = strlen(suffix);
  return a >= b && strcmp(name + a - b, suffix) == 0;
}

/* name may be NULL; it receives one of them. */
static int find_files(const char *folder, const char *suffix, char *name, size_t capacity) {
  DIR *stream = opendir(folder);
  if (!stream) return 0;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(stream));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (!ends_with(entry->d_name, suffix)) continue;
    count++;
    if (name) snprintf(name, capacity, "%s/%s", folder, entry->d_name);
  }
  closedir(stream);
  return count;
}

int client_files(const char *folder, const char *suffix) {
  return find_files(folder, suffix, NULL, 0);
}

const char *client_only_file(const char *suffix) {
  static char name[512];
  if (find_files("cache", suffix, name, sizeof name) != 1) exit(92);
  return name;
}

char *client_read(const char *path, size_t *size) {
  struct stat info;
  FILE *file = fopen(path, "rb");
  if (!file || stat(path, &info) != 0) exit(91);
  *size = (size_t)info.st_size;
  char *data = malloc(*size + 1);
  if (!data || fread(data, 1, *size, file) != *size) exit(90);
  data[*size] = '\0';
  fclose(file);
  return data;
}
