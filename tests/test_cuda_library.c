/* SPDX-License-Identifier: Apache-2.0 */
/* Where libraries are looked for, in which order, and what is said when there are none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/library.h"
#include "sandbox.h"

#define FAKE UPCONV_FAKES "/fake_nvrtc.so"
#define OTHER UPCONV_FAKES "/fake_driver.so"

static const char *const names[] = {"libupconv_wanted.so.2", "libupconv_wanted.so.1", NULL};

static const uc_library_wanted wanted = {
    .what = "the wanted library", .variable = "UPCONV_NVRTC", .names = names, .toolkit = true};

/* Says under which path the library was found, or why it was not. */
static void look_for(const uc_library_wanted *what) {
  uc_library library;
  if (uc_library_open(what, &library) != UPCONV_OK) {
    sandbox_say("%s", upconv_last_error());
    return;
  }
  sandbox_say("%s", library.path);
  free(library.path);
  dlclose(library.handle);
}

static void look(void) { look_for(&wanted); }

/* ---- nothing there */

static void find_nothing(void) {
  setenv("CUDA_HOME", "/toolkit", 1);
  look();
}

static void nothing_says_where(void) {
  const char *said = sandbox_run(find_nothing);
  static const char begin[] = "the wanted library was not found: looked for libupconv_wanted.so.2, "
                              "libupconv_wanted.so.1 in the loader's path, /toolkit/lib64";
  CHECK_SAYS(said, begin);
  CHECK_SAYS(said, "; UPCONV_NVRTC can name the file");
}

/* ---- the variable */

static void name_fake(void) {
  setenv("UPCONV_NVRTC", FAKE, 1);
  look();
}

static void name_nothing(void) {
  setenv("UPCONV_NVRTC", "/no/such.so", 1);
  sandbox_link(FAKE, "toolkit/lib64/libupconv_wanted.so.1");
  setenv("CUDA_HOME", "toolkit", 1); /* not used: what a user named is what a user gets */
  look();
}

static void name_bare(void) {
  setenv("UPCONV_NVRTC", "libupconv_nosuch.so", 1);
  look();
}

static void name_garbage(void) {
  sandbox_write("garbage.so", "garbage", 7);
  setenv("UPCONV_NVRTC", "./garbage.so", 1);
  look();
}

static void variable_decides(void) {
  CHECK_STR(sandbox_run(name_fake), FAKE);
  const char *said = sandbox_run(name_nothing);
  CHECK_SAYS(said, "UPCONV_NVRTC = \"/no/such.so\" is not the wanted library: /no/such.so: ");
  CHECK_STR(sandbox_run(name_bare),
            "UPCONV_NVRTC = \"libupconv_nosuch.so\" is not the wanted library: no such file");
  said = sandbox_run(name_garbage);
  CHECK_SAYS(said, "is not the wanted library: ./garbage.so: file too short");
}

/* ---- toolkits and packages */

static void have_toolkit(void) {
  sandbox_link(FAKE, "toolkit/lib64/libupconv_wanted.so.1");
  setenv("CUDA_HOME", "toolkit", 1);
  look();
}

/* The newer name wins within a folder, the earlier folder wins over a newer name. */
static void have_two_toolkits(void) {
  sandbox_link(FAKE, "path/lib64/libupconv_wanted.so.2");
  sandbox_link(OTHER, "home/lib64/libupconv_wanted.so.1");
  setenv("CUDA_HOME", "home", 1);
  setenv("CUDA_PATH", "path", 1);
  look();
  sandbox_say(" ");
  sandbox_link(FAKE, "home/lib64/libupconv_wanted.so.2");
  look();
}

static void have_conda(void) {
  sandbox_link(FAKE, "conda/lib/libupconv_wanted.so.1");
  setenv("CONDA_PREFIX", "conda", 1);
  look();
}

static void have_site_packages(void) {
  sandbox_link(FAKE, "somewhere/nvidia/cuda_nvrtc/lib/libupconv_wanted.so.1");
  setenv("UPCONV_SITE_PACKAGES", "somewhere", 1);
  look();
}

static void have_virtual_environment(void) {
  sandbox_link(FAKE, "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libupconv_wanted.so.2");
  setenv("VIRTUAL_ENV", "venv", 1);
  look();
}

/* A process that has loaded any extension module, as Python has. */
static void have_loaded_package(void) {
  sandbox_link(FAKE, "p/site-packages/nvidia/cu13/lib/libupconv_wanted.so.2");
  sandbox_link(OTHER, "p/site-packages/torch/lib/extension.so");
  void *extension = dlopen("./p/site-packages/torch/lib/extension.so", RTLD_NOW);
  look();
  dlclose(extension);
}

static void have_loaded_debian_package(void) {
  sandbox_link(FAKE, "dist-packages/nvidia/cuda_nvrtc/lib/libupconv_wanted.so.1");
  sandbox_link(OTHER, "dist-packages/extension.so");
  void *extension = dlopen("./dist-packages/extension.so", RTLD_NOW);
  look();
  dlclose(extension);
}

static void folders_are_searched(void) {
  CHECK_STR(sandbox_run(have_toolkit), "toolkit/lib64/libupconv_wanted.so.1");
  CHECK_STR(sandbox_run(have_two_toolkits), "home/lib64/libupconv_wanted.so.1 "
                                            "home/lib64/libupconv_wanted.so.2");
  CHECK_STR(sandbox_run(have_conda), "conda/lib/libupconv_wanted.so.1");
  CHECK_STR(sandbox_run(have_site_packages),
            "somewhere/nvidia/cuda_nvrtc/lib/libupconv_wanted.so.1");
  CHECK_STR(sandbox_run(have_virtual_environment),
            "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libupconv_wanted.so.2");
  CHECK_STR(sandbox_run(have_loaded_package),
            "./p/site-packages/nvidia/cu13/lib/libupconv_wanted.so.2");
  CHECK_STR(sandbox_run(have_loaded_debian_package),
            "./dist-packages/nvidia/cuda_nvrtc/lib/libupconv_wanted.so.1");
}

static void have_no_toolkit_wanted(void) {
  uc_library_wanted driver = wanted;
  driver.toolkit = false;
  sandbox_link(FAKE, "toolkit/lib64/libupconv_wanted.so.1");
  setenv("CUDA_HOME", "toolkit", 1);
  look_for(&driver);
}

static void have_own_folder(void) {
  static const char *const folders[] = {"nowhere", "folder", NULL};
  uc_library_wanted driver = wanted;
  driver.toolkit = false;
  driver.folders = folders;
  sandbox_link(FAKE, "folder/libupconv_wanted.so.1");
  look_for(&driver);
}

static void other_folders(void) {
  CHECK_SAYS(sandbox_run(have_no_toolkit_wanted), "was not found");
  CHECK_STR(sandbox_run(have_own_folder), "folder/libupconv_wanted.so.1");
}

/* ---- what the process has already */

static void have_loaded(void) {
  /* The first is a part of the C library that nothing uses: the loader would find it. */
  static const char *const loaded[] = {"libBrokenLocale.so.1", "libfake_nvrtc.so.1", NULL};
  uc_library_wanted what = wanted;
  what.names = loaded;
  void *before = dlopen(FAKE, RTLD_NOW);
  look_for(&what);
  dlclose(before);
}

static void loaded_library_wins(void) { CHECK_STR(sandbox_run(have_loaded), FAKE); }

/* ---- refusals */

static const char *reject_driver(void *handle) {
  return dlsym(handle, "cuInit") ? "is a driver" : NULL;
}

static void reject_first(void) {
  uc_library_wanted what = wanted;
  what.reject = reject_driver;
  sandbox_link(OTHER, "home/lib64/libupconv_wanted.so.1");
  sandbox_write("path/lib64/libupconv_wanted.so.1", "garbage", 7);
  setenv("CUDA_HOME", "home", 1);
  setenv("CUDA_PATH", "path", 1);
  look_for(&what);
  sandbox_say("\n");
  sandbox_link(FAKE, "conda/lib/libupconv_wanted.so.1");
  setenv("CONDA_PREFIX", "conda", 1);
  look_for(&what);
}

static void refused_files_are_named(void) {
  const char *said = sandbox_run(reject_first);
  CHECK_SAYS(said, "(home/lib64/libupconv_wanted.so.1: is a driver; "
                   "path/lib64/libupconv_wanted.so.1: file too short)");
  CHECK_SAYS(said, "\nconda/lib/libupconv_wanted.so.1");
}

static void lack_symbol(void) {
  static const uc_library_symbol symbols[] = {{"nvrtcVersion", 0}, {"nvrtcNoSuch", sizeof(void *)}};
  void *table[2] = {NULL, NULL};
  uc_library library;
  setenv("UPCONV_NVRTC", FAKE, 1);
  if (uc_library_open(&wanted, &library) != UPCONV_OK) return;
  sandbox_say("%d ", uc_library_symbols(&library, symbols, 1, table));
  sandbox_say("%d ", table[0] == dlsym(library.handle, "nvrtcVersion"));
  sandbox_say("%d ", uc_library_symbols(&library, symbols, 2, table));
  sandbox_say("%s", upconv_last_error());
  free(library.path);
}

static void symbols_are_filled_in(void) {
  char expected[4096];
  snprintf(expected, sizeof expected, "%d 1 %d %s lacks nvrtcNoSuch", UPCONV_OK,
           UPCONV_DEVICE_ERROR, FAKE);
  CHECK_STR(sandbox_run(lack_symbol), expected);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"nothing_says_where", nothing_says_where},
      {"variable_decides", variable_decides},
      {"folders_are_searched", folders_are_searched},
      {"other_folders", other_folders},
      {"loaded_library_wins", loaded_library_wins},
      {"refused_files_are_named", refused_files_are_named},
      {"symbols_are_filled_in", symbols_are_filled_in},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
