/* SPDX-License-Identifier: Apache-2.0 */
/* Every value has one origin, every origin exists, and nodes can be run one after the other. */
#include <stdlib.h>

#include "../status.h"
#include "graph.h"

static upconv_status find_producers(uc_onnx_model *model) {
  for (int i = 0; i < model->node_count; i++) {
    const uc_onnx_node *node = &model->node[i];
    for (int k = 0; k < node->output_count; k++) {
      if (node->output[k] < 0) continue;
      uc_onnx_graph_value *value = &model->value[node->output[k]];
      if (value->is_input || value->is_initial)
        return uc_fail(UPCONV_INVALID_ARGUMENT,
                       "node '%.200s' (%.80s) makes '%.200s', which is %s already", node->name,
                       node->op_type, value->name,
                       value->is_input ? "a graph input" : "an initialiser");
      if (value->producer >= 0)
        return uc_fail(UPCONV_INVALID_ARGUMENT,
                       "'%.200s' is made twice, the second time by node "
                       "'%.200s' (%.80s)",
                       value->name, node->name, node->op_type);
      value->producer = i;
    }
  }
  return UPCONV_OK;
}

static bool has_origin(const uc_onnx_graph_value *value) {
  return value->is_input || value->is_initial || value->producer >= 0;
}

static upconv_status check_origins(const uc_onnx_model *model) {
  for (int i = 0; i < model->node_count; i++) {
    const uc_onnx_node *node = &model->node[i];
    for (int k = 0; k < node->input_count; k++)
      if (node->input[k] >= 0 && !has_origin(&model->value[node->input[k]]))
        return uc_fail(UPCONV_INVALID_ARGUMENT,
                       "node '%.200s' (%.80s) reads '%.200s', which nothing makes", node->name,
                       node->op_type, model->value[node->input[k]].name);
  }
  for (int i = 0; i < model->output_count; i++)
    if (!has_origin(&model->value[model->output[i]]))
      return uc_fail(UPCONV_INVALID_ARGUMENT, "graph output '%.200s' is made by nothing",
                     model->value[model->output[i]].name);
  return UPCONV_OK;
}

/* Counting sort of edges by producer, then Kahn's algorithm. First in, first out keeps the
   file's order where it is one: a node enters the queue when its last input is made. */
typedef struct sorter {
  int *waiting;   /* inputs that are still to be made, per node */
  int64_t *first; /* per node: its first edge in `reader` */
  int *reader;
  int *order;
} sorter;

static void count_edges(const uc_onnx_model *m, sorter *s) {
  for (int i = 0; i < m->node_count; i++)
    for (int k = 0; k < m->node[i].input_count; k++) {
      int v = m->node[i].input[k];
      if (v < 0 || m->value[v].producer < 0) continue;
      s->waiting[i]++;
      s->first[m->value[v].producer + 1]++;
    }
  for (int i = 0; i < m->node_count; i++) s->first[i + 1] += s->first[i];
}

static upconv_status fill_edges(const uc_onnx_model *m, sorter *s) {
  s->reader = uc_onnx_new(s->first[m->node_count], sizeof *s->reader);
  if (!s->reader) return UPCONV_OUT_OF_MEMORY;
  /* first[] moves to the end of its run here and is put back by the shift below. */
  for (int i = 0; i < m->node_count; i++)
    for (int k = 0; k < m->node[i].input_count; k++) {
      int v = m->node[i].input[k];
      if (v >= 0 && m->value[v].producer >= 0) s->reader[s->first[m->value[v].producer]++] = i;
    }
  for (int i = m->node_count; i > 0; i--) s->first[i] = s->first[i - 1];
  s->first[0] = 0;
  return UPCONV_OK;
}

static upconv_status sort_nodes(const uc_onnx_model *m, sorter *s) {
  int head = 0, tail = 0;
  for (int i = 0; i < m->node_count; i++)
    if (s->waiting[i] == 0) s->order[tail++] = i;
  for (; head < tail; head++)
    for (int64_t e = s->first[s->order[head]]; e < s->first[s->order[head] + 1]; e++)
      if (--s->waiting[s->reader[e]] == 0) s->order[tail++] = s->reader[e];
  if (tail == m->node_count) return UPCONV_OK;
  int stuck = 0;
  while (s->waiting[stuck] <= 0) stuck++;
  return uc_fail(UPCONV_INVALID_ARGUMENT,
                 "the graph has a cycle: node '%.200s' (%.80s) waits for "
                 "its own result",
                 m->node[stuck].name, m->node[stuck].op_type);
}

/* True when each node stands behind the makers of its inputs: what ONNX demands of a file. */
static bool is_sorted(const uc_onnx_model *m) {
  for (int i = 0; i < m->node_count; i++)
    for (int k = 0; k < m->node[i].input_count; k++)
      if (m->node[i].input[k] >= 0 && m->value[m->node[i].input[k]].producer >= i) return false;
  return true;
}

static upconv_status apply_order(uc_onnx_model *m, const int *order) {
  uc_onnx_node *sorted = uc_onnx_new(m->node_count, sizeof *sorted);
  if (!sorted) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < m->node_count; i++) {
    sorted[i] = m->node[order[i]];
    for (int k = 0; k < sorted[i].output_count; k++)
      if (sorted[i].output[k] >= 0) m->value[sorted[i].output[k]].producer = i;
  }
  free(m->node);
  m->node = sorted;
  return UPCONV_OK;
}

static upconv_status reorder(uc_onnx_model *m) {
  sorter s = {
      .waiting = uc_onnx_new(m->node_count, sizeof *s.waiting),
      .first = uc_onnx_new((int64_t)m->node_count + 1, sizeof *s.first),
      .order = uc_onnx_new(m->node_count, sizeof *s.order),
  };
  upconv_status status = UPCONV_OUT_OF_MEMORY;
  if (s.waiting && s.first && s.order) {
    count_edges(m, &s);
    status = fill_edges(m, &s);
  }
  if (!status) status = sort_nodes(m, &s);
  if (!status) status = apply_order(m, s.order);
  free(s.waiting);
  free(s.first);
  free(s.order);
  free(s.reader);
  return status;
}

static void name_infos(uc_onnx_model *m) {
  for (int i = 0; i < m->input_count; i++) m->input_info[i].name = m->value[m->input[i]].name;
  for (int i = 0; i < m->output_count; i++) m->output_info[i].name = m->value[m->output[i]].name;
}

upconv_status uc_onnx_order(uc_onnx_model *model) {
  name_infos(model);
  upconv_status status = find_producers(model);
  if (!status) status = check_origins(model);
  if (!status && !is_sorted(model)) status = reorder(model);
  return status;
}
