/* SPDX-License-Identifier: Apache-2.0 */
// timeout: 300
/* The cache of compiled kernels where others are in the way: folders that may not be written, full
   disks, other processes. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_client.h"
#include "cuda/cache.h"
#include "sandbox.h"

/* ---------------------------------------------------------------- folders and disks that refuse */

static void refuse_writing(void) {
  client_start();
  client_get(1, 50);
  if (chmod("cache", 0500) != 0 || chmod(".", 0555) != 0) exit(85);
  if (geteuid() == 0 && setuid(4242) != 0) exit(84); /* root may write everywhere */
  unsetenv("FAKE_NVRTC_COUNT");
  client_say_get(2, 50);
  client_say_get(2, 50);
  sandbox_say(" %d", client_files("cache", ""));
  setenv("UPCONV_CACHE_DIR", "elsewhere", 1);
  client_say_get(2, 50);
  client_say_list();
  setenv("UPCONV_CACHE_DIR", "/proc/no/where", 1);
  client_say_get(2, 50);
  client_say_list();
  setenv("UPCONV_CACHE_DIR", "count/is/a/file", 1);
  client_say_get(2, 50);
}

/* Root, who made it, is trusted; so may an administrator fill a cache that all can read. */
static void read_shared(void) {
  client_start();
  client_get(1, 50);
  if (chmod("cache", 0755) != 0 || chmod(".", 0755) != 0) exit(85);
  if (chmod(client_only_file(".bin"), 0644) != 0) exit(85);
  if (geteuid() == 0 && setuid(4242) != 0) exit(84);
  client_say_get(1, 50);
}

static void folders_that_refuse(void) {
  const char *said = sandbox_run(refuse_writing);
  /* Another user than root does not see into the folder. */
  CHECK_MSG(strcmp(said, "mm 2m[elsewhere 0, 0]m[/proc/no/where 0, 0]m") == 0 ||
                strcmp(said, "mm 0m[elsewhere 0, 0]m[/proc/no/where 0, 0]m") == 0,
            "%s", said);
  CHECK_STR(sandbox_run(read_shared), "h");
}

static void limit_files(void) {
  client_start();
  client_get(1, 5000);
  struct rlimit limit = {10000, 10000};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) exit(83);
  client_say_get(1, 5000);
  client_say_get(2, 50000);
  client_say_get(2, 50000);
  client_say_get(3, 5000);
  client_say_get(3, 5000);
  sandbox_say(" %d", client_files("cache", ""));
}

/* A write beyond the limit would end the process with SIGXFSZ. */
static void limited_file_sizes(void) { CHECK_STR(sandbox_run(limit_files), "hmmmh 4"); }

static bool write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

/* Root alone may mount, unless it is in a user namespace, where user and group must be somebody. */
static bool may_mount(void) {
  unsigned user = geteuid(), group = getegid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  char users[64], groups[64];
  snprintf(users, sizeof users, "%u %u 1", user, user);
  snprintf(groups, sizeof groups, "%u %u 1", group, group);
  if (user != 0 &&
      !(write_text("/proc/self/uid_map", users) && write_text("/proc/self/setgroups", "deny") &&
        write_text("/proc/self/gid_map", groups)))
    return false;
  return mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

/* A file system of its own that is nearly full. */
static void fill_disk(void) {
  client_start();
  if (mkdir("cache", 0700) != 0) exit(82);
  if (!may_mount() || mount("none", "cache", "tmpfs", 0, "size=64k,mode=0700") != 0) {
    sandbox_say("not allowed");
    return;
  }
  client_say_get(1, 10000);
  client_say_get(1, 10000);
  client_say_get(2, 200000);
  client_say_get(2, 200000);
  sandbox_say(" %d ", client_files("cache", ""));
  client_say_get(3, 30000); /* the source fits, and the image no more */
  sandbox_say(" %d ", client_files("cache", ""));
  client_say_get(1, 10000);
  umount("cache");
}

static void full_disk(void) {
  const char *said = sandbox_run(fill_disk);
  if (strcmp(said, "not allowed") == 0) CHECK_SKIP("a file system may not be mounted here");
  CHECK_STR(said, "mhmm 2 m 2 h");
}

/* ---------------------------------------------------------------- many at once */

enum { PROCESSES = 8, KERNELS = 12, ROUNDS = 4 };

/* Each process walks the kernels in an order of its own. */
static int ask_all(int process, char allowed) {
  int wrong = 0;
  for (int i = 0; i < KERNELS; i++) {
    int id = (i * 5 + process * 7) % KERNELS;
    char got = client_get(id, 2000 + 100 * (size_t)id);
    wrong += got != 'h' && got != allowed;
  }
  return wrong;
}

static void run_processes(void (*run)(int process)) {
  pid_t child[PROCESSES];
  fflush(NULL);
  for (int i = 0; i < PROCESSES; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      run(i);
      _exit(0);
    }
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status = -1;
    if (child[i] < 0 || waitpid(child[i], &status, 0) != child[i] || status != 0)
      sandbox_say("process %d: %d ", i, status);
  }
}

static void first_run(int process) {
  if (ask_all(process, 'm') != 0) sandbox_say("wrong ");
}

static void second_run(int process) {
  if (ask_all(process, 'h') != 0) sandbox_say("not kept ");
}

static void share(void) {
  client_start();
  run_processes(first_run);
  int first = client_compilations();
  run_processes(second_run);
  sandbox_say("%d %d %d %d", first >= KERNELS && first <= PROCESSES * KERNELS,
              client_compilations() == first, client_files("cache", ".bin"),
              client_files("cache", ""));
}

static void processes_share(void) { CHECK_STR(sandbox_run(share), "1 1 12 24"); }

/* Some ask while others empty the cache, damage entries, and a bound is too small for all. */
static void fight(int process) {
  setenv("UPCONV_CACHE_MAX_MB", "0", 1);
  if (process % 2) setenv("UPCONV_CACHE_MAX_MB", "1", 1);
  for (int i = 0; i < ROUNDS; i++) {
    if (process == 1 && uc_cuda_cache_clear(NULL) != UPCONV_OK) sandbox_say("clear ");
    if (process == 2 && system("for f in cache/*.bin; do echo x > $f; done 2>/dev/null") < 0)
      sandbox_say("system ");
    if (ask_all(process, 'm') != 0) sandbox_say("wrong ");
  }
}

static void quarrel(void) {
  client_start();
  client_get(0, 10);
  run_processes(fight);
  sandbox_say("%d temporary", client_files("cache", "") - client_files("cache", ".bin") -
                                  client_files("cache", ".cu"));
}

static void processes_fight(void) { CHECK_STR(sandbox_run(quarrel), "0 temporary"); }

/* A writer that is killed leaves nothing that a reader takes for an entry. */
static void kill_writers(void) {
  client_start();
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    if (child == 0) {
      for (int id = 0;; id++) client_get(id % 3, 300000);
    }
    usleep(1000 * (useconds_t)(i % 10));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int id = 0; id < 3; id++) {
      char got = client_get(id, 300000);
      if (got != 'h' && got != 'm') sandbox_say("%c", got);
    }
    uc_cuda_cache_clear(NULL);
  }
  sandbox_say(" %d", client_files("cache", ""));
}

static void killed_writers(void) { CHECK_STR(sandbox_run(kill_writers), " 0"); }

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"folders_that_refuse", folders_that_refuse},
      {"limited_file_sizes", limited_file_sizes},
      {"full_disk", full_disk},
      {"processes_share", processes_share},
      {"processes_fight", processes_fight},
      {"killed_writers", killed_writers},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
