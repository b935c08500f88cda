# SPDX-License-Identifier: Apache-2.0
#
# upconv_short: what makes small calls from PyTorch quick (python/csrc). Python's headers are enough, and one build serves
# every Python from 3.10; without them it is left out, and nothing is missing but speed.

find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
if(Python3_Development.Module_FOUND AND UNIX AND NOT APPLE AND NOT CMAKE_CROSSCOMPILING AND NOT UPCONV_SANITIZE)
  add_library(upconv_short MODULE
    "${PROJECT_SOURCE_DIR}/python/csrc/short.c" "${PROJECT_SOURCE_DIR}/python/csrc/prepared.c"
    "${PROJECT_SOURCE_DIR}/python/csrc/view.c")
  target_include_directories(upconv_short SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
  target_include_directories(upconv_short PRIVATE "${PROJECT_SOURCE_DIR}/include")
  upconv_flags(upconv_short)
  set_target_properties(upconv_short PROPERTIES PREFIX "" SUFFIX ".so" C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY "$<TARGET_FILE_DIR:upconv>")
  add_dependencies(upconv upconv_short) # whoever builds the shared library for Python gets both
endif()
