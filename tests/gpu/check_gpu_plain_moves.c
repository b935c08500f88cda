/* SPDX-License-Identifier: Apache-2.0 */
/* Plain operations that move elements. */
#include <string.h>

#include "../../src/cuda/plain_parts.h"
#include "check_gpu_plain.h"

/* Element number n of a view in its own order. */
static double numbered(const plain_tensor *t, int64_t n) {
  int64_t index[UC_PLAIN_RANK] = {0};
  for (int i = t->view.rank - 1; i >= 0; i--) {
    index[i] = n % t->view.shape[i];
    n /= t->view.shape[i];
  }
  return plain_at(t, index);
}

static double expect_copy(const plain_case *c, const int64_t *index) {
  int64_t n = 0;
  for (int i = 0; i < c->out.view.rank; i++) n = n * c->out.view.shape[i] + index[i];
  return numbered(&c->in[0], n);
}

static void copies(void) {
  static const int64_t reshaped[][4] = {
      {24, 10, 4, 1}, {4, 6, 5, 8}, {960, 1, 1, 1}, {2, 3, 160, 1}};
  static const uc_plain_dtype types[] = {UC_PLAIN_BOOL, UC_PLAIN_BF16, UC_PLAIN_I32, UC_PLAIN_F64};
  for (uint64_t seed = 0; seed < 48; seed++) {
    plain_case c = {.random = seed};
    int64_t shape[UC_PLAIN_RANK];
    uc_plain_dtype dtype = types[seed % 4];
    int rank = (int)check_random_range(&c.random, 0, UC_PLAIN_RANK);
    c.op.kind = UC_PLAIN_COPY;
    if (seed % 3 == 0) { /* shapes differ */
      plain_input(&c, 0, dtype, 4, reshaped[seed / 3 % 4], PLAIN_TAME, seed % 2);
      plain_output(&c, dtype, 4, reshaped[seed / 12 % 4], false);
    } else {
      plain_shape(&c, rank, rank > 5 ? 3 : 10, shape);
      plain_input(&c, 0, dtype, rank, shape, PLAIN_TAME, false);
      plain_output(&c, dtype, rank, shape, seed % 2);
    }
    plain_check(&c, "copy", expect_copy);
  }
}

/* Channels first to last and back: through tiles. */
static void transposes(void) {
  static const uc_plain_dtype types[] = {UC_PLAIN_U8, UC_PLAIN_F16, UC_PLAIN_F32, UC_PLAIN_I64};
  for (int t = 0; t < 4; t++)
    for (int back = 0; back < 2; back++) {
      plain_case c = {.random = 5};
      const int64_t shape[] = {2, 41, 5, 13};
      c.op.kind = UC_PLAIN_COPY;
      plain_input(&c, 0, types[t], 4, shape, PLAIN_TAME, true);
      plain_output(&c, types[t], 4, shape, true);
      uc_plain_view *v = back ? &c.in[0].view : &c.out.view;
      const int64_t last[] = {41 * 65, 1, 41 * 13, 41};
      memcpy(v->stride, last, sizeof last);
      c.op.in[0] = c.in[0].view;
      c.op.out = c.out.view;
      plain_check(&c, "transpose", expect_copy);
    }
}

static double expect_map(const plain_case *c, const int64_t *index) {
  int64_t from[UC_PLAIN_RANK];
  for (int i = 0; i < c->out.view.rank; i++) {
    from[i] = c->op.map[i] ? c->op.map[i][index[i]] : index[i];
    if (from[i] < 0) return c->op.attr[0];
  }
  return plain_at(&c->in[0], from);
}

static void maps(void) {
  static const uc_plain_dtype types[] = {UC_PLAIN_I8,  UC_PLAIN_F16, UC_PLAIN_F32,
                                         UC_PLAIN_F64, UC_PLAIN_U64, UC_PLAIN_BOOL};
  for (uint64_t seed = 0; seed < 36; seed++) {
    plain_case c = {.random = seed,
                    .op = {.kind = UC_PLAIN_MAP, .attr = {seed % 2 ? 2.5 : -300, 0}}};
    int64_t from[UC_PLAIN_RANK], to[UC_PLAIN_RANK], map[UC_PLAIN_RANK][16];
    int rank = (int)check_random_range(&c.random, 0, UC_PLAIN_RANK);
    plain_shape(&c, rank, rank > 5 ? 3 : 6, from);
    for (int i = 0; i < rank; i++) {
      to[i] = from[i];
      if (check_random_range(&c.random, 0, 1)) continue;
      to[i] = check_random_range(&c.random, 1, rank > 5 ? 4 : 12);
      for (int64_t k = 0; k < to[i]; k++)
        map[i][k] = check_random_range(&c.random, -1, from[i] - 1);
      c.op.map[i] = map[i];
    }
    plain_input(&c, 0, types[seed % 6], rank, from, PLAIN_TAME, seed % 2);
    plain_output(&c, types[seed % 6], rank, to, seed % 3);
    plain_check(&c, "map", expect_map);
  }
}

static const check_test tests[] = {
    {"plain_copies", copies},
    {"plain_transposes", transposes},
    {"plain_maps", maps},
};
const gpu_tests gpu_plain_move_tests = {tests, CHECK_COUNT(tests)};
