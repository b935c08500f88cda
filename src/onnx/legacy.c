/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operator sets before 7 said with an attribute `axis` where the second operand of a binary
 * operator lies in the first one, and PRelu's slopes were always channels. Such an operand goes
 * through a view that appends axes of extent 1, and from there on NumPy's rule holds.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "graph.h"

/* True when the node needs the view, and the axis that it begins at. */
static bool needs_align(const uc_onnx_node *node, int64_t *axis) {
  static const char *const names[] = {"Add", "Sub",   "Mul",     "Div", "Pow", "And",
                                      "Or",  "Equal", "Greater", "Xor", "Less"};
  if (*node->domain || node->input_count != 2 || node->input[0] < 0 || node->input[1] < 0)
    return false;
  if (strcmp(node->op_type, "PRelu") == 0) {
    *axis = 1;
    return true;
  }
  const uc_onnx_attr *attr = uc_onnx_attr_find(node, "axis");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (attr && attr->kind == UC_ATTR_INT && strcmp(node->op_type, names[i]) == 0) {
      *axis = attr->i;
      return true;
    }
  return false;
}

static upconv_status fill_align(uc_onnx_node *align, const uc_onnx_node *user, int64_t axis,
                                int value) {
  align->name = uc_onnx_copy_string(user->name);
  align->op_type = uc_onnx_copy_string(UC_ONNX_ALIGN);
  align->domain = uc_onnx_copy_string("");
  align->input = uc_onnx_new(2, sizeof *align->input);
  align->output = uc_onnx_new(1, sizeof *align->output);
  align->attr = uc_onnx_new(1, sizeof *align->attr);
  if (!align->name || !align->op_type || !align->domain || !align->input || !align->output ||
      !align->attr)
    return UPCONV_OUT_OF_MEMORY;
  align->input_count = 2;
  align->output_count = 1;
  align->input[0] = user->input[1];
  align->input[1] = user->input[0];
  align->output[0] = value;
  align->attr_count = 1;
  align->attr[0] = (uc_onnx_attr){.kind = UC_ATTR_INT, .i = axis};
  align->attr[0].name = uc_onnx_copy_string("axis");
  return align->attr[0].name ? UPCONV_OK : UPCONV_OUT_OF_MEMORY;
}

/* Makes room for `more` nodes and values. */
static upconv_status grow(uc_onnx_model *m, int more) {
  if (more > INT_MAX - m->node_count || more > INT_MAX - m->value_count)
    return uc_fail(UPCONV_OVERFLOW, "%d nodes", m->node_count);
  void *nodes = realloc(m->node, (size_t)(m->node_count + more) * sizeof *m->node);
  if (nodes) m->node = nodes;
  void *values = realloc(m->value, (size_t)(m->value_count + more) * sizeof *m->value);
  if (values) m->value = values;
  return nodes && values ? UPCONV_OK
                         : uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %d nodes", more);
}

upconv_status uc_onnx_legacy(uc_onnx_model *m) {
  int more = 0, old_count = m->node_count;
  int64_t axis;
  for (int i = 0; i < old_count && m->opset < 7; i++) more += needs_align(&m->node[i], &axis);
  if (more == 0) return UPCONV_OK;
  upconv_status status = grow(m, more);
  for (int i = 0; i < old_count && !status; i++) {
    if (!needs_align(&m->node[i], &axis)) continue;
    uc_onnx_node *align = &m->node[m->node_count];
    uc_onnx_graph_value *value = &m->value[m->value_count];
    *align = (uc_onnx_node){.name = NULL};
    *value = (uc_onnx_graph_value){.producer = -1};
    value->name = uc_onnx_copy_string(m->value[m->node[i].input[1]].name);
    m->node_count++;
    status = fill_align(align, &m->node[i], axis, m->value_count++);
    if (!status && !value->name) status = UPCONV_OUT_OF_MEMORY;
    m->node[i].input[1] = align->output ? align->output[0] : -1;
  }
  return status;
}
