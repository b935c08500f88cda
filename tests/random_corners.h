/* SPDX-License-Identifier: Apache-2.0 */
/* What is special about a random problem: the corners that the suite counts. */
#ifndef UPCONV_TESTS_RANDOM_CORNERS_H
#define UPCONV_TESTS_RANDOM_CORNERS_H

#include "random_data.h"

/* Lists everything that must be counted. */
void random_corners_expect(void);
void random_corners_tally(const char *text, const upconv_problem_desc *desc,
                          const random_inputs *inputs, const int64_t *y_shape, bool finite);

/* All operators of the text keep their operand's shape, element by element. */
bool random_corner_is_elementwise(const char *text);

#endif
