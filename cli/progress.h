/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on stderr for work that takes long; it shows only when stderr is a terminal, and only after a moment. */
#ifndef UPCONV_CLI_PROGRESS_H
#define UPCONV_CLI_PROGRESS_H

#include <stdint.h>

/* The bar shows label and done of total. Starting another one replaces the first. label must outlive the bar. */
void progress_start(const char *label, int64_t total);
void progress_update(int64_t done);
/* Takes the bar off the screen; also what anything else that prints must call first. The next update draws it again. */
void progress_clear(void);
void progress_end(void);

#endif
