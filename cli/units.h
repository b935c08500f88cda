/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them: three digits and a unit. */
#ifndef UPCONV_CLI_UNITS_H
#define UPCONV_CLI_UNITS_H

#include <stdint.h>

enum { UNITS_SIZE = 24, UNITS_SHAPE_SIZE = 192 };

/* Each writes into text and returns it. */
const char *units_seconds(double seconds, char text[UNITS_SIZE]); /* "12.3 ms" */
const char *units_bytes(double bytes, char text[UNITS_SIZE]);     /* "12.3 MB" */
const char *units_rate(double per_second, const char *unit,
                       char text[UNITS_SIZE]); /* "12.3 GFLOP/s" */
const char *
units_number(double value,
             char text[UNITS_SIZE]); /* "12.3": three digits, no exponent in common ranges */
const char *units_shape(int rank, const int64_t *shape,
                        char text[UNITS_SHAPE_SIZE]); /* "[8, 32, 12]" */

#endif
