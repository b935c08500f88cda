/* SPDX-License-Identifier: Apache-2.0 */
/* Where CUDA toolkits and NVIDIA's Python packages keep their libraries. */
#define _GNU_SOURCE
#include <dirent.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

typedef struct folder_list {
  char **folder;
  int count, capacity;
} folder_list;

static void add(folder_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A folder that does not fit, in the list or in memory, is not searched. */
static void add(folder_list *list, const char *format, ...) {
  if (list->count == list->capacity) return;
  va_list values;
  va_start(values, format);
  char *path = NULL;
  if (vasprintf(&path, format, values) < 0) path = NULL;
  va_end(values);
  if (!path) return;
  bool known = false;
  for (int i = 0; i < list->count; i++) known = known || strcmp(list->folder[i], path) == 0;
  if (known)
    free(path);
  else
    list->folder[list->count++] = path;
}

static const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : NULL;
}

static void add_toolkits(folder_list *list) {
  static const char *const home[] = {"CUDA_HOME", "CUDA_PATH"};
  for (size_t i = 0; i < sizeof home / sizeof home[0]; i++)
    if (variable(home[i])) add(list, "%s/lib64", variable(home[i]));
  if (variable("CONDA_PREFIX")) add(list, "%s/lib", variable("CONDA_PREFIX"));
}

static int is_toolkit(const struct dirent *entry) {
  return strcmp(entry->d_name, "cuda") == 0 || strncmp(entry->d_name, "cuda-", 5) == 0;
}

/* The default toolkit first, which is the folder without a version, then from the newest to the
   oldest. */
static int compare_toolkits(const struct dirent **a, const struct dirent **b) {
  bool a_default = strcmp((*a)->d_name, "cuda") == 0, b_default = strcmp((*b)->d_name, "cuda") == 0;
  if (a_default != b_default) return a_default ? -1 : 1;
  return versionsort(b, a);
}

static void add_installed_toolkits(folder_list *list) {
  struct dirent **entry;
  int count = scandir("/usr/local", &entry, is_toolkit, compare_toolkits);
  for (int i = 0; i < count; i++) {
    add(list, "/usr/local/%s/lib64", entry[i]->d_name);
    free(entry[i]);
  }
  if (count >= 0) free(entry);
}

static void add_site(folder_list *list, const char *site, size_t length) {
  static const char *const package[] = {"cu13", "cuda_nvrtc", "cu12"};
  for (size_t i = 0; i < sizeof package / sizeof package[0]; i++) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/nvidia/%s/lib", (int)length, site, package[i]);
    if (n > 0 && (size_t)n < sizeof path && access(path, X_OK) == 0) add(list, "%s", path);
  }
}

/* A library that this process loaded from a Python package tells where the packages are. */
static int add_site_of_loaded(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  static const char *const folder[] = {"/site-packages", "/dist-packages"};
  for (size_t i = 0; i < sizeof folder / sizeof folder[0]; i++) {
    const char *found = info->dlpi_name ? strstr(info->dlpi_name, folder[i]) : NULL;
    size_t length = strlen(folder[i]);
    if (found && found[length] == '/')
      add_site(data, info->dlpi_name, (size_t)(found - info->dlpi_name) + length);
  }
  return 0;
}

static int is_python(const struct dirent *entry) {
  return strncmp(entry->d_name, "python3", 7) == 0;
}

static void add_virtual_environment(folder_list *list, const char *root) {
  char path[4096];
  struct dirent **entry;
  if ((size_t)snprintf(path, sizeof path, "%s/lib", root) >= sizeof path) return;
  int count = scandir(path, &entry, is_python, versionsort);
  for (int i = 0; i < count; i++) {
    int n = snprintf(path, sizeof path, "%s/lib/%s/site-packages", root, entry[i]->d_name);
    if (n > 0 && (size_t)n < sizeof path) add_site(list, path, (size_t)n);
    free(entry[i]);
  }
  if (count >= 0) free(entry);
}

int uc_library_folders(char **folder, int capacity) {
  folder_list list = {folder, 0, capacity};
  add_toolkits(&list);
  add_installed_toolkits(&list);
  const char *site = variable("UPCONV_SITE_PACKAGES");
  if (site) add_site(&list, site, strlen(site));
  dl_iterate_phdr(add_site_of_loaded, &list);
  const char *environment = variable("VIRTUAL_ENV");
  if (environment) add_virtual_environment(&list, environment);
  return list.count;
}
