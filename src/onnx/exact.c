/* SPDX-License-Identifier: Apache-2.0 */
#include "../status.h"
#include "session.h"
upconv_status uc_onnx_reference(uc_onnx_session *session, const uc_onnx_tensor *inputs,
                                int input_count, const upconv_error_model *model,
                                uc_onnx_result *results, int result_count) {
  (void)session;
  (void)inputs;
  (void)input_count;
  (void)model;
  (void)results;
  (void)result_count;
  return uc_fail(UPCONV_UNSUPPORTED, "todo");
}
void uc_onnx_result_free(uc_onnx_result *r) { (void)r; }
upconv_status uc_onnx_compare(const uc_onnx_tensor *t, const uc_onnx_result *r, double *w,
                              int64_t *at) {
  (void)t;
  (void)r;
  (void)w;
  (void)at;
  return uc_fail(UPCONV_UNSUPPORTED, "todo");
}
