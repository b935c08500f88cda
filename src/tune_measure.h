/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of one problem, side by side. */
#ifndef UPCONV_TUNE_MEASURE_H
#define UPCONV_TUNE_MEASURE_H

#include "tune.h"

/* Measures; nothing is kept but the result. Of options it reads seconds and progress. */
upconv_status uc_tune_measure(const upconv_plan *plan, const upconv_tune_options *options,
                              upconv_tune_result *result);

#endif
