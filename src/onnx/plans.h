/* SPDX-License-Identifier: Apache-2.0 */
/* The session's plans and packed weights: one for each segment and whatever of it is compiled
   in, reused when only batch and sizes change. */
#ifndef UPCONV_ONNX_PLANS_H
#define UPCONV_ONNX_PLANS_H

#include "device.h"
#include "segment.h"

typedef struct uc_plan_entry uc_plan_entry;

typedef struct uc_plans {
  upconv_context *context;
  uc_device *device; /* where packed weights lie */
  uc_onnx_options options;
  uc_plan_entry *first;
} uc_plans;

upconv_math uc_plans_math(const uc_plans *plans);
/* Finds or makes the plan of a segment; segment->entry is set. */
upconv_status uc_plans_get(uc_plans *plans, const uc_onnx_program *program, uc_segment *segment);
void uc_plans_free(uc_plans *plans);
/* A plan for this segment's own sizes, for explanations; the caller destroys it. */
upconv_status uc_plans_fresh(const uc_plans *plans, const uc_onnx_program *program,
                             const uc_segment *segment, upconv_plan **plan);

const upconv_plan *uc_plan_of(const uc_segment *segment);

/* How values are reached: constants while planning, everything while running. */
typedef uc_view (*uc_view_function)(const void *context, int value);
uc_view uc_constant_of_program(const void *program, int value);

/* The packed buffer for this run: packed again only when a parameter is not a constant. view gives
   what lies on the device; constants of the program are taken from the host. */
upconv_status uc_plans_pack(const uc_plans *plans, const uc_segment *segment,
                            const uc_onnx_program *program, uc_view_function view,
                            const void *context, const void **packed);
/* Whether all parameters of the segment are constants: then packing does not call view. */
bool uc_plan_is_constant(const uc_segment *segment);

/* A segment's weights, bias and parameters. A Conv's weights are copied into the transposed
   form. */
typedef struct uc_parameters {
  upconv_parameters given;
  upconv_tensor *params;
  const uc_device *device; /* of an owned copy of the weights; NULL: there is none */
  void *weight;
} uc_parameters;
/* room: uc_parameters_room bytes on the device for the copy; NULL: new memory. */
upconv_status uc_parameters_make(const uc_segment *segment, const uc_device *device,
                                 uc_view_function view, const void *context, void *room,
                                 uc_parameters *parameters);
size_t uc_parameters_room(const uc_segment *segment, uc_onnx_dtype weight);
void uc_parameters_free(uc_parameters *parameters);

/* A value as the library wants to see it: rank spatial_dims + 2 in the order of the axes. */
upconv_tensor uc_source_tensor(const uc_onnx_source *source, int nd, const uc_view *view);

#endif
