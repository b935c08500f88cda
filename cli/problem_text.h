/* SPDX-License-Identifier: Apache-2.0 */
/* A problem and its epilogue from the command line. */
#ifndef UPCONV_CLI_PROBLEM_TEXT_H
#define UPCONV_CLI_PROBLEM_TEXT_H

#include "args.h"
#include "upconv/upconv.h"

typedef struct problem_text {
  upconv_problem *problem;
  upconv_epilogue *epilogue;
  upconv_math math;
  char *text; /* as the library prints it: the whole thing, in one line */
} problem_text;

/* The words are joined by blanks, so that forgotten quotes do no harm. then: an epilogue, or NULL. Prints what is wrong and
   returns CLI_BAD. */
int problem_text_parse(const char *command, const arg_list *words, const char *then,
                       problem_text *p);
void problem_text_free(problem_text *p);

#endif
