/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets this machine runs, and the choice among them. */
#include "isa.h"

#include <stdlib.h>
#include <string.h>

#include "../status.h"

#if defined(UPCONV_HAVE_X86_ISA)
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know f16c. */
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* __builtin_cpu_supports also asks whether the system saves the registers. */
static bool runs_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool runs_avx512(void) {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool runs_base(void) { return true; }

typedef struct entry {
  const uc_isa *isa;
  bool (*runs)(void);
} entry;

/* Best first. */
static const entry known[] = {
#if defined(UPCONV_HAVE_X86_ISA)
    {&uc_isa_avx512, runs_avx512},
    {&uc_isa_avx2, runs_avx2},
#endif
    {&uc_isa_base, runs_base},
};

enum { KNOWN = sizeof known / sizeof known[0] };

const uc_isa *uc_isa_available(int index) {
  for (int i = 0; i < KNOWN; i++)
    if (known[i].runs() && index-- == 0) return known[i].isa;
  return NULL;
}

const uc_isa *uc_isa_choose(void) {
  const char *wanted = getenv("UPCONV_ISA");
  if (!wanted || !*wanted) return uc_isa_available(0);
  const uc_isa *isa;
  for (int i = 0; (isa = uc_isa_available(i)); i++)
    if (strcmp(isa->name, wanted) == 0) return isa;
  uc_fail(UPCONV_UNSUPPORTED,
          "the environment variable UPCONV_ISA is '%s', but this machine runs: %s%s%s%s%s", wanted,
          uc_isa_available(0)->name, uc_isa_available(1) ? ", " : "",
          uc_isa_available(1) ? uc_isa_available(1)->name : "", uc_isa_available(2) ? ", " : "",
          uc_isa_available(2) ? uc_isa_available(2)->name : "");
  return NULL;
}
