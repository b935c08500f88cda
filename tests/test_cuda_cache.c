/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled kernels: what hits, where it lies, what is damaged, what does not fit. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache_client.h"
#include "cuda/cache.h"
#include "sandbox.h"

/* ---------------------------------------------------------------- hits */

static void ask_twice(void) {
  client_start();
  client_say_list();
  client_say_get(1, 100);
  client_say_get(1, 100);
  client_say_get(2, 100);
  client_say_get(1, 100);
  sandbox_say(" %d compilations, %d images, %d sources, %d files", client_compilations(),
              client_files("cache", ".bin"), client_files("cache", ".cu"),
              client_files("cache", ""));
  struct stat folder;
  if (stat("cache", &folder) == 0) sandbox_say(", mode %o", folder.st_mode & 0777);
}

static void second_time_hits(void) {
  CHECK_STR(sandbox_run(ask_twice),
            "[cache 0, 0]mhmh 2 compilations, 2 images, 2 sources, 4 files, mode 700");
}

/* All that decides an image is part of the key. */
static void ask_variants(void) {
  static const char *const one[] = {"ab", "c"}, *const two[] = {"a", "bc"};
  client_start();
  for (int i = 0; i < 2; i++) {
    sandbox_say("%c", client_get_for(1, 10, "sm_80", NULL, 0));
    sandbox_say("%c", client_get_for(1, 10, "sm_90", NULL, 0));
    sandbox_say("%c", client_get_for(1, 10, "sm_80", one, 1));
    sandbox_say("%c", client_get_for(1, 10, "sm_80", one, 2));
    sandbox_say("%c", client_get_for(1, 10, "sm_80", two, 2));
    sandbox_say("%c", client_get_for(2, 10, "sm_80", NULL, 0));
    sandbox_say("%c ", client_get_for(1, 11, "sm_80", NULL, 0));
  }
}

static void variants_are_apart(void) { CHECK_STR(sandbox_run(ask_variants), "mmmmmmm hhhhhhh "); }

/* A process loads one compiler: versions need a process each. */
static void ask_with_version(const char *version) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_NVRTC_VERSION", version, 1);
    client_say_get(1, 10);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void ask_versions(void) {
  client_start();
  ask_with_version("13.0");
  ask_with_version("12.9");
  ask_with_version("13.0");
  ask_with_version("12.9");
}

static void compiler_version_is_part_of_the_key(void) {
  CHECK_STR(sandbox_run(ask_versions), "mmhh");
}

static void compile_error(void) {
  client_start();
  void *image = NULL;
  size_t size = 0;
  bool hit = true;
  upconv_status status = uc_cuda_cache_get("#error", "sm_80", NULL, 0, &image, &size, &hit);
  sandbox_say("%d %d %d %d; %s", status, image == NULL, hit, client_files("cache", ""),
              upconv_last_error());
}

static void errors_are_not_kept(void) {
  CHECK_STR(sandbox_run(compile_error),
            "5 1 1 0; kernel for sm_80: NVRTC 13.0: upconv.cu(7): error: this is it");
}

/* The source beside the image says how to compile it again, on one line whatever the options hold.
   */
static void look_at_source(void) {
  static const char *const options[] = {"-DA=1", "-DB=x\ny", "-DC=\\"};
  client_start();
  client_get_for(1, 3, "sm_90a", options, 3);
  size_t size;
  char *text = client_read(client_only_file(".cu"), &size);
  sandbox_say("%s", text);
  free(text);
}

static void source_lies_beside(void) {
  CHECK_STR(sandbox_run(look_at_source),
            "// NVRTC 13.0 --gpu-architecture=sm_90a -DA=1 -DB=x y -DC= \nkernel 1\nbbb");
}

/* ---------------------------------------------------------------- where */

static void look_for_folders(void) {
  client_start();
  setenv("XDG_CACHE_HOME", "relative", 1); /* which the XDG specification says to ignore */
  unsetenv("UPCONV_CACHE_DIR");
  client_say_get(1, 10);
  sandbox_say("%d ", client_files(".cache/upconv", ".bin"));
  char path[4096];
  snprintf(path, sizeof path, "%s/xdg/deep", getenv("HOME"));
  setenv("XDG_CACHE_HOME", path, 1);
  client_say_get(1, 10);
  sandbox_say("%d ", client_files("xdg/deep/upconv", ".bin"));
  setenv("UPCONV_CACHE_DIR", "a/b/c/", 1);
  client_say_get(1, 10);
  sandbox_say("%d ", client_files("a/b/c", ".bin"));
}

static void folders(void) { CHECK_STR(sandbox_run(look_for_folders), "m1 m1 m1 "); }

static void turn_off(void) {
  client_start();
  setenv("UPCONV_CACHE_DIR", "", 1);
  client_say_get(1, 10);
  client_say_get(1, 10);
  client_say_list();
  unsetenv("UPCONV_CACHE_DIR");
  unsetenv("HOME");
  client_say_get(1, 10);
  client_say_get(1, 10);
  uc_cuda_cache_info info;
  sandbox_say("%d", uc_cuda_cache_clear(&info));
  sandbox_say("%d %d", info.directory == NULL, client_files(".", "upconv"));
}

static void empty_variable_turns_it_off(void) {
  CHECK_STR(sandbox_run(turn_off), "mm[none 0, 0]mm01 0");
}

/* ---------------------------------------------------------------- damage */

/* One bit of the file turned over, for every byte of the header and some of the image. */
static void flip_bits(void) {
  client_start();
  client_get(1, 300);
  const char *path = client_only_file(".bin");
  size_t size;
  char *good = client_read(path, &size);
  int bad = 0, rebuilt = 0;
  for (size_t i = 0; i < size; i += i < 100 ? 1 : 13) {
    good[i] ^= 4;
    sandbox_write(path, good, size);
    good[i] ^= 4;
    if (client_get(1, 300) != 'm') bad++;
    if (client_get(1, 300) == 'h') rebuilt++;
  }
  sandbox_say("%d %d", bad, rebuilt > 100);
  free(good);
}

static void damaged_entries_are_rebuilt(void) { CHECK_STR(sandbox_run(flip_bits), "0 1"); }

static void change_sizes(void) {
  client_start();
  client_get(1, 300);
  const char *path = client_only_file(".bin");
  size_t size;
  char *good = client_read(path, &size);
  int bad = 0;
  for (size_t length = 0; length < size; length += length < 100 ? 7 : 61) {
    sandbox_write(path, good, length);
    if (client_get(1, 300) != 'm' || client_get(1, 300) != 'h') bad++;
  }
  sandbox_write(path, good, size + 1); /* client_read adds a byte */
  if (client_get(1, 300) != 'm' || client_get(1, 300) != 'h') bad++;
  sandbox_say("%d", bad);
  free(good);
}

static void truncated_entries_are_rebuilt(void) { CHECK_STR(sandbox_run(change_sizes), "0"); }

/* A whole entry under the wrong name. */
static void swap_entries(void) {
  client_start();
  client_get(1, 50);
  char path[512];
  snprintf(path, sizeof path, "%s", client_only_file(".bin"));
  if (rename(path, "first") != 0) exit(89);
  client_get(2, 50);
  if (rename(client_only_file(".bin"), path) != 0) exit(89);
  client_say_get(1, 50);
  client_say_get(1, 50);
}

static void entries_know_their_keys(void) { CHECK_STR(sandbox_run(swap_entries), "mh"); }

/* What is no file is not read, and does not block. */
static void put_others(void) {
  client_start();
  client_get(1, 50);
  char path[512];
  snprintf(path, sizeof path, "%s", client_only_file(".bin"));
  if (rename(path, "kept") != 0 || symlink("../kept", path) != 0) exit(89);
  client_say_get(1, 50);
  client_say_get(1, 50);
  if (unlink(path) != 0 || mkfifo(path, 0600) != 0) exit(88);
  client_say_get(1, 50);
  client_say_get(1, 50);
  if (unlink(path) != 0 || mkdir(path, 0700) != 0) exit(87);
  client_say_get(1, 50);
  client_say_get(1, 50);
}

static void strange_files(void) { CHECK_STR(sandbox_run(put_others), "mhmhmm"); }

static void change_owner(void) {
  client_start();
  client_get(1, 50);
  if (chown(client_only_file(".bin"), 4242, 4242) != 0) exit(86);
  client_say_get(1, 50);
  client_say_get(1, 50);
}

static void others_files_are_not_trusted(void) {
  if (geteuid() != 0) CHECK_SKIP("only root can give files away");
  CHECK_STR(sandbox_run(change_owner), "mh");
}

/* ---------------------------------------------------------------- the bound */

static void set_age(const char *path, int seconds) {
  struct timespec now[2];
  clock_gettime(CLOCK_REALTIME, &now[0]);
  now[0].tv_sec -= seconds;
  now[1] = now[0];
  if (utimensat(AT_FDCWD, path, now, 0) != 0) exit(81);
}

static void ask_later(int id, size_t size) {
  usleep(30000); /* longer than the tick of a file system's clock */
  client_say_get(id, size);
}

/* Six kernels of 2 * 120 kB, image and source, of which four fit into 1 MB. Using one keeps it. */
static void overflow_bound(void) {
  client_start();
  setenv("UPCONV_CACHE_MAX_MB", "1", 1);
  for (int id = 1; id <= 4; id++) ask_later(id, 120000);
  for (int id = 1; id <= 4; id++) ask_later(id, 120000);
  ask_later(1, 120000); /* 2 is the oldest now */
  ask_later(5, 120000);
  ask_later(6, 120000);
  sandbox_say(" %d %d ", client_files("cache", ".bin"), client_files("cache", ".cu"));
  static const int ids[] = {1, 4, 5, 6};
  for (int i = 0; i < 4; i++) ask_later(ids[i], 120000);
  ask_later(2, 120000);
  uc_cuda_cache_info info;
  if (uc_cuda_cache_list(&info) != UPCONV_OK) return;
  sandbox_say(" %d %d", (int)info.limit, info.bytes <= info.limit);
  free(info.directory);
}

static void least_recently_used_goes(void) {
  CHECK_STR(sandbox_run(overflow_bound), "mmmmhhhhhmm 4 4 hhhhm 1000000 1");
}

/* One image less would be enough, but its source is of no use without it. */
static void overflow_a_little(void) {
  client_start();
  setenv("UPCONV_CACHE_MAX_MB", "1", 1);
  for (int id = 1; id <= 4; id++) ask_later(id, 124000);
  sandbox_say(" %d ", client_files("cache", ""));
  ask_later(5, 5000);
  sandbox_say("%d %d ", client_files("cache", ".bin"), client_files("cache", ".cu"));
  client_say_get(2, 124000);
}

static void image_takes_source_along(void) {
  CHECK_STR(sandbox_run(overflow_a_little), "mmmm 8 m4 4 h");
}

static void exceed_bound(void) {
  client_start();
  setenv("UPCONV_CACHE_MAX_MB", "1", 1);
  client_say_get(1, 100);
  client_say_get(2, 600000);
  client_say_get(2, 600000);
  client_say_get(1, 100);
  static const char *const bad[] = {"", "x", "-5", "1.5", "99999999999999999999", " 7"};
  for (size_t i = 0; i < CHECK_COUNT(bad); i++) {
    uc_cuda_cache_info info;
    setenv("UPCONV_CACHE_MAX_MB", bad[i], 1);
    if (uc_cuda_cache_list(&info) != UPCONV_OK) return;
    sandbox_say(" %lld", (long long)info.limit / 1000000);
    free(info.directory);
  }
}

/* What alone is larger than the bound does not push out the rest. */
static void too_large_is_not_kept(void) {
  CHECK_STR(sandbox_run(exceed_bound), "mmmh 512 512 512 512 512 512");
}

static void leave_temporaries(void) {
  client_start();
  client_get(1, 10);
  sandbox_write("cache/.tmp-old", "12345", 5);
  sandbox_write("cache/.tmp-new", "12345", 5);
  set_age("cache/.tmp-old", 7200);
  client_get(2, 10);
  sandbox_say("%d %d", client_files("cache", ".tmp-old"), client_files("cache", ".tmp-new"));
}

static void old_temporaries_go(void) { CHECK_STR(sandbox_run(leave_temporaries), "0 1"); }

/* ---------------------------------------------------------------- list and clear */

static void clear(void) {
  client_start();
  for (int id = 0; id < 3; id++) client_get(id, 100);
  sandbox_write("cache/notes.txt", "mine", 4);
  sandbox_write("cache/.tmp-left", "123", 3);
  char name[128] = "cache/";
  memset(name + 6, 'f', 64);
  memcpy(name + 70, ".txt", 5); /* like an entry, but not one */
  sandbox_write(name, "mine", 4);
  client_say_list();
  uc_cuda_cache_info info;
  sandbox_say(" %d", uc_cuda_cache_clear(&info));
  sandbox_say(" %s %d, %lld ", info.directory, (int)info.entries, (long long)info.bytes);
  free(info.directory);
  client_say_list();
  sandbox_say(" %d %d ", client_files("cache", ""), client_files("cache", ".txt"));
  client_say_get(1, 100);
}

static void clear_removes_entries_alone(void) {
  const char *said = sandbox_run(clear);
  int listed = 0, removed = 0, end = 0;
  CHECK_INT(
      sscanf(said, "[cache 3, %d] 0 cache 3, %d [cache 0, 0] 2 2 m%n", &listed, &removed, &end), 2);
  CHECK_MSG(said[end] == '\0' && end > 0 && listed == removed && listed > 600, "%s", said);
}

static void clear_fails(void) {
  client_start();
  client_get(1, 100);
  char path[512];
  snprintf(path, sizeof path, "%s", client_only_file(".bin"));
  if (unlink(path) != 0 || mkdir(path, 0700) != 0) exit(80);
  uc_cuda_cache_info info = {.entries = 77};
  sandbox_say("%d %d %s", uc_cuda_cache_clear(&info), (int)info.entries, upconv_last_error());
  setenv("UPCONV_CACHE_DIR", "count", 1);
  sandbox_say(" | %d", uc_cuda_cache_list(&info));
  sandbox_say(" %s", upconv_last_error());
}

static void failures_are_told(void) {
  const char *said = sandbox_run(clear_fails);
  CHECK_SAYS(said, "1 77 kernel cache: cache/");
  CHECK_SAYS(said, ".bin cannot be removed: ");
  CHECK_SAYS(said, " | 1 kernel cache count: Not a directory");
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"second_time_hits", second_time_hits},
      {"variants_are_apart", variants_are_apart},
      {"compiler_version_is_part_of_the_key", compiler_version_is_part_of_the_key},
      {"errors_are_not_kept", errors_are_not_kept},
      {"source_lies_beside", source_lies_beside},
      {"folders", folders},
      {"empty_variable_turns_it_off", empty_variable_turns_it_off},
      {"damaged_entries_are_rebuilt", damaged_entries_are_rebuilt},
      {"truncated_entries_are_rebuilt", truncated_entries_are_rebuilt},
      {"entries_know_their_keys", entries_know_their_keys},
      {"strange_files", strange_files},
      {"others_files_are_not_trusted", others_files_are_not_trusted},
      {"least_recently_used_goes", least_recently_used_goes},
      {"image_takes_source_along", image_takes_source_along},
      {"too_large_is_not_kept", too_large_is_not_kept},
      {"old_temporaries_go", old_temporaries_go},
      {"clear_removes_entries_alone", clear_removes_entries_alone},
      {"failures_are_told", failures_are_told},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
