/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded text writer with snprintf's convention: it counts what does not fit. */
#ifndef UPCONV_TEXT_H
#define UPCONV_TEXT_H

#include <stddef.h>

typedef struct uc_text {
  char *buffer; /* may be NULL when capacity is 0 */
  size_t capacity;
  size_t length; /* characters written or wanted, without the terminating 0 */
} uc_text;

void uc_text_init(uc_text *text, char *buffer, size_t capacity);
void uc_text_add(uc_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal form that reads back to the same double ("0.2", "1e-05", "inf"). */
void uc_text_add_double(uc_text *text, double value);

#endif
