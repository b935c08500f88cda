/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller gives against what the model declares. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "session.h"

/* ---- names ---- */

static int find_input(const uc_onnx_model *m, const uc_onnx_tensor *tensor, int position) {
  if (!tensor->name) return position < m->input_count ? position : -1;
  for (int i = 0; i < m->input_count; i++)
    if (strcmp(m->input_info[i].name, tensor->name) == 0) return i;
  return -1;
}

upconv_status uc_session_output(const uc_onnx_model *m, const char *name, int i, int *index) {
  *index = i;
  if (!name && i < m->output_count) return UPCONV_OK;
  for (int k = 0; name && k < m->output_count; k++)
    if (strcmp(m->output_info[k].name, name) == 0) {
      *index = k;
      return UPCONV_OK;
    }
  return uc_fail(UPCONV_INVALID_ARGUMENT,
                 "the model has no output '%.200s'; it has %d, such as '%.200s'", name ? name : "?",
                 m->output_count, m->output_count ? m->output_info[0].name : "");
}

/* ---- shapes ---- */

static upconv_status check_input(const uc_onnx_value_info *info, const uc_onnx_tensor *tensor) {
  size_t bytes;
  if (!uc_onnx_tensor_bytes(tensor, &bytes))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s': its type or shape is not valid",
                   info->name);
  if (info->dtype != UC_ONNX_UNDEFINED && info->dtype != tensor->dtype)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s' has type %s; the model wants %s",
                   info->name, uc_onnx_dtype_name(tensor->dtype), uc_onnx_dtype_name(info->dtype));
  if (info->rank >= 0 && info->rank != tensor->rank)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s' has rank %d; the model wants %d",
                   info->name, tensor->rank, info->rank);
  for (int i = 0; i < info->rank; i++)
    if (info->shape[i] >= 0 && info->shape[i] != tensor->shape[i])
      return uc_fail(UPCONV_INVALID_ARGUMENT,
                     "input '%.200s': axis %d has size %lld; the model wants %lld", info->name, i,
                     (long long)tensor->shape[i], (long long)info->shape[i]);
  return UPCONV_OK;
}

typedef struct symbol {
  const char *name;
  int64_t size;
  int input;
} symbol;

static int by_name(const void *a, const void *b) {
  return strcmp(((const symbol *)a)->name, ((const symbol *)b)->name);
}

/* A symbol has one size wherever it stands. */
static upconv_status check_symbols(const uc_onnx_model *m, const uc_onnx_tensor *const *inputs) {
  symbol *symbols = uc_onnx_new((int64_t)m->input_count * UC_ONNX_MAX_RANK, sizeof *symbols);
  size_t count = 0;
  upconv_status status = UPCONV_OK;
  if (!symbols) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < m->input_count; i++)
    for (int axis = 0; axis < m->input_info[i].rank; axis++)
      if (m->input_info[i].symbol[axis])
        symbols[count++] = (symbol){m->input_info[i].symbol[axis], inputs[i]->shape[axis], i};
  if (count) qsort(symbols, count, sizeof *symbols, by_name);
  for (size_t i = 1; i < count && !status; i++)
    if (strcmp(symbols[i].name, symbols[i - 1].name) == 0 && symbols[i].size != symbols[i - 1].size)
      status = uc_fail(
          UPCONV_INVALID_ARGUMENT, "'%.80s' is %lld in input '%.200s' and %lld in input '%.200s'",
          symbols[i].name, (long long)symbols[i - 1].size, m->input_info[symbols[i - 1].input].name,
          (long long)symbols[i].size, m->input_info[symbols[i].input].name);
  free(symbols);
  return status;
}

static upconv_status order_inputs(const uc_onnx_model *m, const uc_onnx_tensor *inputs, int count,
                                  const uc_onnx_tensor **ordered) {
  for (int i = 0; i < count; i++) {
    int index = find_input(m, &inputs[i], i);
    if (index < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "the model has no input '%.200s'",
                     inputs[i].name ? inputs[i].name : "?");
    if (ordered[index])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s' is given twice",
                     m->input_info[index].name);
    ordered[index] = &inputs[i];
    upconv_status status = check_input(&m->input_info[index], &inputs[i]);
    if (status) return status;
  }
  for (int i = 0; i < m->input_count; i++)
    if (!ordered[i])
      return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s' is not given", m->input_info[i].name);
  return check_symbols(m, ordered);
}

upconv_status uc_session_inputs(const uc_onnx_model *m, const uc_onnx_tensor *inputs, int count,
                                const uc_onnx_tensor ***ordered) {
  const uc_onnx_tensor **list = uc_onnx_new(m->input_count, sizeof *list);
  if (!list) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = order_inputs(m, inputs, count, list);
  if (status)
    free(list);
  else
    *ordered = list;
  return status;
}
