/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune.h"

/* Names are the caller's and say nothing about the work: what the program tuned shall serve PyTorch too. */
static bool rename_all(upconv_epilogue *epilogue) {
  char name[32];
  bool good = true;
  for (int i = 0; i < epilogue->param_count + epilogue->tensor_count && good; i++) {
    bool param = i < epilogue->param_count;
    int index = param ? i : i - epilogue->param_count;
    char **place = param ? &epilogue->param[index].name : &epilogue->tensor[index].name;
    snprintf(name, sizeof name, "%c%d", param ? 'p' : 't', index);
    char *copy = strdup(name);
    good = copy != NULL;
    if (!good) break;
    free(*place);
    *place = copy;
  }
  return good;
}

/* Which rules fired is what constants and no_rewrite change. */
static void print_key(const upconv_plan *plan, const upconv_epilogue *tail, uc_text *text) {
  const uc_lowered *l = &plan->lowered;
  uc_text_add(text, "%s\t", plan->context->identity);
  uc_problem_print(&l->source, text);
  if (tail->op_count > 0) {
    uc_text_add(text, " | ");
    uc_epilogue_print(tail, text);
  }
  uc_text_add(text, "\t");
  for (int i = 0; i < l->fired_count; i++)
    uc_text_add(text, "%s%s", i > 0 ? "," : "", l->fired[i].rule);
  if (l->fired_count == 0) uc_text_add(text, "-");
}

char *uc_tune_key(const upconv_plan *plan) {
  upconv_epilogue *tail = NULL;
  if (uc_epilogue_copy(plan->lowered.source_tail, &tail) != UPCONV_OK) return NULL;
  char *key = NULL;
  if (rename_all(tail)) {
    uc_text text;
    uc_text_init(&text, NULL, 0);
    print_key(plan, tail, &text);
    size_t size = text.length + 1;
    key = malloc(size);
    uc_text_init(&text, key, key ? size : 0);
    if (key) print_key(plan, tail, &text);
  }
  upconv_epilogue_destroy(tail);
  return key;
}
