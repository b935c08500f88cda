# SPDX-License-Identifier: Apache-2.0
#
# cmake -DOUT=FILE.c -DFILES="a.cu;b.cu" -P EmbedKernels.cmake: the CUDA sources as C arrays, and the function that finds one
# by its name.

set(text "/* Generated from src/cuda/kernels. */\n#include <string.h>\n\n#include \"codegen.h\"\n\n")
set(table "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND text "static const char ${name}_text[] = {\n${bytes}0};\n")
  string(APPEND table "  if (strcmp(name, \"${name}\") == 0) return ${name}_text;\n")
endforeach()
string(APPEND text "\nconst char *uc_cuda_embedded(const char *name) {\n${table}  return NULL;\n}\n")
file(WRITE "${OUT}" "${text}")
