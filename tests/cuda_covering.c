/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_covering.h"

/* F: fused, T: tiled; M, G, D, L, S: cuda-mma, -gemm, -depthwise, -flat and -scatter apply. */
enum { F = COVERING_FUSED, T = COVERING_TILED };
enum { FL = F | COVERING_FLAT, FML = FL | COVERING_MMA, FMGL = FML | COVERING_GEMM };
enum { FG = F | COVERING_GEMM, FMG = FG | COVERING_MMA };
enum { FD = F | COVERING_DEPTHWISE, FDL = FD | COVERING_FLAT };
enum {
  FMGLS = FMGL | COVERING_SCATTER,
  FGS = FG | COVERING_SCATTER,
  FMGS = FMG | COVERING_SCATTER
};
enum { LOOPS = COVERING_LOOPS, GLOBAL = COVERING_GLOBAL_WEIGHTS };

/* The cases of a family stand together. */
const covering_case covering_cases[] = {
    {"geometry", F, "ci3 co16 in4x8x9 k3 s2 p1 bias"},
    {"geometry", F, "n2 ci5 co7 in40 k4 s2 p1"},
    {"geometry", F, "ci4 co6 in9x7 k2x5 s3 p0x2 pe1x0 op2x0 bias"},
    {"geometry", F, "ci2 co3 in4x5x6 k1x2x3 s2x3x4 op1x1x3"},
    {"geometry", F, "ci3 co4 in7x9 k3 s2 d3 p2 op2"},
    {"geometry", F, "ci3 co4 in6x5x4 k2x3x2 s2x2x1 d1x2x4 p-1x0x3 bias"},
    {"geometry", F, "ci2 co1 in1x1x1 k4"},

    {"tensor cores", FMG, "n2 ci16 co32 in5x9x11 k3 s2 p1 op1 bias math=tf32"},
    {"tensor cores", FMG, "n2 ci20 co24 in5x9x11 k2 s2 bias dtype=bf16"},
    {"tensor cores", FMG, "n2 ci9 co12 in33 k4 s2 p1 bias dtype=f16 y=f32"},
    {"tensor cores", FMG, "n2 ci128 co80 in20x20 k4 s2 p1 dtype=f16"},
    {"tensor cores", FML, "ci4 co4 in12x30 k3 s3x2 d1x2 p1 math=tf32"},
    {"tensor cores", FMG, "n2 ci16 co16 in6x8x16 k3 s2 p1 op1 bias dtype=f16 | relu"},
    {"tensor cores", FML, "ci5 co8 in8x32 k5 s2 p2 op1 bias math=tf32 | max_pool 2"},
    {"tensor cores", FMG, "n2 ci18 co36 in6x6x18 k3 s2 p1 op1 bias math=tf32 | relu | max_pool 2"},
    {"tensor cores", FMG, "ci17 co9 in6x6x6 k3x2x1 s2x4x4 op0x3x3 math=tf32"},

    {"many channels", FMG, "n2 ci64 co48 in6x7x5 k2 s2 bias math=tf32 | relu"},
    {"many channels", FMG, "n2 ci96 co72 in5x6x7 k4 s2 p1 dtype=f16"},
    {"many channels", FMG, "n2 ci48 co96 g3 in9x10 k3 s2 p1 op1 dtype=bf16 | gelu"},
    {"many channels", FMG, "ci32 co40 in7x9 k2 s3 bias math=tf32"},
    {"many channels", FMG, "n3 ci256 co128 in50 k16 s8 p4 dtype=f16 | leaky_relu"},
    {"many channels", FMG, "ci24 co16 in40 k20 s10 p5 x=f16 math=tf32 xlayout=ndhwc | tanh"},
    {"many channels", FMG, "ci40 co24 in9x10 k4 s2 p1 math=tf32 | leaky_relu | max_pool 2"},
    {"many channels", FMG,
     "ci32 co64 in6x6x6 k3 s2 p1 op1 dtype=f16 | mul @m | extreme_pool 2 dir=@d"},
    {"many channels", FGS, "n2 ci24 co1 in6x7x8 k4 s2 p1 bias math=tf32 | sigmoid"},
    {"many channels", FGS, "ci40 co3 in20x21 k5 s3 p1 dtype=f16 | tanh"},
    {"many channels", FMG, "n2 ci37 co27 in5x6x7 k3 p1 bias math=tf32 | add #r"},
    {"many channels", FMG, "ci22 co10 in6x7x5 k3 s2 d3 p2 dtype=bf16 y=f32"},
    {"many channels", FMG, "n2 ci128 co64 in4x6x8 k4 s2 p1 dtype=f16 layout=ndhwc | relu"},
    {"many channels", FMG,
     "ci64 co64 in8x8 k4 s2 p1 dtype=f16 | batch_norm mean=@m var=@v weight=@w bias=@b | relu"},
    {"many channels", FMG, "n64 ci64 co64 in2x3 k3 s2 p1 op1 dtype=f16"},
    {"many channels", FMGL, "n2 ci8 co520 in4x5 k3 s2 bias math=tf32"},
    {"many channels", FG | LOOPS, "n2 ci32 co16 in5x5x5 k5 s5x4x3 w=f16 math=tf32"},

    {"few output channels", FGS, "n2 ci64 co1 in9x16x32 k4 s2 p1 bias math=tf32 | sigmoid"},
    {"few output channels", FGS, "ci65 co2 in7x9x11 k4 s2 p1 dtype=f16 | tanh"},
    {"few output channels", FGS,
     "n3 ci64 co3 in32x32 k4 s2 p1 bias dtype=bf16 layout=ndhwc | tanh"},
    {"few output channels", FGS, "n2 ci32 co1 in500 k16 s8 p4 x=f16 math=tf32 | tanh"},
    {"few output channels", FGS, "ci20 co3 g1 in12x30 k3x5 s3x1 d1x2 p1x4 math=tf32 xlayout=ndhwc"},
    {"few output channels", FGS, "ci32 co1 in20x9x9 k3 d3x1x1 p1 math=tf32 | relu"},
    {"few output channels", FGS | LOOPS, "ci16 co1 in6x6x6 k5 s5x4x3 dtype=f16"},
    {"few output channels", F | COVERING_MMA | COVERING_SCATTER,
     "ci16 co6 in9x8x8 k3 p1 bias dtype=f16 | silu | max_pool 2"},
    {"few output channels", FMGLS,
     "ci32 co16 g4 in20x20 k7 s4 p1 dtype=bf16 | batch_norm mean=@m var=@v weight=@w bias=@b | "
     "relu"},

    {"residues as rows", FMG | COVERING_PHASE,
     "n2 ci16 co32 in5x9x32 k3 s2 p1 op1 bias math=tf32 | leaky_relu 0.2 | mul @m | leaky_relu 0.2 "
     "| max_pool 2"},
    {"residues as rows", FMG | COVERING_PHASE,
     "n2 ci64 co32 in16x16x16 k2 s2 bias dtype=f16 | silu"},
    {"residues as rows", FMG | COVERING_PHASE, "ci40 co72 in9x47 k4 s2 p1 bias math=tf32 | gelu"},
    {"residues as rows", FMG | COVERING_PHASE, "n2 ci32 co24 in147 k16 s8 p4 dtype=bf16 | tanh"},
    {"residues as rows", FMGLS | COVERING_PHASE,
     "n2 ci32 co32 in5x9x47 k3x5x7 s2 p1x2x3 op1 g4 dtype=f16 layout=ndhwc | add #r:f16"},
    {"residues as rows", FMGLS | COVERING_PHASE,
     "ci16 co12 in6x31x29 k3x2x5 s1x3x2 d2x1x3 math=tf32 g2"},

    {"channels as rows", FMG | COVERING_PANEL,
     "n2 ci64 co96 in16x16 k4 s2 p1 bias math=tf32 | relu"},
    {"channels as rows", FMG | COVERING_PANEL, "n2 ci72 co130 in21x17 k3 s2 dtype=f16"},
    {"channels as rows", FMG | COVERING_PANEL,
     "n3 ci32 co24 in5x7x14 k2 s2 dtype=bf16 | add #r:f16 | gelu"},
    {"channels as rows", FMG | COVERING_PANEL, "ci64 co40 in333 k16 s8 p4 bias math=tf32 | tanh"},
    {"channels as rows", FMG | COVERING_PANEL,
     "n2 ci24 co32 in6x8x8 k3 s2 p1 op1 g2 dtype=f16 layout=ndhwc | mul @m | extreme_pool 2 "
     "dir=@d"},

    {"groups", FMGLS, "n1 ci32 co32 in5x7x9 k3x5x7 s2 p1x2x3 op1 g4 math=tf32"},
    {"groups", FMG, "n2 ci24 co40 in9x12 k3 s2 g2 dtype=bf16 | relu"},
    {"groups", F, "ci6 co9 in5x6x7 k4 s2 p1 g3 bias | tanh"},
    {"groups", FD, "n1 ci64 co64 g64 in9x8x7 k4 s2 p1 | tanh | mul @t | mul %0"},
    {"groups", FD, "n2 ci24 co48 g24 in31x17 k3 s2 p1 bias dtype=f16 | leaky_relu"},
    {"groups", T, "ci12 co18 in6x7 k3 s2 g6 | softmax | max_pool 3 s1 p1"},

    {"depthwise", FD, "ci64 co64 g64 in24x24x24 k4 s2 p1"},
    {"depthwise", FD, "n2 ci16 co16 g16 in20x20 k3 p1 dtype=f16 | relu"},
    {"depthwise", FD, "ci6 co18 g6 in5x9x33 k3x5x7 s2 p1x2x3 op1 bias dtype=bf16 | gelu"},
    {"depthwise", FD, "n2 ci1 co16 in9x12 k4 s2 p1 bias | silu | max_pool 2"},
    {"depthwise", FD,
     "ci32 co64 g32 in9x9x9 k4 s2 p1 layout=ndhwc dtype=f16 | sigmoid | mul @m | add #r:f16"},
    {"depthwise", FD, "ci20 co20 g20 in33 k16 s8 p4 | tanh"},
    {"depthwise", FD, "ci40 co40 g40 in5x6x7 k7 s2 p3 xlayout=ndhwc"},
    {"depthwise", FD, "ci8 co8 g8 in12x30 k15x3 s3x5 d2x3 op1x2 ylayout=ndhwc | leaky_relu"},
    {"depthwise", F | LOOPS, "ci2 co2 g2 in9x9 k41x31 p20x15"},

    {"flattened depth", FL,
     "n4 ci3 co16 in16x32x32 k3 s2 p1 bias dtype=f16 | scale 0.5 | avg_pool 2 | add @b | scale 1"},
    {"flattened depth", FDL, "n2 ci1 co24 in20x37 k4 s2 p1 dtype=bf16 | relu"},
    {"flattened depth", FML,
     "ci4 co32 in8x16x16 k3 s2 p1 op1 bias math=tf32 | leaky_relu 0.2 | mul @m | max_pool 2"},
    {"flattened depth", FML, "n2 ci6 co80 g2 in70 k7 p3 x=f16 math=tf32 layout=ndhwc"},
    {"flattened depth", FMGL, "ci8 co12 in9x9x9 k3 s3x1x2 op2x0x1 dtype=f16 | add #r:f16 | tanh"},
    {"flattened depth", FML, "ci2 co9 in7x200 k5x3 s1x4 d1x3 p2 math=tf32 y=bf16 | gelu"},
    {"flattened depth", FML, "ci5 co40 in6x7 k5 s2 p2 dtype=bf16 | mul @s | sigmoid"},
    {"flattened depth", FML, "ci3 co8 in300 k9 s8 p1 dtype=f16 | tanh | avg_pool 16"},

    {"cell pools", FMG,
     "n2 ci16 co32 in5x9x11 k3 s2 p1 op1 bias math=tf32 | leaky_relu 0.2 | mul @m | leaky_relu 0.2 "
     "| max_pool 2"},
    {"cell pools", FMGLS, "ci8 co8 in20x20 k3 s2 dtype=f16 | tanh | mul @m | max_pool 2 ceil"},
    {"cell pools", F, "ci3 co5 in9x10 k4 s2 p1 | sigmoid | avg_pool 4 p1 exclude_pad | exp"},
    {"cell pools", F, "ci3 co5 in9x10 k3 p1 | silu | avg_pool 2x3 ceil div=5"},
    {"cell pools", F, "ci3 co8 in4x5x6 k3 | neg | max_pool 1x2x3 s2x3x3 p0x1x1 | gelu"},
    {"cell pools", F, "ci5 co4 in30 k8 s4 p2 | extreme_pool 8 dir=@s | scale @t | add @u"},

    {"tiled pools", T, "ci3 co20 in9x7 k4 s2 p1 bias | silu | avg_pool 3 s1 p1"},
    {"tiled pools", T, "ci8 co9 in6x6x6 k3 s2 p1 math=tf32 | gelu | max_pool 3 s2 p1"},
    {"tiled pools", T,
     "ci4 co4 in14x12 k3 s2 | relu | max_pool 2 s3 d2 ceil | avg_pool 3 s2 p1 pe0 exclude_pad"},
    {"tiled pools", T, "ci4 co6 in50 k4 s3 | leaky_relu | max_pool 2 | sigmoid | avg_pool 3 div=2"},
    {"tiled pools", T, "ci4 co6 in9x50 k4 s3 bias | mish | avg_pool 2x3 s1x2 d3x1 p1 | tanh"},
    {"tiled pools", T,
     "n2 ci4 co6 in40x40 k3 s2 dtype=f16 | silu | avg_pool 2 s3 | extreme_pool 3 "
     "s1 p1 dir=@d"},

    {"folds", F,
     "n2 ci3 co16 in4x8x9 k3 s2 p1 bias | scale @s[] | avg_pool 2 | add @b | scale @t[]"},
    {"folds", FMGS,
     "n2 ci16 co8 in12x12 k4 s2 p1 math=tf32 | batch_norm mean=@m var=@v weight=@w "
     "bias=@b | relu"},
    {"folds", FMGLS, "ci8 co8 in30 k5 s4 p1 math=tf32 | mul 0.5 | div @q | avg_pool 2 | sub @b"},
    {"folds", F,
     "ci8 co12 g4 in9x10 k3 s2 bias | mul @s | batch_norm mean=@m var=@v | avg_pool 2 "
     "| sigmoid"},
    {"folds", FMGLS, "ci8 co8 in9x10 k3 s2 dtype=f16 | mul @s | leaky_relu | mul -2 | relu"},

    {"operators", F, "ci3 co5 in9 k4 s2 | elu 0.7 | selu | celu 0.5 | softplus 2 10 | softsign"},
    {"operators", F, "ci3 co5 in9x7 k4 s2 | gelu | mul %0 | gelu_tanh | sub %1 | mish | div 3"},
    {"operators", FML,
     "ci4 co5 in9x7 k4 s2 math=tf32 | silu | hardswish | hardsigmoid | clamp -1 "
     "0.9 | add %0"},
    {"operators", F, "ci3 co5 in4x5x6 k3 s2 | prelu @p | tanh | abs | add 1 | sqrt | exp | neg"},
    {"operators", F,
     "ci3 co5 in9x9 k3 s2 | sigmoid | batch_norm mean=@m var=@v weight=@w bias=@b "
     "eps=0.01 | two_slope @c @d | sub %1 %3"},
    {"operators", T, "ci3 co5 in9x9 k3 s2 | sigmoid | logsumexp | mul %0 | hardswish | clamp 0 6"},

    {"channels", T, "ci3 co5 in4x5x6 k2x3x4 s3x2x1 d2 p1 op1 bias | softmax | relu"},
    {"channels", T, "n2 ci4 co300 in20 k4 s2 | log_softmax | exp"},
    {"channels", T, "ci4 co33 in9x9 k3 s2 p1 dtype=bf16 | logsumexp | hardswish | clamp -1 1"},
    {"channels", T, "ci4 co6 in9x9 k3 s2 | mean c | sub %0 %1 | mul %2 | mean c | sqrt"},
    {"channels", T, "ci4 co7 in9x9 k3 s2 | max c | sub %0 %1 | min c | max_pool 2"},
    {"channels", T, "ci8 co8 g2 in9x9 k3 s2 math=tf32 | sum c | tanh | mul %0"},

    {"reductions", T, "n2 ci3 co20 in9x7 k4 s2 p1 bias | silu | avg_pool 3 s1 p1 | mean w | exp"},
    {"reductions", T, "n2 ci200 co5 in9x7 k4 s2 p1 bias | gelu | max_pool 3 s2 p1 | sum hw"},
    {"reductions", T, "ci4 co6 in5x6x7 k3 s2 | max dh | min w"},
    {"reductions", T, "ci4 co6 in60 k3 s2 dtype=f16 | softmax | min w | relu"},
    {"reductions", T, "ci4 co6 in5x6x7 k3 s2 math=tf32 | relu | global_avg_pool | softmax"},

    {"kept values", F | T, "n2 ci9 co5 in9x7 k4 s2 p1 bias | mean hw | sigmoid | mul %0"},
    {"kept values", T,
     "n2 ci9 co5 in9x7 k4 s2 p1 bias | relu | max w | sub %1 %2 | mul %0 | sum h"},
    {"kept values", T, "ci4 co1500 in30x30 k3 s2 | softmax | avg_pool 7 s1 p3 | log_softmax"},
    {"kept values", T,
     "ci4 co6 in8 k2 s2 | silu | max_pool %1 3 s2 p1 | max_pool %1 9 s1 | add %2 %3"},
    {"kept values", T, "ci4 co6 in30x30 k3 s2 | tanh | max_pool 2 | add #r | sum hw"},
    {"kept values", F | T, "ci4 co6 in1x30 k3x2 s2 p1x0 | tanh | global_max_pool | add %1 | gelu"},

    {"residues", F, "n2 ci4 co6 in40 k16 s8 p4 bias | tanh"},
    {"residues", F | LOOPS, "n1 ci4 co6 in5x5x5 k5 s4 p1 bias | tanh"},
    {"residues", F | LOOPS, "ci3 co2 in6x7 k3x40 s2x37"},
    {"residues", F | LOOPS | GLOBAL, "ci2 co16 in9x9 k31 s2 p15"},
    {"residues", F | LOOPS | GLOBAL, "ci3 co33 in6x6x6 k11x9x7 s3x2x2 d1x2x1 bias dtype=f16"},
    {"residues", T | LOOPS, "ci4 co4 in6x7 k9 s7 p1 | relu | max_pool 3 s2"},

    {"data types", FML, "ci4 co8 in9x10 k3 s2 x=f16 math=tf32 bias"},
    {"data types", F, "ci4 co8 in9x10 k3 s2 w=bf16 y=f16 | silu"},
    {"data types", FML, "ci4 co8 in9x10 k3 s2 x=bf16 w=bf16 y=f32 | gelu | max_pool 2"},
    {"data types", FL, "ci4 co8 in9x10 k3 s2 x=f16 w=bf16 y=bf16 | softsign"},
    {"data types", T, "ci4 co8 in9x10 k3 s2 x=bf16 y=f16 | softmax"},

    {"layouts", FMG, "n2 ci16 co24 in9x10x11 k3 s2 p1 math=tf32 layout=ndhwc | relu | max_pool 2"},
    {"layouts", FMG, "n2 ci16 co16 in9x8 k3 p1 dtype=f16 xlayout=ndhwc | relu"},
    {"layouts", F, "ci5 co3 in30 k4 s2 p1 dtype=bf16 ylayout=ndhwc bias"},
    {"layouts", FD, "ci12 co12 g12 in30x9 k4 s2 p1 layout=ndhwc | hardswish"},
    {"layouts", T, "ci5 co3 in9x10 k4 s2 p1 layout=ndhwc | log_softmax | avg_pool 3 s1 p1"},

    {"extra tensors", FMG, "n2 ci20 co24 in5x9x11 k2 s2 bias dtype=bf16 | relu | add #res:bf16"},
    {"extra tensors", F,
     "n2 ci4 co6 in9x7 k4 s2 p1 | mul #a[nc] | add #b[hw]:f16 | prelu #c[chw] | div #q[n]"},
    {"extra tensors", FMGLS,
     "ci8 co8 in8x8 k2 s2 dtype=f16 | tanh | add #a:f16 | max_pool 2 | mul #b | "
     "gelu"},
    {"extra tensors", T,
     "n2 ci3 co20 in9x7 k4 s2 | silu | avg_pool 3 s1 p1 | mul #r | softmax | mul "
     "#s[nhw]:bf16 | mean w"},
    {"extra tensors", T,
     "ci3 co2 in9x7 k4 s2 | sub #a | mul #b | mean hw | add #c[nc] | mul #d | "
     "max_pool 3 s1 p1"},
};
const size_t covering_case_count = sizeof covering_cases / sizeof covering_cases[0];
