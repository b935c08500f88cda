/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans and candidates. A backend is a list of candidates; the planner asks each whether it applies and what it would
 * cost, and builds the cheapest. A new kernel is one more entry of the table in candidates.c.
 */
#ifndef UPCONV_PLAN_H
#define UPCONV_PLAN_H

#include "lowered.h"
#include "tune_store.h"
#include "upconv/upconv.h"

struct uc_threads;
struct uc_isa;
struct uc_cuda_device;
struct uc_cuda_target;
struct uc_meter_kind;
struct uc_tuner;

struct upconv_context {
  char describe[192];
  char identity[192]; /* what measured times hold for: the device's name and what of it is used */
  const struct uc_meter_kind *meter; /* NULL when only planning */
  struct uc_tuner *tuner;
  /* the CPU */
  struct uc_threads *threads;
  const struct uc_isa *isa;
  /* CUDA: what to generate code for, NULL on the CPU; and the device, NULL when only planning */
  struct uc_cuda_target *target;
  struct uc_cuda_device *device;
};

/* Arguments of an execution, checked: canonical rank 5 views. tensors: the caller's, checked, not canonical. */
typedef struct uc_call {
  upconv_tensor x, y;
  int64_t x_shape[UC_RANK]; /* of the whole x */
  int64_t y_shape[UC_RANK]; /* of the whole output */
  const upconv_tensor *tensors;
  const void *packed;
  void *workspace;
  size_t workspace_size;
  void *stream;
} uc_call;

typedef struct uc_candidate {
  const char *name;
  bool host_memory; /* packed buffer and workspace are the host's */
  bool tensor_core; /* float32 operands are rounded to TF32, sums are truncated */
  /* NULL when it applies, else the reason why not. */
  const char *(*refuses)(const upconv_context *context, const uc_lowered *lowered);
  double (*cost)(const upconv_context *context, const uc_lowered *lowered); /* estimated seconds */
  /* The state borrows lowered. no_fuse as in upconv_plan_options. */
  upconv_status (*create)(upconv_context *context, uc_lowered *lowered, bool no_fuse, void **state);
  void (*destroy)(void *state);
  size_t (*packed_size)(const void *state);
  upconv_status (*pack)(const void *state, const upconv_parameters *parameters, void *packed,
                        void *stream);
  upconv_status (*workspace)(const void *state, const int64_t x_shape[UC_RANK], size_t *bytes);
  upconv_status (*execute)(const void *state, const uc_call *call); /* y is not empty */
  void (*explain)(const void *state,
                  uc_text *text); /* lines of its own, each ending with a newline */
  void (*source)(const void *state, uc_text *text); /* generated code, NULL where there is none */
} uc_candidate;

/* NULL past the end. */
const uc_candidate *uc_candidate_at(int index);
/* NULL: there is none of that name. */
const uc_candidate *uc_candidate_named(const char *name);

/* Who chose the candidate. */
typedef enum uc_choice {
  UC_CHOICE_MODEL,    /* it has the lowest estimated cost */
  UC_CHOICE_NAMED,    /* the caller */
  UC_CHOICE_STORED,   /* a measurement made earlier */
  UC_CHOICE_MEASURED, /* one made when the plan was created */
} uc_choice;

struct upconv_plan {
  upconv_context *context;
  uc_lowered lowered;
  bool no_fuse;
  uc_choice choice;
  uc_decision decision; /* STORED, MEASURED */
  const uc_candidate *candidate;
  void *state;
};

/* A plan without a candidate: lowered. */
upconv_status uc_plan_lower(upconv_context *context, const upconv_problem *problem,
                            const upconv_epilogue *epilogue, const upconv_plan_options *options,
                            upconv_plan **plan);

/* The cheapest candidate that applies. */
upconv_status uc_plan_cheapest(const upconv_plan *plan, const uc_candidate **cheapest);

/* How the chosen candidate rounds, for upconv_reference. */
upconv_error_model uc_plan_error_model(const upconv_plan *plan);

#endif
