/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the plain operations:
 *
 *   plain.c               checks, preparation and runs of any kind
 *   plain_types.c         data types and scalar functions
 *   plain_walk.c          views of one shape with few axes: what kernels walk
 *   plain_module.c        kernels/plain*.cu -> loaded functions, each specialisation once
 *   plain_elementwise.c, plain_copy.c, plain_map.c, plain_pool.c, plain_reduce.c, plain_norm.c, plain_matrix.c
 *                         kinds: what is compiled, and the arguments, which are laid out as the structs of the same
 *                         names in kernels/
 */
#ifndef UPCONV_CUDA_PLAIN_PARTS_H
#define UPCONV_CUDA_PLAIN_PARTS_H

#include "plain.h"

enum {
  UC_PLAIN_WALK_VIEWS = 4,
  UC_PLAIN_THREADS = 256,
  UC_PLAIN_ALIGNMENT = 256,
  UC_PLAIN_STATISTICS = 3 /* numbers of an output of a reduction that others read */
};

/* ---- types: plain_types.c ---- */

const char *uc_plain_dtype_define(uc_plain_dtype dtype); /* "P_F32" */
bool uc_plain_is_int(uc_plain_dtype dtype);              /* bool counts as one */
/* What float computes as well as float64. */
bool uc_plain_is_narrow(uc_plain_dtype dtype);
const char *uc_plain_fn_define(uc_plain_fn fn); /* "FN_ADD" */
bool uc_plain_fn_has_int(uc_plain_fn fn);
/* The bits of a number in a type: rounded to nearest even; integers truncated and saturated. */
uint64_t uc_plain_encode(uc_plain_dtype dtype, double value);

/* ---- walks: plain_walk.c ---- */

/* Joined axes of views of one shape; in the kernels struct Walk. */
typedef struct uc_plain_walk {
  int64_t count, rank; /* rank is at least 1 */
  int64_t shape[UC_PLAIN_RANK];
  int64_t stride[UC_PLAIN_WALK_VIEWS][UC_PLAIN_RANK];
} uc_plain_walk;

/* Strides along a shape that the view is broadcast to; 0 of a view that is left out. */
void uc_plain_align(const uc_plain_view *view, int rank, int64_t *stride);
/* Axes of the shape in whose bit is set, outermost first, unless sorted by the strides of view 0. */
void uc_plain_walk_make(uc_plain_walk *walk, int rank, const int64_t *shape, uint32_t axes,
                        int views, const int64_t (*stride)[UC_PLAIN_RANK], bool sorted);
/* Whether elements can be taken in groups of n neighbours: along the last axis each view has stride 1, or 0 if its bit is
   set in may_repeat, and groups lie on multiples of n. */
bool uc_plain_walk_groups(const uc_plain_walk *walk, int views, int64_t n, uint32_t may_repeat);

int64_t uc_plain_count(const uc_plain_view *view);
bool uc_plain_same_shape(const uc_plain_view *a, const uc_plain_view *b);

/* ---- modules: plain_module.c ---- */

typedef struct uc_plain_module {
  struct uc_plain_module *next;
  char *key;
  uc_cuda_module module; /* NULL without a device */
} uc_plain_module;

struct uc_plain_set {
  const upconv_context *context;
  uc_plain_module *first;
  int modules;
};

/* Functions of kernels/FILE.cu behind prelude, defines (lines), plain.cu and, with_scalar, plain_scalar.cu. Without a device
   they are compiled alone and stay NULL. */
upconv_status uc_plain_functions(uc_plain_set *set, const char *file, const char *defines,
                                 bool with_scalar, int count, const char *const *name,
                                 uc_cuda_function *function);
void uc_plain_modules_free(uc_plain_set *set);

/* ---- kinds ---- */

typedef struct uc_plain_call {
  const void *const *in;
  void *out;
  char *workspace;
  uc_cuda_stream stream;
} uc_plain_call;

struct uc_plain {
  uc_plain_set *set;
  uc_plain_op op; /* without maps */
  bool empty;     /* there is nothing to do */
  size_t workspace;
  void *state;       /* the kind's own */
  void *device_data; /* device memory */
};

typedef struct uc_plain_family {
  int least, most; /* inputs */
  /* Views are checked; out may be empty. state is allocated, and freed by the caller. */
  upconv_status (*prepare)(uc_plain *plain);
  upconv_status (*run)(const uc_plain *plain, const uc_plain_call *call);
} uc_plain_family;

extern const uc_plain_family uc_plain_elementwise, uc_plain_copy, uc_plain_map, uc_plain_pool,
    uc_plain_reduction, uc_plain_softmax, uc_plain_matmul, uc_plain_gemm, uc_plain_batch_norm,
    uc_plain_instance_norm;

/* Zeroed; plain->state. NULL with the library's message. */
void *uc_plain_new_state(uc_plain *plain, size_t size);
/* One parameter, a struct. blocks is cut to what a grid may have: kernels loop. */
upconv_status uc_plain_launch(const uc_plain *plain, uc_cuda_function function, int64_t blocks,
                              const void *arguments, uc_cuda_stream stream);
int64_t uc_plain_blocks(int64_t items); /* of UC_PLAIN_THREADS */
bool uc_plain_is_aligned(const void *address, size_t bytes);

/* ---- reductions, for those that need one first: plain_reduce.c ---- */

/* Numbered as in kernels/plain_reduce.cu. */
enum { UC_PLAIN_STATE_SOFTMAX = UC_PLAIN_REDUCES, UC_PLAIN_STATE_CENTRE, UC_PLAIN_STATE_DEVIATION };

typedef struct uc_plain_reduction_args {
  void *y;
  const void *x;
  void *partial, *statistics;
  const void *scale, *bias;
  int64_t channels, scale_stride, bias_stride;
  double epsilon;
  int64_t log;
  int64_t outputs, reduced, splits, group;
  int64_t along_kept;
  uc_plain_walk kept, inner;
} uc_plain_reduction_args;

typedef struct uc_plain_reducer {
  uc_cuda_function reduce, combine;
  uc_plain_reduction_args args;
} uc_plain_reducer;

/* out NULL: statistics. Compiles; kind: uc_plain_reduce or one of the above. */
upconv_status uc_plain_reducer_make(uc_plain_set *set, int kind, uint32_t axes,
                                    const uc_plain_view *in, const uc_plain_view *out,
                                    uc_plain_dtype scale, uc_plain_dtype bias,
                                    uc_plain_reducer *reducer);
size_t uc_plain_reducer_partial(const uc_plain_reducer *reducer); /* bytes */
upconv_status uc_plain_reducer_run(const uc_plain *plain, const uc_plain_reducer *reducer,
                                   const uc_plain_reduction_args *args, uc_cuda_stream stream);

#endif
