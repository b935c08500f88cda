/* SPDX-License-Identifier: Apache-2.0 */
/* Counts how often each named thing was tested, and prints the counts as a table. */
#ifndef UPCONV_TESTS_TALLY_H
#define UPCONV_TESTS_TALLY_H

#include <stdbool.h>

/* One more case of a thing. Both strings are copied. */
void tally(const char *group, const char *name);
/* Lists a thing that must not be forgotten, with no case yet. */
void tally_expect(const char *group, const char *name);
/* Prints all groups; returns how many things were counted less than `least` times, naming each. */
int tally_print(long least);
void tally_free(void);

#endif
