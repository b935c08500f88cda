/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an .npy file: the header, then the array, converted to every type. */
#include <stdint.h>
#include <stdlib.h>

#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_header header;
  cli_error error;
  if (!npy_parse_header(data, size, &header, &error)) return 0;
  /* What reading a file checks before it allocates. */
  if (header.data_size > (int64_t)size - header.data_offset || header.count > 1 << 16) return 0;
  for (int to = 0; to < NPY_VOID2; to++) {
    void *converted = malloc((size_t)header.count * npy_type_size((npy_type)to) + 1);
    if (!converted) return 0;
    (void)npy_convert(&header, data + header.data_offset, (npy_type)to, converted, &error);
    free(converted);
  }
  return 0;
}
