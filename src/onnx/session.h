/* SPDX-License-Identifier: Apache-2.0 */
/* The session's inside: cuts for the shapes seen last, and their shared plans. */
#ifndef UPCONV_ONNX_SESSION_H
#define UPCONV_ONNX_SESSION_H

#include "cut.h"

enum { UC_KEPT_CUTS = 4 };

struct uc_onnx_session {
  const uc_onnx_model *model;
  uc_plans plans;
  size_t memory_limit;
  int cut_count;
  uc_cut cut[UC_KEPT_CUTS]; /* the one used last in front */
  void *arena;
  size_t arena_size;
  void **initial; /* initialisers on the device, of each value of the model */
  /* Whose inputs lie on the device, which has memory of its own; NULL: nobody's. */
  const uc_onnx_program *staged;
};

/* The caller's inputs in the model's order. Freed with free. */
upconv_status uc_session_inputs(const uc_onnx_model *model, const uc_onnx_tensor *inputs, int count,
                                const uc_onnx_tensor ***ordered);
/* Index of the graph output that outputs[i] speaks of. */
upconv_status uc_session_output(const uc_onnx_model *model, const char *name, int i, int *index);
/* The cut for these inputs. */
upconv_status uc_session_cut(uc_onnx_session *session, const uc_onnx_tensor *const *inputs,
                             uc_cut **cut);
/* A planned program for these inputs, on the heap. */
upconv_status uc_session_program(const uc_onnx_session *session,
                                 const uc_onnx_tensor *const *inputs, uc_onnx_program **program);

#endif
