// SPDX-License-Identifier: Apache-2.0
// Weights in the order of the inner product.

#if defined(PARTS)
__device__ float nearest(double value) { return __int_as_float((int)to_tf32((float)value)); }

// The first PARTS TF32 numbers whose sum is the weight.
__device__ float part_of(double weight, int part) {
  const float first = nearest(weight);
  return part == 0 ? first : fabsf(first) < INF ? nearest(weight - first) : 0.0f;
}
#elif defined(WORD_IS_F32)
__device__ u32 word_of(const PackArgs &a, int i, int o, int c, int k) {
  float value = i < CI && o < CO ? (float)(weight(a, c + i, o, k) * ((const double *)(a.packed + SCALES_AT))[c / CI * CO + o]) : 0.0f;
  return to_tf32(value);
}
#elif defined(WORD_IS_F16) || defined(WORD_IS_BF16)
// Pairs of input channels; the weights of these candidates are not folded, so that they are exact: a scale is a sign, or
// it multiplies the sums.
__device__ u32 half_of(const PackArgs &a, int i, int o, int c, int k) {
  const double scale = SCALES_SUMS || o >= CO ? 1 : ((const double *)(a.packed + SCALES_AT))[c / CI * CO + o];
  float value = i < CI && o < CO ? (float)(weight(a, c + i, o, k) * scale) : 0.0f;
#ifdef WORD_IS_F16
  return to_f16(value);
#else
  return to_bf16(value);
#endif
}
__device__ u32 word_of(const PackArgs &a, int i, int o, int c, int k) {
  return half_of(a, 2 * i, o, c, k) | half_of(a, 2 * i + 1, o, c, k) << 16;
}
#endif

#if IN_PANELS
template <typename L>
__device__ u32 word_of_panel(const PackArgs &a, int at, int block, int group) {
  const int word = at % 4, row = at / 4 % 64, half = at / 256 % 2, warp = row / 16;
  at /= 512;
  const int held = at % L::HELD, product = at / L::HELD % L::PRODUCTS;
  at /= L::HELD * L::PRODUCTS;
  const int step = at % STEPS, round = at / STEPS;
  const int o = block * BM + L::FIRST_CHANNEL + ((round * L::HELD + held) * L::FRAGMENTS + warp % L::FRAGMENTS) * 8 + row % 8;
  const int kernel = L::kernel(product, half, warp / L::FRAGMENTS, row / 8 % 2), quad = QUADS == 1 ? 0 : 2 * step + half;
  return kernel >= 0 ? word_of(a, quad * 4 + word, o, group * CI, kernel) : 0;
}
#endif

extern "C" __global__ void __launch_bounds__(256) pack_weights(const __grid_constant__ PackArgs a) {
  for (i64 at = (i64)blockIdx.x * 256 + threadIdx.x; at < WEIGHT_WORDS; at += (i64)gridDim.x * 256) {
    i64 rest = at;
#if IN_PANELS
    // [group][block], then of Main and of Rest: [round][step][product][held][half of the depth][row][4]
    const int block = (int)(rest / BLOCK_WORDS % BLOCKS_PER_GROUP), group = (int)(rest / BLOCK_WORDS / BLOCKS_PER_GROUP);
    rest %= BLOCK_WORDS;
#if REST
    if (rest * 4 >= Rest::FIRST_BYTE)
      ((u32 *)a.packed)[WEIGHTS_AT + at] = word_of_panel<Rest>(a, (int)rest - Rest::FIRST_BYTE / 4, block, group);
    else
#endif
      ((u32 *)a.packed)[WEIGHTS_AT + at] = word_of_panel<Main>(a, (int)rest, block, group);
#elif STAGED
    // [group][block of BM channels][group of residues][chunk][tap][unit of the chunk][row][4]
    const int word = (int)(rest % 4), row = (int)(rest / 4 % BM), quad = (int)(rest / (4 * BM) % QUADS);
    rest /= 4 * BM * QUADS;
    const int stage = (int)(rest % (TAPS * CHUNKS));
    rest /= TAPS * CHUNKS;
    const int block = (int)(rest % BLOCKS_PER_GROUP), group = (int)(rest / BLOCKS_PER_GROUP);
    int residues = 0;
    while (stage >= group_begin[residues + 1] * CHUNKS) residues++;
    const int first = group_begin[residues], taps = group_begin[residues + 1] - first, in_group = stage - first * CHUNKS;
    const int unit = in_group / taps * QUADS + quad, kernel = tap_kernel[first + in_group % taps];
    ((u32 *)a.packed)[WEIGHTS_AT + at] = word_of(a, unit * 4 + word, block * BM + row, group * CI, kernel);
#elif defined(SCATTER)
    // [group][block of BM channels][step][kernel element along D][fragment of 16 rows][lane][4]: lane 4 g + t holds words t of
    // rows g and g + 8, then t + 4 of them; rows are channels and kernel elements of a plane. In channels-last memory a lane's
    // words of two steps are neighbours.
    const int part = (int)(rest % 4), lane = (int)(rest / 4 % 32);
    rest /= 128;
    const int row = (int)(rest % FRAGMENTS) * 16 + part % 2 * 8 + lane / 4;
    rest /= FRAGMENTS;
    const int depth = (int)(rest % KERNEL_DEPTH), plane = KERNEL / KERNEL_DEPTH;
    rest /= KERNEL_DEPTH;
    const int step = (int)(rest % CI_STEPS);
    rest /= CI_STEPS;
    const int i = X_LAST ? step / 2 * 16 + lane % 4 * 4 + step % 2 * 2 + part / 2 : step * 8 + lane % 4 + part / 2 * 4;
    const int o = (int)(rest % BLOCKS) * BM + row / plane, group = (int)(rest / BLOCKS);
    const bool live = (row < BM * plane) & (o < CO);
    ((u32 *)a.packed)[WEIGHTS_AT + at] = live ? word_of(a, i, o, group * CI, depth * plane + row % plane) : 0;
#elif defined(WORD_IS_F32) || defined(WORD_IS_F16) || defined(WORD_IS_BF16)
    // [group][step][KERNEL][CO_PAD / 8][lane][STEP_WORDS / 4]: lane 4 g + t holds words t (and t + 4) of column g
    // with CORE_ORDER the words t of all lanes come first, then t + 4
    const int half = (int)(CORE_ORDER ? rest / 32 % 2 : rest % (STEP_WORDS / 4));
    const int lane = (int)(CORE_ORDER ? rest % 32 : rest / (STEP_WORDS / 4) % 32);
    rest /= 8 * STEP_WORDS;
    const int column = (int)(rest % (CO_PAD / 8)) * 8 + lane / 4;
    rest /= CO_PAD / 8;
    const int k = (int)(rest % WEIGHT_TAPS);
    rest /= WEIGHT_TAPS;
    const int i = (int)(rest % CI_STEPS) * STEP_WORDS + lane % 4 + 4 * half;
    const int group = (int)(rest / CI_STEPS);
#if WIDE
    // columns: the channels of residue 0, then those of residue 1, ...
    const int kernel = column < RESIDUES * CO ? column_kernel[k][column / CO] : -1;
    ((u32 *)a.packed)[WEIGHTS_AT + at] = kernel >= 0 ? word_of(a, i, column % CO, group * CI, kernel) : 0;
#else
    ((u32 *)a.packed)[WEIGHTS_AT + at] = word_of(a, i, column, group * CI, k);
#endif
#else
    // [group][CI][KERNEL][CO_PAD], or as many of these as a weight has parts
    const int o = (int)(rest % CO_PAD);
    rest /= CO_PAD;
    const int k = (int)(rest % KERNEL);
    rest /= KERNEL;
#if defined(PARTS)
    const int i = (int)(rest % (GROUPS * CI));
#else
    const int i = (int)rest;
#endif
    const double *scale = (const double *)(a.packed + SCALES_AT);
    const double value = o < CO ? weight(a, i, o, k) * scale[i / CI * CO + o] : 0.0;
#if defined(PARTS)
    a.packed[WEIGHTS_AT + at] = part_of(value, (int)(rest / (GROUPS * CI)));
#else
    a.packed[WEIGHTS_AT + at] = (float)value;
#endif
#endif
  }
}
