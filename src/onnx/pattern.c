/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exporters write for gelu, silu, mish, hardswish, hardsigmoid and softplus, recognised by
 * algebra: the operators between a value x and a result are multiplied out to a polynomial in x and
 * in functions of such polynomials (atoms). However an exporter groups factors and constants, the
 * polynomial is the same, so each function has one entry in a table and not one for each exporter.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fn.h"
#include "program.h"

enum { MAX_TERMS = 12, MAX_FACTORS = 4, MAX_ATOMS = 16, MAX_VISITS = 96, MAX_BASES = 24 };

/* ---- polynomials ---- */

/* Atoms: x itself, and functions of a polynomial. */
typedef enum atom_kind {
  ATOM_X,
  ATOM_ERF,
  ATOM_TANH,
  ATOM_SIGMOID,
  ATOM_SOFTPLUS,
  ATOM_EXP,
  ATOM_CLIP01
} atom_kind;

typedef struct term {
  double coefficient;
  int count;
  int factor[MAX_FACTORS]; /* atom numbers, ascending; a power repeats its factor */
} term;

typedef struct poly {
  int count;
  term term[MAX_TERMS];
} poly;

typedef struct atom {
  atom_kind kind;
  poly argument;
} atom;

typedef struct algebra {
  uc_onnx_program *program;
  int base;         /* the value that is x */
  double tolerance; /* relative, for constants stored in the graph's type */
  int visits, *budget;
  int atom_count;
  atom atom[MAX_ATOMS];
} algebra;

static bool close_to(const algebra *g, double a, double b) {
  return fabs(a - b) <= g->tolerance * fmax(fabs(a), fabs(b));
}

static bool same_factors(const term *a, const term *b) {
  return a->count == b->count &&
         memcmp(a->factor, b->factor, (size_t)a->count * sizeof a->factor[0]) == 0;
}

static bool add_term(poly *sum, const term *t) {
  for (int i = 0; i < sum->count; i++)
    if (same_factors(&sum->term[i], t)) {
      sum->term[i].coefficient += t->coefficient;
      return true;
    }
  if (sum->count == MAX_TERMS) return false;
  sum->term[sum->count++] = *t;
  return true;
}

static poly constant(double value) { return (poly){.count = 1, .term = {{.coefficient = value}}}; }

static poly atom_poly(int number) {
  return (poly){.count = 1, .term = {{.coefficient = 1, .count = 1, .factor = {number}}}};
}

/* a += scale * b */
static bool add_scaled(poly *a, const poly *b, double scale) {
  for (int i = 0; i < b->count; i++) {
    term t = b->term[i];
    t.coefficient *= scale;
    if (!add_term(a, &t)) return false;
  }
  return true;
}

static bool multiply_terms(const term *a, const term *b, term *result) {
  int i = 0, k = 0;
  if (a->count + b->count > MAX_FACTORS) return false;
  *result = (term){.coefficient = a->coefficient * b->coefficient};
  while (i < a->count || k < b->count) {
    bool first = k == b->count || (i < a->count && a->factor[i] <= b->factor[k]);
    result->factor[result->count++] = first ? a->factor[i++] : b->factor[k++];
  }
  return true;
}

static bool multiply(const poly *a, const poly *b, poly *result) {
  *result = (poly){.count = 0};
  for (int i = 0; i < a->count; i++)
    for (int k = 0; k < b->count; k++) {
      term t;
      if (!multiply_terms(&a->term[i], &b->term[k], &t) || !add_term(result, &t)) return false;
    }
  return true;
}

/* Terms that cancelled are left in with a coefficient of 0 and do not count. */
static bool equal(const algebra *g, const poly *a, const poly *b) {
  poly difference = *a;
  for (int i = 0; i < difference.count; i++) {
    double other = 0;
    for (int k = 0; k < b->count; k++)
      if (same_factors(&difference.term[i], &b->term[k])) other = b->term[k].coefficient;
    if (!close_to(g, difference.term[i].coefficient, other)) return false;
  }
  for (int k = 0; k < b->count; k++) {
    bool found = b->term[k].coefficient == 0;
    for (int i = 0; i < a->count; i++) found = found || same_factors(&a->term[i], &b->term[k]);
    if (!found) return false;
  }
  return true;
}

static bool is_constant(const poly *p, double *value) {
  *value = 0;
  for (int i = 0; i < p->count; i++) {
    if (p->term[i].count == 0)
      *value = p->term[i].coefficient;
    else if (p->term[i].coefficient != 0)
      return false;
  }
  return true;
}

/* The number of the atom kind(argument), which is made when it is new; -1 without room. */
static int intern(algebra *g, atom_kind kind, const poly *argument) {
  for (int i = 0; i < g->atom_count; i++)
    if (g->atom[i].kind == kind && equal(g, &g->atom[i].argument, argument)) return i;
  if (g->atom_count == MAX_ATOMS) return -1;
  g->atom[g->atom_count] = (atom){kind, *argument};
  return g->atom_count++;
}

static bool function(algebra *g, atom_kind kind, const poly *argument, poly *result) {
  int number = intern(g, kind, argument);
  if (number >= 0) *result = atom_poly(number);
  return number >= 0;
}

/* p = 1 + exp(q)? */
static bool is_one_plus_exp(const algebra *g, const poly *p, poly *q) {
  bool one = false, exponential = false;
  for (int i = 0; i < p->count; i++) {
    const term *t = &p->term[i];
    if (t->coefficient == 0) continue;
    if (!close_to(g, t->coefficient, 1)) return false;
    if (t->count == 0)
      one = true;
    else if (t->count == 1 && g->atom[t->factor[0]].kind == ATOM_EXP) {
      exponential = true;
      *q = g->atom[t->factor[0]].argument;
    } else
      return false;
  }
  return one && exponential;
}

/* ---- from tasks to polynomials ---- */

static bool evaluate(algebra *g, int value, poly *result);

static bool invert(algebra *g, const poly *p, poly *result) {
  double value;
  poly q, negative = {.count = 0};
  if (is_constant(p, &value) && value != 0) {
    *result = constant(1 / value);
    return true;
  }
  /* 1 / (1 + exp(q)) = sigmoid(-q) */
  return is_one_plus_exp(g, p, &q) && add_scaled(&negative, &q, -1) &&
         function(g, ATOM_SIGMOID, &negative, result);
}

static bool power(const poly *p, double exponent, poly *result) {
  if (exponent != 2 && exponent != 3) return false;
  poly square;
  if (!multiply(p, p, &square)) return false;
  if (exponent == 2) *result = square;
  return exponent == 2 || multiply(&square, p, result);
}

static bool binary(algebra *g, const uc_onnx_task *t, poly *result) {
  poly a, b, inverse;
  double exponent;
  if (t->input_count != 2 || !evaluate(g, t->input[0], &a) || !evaluate(g, t->input[1], &b))
    return false;
  switch (t->fn) {
  case UC_FN_ADD:
  case UC_FN_SUB:
    *result = a;
    return add_scaled(result, &b, t->fn == UC_FN_ADD ? 1 : -1);
  case UC_FN_MUL:
    return multiply(&a, &b, result);
  case UC_FN_DIV:
    return invert(g, &b, &inverse) && multiply(&a, &inverse, result);
  case UC_FN_POW:
    return is_constant(&b, &exponent) && power(&a, exponent, result);
  default:
    return false;
  }
}

static bool constant_number(const algebra *g, int value, double *number) {
  const uc_value *v = &g->program->value[value];
  if (!v->data || uc_shape_count(v->rank, v->shape) != 1) return false;
  *number = uc_onnx_get(v->data, v->dtype, 0);
  return isfinite(*number);
}

/* low + (high - low) * clip01((p - low) / (high - low)) */
static bool clip(algebra *g, const uc_onnx_task *t, poly *result) {
  double low, high;
  poly p, scaled = {.count = 0}, shift, unit;
  if (t->input_count != 3 || t->input[1] < 0 || t->input[2] < 0) {
    low = t->attr[0];
    high = t->attr[1];
  } else if (!constant_number(g, t->input[1], &low) || !constant_number(g, t->input[2], &high)) {
    return false;
  }
  if (!isfinite(low) || !isfinite(high) || !(low < high) || !evaluate(g, t->input[0], &p))
    return false;
  shift = constant(-low / (high - low));
  *result = constant(low);
  return add_scaled(&scaled, &p, 1 / (high - low)) && add_scaled(&scaled, &shift, 1) &&
         function(g, ATOM_CLIP01, &scaled, &unit) && add_scaled(result, &unit, high - low);
}

static bool unary(algebra *g, const uc_onnx_task *t, poly *result) {
  poly p, q;
  if (!evaluate(g, t->input[0], &p)) return false;
  switch (t->fn) {
  case UC_FN_NEG:
    *result = constant(0);
    return add_scaled(result, &p, -1);
  case UC_FN_RECIPROCAL:
    return invert(g, &p, result);
  case UC_FN_ERF:
    return function(g, ATOM_ERF, &p, result);
  case UC_FN_TANH:
    return function(g, ATOM_TANH, &p, result);
  case UC_FN_SIGMOID:
    return function(g, ATOM_SIGMOID, &p, result);
  case UC_FN_EXP:
    return function(g, ATOM_EXP, &p, result);
  case UC_FN_SOFTPLUS:
    if (!isinf(t->attr[1])) return false;
    q = constant(0);
    *result = constant(0);
    return add_scaled(&q, &p, t->attr[0]) && function(g, ATOM_SOFTPLUS, &q, &p) &&
           add_scaled(result, &p, 1 / t->attr[0]);
  case UC_FN_LOG: /* log(1 + exp(q)) = softplus(q) */
    return is_one_plus_exp(g, &p, &q) && function(g, ATOM_SOFTPLUS, &q, result);
  case UC_FN_HARDSIGMOID:
    q = constant(t->attr[1]);
    return add_scaled(&q, &p, t->attr[0]) && function(g, ATOM_CLIP01, &q, result);
  default:
    return false;
  }
}

static const uc_onnx_task *producer(const uc_onnx_program *p, int value) {
  int number = value < 0 ? -1 : p->model->value[value].producer;
  const uc_onnx_task *t = number < 0 ? NULL : &p->task[number];
  return t && uc_task_runs(t) && t->op->family == UC_FAMILY_ELEMENTWISE ? t : NULL;
}

static bool evaluate(algebra *g, int value, poly *result) {
  double number;
  if (value < 0 || ++g->visits > MAX_VISITS || --*g->budget < 0) return false;
  if (value == g->base) {
    *result = atom_poly(0);
    return true;
  }
  if (constant_number(g, value, &number)) {
    *result = constant(number);
    return true;
  }
  const uc_onnx_task *t = producer(g->program, value);
  if (!t || t->fn == UC_FN_CAST) return false;
  if (t->fn == UC_FN_CLIP) return clip(g, t, result);
  return uc_fn_operands(t->fn) == 2 ? binary(g, t, result) : unary(g, t, result);
}

/* ---- the functions ---- */

/* Adds coefficient * x, or with an atom coefficient * x * atom. */
static bool add_product(poly *p, double coefficient, int factor) {
  term t = {.coefficient = coefficient, .count = 1};
  if (factor > 0) t.factor[t.count++] = factor;
  return add_term(p, &t);
}

static int atom_of_line(algebra *g, atom_kind kind, double slope, double offset, double cube) {
  poly p = {.count = 0};
  term t[] = {{slope, 1, {0}}, {cube, 3, {0, 0, 0}}, {.coefficient = offset}};
  for (int i = 0; i < 3; i++)
    if (t[i].coefficient != 0) add_term(&p, &t[i]);
  return intern(g, kind, &p);
}

/* result = a x + b x f for the atom f */
static bool is_gate(algebra *g, const poly *result, double a, double b, int f) {
  poly wanted = {.count = 0};
  if (f < 0) return false;
  if (a != 0 && !add_product(&wanted, a, 0)) return false;
  return add_product(&wanted, b, f) && equal(g, result, &wanted);
}

static bool is_mish(algebra *g, const poly *result) {
  int softplus = atom_of_line(g, ATOM_SOFTPLUS, 1, 0, 0);
  poly inner = atom_poly(softplus);
  return softplus >= 0 && is_gate(g, result, 0, 1, intern(g, ATOM_TANH, &inner));
}

/* result = scale * f(slope x + offset) for an atom f of this kind */
static bool is_single(const algebra *g, const poly *result, atom_kind kind, double *scale,
                      double *slope, double *offset) {
  const term *only = NULL;
  *slope = *offset = 0;
  for (int i = 0; i < result->count; i++) {
    if (result->term[i].coefficient == 0) continue;
    if (only) return false;
    only = &result->term[i];
  }
  if (!only || only->count != 1 || g->atom[only->factor[0]].kind != kind) return false;
  const poly *argument = &g->atom[only->factor[0]].argument;
  *scale = only->coefficient;
  for (int i = 0; i < argument->count; i++) {
    const term *t = &argument->term[i];
    if (t->count == 0)
      *offset = t->coefficient;
    else if (t->count == 1 && t->factor[0] == 0)
      *slope = t->coefficient;
    else if (t->coefficient != 0)
      return false;
  }
  return *slope != 0;
}

static uc_fn recognise(algebra *g, const poly *result, double *attr) {
  static const double root_half = 0.70710678118654752440;
  static const double root_2_over_pi = 0.79788456080286535588, cubic = 0.044715;
  const double k = root_2_over_pi, c = root_2_over_pi * cubic;
  double scale, slope, offset;
  if (is_gate(g, result, 0, 1, atom_of_line(g, ATOM_SIGMOID, 1, 0, 0))) {
    attr[0] = 1;
    return UC_FN_SILU;
  }
  if (is_gate(g, result, 0.5, 0.5, atom_of_line(g, ATOM_ERF, root_half, 0, 0))) return UC_FN_GELU;
  if (is_gate(g, result, 0.5, 0.5, atom_of_line(g, ATOM_TANH, k, 0, c)) ||
      is_gate(g, result, 0, 1, atom_of_line(g, ATOM_SIGMOID, 2 * k, 0, 2 * c)))
    return UC_FN_GELU_TANH;
  if (is_gate(g, result, 0, 1, atom_of_line(g, ATOM_CLIP01, 1.0 / 6, 0.5, 0)))
    return UC_FN_HARDSWISH;
  if (is_mish(g, result)) return UC_FN_MISH;
  if (is_single(g, result, ATOM_CLIP01, &scale, &slope, &offset) && close_to(g, scale, 1)) {
    attr[0] = slope;
    attr[1] = offset;
    return UC_FN_HARDSIGMOID;
  }
  if (is_single(g, result, ATOM_SOFTPLUS, &scale, &slope, &offset) && offset == 0 &&
      close_to(g, scale * slope, 1)) {
    attr[0] = slope;
    attr[1] = INFINITY;
    return UC_FN_SOFTPLUS;
  }
  return UC_FN_NONE;
}

/* PyTorch's softplus: where(beta x > threshold, x, softplus(beta x) / beta). */
static uc_fn recognise_where(algebra *g, const uc_onnx_task *t, double *attr) {
  const uc_onnx_task *compare = producer(g->program, t->input[0]);
  poly left, right, below;
  double threshold, scale, slope, offset, unused;
  if (t->input[1] != g->base || !compare || compare->fn != UC_FN_GREATER) return UC_FN_NONE;
  if (!evaluate(g, compare->input[0], &left) || !evaluate(g, compare->input[1], &right) ||
      !evaluate(g, t->input[2], &below))
    return UC_FN_NONE;
  if (!is_constant(&right, &threshold) ||
      !is_single(g, &below, ATOM_SOFTPLUS, &scale, &slope, &offset) || offset != 0 ||
      !close_to(g, scale * slope, 1) || is_constant(&left, &unused))
    return UC_FN_NONE;
  poly line = {.count = 0};
  if (!add_product(&line, slope, 0) || !equal(g, &left, &line)) return UC_FN_NONE;
  attr[0] = slope;
  attr[1] = threshold;
  return UC_FN_SOFTPLUS;
}

/* ---- search ---- */

/* Values that the result is computed from by elementwise operators: those that x may be. */
static int find_bases(const uc_onnx_program *p, const uc_onnx_task *root, int *base) {
  int count = 0;
  const uc_onnx_task *t = root;
  for (int at = -1; at < count; at++) {
    if (at >= 0) t = producer(p, base[at]);
    for (int k = 0; t && t->input_count <= 3 && k < t->input_count; k++) {
      int value = t->input[k];
      if (value < 0 || p->value[value].data || count == MAX_BASES) continue;
      bool seen = false;
      for (int i = 0; i < count; i++) seen = seen || base[i] == value;
      if (!seen) base[count++] = value;
    }
  }
  return count;
}

static double tolerance_of(uc_onnx_dtype dtype) {
  return dtype == UC_ONNX_FLOAT16 ? 0x1p-10 : dtype == UC_ONNX_BFLOAT16 ? 0x1p-7 : 0x1p-20;
}

static bool same_type(const uc_value *a, const uc_value *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  return memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

static bool try_base(uc_onnx_program *p, uc_onnx_task *t, int base, int *budget) {
  const uc_value *out = uc_task_out(p, t, 0);
  double attr[2] = {0};
  poly result;
  bool alone = t->fn == UC_FN_CLIP && base == t->input[0]; /* is written well already */
  if (!out || alone || !same_type(out, &p->value[base]) || !uc_dtype_is_float(out->dtype))
    return false;
  algebra g = {.program = p, .base = base, .atom_count = 1, .budget = budget};
  g.tolerance = tolerance_of(out->dtype);
  uc_fn fn = UC_FN_NONE;
  if (t->fn == UC_FN_WHERE)
    fn = recognise_where(&g, t, attr);
  else if (evaluate(&g, t->output[0], &result))
    fn = recognise(&g, &result, attr);
  if (fn == UC_FN_NONE) return false;
  t->fn = fn;
  t->attr[0] = attr[0];
  t->attr[1] = attr[1];
  t->input_count = 1;
  t->input[0] = base;
  return true;
}

void uc_onnx_program_patterns(uc_onnx_program *p) {
  int budget = 1 << 20; /* values looked at in all, so that no graph takes long */
  for (int i = 0; i < p->task_count; i++) {
    uc_onnx_task *t = &p->task[i];
    int base[MAX_BASES];
    if (!uc_task_runs(t) || t->op->family != UC_FAMILY_ELEMENTWISE) continue;
    bool ends_one = t->fn == UC_FN_MUL || t->fn == UC_FN_DIV || t->fn == UC_FN_ADD ||
                    t->fn == UC_FN_LOG || t->fn == UC_FN_CLIP || t->fn == UC_FN_WHERE;
    int count = ends_one ? find_bases(p, t, base) : 0;
    /* The farthest first: it takes the most operators in. */
    for (int k = count - 1; k >= 0; k--)
      if (try_base(p, t, base[k], &budget)) break;
  }
}
