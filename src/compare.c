/* SPDX-License-Identifier: Apache-2.0 */
/* A stored output against the oracle's values and bounds. */
#include <math.h>

#include "status.h"
#include "tensor.h"

/* How much of the bound an element uses; infinity where it is wrong whatever the bound. */
static double ratio(double y, double value, double bound) {
  if (isinf(bound) && bound > 0) return 0; /* rounding decides */
  if (isnan(y) || isnan(value)) return isnan(y) && isnan(value) ? 0 : (double)INFINITY;
  if (y == value) return 0;
  if (isinf(y) || isinf(value) || !(bound > 0)) return INFINITY;
  return fabs(y - value) / bound;
}

upconv_status upconv_compare(const upconv_tensor *y, const double *value, const double *bound,
                             double *worst, int64_t *where) {
  if (!y || !worst) return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", y ? "worst" : "y");
  if (y->rank < 3 || y->rank > UC_RANK)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "y: rank is %d; allowed: 3 to %d", y->rank, UC_RANK);
  upconv_tensor t;
  upconv_status status = uc_tensor_canonical(y, "y", y->rank - 2, &t);
  if (status) return status;
  bool empty = false;
  for (int a = 0; a < UC_RANK; a++) empty = empty || t.shape[a] == 0;
  if (!empty && (!value || !bound))
    return uc_fail(UPCONV_INVALID_ARGUMENT, "%s is NULL", value ? "bound" : "value");
  int64_t i[UC_RANK], at = 0, worst_at = 0;
  double largest = 0;
  for (i[0] = 0; i[0] < t.shape[0]; i[0]++)
    for (i[1] = 0; i[1] < t.shape[1]; i[1]++)
      for (i[2] = 0; i[2] < t.shape[2]; i[2]++)
        for (i[3] = 0; i[3] < t.shape[3]; i[3]++)
          for (i[4] = 0; i[4] < t.shape[4]; i[4]++, at++) {
            int64_t index = 0;
            for (int a = 0; a < UC_RANK; a++) index += i[a] * t.stride[a];
            double r = ratio(uc_load(t.data, t.dtype, index), value[at], bound[at]);
            if (!(r > largest)) continue;
            largest = r;
            worst_at = at;
          }
  *worst = largest;
  if (where) *where = worst_at;
  return UPCONV_OK;
}
