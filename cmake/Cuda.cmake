# SPDX-License-Identifier: Apache-2.0
#
# The CUDA backend needs no CUDA at build time: its kernels travel as text and are compiled where they run.

file(GLOB UPCONV_CUDA_TEXTS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu")
set(UPCONV_CUDA_EMBEDDED "${PROJECT_BINARY_DIR}/cuda/embedded.c")
add_custom_command(
  OUTPUT "${UPCONV_CUDA_EMBEDDED}"
  COMMAND ${CMAKE_COMMAND} "-DOUT=${UPCONV_CUDA_EMBEDDED}" "-DFILES=${UPCONV_CUDA_TEXTS}" -P
          "${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake"
  DEPENDS ${UPCONV_CUDA_TEXTS} "${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake"
  VERBATIM)
