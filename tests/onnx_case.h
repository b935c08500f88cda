/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the ONNX part do again and again: a model, a session, random inputs, a run, the
 * oracle's verdict.
 */
#ifndef UPCONV_TESTS_ONNX_CASE_H
#define UPCONV_TESTS_ONNX_CASE_H

#include "onnx/onnx.h"
#include "onnx_build.h"

enum { ONNX_CASE_MOST = 8 };

typedef struct onnx_case {
  upconv_context *context;
  uc_onnx_model *model;
  uc_onnx_session *session;
  int input_count, output_count;
  uc_onnx_tensor input[ONNX_CASE_MOST], output[ONNX_CASE_MOST];
  char *text; /* uc_onnx_print, without plans */
} onnx_case;

/* Ends the build and opens a session on it; symbols have the size `symbol`. False, with a failed
   check, when that fails. */
bool onnx_case_open(onnx_case *c, onnx_build *b, int64_t symbol, const uc_onnx_options *options);
/* Other sizes for symbolic dimensions; inputs are filled anew. */
bool onnx_case_resize(onnx_case *c, int64_t symbol);
/* Runs and checks every output against the oracle. */
bool onnx_case_run(onnx_case *c);
/* Runs with no_tails and checks every output against the oracle of the session as it is: what an
   epilogue computes must be what the plain operators do. */
bool onnx_case_run_plain(onnx_case *c);
/* Counts of segments and plain steps. */
bool onnx_case_steps(onnx_case *c, int segments, int plain);
/* The printed cut holds this text. */
bool onnx_case_says(onnx_case *c, const char *text);
void onnx_case_close(onnx_case *c);

/* All of it for a graph of one segment whose problem, as printed, ends with this epilogue. */
bool onnx_case_fuses(onnx_build *b, const char *epilogue);

#endif
