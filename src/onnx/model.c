/* SPDX-License-Identifier: Apache-2.0 */
/* What others may ask of a model, and its end. */
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "graph.h"

const uc_onnx_attr *uc_onnx_attr_find(const uc_onnx_node *node, const char *name) {
  for (int i = 0; i < node->attr_count; i++)
    if (strcmp(node->attr[i].name, name) == 0) return &node->attr[i];
  return NULL;
}

int uc_onnx_model_input_count(const uc_onnx_model *model) { return model->input_count; }
int uc_onnx_model_output_count(const uc_onnx_model *model) { return model->output_count; }

const uc_onnx_value_info *uc_onnx_model_input(const uc_onnx_model *model, int index) {
  return index >= 0 && index < model->input_count ? &model->input_info[index] : NULL;
}

const uc_onnx_value_info *uc_onnx_model_output(const uc_onnx_model *model, int index) {
  return index >= 0 && index < model->output_count ? &model->output_info[index] : NULL;
}

const char *uc_onnx_model_metadata(const uc_onnx_model *model, const char *key) {
  for (int i = 0; i < model->metadata_count; i++)
    if (strcmp(model->metadata[i].key, key) == 0) return model->metadata[i].value;
  return NULL;
}

static bool find_binding(const uc_onnx_binding *bindings, int count, const char *symbol,
                         int64_t *size) {
  for (int i = 0; symbol && i < count; i++)
    if (strcmp(bindings[i].symbol, symbol) == 0) {
      *size = bindings[i].size;
      return true;
    }
  return false;
}

upconv_status uc_onnx_model_input_tensor(const uc_onnx_model *model, int index,
                                         const uc_onnx_binding *bindings, int binding_count,
                                         int64_t fallback, uc_onnx_tensor *tensor) {
  const uc_onnx_value_info *info = uc_onnx_model_input(model, index);
  if (!info)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "input %d of a model that has %d", index,
                   model->input_count);
  if (info->rank < 0 || info->dtype == UC_ONNX_UNDEFINED)
    return uc_fail(UPCONV_UNSUPPORTED, "input '%.200s': the model does not say its type and rank",
                   info->name);
  *tensor = (uc_onnx_tensor){.dtype = info->dtype, .rank = info->rank};
  tensor->name = model->value[model->input[index]].name;
  for (int i = 0; i < info->rank; i++) {
    int64_t size = info->shape[i];
    if (size < 0 && !find_binding(bindings, binding_count, info->symbol[i], &size)) {
      if (fallback < 0)
        return uc_fail(UPCONV_INVALID_ARGUMENT, "input '%.200s': axis %d ('%.80s') needs a size",
                       info->name, i, info->symbol[i] ? info->symbol[i] : "?");
      size = fallback;
    }
    if (size < 0)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "'%.80s' is %lld; a size must not be negative",
                     info->symbol[i], (long long)size);
    tensor->shape[i] = size;
  }
  return UPCONV_OK;
}

static void free_infos(uc_onnx_value_info *infos, int count) {
  for (int i = 0; i < count; i++)
    for (int axis = 0; axis < UC_ONNX_MAX_RANK; axis++)
      free((void *)(uintptr_t)infos[i].symbol[axis]);
  free(infos);
}

static void free_node(uc_onnx_node *node) {
  for (int i = 0; i < node->attr_count; i++) {
    uc_onnx_attr *attr = &node->attr[i];
    uc_onnx_tensor_free(&attr->t);
    free(attr->name);
    free(attr->s);
    free(attr->floats);
    free(attr->ints);
  }
  free(node->attr);
  free(node->name);
  free(node->op_type);
  free(node->domain);
  free(node->input);
  free(node->output);
}

void uc_onnx_model_destroy(uc_onnx_model *model) {
  if (!model) return;
  for (int i = 0; i < model->node_count; i++) free_node(&model->node[i]);
  for (int i = 0; i < model->value_count; i++) {
    uc_onnx_tensor_free(&model->value[i].initial);
    free(model->value[i].name);
  }
  for (int i = 0; i < model->metadata_count; i++) {
    free(model->metadata[i].key);
    free(model->metadata[i].value);
  }
  free(model->metadata);
  free_infos(model->input_info, model->input_count);
  free_infos(model->output_info, model->output_count);
  free(model->node);
  free(model->value);
  free(model->input);
  free(model->output);
  free(model);
}
