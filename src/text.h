/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded text writer with snprintf's convention: it counts what does not fit. */
#ifndef UPCONV_TEXT_H
#define UPCONV_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct uc_text {
  char *buffer; /* may be NULL when capacity is 0 */
  size_t capacity;
  size_t length; /* characters written or wanted, without the terminating 0 */
} uc_text;

void uc_text_init(uc_text *text, char *buffer, size_t capacity);
void uc_text_add(uc_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal form that reads back to the same double ("0.2", "1e-05", "inf"). */
void uc_text_add_double(uc_text *text, double value);
/* "3x5x7", or "3" when all are the same; the text forms read both as three axes. */
void uc_text_add_sizes(uc_text *text, const int64_t *value, int count);
/* " p1x2x3 pe1": padding at the beginning, and at the end where that differs; nothing where there is none. */
void uc_text_add_padding(uc_text *text, const int64_t *begin, const int64_t *end, int count);

#endif
