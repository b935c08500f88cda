/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a status returned up the stack and one message per thread. */
#ifndef UPCONV_STATUS_H
#define UPCONV_STATUS_H

#include "upconv/upconv.h"

/* Stores the message for upconv_last_error and returns status, so that callers write `return uc_fail(...)`.
   A message is one line: it names the argument, its value and what is allowed. */
upconv_status uc_fail(upconv_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the stored message and returns status: a caller adds where it happened. */
upconv_status uc_fail_in(upconv_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
