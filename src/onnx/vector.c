/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators on floating point with the library's kernels: what an epilogue does, row
   by row. */
#include <assert.h>
#include <math.h>

#include "../cpu/isa.h"
#include "ops.h"
#include "rows.h"
#include "segment.h"

enum { OPERANDS = 2 };

/* The kernel's operator; Clip's bounds have to be numbers. */
static bool find_kind(const uc_onnx_task *t, const uc_view *const *operand, int operands,
                      uc_elementwise *e) {
  e->attr[0] = (float)t->attr[0];
  e->attr[1] = (float)t->attr[1];
  if (t->fn == UC_FN_SILU && t->attr[0] != 1) return false;
  if (t->fn != UC_FN_CLIP) return operands <= OPERANDS && uc_tail_kind(t->fn, &e->kind);
  for (int k = 1; k < operands; k++) {
    if (operand[k]->dtype == UC_ONNX_UNDEFINED) continue;
    e->attr[k - 1] = (float)uc_onnx_get(operand[k]->data, operand[k]->dtype, 0);
    if (isnan(e->attr[k - 1])) return false;
  }
  e->kind = UPCONV_OP_CLAMP;
  return true;
}

static const char *element(const uc_view *view, int64_t at) {
  return (const char *)view->data + at * (int64_t)uc_onnx_dtype_size(view->dtype);
}

bool uc_run_vector(const uc_onnx_task *t, int operands, const uc_view *const *operand,
                   const uc_view *out) {
  const uc_isa *isa = t->isa;
  uc_elementwise e = {.n = 0};
  upconv_dtype dtype[1 + OPERANDS] = {UPCONV_F32};
  _Alignas(UC_ALIGN) float row[OPERANDS][UC_ROW + UC_PAD];
  if (!isa || !find_kind(t, operand, operands, &e)) return false;
  int count = t->fn == UC_FN_CLIP ? 1 : operands;
  assert(count >= 1 && count <= OPERANDS);
  const uc_view *views[1 + OPERANDS] = {out, operand[0], operand[count - 1]};
  for (int k = 0; k <= count; k++)
    if (!uc_onnx_engine_dtype(views[k]->dtype, &dtype[k])) return false;
  uc_walk walk;
  for (bool more = uc_walk_start(&walk, 1 + count, views); more; more = uc_walk_next(&walk))
    for (int64_t done = 0; done < walk.length; done += UC_ROW) {
      e.n = walk.length - done < UC_ROW ? walk.length - done : UC_ROW;
      e.dst = row[0];
      for (int k = 0; k < count; k++) {
        int64_t step = walk.step[1 + k], at = walk.at[1 + k] + done * step;
        isa->load_row(row[k], element(views[1 + k], at), dtype[1 + k], step, step ? e.n : 1);
        e.operand[k] = step ? (uc_source){row[k], 0} : (uc_source){NULL, row[k][0]};
      }
      isa->elementwise(&e);
      isa->store_row((void *)(uintptr_t)element(out, walk.at[0] + done * walk.step[0]), dtype[0],
                     walk.step[0], row[0], e.n);
    }
  return true;
}
