/* SPDX-License-Identifier: Apache-2.0 */
/* Plain operations on the device against what a few lines of C say: tensors of any type and strides, and one case. */
#ifndef UPCONV_TESTS_GPU_CHECK_GPU_PLAIN_H
#define UPCONV_TESTS_GPU_CHECK_GPU_PLAIN_H

#include "../../src/cuda/plain.h"
#include "check_gpu.h"

/* What a tensor is filled with. */
typedef enum plain_fill {
  PLAIN_TAME,    /* floating point in [-4, 4], integers in [-9, 9] or [0, 9] */
  PLAIN_WILD,    /* and a few: 0, infinities, NaN, the largest, the smallest */
  PLAIN_POSITIVE /* in [0.5, 2] */
} plain_fill;

typedef struct plain_tensor {
  uc_plain_view view;
  unsigned char *bytes;     /* on the host: the whole buffer, poison wherever there is no element */
  size_t byte_count, first; /* byte of element (0, 0, ...) */
  gpu_buffer buffer;
} plain_tensor;

typedef struct plain_case {
  uc_plain_op op;
  plain_tensor in[UC_PLAIN_INPUTS], out;
  uint64_t random;
  double tolerance, floor; /* of the error before the result is rounded: tolerance * |y| + floor */
} plain_case;

/* On gpu_context; NULL after a failed check. */
uc_plain_set *plain_set_make(void);

/* A random shape of 1 to most along each axis. */
void plain_shape(plain_case *c, int rank, int64_t most, int64_t *shape);
/* Adds input k, or the output, with random strides and filled; views of op are set too. The output is dense or strided but
   never repeats elements. plain: dense. */
void plain_input(plain_case *c, int k, uc_plain_dtype dtype, int rank, const int64_t *shape,
                 plain_fill fill, bool plain);
void plain_output(plain_case *c, uc_plain_dtype dtype, int rank, const int64_t *shape, bool plain);
void plain_free(plain_case *c);

/* Element at an index; index may be longer than the rank, whose last axes it then is (broadcast). */
double plain_get(const plain_tensor *t, const int64_t *index, int count);
int64_t plain_get_int(const plain_tensor *t, const int64_t *index, int count);
double plain_at(const plain_tensor *t, const int64_t *index); /* as many as the rank */

/* The next index, last axis first; false after the last. Start with zeros; not for empty shapes. */
bool plain_next(int rank, const int64_t *shape, int64_t *index);

/* Prepares, runs, and brings the output home; bytes beside its elements are as before. */
bool plain_run(plain_case *c, const char *what);
/* Runs and compares with what is expected at each index. */
typedef double (*plain_expect)(const plain_case *c, const int64_t *index);
void plain_check(plain_case *c, const char *what, plain_expect expect);
void plain_compare(const plain_case *c, const char *what, plain_expect expect);

#endif
