/* SPDX-License-Identifier: Apache-2.0 */
/* Building and copying epilogues. */
#include "epilogue.h"

#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "status.h"

/* ---- creation ---- */

static upconv_status null_argument(const char *name) {
  return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", name);
}

static upconv_status no_memory(void) {
  return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for an epilogue");
}

upconv_status upconv_epilogue_create(int spatial_dims, upconv_epilogue **epilogue) {
  if (!epilogue) return null_argument("epilogue");
  if (spatial_dims < 1 || spatial_dims > UPCONV_MAX_SPATIAL)
    return uc_fail(spatial_dims < 1 ? UPCONV_INVALID_ARGUMENT : UPCONV_UNSUPPORTED,
                   "spatial_dims is %d; allowed: 1, 2, 3", spatial_dims);
  upconv_epilogue *created = calloc(1, sizeof *created);
  if (!created) return no_memory();
  created->nd = spatial_dims;
  *epilogue = created;
  return UPCONV_OK;
}

void upconv_epilogue_destroy(upconv_epilogue *epilogue) {
  if (!epilogue) return;
  for (int i = 0; i < epilogue->param_count; i++) free(epilogue->param[i].name);
  for (int i = 0; i < epilogue->tensor_count; i++) free(epilogue->tensor[i].name);
  free(epilogue->param);
  free(epilogue->tensor);
  free(epilogue->op);
  free(epilogue);
}

/* Makes room for one more item of the given size; array and capacity are unchanged on failure. */
static void *grow(void *array, int count, int *capacity, size_t size) {
  enum { FIRST = 8 };
  if (count < *capacity) return array;
  int wanted = *capacity ? *capacity * 2 : FIRST;
  void *grown = realloc(array, (size_t)wanted * size);
  if (grown) *capacity = wanted;
  return grown;
}

/* ---- parameters and tensors ---- */

static bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

static upconv_status check_name(const upconv_epilogue *epilogue, const char *name) {
  size_t length = 0;
  while (length <= UC_MAX_NAME && is_name_character(name[length])) length++;
  if (length == 0 || length > UC_MAX_NAME || name[length])
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "name is '%.140s'; allowed: 1 to %d letters, digits, '_' and '.'", name,
                   UC_MAX_NAME);
  bool taken = false;
  for (int i = 0; i < epilogue->param_count; i++)
    taken = taken || strcmp(epilogue->param[i].name, name) == 0;
  for (int i = 0; i < epilogue->tensor_count; i++)
    taken = taken || strcmp(epilogue->tensor[i].name, name) == 0;
  if (taken) return uc_fail(UPCONV_INVALID_ARGUMENT, "name is '%s', which is already in use", name);
  return UPCONV_OK;
}

/* A copy that free releases, without strdup, which is not in C11. */
static char *copy_name(const char *name) {
  size_t size = strlen(name) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, name, size) : NULL;
}

static upconv_status add_param(upconv_epilogue *epilogue, const char *name, bool per_channel) {
  uc_param_decl *param = grow(epilogue->param, epilogue->param_count, &epilogue->param_capacity,
                              sizeof *epilogue->param);
  if (!param) return no_memory();
  epilogue->param = param;
  char *copy = copy_name(name);
  if (!copy) return no_memory();
  param[epilogue->param_count++] = (uc_param_decl){copy, per_channel};
  return UPCONV_OK;
}

upconv_status upconv_epilogue_param(upconv_epilogue *epilogue, const char *name, bool per_channel,
                                    upconv_operand *operand) {
  if (!epilogue || !name) return null_argument(epilogue ? "name" : "epilogue");
  if (epilogue->param_count >= UC_MAX_PARAMS)
    return uc_fail(UPCONV_UNSUPPORTED, "parameter '%.140s': at most %d are allowed", name,
                   UC_MAX_PARAMS);
  upconv_status status = check_name(epilogue, name);
  if (!status) status = add_param(epilogue, name, per_channel);
  if (!status && operand)
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_PARAM, .index = epilogue->param_count - 1};
  return status;
}

static upconv_status add_tensor(upconv_epilogue *epilogue, const char *name, uint32_t axes,
                                upconv_dtype dtype) {
  uc_tensor_decl *tensor = grow(epilogue->tensor, epilogue->tensor_count,
                                &epilogue->tensor_capacity, sizeof *epilogue->tensor);
  if (!tensor) return no_memory();
  epilogue->tensor = tensor;
  char *copy = copy_name(name);
  if (!copy) return no_memory();
  tensor[epilogue->tensor_count++] = (uc_tensor_decl){copy, axes, dtype};
  return UPCONV_OK;
}

upconv_status upconv_epilogue_tensor(upconv_epilogue *epilogue, const char *name, uint32_t axes,
                                     upconv_dtype dtype, upconv_operand *operand) {
  if (!epilogue || !name) return null_argument(epilogue ? "name" : "epilogue");
  uint32_t rank_mask = (4u << epilogue->nd) - 1;
  if (axes == UPCONV_TENSOR_FULL) axes = rank_mask;
  if (axes & ~rank_mask)
    return uc_fail(UPCONV_INVALID_ARGUMENT,
                   "tensor '%.140s': axes is 0x%x; allowed: bits of 0x%x, or UPCONV_TENSOR_FULL",
                   name, (unsigned)axes, (unsigned)rank_mask);
  if (!upconv_dtype_size(dtype))
    return uc_fail(UPCONV_UNSUPPORTED, "tensor '%.140s': dtype is %d; allowed: f32, f16, bf16",
                   name, (int)dtype);
  if (epilogue->tensor_count >= UC_MAX_TENSORS)
    return uc_fail(UPCONV_UNSUPPORTED, "tensor '%.140s': at most %d are allowed", name,
                   UC_MAX_TENSORS);
  upconv_status status = check_name(epilogue, name);
  if (!status) status = add_tensor(epilogue, name, uc_tensor_axes(axes, epilogue->nd), dtype);
  if (!status && operand)
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_TENSOR, .index = epilogue->tensor_count - 1};
  return status;
}

/* ---- operators ---- */

/* Only what the kind uses, everything else 0: operators are the same iff all their fields are. */
static upconv_op only_used(const upconv_op *op) {
  const uc_op_info *info = uc_op_describe(op->kind);
  upconv_op clean = {.kind = op->kind};
  for (int i = 0; i < info->operand_count; i++) {
    const upconv_operand *from = &op->operand[i];
    bool constant = from->kind == UPCONV_OPERAND_CONSTANT;
    bool indexed = !constant && from->kind != UPCONV_OPERAND_NONE;
    clean.operand[i] =
        (upconv_operand){from->kind, indexed ? from->index : 0, constant ? from->constant : 0};
  }
  for (int i = 0; i < info->attr_count; i++) clean.attr[i] = op->attr[i];
  if (info->op_class == UC_CLASS_POOL) {
    clean.window = op->window;
    if (op->kind != UPCONV_OP_AVG_POOL) clean.window.count_include_pad = true;
  }
  if (info->op_class == UC_CLASS_CHANNELS || info->op_class == UC_CLASS_REDUCE)
    clean.axes = op->axes;
  return clean;
}

upconv_status uc_epilogue_append_canonical(upconv_epilogue *epilogue, const upconv_op *op) {
  upconv_status status = uc_op_check(epilogue, op);
  if (!status && epilogue->op_count >= UC_MAX_OPS)
    status = uc_fail(UPCONV_UNSUPPORTED, "at most %d operators are allowed", UC_MAX_OPS);
  if (status) return uc_fail_in(status, "operator %d", epilogue->op_count);
  upconv_op clean = only_used(op);
  upconv_op *ops = grow(epilogue->op, epilogue->op_count, &epilogue->op_capacity, sizeof *ops);
  if (!ops) return no_memory();
  epilogue->op = ops;
  ops[epilogue->op_count++] = clean;
  return UPCONV_OK;
}

/* A user's window has its axes at the front; a stride of 0 means the kernel. */
static upconv_window canonical_window(const upconv_window *window, int nd) {
  upconv_window result = {.ceil_mode = window->ceil_mode,
                          .count_include_pad = window->count_include_pad,
                          .divisor = window->divisor};
  for (int a = 0; a < UC_AXES; a++) {
    int i = a - (UC_AXES - nd);
    result.kernel[a] = result.stride[a] = result.dilation[a] = 1;
    if (i < 0) continue;
    result.kernel[a] = window->kernel[i];
    result.stride[a] = window->stride[i] ? window->stride[i] : window->kernel[i];
    result.dilation[a] = window->dilation[i];
    result.pad_begin[a] = window->pad_begin[i];
    result.pad_end[a] = window->pad_end[i];
  }
  return result;
}

upconv_status upconv_epilogue_append(upconv_epilogue *epilogue, const upconv_op *op,
                                     upconv_operand *value) {
  if (!epilogue || !op) return null_argument(epilogue ? "op" : "epilogue");
  upconv_op canonical = *op;
  canonical.window = canonical_window(&op->window, epilogue->nd);
  uint32_t rank_mask = (2u << epilogue->nd) - 1;
  canonical.axes = (op->axes & UC_AXES_CHANNEL) | (op->axes & rank_mask & UC_AXES_SPATIAL)
                                                      << (UC_AXES - epilogue->nd);
  /* A bit beyond the rank has no canonical place: no set that the check accepts holds all bits. */
  if (op->axes & ~rank_mask) canonical.axes = UINT32_MAX;
  upconv_status status = uc_epilogue_append_canonical(epilogue, &canonical);
  if (!status && value)
    *value = (upconv_operand){.kind = UPCONV_OPERAND_VALUE, .index = epilogue->op_count};
  return status;
}

/* ---- queries ---- */

int upconv_epilogue_op_count(const upconv_epilogue *epilogue) {
  return epilogue ? epilogue->op_count : 0;
}

int upconv_epilogue_param_count(const upconv_epilogue *epilogue) {
  return epilogue ? epilogue->param_count : 0;
}

int upconv_epilogue_tensor_count(const upconv_epilogue *epilogue) {
  return epilogue ? epilogue->tensor_count : 0;
}

const char *upconv_epilogue_param_name(const upconv_epilogue *epilogue, int index) {
  if (!epilogue || index < 0 || index >= epilogue->param_count) return NULL;
  return epilogue->param[index].name;
}

const char *upconv_epilogue_tensor_name(const upconv_epilogue *epilogue, int index) {
  if (!epilogue || index < 0 || index >= epilogue->tensor_count) return NULL;
  return epilogue->tensor[index].name;
}

/* ---- copying ---- */

static upconv_status copy_into(const upconv_epilogue *from, upconv_epilogue *to) {
  upconv_status status = UPCONV_OK;
  for (int i = 0; i < from->param_count && !status; i++)
    status = add_param(to, from->param[i].name, from->param[i].per_channel);
  for (int i = 0; i < from->tensor_count && !status; i++)
    status = add_tensor(to, from->tensor[i].name, from->tensor[i].axes, from->tensor[i].dtype);
  for (int i = 0; i < from->op_count && !status; i++)
    status = uc_epilogue_append_canonical(to, &from->op[i]);
  return status;
}

upconv_status uc_epilogue_copy(const upconv_epilogue *from, upconv_epilogue **to) {
  upconv_epilogue *copy = NULL;
  upconv_status status = upconv_epilogue_create(from->nd, &copy);
  if (status) return status;
  status = copy_into(from, copy);
  if (status)
    upconv_epilogue_destroy(copy);
  else
    *to = copy;
  return status;
}
