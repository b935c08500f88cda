/* SPDX-License-Identifier: Apache-2.0 */
/* A prepared call: C structures in which nothing but addresses is open. */
#include <string.h>

#include "short.h"

typedef upconv_status (*execute_function)(const upconv_plan *, const upconv_arguments *);
typedef upconv_status (*pack_function)(const upconv_plan *, const upconv_parameters *, void *,
                                       void *);

/* A copy of a parameter's bytes as they were when the weights were packed. */
typedef struct copy {
  const void *bytes;
  size_t size;
} copy;

typedef struct prepared {
  PyObject_HEAD execute_function execute;
  pack_function pack; /* NULL: packed as it is, while the parameters equal the copies */
  const upconv_plan *plan;
  upconv_arguments arguments;
  upconv_parameters parameters;
  upconv_tensor params[MOST_OPERANDS], tensors[MOST_OPERANDS];
  int param_count, tensor_count;
  copy copies[MOST_COMPARED];
  int copy_count;
  const void *packed;
  size_t
      packed_size; /* with pack: of a buffer for each call, rounded up, with the workspace behind it */
  PyObject *objects; /* the tuple that holds those below */
  PyObject *shape, *strides;
  PyObject *buffer_like, *buffer_shape, *buffer_strides; /* with pack: how to allocate */
  PyObject *stream; /* with pack: a function that names the current stream, or None */
  PyObject *device_index;
  PyObject *otherwise; /* what runs a call that does not fit */
  PyObject *settings;
} prepared;

static long long calls;

long long prepared_calls(void) { return calls; }

PyObject *prepared_settings(PyObject *object) { return ((prepared *)object)->settings; }

/* ---- running ---- */

static PyObject *name_data_ptr, *name_new_empty_strided;

/* The address of a tensor's first element; false with an error. */
static bool address_of(PyObject *tensor, void **address) {
  PyObject *number = PyObject_CallMethodObjArgs(tensor, name_data_ptr, NULL);
  if (!number) return false;
  *address = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

static bool addresses_of(PyObject *sequence, upconv_tensor *to, int count) {
  for (int i = 0; i < count; i++)
    if (!address_of(sequence_item(sequence, i), &to[i].data)) return false;
  return true;
}

/* Whether the parameters have the bytes that were packed. */
static bool unchanged(const prepared *self, const void *weight, const void *bias,
                      const upconv_tensor *params) {
  int at = 0;
  if (memcmp(weight, self->copies[at].bytes, self->copies[at].size) != 0) return false;
  at++;
  if (bias) {
    if (memcmp(bias, self->copies[at].bytes, self->copies[at].size) != 0) return false;
    at++;
  }
  for (int i = 0; i < self->param_count; i++, at++)
    if (memcmp(params[i].data, self->copies[at].bytes, self->copies[at].size) != 0) return false;
  return true;
}

/* What a call fills in, on its own stack, so that threads share a prepared call. */
typedef struct frame {
  upconv_arguments arguments;
  upconv_parameters parameters;
  upconv_tensor params[MOST_OPERANDS], tensors[MOST_OPERANDS];
} frame;

static bool fill(const prepared *self, frame *f, const call_tensors *t, PyObject *y) {
  f->arguments = self->arguments;
  f->parameters = self->parameters;
  memcpy(f->params, self->params, sizeof(upconv_tensor) * (size_t)self->param_count);
  memcpy(f->tensors, self->tensors, sizeof(upconv_tensor) * (size_t)self->tensor_count);
  f->arguments.tensors = f->tensors;
  f->parameters.params = f->params;
  if (!address_of(t->x, &f->arguments.x.data) || !address_of(y, &f->arguments.y.data) ||
      !address_of(t->weight, &f->parameters.weight.data) ||
      (t->bias != Py_None && !address_of(t->bias, &f->parameters.bias.data)))
    return false;
  return addresses_of(t->params, f->params, self->param_count) &&
         addresses_of(t->tensors, f->tensors, self->tensor_count);
}

static bool run_kept(const prepared *self, frame *f) {
  _Alignas(64) unsigned char workspace[WORKSPACE_ON_STACK];
  if (!unchanged(self, f->parameters.weight.data, f->parameters.bias.data, f->params)) return false;
  f->arguments.packed = self->packed;
  f->arguments.workspace = workspace;
  upconv_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = self->execute(self->plan, &f->arguments);
  Py_END_ALLOW_THREADS;
  return status == UPCONV_OK;
}

/* Packs into a buffer of this call. PyTorch's allocator gives it to none but later work of the same stream. */
static bool run_packing(const prepared *self, frame *f) {
  void *stream = NULL;
  if (self->stream != Py_None) {
    PyObject *number = PyObject_CallFunctionObjArgs(self->stream, self->device_index, NULL);
    if (!number) return false;
    stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    if (PyErr_Occurred()) return false;
  }
  PyObject *buffer = PyObject_CallMethodObjArgs(self->buffer_like, name_new_empty_strided,
                                                self->buffer_shape, self->buffer_strides, NULL);
  void *address;
  if (!buffer) return false;
  if (!address_of(buffer, &address)) return Py_DECREF(buffer), false;
  f->arguments.packed = address;
  f->arguments.workspace = (unsigned char *)address + self->packed_size;
  f->arguments.stream = stream;
  upconv_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = self->pack(self->plan, &f->parameters, address, stream);
  if (!status) status = self->execute(self->plan, &f->arguments);
  Py_END_ALLOW_THREADS;
  Py_DECREF(buffer);
  return status == UPCONV_OK;
}

PyObject *run_prepared(PyObject *object, const call_tensors *tensors) {
  const prepared *self = (const prepared *)object;
  PyObject *y = PyObject_CallMethodObjArgs(tensors->x, name_new_empty_strided, self->shape,
                                           self->strides, NULL);
  if (!y) return NULL;
  frame f;
  bool done =
      fill(self, &f, tensors, y) && (self->pack ? run_packing(self, &f) : run_kept(self, &f));
  if (!done) return Py_DECREF(y), NULL;
  calls++;
  return y;
}

/* ---- the type ---- */

/* prepared(x, weight, bias, sizes, text, params, tensors): as execute.run */
static PyObject *prepared_call(PyObject *object, PyObject *args, PyObject *kwargs) {
  call_tensors t;
  PyObject *sizes, *text;
  if (kwargs && PyDict_Size(kwargs)) return PyErr_SetString(PyExc_TypeError, "no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "OOOOOOO", &t.x, &t.weight, &t.bias, &sizes, &text, &t.params,
                        &t.tensors))
    return NULL;
  PyObject *y = run_prepared(object, &t);
  if (y || PyErr_Occurred()) return y;
  return PyObject_Call(((prepared *)object)->otherwise, args, NULL);
}

/* Copies bytes that describe count C structures of a size. */
static bool take_bytes(PyObject *bytes, void *to, size_t size, int most, int *count) {
  char *from;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(bytes, &from, &length)) return false;
  size_t found = (size_t)length / size;
  if (found * size != (size_t)length || found > (size_t)most)
    return PyErr_SetString(PyExc_ValueError, "bytes of another structure"), false;
  memcpy(to, from, (size_t)length);
  if (count) *count = (int)found;
  return true;
}

static bool take_copies(prepared *self, PyObject *sequence) {
  Py_ssize_t count = PyTuple_Size(sequence);
  if (count < 0 || count > MOST_COMPARED)
    return PyErr_SetString(PyExc_ValueError, "copies: a tuple that is not too long"), false;
  for (Py_ssize_t i = 0; i < count; i++) {
    unsigned long long address, size;
    if (!PyArg_ParseTuple(PyTuple_GetItem(sequence, i), "KK", &address, &size)) return false;
    self->copies[i] = (copy){(const void *)(uintptr_t)address, (size_t)size};
  }
  self->copy_count = (int)count;
  return true;
}

static bool take_objects(prepared *self, PyObject *tuple) {
  PyObject **to[] = {&self->shape,        &self->strides,        &self->buffer_like,
                     &self->buffer_shape, &self->buffer_strides, &self->stream,
                     &self->device_index, &self->otherwise,      &self->settings};
  Py_ssize_t count = (Py_ssize_t)(sizeof to / sizeof *to);
  if (PyTuple_Size(tuple) < count)
    return PyErr_SetString(PyExc_ValueError, "objects: a longer tuple"), false;
  for (Py_ssize_t i = 0; i < count; i++) *to[i] = PyTuple_GetItem(tuple, i);
  Py_INCREF(tuple);
  self->objects = tuple;
  return true;
}

/* Prepared(execute, pack or 0, plan, arguments, parameters, params, tensors, copies, packed, packed_size, objects):
   addresses, bytes of C structures, ((address, size), ...), and what take_objects reads */
static int prepared_init(PyObject *object, PyObject *args, PyObject *kwargs) {
  prepared *self = (prepared *)object;
  unsigned long long execute, pack, plan, packed, packed_size;
  PyObject *arguments, *parameters, *params, *tensors, *copies, *objects;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "KKKOOOOOKKO", &execute, &pack, &plan, &arguments, &parameters,
                        &params, &tensors, &copies, &packed, &packed_size, &objects))
    return -1;
  self->execute = (execute_function)(uintptr_t)execute;
  self->pack = (pack_function)(uintptr_t)pack;
  self->plan = (const upconv_plan *)(uintptr_t)plan;
  self->packed = (const void *)(uintptr_t)packed;
  self->packed_size = (size_t)packed_size;
  bool taken =
      take_bytes(arguments, &self->arguments, sizeof self->arguments, 1, NULL) &&
      take_bytes(parameters, &self->parameters, sizeof self->parameters, 1, NULL) &&
      take_bytes(params, self->params, sizeof *self->params, MOST_OPERANDS, &self->param_count) &&
      take_bytes(tensors, self->tensors, sizeof *self->tensors, MOST_OPERANDS,
                 &self->tensor_count) &&
      take_copies(self, copies) && take_objects(self, objects);
  return taken ? 0 : -1;
}

static void prepared_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Py_XDECREF(((prepared *)object)->objects);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_init, (void *)(uintptr_t)prepared_init},
    {Py_tp_call, (void *)(uintptr_t)prepared_call},
    {Py_tp_dealloc, (void *)(uintptr_t)prepared_dealloc},
    {0, NULL},
};

static PyType_Spec spec = {"upconv_short.Prepared", (int)sizeof(prepared), 0, Py_TPFLAGS_DEFAULT,
                           slots};

bool add_prepared_type(PyObject *module, PyObject **type) {
  name_data_ptr = PyUnicode_InternFromString("data_ptr");
  name_new_empty_strided = PyUnicode_InternFromString("new_empty_strided");
  *type = PyType_FromSpec(&spec);
  if (!name_data_ptr || !name_new_empty_strided || !*type) return false;
  return PyModule_AddObjectRef(module, "Prepared", *type) == 0;
}
