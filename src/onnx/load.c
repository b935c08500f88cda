/* SPDX-License-Identifier: Apache-2.0 */
/* ModelProto to model: names become numbers, attributes and initialisers move over, then order.c
   checks the whole. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "graph.h"
#include "names.h"
#include "onnx.pb-c.h"

static const size_t FILE_LIMIT = INT32_MAX;

typedef struct loader {
  uc_onnx_model *model;
  const char *directory;
  uc_names names;
  int value_capacity;
} loader;

static bool is_onnx_domain(const char *domain) {
  return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

/* ---- values ---- */

static upconv_status value_number(loader *l, const char *name, int *number) {
  uc_onnx_model *m = l->model;
  bool added;
  upconv_status status = uc_names_add(&l->names, name, m->value_count, number, &added);
  if (status || !added) return status;
  if (m->value_count == l->value_capacity) {
    int capacity = l->value_capacity ? 2 * l->value_capacity : 64;
    void *grown = realloc(m->value, (size_t)capacity * sizeof *m->value);
    if (!grown) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %d values", capacity);
    m->value = grown;
    l->value_capacity = capacity;
  }
  m->value[m->value_count] = (uc_onnx_graph_value){.producer = -1};
  char *copy = uc_onnx_copy_string(name);
  m->value[m->value_count++].name = copy;
  return copy ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
}

static upconv_status add_initialisers(loader *l, const Onnx__GraphProto *graph) {
  if (graph->n_sparse_initializer)
    return uc_fail(UPCONV_UNSUPPORTED, "sparse initialisers are not supported");
  for (size_t i = 0; i < graph->n_initializer; i++) {
    Onnx__TensorProto *proto = graph->initializer[i];
    int number;
    if (!proto->name || !*proto->name)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "initialiser %zu has no name", i);
    upconv_status status = value_number(l, proto->name, &number);
    if (status) return status;
    uc_onnx_graph_value *value = &l->model->value[number];
    if (value->is_initial)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "two initialisers are named '%.200s'", proto->name);
    status = uc_onnx_tensor_from_proto(proto, proto->name, l->directory, &value->initial);
    if (status) return status;
    value->is_initial = true;
  }
  return UPCONV_OK;
}

/* ---- inputs and outputs ---- */

static upconv_status read_dimension(const Onnx__TensorShapeProto__Dimension *dimension, int axis,
                                    uc_onnx_value_info *info) {
  char *symbol = NULL;
  info->shape[axis] = -1;
  if (dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
    /* Some exporters write -1 or 0 for "any"; 0 would be an empty tensor, which nobody declares. */
    if (dimension->dim_value > 0) info->shape[axis] = dimension->dim_value;
  } else if (dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
             dimension->dim_param && *dimension->dim_param) {
    symbol = uc_onnx_copy_string(dimension->dim_param);
    if (!symbol) return UPCONV_OUT_OF_MEMORY;
  }
  info->symbol[axis] = symbol;
  return UPCONV_OK;
}

static upconv_status read_info(const Onnx__ValueInfoProto *proto, uc_onnx_value_info *info) {
  info->rank = -1;
  if (!proto->type) return UPCONV_OK;
  if (proto->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    return uc_fail(UPCONV_UNSUPPORTED, "is not a tensor; other types are not supported");
  const Onnx__TypeProto__Tensor *type = proto->type->tensor_type;
  if (!type) return UPCONV_OK;
  if (type->has_elem_type && type->elem_type != UC_ONNX_UNDEFINED) {
    info->dtype = (uc_onnx_dtype)type->elem_type;
    if (uc_onnx_dtype_size(info->dtype) == 0)
      return uc_fail(UPCONV_UNSUPPORTED, "data type %d (%s) is not supported", type->elem_type,
                     uc_onnx_dtype_name(info->dtype));
  }
  if (!type->shape) return UPCONV_OK;
  if (type->shape->n_dim > UC_ONNX_MAX_RANK)
    return uc_fail(UPCONV_UNSUPPORTED, "rank %zu; at most %d is supported", type->shape->n_dim,
                   UC_ONNX_MAX_RANK);
  info->rank = (int)type->shape->n_dim;
  for (int i = 0; i < info->rank; i++) {
    upconv_status status = read_dimension(type->shape->dim[i], i, info);
    if (status) return status;
  }
  return UPCONV_OK;
}

/* One list of the graph's ends; initialisers that older files list as inputs are left out. */
static upconv_status add_ends(loader *l, Onnx__ValueInfoProto **list, size_t n, bool inputs) {
  uc_onnx_model *m = l->model;
  const char *what = inputs ? "graph input" : "graph output";
  if (n > INT_MAX) return uc_fail(UPCONV_OVERFLOW, "%zu values named %s", n, what);
  uc_onnx_value_info *infos = uc_onnx_new((int64_t)n, sizeof *infos);
  int *numbers = uc_onnx_new((int64_t)n, sizeof *numbers);
  *(inputs ? &m->input_info : &m->output_info) = infos;
  *(inputs ? &m->input : &m->output) = numbers;
  if (!infos || !numbers) return UPCONV_OUT_OF_MEMORY;
  for (size_t i = 0; i < n; i++) {
    int number;
    if (!list[i]->name || !*list[i]->name)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "%s %zu has no name", what, i);
    upconv_status status = value_number(l, list[i]->name, &number);
    if (status) return status;
    uc_onnx_graph_value *value = &m->value[number];
    if (inputs && value->is_initial) continue;
    if (inputs && value->is_input)
      return uc_fail(UPCONV_INVALID_ARGUMENT, "two graph inputs are named '%.200s'", value->name);
    if (inputs) value->is_input = true;
    int *count = inputs ? &m->input_count : &m->output_count;
    numbers[*count] = number;
    status = read_info(list[i], &infos[(*count)++]);
    if (status) return uc_fail_in(status, "%s '%.200s'", what, value->name);
  }
  return UPCONV_OK;
}

/* ---- nodes ---- */

static upconv_status copy_numbers(const Onnx__AttributeProto *proto, uc_onnx_attr *attr) {
  bool floats = attr->kind == UC_ATTR_FLOATS;
  size_t n = floats ? proto->n_floats : proto->n_ints;
  if (n > INT_MAX) return uc_fail(UPCONV_OVERFLOW, "%zu numbers", n);
  void *data = uc_onnx_new((int64_t)n, floats ? sizeof(float) : sizeof(int64_t));
  if (!data) return UPCONV_OUT_OF_MEMORY;
  attr->count = (int)n;
  if (floats) {
    attr->floats = data;
    if (n) memcpy(data, proto->floats, n * sizeof(float));
  } else {
    attr->ints = data;
    if (n) memcpy(data, proto->ints, n * sizeof(int64_t));
  }
  return UPCONV_OK;
}

/* Files of IR version 1 do not say which field they use. */
static int attribute_type(const Onnx__AttributeProto *proto) {
  if (proto->has_type && proto->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
    return (int)proto->type;
  if (proto->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  if (proto->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  if (proto->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
  if (proto->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  if (proto->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
  return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
}

static upconv_status read_attribute(loader *l, Onnx__AttributeProto *proto, uc_onnx_attr *attr) {
  attr->name = uc_onnx_copy_string(proto->name);
  if (!attr->name) return UPCONV_OUT_OF_MEMORY;
  if (proto->ref_attr_name && *proto->ref_attr_name) return UPCONV_OK; /* only inside functions */
  switch (attribute_type(proto)) {
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
    attr->kind = UC_ATTR_FLOAT;
    attr->f = (double)proto->f;
    return UPCONV_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
    attr->kind = UC_ATTR_INT;
    attr->i = proto->i;
    return UPCONV_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
    attr->kind = UC_ATTR_STRING;
    attr->s = uc_onnx_new((int64_t)proto->s.len + 1, 1);
    if (!attr->s) return UPCONV_OUT_OF_MEMORY;
    if (proto->s.len) memcpy(attr->s, proto->s.data, proto->s.len);
    return UPCONV_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
    attr->kind = UC_ATTR_TENSOR;
    if (!proto->t) return uc_fail(UPCONV_INVALID_ARGUMENT, "holds no tensor");
    return uc_onnx_tensor_from_proto(proto->t, attr->name, l->directory, &attr->t);
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
    attr->kind = UC_ATTR_FLOATS;
    return copy_numbers(proto, attr);
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
    attr->kind = UC_ATTR_INTS;
    return copy_numbers(proto, attr);
  default:
    return UPCONV_OK;
  }
}

/* An empty name stands for an input or output that is left out. */
static upconv_status read_values(loader *l, char **names, size_t n, int *count, int **numbers) {
  if (n > INT_MAX) return uc_fail(UPCONV_OVERFLOW, "%zu inputs or outputs", n);
  int *list = uc_onnx_new((int64_t)n, sizeof *list);
  if (!list) return UPCONV_OUT_OF_MEMORY;
  *numbers = list;
  *count = (int)n;
  upconv_status status = UPCONV_OK;
  for (size_t i = 0; i < n && !status; i++) {
    list[i] = -1;
    if (*names[i]) status = value_number(l, names[i], &list[i]);
  }
  return status;
}

static upconv_status read_node(loader *l, const Onnx__NodeProto *proto, size_t index,
                               uc_onnx_node *node) {
  const char *name = proto->name;
  if ((!name || !*name) && proto->n_output) name = proto->output[0];
  node->name = uc_onnx_copy_string(name);
  node->op_type = uc_onnx_copy_string(proto->op_type);
  node->domain = uc_onnx_copy_string(is_onnx_domain(proto->domain) ? "" : proto->domain);
  if (!node->name || !node->op_type || !node->domain) return UPCONV_OUT_OF_MEMORY;
  if (!*node->op_type)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "node %zu ('%.200s') has no operator", index,
                   node->name);
  upconv_status status =
      read_values(l, proto->input, proto->n_input, &node->input_count, &node->input);
  if (!status)
    status = read_values(l, proto->output, proto->n_output, &node->output_count, &node->output);
  if (status) return status;
  node->attr = uc_onnx_new((int64_t)proto->n_attribute, sizeof *node->attr);
  if (!node->attr) return UPCONV_OUT_OF_MEMORY;
  for (size_t i = 0; i < proto->n_attribute; i++) {
    status = read_attribute(l, proto->attribute[i], &node->attr[node->attr_count++]);
    if (status)
      return uc_fail_in(status, "node '%.200s' (%.80s): attribute '%.80s'", node->name,
                        node->op_type, proto->attribute[i]->name ? proto->attribute[i]->name : "");
  }
  return UPCONV_OK;
}

static upconv_status read_nodes(loader *l, const Onnx__GraphProto *graph) {
  enum { MOST_NODES = 1 << 18 };
  if (graph->n_node > MOST_NODES)
    return uc_fail(UPCONV_UNSUPPORTED, "the graph has %zu nodes; at most %d are supported",
                   graph->n_node, MOST_NODES);
  l->model->node = uc_onnx_new((int64_t)graph->n_node, sizeof *l->model->node);
  if (!l->model->node) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = UPCONV_OK;
  for (size_t i = 0; i < graph->n_node && !status; i++)
    status = read_node(l, graph->node[i], i, &l->model->node[l->model->node_count++]);
  return status;
}

/* ---- the whole ---- */

static upconv_status read_opset(uc_onnx_model *model, const Onnx__ModelProto *proto) {
  /* Files older than opset_import mean 1; a file that imports other domains alone has none. */
  model->opset = proto->n_opset_import ? 0 : 1;
  bool given = !proto->n_opset_import;
  for (size_t i = 0; i < proto->n_opset_import; i++)
    if (is_onnx_domain(proto->opset_import[i]->domain)) {
      model->opset = proto->opset_import[i]->version;
      given = true;
    }
  if (!given || (model->opset >= 1 && model->opset <= UC_ONNX_NEWEST_OPSET)) return UPCONV_OK;
  return uc_fail(UPCONV_UNSUPPORTED, "operator set %lld of domain ai.onnx; 1 to %d are supported",
                 (long long)model->opset, UC_ONNX_NEWEST_OPSET);
}

static upconv_status read_metadata(uc_onnx_model *model, const Onnx__ModelProto *proto) {
  if (proto->n_metadata_props > INT_MAX)
    return uc_fail(UPCONV_OVERFLOW, "%zu metadata entries", proto->n_metadata_props);
  model->metadata = uc_onnx_new((int64_t)proto->n_metadata_props, sizeof *model->metadata);
  if (!model->metadata) return UPCONV_OUT_OF_MEMORY;
  for (size_t i = 0; i < proto->n_metadata_props; i++) {
    uc_onnx_metadata *entry = &model->metadata[model->metadata_count++];
    entry->key = uc_onnx_copy_string(proto->metadata_props[i]->key);
    entry->value = uc_onnx_copy_string(proto->metadata_props[i]->value);
    if (!entry->key || !entry->value) return UPCONV_OUT_OF_MEMORY;
  }
  return UPCONV_OK;
}

static upconv_status read_model(loader *l, const Onnx__ModelProto *proto) {
  const Onnx__GraphProto *graph = proto->graph;
  if (!graph) return uc_fail(UPCONV_INVALID_ARGUMENT, "the file holds no graph");
  upconv_status status = read_opset(l->model, proto);
  if (!status) status = read_metadata(l->model, proto);
  if (!status) status = add_initialisers(l, graph);
  if (!status) status = add_ends(l, graph->input, graph->n_input, true);
  if (!status) status = read_nodes(l, graph);
  if (!status) status = add_ends(l, graph->output, graph->n_output, false);
  if (!status) status = uc_onnx_legacy(l->model);
  if (!status) status = uc_onnx_order(l->model);
  return status;
}

upconv_status uc_onnx_model_parse(const void *data, size_t size, const char *directory,
                                  uc_onnx_model **model) {
  void *message;
  upconv_status status = uc_onnx_proto_unpack(&onnx__model_proto__descriptor, data, size, &message);
  if (status) return status;
  loader l = {.model = uc_onnx_new(1, sizeof(uc_onnx_model)), .directory = directory};
  status = l.model ? read_model(&l, message) : UPCONV_OUT_OF_MEMORY;
  uc_names_free(&l.names);
  uc_onnx_proto_free(message);
  if (status)
    uc_onnx_model_destroy(l.model);
  else
    *model = l.model;
  return status;
}

upconv_status uc_onnx_model_load(const char *path, uc_onnx_model **model) {
  uc_onnx_bytes bytes;
  upconv_status status = uc_onnx_file_read(path, FILE_LIMIT, &bytes);
  if (status) return status;
  const char *slash = strrchr(path, '/');
  char *directory = uc_onnx_copy_string(slash ? path : ".");
  if (slash && directory) directory[slash == path ? 1 : slash - path] = '\0';
  status = directory ? uc_onnx_model_parse(bytes.data, bytes.size, directory, model)
                     : UPCONV_OUT_OF_MEMORY;
  if (status) status = uc_fail_in(status, "%.400s", path);
  free(directory);
  free(bytes.data);
  return status;
}
