/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's run-time compiler: CUDA C text to machine code. Needs no device. May be called from
   several threads. */
#ifndef UPCONV_CUDA_NVRTC_H
#define UPCONV_CUDA_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "upconv/upconv.h"

enum { UC_CUDA_ARCH_SIZE = 16 };

/* Of the library, which is loaded once per process. UPCONV_DEVICE_ERROR: there is none, or it is
   older than 12.0. */
upconv_status uc_nvrtc_version(int *major, int *minor);

/* The file that was loaded, or NULL. */
const char *uc_nvrtc_path(void);

/* Whether this compiler makes code for arch: "sm_90", "sm_90a", "compute_90". false also when there
   is no compiler. */
bool uc_nvrtc_supports(const char *arch);

/*
 * What to compile for on a device of this compute capability: its own machine code, "sm_90";
 * specific adds the features that no other device has, "sm_90a" (wgmma, say), and is for kernels
 * that use them. For a device that is newer than the compiler: PTX of the newest architecture that
 * the compiler knows, "compute_90", which the driver translates; UPCONV_UNSUPPORTED if specific.
 */
upconv_status uc_nvrtc_choose_arch(int major, int minor, bool specific,
                                   char arch[UC_CUDA_ARCH_SIZE]);

/*
 * Compiles one file of CUDA C. sm_* gives a cubin, compute_* gives PTX with its terminating 0
 * (counted in *size). Options are NVRTC's, without the architecture. *image is released by free().
 * log (may be NULL) receives the compiler's output, "" if there was none, or NULL if the compiler
 * did not get that far; it is released by free(), on failure too. UPCONV_DEVICE_ERROR with the
 * first error of the log.
 */
upconv_status uc_nvrtc_compile(const char *source, const char *arch, const char *const *options,
                               int option_count, void **image, size_t *size, char **log);

#endif
