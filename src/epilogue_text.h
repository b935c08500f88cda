/* SPDX-License-Identifier: Apache-2.0 */
/* What printing and reading epilogues share. The form itself is described in upconv.h. */
#ifndef UPCONV_EPILOGUE_TEXT_H
#define UPCONV_EPILOGUE_TEXT_H

#include "epilogue.h"
#include "scan.h"

/* Reads an epilogue from the current token to the end of the text. */
upconv_status uc_epilogue_scan(uc_scan *scan, int nd, upconv_epilogue **epilogue);

/* batch_norm's operands by name, in the order in which they are printed. */
typedef struct uc_named_operand {
  const char *key;
  int operand;
} uc_named_operand;
enum { UC_BATCH_NORM_NAMES = 4 };
extern const uc_named_operand uc_batch_norm_operand[UC_BATCH_NORM_NAMES];

#endif
