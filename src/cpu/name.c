/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "isa.h"

#if defined(UPCONV_HAVE_X86_ISA)
#include <cpuid.h>

/* The processor's own text, which begins with blanks on some. false: it has none. */
static bool read_brand(char *name, size_t capacity) {
  enum { FIRST = 0x80000002u, LEAVES = 3, WORDS = 4 };
  unsigned word[LEAVES * WORDS + 1] = {0};
  for (unsigned i = 0; i < LEAVES; i++) {
    unsigned *w = word + WORDS * i;
    if (!__get_cpuid(FIRST + i, &w[0], &w[1], &w[2], &w[3])) return false;
  }
  const char *text = (const char *)word;
  text += strspn(text, " ");
  snprintf(name, capacity, "%s", text);
  return *name != 0;
}
#else
static bool read_brand(char *name, size_t capacity) {
  (void)name, (void)capacity;
  return false;
}
#endif

void uc_cpu_name(char *name, size_t capacity) {
  struct utsname system;
  if (read_brand(name, capacity)) return;
  snprintf(name, capacity, "%s", uname(&system) == 0 ? system.machine : "unknown");
}
