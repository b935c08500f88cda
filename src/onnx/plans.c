/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include <stdlib.h>
#include <string.h>

#include "../status.h"

/* What a plan was made for. Two segments share it when all of this is equal. */
typedef struct plan_key {
  upconv_problem_desc desc; /* with batch and sizes 0 */
  char *epilogue;           /* its text */
  int count;                /* weight, bias, parameters */
  int *value;
  uint64_t *identity; /* of a constant's data; 0: not constant */
} plan_key;

struct uc_plan_entry {
  plan_key key;
  bool constant; /* all parameters are */
  upconv_plan *plan;
  void *packed; /* NULL until the first run */
  void *weight; /* a Conv's, in the transposed form, where they change */
  bool ready;
  uc_plan_entry *next;
};

upconv_math uc_plans_math(const uc_plans *plans) { return plans->options.math; }

const upconv_plan *uc_plan_of(const uc_segment *segment) { return segment->entry->plan; }

/* ---- keys ---- */

/* Data of the model stay where they are; data that planning computed are the same when their
   bits are. */
static uint64_t identity_of(const uc_onnx_program *p, int number) {
  const uc_value *v = &p->value[number];
  if (!v->data) return 0;
  if (v->data == p->model->value[number].initial.data) return (uint64_t)(uintptr_t)v->data;
  const unsigned char *data = v->data;
  size_t size = (size_t)uc_shape_count(v->rank, v->shape) * uc_onnx_dtype_size(v->dtype);
  uint64_t hash = 0xcbf29ce484222325u ^ size;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ data[i]) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash | 1;
}

static void key_free(plan_key *key) {
  free(key->epilogue);
  free(key->value);
  free(key->identity);
}

static upconv_status print_epilogue(const upconv_epilogue *epilogue, char **text) {
  size_t length;
  upconv_status status = upconv_epilogue_print(epilogue, NULL, 0, &length);
  if (status) return status;
  *text = uc_onnx_new((int64_t)length + 1, 1);
  if (!*text) return UPCONV_OUT_OF_MEMORY;
  return upconv_epilogue_print(epilogue, *text, length + 1, NULL);
}

static upconv_status key_make(const uc_onnx_program *p, const uc_segment *s, plan_key *key) {
  *key = (plan_key){.desc = s->desc, .count = 2 + s->param_count};
  key->desc.batch = 0;
  for (int i = 0; i < UPCONV_MAX_SPATIAL; i++) key->desc.in_size[i] = 0;
  key->value = uc_onnx_new(key->count, sizeof *key->value);
  key->identity = uc_onnx_new(key->count, sizeof *key->identity);
  if (!key->value || !key->identity) return UPCONV_OUT_OF_MEMORY;
  for (int i = 0; i < key->count; i++) {
    int value = i == 0 ? s->weight : i == 1 ? s->bias : s->param[i - 2].value;
    key->value[i] = value;
    key->identity[i] = value < 0 ? 1 : identity_of(p, value);
  }
  return print_epilogue(s->epilogue, &key->epilogue);
}

static bool same_sizes(const int64_t *a, const int64_t *b) {
  return memcmp(a, b, UPCONV_MAX_SPATIAL * sizeof *a) == 0;
}

static bool same_desc(const upconv_problem_desc *a, const upconv_problem_desc *b) {
  return a->spatial_dims == b->spatial_dims && a->in_channels == b->in_channels &&
         a->out_channels == b->out_channels && a->groups == b->groups &&
         same_sizes(a->kernel, b->kernel) && same_sizes(a->stride, b->stride) &&
         same_sizes(a->dilation, b->dilation) && same_sizes(a->pad_begin, b->pad_begin) &&
         same_sizes(a->pad_end, b->pad_end) && same_sizes(a->output_padding, b->output_padding) &&
         a->bias == b->bias && a->x_dtype == b->x_dtype && a->w_dtype == b->w_dtype &&
         a->y_dtype == b->y_dtype && a->x_layout == b->x_layout && a->y_layout == b->y_layout &&
         a->math == b->math;
}

static bool same_key(const plan_key *a, const plan_key *b) {
  return a->count == b->count && same_desc(&a->desc, &b->desc) &&
         strcmp(a->epilogue, b->epilogue) == 0 &&
         memcmp(a->value, b->value, (size_t)a->count * sizeof *a->value) == 0 &&
         memcmp(a->identity, b->identity, (size_t)a->count * sizeof *a->identity) == 0;
}

/* ---- plans ---- */

/* Whether rules may look at the parameters, and packing once is enough. */
static bool is_constant(const uc_onnx_program *p, const uc_segment *s) {
  bool constant = p->value[s->weight].data && (s->bias < 0 || p->value[s->bias].data);
  for (int i = 0; i < s->param_count; i++) constant = constant && p->value[s->param[i].value].data;
  return constant;
}

static void entry_free(const uc_plans *plans, uc_plan_entry *entry) {
  key_free(&entry->key);
  upconv_plan_destroy(entry->plan);
  plans->device->kind->release(plans->device, entry->packed);
  plans->device->kind->release(plans->device, entry->weight);
  free(entry);
}

upconv_status uc_plans_fresh(const uc_plans *plans, const uc_onnx_program *p, const uc_segment *s,
                             upconv_plan **plan) {
  uc_parameters parameters = {.params = NULL};
  upconv_plan_options options = {
      .candidate = plans->options.candidate,
      .no_rewrite = plans->options.no_rewrite,
      .no_fuse = plans->options.no_fuse,
  };
  if (is_constant(p, s)) {
    upconv_status status =
        uc_parameters_make(s, uc_device_host(), uc_constant_of_program, p, NULL, &parameters);
    if (status) return status;
    options.constants = &parameters.given;
  }
  upconv_status status =
      upconv_plan_create(plans->context, s->problem, s->epilogue, &options, plan);
  uc_parameters_free(&parameters);
  return status;
}

upconv_status uc_plans_get(uc_plans *plans, const uc_onnx_program *p, uc_segment *s) {
  plan_key key;
  upconv_status status = key_make(p, s, &key);
  for (uc_plan_entry *e = plans->first; e && !status; e = e->next)
    if (same_key(&e->key, &key)) {
      s->entry = e;
      key_free(&key);
      return UPCONV_OK;
    }
  uc_plan_entry *entry = status ? NULL : uc_onnx_new(1, sizeof *entry);
  if (!entry) {
    key_free(&key);
    return status ? status : UPCONV_OUT_OF_MEMORY;
  }
  entry->key = key;
  entry->constant = is_constant(p, s);
  status = uc_plans_fresh(plans, p, s, &entry->plan);
  if (status) {
    entry_free(plans, entry);
    return status;
  }
  entry->next = plans->first;
  plans->first = entry;
  s->entry = entry;
  return UPCONV_OK;
}

void uc_plans_free(uc_plans *plans) {
  while (plans->first) {
    uc_plan_entry *entry = plans->first;
    plans->first = entry->next;
    entry_free(plans, entry);
  }
}

/* ---- packing ---- */

bool uc_plan_is_constant(const uc_segment *s) { return s->entry->constant; }

/* Bytes from the first to the last element; strides of constants are not negative. */
static size_t span(const upconv_tensor *t) {
  int64_t last = 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->shape[i] == 0) return 0;
    last += (t->shape[i] - 1) * t->stride[i];
  }
  return t->data ? (size_t)(last + 1) * upconv_dtype_size(t->dtype) : 0;
}

enum { ALIGNMENT = 256 };

static size_t padded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static upconv_status upload_tensor(const uc_device *device, upconv_tensor *t, char **at) {
  size_t bytes = span(t);
  if (!t->data) return UPCONV_OK;
  upconv_status status = device->kind->upload(device, t->data, bytes, *at);
  t->data = *at;
  *at += padded(bytes);
  return status;
}

/* Moves the parameters to new memory of the device. */
static upconv_status upload(const uc_device *device, uc_parameters *p, void **memory) {
  size_t bytes = padded(span(&p->given.weight)) + padded(span(&p->given.bias));
  for (int i = 0; i < p->given.param_count; i++) bytes += padded(span(&p->params[i]));
  upconv_status status = device->kind->allocate(device, bytes, memory);
  char *at = *memory;
  if (!status) status = upload_tensor(device, &p->given.weight, &at);
  if (!status) status = upload_tensor(device, &p->given.bias, &at);
  for (int i = 0; i < p->given.param_count && !status; i++)
    status = upload_tensor(device, &p->params[i], &at);
  return status;
}

/* Once for a plan, so that nothing of it stays on the device but the packed buffer. */
static upconv_status pack_constants(const uc_device *device, const uc_segment *s,
                                    const uc_onnx_program *p) {
  const uc_plan_entry *entry = s->entry;
  uc_parameters parameters;
  void *memory = NULL;
  upconv_status status =
      uc_parameters_make(s, uc_device_host(), uc_constant_of_program, p, NULL, &parameters);
  if (status) return status;
  if (device->kind->separate) status = upload(device, &parameters, &memory);
  if (!status)
    status = upconv_plan_pack(entry->plan, &parameters.given, entry->packed, device->stream);
  upconv_status finished = device->kind->finish(device);
  device->kind->release(device, memory);
  uc_parameters_free(&parameters);
  return status ? status : finished;
}

static upconv_status pack_values(const uc_device *device, const uc_segment *s,
                                 uc_view_function view, const void *context) {
  uc_plan_entry *entry = s->entry;
  uc_parameters parameters;
  upconv_status status = UPCONV_OK;
  if (s->conv && !entry->weight) {
    size_t bytes = uc_parameters_room(s, view(context, s->weight).dtype);
    status = device->kind->allocate(device, bytes, &entry->weight);
  }
  if (!status) status = uc_parameters_make(s, device, view, context, entry->weight, &parameters);
  if (status) return status;
  status = upconv_plan_pack(entry->plan, &parameters.given, entry->packed, device->stream);
  uc_parameters_free(&parameters);
  return status;
}

upconv_status uc_plans_pack(const uc_plans *plans, const uc_segment *s, const uc_onnx_program *p,
                            uc_view_function view, const void *context, const void **packed) {
  const uc_device *device = plans->device;
  uc_plan_entry *entry = s->entry;
  upconv_status status = UPCONV_OK;
  if (!entry->packed)
    status = device->kind->allocate(device, upconv_plan_packed_size(entry->plan), &entry->packed);
  if (!status && entry->constant && !entry->ready) status = pack_constants(device, s, p);
  if (!status && !entry->constant) status = pack_values(device, s, view, context);
  entry->ready = !status;
  *packed = entry->packed;
  return status;
}
