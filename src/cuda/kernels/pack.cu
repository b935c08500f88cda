// SPDX-License-Identifier: Apache-2.0
// Parameters as the caller gives them.

struct Vector {
  const char *data;
  i64 stride;
  int type, unused;
};

struct PackArgs {
  float *packed;
  const char *weight;
  i64 weight_stride[5];
  Vector bias, param[PARAMS];
  int weight_type, unused;
};

__device__ __forceinline__ double read_typed(const char *data, int type, i64 index) {
  return type == F32 ? load_at<F32>(data, index) : type == F16 ? load_at<F16>(data, index) : load_at<BF16>(data, index);
}

__device__ __forceinline__ double read(const Vector &v, int i) { return read_typed(v.data, v.type, i * v.stride); }

__device__ __forceinline__ double read_weight(const PackArgs &a, int i, int o, int k0, int k1, int k2) {
  return read_typed(a.weight, a.weight_type, i * a.weight_stride[0] + o * a.weight_stride[1] + k0 * a.weight_stride[2] +
                                                 k1 * a.weight_stride[3] + k2 * a.weight_stride[4]);
}
