/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tensor is: where its elements lie, and how. PyTorch tells it by the C functions of DLPack that it provides
 * (__dlpack_c_exchange_api__); one that has none is asked attribute by attribute, which takes ten times as long.
 */
#ifndef UPCONV_SHORT_VIEW_H
#define UPCONV_SHORT_VIEW_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

enum { MOST_AXES = 5 };

/* DLPack's numbers for devices. */
enum { ON_CPU = 1, ON_CUDA = 2 };

typedef struct view {
  void *data; /* never NULL */
  int64_t device_type, device_index;
  int64_t dtype; /* a number for each */
  int64_t rank;
  int64_t shape[MOST_AXES], stride[MOST_AXES];
} view;

/* Once. exchange: the capsule with the C functions, or None; strided: the layout that tensors must have; dtypes: those of
   float32, float16 and bfloat16. The last two are used without a capsule. False with an error. */
bool view_set_up(PyObject *exchange, PyObject *strided, PyObject *dtypes);

/* False, without an error, for what is not dense and strided, has other types or more axes, or has no memory, as
   tensors without elements and those that stand for others have none. */
bool view_of(PyObject *tensor, view *v);

/* The address of a tensor's first element; false with an error. */
bool address_of(PyObject *tensor, void **address);

#endif
