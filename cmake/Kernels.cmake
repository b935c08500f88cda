# SPDX-License-Identifier: Apache-2.0
#
# CPU kernels: every file of src/cpu/kernels is compiled once for each instruction set. UPCONV_ISA is pasted into its
# function names and UPCONV_ISA_<NAME>=1 selects its dialect; which copy runs is decided at run time.
# UPCONV_KERNEL_OBJECTS collects the objects, UPCONV_ISA_DEFINITIONS tells the rest of the library what there is.

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

file(GLOB UPCONV_KERNEL_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cpu/kernels/*.c")

# -mtune: addresses for which there is no register gcc keeps in vector registers where it is not told better. To fetch one from
# there takes as long as all multiply-adds that wait, after each tap.
set(UPCONV_ISAS base)
set(UPCONV_FLAGS_base)
set(UPCONV_FLAGS_avx2 -mavx2 -mfma -mf16c -mtune=skylake)
set(UPCONV_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${UPCONV_FLAGS_avx2} -mprefer-vector-width=512
  -mtune=skylake-avx512)

check_c_source_compiles("
#if !defined(__x86_64__) || defined(__ILP32__)
#error not x86-64
#endif
int main(void) { return 0; }" UPCONV_IS_X86_64)
check_c_compiler_flag("-mavx512f -mavx512bw -mprefer-vector-width=512 -mf16c -mtune=skylake-avx512" UPCONV_HAS_X86_FLAGS)

set(UPCONV_ISA_DEFINITIONS)
if(UPCONV_IS_X86_64 AND UPCONV_HAS_X86_FLAGS)
  list(APPEND UPCONV_ISAS avx2 avx512)
  set(UPCONV_ISA_DEFINITIONS UPCONV_HAVE_X86_ISA=1)
endif()

# Not -O0 even when debugging: there, gcc's intrinsics are macros that do not pass our warnings. Sanitized kernels take
# minutes to compile with -O3; with clang's undefined-behaviour checks at any level, so the fuzz build goes without these.
set(optimize -O3)
if(UPCONV_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(optimize -O1)
endif()
if(UPCONV_FUZZ)
  list(APPEND optimize -fno-sanitize=undefined)
endif()

set(UPCONV_KERNEL_OBJECTS)
if(UPCONV_KERNEL_SOURCES)
  foreach(isa IN LISTS UPCONV_ISAS)
    string(TOUPPER ${isa} ISA)
    add_library(upconv_kernels_${isa} OBJECT ${UPCONV_KERNEL_SOURCES})
    upconv_flags(upconv_kernels_${isa})
    target_compile_options(upconv_kernels_${isa} PRIVATE
      ${optimize} -ffp-contract=fast -fno-math-errno -fno-trapping-math ${UPCONV_FLAGS_${isa}})
    target_compile_definitions(upconv_kernels_${isa} PRIVATE
      UPCONV_BUILD UPCONV_ISA=${isa} UPCONV_ISA_${ISA}=1 ${UPCONV_ISA_DEFINITIONS})
    list(APPEND UPCONV_KERNEL_OBJECTS $<TARGET_OBJECTS:upconv_kernels_${isa}>)
  endforeach()
endif()
