/* SPDX-License-Identifier: Apache-2.0 */
/* Of a plan's candidates, the i-th that EMULATOR_CANDIDATES names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upconv/upconv.h"

static const char *wanted_candidate(const upconv_plan *plan, int i) {
  const char *wanted = getenv("EMULATOR_CANDIDATES");
  for (int k = 0;; k++) {
    const char *name = upconv_plan_candidate_name(plan, k);
    if (!name || !wanted) return name && k < i ? upconv_plan_candidate_name(plan, i) : name;
    const char *at = strstr(wanted, name);
    char end = at ? at[strlen(name)] : 'x';
    if ((end != 0 && end != ',') || i-- > 0) continue;
    const char *used = getenv("EMULATOR_USED");
    FILE *f = used ? fopen(used, "a") : NULL;
    if (f) fprintf(f, "%s\n", name), fclose(f);
    return name;
  }
}
