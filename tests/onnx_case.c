/* SPDX-License-Identifier: Apache-2.0 */
typedef int onnx_case_not_empty;

#ifdef UPCONV_WITH_ONNX

#include "onnx_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static bool fill_inputs(onnx_case *c, int64_t symbol) {
  uint64_t seed = 7;
  for (int i = 0; i < c->input_count; i++) {
    uc_onnx_tensor *t = &c->input[i];
    size_t bytes;
    int64_t count;
    free(t->data);
    if (!CHECK_STATUS(uc_onnx_model_input_tensor(c->model, i, NULL, 0, symbol, t), UPCONV_OK))
      return false;
    if (!CHECK(uc_onnx_tensor_bytes(t, &bytes) && uc_onnx_tensor_elements(t, &count))) return false;
    t->data = malloc(bytes + 1);
    if (!t->data) abort();
    for (int64_t k = 0; k < count; k++)
      uc_onnx_set(t->data, t->dtype, k, 4 * check_random_unit(&seed) - 2);
  }
  return true;
}

static bool print_cut(onnx_case *c) {
  size_t length;
  free(c->text);
  c->text = NULL;
  if (!CHECK_STATUS(uc_onnx_print(c->session, c->input, c->input_count, false, NULL, 0, &length),
                    UPCONV_OK))
    return false;
  c->text = malloc(length + 1);
  if (!c->text) abort();
  return CHECK_STATUS(
      uc_onnx_print(c->session, c->input, c->input_count, false, c->text, length + 1, NULL),
      UPCONV_OK);
}

bool onnx_case_open(onnx_case *c, onnx_build *b, int64_t symbol, const uc_onnx_options *options) {
  const upconv_context_options threads = {.threads = 2};
  *c = (onnx_case){.text = NULL};
  onnx_end(b);
  bool ok = CHECK_STATUS(upconv_context_create(&threads, &c->context), UPCONV_OK) &&
            CHECK_STATUS(uc_onnx_model_parse(b->data, b->size, NULL, &c->model), UPCONV_OK);
  onnx_free(b);
  if (!ok ||
      !CHECK_STATUS(uc_onnx_session_create(c->model, c->context, options, &c->session), UPCONV_OK))
    return false;
  c->input_count = uc_onnx_model_input_count(c->model);
  c->output_count = uc_onnx_model_output_count(c->model);
  if (!CHECK(c->input_count <= ONNX_CASE_MOST && c->output_count <= ONNX_CASE_MOST)) return false;
  return fill_inputs(c, symbol) && print_cut(c);
}

bool onnx_case_resize(onnx_case *c, int64_t symbol) {
  return fill_inputs(c, symbol) && print_cut(c);
}

static bool check_outputs(onnx_case *c, const uc_onnx_result *results) {
  bool ok = true;
  for (int i = 0; i < c->output_count; i++) {
    double worst;
    int64_t where;
    ok = CHECK_STATUS(uc_onnx_compare(&c->output[i], &results[i], &worst, &where), UPCONV_OK) &&
         CHECK_MSG(worst <= 1, "output %d: %g of the bound at %lld", i, worst, (long long)where) &&
         ok;
  }
  return ok;
}

bool onnx_case_run(onnx_case *c) {
  uc_onnx_result results[ONNX_CASE_MOST] = {{.name = NULL}};
  for (int i = 0; i < c->output_count; i++) uc_onnx_tensor_free(&c->output[i]);
  bool ok =
      CHECK_STATUS(uc_onnx_run(c->session, c->input, c->input_count, c->output, c->output_count),
                   UPCONV_OK) &&
      CHECK_STATUS(
          uc_onnx_reference(c->session, c->input, c->input_count, NULL, results, c->output_count),
          UPCONV_OK) &&
      check_outputs(c, results);
  for (int i = 0; i < c->output_count; i++) uc_onnx_result_free(&results[i]);
  return ok;
}

bool onnx_case_run_plain(onnx_case *c) {
  const uc_onnx_options options = {.no_tails = true};
  uc_onnx_result results[ONNX_CASE_MOST] = {{.name = NULL}};
  uc_onnx_session *plain;
  for (int i = 0; i < c->output_count; i++) uc_onnx_tensor_free(&c->output[i]);
  if (!CHECK_STATUS(uc_onnx_session_create(c->model, c->context, &options, &plain), UPCONV_OK))
    return false;
  bool ok = CHECK_STATUS(uc_onnx_run(plain, c->input, c->input_count, c->output, c->output_count),
                         UPCONV_OK) &&
            CHECK_STATUS(uc_onnx_reference(c->session, c->input, c->input_count, NULL, results,
                                           c->output_count),
                         UPCONV_OK) &&
            check_outputs(c, results);
  for (int i = 0; i < c->output_count; i++) uc_onnx_result_free(&results[i]);
  uc_onnx_session_destroy(plain);
  return ok;
}

bool onnx_case_steps(onnx_case *c, int segments, int plain) {
  int got_segments, got_plain;
  return CHECK_STATUS(
             uc_onnx_step_counts(c->session, c->input, c->input_count, &got_segments, &got_plain),
             UPCONV_OK) &&
         CHECK_MSG(got_segments == segments && got_plain == plain, "%d segments, %d plain:\n%s",
                   got_segments, got_plain, c->text);
}

bool onnx_case_says(onnx_case *c, const char *text) {
  return CHECK_MSG(strstr(c->text, text) != NULL, "'%s' is not in:\n%s", text, c->text);
}

void onnx_case_close(onnx_case *c) {
  for (int i = 0; i < ONNX_CASE_MOST; i++) {
    free(c->input[i].data);
    uc_onnx_tensor_free(&c->output[i]);
  }
  uc_onnx_session_destroy(c->session);
  uc_onnx_model_destroy(c->model);
  upconv_context_destroy(c->context);
  free(c->text);
}

bool onnx_case_fuses(onnx_build *b, const char *epilogue) {
  onnx_case c;
  char wanted[512];
  snprintf(wanted, sizeof wanted, "%s\n", epilogue);
  bool ok = onnx_case_open(&c, b, 3, NULL) && onnx_case_steps(&c, 1, 0) &&
            onnx_case_says(&c, wanted) && onnx_case_run(&c) && onnx_case_run_plain(&c);
  onnx_case_close(&c);
  return ok;
}

#endif
