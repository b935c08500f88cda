/* SPDX-License-Identifier: Apache-2.0 */
/* The table of this instruction set. */
#include "table.h"

#if defined(UPCONV_ISA_AVX512)
#define ISA_NAME "avx512"
#elif defined(UPCONV_ISA_AVX2)
#define ISA_NAME "avx2"
#else
#define ISA_NAME "base"
#endif

const uc_isa uc_name(isa) = {
    .name = ISA_NAME,
    .width = VL,
    .conv = uc_name(conv),
    .elementwise = uc_name(elementwise),
    .accumulate_max = uc_name(accumulate_max),
    .accumulate_min = uc_name(accumulate_min),
    .accumulate_add = uc_name(accumulate_add),
    .channels = uc_name(channels),
    .row_sum = uc_name(row_sum),
    .row_max = uc_name(row_max),
    .row_min = uc_name(row_min),
    .load_row = uc_name(load_row),
    .store_row = uc_name(store_row),
    .stream_row = uc_name(stream_row),
    .stream_end = uc_name(stream_end),
    .load_plane = uc_name(load_plane),
    .store_planes = uc_name(store_planes),
    .drains = uc_name(drains),
    .list_lines = uc_name(list_lines),
    .drain = uc_name(drain),
    .copy_pieces = uc_name(copy_pieces),
    .add_spans = uc_name(add_spans),
    .interleave = uc_name(interleave),
    .store_transposed = uc_name(store_transposed),
    .load_transposed = uc_name(load_transposed),
};
