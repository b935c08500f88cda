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
  void *packed; /* aligned; NULL until the first run */
  bool ready;
  uc_plan_entry *next;
};

upconv_math uc_plans_math(const uc_plans *plans) { return plans->options.math; }

const upconv_plan *uc_plan_of(const uc_segment *segment) { return segment->entry->plan; }

/* ---- keys ---- */

/* Data of the model stay where they are; data that planning computed are the same when their
   bits are. */
static uint64_t identity_of(const uc_value *v) {
  if (!v->data) return 0;
  if (!v->owned) return (uint64_t)(uintptr_t)v->data;
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
    key->identity[i] = value < 0 ? 1 : identity_of(&p->value[value]);
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

static void entry_free(uc_plan_entry *entry) {
  key_free(&entry->key);
  upconv_plan_destroy(entry->plan);
  free(entry->packed);
  free(entry);
}

upconv_status uc_plans_fresh(const uc_plans *plans, const uc_onnx_program *p, const uc_segment *s,
                             upconv_plan **plan) {
  uc_parameters parameters = {.weight = NULL};
  upconv_plan_options options = {
      .candidate = plans->options.candidate,
      .no_rewrite = plans->options.no_rewrite,
      .no_fuse = plans->options.no_fuse,
  };
  if (is_constant(p, s)) {
    upconv_status status = uc_parameters_make(s, uc_constant_of_program, p, &parameters);
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
    entry_free(entry);
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
    entry_free(entry);
  }
}

/* ---- packing ---- */

static void *aligned(size_t bytes) {
  enum { ALIGNMENT = 64 };
  void *memory = NULL;
  if (bytes > uc_onnx_machine_memory() || posix_memalign(&memory, ALIGNMENT, bytes ? bytes : 1)) {
    uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    return NULL;
  }
  return memory;
}

upconv_status uc_plans_pack(const uc_segment *s, uc_view_function view, const void *context,
                            const void **packed) {
  uc_plan_entry *entry = s->entry;
  uc_parameters parameters;
  if (entry->ready && entry->constant) {
    *packed = entry->packed;
    return UPCONV_OK;
  }
  if (!entry->packed) entry->packed = aligned(upconv_plan_packed_size(entry->plan));
  if (!entry->packed) return UPCONV_OUT_OF_MEMORY;
  upconv_status status = uc_parameters_make(s, view, context, &parameters);
  if (status) return status;
  status = upconv_plan_pack(entry->plan, &parameters.given, entry->packed, NULL);
  uc_parameters_free(&parameters);
  entry->ready = !status;
  *packed = entry->packed;
  return status;
}
