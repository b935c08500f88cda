/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that end at a page which may not be touched: whoever reads or writes one byte beyond
 * stops the program, also through instructions that no sanitizer watches.
 */
#ifndef UPCONV_TESTS_EDGE_H
#define UPCONV_TESTS_EDGE_H

#include <stddef.h>

/* Uninitialised; the last byte is the last of its page. Stops the program if there is no memory. */
void *edge_alloc(size_t bytes);
void edge_free(void *data, size_t bytes);

#endif
