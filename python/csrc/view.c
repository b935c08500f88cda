/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

/* ---- by DLPack: the structures as its specification (version 1.3) lays them out ---- */

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_index;
  int32_t rank;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t *shape, *stride;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange *older;
  void *allocate, *to_managed, *from_managed; /* not used here */
  int (*describe)(void *object, dl_tensor *to);
  void *current_stream;
} dl_exchange;

enum { KNOWN_MAJOR = 1 };

static int (*describe)(void *object, dl_tensor *to); /* NULL: by attributes */

static int64_t type_number(int code, int bits, int lanes) {
  return (int64_t)code << 32 | (int64_t)bits << 16 | (int64_t)lanes;
}

static bool view_by_exchange(PyObject *tensor, view *v) {
  dl_tensor found;
  if (describe(tensor, &found)) return PyErr_Clear(), false;
  if (!found.data || found.rank > MOST_AXES) return false;
  v->data = (char *)found.data + found.byte_offset;
  v->device_type = found.device_type;
  v->device_index = found.device_index;
  v->dtype = type_number(found.type_code, found.type_bits, found.type_lanes);
  v->rank = found.rank;
  for (int i = 0; i < found.rank; i++) {
    v->shape[i] = found.shape[i];
    v->stride[i] = found.stride[i];
  }
  return true;
}

/* ---- by attributes ---- */

enum { TYPES = 3 };

static PyObject *strided, *types[TYPES];
static const struct { int code, bits; } type_codes[TYPES] = {{2, 32}, {2, 16}, {4, 16}};

static PyObject *name_layout, *name_is_cpu, *name_is_cuda, *name_get_device, *name_dtype,
    *name_shape, *name_stride, *name_data_ptr;

/* What an attribute is, borrowed: for objects that live as long as PyTorch. NULL without an error. */
static PyObject *lasting(PyObject *tensor, PyObject *name) {
  PyObject *found = PyObject_GetAttr(tensor, name);
  if (!found) return PyErr_Clear(), NULL;
  Py_DECREF(found);
  return found;
}

static PyObject *call_method(PyObject *tensor, PyObject *name) {
  return PyObject_CallMethodObjArgs(tensor, name, NULL);
}

/* Takes the reference. */
static bool number_of(PyObject *number, int64_t *to) {
  if (!number) return PyErr_Clear(), false;
  *to = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (*to == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
  return true;
}

/* Takes the reference to a tuple of numbers. */
static bool numbers_of(PyObject *tuple, int64_t *to, int64_t *count) {
  if (!tuple) return PyErr_Clear(), false;
  Py_ssize_t size = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : MOST_AXES + 1;
  bool taken = size <= MOST_AXES;
  for (Py_ssize_t i = 0; taken && i < size; i++)
    taken = number_of(Py_NewRef(PyTuple_GetItem(tuple, i)), &to[i]);
  Py_DECREF(tuple);
  *count = size;
  return taken;
}

static bool device_of(PyObject *tensor, view *v) {
  v->device_index = 0;
  v->device_type = ON_CPU;
  if (lasting(tensor, name_is_cpu) == Py_True) return true;
  v->device_type = ON_CUDA;
  return lasting(tensor, name_is_cuda) == Py_True &&
         number_of(call_method(tensor, name_get_device), &v->device_index);
}

static bool type_of(PyObject *tensor, view *v) {
  PyObject *type = lasting(tensor, name_dtype);
  for (int i = 0; i < TYPES; i++)
    if (type == types[i]) {
      v->dtype = type_number(type_codes[i].code, type_codes[i].bits, 1);
      return true;
    }
  return false;
}

static bool view_by_attributes(PyObject *tensor, view *v) {
  int64_t strides;
  if (lasting(tensor, name_layout) != strided || !device_of(tensor, v) || !type_of(tensor, v) ||
      !numbers_of(PyObject_GetAttr(tensor, name_shape), v->shape, &v->rank) ||
      !numbers_of(call_method(tensor, name_stride), v->stride, &strides) || strides != v->rank)
    return false;
  if (!address_of(tensor, &v->data)) return PyErr_Clear(), false;
  return v->data != NULL;
}

static bool make_names(void) {
  static const struct {
    PyObject **to;
    const char *text;
  } names[] = {
      {&name_layout, "layout"},         {&name_is_cpu, "is_cpu"},     {&name_is_cuda, "is_cuda"},
      {&name_get_device, "get_device"}, {&name_dtype, "dtype"},       {&name_shape, "shape"},
      {&name_stride, "stride"},         {&name_data_ptr, "data_ptr"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(*names[i].to = PyUnicode_InternFromString(names[i].text))) return false;
  return true;
}

/* ---- either ---- */

bool view_of(PyObject *tensor, view *v) {
  return describe ? view_by_exchange(tensor, v) : view_by_attributes(tensor, v);
}

bool address_of(PyObject *tensor, void **address) {
  if (describe) {
    dl_tensor found;
    if (describe(tensor, &found)) return false;
    *address = (char *)found.data + found.byte_offset;
    return true;
  }
  PyObject *number = call_method(tensor, name_data_ptr);
  if (!number) return false;
  *address = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

bool view_set_up(PyObject *exchange, PyObject *layout, PyObject *dtypes) {
  if (!PyTuple_Check(dtypes) || PyTuple_Size(dtypes) != TYPES)
    return PyErr_SetString(PyExc_TypeError, "upconv_short: dtypes must be a tuple of three"), false;
  for (int i = 0; i < TYPES; i++) types[i] = Py_NewRef(PyTuple_GetItem(dtypes, i));
  strided = Py_NewRef(layout);
  if (!make_names()) return false;
  if (exchange == Py_None) return true;
  const dl_exchange *found = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
  if (!found) return false;
  for (; found; found = found->older)
    if (found->major == KNOWN_MAJOR) {
      describe = found->describe;
      break;
    }
  return true;
}
