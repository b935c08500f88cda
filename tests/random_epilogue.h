/* SPDX-License-Identifier: Apache-2.0 */
/* Random epilogues: the second half of random_problem_text. */
#ifndef UPCONV_TESTS_RANDOM_EPILOGUE_H
#define UPCONV_TESTS_RANDOM_EPILOGUE_H

#include <stdint.h>

#include "random_problem.h"

/* Appends " | operator | ..." to the text of a problem of nd axes. stride: the convolution's, which
 * pools like to divide. */
void random_epilogue(uint64_t *random, int nd, int64_t stride, char text[RANDOM_TEXT]);

#endif
