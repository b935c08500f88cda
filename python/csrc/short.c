/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call(...) finds out whether a call is plain (nothing active that PyTorch's dispatcher sees to, plain tensors on one
 * device), builds the key of what distinguishes calls, and runs what store(...) has put there. None: take the long way.
 */
#include "short.h"

enum { MOST_CHECKS = 16, KEY_HEAD = 18 };

/* Order of the arguments of call and store. */
enum {
  DIMS,
  X,
  WEIGHT,
  BIAS,
  STRIDE,
  PADDING,
  OUTPUT_PADDING,
  GROUPS,
  DILATION,
  TEXT,
  PARAMS,
  TENSORS,
  ARGUMENTS
};

static PyObject *prepared_type;
static PyObject *known; /* a dictionary: key -> Prepared */

/* What setup(...) was given. */
static PyObject *tensor_type, *parameter_type, *strided;
static PyObject *checks[MOST_CHECKS]; /* functions whose result must be false */
static Py_ssize_t check_count;
static PyObject *levels; /* module with _current_level, which must be negative */
static PyObject *grad_enabled, *num_threads, *environment, *apply;

static PyObject *name_layout, *name_is_cpu, *name_is_cuda, *name_is_neg, *name_is_nested,
    *name_is_zero, *name_dtype, *name_shape, *name_stride, *name_requires_grad, *name_level,
    *name_to_save, *name_settings, *name_get_device;

Py_ssize_t sequence_size(PyObject *sequence) {
  return PyList_Check(sequence)    ? PyList_Size(sequence)
         : PyTuple_Check(sequence) ? PyTuple_Size(sequence)
                                   : -1;
}

PyObject *sequence_item(PyObject *sequence, Py_ssize_t index) {
  return PyList_Check(sequence) ? PyList_GetItem(sequence, index)
                                : PyTuple_GetItem(sequence, index);
}

/* ---- questions to Python objects: 1 yes, 0 no; errors are cleared and count as the answer given ---- */

static bool decide(PyObject *answer, bool on_error) {
  if (!answer) return PyErr_Clear(), on_error;
  int truth = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  if (truth < 0) return PyErr_Clear(), on_error;
  return truth != 0;
}

static bool flag(PyObject *object, PyObject *name, bool on_error) {
  return decide(PyObject_GetAttr(object, name), on_error);
}

static bool method(PyObject *object, PyObject *name, bool on_error) {
  return decide(PyObject_CallMethodObjArgs(object, name, NULL), on_error);
}

static bool is_tensor(PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return type == tensor_type || type == parameter_type;
}

/* A tensor whose elements lie at data_ptr(), as shape and strides say. */
static bool is_plain(PyObject *tensor) {
  if (!is_tensor(tensor)) return false;
  PyObject *layout = PyObject_GetAttr(tensor, name_layout);
  if (!layout) return PyErr_Clear(), false;
  Py_DECREF(layout);
  return layout == strided && !method(tensor, name_is_neg, true) &&
         !flag(tensor, name_is_nested, true) && !method(tensor, name_is_zero, true);
}

/* Nothing is active that a call would have to go through the dispatcher for. */
static bool nothing_active(void) {
  for (Py_ssize_t i = 0; i < check_count; i++)
    if (decide(PyObject_CallNoArgs(checks[i]), true)) return false;
  PyObject *level = PyObject_GetAttr(levels, name_level);
  if (!level) return PyErr_Clear(), false;
  long number = PyLong_AsLong(level);
  Py_DECREF(level);
  if (PyErr_Occurred()) return PyErr_Clear(), false;
  return number < 0;
}

/* ---- keys ---- */

/* Puts a new reference into the tuple; NULL makes it fail. */
static bool put(PyObject *key, Py_ssize_t *at, PyObject *item) {
  return item && PyTuple_SetItem(key, (*at)++, item) == 0;
}

static PyObject *same(PyObject *object) { return Py_NewRef(object); }

static bool put_layout(PyObject *key, Py_ssize_t *at, PyObject *tensor) {
  return put(key, at, PyObject_GetAttr(tensor, name_shape)) &&
         put(key, at, PyObject_CallMethodObjArgs(tensor, name_stride, NULL));
}

static bool put_operands(PyObject *key, Py_ssize_t *at, PyObject *operands) {
  for (Py_ssize_t i = 0; i < sequence_size(operands); i++) {
    PyObject *tensor = sequence_item(operands, i);
    if (!put_layout(key, at, tensor) || !put(key, at, PyObject_GetAttr(tensor, name_dtype)))
      return false;
  }
  return true;
}

/* What distinguishes calls, or NULL with an error. */
static PyObject *make_key(PyObject *const *a) {
  PyObject *x = a[X], *bias = a[BIAS];
  bool on_cpu = flag(x, name_is_cpu, false);
  Py_ssize_t operands = sequence_size(a[PARAMS]) + sequence_size(a[TENSORS]), at = 0;
  PyObject *key = PyTuple_New(KEY_HEAD + 3 * operands);
  if (!key) return NULL;
  bool made = put(key, &at, same(a[DIMS])) && put_layout(key, &at, x) &&
              put(key, &at, PyObject_GetAttr(x, name_dtype)) &&
              put(key, &at, PyLong_FromVoidPtr(a[WEIGHT])) && put_layout(key, &at, a[WEIGHT]) &&
              put(key, &at, PyLong_FromVoidPtr(bias));
  if (made && bias == Py_None)
    made = put(key, &at, same(bias)) && put(key, &at, same(bias));
  else if (made)
    made = put_layout(key, &at, bias);
  for (int i = STRIDE; made && i <= TEXT; i++)
    made = put(key, &at, PyList_Check(a[i]) ? PyList_AsTuple(a[i]) : same(a[i]));
  made = made && put(key, &at,
                     on_cpu ? PyObject_CallNoArgs(num_threads)
                            : PyObject_CallFunctionObjArgs(environment, x, NULL));
  made = made && put(key, &at, same(on_cpu ? Py_True : Py_False)) &&
         put_operands(key, &at, a[PARAMS]) && put_operands(key, &at, a[TENSORS]);
  if (made) return key;
  Py_DECREF(key);
  return NULL;
}

/* ---- calls ---- */

/* The number of a tensor's device; negative on the CPU, and for what has none. */
static long device_index(PyObject *tensor) {
  PyObject *number = PyObject_CallMethodObjArgs(tensor, name_get_device, NULL);
  long index = number ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return PyErr_Clear(), -1;
  return index;
}

/* Where x is. */
typedef struct place {
  PyObject *flag; /* name_is_cpu or name_is_cuda */
  long index;
} place;

static bool is_at(PyObject *tensor, const place *where) {
  return flag(tensor, where->flag, false) &&
         (where->flag == name_is_cpu || device_index(tensor) == where->index);
}

static bool place_of(PyObject *x, place *where) {
  where->flag = flag(x, name_is_cpu, false) ? name_is_cpu : name_is_cuda;
  where->index = where->flag == name_is_cpu ? -1 : device_index(x);
  return is_at(x, where);
}

/* Whether a parameter is of x's device and type. The key holds its identity, and what is prepared goes when it does, so
   that what cannot change, such as its layout, has been looked at before. */
static bool goes_with(PyObject *tensor, const place *where, PyObject *dtype) {
  if (!is_tensor(tensor) || !is_at(tensor, where)) return false;
  PyObject *own = PyObject_GetAttr(tensor, name_dtype);
  if (!own) return PyErr_Clear(), false;
  Py_DECREF(own);
  return own == dtype;
}

/* Whether a call is plain; *gradient: whether an input wants one. */
static bool is_plain_call(PyObject *const *a, bool *gradient) {
  PyObject *operands[] = {a[PARAMS], a[TENSORS]};
  if (sequence_size(a[PARAMS]) < 0 || sequence_size(a[TENSORS]) < 0 || !is_plain(a[X]))
    return false;
  place where;
  PyObject *dtype = PyObject_GetAttr(a[X], name_dtype);
  if (!dtype) return PyErr_Clear(), false;
  Py_DECREF(dtype); /* types live as long as PyTorch */
  if (!place_of(a[X], &where) || !goes_with(a[WEIGHT], &where, dtype) ||
      (a[BIAS] != Py_None && !goes_with(a[BIAS], &where, dtype)))
    return false;
  *gradient = flag(a[X], name_requires_grad, true) || flag(a[WEIGHT], name_requires_grad, true) ||
              (a[BIAS] != Py_None && flag(a[BIAS], name_requires_grad, true));
  for (int group = 0; group < 2; group++)
    for (Py_ssize_t i = 0; i < sequence_size(operands[group]); i++) {
      PyObject *tensor = sequence_item(operands[group], i);
      if (!is_plain(tensor) || !is_at(tensor, &where)) return false;
      *gradient = *gradient || flag(tensor, name_requires_grad, true);
    }
  return true;
}

/* apply(prepared, x, weight, bias, *params, *tensors), which comes to forward() below */
static PyObject *call_with_gradient(PyObject *found, const call_tensors *t) {
  Py_ssize_t params = sequence_size(t->params), tensors = sequence_size(t->tensors), at = 0;
  PyObject *args = PyTuple_New(4 + params + tensors);
  if (!args) return NULL;
  PyObject *head[] = {found, t->x, t->weight, t->bias};
  bool made = true;
  for (int i = 0; i < 4; i++) made = made && put(args, &at, same(head[i]));
  for (Py_ssize_t i = 0; i < params; i++)
    made = made && put(args, &at, same(sequence_item(t->params, i)));
  for (Py_ssize_t i = 0; i < tensors; i++)
    made = made && put(args, &at, same(sequence_item(t->tensors, i)));
  PyObject *y = made ? PyObject_Call(apply, args, NULL) : NULL;
  Py_DECREF(args);
  return y;
}

static PyObject *tuple_of(PyObject *const *items, Py_ssize_t count) {
  Py_ssize_t at = 0;
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; i++)
    if (!put(tuple, &at, same(items[i]))) return Py_DECREF(tuple), NULL;
  return tuple;
}

static bool has_arguments(Py_ssize_t count, Py_ssize_t wanted) {
  if (count == wanted) return true;
  PyErr_SetString(PyExc_TypeError, "upconv_short: wrong number of arguments");
  return false;
}

/* forward(ctx, prepared, x, weight, bias, *params, *tensors): Fused.forward of autograd.py for a Prepared */
static PyObject *forward(PyObject *module, PyObject *const *a, Py_ssize_t count) {
  (void)module;
  enum { CONTEXT, PREPARED, SAVED, OPERANDS = SAVED + 3 };
  PyObject *found = count < OPERANDS ? NULL : a[PREPARED];
  if (!found || (PyObject *)Py_TYPE(found) != prepared_type)
    return PyErr_SetString(PyExc_TypeError, "upconv_short: forward takes a Prepared"), NULL;
  Py_ssize_t operands = count - OPERANDS, params = prepared_param_count(found);
  if (params > operands) params = operands;
  PyObject *saved = tuple_of(a + SAVED, count - SAVED);
  PyObject *first = tuple_of(a + OPERANDS, params);
  PyObject *second = tuple_of(a + OPERANDS + params, operands - params);
  PyObject *y = NULL;
  if (saved && first && second && !PyObject_SetAttr(a[CONTEXT], name_to_save, saved) &&
      !PyObject_SetAttr(a[CONTEXT], name_settings, prepared_settings(found))) {
    call_tensors t = {a[SAVED], a[SAVED + 1], a[SAVED + 2], first, second};
    y = run_prepared(found, &t);
    if (!y && !PyErr_Occurred()) y = run_otherwise(found, &t);
  }
  Py_XDECREF(saved);
  Py_XDECREF(first);
  Py_XDECREF(second);
  return y;
}

static PyObject *call(PyObject *module, PyObject *const *a, Py_ssize_t count) {
  (void)module;
  bool gradient = false;
  if (!has_arguments(count, ARGUMENTS)) return NULL;
  if (!apply || !nothing_active() || !is_plain_call(a, &gradient)) Py_RETURN_NONE;
  PyObject *key = make_key(a);
  if (!key) return PyErr_Clear(), Py_NewRef(Py_None);
  PyObject *found = PyDict_GetItemWithError(known, key);
  Py_DECREF(key);
  if (!found)
    return PyErr_Clear(), Py_NewRef(Py_None); /* an error: something that cannot be hashed */
  Py_INCREF(found);                           /* another thread may take it out */
  call_tensors t = {a[X], a[WEIGHT], a[BIAS], a[PARAMS], a[TENSORS]};
  bool records = gradient && decide(PyObject_CallNoArgs(grad_enabled), true);
  PyObject *y = records ? call_with_gradient(found, &t) : run_prepared(found, &t);
  Py_DECREF(found);
  if (y || PyErr_Occurred()) return y;
  Py_RETURN_NONE;
}

/* store(arguments of call..., prepared): remembers it for such calls; returns the key */
static PyObject *store(PyObject *module, PyObject *const *a, Py_ssize_t count) {
  (void)module;
  if (!has_arguments(count, ARGUMENTS + 1)) return NULL;
  if ((PyObject *)Py_TYPE(a[ARGUMENTS]) != prepared_type)
    return PyErr_SetString(PyExc_TypeError, "the last argument must be a Prepared"), NULL;
  PyObject *key = make_key(a);
  if (!key) return NULL;
  if (!PyDict_SetItem(known, key, a[ARGUMENTS])) return key;
  Py_DECREF(key);
  return NULL;
}

static PyObject *count_calls(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyLong_FromLongLong(prepared_calls());
}

/* setup(Tensor, Parameter, strided, levels, grad_enabled, num_threads, environment, apply, *checks) */
static PyObject *setup(PyObject *module, PyObject *args) {
  (void)module;
  PyObject **to[] = {&tensor_type,  &parameter_type, &strided,     &levels,
                     &grad_enabled, &num_threads,    &environment, &apply};
  Py_ssize_t fixed = (Py_ssize_t)(sizeof to / sizeof *to), count = PyTuple_Size(args);
  if (count < fixed || count > fixed + MOST_CHECKS || apply)
    return PyErr_SetString(PyExc_TypeError, "upconv_short: setup takes its arguments once"), NULL;
  for (Py_ssize_t i = fixed; i < count; i++)
    checks[check_count++] = Py_NewRef(PyTuple_GetItem(args, i));
  for (Py_ssize_t i = 0; i < fixed; i++) *to[i] = Py_NewRef(PyTuple_GetItem(args, i));
  Py_RETURN_NONE;
}

/* ---- the module ---- */

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
     "The result, or None: take the long way."},
    {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL,
     "The autograd function's forward pass for a Prepared."},
    {"store", (PyCFunction)(void (*)(void))store, METH_FASTCALL,
     "Remembers a Prepared for calls like this."},
    {"calls", count_calls, METH_NOARGS, "How many calls were run."},
    {"setup", setup, METH_VARARGS, "Once: PyTorch's types and functions."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "upconv_short", NULL, -1, methods, NULL, NULL, NULL, NULL};

static bool make_names(void) {
  static const struct {
    PyObject **to;
    const char *text;
  } names[] = {
      {&name_layout, "layout"},        {&name_is_cpu, "is_cpu"},
      {&name_is_cuda, "is_cuda"},      {&name_is_neg, "is_neg"},
      {&name_is_nested, "is_nested"},  {&name_is_zero, "_is_zerotensor"},
      {&name_dtype, "dtype"},          {&name_shape, "shape"},
      {&name_stride, "stride"},        {&name_requires_grad, "requires_grad"},
      {&name_level, "_current_level"}, {&name_to_save, "to_save"},
      {&name_settings, "settings"},    {&name_get_device, "get_device"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(*names[i].to = PyUnicode_InternFromString(names[i].text))) return false;
  return true;
}

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit_upconv_short(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  known = PyDict_New();
  if (known && make_names() && add_prepared_type(module, &prepared_type) &&
      PyModule_AddObjectRef(module, "known", known) == 0)
    return module;
  Py_DECREF(module);
  return NULL;
}
