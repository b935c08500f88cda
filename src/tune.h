/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing by measurement: upconv_tune, and what plans ask when they are created. */
#ifndef UPCONV_TUNE_H
#define UPCONV_TUNE_H

#include "meter.h"
#include "plan.h"

/* What a context decided, also where no file can be written. */
typedef struct uc_tuner uc_tuner;
upconv_status uc_tuner_create(uc_tuner **tuner);
void uc_tuner_destroy(uc_tuner *tuner); /* NULL is fine */

/* Replaces the plan's candidate, which the model chose, by that of a decision, if there is one that applies; measures if the
   options want that. */
void uc_tune_choose(upconv_plan *plan, const upconv_plan_options *options);

/* upconv_tune for a problem that is lowered already; constants and no_rewrite of the options have had their effect. */
upconv_status uc_tune_plan(const upconv_plan *plan, const upconv_tune_options *options,
                           upconv_tune_result *result);

/* ---- parts ---- */

/* What a decision is filed under: the device, the program as written with names that say nothing, the rules that fired.
   free() releases it. NULL: no memory. */
char *uc_tune_key(const upconv_plan *plan);

/* Made-up inputs of a program in a meter's memory. */
typedef struct uc_tune_data {
  uc_meter *meter;
  upconv_parameters parameters;
  upconv_arguments arguments; /* x, y, tensors */
  void **memory;
  int memory_count, memory_capacity;
} uc_tune_data;

/* plan: lowered. To be freed whatever this returns. UPCONV_INVALID_ARGUMENT: the output is empty. */
upconv_status uc_tune_data_make(const upconv_plan *plan, uc_meter *meter, uc_tune_data *data);
void uc_tune_data_free(uc_tune_data *data);

#endif
