/* SPDX-License-Identifier: Apache-2.0 */
/* Operators as CUDA text. */
#ifndef UPCONV_CUDA_EMIT_H
#define UPCONV_CUDA_EMIT_H

#include "../text.h"
#include "engine.h"

/* finish(): the operators of a fused pass on one cell in registers, and its stores. */
void uc_cuda_emit_finish_fused(uc_text *text, const uc_cuda_engine *engine, uc_cuda_kernel *kernel);
/* finish() into a tile buffer and steps(): the operators of a pass over tile buffers, and its stores or partial sums. */
void uc_cuda_emit_tiled(uc_text *text, const uc_cuda_engine *engine, uc_cuda_kernel *kernel);
/* combine: adds the partial sums of a reduction. */
void uc_cuda_emit_combine(uc_text *text, const uc_cuda_engine *engine,
                          const uc_cuda_kernel *kernel);

/* emit_flat.c: defines and tables of a flattened depth. */
void uc_cuda_emit_flat_defines(uc_text *text, const uc_cuda_engine *engine,
                               const uc_cuda_kernel *kernel);
void uc_cuda_emit_flat_tables(uc_text *text, const uc_cuda_engine *engine,
                              const uc_cuda_kernel *kernel);

/* emit_gemm.c: defines and tables of a pass for many channels. */
void uc_cuda_emit_gemm_defines(uc_text *text, const uc_cuda_engine *engine,
                               const uc_cuda_kernel *kernel);
void uc_cuda_emit_gemm_tables(uc_text *text, const uc_cuda_engine *engine,
                              const uc_cuda_kernel *kernel);

/* Where the input tile of a group of residues begins. */
void uc_cuda_emit_group_bases(uc_text *text, const uc_cuda_kernel *kernel);
/* emit_phase.c: the same where residues and channels are rows; which weights are in a product, for the packing kernel. */
void uc_cuda_emit_phase_defines(uc_text *text, const uc_cuda_engine *engine,
                                const uc_cuda_kernel *kernel);
void uc_cuda_emit_phase_tables(uc_text *text, const uc_cuda_engine *engine,
                               const uc_cuda_kernel *kernel);
void uc_cuda_emit_phase_packing(uc_text *text, const uc_cuda_kernel *kernel);

/* emit_panel.c: the same where many channels are rows. */
void uc_cuda_emit_panel_defines(uc_text *text, const uc_cuda_engine *engine,
                                const uc_cuda_kernel *kernel);
void uc_cuda_emit_panel_tables(uc_text *text, const uc_cuda_engine *engine,
                               const uc_cuda_kernel *kernel);
void uc_cuda_emit_panel_packing(uc_text *text, const uc_cuda_kernel *kernel);
/* emit_mma.c: the same of a pass on the tensor cores. */
void uc_cuda_emit_mma_defines(uc_text *text, const uc_cuda_engine *engine,
                              const uc_cuda_kernel *kernel);
void uc_cuda_emit_mma_tables(uc_text *text, const uc_cuda_engine *engine,
                             const uc_cuda_kernel *kernel);

/* emit_scatter.c: the same of a pass for few output channels. */
void uc_cuda_emit_scatter_defines(uc_text *text, const uc_cuda_engine *engine,
                                  const uc_cuda_kernel *kernel);
void uc_cuda_emit_scatter_tables(uc_text *text, const uc_cuda_engine *engine,
                                 const uc_cuda_kernel *kernel);

/* codegen.c: a table of a number for every tap; where a tap reads the input tile. */
void uc_cuda_emit_table(uc_text *text, const uc_cuda_kernel *kernel, const char *name,
                        int64_t (*value)(const uc_cuda_kernel *, const uc_cuda_tap *));
int64_t uc_cuda_tap_offset(const uc_cuda_kernel *kernel, const uc_cuda_tap *tap);

/* emit_wgmma.c: the statement that adds a product of four warps to sums of so many blocks of 8 columns; registers are a[4]
   and the descriptor b, sum writes the text of a block's i-th sum. */
void uc_cuda_emit_wgmma(uc_text *text, const uc_cuda_engine *engine, const uc_cuda_kernel *kernel,
                        int64_t blocks,
                        void (*sum)(uc_text *text, const uc_cuda_kernel *kernel, int64_t block,
                                    int64_t i));

/* The same with both operands in shared memory, descriptors a and b, of sums d[0], d[1], ...; where add is 0 they begin anew. */
void uc_cuda_emit_wgmma_shared(uc_text *text, const uc_cuda_engine *engine, int64_t blocks);

/* The expression of an elementwise operator whose operands are the given texts. */
void uc_cuda_emit_elementwise(uc_text *text, const upconv_op *op,
                              char operand[UPCONV_MAX_OPERANDS][512]);
/* A line that defines a number. */
void uc_cuda_emit_define(uc_text *text, const char *name, int64_t value);
/* The next number of a table, which has *count so far. */
void uc_cuda_emit_number(uc_text *text, int64_t *count, int64_t value);
/* A float literal. */
void uc_cuda_emit_float(uc_text *text, double value);

/* Index of a view in the kernel's arguments, added if new; -1 when there are too many (the plan is then refused). */
int uc_cuda_view_of(uc_cuda_kernel *kernel, bool tensor, int index);
/* Data type of an operand that lies in memory, as a name of prelude.cu. */
const char *uc_cuda_type_name(upconv_dtype dtype);

#endif
