/* SPDX-License-Identifier: Apache-2.0 */
#include "problem_text.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

static char *join(const arg_list *words) {
  size_t size = 1;
  for (int i = 0; i < words->count; i++) size += strlen(words->item[i]) + 1;
  char *text = malloc(size), *end = text;
  if (!text) return NULL;
  *end = 0;
  for (int i = 0; i < words->count; i++) {
    if (i) *end++ = ' ';
    end = stpcpy(end, words->item[i]);
  }
  return text;
}

static upconv_status parse_then(const char *then, problem_text *p) {
  upconv_problem_desc desc;
  upconv_status status = upconv_problem_get_desc(p->problem, &desc);
  if (status != UPCONV_OK) return status;
  p->math = desc.math;
  if (!then) return UPCONV_OK;
  upconv_epilogue_destroy(p->epilogue);
  p->epilogue = NULL;
  return upconv_epilogue_parse(desc.spatial_dims, then, &p->epilogue);
}

static upconv_status print(problem_text *p) {
  size_t length = 0;
  upconv_status status = upconv_problem_print(p->problem, p->epilogue, NULL, 0, &length);
  if (status != UPCONV_OK) return status;
  p->text = malloc(length + 1);
  if (!p->text) return UPCONV_OUT_OF_MEMORY;
  return upconv_problem_print(p->problem, p->epilogue, p->text, length + 1, NULL);
}

static int parse(const char *command, const char *text, const char *then, problem_text *p) {
  if (then && strchr(text, '|'))
    return cli_fail("%s: the text has an epilogue behind '|' already; leave --then out", command);
  upconv_status status = upconv_problem_parse(text, &p->problem, &p->epilogue);
  if (status == UPCONV_OK) status = parse_then(then, p);
  /* Whether the two fit is asked here, so that the message does not depend on what is done with them. */
  int64_t shape[UPCONV_MAX_RANK];
  if (status == UPCONV_OK) status = upconv_output_shape(p->problem, p->epilogue, shape);
  if (status == UPCONV_OK) status = print(p);
  return status == UPCONV_OK ? CLI_RIGHT : cli_fail_library(command);
}

int problem_text_parse(const char *command, const arg_list *words, const char *then,
                       problem_text *p) {
  *p = (problem_text){0};
  char *text = join(words);
  if (!text) return cli_fail("%s: out of memory", command);
  int code = parse(command, text, then, p);
  free(text);
  if (code) problem_text_free(p);
  return code;
}

void problem_text_free(problem_text *p) {
  upconv_problem_destroy(p->problem);
  upconv_epilogue_destroy(p->epilogue);
  free(p->text);
  *p = (problem_text){0};
}
