/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "monotonic.h"

enum { BAR_WIDTH = 30, LABEL_WIDTH = 34 };

/* Work that is over sooner shows no bar; redrawing more often than INTERVAL only costs time. */
static const double DELAY = 0.4, INTERVAL = 0.1;

/* The program draws from its main thread alone. */
static struct {
  const char *label; /* NULL: no bar */
  int64_t total;
  double started, drawn;
  bool visible;
} bar;

void progress_start(const char *label, int64_t total) {
  progress_clear();
  bar.label = isatty(STDERR_FILENO) ? label : NULL;
  bar.total = total > 0 ? total : 1;
  bar.started = uc_now();
  bar.drawn = 0;
}

void progress_update(int64_t done) {
  if (!bar.label) return;
  double now = uc_now();
  if (now - bar.started < DELAY || now - bar.drawn < INTERVAL) return;
  bar.drawn = now;
  if (done > bar.total) done = bar.total;
  int filled = (int)((double)done / (double)bar.total * BAR_WIDTH);
  fprintf(stderr, "\r\033[K%-*.*s [%.*s%*s] %lld/%lld", LABEL_WIDTH, LABEL_WIDTH, bar.label, filled,
          "##############################", BAR_WIDTH - filled, "", (long long)done,
          (long long)bar.total);
  fflush(stderr);
  bar.visible = true;
}

void progress_clear(void) {
  if (!bar.visible) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  bar.visible = false;
}

void progress_end(void) {
  progress_clear();
  bar.label = NULL;
}
