/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of a small call from Python: what _torch/fast.py does, in C. It knows tensors only as Python objects, so
 * one build serves every PyTorch and, by the limited API, every Python from 3.10.
 *
 *   short.c       the module: from a call to what is prepared for it
 *   prepared.c    one prepared call: runs it
 *   view.c        what a tensor is: address, type, shape, strides
 */
#ifndef UPCONV_SHORT_H
#define UPCONV_SHORT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdbool.h>
#include <upconv/upconv.h>

enum { MOST_OPERANDS = 16, MOST_COMPARED = MOST_OPERANDS + 2, WORKSPACE_ON_STACK = 32768 };

/* The tensors of a call. params and tensors are lists or tuples. */
typedef struct call_tensors {
  PyObject *x, *weight, *bias; /* bias: None if there is none */
  PyObject *params, *tensors;
} call_tensors;

/* Items of a list or a tuple; borrowed. */
Py_ssize_t sequence_size(PyObject *sequence);
PyObject *sequence_item(PyObject *sequence, Py_ssize_t index);

/* Adds the type Prepared to the module; keeps the type in *type. */
bool add_prepared_type(PyObject *module, PyObject **type);
/* A new reference to the result; NULL without an error if what is prepared does not fit (any more), with one otherwise. */
PyObject *run_prepared(PyObject *prepared, const call_tensors *tensors);
/* The same by Python, for what does not fit. */
PyObject *run_otherwise(PyObject *prepared, const call_tensors *tensors);
/* The settings that the autograd function wants; borrowed. */
PyObject *prepared_settings(PyObject *prepared);
int prepared_param_count(PyObject *prepared);
long long prepared_calls(void);

#endif
