/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text forms: tokens between blanks, '|' a token of its own, numbers in any locale. */
#ifndef UPCONV_SCAN_H
#define UPCONV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upconv/upconv.h"

/* Longer texts are refused. It holds the longest text that a valid program prints; see the limits
   in epilogue.h. */
enum { UC_MAX_TEXT = 1 << 21 };

typedef struct uc_token {
  const char *begin;
  size_t length; /* 0 at the end of the text */
} uc_token;

typedef struct uc_scan {
  const char *text;
  uc_token token; /* the current one */
} uc_scan;

/* Stands on the first token. */
upconv_status uc_scan_init(uc_scan *scan, const char *text);
void uc_scan_next(uc_scan *scan);
bool uc_scan_at_end(const uc_scan *scan);
bool uc_scan_at_bar(const uc_scan *scan);

/* "column 7, 'k0': message". token is of the scanned text, or a part of one. */
upconv_status uc_scan_fail(const uc_scan *scan, uc_token token, upconv_status status,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

bool uc_token_is(uc_token token, const char *word);
/* Takes prefix away from the front of the token, if it is there. */
bool uc_token_skip(uc_token *token, const char *prefix);
/* Takes the part before character c, and c, away from the front of the token and returns the part;
   the whole token when there is no c. */
uc_token uc_token_until(uc_token *token, char c);

/* The whole token as a number; false when it is something else or does not fit. */
bool uc_token_int(uc_token token, int64_t *value);
bool uc_token_double(uc_token token, double *value);

/* "2" or "3x5x7": stores up to UPCONV_MAX_SPATIAL numbers. */
bool uc_token_sizes(uc_token token, int64_t *value, int *count);
/* A dtype by its name. */
bool uc_token_dtype(uc_token token, upconv_dtype *dtype);

#endif
