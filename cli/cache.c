/* SPDX-License-Identifier: Apache-2.0 */
/* upconv cache */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "commands.h"
#include "cuda/cache.h"
#include "units.h"

typedef struct cache_values {
  bool clear;
  arg_list positionals;
} cache_values;

static void print_kernels(int64_t entries, int64_t bytes) {
  char size[UNITS_SIZE];
  if (bytes == 0) {
    printf("nothing");
    return;
  }
  printf("%" PRId64 " kernel%s, %s", entries, entries == 1 ? "" : "s",
         units_bytes((double)bytes, size));
}

static void print_cache(const uc_cuda_cache_info *info, bool clear) {
  if (!info->directory) {
    printf("no cache: UPCONV_CACHE_DIR is empty, or there is no home folder\n");
    return;
  }
  printf("%s: %s", info->directory, clear ? "removed " : "");
  print_kernels(info->entries, info->bytes);
  char limit[UNITS_SIZE];
  if (!clear) printf(" of at most %s", units_bytes((double)info->limit, limit));
  printf("\n");
}

static int run(const void *data) {
  const cache_values *values = data;
  uc_cuda_cache_info info;
  upconv_status status = values->clear ? uc_cuda_cache_clear(&info) : uc_cuda_cache_list(&info);
  if (status != UPCONV_OK) return cli_fail_library("cache");
  print_cache(&info, values->clear);
  free(info.directory);
  return CLI_RIGHT;
}

static const arg_option options[] = {
    {"clear", ARG_FLAG, NULL, offsetof(cache_values, clear), 0, 0, "removes all kernels"},
};

const arg_command command_cache = {
    .name = "cache",
    .summary = "Shows or empties the folder of kernels compiled for GPUs.",
    .usage = "[--clear]",
    .details =
        "Kernels are compiled the first time that a plan needs them, and kept in UPCONV_CACHE_DIR, "
        "XDG_CACHE_HOME/upconv or ~/.cache/upconv. UPCONV_CACHE_MAX_MB bounds the folder (512 if "
        "not set); what was not used for longest goes first. An empty UPCONV_CACHE_DIR turns the "
        "cache off.",
    .examples = "  upconv cache\n"
                "  upconv cache --clear\n"
                "  UPCONV_CACHE_DIR=/scratch/kernels upconv cache\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(cache_values),
    .positionals = offsetof(cache_values, positionals),
    .run = run,
};
