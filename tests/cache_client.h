/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the cache share: requests to it with the stand-in for NVRTC, and a look into
   its folder. Everything here is for use inside the sandbox. */
#ifndef UPCONV_TESTS_CACHE_CLIENT_H
#define UPCONV_TESTS_CACHE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* The cache is ./cache, the compiler is the stand-in. */
void client_start(void);

/* Asks for kernel number id, of about size bytes. 'h': from the cache, 'm': compiled, each with the
   right image; 'B': the image is wrong; 'E': an error. */
char client_get(int id, size_t size);
char client_get_for(int id, size_t size, const char *arch, const char *const *options, int count);

/* In the sandbox's answer: that letter; "[folder entries, bytes]". */
void client_say_get(int id, size_t size);
void client_say_list(void);

/* How often the compiler ran, in all processes. */
int client_compilations(void);

/* Files of a folder whose names end so. */
int client_files(const char *folder, const char *suffix);
/* The path of the one such file in ./cache. */
const char *client_only_file(const char *suffix);

/* A whole file, which free() releases. */
char *client_read(const char *path, size_t *size);

#endif
