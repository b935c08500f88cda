/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"
#include "text.h"

enum { MAX_FOLDERS = 64, MAX_PATH = 4096 };

typedef struct search {
  const uc_library_wanted *wanted;
  void *handle; /* NULL: go on */
  /* Why files that are there were not taken, and where was looked. */
  char refusal_buffer[512], place_buffer[768];
  uc_text refusals, places;
} search;

static void refuse(search *s, const char *file, const char *reason) {
  uc_text_add(&s->refusals, "%s%s%s%s", s->refusals.length ? "; " : "", file ? file : "",
              file ? ": " : "", reason);
}

/* The loader names the file that it could not open, or could not use. A name that it does not find
   anywhere is what a search expects, and nothing to report. */
static void note_loader_error(search *s, const char *file) {
  const char *reason = dlerror();
  if (!reason) return;
  size_t length = strlen(file);
  bool nowhere = !strchr(file, '/') && strncmp(reason, file, length) == 0 && reason[length] == ':';
  if (!nowhere) refuse(s, NULL, reason);
}

/* Tries one file or, without '/', a name for the loader. flags: 0, or RTLD_NOLOAD. */
static bool try_file(search *s, const char *file, int flags) {
  dlerror();
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
  if (!handle) {
    if (!flags) note_loader_error(s, file);
    return false;
  }
  const char *reason = s->wanted->reject ? s->wanted->reject(handle) : NULL;
  if (reason) {
    refuse(s, file, reason);
    dlclose(handle);
    return false;
  }
  s->handle = handle;
  return true;
}

static bool try_names(search *s, int flags) {
  for (const char *const *name = s->wanted->names; *name; name++)
    if (try_file(s, *name, flags)) return true;
  return false;
}

static bool try_folder(search *s, const char *folder) {
  uc_text_add(&s->places, ", %s", folder);
  for (const char *const *name = s->wanted->names; *name; name++) {
    char path[MAX_PATH];
    uc_text text;
    uc_text_init(&text, path, sizeof path);
    uc_text_add(&text, "%s/%s", folder, *name);
    if (text.length >= sizeof path || access(path, F_OK) != 0) continue;
    if (try_file(s, path, 0)) return true;
  }
  return false;
}

static bool try_toolkits(search *s) {
  char *folder[MAX_FOLDERS];
  int count = uc_library_folders(folder, MAX_FOLDERS);
  for (int i = 0; i < count; i++) {
    if (!s->handle) try_folder(s, folder[i]);
    free(folder[i]);
  }
  return s->handle != NULL;
}

static bool try_everywhere(search *s) {
  if (try_names(s, RTLD_NOLOAD) || try_names(s, 0)) return true;
  for (const char *const *folder = s->wanted->folders; folder && *folder; folder++)
    if (try_folder(s, *folder)) return true;
  return s->wanted->toolkit && try_toolkits(s);
}

static upconv_status fail(const search *s) {
  char buffer[128];
  uc_text names;
  uc_text_init(&names, buffer, sizeof buffer);
  for (const char *const *name = s->wanted->names; *name; name++)
    uc_text_add(&names, "%s%s", name == s->wanted->names ? "" : ", ", *name);
  return uc_fail(
      UPCONV_DEVICE_ERROR,
      "%s was not found%s%s%s: looked for %s in the loader's path%s; %s can name the file",
      s->wanted->what, s->refusals.length ? " (" : "", s->refusal_buffer,
      s->refusals.length ? ")" : "", buffer, s->place_buffer, s->wanted->variable);
}

static upconv_status open_named(search *s, const char *file) {
  if (try_file(s, file, 0)) return UPCONV_OK;
  return uc_fail(UPCONV_DEVICE_ERROR, "%s = \"%.256s\" is not %s: %s", s->wanted->variable, file,
                 s->wanted->what, s->refusals.length ? s->refusal_buffer : "no such file");
}

/* The path under which the loader knows it. */
static char *find_path(void *handle) {
  struct link_map *map = NULL;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return NULL;
  return strdup(map->l_name);
}

upconv_status uc_library_open(const uc_library_wanted *wanted, uc_library *library) {
  search s = {.wanted = wanted};
  uc_text_init(&s.refusals, s.refusal_buffer, sizeof s.refusal_buffer);
  uc_text_init(&s.places, s.place_buffer, sizeof s.place_buffer);
  const char *named = secure_getenv(wanted->variable);
  if (named && *named) {
    upconv_status status = open_named(&s, named);
    if (status != UPCONV_OK) return status;
  } else if (!try_everywhere(&s)) {
    return fail(&s);
  }
  char *path = find_path(s.handle);
  if (!path) {
    dlclose(s.handle);
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for the path of %s", wanted->what);
  }
  *library = (uc_library){s.handle, path};
  return UPCONV_OK;
}

/* dlsym hands out data pointers, which C does not convert to functions: they are copied. */
upconv_status uc_library_symbols(const uc_library *library, const uc_library_symbol *symbol,
                                 size_t count, void *table) {
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(library->handle, symbol[i].name);
    if (!address) return uc_fail(UPCONV_DEVICE_ERROR, "%s lacks %s", library->path, symbol[i].name);
    memcpy((char *)table + symbol[i].offset, &address, sizeof address);
  }
  return UPCONV_OK;
}
