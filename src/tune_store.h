/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions that measuring made, as text: one line each, five fields separated by tabs.
 *
 *   device    problem    rules    candidate    times
 *
 * The first three are the key (src/tune.h makes it). The same text stands in a file, for all processes, and in memory, for a
 * context. The file is never in the way: lines that are damaged are ignored, what cannot be written is not kept.
 */
#ifndef UPCONV_TUNE_STORE_H
#define UPCONV_TUNE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UC_TUNE_FIELDS = 5, UC_TUNE_NAME = 64, UC_TUNE_TIMES = 256, UC_TUNE_LIMIT = 1 << 20 };

typedef struct uc_decision {
  char candidate[UC_TUNE_NAME];
  char times[UC_TUNE_TIMES]; /* "cpu-tiled 1.23 ms, cpu-panels 2.34 ms" */
} uc_decision;

/* ---- texts ---- */

/* One field of a line: not terminated. */
typedef struct uc_field {
  const char *text;
  size_t length;
} uc_field;

/* The next line that is a decision, from *at on, which moves behind it. false: there is none. */
bool uc_tune_next(const char **at, const char *end, uc_field field[UC_TUNE_FIELDS]);

/* The last decision for the key. */
bool uc_tune_text_find(const char *text, size_t length, const char *key, uc_decision *decision);

/* A new text in which the decision is the last line and the only one of its key. What is damaged goes, and what is oldest
   beyond UC_TUNE_LIMIT bytes. free() releases it. NULL: no memory, or it cannot be written as a line. */
char *uc_tune_text_put(const char *text, size_t length, const char *key,
                       const uc_decision *decision);

/* ---- the file ---- */

/* UPCONV_TUNE_FILE, or tuning.txt in the folder of the kernel cache. free() releases it. NULL: UPCONV_TUNE_FILE is empty, or
   it is not set and there is no such folder. */
char *uc_tune_store_path(void);

/* At most UC_TUNE_LIMIT bytes of it, with a 0 behind them. NULL: there is no such file, or it is none to read. */
char *uc_tune_store_read(const char *path, size_t *length);

bool uc_tune_store_find(const char *key, uc_decision *decision);

/* Others that write at the same time wait for each other, a second at most. */
bool uc_tune_store_put(const char *key, const uc_decision *decision);

/* Removes it. true: it is not there any more; false: see errno. */
bool uc_tune_store_clear(const char *path);

#endif
