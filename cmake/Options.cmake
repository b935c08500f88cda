# SPDX-License-Identifier: Apache-2.0
#
# What a user may choose, and the flags that every target shares.

option(UPCONV_TESTS "Build the tests" ${UPCONV_TOP_LEVEL})
option(UPCONV_BENCH "Build the benchmarks and examples" ${UPCONV_TOP_LEVEL})
option(UPCONV_WERROR "Treat warnings as errors" OFF)
option(UPCONV_FUZZ "Build tests/fuzz_*.c with clang's libFuzzer" OFF)
set(UPCONV_ONNX AUTO CACHE STRING "Read ONNX models: AUTO (if the tools are there), ON or OFF")
set(UPCONV_PYTEST AUTO CACHE STRING "Run tests/py through CTest: AUTO (if pytest is there), ON or OFF")
set(UPCONV_SANITIZE "" CACHE STRING "Sanitizers: 'address,undefined' or 'thread'")
set(UPCONV_TEST_LAUNCHER "" CACHE STRING "Command put in front of every C test, such as valgrind;-q")
set_property(CACHE UPCONV_ONNX PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE UPCONV_PYTEST PROPERTY STRINGS AUTO ON OFF)

if(UPCONV_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo, Debug" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(UPCONV_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(UPCONV_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "UPCONV_FUZZ needs clang, not ${CMAKE_C_COMPILER_ID}: configure with -DCMAKE_C_COMPILER=clang")
endif()
if(UPCONV_FUZZ AND NOT UPCONV_SANITIZE)
  set(UPCONV_SANITIZE "address,undefined")
endif()
if(UPCONV_SANITIZE)
  add_compile_options(-fsanitize=${UPCONV_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${UPCONV_SANITIZE})
endif()
if(UPCONV_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# The flags of our own C: upconv_flags(target ...). Generated code (protobuf) goes without.
set(UPCONV_WARNINGS -Wall -Wextra -Wconversion -Wshadow)
if(UPCONV_WERROR)
  list(APPEND UPCONV_WARNINGS -Werror)
endif()
function(upconv_flags)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE ${UPCONV_WARNINGS} -fvisibility=hidden -ffp-contract=off)
    # Empty, so that a file may also say `#define _GNU_SOURCE` itself.
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE= UPCONV_VERSION="${PROJECT_VERSION}")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  endforeach()
endfunction()
