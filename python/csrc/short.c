/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call(...) finds out whether a call is plain (nothing active that PyTorch's dispatcher sees to, plain tensors on one
 * device), builds the key of what distinguishes calls, and runs what store(...) has put there. None: take the long way.
 */
#include "short.h"
#include "view.h"

enum { MOST_CHECKS = 16 };

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
static PyObject *tensor_type, *parameter_type;
static PyObject *checks[MOST_CHECKS]; /* functions whose result must be false */
static Py_ssize_t check_count;
static PyObject *levels; /* module with _current_level, which must be negative */
static PyObject *grad_enabled, *num_threads, *environment, *apply;

static PyObject *name_is_cpu, *name_is_cuda, *name_is_neg, *name_requires_grad, *name_level,
    *name_to_save, *name_settings;

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

enum {
  MOST_SIZES = 3, /* of one argument: one for each axis */
  VIEW_WORDS = 4 + 2 * MOST_AXES,
  MOST_WORDS = 6 * (1 + MOST_SIZES) + (3 + 2 * MOST_OPERANDS) * (1 + VIEW_WORDS) + 4
};

/* What distinguishes calls, but for text. */
typedef struct words {
  int64_t word[MOST_WORDS];
  int count;
} words;

static void put(words *to, int64_t word) { to->word[to->count++] = word; }

static void put_view(words *to, const view *v) {
  put(to, v->device_type), put(to, v->device_index);
  put(to, v->dtype), put(to, v->rank);
  for (int64_t i = 0; i < v->rank; i++) put(to, v->shape[i]), put(to, v->stride[i]);
}

static bool put_number(words *to, PyObject *number) {
  if (!PyLong_Check(number)) return false;
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
  put(to, value);
  return true;
}

/* A number, or one for each axis. */
static bool put_sizes(words *to, PyObject *sizes) {
  if (PyLong_Check(sizes)) return put(to, 0), put_number(to, sizes);
  Py_ssize_t count = sequence_size(sizes);
  if (count < 1 || count > MOST_SIZES) return false;
  put(to, count);
  for (Py_ssize_t i = 0; i < count; i++)
    if (!put_number(to, sequence_item(sizes, i))) return false;
  return true;
}

/* A tensor whose elements lie at its address, as shape and strides say. */
static bool put_plain(words *to, PyObject *tensor, view *v) {
  if (!is_tensor(tensor) || !view_of(tensor, v) || method(tensor, name_is_neg, true)) return false;
  put_view(to, v);
  return true;
}

/* Weight or bias, of x's device and type. The key holds its identity, and what is prepared goes when it does, so that
   what cannot change has been looked at before. */
static bool put_parameter(words *to, PyObject *tensor, const view *x) {
  view v;
  if (!is_tensor(tensor) || !view_of(tensor, &v) || v.device_type != x->device_type ||
      v.device_index != x->device_index || v.dtype != x->dtype)
    return false;
  put(to, (int64_t)(intptr_t)tensor);
  put_view(to, &v);
  return true;
}

static bool put_operands(words *to, PyObject *operands, const view *x) {
  Py_ssize_t count = sequence_size(operands);
  if (count < 0 || count > MOST_OPERANDS) return false;
  put(to, count);
  for (Py_ssize_t i = 0; i < count; i++) {
    view v;
    if (!put_plain(to, sequence_item(operands, i), &v) || v.device_type != x->device_type ||
        v.device_index != x->device_index)
      return false;
  }
  return true;
}

/* Threads count on the CPU alone; what else counts on CUDA is in the environment. */
static bool put_threads(words *to) {
  PyObject *number = PyObject_CallNoArgs(num_threads);
  if (!number) return PyErr_Clear(), false;
  bool done = put_number(to, number);
  Py_DECREF(number);
  return done;
}

/* False if the call is not plain. */
static bool describe_call(PyObject *const *a, words *to, view *x) {
  to->count = 0;
  /* first by an attribute: elsewhere the view would be an exception, and slow */
  if (!is_tensor(a[X]) || !(flag(a[X], name_is_cpu, false) || flag(a[X], name_is_cuda, false)) ||
      !put_plain(to, a[X], x) || !(x->device_type == ON_CPU || x->device_type == ON_CUDA) ||
      !put_parameter(to, a[WEIGHT], x))
    return false;
  if (a[BIAS] == Py_None)
    put(to, 0);
  else if (!put_parameter(to, a[BIAS], x))
    return false;
  for (int i = STRIDE; i <= DILATION; i++)
    if (!put_sizes(to, a[i])) return false;
  return put_number(to, a[DIMS]) && put_operands(to, a[PARAMS], x) &&
         put_operands(to, a[TENSORS], x) && (x->device_type != ON_CPU || put_threads(to));
}

/* (words, text), on CUDA (words, text, environment); NULL with an error */
static PyObject *make_key(PyObject *const *a, const words *from, const view *x) {
  PyObject *bytes = PyBytes_FromStringAndSize((const char *)from->word,
                                              (Py_ssize_t)sizeof *from->word * from->count);
  if (!bytes) return NULL;
  PyObject *key = NULL;
  if (x->device_type == ON_CPU) {
    key = PyTuple_Pack(2, bytes, a[TEXT]);
  } else {
    PyObject *found = PyObject_CallFunctionObjArgs(environment, a[X], NULL);
    if (found) key = PyTuple_Pack(3, bytes, a[TEXT], found);
    Py_XDECREF(found);
  }
  Py_DECREF(bytes);
  return key;
}

/* ---- calls ---- */

/* Whether autograd is to record the call. */
static bool records(PyObject *const *a) {
  if (!decide(PyObject_CallNoArgs(grad_enabled), true)) return false;
  if (flag(a[X], name_requires_grad, true) || flag(a[WEIGHT], name_requires_grad, true) ||
      (a[BIAS] != Py_None && flag(a[BIAS], name_requires_grad, true)))
    return true;
  for (int group = PARAMS; group <= TENSORS; group++)
    for (Py_ssize_t i = 0; i < sequence_size(a[group]); i++)
      if (flag(sequence_item(a[group], i), name_requires_grad, true)) return true;
  return false;
}

static PyObject *same(PyObject *object) { return Py_NewRef(object); }

/* Puts a new reference into the tuple; NULL makes it fail. */
static bool add(PyObject *tuple, Py_ssize_t *at, PyObject *item) {
  return item && PyTuple_SetItem(tuple, (*at)++, item) == 0;
}

/* apply(prepared, x, weight, bias, *params, *tensors), which comes to forward() below */
static PyObject *call_with_gradient(PyObject *found, const call_tensors *t) {
  Py_ssize_t params = sequence_size(t->params), tensors = sequence_size(t->tensors), at = 0;
  PyObject *args = PyTuple_New(4 + params + tensors);
  if (!args) return NULL;
  PyObject *head[] = {found, t->x, t->weight, t->bias};
  bool made = true;
  for (int i = 0; i < 4; i++) made = made && add(args, &at, same(head[i]));
  for (Py_ssize_t i = 0; i < params; i++)
    made = made && add(args, &at, same(sequence_item(t->params, i)));
  for (Py_ssize_t i = 0; i < tensors; i++)
    made = made && add(args, &at, same(sequence_item(t->tensors, i)));
  PyObject *y = made ? PyObject_Call(apply, args, NULL) : NULL;
  Py_DECREF(args);
  return y;
}

static PyObject *tuple_of(PyObject *const *items, Py_ssize_t count) {
  Py_ssize_t at = 0;
  PyObject *tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; i++)
    if (!add(tuple, &at, same(items[i]))) return Py_DECREF(tuple), NULL;
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
  words described;
  view x;
  if (!has_arguments(count, ARGUMENTS)) return NULL;
  if (!apply || !nothing_active() || !describe_call(a, &described, &x)) Py_RETURN_NONE;
  PyObject *key = make_key(a, &described, &x);
  if (!key) return PyErr_Clear(), Py_NewRef(Py_None);
  PyObject *found = PyDict_GetItemWithError(known, key);
  Py_DECREF(key);
  if (!found)
    return PyErr_Clear(), Py_NewRef(Py_None); /* an error: something that cannot be hashed */
  Py_INCREF(found);                           /* another thread may take it out */
  call_tensors t = {a[X], a[WEIGHT], a[BIAS], a[PARAMS], a[TENSORS]};
  PyObject *y = records(a) ? call_with_gradient(found, &t) : run_prepared(found, &t);
  Py_DECREF(found);
  if (y || PyErr_Occurred()) return y;
  Py_RETURN_NONE;
}

/* store(arguments of call..., prepared): remembers it for such calls; returns the key, None if there is none */
static PyObject *store(PyObject *module, PyObject *const *a, Py_ssize_t count) {
  (void)module;
  words described;
  view x;
  if (!has_arguments(count, ARGUMENTS + 1)) return NULL;
  if ((PyObject *)Py_TYPE(a[ARGUMENTS]) != prepared_type)
    return PyErr_SetString(PyExc_TypeError, "the last argument must be a Prepared"), NULL;
  if (!describe_call(a, &described, &x)) Py_RETURN_NONE;
  PyObject *key = make_key(a, &described, &x);
  if (!key) return NULL;
  if (!PyDict_SetItem(known, key, a[ARGUMENTS])) return key;
  Py_DECREF(key);
  return NULL;
}

static PyObject *count_calls(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyLong_FromLongLong(prepared_calls());
}

/* setup(exchange, strided, dtypes, Tensor, Parameter, levels, grad_enabled, num_threads, environment, apply, *checks) */
static PyObject *setup(PyObject *module, PyObject *args) {
  (void)module;
  enum { EXCHANGE, STRIDED, DTYPES, REST };
  PyObject **to[] = {&tensor_type, &parameter_type, &levels, &grad_enabled,
                     &num_threads, &environment,    &apply};
  Py_ssize_t fixed = REST + (Py_ssize_t)(sizeof to / sizeof *to), count = PyTuple_Size(args);
  if (count < fixed || count > fixed + MOST_CHECKS || apply)
    return PyErr_SetString(PyExc_TypeError, "upconv_short: setup takes its arguments once"), NULL;
  if (!view_set_up(PyTuple_GetItem(args, EXCHANGE), PyTuple_GetItem(args, STRIDED),
                   PyTuple_GetItem(args, DTYPES)))
    return NULL;
  for (Py_ssize_t i = fixed; i < count; i++)
    checks[check_count++] = Py_NewRef(PyTuple_GetItem(args, i));
  for (Py_ssize_t i = REST; i < fixed; i++) *to[i - REST] = Py_NewRef(PyTuple_GetItem(args, i));
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
      {&name_is_cpu, "is_cpu"},     {&name_is_cuda, "is_cuda"},
      {&name_is_neg, "is_neg"},     {&name_requires_grad, "requires_grad"},
      {&name_to_save, "to_save"},   {&name_level, "_current_level"},
      {&name_settings, "settings"},
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
