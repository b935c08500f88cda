/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random problems and epilogues, as text: what upconv_problem_parse reads, and what a failure
 * prints, is all there is. The data that goes with a text is random_data.h's part.
 *
 * Names of parameters and tensors say what values they may have: v... positive (a variance), q...
 * away from 0 (a divisor), others anything.
 */
#ifndef UPCONV_TESTS_RANDOM_PROBLEM_H
#define UPCONV_TESTS_RANDOM_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

enum { RANDOM_TEXT = 2048 };

/* The same seed gives the same text everywhere. */
void random_problem_text(uint64_t seed, char text[RANDOM_TEXT]);
/* Larger ones, with the channels, types and short tails that tensor cores take. */
void random_dense_text(uint64_t seed, char text[RANDOM_TEXT]);

#endif
