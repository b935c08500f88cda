/* SPDX-License-Identifier: Apache-2.0 */
/* Views: checks, canonical rank 5, element conversion. */
#ifndef UPCONV_TENSOR_H
#define UPCONV_TENSOR_H

#include "problem.h"
#include "upconv/upconv.h"

/* Right-aligns the spatial axes: N, C, D, H, W with shape 1, stride 0, offset 0 on axes that are not there. Checks rank
   (nd + 2), dtype, shape >= 0, offset >= 0, data not NULL unless empty; name is for messages. */
upconv_status uc_tensor_canonical(const upconv_tensor *tensor, const char *name, int nd,
                                  upconv_tensor *canonical);

/* Bit-exact conversions, round to nearest even, NaN kept a NaN, overflow to infinity. */
float uc_f16_to_f32(uint16_t bits);
uint16_t uc_f32_to_f16(float value);
float uc_bf16_to_f32(uint16_t bits);
uint16_t uc_f32_to_bf16(float value);
/* Correctly rounded from float64 (no double rounding). */
uint16_t uc_f64_to_f16(double value);
uint16_t uc_f64_to_bf16(double value);

/* Element at a byte-free index (elements from data). */
double uc_load(const void *data, upconv_dtype dtype, int64_t index);
void uc_store(void *data, upconv_dtype dtype, int64_t index, double value);

#endif
