/* SPDX-License-Identifier: Apache-2.0 */
#include "random_corners.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tally.h"

typedef struct view {
  const upconv_problem_desc *d;
  const char *tail; /* the epilogue's text */
  const random_inputs *in;
  const int64_t *y_shape;
  bool finite;
} view;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* ---- geometry ---- */

#define ANY_AXIS(v, condition)                                       \
  for (int i = 0; i < (v)->d->spatial_dims; i++) {                   \
    const int64_t K = (v)->d->kernel[i], s = (v)->d->stride[i];      \
    const int64_t d = (v)->d->dilation[i], p = (v)->d->pad_begin[i]; \
    const int64_t pe = (v)->d->pad_end[i], I = (v)->d->in_size[i];   \
    const int64_t op = (v)->d->output_padding[i];                    \
    (void)K, (void)s, (void)d, (void)p, (void)pe, (void)I, (void)op; \
    if (condition) return true;                                      \
  }                                                                  \
  return false

static bool kernel_below_stride(const view *v) { ANY_AXIS(v, K < s); }
static bool dilation_above_stride(const view *v) { ANY_AXIS(v, d > s); }
static bool common_divisor(const view *v) { ANY_AXIS(v, gcd(s, d) > 1); }
static bool negative_padding(const view *v) { ANY_AXIS(v, p < 0 || pe < 0); }
static bool padding_beyond_kernel(const view *v) { ANY_AXIS(v, p > d * (K - 1)); }
static bool asymmetric(const view *v) { ANY_AXIS(v, p != pe); }
static bool output_padding(const view *v) { ANY_AXIS(v, op > 0); }
static bool size_1(const view *v) { ANY_AXIS(v, I == 1); }
static bool dims_1(const view *v) { return v->d->spatial_dims == 1; }
static bool dims_2(const view *v) { return v->d->spatial_dims == 2; }
static bool dims_3(const view *v) { return v->d->spatial_dims == 3; }
static bool bias(const view *v) { return v->d->bias; }
static bool no_bias(const view *v) { return !v->d->bias; }
static bool one_channel(const view *v) { return v->d->in_channels == 1 || v->d->out_channels == 1; }
static bool grouped(const view *v) { return v->d->groups > 1 && v->d->groups < v->d->in_channels; }
static bool depthwise(const view *v) {
  return v->d->groups > 1 && v->d->groups == v->d->in_channels;
}
static bool empty_batch(const view *v) { return v->d->batch == 0; }
static bool empty_output(const view *v) {
  for (int i = 0; i < v->d->spatial_dims; i++)
    if (v->y_shape[2 + i] == 0) return true;
  return false;
}
static bool large_batch(const view *v) { return v->d->batch > 1; }
static bool tf32(const view *v) { return v->d->math == UPCONV_MATH_TF32; }

/* ---- data ---- */

static bool x_strided(const view *v) { return v->in->x.traits.strided; }
static bool x_broadcast(const view *v) { return v->in->x.traits.broadcast; }
static bool x_misaligned(const view *v) { return v->in->x.traits.misaligned; }
static bool weight_strided(const view *v) { return v->in->weight.traits.strided; }
static bool not_finite(const view *v) { return !v->finite; }
static bool any_tensor(const view *v) { return v->in->tensor_count > 0; }
static bool full_tensor(const view *v) {
  for (const char *at = strchr(v->tail, '#'); at; at = strchr(at + 1, '#'))
    if (at[strcspn(at, " |[")] != '[') return true;
  return false;
}
static bool partial_tensor(const view *v) {
  for (const char *at = strchr(v->tail, '#'); at; at = strchr(at + 1, '#'))
    if (at[strcspn(at, " |[")] == '[') return true;
  return false;
}
static bool param_per_channel(const view *v) {
  for (const char *at = strchr(v->tail, '@'); at; at = strchr(at + 1, '@'))
    if (at[strcspn(at, " |[")] != '[') return true;
  return false;
}
static bool single_param(const view *v) { return strstr(v->tail, "[]") != NULL; }
static bool short_param(const view *v) {
  for (int i = 0; i < v->in->param_count; i++)
    if (v->in->param[i].view.dtype != UPCONV_F32) return true;
  return false;
}

/* ---- epilogue ---- */

static bool reads_earlier_value(const view *v) { return strchr(v->tail, '%') != NULL; }
static bool padded_pool(const view *v) {
  const char *pool = strstr(v->tail, "_pool ");
  return pool && (strstr(pool, " p1") || strstr(pool, " p0x1"));
}
static bool dilated_pool(const view *v) {
  const char *pool = strstr(v->tail, "_pool ");
  return pool && (strstr(pool, " d2") || strstr(pool, " d1x2"));
}
static bool ceil_pool(const view *v) { return strstr(v->tail, " ceil") != NULL; }
static bool several_pools(const view *v) {
  const char *pool = strstr(v->tail, "_pool ");
  return pool && strstr(pool + 1, "_pool ");
}

bool random_corner_is_elementwise(const char *text) {
  static const char *const other[] = {"pool",    "softmax", "logsumexp", "| sum ",
                                      "| mean ", "| max ",  "| min "};
  for (size_t i = 0; i < CHECK_COUNT(other); i++)
    if (strstr(text, other[i])) return false;
  return true;
}

/* ---- tables ---- */

static const struct {
  const char *name;
  bool (*holds)(const view *v);
} corner[] = {
    {"K < s", kernel_below_stride},
    {"d > s", dilation_above_stride},
    {"gcd(s, d) > 1", common_divisor},
    {"p < 0", negative_padding},
    {"p > d (K - 1)", padding_beyond_kernel},
    {"p != p'", asymmetric},
    {"output padding", output_padding},
    {"size 1", size_1},
    {"1-D", dims_1},
    {"2-D", dims_2},
    {"3-D", dims_3},
    {"bias", bias},
    {"no bias", no_bias},
    {"one channel", one_channel},
    {"groups", grouped},
    {"depthwise", depthwise},
    {"empty batch", empty_batch},
    {"empty output", empty_output},
    {"batch > 1", large_batch},
    {"math=tf32", tf32},
    {"x strided", x_strided},
    {"x broadcast", x_broadcast},
    {"x misaligned", x_misaligned},
    {"weight strided", weight_strided},
    {"NaN or Inf in x", not_finite},
    {"extra tensor", any_tensor},
    {"full tensor", full_tensor},
    {"partial tensor", partial_tensor},
    {"param per channel", param_per_channel},
    {"single param", single_param},
    {"16-bit param", short_param},
    {"earlier value", reads_earlier_value},
    {"padded pool", padded_pool},
    {"dilated pool", dilated_pool},
    {"ceil pool", ceil_pool},
    {"several pools", several_pools},
};

static const char *const other_runs[] = {"rewritten",  "as written",    "operator by operator",
                                         "sub-volume", "other extents", "constant parameters",
                                         "y strided",  "y misaligned",  "sub-volume of no input"};
static const char *const rules[] = {"fold-scale",    "fold-bias",      "fold-norm",
                                    "fold-avg-pool", "hoist-max-pool", "merge-activations",
                                    "merge-pools",   "drop-identity",  "drop-dead"};

static void typed_name(char *name, size_t capacity, const char *what, const char *type) {
  snprintf(name, capacity, "%s %s", what, type);
}

static const char *layout_name(upconv_layout layout) {
  return layout == UPCONV_CHANNELS_LAST ? "ndhwc" : "ncdhw";
}

void random_corners_expect(void) {
  static const char *const what[] = {"x", "w", "y"};
  char name[32];
  for (size_t i = 0; i < CHECK_COUNT(corner); i++) tally_expect("corner", corner[i].name);
  for (size_t i = 0; i < CHECK_COUNT(other_runs); i++) tally_expect("run", other_runs[i]);
  for (size_t i = 0; i < CHECK_COUNT(rules); i++) tally_expect("rule", rules[i]);
  for (int kind = 0; kind < UPCONV_OP_COUNT; kind++)
    tally_expect("operator", upconv_op_name((upconv_op_kind)kind));
  for (size_t i = 0; i < CHECK_COUNT(what); i++)
    for (int type = UPCONV_F32; type <= UPCONV_BF16; type++) {
      typed_name(name, sizeof name, what[i], upconv_dtype_name((upconv_dtype)type));
      tally_expect("type", name);
    }
  for (size_t i = 0; i < CHECK_COUNT(what); i += 2)
    for (int layout = UPCONV_CHANNELS_FIRST; layout <= UPCONV_CHANNELS_LAST; layout++) {
      typed_name(name, sizeof name, what[i], layout_name((upconv_layout)layout));
      tally_expect("type", name);
    }
}

/* Operator names of the text, each once; the two global pools are a mean and a max. */
static void tally_operators(const char *tail) {
  bool seen[UPCONV_OP_COUNT] = {false};
  int count = 0;
  for (const char *at = tail; *at; count++) {
    at += strspn(at, " ");
    size_t n = strcspn(at, " |");
    for (int kind = 0; kind < UPCONV_OP_COUNT; kind++) {
      const char *name = upconv_op_name((upconv_op_kind)kind);
      seen[kind] = seen[kind] || (strlen(name) == n && strncmp(at, name, n) == 0);
    }
    if (strncmp(at, "global_avg", 10) == 0) seen[UPCONV_OP_MEAN] = true;
    if (strncmp(at, "global_max", 10) == 0) seen[UPCONV_OP_MAX] = true;
    at += strcspn(at, "|");
    at += *at == '|';
  }
  for (int kind = 0; kind < UPCONV_OP_COUNT; kind++)
    if (seen[kind]) tally("operator", upconv_op_name((upconv_op_kind)kind));
  char length[32];
  snprintf(length, sizeof length, count < 7 ? "%d operators" : "7 or more operators", count);
  tally("length", length);
}

void random_corners_tally(const char *text, const upconv_problem_desc *desc,
                          const random_inputs *inputs, const int64_t *y_shape, bool finite) {
  const view v = {desc, random_epilogue_text(text), inputs, y_shape, finite};
  const upconv_dtype type[] = {desc->x_dtype, desc->w_dtype, desc->y_dtype};
  static const char *const what[] = {"x", "w", "y"};
  char name[32];
  for (size_t i = 0; i < CHECK_COUNT(corner); i++)
    if (corner[i].holds(&v)) tally("corner", corner[i].name);
  for (size_t i = 0; i < CHECK_COUNT(what); i++) {
    typed_name(name, sizeof name, what[i], upconv_dtype_name(type[i]));
    tally("type", name);
  }
  typed_name(name, sizeof name, "x", layout_name(desc->x_layout));
  tally("type", name);
  typed_name(name, sizeof name, "y", layout_name(desc->y_layout));
  tally("type", name);
  tally_operators(v.tail);
}
