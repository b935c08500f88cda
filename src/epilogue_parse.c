/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of an epilogue, read. */
#include <string.h>

#include "epilogue_text.h"
#include "op.h"
#include "status.h"

typedef struct parser {
  uc_scan *scan;
  upconv_epilogue *epilogue;
} parser;

static upconv_status fail(const parser *p, const char *message) {
  return uc_scan_fail(p->scan, p->scan->token, UPCONV_INVALID_ARGUMENT, "%s", message);
}

static bool at_item_end(const parser *p) {
  return uc_scan_at_end(p->scan) || uc_scan_at_bar(p->scan);
}

/* The value before the operator that is being read. */
static upconv_operand previous_value(const parser *p) {
  return (upconv_operand){.kind = UPCONV_OPERAND_VALUE, .index = p->epilogue->op_count};
}

/* ---- parameters and tensors ---- */

static upconv_status copy_name(const parser *p, uc_token token, char name[UC_MAX_NAME + 1]) {
  if (!token.length || token.length > UC_MAX_NAME)
    return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT, "a name has 1 to %d characters",
                        UC_MAX_NAME);
  memcpy(name, token.begin, token.length);
  name[token.length] = '\0';
  return UPCONV_OK;
}

/* Adds the place to a message of the builder. */
static upconv_status placed(const parser *p, uc_token token, upconv_status status) {
  if (!status) return UPCONV_OK;
  return uc_scan_fail(p->scan, token, status, "%s", upconv_last_error());
}

static upconv_status read_param(const parser *p, uc_token token, upconv_operand *operand) {
  char name[UC_MAX_NAME + 1];
  uc_token rest = token;
  uc_token_skip(&rest, "@");
  bool bracket = memchr(rest.begin, '[', rest.length) != NULL;
  upconv_status status = copy_name(p, uc_token_until(&rest, '['), name);
  if (status) return status;
  if (bracket && !uc_token_is(rest, "]"))
    return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT,
                        "a parameter is @name (one number per channel) or @name[] (one number)");
  for (int i = 0; i < p->epilogue->param_count; i++) {
    if (strcmp(p->epilogue->param[i].name, name) != 0) continue;
    if (p->epilogue->param[i].per_channel == bracket)
      return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT, "it was %s before",
                          bracket ? "@name" : "@name[]");
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_PARAM, .index = i};
    return UPCONV_OK;
  }
  return placed(p, token, upconv_epilogue_param(p->epilogue, name, !bracket, operand));
}

/* Bits of the letters in the order of the user's axes: n, c, then the nd spatial ones. */
static bool read_letters(uc_token token, const char *letters, uint32_t *bits) {
  *bits = 0;
  for (size_t i = 0; i < token.length; i++) {
    const char *found = token.begin[i] ? strchr(letters, token.begin[i]) : NULL;
    uint32_t bit = found ? 1u << (found - letters) : 0;
    if (!bit || (*bits & bit)) return false;
    *bits |= bit;
  }
  return true;
}

/* The suffix of a tensor: "[nc]" or nothing, then ":f16" or nothing. */
static bool read_tensor_suffix(uc_token suffix, int nd, uint32_t *axes, upconv_dtype *dtype) {
  static const char *const letters[] = {"ncw", "nchw", "ncdhw"};
  *axes = UPCONV_TENSOR_FULL;
  *dtype = UPCONV_F32;
  if (uc_token_skip(&suffix, "[")) {
    bool closed = memchr(suffix.begin, ']', suffix.length) != NULL;
    if (!closed || !read_letters(uc_token_until(&suffix, ']'), letters[nd - 1], axes)) return false;
  }
  return !suffix.length || (uc_token_skip(&suffix, ":") && uc_token_dtype(suffix, dtype));
}

static upconv_status read_tensor(const parser *p, uc_token token, upconv_operand *operand) {
  char name[UC_MAX_NAME + 1];
  uc_token rest = token;
  uc_token_skip(&rest, "#");
  uc_token name_token = {rest.begin, 0};
  while (rest.length && *rest.begin != '[' && *rest.begin != ':') {
    rest.begin++;
    rest.length--;
    name_token.length++;
  }
  upconv_status status = copy_name(p, name_token, name);
  if (status) return status;
  int nd = p->epilogue->nd;
  uint32_t axes;
  upconv_dtype dtype;
  if (!read_tensor_suffix(rest, nd, &axes, &dtype))
    return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT,
                        "a tensor is #name, #name[axes], #name:dtype or #name[axes]:dtype, with "
                        "axes of n, c and the %d spatial letters, dtype f32, f16 or bf16",
                        nd);
  for (int i = 0; i < p->epilogue->tensor_count; i++) {
    const uc_tensor_decl *known = &p->epilogue->tensor[i];
    if (strcmp(known->name, name) != 0) continue;
    if (known->axes != uc_tensor_axes(axes, nd) || known->dtype != dtype)
      return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT,
                          "it had other axes or another dtype before");
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_TENSOR, .index = i};
    return UPCONV_OK;
  }
  return placed(p, token, upconv_epilogue_tensor(p->epilogue, name, axes, dtype, operand));
}

/* ---- operands ---- */

static bool starts_with(const parser *p, char c) {
  return p->scan->token.length && *p->scan->token.begin == c;
}

static upconv_status read_operand(const parser *p, uc_token token, upconv_operand *operand) {
  uc_token rest = token;
  int64_t index;
  double constant;
  if (token.length && *token.begin == '@') return read_param(p, token, operand);
  if (token.length && *token.begin == '#') return read_tensor(p, token, operand);
  if (uc_token_skip(&rest, "%")) {
    if (!uc_token_int(rest, &index) || *rest.begin == '-' || index > p->epilogue->op_count)
      return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT,
                          "no such value; there are %%0 to %%%d here", p->epilogue->op_count);
    *operand = (upconv_operand){.kind = UPCONV_OPERAND_VALUE, .index = (int)index};
    return UPCONV_OK;
  }
  if (!uc_token_double(token, &constant))
    return uc_scan_fail(p->scan, token, UPCONV_INVALID_ARGUMENT,
                        "not an operand: a number within float64's range, %%value, @parameter or "
                        "#tensor");
  *operand = (upconv_operand){.kind = UPCONV_OPERAND_CONSTANT, .constant = constant};
  return UPCONV_OK;
}

/* "%2" or nothing: the previous value. */
static upconv_status read_value(parser *p, upconv_operand *operand) {
  *operand = previous_value(p);
  if (!starts_with(p, '%')) return UPCONV_OK;
  upconv_status status = read_operand(p, p->scan->token, operand);
  if (!status) uc_scan_next(p->scan);
  return status;
}

/* All operands of an operator that takes several; the first may be left out. */
static upconv_status read_operands(parser *p, int wanted, upconv_op *op) {
  int count = 0;
  for (; !at_item_end(p) && count < wanted; uc_scan_next(p->scan)) {
    upconv_status status = read_operand(p, p->scan->token, &op->operand[count]);
    if (status) return status;
    count++;
  }
  if (count == wanted) return UPCONV_OK;
  if (count < wanted - 1) return fail(p, "an operand is missing");
  for (int i = count; i > 0; i--) op->operand[i] = op->operand[i - 1];
  op->operand[0] = previous_value(p);
  return UPCONV_OK;
}

/* ---- operators ---- */

static upconv_status read_attrs(parser *p, int most, upconv_op *op) {
  for (int i = 0; i < most && !at_item_end(p); i++, uc_scan_next(p->scan))
    if (!uc_token_double(p->scan->token, &op->attr[i]))
      return fail(p, "not a number within float64's range");
  return UPCONV_OK;
}

static upconv_status read_batch_norm(parser *p, upconv_op *op) {
  bool has_eps = false;
  for (; !at_item_end(p); uc_scan_next(p->scan)) {
    uc_token value = p->scan->token;
    uc_token key = uc_token_until(&value, '=');
    int slot = 0;
    for (int i = 0; i < UC_BATCH_NORM_NAMES; i++)
      if (uc_token_is(key, uc_batch_norm_operand[i].key)) slot = uc_batch_norm_operand[i].operand;
    bool is_eps = uc_token_is(key, "eps");
    if (!slot && !is_eps) return fail(p, "allowed: mean= var= weight= bias= eps=");
    if (is_eps ? has_eps : op->operand[slot].kind != UPCONV_OPERAND_NONE)
      return fail(p, "given twice");
    has_eps = has_eps || is_eps;
    if (is_eps && !uc_token_double(value, &op->attr[0]))
      return fail(p, "eps must be a number within float64's range");
    upconv_status status = is_eps ? UPCONV_OK : read_operand(p, value, &op->operand[slot]);
    if (status) return status;
  }
  return UPCONV_OK;
}

/* "2" or "2x3x3", spread over the axes. */
static upconv_status read_sizes(const parser *p, uc_token token, int64_t *to) {
  int64_t value[UPCONV_MAX_SPATIAL];
  int count, nd = p->epilogue->nd;
  if (!uc_token_sizes(token, value, &count) || (count != 1 && count != nd))
    return uc_scan_fail(p->scan, p->scan->token, UPCONV_INVALID_ARGUMENT,
                        "expected one integer, or one for each of %d axes, as in 2 or %s", nd,
                        nd == 1 ? "3" : (nd == 2 ? "2x3" : "2x3x3"));
  for (int i = 0; i < nd; i++) to[i] = value[count == 1 ? 0 : i];
  return UPCONV_OK;
}

static upconv_status read_stride(const parser *p, uc_token token, int64_t *to) {
  upconv_status status = read_sizes(p, token, to);
  for (int i = 0; i < p->epilogue->nd && !status; i++)
    if (to[i] < 1) status = fail(p, "a stride is at least 1");
  return status;
}

/* Options of a window that may be given once each. */
enum {
  SEEN_S = 1,
  SEEN_P = 2,
  SEEN_D = 4,
  SEEN_PE = 8,
  SEEN_CEIL = 16,
  SEEN_EXCLUDE = 32,
  SEEN_DIV = 64,
  SEEN_DIR = 128
};

static upconv_status read_window_option(const parser *p, upconv_op *op, unsigned *option) {
  upconv_window *window = &op->window;
  uc_token token = p->scan->token;
  if (uc_token_is(token, "ceil")) {
    *option = SEEN_CEIL;
    window->ceil_mode = true;
    return UPCONV_OK;
  }
  if (op->kind == UPCONV_OP_AVG_POOL && uc_token_is(token, "exclude_pad")) {
    *option = SEEN_EXCLUDE;
    window->count_include_pad = false;
    return UPCONV_OK;
  }
  if (op->kind == UPCONV_OP_AVG_POOL && uc_token_skip(&token, "div=")) {
    *option = SEEN_DIV;
    if (uc_token_int(token, &window->divisor) && window->divisor) return UPCONV_OK;
    return fail(p, "div is an integer other than 0");
  }
  if (op->kind == UPCONV_OP_EXTREME_POOL && uc_token_skip(&token, "dir=")) {
    *option = SEEN_DIR;
    return read_operand(p, token, &op->operand[1]);
  }
  if (uc_token_skip(&token, "s")) return *option = SEEN_S, read_stride(p, token, window->stride);
  if (uc_token_skip(&token, "d")) return *option = SEEN_D, read_sizes(p, token, window->dilation);
  if (uc_token_skip(&token, "pe")) return *option = SEEN_PE, read_sizes(p, token, window->pad_end);
  if (uc_token_skip(&token, "p")) return *option = SEEN_P, read_sizes(p, token, window->pad_begin);
  return fail(p, "no such option of a window: s d p pe ceil, avg_pool: exclude_pad div=, "
                 "extreme_pool: dir=");
}

static upconv_status read_window(parser *p, upconv_op *op) {
  if (at_item_end(p)) return fail(p, "the kernel is missing");
  upconv_status status = read_sizes(p, p->scan->token, op->window.kernel);
  if (status) return status;
  unsigned seen = 0;
  for (uc_scan_next(p->scan); !at_item_end(p); uc_scan_next(p->scan)) {
    unsigned option = 0;
    status = read_window_option(p, op, &option);
    if (status) return status;
    if (seen & option) return fail(p, "given twice");
    seen |= option;
  }
  if (!(seen & SEEN_PE))
    memcpy(op->window.pad_end, op->window.pad_begin, sizeof op->window.pad_end);
  return UPCONV_OK;
}

static upconv_status read_axes(parser *p, upconv_op *op) {
  static const char *const letters[] = {"cw", "chw", "cdhw"};
  if (at_item_end(p) || !read_letters(p->scan->token, letters[p->epilogue->nd - 1], &op->axes))
    return uc_scan_fail(p->scan, p->scan->token, UPCONV_INVALID_ARGUMENT,
                        "expected axes: c, or some of %s", letters[p->epilogue->nd - 1] + 1);
  uc_scan_next(p->scan);
  return UPCONV_OK;
}

/* Everything behind the operator's name. */
static upconv_status read_arguments(parser *p, upconv_op *op) {
  const uc_op_info *info = uc_op_describe(op->kind);
  if (info->op_class == UC_CLASS_ELEMENTWISE && op->kind != UPCONV_OP_BATCH_NORM &&
      info->operand_count > 1)
    return read_operands(p, info->operand_count, op);
  upconv_status status = read_value(p, &op->operand[0]);
  if (status) return status;
  if (op->kind == UPCONV_OP_BATCH_NORM) return read_batch_norm(p, op);
  if (info->op_class == UC_CLASS_POOL) return read_window(p, op);
  if (info->op_class == UC_CLASS_REDUCE && op->kind != UPCONV_OP_LOGSUMEXP) return read_axes(p, op);
  return read_attrs(p, info->attr_count, op);
}

/* Other names of operators; a global pool is a reduction over all spatial axes. */
static const struct {
  const char *name;
  upconv_op_kind kind;
  bool global;
} alias[] = {{"scale", UPCONV_OP_MUL, false},
             {"global_avg_pool", UPCONV_OP_MEAN, true},
             {"global_max_pool", UPCONV_OP_MAX, true}};

static bool find_op(uc_token token, upconv_op_kind *kind, bool *global) {
  *global = false;
  for (int k = 0; k < UPCONV_OP_COUNT; k++) {
    *kind = (upconv_op_kind)k;
    if (uc_token_is(token, upconv_op_name(*kind))) return true;
  }
  for (size_t i = 0; i < sizeof alias / sizeof *alias; i++) {
    *kind = alias[i].kind;
    *global = alias[i].global;
    if (uc_token_is(token, alias[i].name)) return true;
  }
  return false;
}

static upconv_status read_op(parser *p) {
  uc_token name = p->scan->token;
  upconv_op op;
  upconv_op_kind kind;
  bool global;
  if (!find_op(name, &kind, &global)) return fail(p, "expected an operator");
  upconv_status status = upconv_op_init(&op, kind);
  if (status) return status;
  uc_scan_next(p->scan);
  if (global) {
    for (int i = 0; i < p->epilogue->nd; i++) op.axes |= UPCONV_AXIS_SPATIAL(i);
    status = read_value(p, &op.operand[0]);
  } else {
    status = read_arguments(p, &op);
  }
  if (status) return status;
  if (!at_item_end(p)) return fail(p, "too much here: expected '|' or the end of the text");
  return placed(p, name, upconv_epilogue_append(p->epilogue, &op, NULL));
}

/* ---- the whole ---- */

static upconv_status read_declarations(parser *p) {
  for (uc_scan_next(p->scan); !at_item_end(p); uc_scan_next(p->scan)) {
    upconv_operand unused;
    if (!starts_with(p, '@') && !starts_with(p, '#'))
      return fail(p, "expected @parameter or #tensor");
    upconv_status status = read_operand(p, p->scan->token, &unused);
    if (status) return status;
  }
  return UPCONV_OK;
}

static upconv_status read_items(parser *p) {
  if (uc_scan_at_end(p->scan)) return UPCONV_OK;
  upconv_status status = uc_token_is(p->scan->token, "declare") ? read_declarations(p) : read_op(p);
  while (!status && uc_scan_at_bar(p->scan)) {
    uc_scan_next(p->scan);
    status = read_op(p);
  }
  return status;
}

upconv_status uc_epilogue_scan(uc_scan *scan, int nd, upconv_epilogue **epilogue) {
  parser p = {.scan = scan};
  upconv_status status = upconv_epilogue_create(nd, &p.epilogue);
  if (status) return status;
  status = read_items(&p);
  if (status)
    upconv_epilogue_destroy(p.epilogue);
  else
    *epilogue = p.epilogue;
  return status;
}

upconv_status upconv_epilogue_parse(int spatial_dims, const char *text,
                                    upconv_epilogue **epilogue) {
  if (!epilogue) return uc_fail(UPCONV_INVALID_ARGUMENT, "epilogue is NULL");
  uc_scan scan;
  upconv_status status = uc_scan_init(&scan, text);
  return status ? status : uc_epilogue_scan(&scan, spatial_dims, epilogue);
}
