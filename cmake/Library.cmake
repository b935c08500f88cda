# SPDX-License-Identifier: Apache-2.0
#
# The library: its objects are compiled once and go into libupconv.so and libupconv.a. The program and the tests link the
# static one: the tests reach inside, the program needs no library path.

file(GLOB UPCONV_LIBRARY_SOURCES CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/*.c" "${PROJECT_SOURCE_DIR}/src/cpu/*.c" "${PROJECT_SOURCE_DIR}/src/cuda/*.c")

if(NOT UPCONV_LIBRARY_SOURCES)
  file(WRITE "${PROJECT_BINARY_DIR}/empty.c" "typedef int upconv_empty;\n")
  set(UPCONV_LIBRARY_SOURCES "${PROJECT_BINARY_DIR}/empty.c")
endif()

add_library(upconv_objects OBJECT ${UPCONV_LIBRARY_SOURCES} "${UPCONV_CUDA_EMBEDDED}")
target_include_directories(upconv_objects PRIVATE "${PROJECT_SOURCE_DIR}/src/cuda")
upconv_flags(upconv_objects)
target_compile_definitions(upconv_objects PRIVATE UPCONV_BUILD ${UPCONV_ISA_DEFINITIONS})
target_link_libraries(upconv_objects PRIVATE Threads::Threads)

add_library(upconv SHARED $<TARGET_OBJECTS:upconv_objects> ${UPCONV_KERNEL_OBJECTS})
add_library(upconv_static STATIC $<TARGET_OBJECTS:upconv_objects> ${UPCONV_KERNEL_OBJECTS})
add_library(upconv::upconv ALIAS upconv)
add_library(upconv::upconv_static ALIAS upconv_static)

foreach(target upconv upconv_static)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME upconv LINKER_LANGUAGE C
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
endforeach()
set_target_properties(upconv PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
