/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/*
 * What is generated for CUDA, as text: on a stand-in for NVRTC, so without any of NVIDIA's software. Whether the texts
 * compile is test_cuda_compile's part, whether they are right the GPU tests'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/engine.h"
#include "cuda_covering.h"
#include "lowered.h"
#include "plan.h"
#include "sandbox.h"

#define FAKE UPCONV_FAKES "/fake_nvrtc.so"

static upconv_context *open_for(const char *device) {
  upconv_context_options options = {.device = device};
  upconv_context *context = NULL;
  CHECK_STATUS(upconv_context_create(&options, &context), UPCONV_OK);
  return context;
}

/* NULL and *refusal when the candidate does not apply. */
static upconv_plan *plan_for(upconv_context *context, const char *text, const char *candidate,
                             bool *refused) {
  upconv_problem *problem = NULL;
  upconv_epilogue *epilogue = NULL;
  upconv_plan *plan = NULL;
  upconv_plan_options options = {.candidate = candidate};
  *refused = false;
  if (CHECK_STATUS(upconv_problem_parse(text, &problem, &epilogue), UPCONV_OK)) {
    upconv_status status = upconv_plan_create(context, problem, epilogue, &options, &plan);
    *refused =
        status == UPCONV_UNSUPPORTED && strstr(upconv_last_error(), " does not apply: ") != NULL;
    if (!*refused) CHECK_STATUS(status, UPCONV_OK);
  }
  upconv_epilogue_destroy(epilogue);
  upconv_problem_destroy(problem);
  return plan;
}

static char *source_of(const upconv_plan *plan) {
  size_t length = 0, again = 0;
  if (!CHECK_STATUS(upconv_plan_source(plan, NULL, 0, &length), UPCONV_OK)) return NULL;
  char *text = check_alloc(length + 1, 0);
  CHECK_STATUS(upconv_plan_source(plan, text, length + 1, &again), UPCONV_OK);
  CHECK_INT(again, length);
  CHECK_INT(strlen(text), length);
  CHECK_GUARDS(text);
  return text;
}

static char *source_for(const char *device, const char *text, const char *candidate) {
  upconv_context *context = open_for(device);
  bool refused = false;
  upconv_plan *plan = context ? plan_for(context, text, candidate, &refused) : NULL;
  CHECK(!refused);
  char *source = plan ? source_of(plan) : NULL;
  upconv_plan_destroy(plan);
  upconv_context_destroy(context);
  return source;
}

/* ---------------------------------------------------------------- errors */

static void ask_without_compiler(void) {
  setenv("UPCONV_NVRTC", "/no/libnvrtc.so", 1);
  upconv_context_options options = {.device = "cuda:sm_90a"};
  upconv_context *context = NULL;
  upconv_status status = upconv_context_create(&options, &context);
  sandbox_say("%d %d %s", status, context == NULL, upconv_last_error());
}

/* The library looks for NVRTC once per process. */
static void without_compiler(void) {
  const char *said = sandbox_run(ask_without_compiler);
  CHECK_SAYS(said, "5 1 UPCONV_NVRTC = \"/no/libnvrtc.so\" is not NVRTC");
}

static void unknown_architectures(void) {
  static const struct {
    const char *device;
    upconv_status status;
    const char *says;
  } cases[] = {
      {"cuda:sm_70", UPCONV_INVALID_ARGUMENT, "an architecture is sm_75 or later"},
      {"cuda:sm_", UPCONV_INVALID_ARGUMENT, "an architecture is sm_75 or later"},
      {"cuda:sm_90b", UPCONV_INVALID_ARGUMENT, "an architecture is sm_75 or later"},
      {"cuda:sm_90aa", UPCONV_INVALID_ARGUMENT, "an architecture is sm_75 or later"},
      {"cuda:sm_-90", UPCONV_INVALID_ARGUMENT, "an architecture is sm_75 or later"},
      {"cuda:sm_99999999999999999999", UPCONV_INVALID_ARGUMENT,
       "an architecture is sm_75 or later"},
      {"cuda:sm_120", UPCONV_UNSUPPORTED, "NVRTC 13.0 does not know this architecture"},
      {"cuda:sm_80a", UPCONV_UNSUPPORTED, "NVRTC 13.0 does not know this architecture"},
      {"cuda:90", UPCONV_DEVICE_ERROR, ""},
      {"cuda:", UPCONV_INVALID_ARGUMENT, "must be cpu, cuda, cuda:N or cuda:sm_NN"},
      {"cuda:90a", UPCONV_INVALID_ARGUMENT, "must be cpu, cuda, cuda:N or cuda:sm_NN"},
      {"cuda:compute_90", UPCONV_INVALID_ARGUMENT, "must be cpu, cuda, cuda:N or cuda:sm_NN"},
      {"cudasm_90", UPCONV_INVALID_ARGUMENT, "must be cpu, cuda, cuda:N or cuda:sm_NN"},
  };
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    check_context("%s", cases[i].device);
    upconv_context_options options = {.device = cases[i].device};
    upconv_context *context = NULL;
    CHECK_STATUS(upconv_context_create(&options, &context), cases[i].status);
    CHECK(context == NULL);
    CHECK_SAYS(upconv_last_error(), cases[i].says);
  }
  check_context(NULL);
}

static void nothing_to_run_on(void) {
  upconv_context *context = open_for("cuda:sm_90a");
  bool refused;
  upconv_plan *plan = context ? plan_for(context, "ci2 co3 in4 k2", NULL, &refused) : NULL;
  if (!plan) return;
  CHECK_SAYS(upconv_context_describe(context), "sm_90a");
  int64_t x_shape[] = {1, 2, 4}, w_shape[] = {2, 3, 2}, y_shape[] = {0, 0, 0};
  size_t workspace_size = 0, packed_size = upconv_plan_packed_size(plan);
  CHECK(packed_size > 0);
  CHECK_STATUS(upconv_plan_output_shape(plan, x_shape, y_shape), UPCONV_OK);
  CHECK_INT(y_shape[2], 5);
  CHECK_STATUS(upconv_plan_workspace_size(plan, x_shape, &workspace_size), UPCONV_OK);
  float *x = check_alloc(64, 0), *y = check_alloc(64, 0), *w = check_alloc(64, 0);
  void *packed = check_alloc(packed_size, 0), *workspace = check_alloc(workspace_size + 64, 0);
  upconv_parameters parameters = {
      .weight = upconv_tensor_dense(w, UPCONV_F32, 3, w_shape, UPCONV_CHANNELS_FIRST)};
  CHECK_STATUS(upconv_plan_pack(plan, &parameters, packed, NULL), UPCONV_DEVICE_ERROR);
  CHECK_SAYS(upconv_last_error(), "sm_90a was named to plan for");
  upconv_arguments arguments = {
      .x = upconv_tensor_dense(x, UPCONV_F32, 3, x_shape, UPCONV_CHANNELS_FIRST),
      .y = upconv_tensor_dense(y, UPCONV_F32, 3, y_shape, UPCONV_CHANNELS_FIRST),
      .packed = packed,
      .workspace = workspace,
      .workspace_size = workspace_size};
  CHECK_STATUS(upconv_execute(plan, &arguments), UPCONV_DEVICE_ERROR);
  CHECK_SAYS(upconv_last_error(), "sm_90a was named to plan for");
  CHECK(check_is_poison(packed, packed_size) && check_is_poison(y, 64));
  CHECK_FREE(x);
  CHECK_FREE(y);
  CHECK_FREE(w);
  CHECK_FREE(packed);
  CHECK_FREE(workspace);
  upconv_plan_destroy(plan);
  upconv_context_destroy(context);
}

static void source_needs_cuda(void) {
  upconv_context *context = open_for("cpu");
  bool refused;
  upconv_plan *plan = context ? plan_for(context, "ci2 co3 in4 k2", NULL, &refused) : NULL;
  size_t length = 7;
  CHECK_STATUS(upconv_plan_source(plan, NULL, 0, &length), UPCONV_UNSUPPORTED);
  CHECK_SAYS(upconv_last_error(), "candidate cpu-");
  CHECK_INT(length, 7);
  CHECK_STATUS(upconv_plan_source(NULL, NULL, 0, &length), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(upconv_plan_source(plan, NULL, 1, &length), UPCONV_INVALID_ARGUMENT);
  upconv_plan_destroy(plan);
  upconv_context_destroy(context);
}

/* ---------------------------------------------------------------- what a source says */

static bool has_line(const char *source, const char *line) {
  size_t length = strlen(line);
  for (const char *at = strstr(source, line); at; at = strstr(at + 1, line))
    if ((at == source || at[-1] == '\n') && (at[length] == '\n' || at[length] == '\0')) return true;
  return false;
}

static int count_of(const char *source, const char *part) {
  int count = 0;
  for (const char *at = strstr(source, part); at; at = strstr(at + 1, part)) count++;
  return count;
}

static void check_lines_for(const char *device, const char *text, const char *candidate,
                            const char *const *lines) {
  char *source = source_for(device, text, candidate);
  if (!source) return;
  check_context("%s: %s", device, text);
  for (; *lines; lines++) CHECK_MSG(has_line(source, *lines), "no line '%s'", *lines);
  CHECK_INT(count_of(source, "\n// packing for "), 1);
  CHECK_INT(count_of(source, "pack_weights("), 1);
  CHECK_FREE(source);
  check_context(NULL);
}

static void check_lines(const char *text, const char *candidate, const char *const *lines) {
  check_lines_for("cuda:sm_90a", text, candidate, lines);
}

/* The founding models: what the rules have made of them, and the taps that are left. */
static void founding_models(void) {
  check_lines("n128 ci3 co16 in16x32x32 k3 s2 p1 bias | scale 0.5 | avg_pool 2 | add @b | scale 1",
              NULL,
              (const char *const[]){"// n128 ci3 co16 in16x32x32 k2 p1 bias", "#define CI 3",
                                    "#define TAPS 8", "#define R0 1", "#define R1 1",
                                    "#define R2 1", NULL});
  check_lines("n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4", NULL,
              (const char *const[]){"// n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1",
                                    "// value %0, for sm_90a", "#define KERNEL_NAME upconv_value0",
                                    "#define CI 8", "#define CO 8", "#define TAPS 105",
                                    "#define R0 2", "#define R1 2", "#define R2 2", NULL});
  const char *const c_lines[] = {"#define KERNEL_NAME upconv_value2",
                                 "#define CI 16",
                                 "#define CO 32",
                                 "#define KERNEL 27",
                                 "#define TAPS 27",
                                 "#define TAP_ROWS 4",
                                 "#define R0 2",
                                 "#define R1 2",
                                 "#define R2 2",
                                 "#define BASE0 0",
                                 "#define STATIC_TAPS 1",
                                 "#define WORD_IS_F32 1",
                                 NULL};
  check_lines("n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias math=tf32 | leaky_relu 0.2 | mul @m | "
              "leaky_relu 0.2 | max_pool 2",
              "cuda-mma", c_lines);
  check_lines("n128 ci3 co16 in16x32x32 k3 s2 p1 bias dtype=f16 | scale 0.5 | avg_pool 2 | add @b",
              "cuda-flat",
              (const char *const[]){"#define CI 3", "#define STEPS 3", "#define PARTS 2",
                                    "#define PATTERNS 1", "#define TW 31", "#define TH 31",
                                    "#define PREFETCH 1", NULL});
}

/* The depth of a residue is its taps times the channels: full steps of eight, one of four where they end there, and
   words without a weight for what is missing. */
static void flattened_depths(void) {
  check_lines("ci1 co16 in64x64 k4 s2 p1 dtype=f16", "cuda-flat",
              (const char *const[]){"#define STEPS 4", "#define PARTS 1", "#define RT 2",
                                    "#define RESIDUE_GROUPS 2",
                                    "__device__ const int half_live[] = {4, 0, 4, 0, 4, 0, 4, 0};",
                                    "__device__ const int step_begin[] = {0, 2, 4};", NULL});
  check_lines("ci3 co4 in9 k3 math=tf32 layout=ndhwc", "cuda-flat",
              (const char *const[]){"#define STEPS 2", "#define NT 1", "#define STRIPS 0",
                                    "__device__ const int half_live[] = {4, 4, 1, 0};", NULL});
}

/* Cells of a lane lie side by side where they are one input and one output apart: halves of one row share a window. Strips that end
   where rows do are finished as a whole, and rows of x that begin with a vector are fetched in vectors. */
static void strips_of_cells(void) {
  static const char tail[] = "| scale 0.5 | avg_pool 2 | add @b";
  char text[128];
  snprintf(text, sizeof text, "n128 ci3 co16 in16x32x32 k3 s2 p1 math=tf32 %s", tail);
  check_lines(text, "cuda-flat",
              (const char *const[]){"#define STRIPS 1", "#define STRIP 1", "#define VX 4",
                                    "__device__ const int half_place[] = {0, 1, 0, 1, 0, 1};",
                                    "__device__ const int half_window[] = {0, 0, 1, 1, 2, 2};",
                                    NULL});
  snprintf(text, sizeof text, "n128 ci3 co16 in16x32x33 k3 s2 p1 dtype=f16 %s", tail);
  check_lines(text, "cuda-flat",
              (const char *const[]){"#define STRIPS 1", "#define STRIP 4", "#define VX 1", NULL});
  check_lines("ci4 co16 in32x32 k2 p1 math=tf32", "cuda-flat",
              (const char *const[]){"#define STRIPS 1", "#define VX 4", "#define X_BASE2 0", NULL});
  check_lines("ci4 co16 in32x32 k4 s2 p1 math=tf32", "cuda-flat",
              (const char *const[]){"#define STRIPS 0", "#define VX 1", NULL});
}

/* Few output channels: cells begin where they read the fewest inputs, layers that read one plane are held together unless they are
   many, and quads are loaded at once where rows of x begin with one. */
static void layers_in_registers(void) {
  check_lines("n16 ci64 co1 in32x32x32 k4 s2 p1 bias math=tf32 | sigmoid", "cuda-scatter",
              (const char *const[]){"#define BASE0 -1", "#define BASE1 -1", "#define BASE2 0",
                                    "#define OPEN 2", "#define PARTS 1", "#define SUM_ROWS 32",
                                    "#define WIDE_X 1",
                                    "__device__ const int depth_kernel[] = {2, 0, 3, 1};", NULL});
  check_lines("n16 ci64 co1 in33x33x33 k4 s2 p1 dtype=f16", "cuda-scatter",
              (const char *const[]){"#define OPEN 2", "#define WIDE_X 0", NULL});
  check_lines("ci32 co1 in20x20x20 k3 d3 p1 math=tf32", "cuda-scatter",
              (const char *const[]){
                  "#define OPEN 1",
                  "__device__ const int depth_kernel[] = {2, -1, -1, 1, -1, -1, 0};", NULL});
  check_lines("ci64 co2 in9x9x9 k4 s2 p1 dtype=f16", "cuda-scatter",
              (const char *const[]){"#define FRAGMENTS 2", "#define OPEN 2", "#define PARTS 2",
                                    "#define BM 2", NULL});
}

/* Residues and channels as rows: pairs of neighbours along W for 32 channels; of eight channels a group, all places along D and H.
   Zeros for weights only where a residue of a panel has no tap; rows that are no whole sectors meet in shared memory. */
static void residues_as_rows(void) {
  check_lines("n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias math=tf32 | extreme_pool 2 dir=@m",
              "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 18, "
                                    "ROUNDS = 1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define STEPS 2", "#define GAPS 1", "#define ROW_PITCH 0",
                                    "#define SUMS_POOLED 1", "#define GROUPS 8",
                                    "    if (a.packed[0 + c] < 0) scale = -scale;", NULL});
  check_lines("n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4 math=tf32", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 1, PANELS = 1, HELD = 1, PRODUCTS = 24, "
                                    "ROUNDS = 1, SLOTS = 4, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define STEPS 1", "#define GROUP_AXIS 1",
                                    "#define ROW_PITCH 0", "#define PAIRED 0", NULL});
  /* eight 16-bit channels are half of a product's depth: two offsets make one */
  check_lines("n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4 dtype=f16", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 1, PANELS = 1, HELD = 1, PRODUCTS = 12, "
                                    "ROUNDS = 1, SLOTS = 4, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define PAIRED 1", NULL});
  check_lines("n8 ci32 co32 in12x24x47 k3x5x7 s2 p1x2x3 op1 g4 math=tf32", "cuda-phase",
              (const char *const[]){"#define GROUP_AXIS 2", "#define GROUPS 6",
                                    "#define ROW_PITCH 112", NULL});
  check_lines("n2 ci64 co32 in64x64x64 k2 s2 bias math=tf32", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 4, "
                                    "ROUNDS = 1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define STEPS 8", "#define GAPS 0", NULL});
}

/* Many channels as rows: runs are a row apart where that leaves fewer columns without a cell, else they are neighbours; finished rows
   meet in shared memory where they are no whole sectors, unless they are short. */
static void channels_as_rows(void) {
  check_lines("n16 ci256 co128 in8x8x8 k4 s2 p1 math=tf32", "cuda-panel",
              (const char *const[]){"#define HELD 2", "#define GROUPS 17", "#define GROUP_STEP 10",
                                    "#define XW 10", "#define XH 9", "#define BM 64",
                                    "#define WIDTH WHOLE", "#define BORDERS 0",
                                    "__constant__ const int part_position[] = {0, 180};",
                                    "#define TAPS 64", "#define CHUNKS 8", NULL});
  /* two rows of 65 cells: 66, to be an even number; heavy groups of residues come first */
  check_lines("n8 ci512 co512 in64x64 k3 s2 dtype=f16", "cuda-panel",
              (const char *const[]){"#define TW 66", "#define XW 68", "#define GROUP_STEP 8",
                                    "#define CREWS 2", "#define ROUND_RUNS 17",
                                    "__constant__ const int heavy_first[] = {0, 1};", NULL});
  check_lines("n16 ci512 co256 in4x4x4 k4 s2 p1 dtype=f16", "cuda-panel",
              (const char *const[]){"#define SAMPLES 2", "#define XW 6", "#define GROUP_STEP 8",
                                    "#define LANES_MEET 0", NULL});
  /* eight residues of a pool in one thread */
  check_lines("n4 ci64 co64 in16x16x16 k4 s2 p1 dtype=f16 | max_pool 2", "cuda-panel",
              (const char *const[]){"#define HELD 8", "#define RESIDUE_GROUPS 1",
                                    "#define SUMS_POOLED 1", NULL});
}

/* Runs are stored as the plan's own rows are aligned. Where to half a run, four lanes exchange halves if these lie side by side: not
   if a lane has two runs in a row. */
static void lanes_that_meet(void) {
  check_lines("n1 ci8 co8 in1024 k2 s2 math=tf32", "cuda-phase",
              (const char *const[]){"#define RUN 4", "#define WIDTH WHOLE", "#define LANES_MEET 0",
                                    "#define BORDERS 0", NULL});
  check_lines("n1 ci8 co8 in1023 k2 s2 math=tf32", "cuda-phase",
              (const char *const[]){"#define RUN 4", "#define WIDTH HALVES", "#define LANES_MEET 1",
                                    "#define BORDERS 1", NULL});
  check_lines("n1 ci8 co8 in1024 k2 s2 math=tf32 layout=ndhwc", "cuda-phase",
              (const char *const[]){"#define WIDTH APART", "#define LANES_MEET 0", NULL});
  check_lines("n1 ci8 co8 in1024 k4 s4 p1 math=tf32", "cuda-phase",
              (const char *const[]){"#define RUN 4", "#define LANES_MEET 0", NULL});
  check_lines("n2 ci32 co20 in9x24 k1x4 s1x4 math=tf32", "cuda-panel",
              (const char *const[]){"#define RUN 4", "#define LANES_MEET 0", NULL});
}

/* As many parts as a row of cells has; no more sums than what finishes them leaves registers for. */
static void parts_and_sums(void) {
  check_lines("n16 ci16 co32 in16x32x33 k3 s2 p1 op1 math=tf32 | max_pool 2", "cuda-phase",
              (const char *const[]){"#define PART_W 8", "#define TW 40", NULL});
  check_lines("n16 ci16 co32 in16x32x32 k3 s2 p1 op1 math=tf32 | max_pool 2", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 18, "
                                    "ROUNDS = 1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define GROUPS 8", NULL});
  check_lines("n2 ci64 co32 in64x64x64 k2 s2 dtype=f16", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 4, "
                                    "ROUNDS = 1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define GROUPS 8", NULL});
  check_lines("n2 ci64 co32 in64x64x64 k2 s2 dtype=f16 | add #skip | relu", "cuda-phase",
              (const char *const[]){"  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 4, "
                                    "ROUNDS = 1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    "#define GROUPS 4", NULL});
}

/* A pool's last channels have panels of fewer channels, and few channels share panels, where that is worth the meeting of sums. */
static void last_channels(void) {
  check_lines(
      "n16 ci16 co33 in16x32x32 k3 s2 p1 op1 math=tf32 | max_pool 2", "cuda-phase",
      (const char *const[]){"#define REST 1",
                            "  enum { FRAGMENTS = 4, PANELS = 4, HELD = 1, PRODUCTS = 18, ROUNDS = "
                            "1, SLOTS = 1, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                            "  enum { FRAGMENTS = 1, PANELS = 1, HELD = 1, PRODUCTS = 8, ROUNDS = "
                            "1, SLOTS = 4, FIRST_CHANNEL = 32, FIRST_BYTE = 73728 };",
                            NULL});
  check_lines("n16 ci16 co8 in16x32x32 k3 s2 p1 op1 math=tf32 | max_pool 2", "cuda-phase",
              (const char *const[]){"#define REST 0",
                                    "  enum { FRAGMENTS = 1, PANELS = 1, HELD = 1, PRODUCTS = 8, "
                                    "ROUNDS = 1, SLOTS = 4, FIRST_CHANNEL = 0, FIRST_BYTE = 0 };",
                                    NULL});
  check_lines("n16 ci16 co48 in16x32x32 k3 s2 p1 op1 math=tf32 | max_pool 2", "cuda-phase",
              (const char *const[]){"#define REST 0", NULL});
}

/* What follows the convolution is unrolled for every sum of a thread only where it is short. */
static void long_tails_once(void) {
  const char *const candidate[] = {"cuda-phase", "cuda-panel", "cuda-mma"};
  for (int i = 0; i < 3; i++) {
    check_lines("n2 ci64 co32 in16x16x16 k2 s2 math=tf32 | leaky_relu 0.1 | mul @m", candidate[i],
                (const char *const[]){"#define ROLLED 0", NULL});
    check_lines("n2 ci64 co32 in16x16x16 k2 s2 math=tf32 | gelu", candidate[i],
                (const char *const[]){"#define ROLLED 1", NULL});
  }
}

/* Long runs of the result are copied as a whole; short ones by warps. */
static void long_runs(void) {
  check_lines("n1 ci2 co4 in150x400 k2 s2 bias math=tf32 | relu", "cuda-flat",
              (const char *const[]){"#define BULK 1", NULL});
  check_lines("n1 ci2 co4 in150x40 k2 s2 bias math=tf32 | relu", "cuda-flat",
              (const char *const[]){"#define BULK 0", NULL});
}

/* Tensor cores: where weights stay, teams share them and the next input is copied ahead, in pieces that the row allows. */
static void teams_and_copies(void) {
  check_lines("n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4 math=tf32", "cuda-mma",
              (const char *const[]){"#define TEAMS 4", "#define PREFETCH 1", "#define VX 4",
                                    "#define X_BASE2 -4", "#define STRIP 2", "#define RUN 4",
                                    "#define SUMS_POOLED 0", NULL});
  check_lines("n8 ci32 co32 in12x24x50 k3x5x7 s2 p1x2x3 op1 g4 math=tf32", "cuda-mma",
              (const char *const[]){"#define PREFETCH 1", "#define VX 2", NULL});
  check_lines("n8 ci32 co32 in12x24x49 k3x5x7 s2 p1x2x3 op1 g4 math=tf32", "cuda-mma",
              (const char *const[]){"#define PREFETCH 1", "#define VX 1", NULL});
  check_lines("n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4 math=tf32 layout=ndhwc", "cuda-mma",
              (const char *const[]){"#define TEAMS 4", "#define PREFETCH 0", NULL});
  check_lines("n8 ci512 co64 in16x16 k4 s2 p1 dtype=f16", "cuda-mma",
              (const char *const[]){"#define TEAMS 1", "#define PREFETCH 0", NULL});
  check_lines("n8 ci16 co32 in16x32x32 k3 s2 p1 op1 dtype=f16 | extreme_pool 2 dir=@m", "cuda-mma",
              (const char *const[]){"#define SUMS_POOLED 1",
                                    "    if (a.packed[0 + c] < 0) scale = -scale;", NULL});
}

/* Tensor cores: one channel more takes one more fragment of them, not twice the rounds; what does not fit shared memory is
   shared out to blocks; a depth just beyond steps of eight has steps of four. */
static void channels_beyond(void) {
  static const char tail[] = "in16x32x32 k3 s2 p1 op1 bias math=tf32 | mul @m | max_pool 2";
  const struct {
    const char *channels, *line[4];
  } some[] = {
      {"ci16 co32",
       {"#define STEP_WORDS 8", "#define BM 32", "#define ROUNDS 4", "#define CHANNEL_BLOCKS 1"}},
      {"ci16 co33",
       {"#define STEP_WORDS 8", "#define BM 40", "#define ROUNDS 5", "#define CHANNEL_BLOCKS 1"}},
      {"ci16 co48",
       {"#define STEP_WORDS 8", "#define BM 24", "#define ROUNDS 3", "#define CHANNEL_BLOCKS 2"}},
      {"ci17 co32",
       {"#define STEP_WORDS 4", "#define BM 32", "#define ROUNDS 4", "#define CI_STEPS 5"}},
  };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    char text[128];
    const char *const *line = some[i].line;
    snprintf(text, sizeof text, "n16 %s %s", some[i].channels, tail);
    check_lines(text, "cuda-mma", (const char *const[]){line[0], line[1], line[2], line[3], NULL});
  }
  check_lines(
      "n2 ci128 co64 in32x32x32 k2 s2 bias dtype=f16", "cuda-mma",
      (const char *const[]){"#define BM 32", "#define ROUNDS 1", "#define WARPS_M 1", NULL});
}

/* Together on sm_90a, where a product has enough columns: all residues of a cell by 16 channels, or 32 channels by a tap. */
static void four_warps(void) {
  check_lines(
      "n2 ci64 co32 in64x64x64 k2 s2 bias dtype=f16", "cuda-mma",
      (const char *const[]){"      \"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {\"",
                            "#define CORE_ORDER 1", "#define PAIRS 0", NULL});
  check_lines("n16 ci64 co32 in4096 k4 s2 p1 bias dtype=f16", "cuda-mma",
              (const char *const[]){
                  "      \"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {\"", NULL});
  check_lines("n16 ci32 co128 in4096 k6 s3 dtype=f16", "cuda-mma",
              (const char *const[]){"#define NT 4", "#define ROUNDS 4", "#define BM 128", NULL});
  check_lines("n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1 math=tf32", "cuda-mma",
              (const char *const[]){"// Products by every warp for itself: inputs and weights come "
                                    "from shared memory to registers.",
                                    "#define CORE_ORDER 0", NULL});
  check_lines_for("cuda:sm_80", "n2 ci64 co32 in64x64x64 k2 s2 bias math=tf32", "cuda-mma",
                  (const char *const[]){"// Products by every warp for itself: inputs and weights "
                                        "come from shared memory to registers.",
                                        "#define CORE_ORDER 0", "#define PAIRS 1", NULL});
}

/* Many channels: where the tensor cores take operands from shared memory, and what of x a block works on. */
static void many_channels(void) {
  static const char deep[] = "n8 ci512 co256 in4x4x4 k4 s2 p1 dtype=f16";
  static const char first_deltas[] =
      "__constant__ const int first_delta[][3] = {{-1, -1, -1}, {-1, 0, -1}, {0, -1, -1}, {0, 0, "
      "-1}};";
  /* a tile is two whole samples; residues along W are held together, those along D and H are other blocks' */
  check_lines_for("cuda:sm_90a", deep, "cuda-gemm",
                  (const char *const[]){
                      "#define WGMMA 1", "#define WORD_IS_F16 1", "#define CORE_ORDER 1",
                      "#define SAMPLES 2", "#define TD 4", "#define TH 4", "#define TW 4",
                      "#define XD 5", "#define XH 5", "#define XW 6", "#define RT 2",
                      "#define RESIDUE_BLOCKS 4", "#define EC 32", "#define CI_STEPS 32",
                      "#define SCALES_SUMS 0", "struct __align__(64) Map {",
                      "__constant__ const int tap_begin[] = {0, 8, 16, 24, 32, 40, 48, 56, 64};",
                      first_deltas, NULL});
  check_lines_for("cuda:sm_80", deep, "cuda-gemm",
                  (const char *const[]){"#define WGMMA 0", "#define SAMPLES 2",
                                        "#define RESIDUE_BLOCKS 4", "#define STEPS_AHEAD 2",
                                        "struct Rows {", NULL});
  check_lines_for("cuda:sm_100", deep, "cuda-gemm", (const char *const[]){"#define WGMMA 0", NULL});
  /* sums of two teams fill more registers than twelve warps have */
  check_lines("n8 ci256 co128 in8x8x8 k4 s2 p1 math=tf32", "cuda-gemm",
              (const char *const[]){"#define THREADS 640", "#define REGISTERS_TAKEN 112",
                                    "#define MIN_BLOCKS 1", "#define X_BUFFERS 2", NULL});
  /* residues without taps are the bias alone */
  check_lines("ci32 co40 in7x9 k2 s3 bias math=tf32", "cuda-gemm",
              (const char *const[]){
                  "#define RT 3", "#define RESIDUE_BLOCKS 3", "#define X_BUFFERS 1",
                  "__constant__ const int tap_begin[] = {0, 1, 2, 2, 3, 4, 4, 4, 4, 4};", NULL});
  /* a pool's cell is held whole */
  check_lines("ci40 co24 in9x10 k4 s2 p1 math=tf32 | leaky_relu | max_pool 2", "cuda-gemm",
              (const char *const[]){"#define RT 4", "#define RESIDUE_BLOCKS 1", NULL});
  check_lines("ci64 co64 in20x20 k3 p1 dtype=f16 layout=ndhwc", "cuda-gemm",
              (const char *const[]){"#define X_LAST 1", "#define Y_LAST 1", NULL});
}

/* Many channels: what tables in constant memory do not hold is refused, and quickly; the planner has others. */
static void tables_that_do_not_fit(void) {
  static const struct {
    const char *text;
    bool fits;
  } cases[] = {
      {"ci64 co64 in9x9 k64 s32 math=tf32", true},   /* 4096 taps */
      {"ci64 co64 in8x8 k128 s32 math=tf32", false}, /* 16384 */
      {"ci64 co64 in5x5 k61 s61 math=tf32", false},  /* 3721 taps in as many groups */
      {"ci64 co64 in4x4 k400 s50 math=tf32", false}, /* 160000 */
      {"ci64 co1 in64x64 k60 s7 math=tf32", true},   /* 49 columns, 81 shifts */
      {"ci64 co1 in90x90 k100x90 s2 math=tf32", false},
  };
  upconv_context *context = open_for("cuda:sm_90a");
  for (size_t i = 0; context && i < CHECK_COUNT(cases); i++) {
    bool refused = false;
    check_context("%s", cases[i].text);
    upconv_plan_destroy(plan_for(context, cases[i].text, "cuda-gemm", &refused));
    CHECK_INT(refused, !cases[i].fits);
    upconv_plan *plan = plan_for(context, cases[i].text, NULL, &refused);
    CHECK(plan && !refused);
    upconv_plan_destroy(plan);
  }
  check_context(NULL);
  upconv_context_destroy(context);
}

/* 16-bit weights stay what they are, and the sums are scaled; float32 words are scaled themselves. */
static void scaled_sums(void) {
  static const char *const candidate[] = {"cuda-mma", "cuda-gemm"};
  static const char tail[] = "| batch_norm mean=@m var=@v weight=@w bias=@b | relu",
                    head[] = "ci64 co64 in8x8 k4 s2 p1";
  for (size_t i = 0; i < CHECK_COUNT(candidate); i++) {
    char text[256];
    snprintf(text, sizeof text, "%s dtype=f16 %s", head, tail);
    char *source = source_for("cuda:sm_90a", text, candidate[i]);
    if (source) {
      CHECK_INT(count_of(source, "#define SCALES_SUMS 1\n"), 2); /* the kernel, and packing */
      CHECK_INT(count_of(source, "] = (float)scale;"), 1);
      CHECK_INT(count_of(source, "const double scale = SCALES_SUMS || o >= CO ? 1 : "), 1);
    }
    CHECK_FREE(source);
    snprintf(text, sizeof text, "%s math=tf32 %s", head, tail);
    source = source_for("cuda:sm_90a", text, candidate[i]);
    if (source) {
      CHECK_INT(count_of(source, "#define SCALES_SUMS 0\n"), 2);
      CHECK_INT(count_of(source, "] = (float)scale;"), 0);
    }
    CHECK_FREE(source);
  }
}

/* ---------------------------------------------------------------- the covering set */

static const char *const archs[] = {"cuda:sm_75", "cuda:sm_80", "cuda:sm_86", "cuda:sm_90a",
                                    "cuda:sm_100"};
static const char *const candidates[] = {"cuda-ffma",      "cuda-mma",  "cuda-gemm",
                                         "cuda-depthwise", "cuda-flat", "cuda-scatter",
                                         "cuda-phase",     "cuda-panel"};

enum { MOST_SOURCES = 8192 };

/* FNV-1a */
static uint64_t hash_of(const char *text) {
  uint64_t hash = 14695981039346656037u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

static int passes_of(const upconv_plan *plan) {
  const uc_cuda_engine *e = plan->state;
  int found = 0;
  for (int i = 0; i < e->kernel_count; i++) {
    const uc_cuda_kernel *k = &e->kernel[i];
    if (!k->pass->conv) continue;
    found |= k->fused ? COVERING_FUSED : COVERING_TILED;
    if (!k->static_taps) found |= COVERING_LOOPS;
    if (!k->shared_weights) found |= COVERING_GLOBAL_WEIGHTS;
  }
  return found;
}

/* The operators that reach the generator. */
static void mark_operators(const upconv_plan *plan, bool *met) {
  const upconv_epilogue *tail = plan->lowered.tail;
  for (int i = 0; i < tail->op_count; i++) met[tail->op[i].kind] = true;
}

static void check_source(const upconv_plan *plan, uint64_t *hash) {
  char *source = source_of(plan);
  if (!source) return;
  const uc_cuda_engine *e = plan->state;
  CHECK_INT(count_of(source, "#define KERNEL_NAME "), e->kernel_count);
  CHECK_INT(count_of(source, "\n// packing for "), 1);
  CHECK(!strstr(source, "(null)"));
  uint64_t now = hash_of(source);
  CHECK(*hash == 0 || *hash == now);
  *hash = now;
  CHECK_FREE(source);
}

/* What says that a candidate applies, in COVERING_...; 0: it always does. */
static int flag_of(const char *candidate) {
  static const struct {
    const char *candidate;
    int flag;
  } flags[] = {{"cuda-mma", COVERING_MMA},     {"cuda-gemm", COVERING_GEMM},
               {"cuda-phase", COVERING_PHASE}, {"cuda-depthwise", COVERING_DEPTHWISE},
               {"cuda-flat", COVERING_FLAT},   {"cuda-scatter", COVERING_SCATTER},
               {"cuda-panel", COVERING_PANEL}};
  for (size_t i = 0; i < CHECK_COUNT(flags); i++)
    if (strcmp(flags[i].candidate, candidate) == 0) return flags[i].flag;
  return 0;
}

/* Those of sm_90a alone, which are one of several for most that they take: some cases must have them, others may. */
static bool is_hoppers(const char *candidate) {
  return (flag_of(candidate) & (COVERING_PHASE | COVERING_PANEL)) != 0;
}

static bool applies(const upconv_context *context, const covering_case *c, const char *candidate) {
  int flag = flag_of(candidate),
      tensor_cores = COVERING_MMA | COVERING_GEMM | COVERING_FLAT | COVERING_SCATTER;
  if (flag & tensor_cores && context->target->major < 8) return false;
  if (is_hoppers(candidate) && strcmp(context->target->arch, "sm_90a") != 0) return false;
  return flag == 0 || c->expect & flag;
}

/* One candidate of one case; the hash is that of an earlier time, or 0. */
static void check_case(upconv_context *context, const covering_case *c, const char *candidate,
                       bool *met, uint64_t *hash) {
  bool refused, ffma = strcmp(candidate, "cuda-ffma") == 0;
  upconv_plan *plan = plan_for(context, c->text, candidate, &refused);
  bool expected = applies(context, c, candidate);
  if (expected || !is_hoppers(candidate) || strcmp(context->target->arch, "sm_90a") != 0)
    CHECK_INT(!refused, expected);
  if (!plan) return;
  mark_operators(plan, met);
  if (ffma) CHECK_INT(passes_of(plan), c->expect & COVERING_PASSES);
  check_source(plan, hash);
  upconv_plan_destroy(plan);
}

/* Each is what its family says, and comes out the same whatever was generated before it; once alone under a tool that makes it slow. */
static void covering_set(void) {
  static uint64_t hash[MOST_SOURCES];
  bool met[UPCONV_OP_COUNT] = {false};
  size_t all = covering_case_count * CHECK_COUNT(archs) * CHECK_COUNT(candidates);
  if (!CHECK(covering_case_count >= 60 && all <= MOST_SOURCES)) return;
  size_t turns = getenv("UPCONV_LAUNCHER") ? 1 : 2;
  for (size_t turn = 0; turn < turns * CHECK_COUNT(archs); turn++) {
    bool again = turn >= CHECK_COUNT(archs);
    size_t a = turn % CHECK_COUNT(archs);
    upconv_context *context = open_for(archs[a]);
    for (size_t i = 0; context && i < covering_case_count; i++) {
      size_t c = again ? covering_case_count - 1 - i : i;
      check_context("%s: %s", archs[a], covering_cases[c].text);
      for (size_t k = 0; k < CHECK_COUNT(candidates); k++)
        check_case(context, &covering_cases[c], candidates[k], met,
                   &hash[(a * covering_case_count + c) * CHECK_COUNT(candidates) + k]);
    }
    upconv_context_destroy(context);
  }
  check_context(NULL);
  for (int k = 0; k < UPCONV_OP_COUNT; k++)
    CHECK_MSG(met[k], "no case generates code for %s", upconv_op_name((upconv_op_kind)k));
}

/* Threads load windows by themselves where groups have few input channels, with neighbours along W side by side. */
static void windows_directly(void) {
  static const struct {
    const char *text;
    bool direct;
  } cases[] = {{"n128 ci3 co16 in16x32x32 k3 s2 p1 bias math=ieee | avg_pool 2 | add @b", true},
               {"n16 ci12 co48 g4 in16x32x32 k3 s2 p1 op1 math=ieee", true},
               {"ci3 co16 in9 k3 s2 xlayout=ndhwc", false},
               {"ci8 co16 in9x9 k3 s2", false},
               {"ci3 co16 in9x9 k7 s1 p3", false}};
  for (size_t i = 0; i < CHECK_COUNT(cases); i++) {
    char *source = source_for("cuda:sm_90a", cases[i].text, "cuda-ffma");
    if (!source) continue;
    CHECK_MSG((strstr(source, "#define DIRECT 1\n") != NULL) == cases[i].direct, "%s",
              cases[i].text);
    CHECK_FREE(source);
  }
}

/* Two different problems never have one source: the cache would mix them up. */
static void sources_differ(void) {
  static const char *const texts[] = {"ci4 co4 in8 k3 s2",
                                      "ci4 co4 in8 k3 s2 p1",
                                      "ci4 co4 in8 k3 s2 p0 pe1",
                                      "ci4 co4 in8 k3 s2 x=f16",
                                      "ci4 co4 in8 k3 s2 y=f16",
                                      "ci4 co4 in8 k3 s2 | relu",
                                      "ci4 co4 in8 k3 s2 g2",
                                      "ci4 co4 in8 k3 s2 | mul 2 | relu",
                                      "ci4 co4 in8 k3 s2 | gelu",
                                      "ci4 co4 in8 k3 s2 | elu 0.5",
                                      "ci4 co4 in8 k3 s2 | elu 0.25",
                                      "ci4 co4 in8 k3 s2 | tanh | add @a",
                                      "ci4 co4 in8 k3 s2 | tanh | add @a[]",
                                      "ci4 co4 in8 k3 s2 | tanh | add #a",
                                      "ci4 co4 in8 k3 s2 | tanh | add #a:f16"};
  uint64_t hash[CHECK_COUNT(texts)] = {0};
  for (size_t i = 0; i < CHECK_COUNT(texts); i++) {
    char *source = source_for("cuda:sm_90a", texts[i], "cuda-ffma");
    if (!source) continue;
    hash[i] = hash_of(source);
    for (size_t j = 0; j < i; j++) CHECK_MSG(hash[i] != hash[j], "%s and %s", texts[i], texts[j]);
    CHECK_FREE(source);
  }
}

int main(int argc, char **argv) {
  setenv("UPCONV_NVRTC", FAKE, 1);
  setenv("UPCONV_CACHE_DIR", "", 1);
  static const check_test tests[] = {
      {"without_compiler", without_compiler}, /* first: before this process has found one */
      {"unknown_architectures", unknown_architectures},
      {"nothing_to_run_on", nothing_to_run_on},
      {"source_needs_cuda", source_needs_cuda},
      {"founding_models", founding_models},
      {"layers_in_registers", layers_in_registers},
      {"residues_as_rows", residues_as_rows},
      {"channels_as_rows", channels_as_rows},
      {"lanes_that_meet", lanes_that_meet},
      {"parts_and_sums", parts_and_sums},
      {"last_channels", last_channels},
      {"long_tails_once", long_tails_once},
      {"long_runs", long_runs},
      {"teams_and_copies", teams_and_copies},
      {"channels_beyond", channels_beyond},
      {"four_warps", four_warps},
      {"flattened_depths", flattened_depths},
      {"strips_of_cells", strips_of_cells},
      {"many_channels", many_channels},
      {"tables_that_do_not_fit", tables_that_do_not_fit},
      {"scaled_sums", scaled_sums},
      {"covering_set", covering_set},
      {"windows_directly", windows_directly},
      {"sources_differ", sources_differ},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
