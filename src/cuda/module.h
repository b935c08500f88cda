/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UPCONV_CUDA_MODULE_H
#define UPCONV_CUDA_MODULE_H

#include "engine.h"

/* Compiles the generated sources, through the cache, and loads them where there is a device. */
upconv_status uc_cuda_load(uc_cuda_engine *engine);
/* Unloads what was loaded, also after a failure. */
void uc_cuda_unload(uc_cuda_engine *engine);

#endif
