/* SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct count {
  char *group, *name;
  long cases;
} count;

static count *counts;
static size_t used, capacity;

static char *copy(const char *text) {
  char *c = malloc(strlen(text) + 1);
  if (!c) exit(1);
  return memcpy(c, text, strlen(text) + 1);
}

/* In alphabetical order of groups and names. */
static size_t place(const char *group, const char *name, bool *found) {
  size_t i = 0;
  *found = false;
  for (; i < used; i++) {
    int order = strcmp(counts[i].group, group);
    if (order == 0) order = strcmp(counts[i].name, name);
    *found = order == 0;
    if (order >= 0) break;
  }
  return i;
}

static count *find(const char *group, const char *name) {
  bool found;
  size_t i = place(group, name, &found);
  if (found) return &counts[i];
  if (used == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    counts = realloc(counts, capacity * sizeof *counts);
    if (!counts) exit(1);
  }
  memmove(&counts[i + 1], &counts[i], (used - i) * sizeof *counts);
  counts[i] = (count){copy(group), copy(name), 0};
  used++;
  return &counts[i];
}

void tally(const char *group, const char *name) { find(group, name)->cases++; }

void tally_expect(const char *group, const char *name) { (void)find(group, name); }

int tally_print(long least) {
  enum { COLUMNS = 4 };
  int rare = 0;
  for (size_t i = 0, column = 0; i < used; i++) {
    bool first = i == 0 || strcmp(counts[i].group, counts[i - 1].group) != 0;
    if (first) {
      printf("%s%s\n", column ? "\n" : "", counts[i].group);
      column = 0;
    }
    printf("%s%-22s %6ld", column ? "  " : "  ", counts[i].name, counts[i].cases);
    column = (column + 1) % COLUMNS;
    if (column == 0) printf("\n");
    if (i + 1 == used && column) printf("\n");
  }
  for (size_t i = 0; i < used; i++) {
    if (counts[i].cases >= least) continue;
    printf("too few cases of %s %s: %ld, at least %ld wanted\n", counts[i].group, counts[i].name,
           counts[i].cases, least);
    rare++;
  }
  return rare;
}

void tally_free(void) {
  for (size_t i = 0; i < used; i++) {
    free(counts[i].group);
    free(counts[i].name);
  }
  free(counts);
  counts = NULL;
  used = capacity = 0;
}
