/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction with which four warps multiply together: its operands are written out, as many as it has columns. */
#include "emit.h"

static const char *type_of(const uc_cuda_engine *e) {
  return e->word == UPCONV_F32 ? "tf32" : e->word == UPCONV_F16 ? "f16" : "bf16";
}

static void emit_instruction(uc_text *text, const uc_cuda_engine *e, int64_t blocks) {
  uc_text_add(text, "\"wgmma.mma_async.sync.aligned.m64n%lldk%d.f32.%s.%s {\"",
              (long long)(blocks * 8), e->word == UPCONV_F32 ? 8 : 16, type_of(e), type_of(e));
  for (int64_t i = 0; i < blocks * 4; i++)
    uc_text_add(text, "%s\"%%%lld%s\"", i % 16 == 0 ? "\n      " : " ", (long long)i,
                i + 1 < blocks * 4 ? "," : "");
}

void uc_cuda_emit_wgmma_shared(uc_text *text, const uc_cuda_engine *e, int64_t blocks) {
  int64_t sums = blocks * 4;
  uc_text_add(text, "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.u32 p, %%%lld, 0;\\n\"\n      ",
              (long long)sums + 2);
  emit_instruction(text, e, blocks);
  uc_text_add(text, "\n      \"}, %%%lld, %%%lld, p, 1, 1%s;\\n}\"\n      :", (long long)sums,
              (long long)sums + 1, e->word == UPCONV_F32 ? "" : ", 0, 0");
  for (int64_t i = 0; i < sums; i++)
    uc_text_add(text, "%s\"+f\"(d[%lld])%s", i % 8 == 0 && i ? "\n        " : " ", (long long)i,
                i + 1 < sums ? "," : "");
  uc_text_add(text, "\n      : \"l\"(a), \"l\"(b), \"r\"((u32)add));\n");
}

/* PTX ISA, wgmma.mma_async: 64 rows from registers, 8 * blocks columns from shared memory. */
void uc_cuda_emit_wgmma(uc_text *text, const uc_cuda_engine *e, const uc_cuda_kernel *k,
                        int64_t blocks,
                        void (*sum)(uc_text *text, const uc_cuda_kernel *kernel, int64_t block,
                                    int64_t i)) {
  int64_t sums = blocks * 4;
  uc_text_add(text, "  asm volatile(\"{\\n.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n\"\n      ");
  emit_instruction(text, e, blocks);
  uc_text_add(text, "\n      \"}, {%%%lld,%%%lld,%%%lld,%%%lld}, %%%lld, p, 1, 1%s;\\n}\"\n      :",
              (long long)sums, (long long)sums + 1, (long long)sums + 2, (long long)sums + 3,
              (long long)sums + 4, e->word == UPCONV_F32 ? "" : ", 0");
  for (int64_t i = 0; i < sums; i++) {
    uc_text_add(text, "%s\"+f\"(", i % 8 == 0 && i ? "\n        " : " ");
    sum(text, k, i / 4, i % 4);
    uc_text_add(text, i + 1 < sums ? ")," : ")");
  }
  uc_text_add(text, "\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n");
}
