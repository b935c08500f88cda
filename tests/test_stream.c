/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are stored past the caches, as those larger than the caches are: the same bits, and nothing beyond them. */
// labels: parallel valgrind

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu/engine.h"
#include "example.h"
#include "plan.h"

/* y, dense or with its rows apart, stored past the caches if it is larger than so many bytes. Guarded. */
static float *run(upconv_context *context, example *e, double stream_bytes, int64_t gap) {
  upconv_plan *plan = NULL;
  upconv_problem_desc desc;
  size_t bytes = 0;
  upconv_problem_get_desc(e->problem, &desc);
  int rank = desc.spatial_dims + 2;
  int64_t rows = e->count / e->y_shape[rank - 1], pitch = e->y_shape[rank - 1] + gap;
  float *y = check_alloc((size_t)(rows * pitch) * sizeof *y, 0);
  memset(y, CHECK_POISON, (size_t)(rows * pitch) * sizeof *y);
  if (!CHECK_STATUS(upconv_plan_create(context, e->problem, e->epilogue, NULL, &plan), UPCONV_OK))
    return y;
  uc_engine *engine = plan->state;
  engine->stream_bytes = stream_bytes;
  CHECK_STATUS(upconv_plan_workspace_size(plan, e->x_shape, &bytes), UPCONV_OK);
  void *packed = aligned_alloc(64, (upconv_plan_packed_size(plan) / 64 + 1) * 64);
  upconv_arguments a = e->arguments;
  a.y = upconv_tensor_dense(y, UPCONV_F32, rank, e->y_shape, UPCONV_CHANNELS_FIRST);
  for (int i = rank - 2; i >= 0; i--)
    a.y.stride[i] = i == rank - 2 ? pitch : a.y.stride[i + 1] * e->y_shape[i + 1];
  a.packed = packed;
  a.workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  a.workspace_size = bytes;
  CHECK_STATUS(upconv_plan_pack(plan, &e->parameters, packed, NULL), UPCONV_OK);
  CHECK_STATUS(upconv_execute(plan, &a), UPCONV_OK);
  free(a.workspace);
  free(packed);
  upconv_plan_destroy(plan);
  return y;
}

static void check_text(upconv_context *context, const char *text) {
  example e;
  if (example_make(text, &e))
    for (int64_t gap = 0; gap < 18; gap += gap < 2 ? 1 : 5) {
      size_t bytes = (size_t)(e.count + e.count / e.y_shape[3] * gap) * sizeof(float);
      float *around = run(context, &e, 0, gap), *through = run(context, &e, 1e30, gap);
      CHECK_MSG(memcmp(around, through, bytes) == 0, "%s, rows %d apart", text, (int)gap);
      CHECK_FREE(around);
      CHECK_FREE(through);
    }
  example_destroy(&e);
}

static void same_bits(void) {
  static const char *const text[] = {
      "n2 ci3 co5 in4x20 k3 s2 p1 bias | relu",
      "n1 ci2 co3 in3x33 k4 s4 bias | leaky_relu 0.1 | add %0",
      "n2 ci4 co4 g2 in3x40 k3x5 s1x2 p1x2 | sigmoid",
      /* while the next round is computed: rows without gaps, rows of two residues, a pool's, all channels */
      "n3 ci4 co35 in40x70 k3 p1 bias | relu",
      "n2 ci5 co21 in21x64 k4 s2 p1 bias | leaky_relu 0.1",
      "n2 ci16 co12 g2 in30x64 k3x4 s1x2 p1 | hardswish",
      "n1 ci16 co30 in61x64 k3 s2 p1 bias | max_pool 2 | mul 3",
      "n3 ci8 co6 in33x48 k4 s2 p1 | softmax",
      "n2 ci9 co9 g9 in61x64 k4 s2 p1",
      "n2 ci6 co6 g6 in50x70 k3 p1 | relu",
  };
  for (int threads = 1; threads <= 3; threads++) {
    upconv_context_options options = {.threads = threads};
    upconv_context *context = NULL;
    CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK);
    for (size_t i = 0; i < CHECK_COUNT(text); i++) check_text(context, text[i]);
    upconv_context_destroy(context);
  }
}

static void beside_the_next_round(void) {
  static const struct {
    const char *text;
    bool wanted;
  } plans[] = {
      {"n64 ci4 co32 in256x256 k3 p1 | relu", true}, /* 36 products an output */
      {"n64 ci32 co32 g32 in256x256 k4 s2 p1", true},
      {"n64 ci4 co32 in256x256 k2 s2", false},       /* 4 */
      {"n1 ci4 co32 in256x256 k3 p1 | relu", false}, /* the caches hold x and y */
      {"n64 ci4 co32 in256x256 k3 p1 y=f16", false},
  };
  for (size_t i = 0; i < CHECK_COUNT(plans); i++) {
    char text[8192] = "";
    upconv_context *context = NULL;
    upconv_problem *problem = NULL;
    upconv_epilogue *epilogue = NULL;
    upconv_plan *plan = NULL;
    upconv_plan_options options = {.candidate = "cpu-tiled"};
    CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK);
    CHECK_STATUS(upconv_problem_parse(plans[i].text, &problem, &epilogue), UPCONV_OK);
    CHECK_STATUS(upconv_plan_create(context, problem, epilogue, &options, &plan), UPCONV_OK);
    CHECK_STATUS(upconv_plan_print(plan, text, sizeof text, NULL), UPCONV_OK);
    CHECK_MSG((strstr(text, "stored beside the next round") != NULL) == plans[i].wanted, "%s",
              text);
    upconv_plan_destroy(plan);
    upconv_problem_destroy(problem);
    upconv_epilogue_destroy(epilogue);
    upconv_context_destroy(context);
  }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {{"same_bits", same_bits},
                                     {"beside_the_next_round", beside_the_next_round}};
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
