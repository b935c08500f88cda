/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometry of a transposed convolution: sizes, phases, taps. The only place with index arithmetic.
 *
 * Inside the library every problem is three-dimensional: axes are right-aligned (a 1-D problem has axes 0 and 1 of
 * extent 1, kernel 1, stride 1), and shapes are N, C, D, H, W. nd remembers the rank for printing and for users.
 * Letters as in docs/MATH.md: per axis input I, kernel K, stride s, dilation d, padding p (begin) and p' (end), output
 * padding op, output O; phase phi = (o + p) mod s.
 */
#ifndef UPCONV_PROBLEM_H
#define UPCONV_PROBLEM_H

#include "text.h"
#include "upconv/upconv.h"

enum { UC_AXES = 3, UC_RANK = 5 };

typedef struct uc_axis {
  int64_t in_size;        /* I, nominal */
  int64_t kernel;         /* K */
  int64_t stride;         /* s */
  int64_t dilation;       /* d */
  int64_t pad_begin;      /* p, any sign */
  int64_t pad_end;        /* p', any sign */
  int64_t output_padding; /* op */
} uc_axis;

struct upconv_problem {
  int nd; /* 1 to 3: axes UC_AXES - nd .. UC_AXES - 1 are real, those before are trivial */
  int64_t batch, in_channels, out_channels, groups;
  uc_axis axis[UC_AXES];
  bool bias;
  upconv_dtype x_dtype, w_dtype, y_dtype;
  upconv_layout x_layout, y_layout;
  upconv_math math;
};

/* A half-open range of indices; empty when begin >= end. */
typedef struct uc_range {
  int64_t begin, end;
} uc_range;

/* Taps of one phase along one axis: k = first + t * step for t in [0, count), reading input i = q - shift - t * shift_step
   for the output o = s * q + phi - p. */
typedef struct uc_phase {
  int64_t first, step, count;
  int64_t shift, shift_step;
} uc_phase;

/* Checks every field; sizes and their products must fit int64_t. */
upconv_status uc_problem_check(const upconv_problem *problem);

/* The same without the limits on output_padding: a rewritten problem may have any. */
upconv_status uc_problem_check_rewritten(const upconv_problem *problem);

/* One axis by itself: what uc_problem_check_rewritten asks of canonical axis `index`, but for its
   output size. */
upconv_status uc_axis_check(const uc_axis *axis, int index);

/* O for an input of in_size, which may differ from the nominal one. The result may be negative: the caller refuses it.
   false on overflow. */
bool uc_axis_output(const uc_axis *axis, int64_t in_size, int64_t *out_size);

/* Convolution output shape N, C, D, H, W for a batch and input sizes (UC_AXES entries). */
upconv_status uc_problem_conv_shape(const upconv_problem *problem, int64_t batch,
                                    const int64_t *in_size, int64_t *shape);

/* Taps of phase phi in [0, s); count 0 where the phase has none. */
uc_phase uc_axis_phase(const uc_axis *axis, int64_t phi);

/* Input indices that outputs [out.begin, out.end) read, clipped to [0, in_size). */
uc_range uc_axis_input(const uc_axis *axis, uc_range out, int64_t in_size);

/* Multiply-adds of the gather form for the given shape: border taps that fall outside are not counted. */
double uc_problem_macs(const upconv_problem *problem, int64_t batch, const int64_t *in_size);

/* Kernel elements per (input channel, output channel of a group): K0 * K1 * K2. */
int64_t uc_problem_kernel_size(const upconv_problem *problem);

void uc_problem_print(const upconv_problem *problem, uc_text *text);

#endif
