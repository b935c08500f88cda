/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target without a fuzzer: on each file of the folders (or files) named on the command line, on each file cut
 * short, and on a few fixed inputs, so that the corpus is an ordinary test with any compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long inputs_run;

/* The target gets a copy of exactly `size` bytes, so that a sanitizer or valgrind sees a read past the end. */
static void run_input(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) exit(1);
  if (size) memcpy(copy, data, size);
  (void)LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  inputs_run++;
}

static int run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "cannot open %s\n", path);
    return 1;
  }
  uint8_t *data = NULL;
  size_t size = 0;
  uint8_t block[4096];
  while (!feof(file) && !ferror(file)) {
    size_t got = fread(block, 1, sizeof block, file);
    if (got == 0) break;
    uint8_t *grown = realloc(data, size + got);
    if (!grown) exit(1);
    data = grown;
    memcpy(data + size, block, got);
    size += got;
  }
  fclose(file);
  run_input(data, size);
  for (size_t part = 1; part < 16; part++) run_input(data, size * part / 16);
  free(data);
  return 0;
}

static int run_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) {
    fprintf(stderr, "cannot open %s\n", path);
    return 1;
  }
  int failed = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char name[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    failed |= run_file(name);
  }
  closedir(folder);
  return failed;
}

int main(int argc, char **argv) {
  static const uint8_t bytes[64] = {0};
  uint8_t ones[64];
  memset(ones, 0xFF, sizeof ones);
  run_input(bytes, 0);
  run_input(bytes, sizeof bytes);
  run_input(ones, sizeof ones);
  int failed = 0;
  for (int i = 1; i < argc; i++) {
    struct stat info;
    if (stat(argv[i], &info) != 0) {
      fprintf(stderr, "there is no %s\n", argv[i]);
      failed = 1;
    } else {
      failed |= S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
  }
  printf("%ld passed, %d failed\n", inputs_run, failed);
  return failed;
}
