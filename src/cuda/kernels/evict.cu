// SPDX-License-Identifier: Apache-2.0
// Reads more than the second-level cache holds. What measuring ran before is then gone from there, and so is what it would
// have had to write back. The sum is stored under a condition that the compiler cannot rule out, or it would read nothing.

extern "C" __global__ void evict(const float4 *from, long long count, float *sink) {
  float sum = 0;
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL)
    sum += from[i].x + from[i].w;
  if (sum == 12345.678f) *sink = sum;
}
