/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef UPCONV_VERSION
#define UPCONV_VERSION "unknown"
#endif

enum { MESSAGE_SIZE = 1024 };
static _Thread_local char last_error[MESSAGE_SIZE];

const char *upconv_status_string(upconv_status status) {
  switch (status) {
  case UPCONV_OK:
    return "ok";
  case UPCONV_INVALID_ARGUMENT:
    return "invalid argument";
  case UPCONV_UNSUPPORTED:
    return "unsupported";
  case UPCONV_OVERFLOW:
    return "overflow";
  case UPCONV_OUT_OF_MEMORY:
    return "out of memory";
  case UPCONV_DEVICE_ERROR:
    return "device error";
  }
  return "unknown status";
}

const char *upconv_last_error(void) { return last_error; }

const char *upconv_version(void) { return UPCONV_VERSION; }

/* A message quotes names and texts from outside; whatever they hold, it stays one line. */
static void store(const char *message) {
  size_t i = 0;
  for (; message[i] && i + 1 < MESSAGE_SIZE; i++) {
    unsigned char c = (unsigned char)message[i];
    last_error[i] = c < 0x20 || c == 0x7f ? '?' : message[i];
  }
  last_error[i] = '\0';
}

/* Both functions write a copy first, because an argument may point into the old message. */
upconv_status uc_fail(upconv_status status, const char *format, ...) {
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(message, sizeof message, format, arguments) < 0) message[0] = '\0';
  va_end(arguments);
  store(message);
  return status;
}

upconv_status uc_fail_in(upconv_status status, const char *format, ...) {
  char message[2 * MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(message, MESSAGE_SIZE, format, arguments);
  va_end(arguments);
  size_t length = n < 0 ? 0 : strnlen(message, MESSAGE_SIZE);
  snprintf(message + length, sizeof message - length, ": %s", last_error);
  store(message);
  return status;
}
