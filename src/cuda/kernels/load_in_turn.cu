// SPDX-License-Identifier: Apache-2.0
// load_if, not before the code around it has come so far: where lanes exchange halves of runs the compiler would otherwise load so
// much ahead that values go to memory.
template <int TYPE>
__device__ __forceinline__ float load_in_turn(bool there, const char *base, i64 index) {
#if LANES_MEET
  asm volatile("" : "+l"(index));
#endif
  return load_if<TYPE>(there, base, index);
}
