# SPDX-License-Identifier: Apache-2.0
#
# The program upconv. Everything but cli/main.c goes into a small library, so that the tests can link it too; benchmarks and
# examples are one program a file.

file(GLOB UPCONV_CLI_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.c")
set(UPCONV_CLI_MAIN "${PROJECT_SOURCE_DIR}/cli/main.c")
list(REMOVE_ITEM UPCONV_CLI_SOURCES "${UPCONV_CLI_MAIN}")

# What a test links, from the top down.
set(UPCONV_LINK upconv_static)
if(TARGET upconv_onnx)
  list(PREPEND UPCONV_LINK upconv_onnx)
endif()

if(UPCONV_CLI_SOURCES)
  add_library(upconv_cli STATIC ${UPCONV_CLI_SOURCES})
  upconv_flags(upconv_cli)
  target_include_directories(upconv_cli PUBLIC "${PROJECT_SOURCE_DIR}/cli")
  target_link_libraries(upconv_cli PUBLIC ${UPCONV_LINK} PRIVATE Threads::Threads m)
  if(TARGET upconv_onnx)
    target_compile_definitions(upconv_cli PUBLIC UPCONV_WITH_ONNX=1)
  endif()
  list(PREPEND UPCONV_LINK upconv_cli)
endif()

if(EXISTS "${UPCONV_CLI_MAIN}")
  add_executable(upconv_program "${UPCONV_CLI_MAIN}")
  upconv_flags(upconv_program)
  target_link_libraries(upconv_program PRIVATE ${UPCONV_LINK} Threads::Threads m)
  set_target_properties(upconv_program PROPERTIES OUTPUT_NAME upconv
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endif()

if(UPCONV_BENCH)
  foreach(folder bench examples)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.c")
    foreach(source IN LISTS sources)
      get_filename_component(name "${source}" NAME_WE)
      add_executable(${folder}_${name} "${source}")
      upconv_flags(${folder}_${name})
      target_link_libraries(${folder}_${name} PRIVATE ${UPCONV_LINK} Threads::Threads m)
      set_target_properties(${folder}_${name} PROPERTIES OUTPUT_NAME ${name}
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
    endforeach()
  endforeach()
endif()
