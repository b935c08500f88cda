/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors for a problem text: every one in a guarded buffer of its own, with random strides, gaps
 * and alignment, filled with random values. Uses the public API alone: the shape of a parameter or
 * tensor is that of the text up to its first use.
 */
#ifndef UPCONV_TESTS_RANDOM_DATA_H
#define UPCONV_TESTS_RANDOM_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upconv/upconv.h"

enum { MOST_DECLARED = 32 };

/* How a tensor lies in memory. */
typedef struct random_traits {
  bool strided;    /* axes in another order, or gaps between elements */
  bool broadcast;  /* an axis of several elements has stride 0 */
  bool misaligned; /* starts elsewhere than at a multiple of 64 bytes */
} random_traits;

typedef struct random_tensor {
  upconv_tensor view;
  unsigned char *buffer; /* check_alloc's, with poison wherever there is no element */
  size_t bytes;
  random_traits traits;
} random_tensor;

/* Poisoned. Dense and in `layout` if plain; may_broadcast allows strides of 0. */
void random_tensor_create(uint64_t *random, upconv_dtype dtype, int rank, const int64_t *shape,
                          upconv_layout layout, bool plain, bool may_broadcast, random_tensor *t);
/* Checks the guards. */
void random_tensor_free(random_tensor *t);

int64_t random_tensor_count(const upconv_tensor *view);
/* Counts index through all indices of view, last axis first; false after the last. Start with
 * zeros. */
bool random_tensor_next(const upconv_tensor *view, int64_t *index);
/* Bytes of the element at index. */
unsigned char *random_tensor_at(const upconv_tensor *view, const int64_t *index);
/* Stores a number, rounded to the tensor's type. */
void random_tensor_store(const upconv_tensor *view, const int64_t *index, double value);
/* Every byte outside the view's elements is still poison. Destroys the elements. */
bool random_tensor_gaps_untouched(random_tensor *t);

/* Everything that one run needs but the output. */
typedef struct random_inputs {
  random_tensor x, weight, bias;
  int param_count, tensor_count;
  random_tensor param[MOST_DECLARED], tensor[MOST_DECLARED];
  upconv_tensor param_view[MOST_DECLARED], tensor_view[MOST_DECLARED];
  upconv_parameters parameters; /* point into this struct */
} random_inputs;

/* What the text after '|' says, "" if there is nothing. */
const char *random_epilogue_text(const char *text);

/* problem: that of the text, or one with other extents and the same channels. */
void random_inputs_create(uint64_t *random, const upconv_problem *problem, const char *text,
                          random_inputs *inputs);
/* The same, but x and tensors are dense and whole, as users have them: what is timed must read all of its bytes. */
void random_inputs_create_plain(uint64_t *random, const upconv_problem *problem, const char *text,
                                random_inputs *inputs);
void random_inputs_free(random_inputs *inputs);

#endif
