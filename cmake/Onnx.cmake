# SPDX-License-Identifier: Apache-2.0
#
# The optional part that reads ONNX models (src/onnx). The C code for the format is made in the build tree, by protoc-c,
# from the onnx.proto that the system's ONNX package brings; where that has none (Debian 11), from the Python package that
# scripts/venv installs. Sets UPCONV_WITH_ONNX.

file(GLOB UPCONV_ONNX_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/onnx/*.c")

set(UPCONV_WITH_ONNX OFF)
if(NOT UPCONV_ONNX STREQUAL "OFF")
  find_program(UPCONV_PROTOC_C NAMES protoc-c DOC "protobuf-c's compiler")
  find_path(UPCONV_PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h DOC "Folder of protobuf-c/protobuf-c.h")
  find_library(UPCONV_PROTOBUF_C_LIBRARY protobuf-c DOC "libprotobuf-c")
  file(GLOB python_packages "${PROJECT_SOURCE_DIR}/build/venv-test/lib/python3*/site-packages")
  find_file(UPCONV_ONNX_PROTO NAMES onnx/onnx.proto onnx/onnx-ml.proto PATH_SUFFIXES include share
            PATHS ${python_packages} DOC "The file onnx.proto")
  set(missing)
  foreach(part UPCONV_PROTOC_C UPCONV_PROTOBUF_C_INCLUDE UPCONV_PROTOBUF_C_LIBRARY UPCONV_ONNX_PROTO)
    if(NOT ${part})
      list(APPEND missing ${part})
    endif()
  endforeach()
  if(missing)
    string(REPLACE ";" ", " missing "${missing}")
    set(hint "not found: ${missing}; Debian's packages: protobuf-c-compiler libprotobuf-c-dev libonnx-dev")
    if(UPCONV_ONNX STREQUAL "AUTO")
      message(STATUS "upconv: ONNX models are left out (${hint})")
    else()
      message(FATAL_ERROR "UPCONV_ONNX=${UPCONV_ONNX}, but ${hint}")
    endif()
  else()
    set(UPCONV_WITH_ONNX ON)
  endif()
endif()

if(UPCONV_WITH_ONNX)
  set(generated "${PROJECT_BINARY_DIR}/onnx")
  configure_file("${UPCONV_ONNX_PROTO}" "${generated}/onnx.proto" COPYONLY)
  add_custom_command(
    OUTPUT "${generated}/onnx.pb-c.c" "${generated}/onnx.pb-c.h"
    COMMAND "${UPCONV_PROTOC_C}" "--c_out=${generated}" "--proto_path=${generated}" "${generated}/onnx.proto"
    DEPENDS "${generated}/onnx.proto" VERBATIM
    COMMENT "Generating onnx.pb-c.c")
  add_library(upconv_onnx_proto STATIC "${generated}/onnx.pb-c.c" "${generated}/onnx.pb-c.h")
  target_compile_options(upconv_onnx_proto PRIVATE -w)
  target_include_directories(upconv_onnx_proto SYSTEM PUBLIC "${generated}" "${UPCONV_PROTOBUF_C_INCLUDE}")
  target_link_libraries(upconv_onnx_proto PUBLIC "${UPCONV_PROTOBUF_C_LIBRARY}")
endif()
if(UPCONV_WITH_ONNX AND UPCONV_ONNX_SOURCES)
  add_library(upconv_onnx STATIC ${UPCONV_ONNX_SOURCES})
  upconv_flags(upconv_onnx)
  target_link_libraries(upconv_onnx PUBLIC upconv_static upconv_onnx_proto PRIVATE Threads::Threads m)
endif()
