/* SPDX-License-Identifier: Apache-2.0 */
/* A prepared call: C structures in which nothing but addresses is open. */
#include <string.h>

#include "short.h"
#include "view.h"

typedef upconv_status (*execute_function)(const upconv_plan *, const upconv_arguments *);
typedef upconv_status (*pack_function)(const upconv_plan *, const upconv_parameters *, void *,
                                       void *);

/* When what is packed may serve. */
typedef enum mode {
  COMPARED = 0, /* while the parameters' bytes are those of copies; on the CPU */
  PACKED_ANEW,  /* never: each call packs */
  COUNTED /* while address and version of each parameter are what they were: under a promise */
} mode;

/* What a parameter was when the weights were packed. */
typedef struct origin {
  const void *bytes;    /* COMPARED: a copy; COUNTED: the parameter itself */
  unsigned long long n; /* COMPARED: how many; COUNTED: the version */
} origin;

typedef struct prepared {
  PyObject_HEAD execute_function execute;
  pack_function pack;
  mode mode;
  const upconv_plan *plan;
  upconv_arguments arguments;
  upconv_parameters parameters;
  upconv_tensor params[MOST_OPERANDS], tensors[MOST_OPERANDS];
  int param_count, tensor_count;
  origin origins[MOST_COMPARED];
  int origin_count;
  const void *packed;
  size_t packed_size; /* of a buffer for each call, rounded up, with the workspace behind it */
  PyObject *objects;  /* the tuple that holds those below */
  PyObject *empty_like, *like; /* a function, and a tensor without memory that is as y shall be */
  PyObject *buffer_like, *buffer_shape, *buffer_strides; /* how to allocate on the device */
  PyObject *stream; /* a function that names the current stream of a device, or None */
  PyObject *device_index;
  PyObject *capturing;     /* a function that says whether a graph is being captured, or None */
  PyObject *packed_stream; /* COUNTED: the stream on which the buffer may be used without more */
  PyObject *otherwise;     /* what runs a call that does not fit */
  PyObject *settings;
} prepared;

static long long calls;

long long prepared_calls(void) { return calls; }

PyObject *prepared_settings(PyObject *object) { return ((prepared *)object)->settings; }

int prepared_param_count(PyObject *object) { return ((prepared *)object)->param_count; }

/* ---- running ---- */

static PyObject *name_new_empty_strided, *name_version;

static bool addresses_of(PyObject *sequence, upconv_tensor *to, int count) {
  for (int i = 0; i < count; i++)
    if (!address_of(sequence_item(sequence, i), &to[i].data)) return false;
  return true;
}

/* Whether the parameters, in the order of origins, satisfy same. */
static bool unchanged(const prepared *self, const call_tensors *t,
                      const upconv_parameters *parameters, const upconv_tensor *params,
                      bool (*same)(PyObject *, const void *, const origin *)) {
  const origin *was = self->origins;
  if (!same(t->weight, parameters->weight.data, was++)) return false;
  if (t->bias != Py_None && !same(t->bias, parameters->bias.data, was++)) return false;
  for (int i = 0; i < self->param_count; i++)
    if (!same(sequence_item(t->params, i), params[i].data, was++)) return false;
  return true;
}

static bool same_bytes(PyObject *tensor, const void *bytes, const origin *was) {
  (void)tensor;
  return memcmp(bytes, was->bytes, (size_t)was->n) == 0;
}

static bool same_version(PyObject *tensor, const void *bytes, const origin *was) {
  if (bytes != was->bytes) return false;
  PyObject *version = PyObject_GetAttr(tensor, name_version);
  if (!version) return PyErr_Clear(), false; /* an inference tensor has none */
  unsigned long long number = PyLong_AsUnsignedLongLong(version);
  Py_DECREF(version);
  if (PyErr_Occurred()) return PyErr_Clear(), false;
  return number == was->n;
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

static bool execute(const prepared *self, frame *f) {
  upconv_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = self->execute(self->plan, &f->arguments);
  Py_END_ALLOW_THREADS;
  return status == UPCONV_OK;
}

/* On the CPU, with a small workspace. */
static bool run_on_stack(const prepared *self, frame *f) {
  _Alignas(64) unsigned char workspace[WORKSPACE_ON_STACK];
  f->arguments.packed = self->packed;
  f->arguments.workspace = workspace;
  return execute(self, f);
}

static bool run_compared(const prepared *self, frame *f, const call_tensors *t) {
  return f->arguments.workspace_size <= WORKSPACE_ON_STACK &&
         unchanged(self, t, &f->parameters, f->params, same_bytes) && run_on_stack(self, f);
}

/* The stream that work is to be queued on; a new reference, None on the CPU. */
static PyObject *current_stream(const prepared *self) {
  if (self->stream == Py_None) return Py_NewRef(Py_None);
  return PyObject_CallFunctionObjArgs(self->stream, self->device_index, NULL);
}

static void *stream_address(PyObject *stream) {
  return stream == Py_None ? NULL : PyLong_AsVoidPtr(stream);
}

/* Memory of this call: PyTorch's allocator gives it to none but later work of the same stream. */
static PyObject *allocate(const prepared *self, unsigned char **address) {
  void *bytes;
  PyObject *buffer = PyObject_CallMethodObjArgs(self->buffer_like, name_new_empty_strided,
                                                self->buffer_shape, self->buffer_strides, NULL);
  if (!buffer) return NULL;
  if (!address_of(buffer, &bytes)) return Py_DECREF(buffer), NULL;
  *address = bytes;
  return buffer;
}

static bool run_packing(const prepared *self, frame *f) {
  PyObject *stream = current_stream(self);
  if (!stream) return false;
  f->arguments.stream = stream_address(stream);
  Py_DECREF(stream);
  unsigned char *address;
  PyObject *buffer = PyErr_Occurred() ? NULL : allocate(self, &address);
  if (!buffer) return false;
  f->arguments.packed = address;
  f->arguments.workspace = address + self->packed_size;
  upconv_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = self->pack(self->plan, &f->parameters, address, f->arguments.stream);
  if (!status) status = self->execute(self->plan, &f->arguments);
  Py_END_ALLOW_THREADS;
  Py_DECREF(buffer);
  return status == UPCONV_OK;
}

/* On the stream of the packing, and outside of captures: other cases need more, which Python does. */
static bool may_use_packed(const prepared *self, frame *f) {
  if (self->capturing != Py_None) {
    PyObject *capturing = PyObject_CallNoArgs(self->capturing);
    if (!capturing) return false;
    Py_DECREF(capturing);
    if (capturing != Py_False) return false; /* True and False are never freed */
  }
  PyObject *stream = current_stream(self);
  if (!stream) return false;
  bool same = PyObject_RichCompareBool(stream, self->packed_stream, Py_EQ) == 1;
  f->arguments.stream = stream_address(stream);
  Py_DECREF(stream);
  return same && !PyErr_Occurred();
}

static bool run_counted(const prepared *self, frame *f, const call_tensors *t) {
  if (!unchanged(self, t, &f->parameters, f->params, same_version) || !may_use_packed(self, f))
    return false;
  if (self->stream == Py_None && f->arguments.workspace_size <= WORKSPACE_ON_STACK)
    return run_on_stack(self, f);
  unsigned char *address = NULL;
  PyObject *buffer = NULL;
  if (f->arguments.workspace_size && !(buffer = allocate(self, &address))) return false;
  f->arguments.packed = self->packed;
  f->arguments.workspace = buffer ? address + self->packed_size : NULL;
  bool done = execute(self, f);
  Py_XDECREF(buffer);
  return done;
}

static bool run_in_mode(const prepared *self, frame *f, const call_tensors *t) {
  if (self->mode == COMPARED) return run_compared(self, f, t);
  return self->mode == COUNTED ? run_counted(self, f, t) : run_packing(self, f);
}

PyObject *run_prepared(PyObject *object, const call_tensors *tensors) {
  const prepared *self = (const prepared *)object;
  PyObject *y = PyObject_CallFunctionObjArgs(self->empty_like, self->like, NULL);
  if (!y) return NULL;
  frame f;
  bool done = fill(self, &f, tensors, y) && run_in_mode(self, &f, tensors);
  if (!done) return Py_DECREF(y), NULL;
  calls++;
  return y;
}

/* otherwise(x, weight, bias, sizes, text, params, tensors) */
PyObject *run_otherwise(PyObject *object, const call_tensors *t) {
  const prepared *self = (const prepared *)object;
  PyObject *sizes = PyObject_GetAttrString(self->settings, "sizes");
  PyObject *text = sizes ? PyObject_GetAttrString(self->settings, "text") : NULL;
  PyObject *y = NULL;
  if (text)
    y = PyObject_CallFunctionObjArgs(self->otherwise, t->x, t->weight, t->bias, sizes, text,
                                     t->params, t->tensors, NULL);
  Py_XDECREF(sizes);
  Py_XDECREF(text);
  return y;
}

/* ---- the type ---- */

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

static bool take_origins(prepared *self, PyObject *sequence) {
  Py_ssize_t count = PyTuple_Size(sequence);
  if (count < 0 || count > MOST_COMPARED)
    return PyErr_SetString(PyExc_ValueError, "origins: a tuple that is not too long"), false;
  for (Py_ssize_t i = 0; i < count; i++) {
    unsigned long long address, n;
    if (!PyArg_ParseTuple(PyTuple_GetItem(sequence, i), "KK", &address, &n)) return false;
    self->origins[i] = (origin){(const void *)(uintptr_t)address, n};
  }
  self->origin_count = (int)count;
  return true;
}

static bool take_objects(prepared *self, PyObject *tuple) {
  PyObject **to[] = {&self->empty_like,   &self->like,           &self->buffer_like,
                     &self->buffer_shape, &self->buffer_strides, &self->stream,
                     &self->device_index, &self->capturing,      &self->packed_stream,
                     &self->otherwise,    &self->settings};
  Py_ssize_t count = (Py_ssize_t)(sizeof to / sizeof *to);
  if (PyTuple_Size(tuple) < count)
    return PyErr_SetString(PyExc_ValueError, "objects: a longer tuple"), false;
  for (Py_ssize_t i = 0; i < count; i++) *to[i] = PyTuple_GetItem(tuple, i);
  Py_INCREF(tuple);
  self->objects = tuple;
  return true;
}

/* Prepared(mode, execute, pack, plan, arguments, parameters, params, tensors, origins, packed, packed_size, objects):
   addresses, bytes of C structures, ((address, size), ...), and what take_objects reads */
static int prepared_init(PyObject *object, PyObject *args, PyObject *kwargs) {
  prepared *self = (prepared *)object;
  int which;
  unsigned long long run, pack, plan, packed, packed_size;
  PyObject *arguments, *parameters, *params, *tensors, *origins, *objects;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "iKKKOOOOOKKO", &which, &run, &pack, &plan, &arguments, &parameters,
                        &params, &tensors, &origins, &packed, &packed_size, &objects))
    return -1;
  if (which < COMPARED || which > COUNTED)
    return PyErr_SetString(PyExc_ValueError, "mode: no such"), -1;
  self->mode = (enum mode)which;
  self->execute = (execute_function)(uintptr_t)run;
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
      take_origins(self, origins) && take_objects(self, objects);
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
    {Py_tp_dealloc, (void *)(uintptr_t)prepared_dealloc},
    {0, NULL},
};

static PyType_Spec spec = {"upconv_short.Prepared", (int)sizeof(prepared), 0, Py_TPFLAGS_DEFAULT,
                           slots};

bool add_prepared_type(PyObject *module, PyObject **type) {
  name_new_empty_strided = PyUnicode_InternFromString("new_empty_strided");
  name_version = PyUnicode_InternFromString("_version");
  *type = PyType_FromSpec(&spec);
  if (!name_new_empty_strided || !name_version || !*type) return false;
  return PyModule_AddObjectRef(module, "Prepared", *type) == 0;
}
