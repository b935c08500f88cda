/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- tokens ---- */

static uc_token token_at(const char *p) {
  while (is_blank(*p)) p++;
  uc_token token = {p, 0};
  if (*p == '|') {
    token.length = 1;
  } else {
    while (p[token.length] && p[token.length] != '|' && !is_blank(p[token.length])) token.length++;
  }
  return token;
}

upconv_status uc_scan_init(uc_scan *scan, const char *text) {
  if (!text) return uc_fail(UPCONV_INVALID_ARGUMENT, "text is NULL");
  if (strnlen(text, UC_MAX_TEXT + 1) > UC_MAX_TEXT)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "text has more than %d characters, which are allowed",
                   UC_MAX_TEXT);
  scan->text = text;
  scan->token = token_at(text);
  return UPCONV_OK;
}

void uc_scan_next(uc_scan *scan) { scan->token = token_at(scan->token.begin + scan->token.length); }

bool uc_scan_at_end(const uc_scan *scan) { return scan->token.length == 0; }

bool uc_scan_at_bar(const uc_scan *scan) { return uc_token_is(scan->token, "|"); }

upconv_status uc_scan_fail(const uc_scan *scan, uc_token token, upconv_status status,
                           const char *format, ...) {
  enum { MESSAGE_SIZE = 512, SHOWN = 40 };
  char message[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  if (vsnprintf(message, sizeof message, format, arguments) < 0) message[0] = '\0';
  va_end(arguments);
  int shown = token.length > SHOWN ? SHOWN : (int)token.length;
  long long column = (long long)(token.begin - scan->text) + 1;
  if (!shown) return uc_fail(status, "column %lld, end of text: %s", column, message);
  return uc_fail(status, "column %lld, '%.*s%s': %s", column, shown, token.begin,
                 token.length > SHOWN ? "..." : "", message);
}

/* ---- parts of a token ---- */

bool uc_token_is(uc_token token, const char *word) {
  return strlen(word) == token.length && memcmp(token.begin, word, token.length) == 0;
}

bool uc_token_skip(uc_token *token, const char *prefix) {
  size_t length = strlen(prefix);
  if (length > token->length || memcmp(token->begin, prefix, length) != 0) return false;
  token->begin += length;
  token->length -= length;
  return true;
}

uc_token uc_token_until(uc_token *token, char c) {
  uc_token part = {token->begin, 0};
  while (part.length < token->length && part.begin[part.length] != c) part.length++;
  size_t taken = part.length < token->length ? part.length + 1 : part.length;
  token->begin += taken;
  token->length -= taken;
  return part;
}

/* ---- numbers ---- */

bool uc_token_int(uc_token token, int64_t *value) {
  bool negative = uc_token_skip(&token, "-");
  int64_t result = 0;
  if (!token.length) return false;
  for (size_t i = 0; i < token.length; i++) {
    if (!is_digit(token.begin[i])) return false;
    int digit = token.begin[i] - '0';
    /* Counted downwards: INT64_MIN has no positive counterpart. */
    if (__builtin_mul_overflow(result, 10, &result)) return false;
    if (__builtin_sub_overflow(result, digit, &result)) return false;
  }
  if (!negative && result == INT64_MIN) return false;
  *value = negative ? result : -result;
  return true;
}

/* A decimal number taken apart: its digits without the point, and the last one's power of ten. */
typedef struct decimal {
  char digits[128];
  size_t count;
  int64_t exponent;
  bool nonzero;
} decimal;

static bool take_digits(uc_token *token, decimal *d, bool fraction) {
  while (token->length && is_digit(*token->begin)) {
    if (d->count + 1 >= sizeof d->digits) return false;
    d->nonzero = d->nonzero || *token->begin != '0';
    d->digits[d->count++] = *token->begin;
    d->exponent -= fraction;
    token->begin++;
    token->length--;
  }
  d->digits[d->count] = '\0';
  return true;
}

static bool take_decimal(uc_token token, decimal *d) {
  enum { LARGEST_EXPONENT = 100000 };
  if (!take_digits(&token, d, false)) return false;
  if (uc_token_skip(&token, ".") && !take_digits(&token, d, true)) return false;
  if (!d->count) return false;
  if (uc_token_skip(&token, "e") || uc_token_skip(&token, "E")) {
    int64_t exponent;
    bool plus = uc_token_skip(&token, "+");
    if (!uc_token_int(token, &exponent) || (plus && *token.begin == '-')) return false;
    if (exponent > LARGEST_EXPONENT || exponent < -LARGEST_EXPONENT) return false;
    d->exponent += exponent;
    token.length = 0;
  }
  return !token.length;
}

/*
 * strtod's decimal point depends on the locale, so it gets none: 0.25 is given to it as 25e-2. A
 * number that becomes infinite, or zero without being zero, does not fit.
 */
bool uc_token_double(uc_token token, double *value) {
  bool negative = uc_token_skip(&token, "-");
  if (!negative) uc_token_skip(&token, "+");
  double magnitude = (double)INFINITY;
  if (!uc_token_is(token, "inf")) {
    decimal d = {.count = 0};
    char buffer[sizeof d.digits + 32];
    if (!take_decimal(token, &d)) return false;
    snprintf(buffer, sizeof buffer, "%se%lld", d.digits, (long long)d.exponent);
    magnitude = strtod(buffer, NULL);
    if (isinf(magnitude) || (magnitude == 0 && d.nonzero)) return false;
  }
  *value = negative ? -magnitude : magnitude;
  return true;
}

bool uc_token_sizes(uc_token token, int64_t *value, int *count) {
  bool more = true;
  for (*count = 0; more; ++*count) {
    if (*count == UPCONV_MAX_SPATIAL) return false;
    uc_token part = uc_token_until(&token, 'x');
    more = part.begin + part.length != token.begin;
    if (!uc_token_int(part, &value[*count])) return false;
  }
  return true;
}

bool uc_token_dtype(uc_token token, upconv_dtype *dtype) {
  static const upconv_dtype all[] = {UPCONV_F32, UPCONV_F16, UPCONV_BF16};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!uc_token_is(token, upconv_dtype_name(all[i]))) continue;
    *dtype = all[i];
    return true;
  }
  return false;
}
