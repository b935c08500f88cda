/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_MONOTONIC_H
#define UPCONV_MONOTONIC_H

/* Seconds of a clock that only moves forwards. */
double uc_now(void);

#endif
