/* SPDX-License-Identifier: Apache-2.0 */
// timeout: 300
/*
 * Folders of ONNX's backend tests: the official ones, where they are installed, and the graphs of
 * PyTorch's exporters in tests/data. What the library understands must be right; what it refuses
 * must be something that it is known not to have.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "onnx/onnx.h"

enum { MOST = 16 };

typedef struct counts {
  int passed, refused;
} counts;

static upconv_context *context;

/* Operators without which a graph is refused by name are not listed: "operator X is not
   supported" says enough. */
static bool is_known_refusal(const char *message) {
  static const char *const known[] = {
      "operator ",       /* ... is not supported */
      "(string)",        /* type */
      "is not a tensor", /* sequences, optionals */
      "'cubic'",         /* Resize */
      "'linear'",
      "output 1 (", /* indices of MaxPool, statistics of BatchNormalization */
      "'training_mode'",
      "input 'indices' is not a constant list", /* Gather from data, or of matrices */
      "input 'like' has rank 1", /* data that contradict their own model, in ONNX 1.12 */
  };
  for (size_t i = 0; i < CHECK_COUNT(known); i++)
    if (strstr(message, known[i])) return true;
  return false;
}

/* A relative 1e-3 and an absolute 1e-7, as ONNX's own runner; half precision within two units of
   its last place. */
static bool near_enough(uc_onnx_dtype dtype, double got, double wanted) {
  double relative = dtype == UC_ONNX_FLOAT16 ? 0x1p-9 : dtype == UC_ONNX_BFLOAT16 ? 0x1p-6 : 1e-3;
  if (isnan(got) || isnan(wanted)) return isnan(got) && isnan(wanted);
  return got == wanted || fabs(got - wanted) <= 1e-7 + relative * fabs(wanted);
}

static void compare(const uc_onnx_tensor *got, const uc_onnx_tensor *wanted) {
  int64_t count;
  bool same = got->dtype == wanted->dtype && got->rank == wanted->rank;
  for (int i = 0; same && i < got->rank; i++) same = got->shape[i] == wanted->shape[i];
  if (!CHECK_MSG(same, "type %s, rank %d", uc_onnx_dtype_name(got->dtype), got->rank)) return;
  CHECK(uc_onnx_tensor_elements(got, &count));
  for (int64_t i = 0; i < count; i++) {
    double a = uc_onnx_get(got->data, got->dtype, i), b = uc_onnx_get(wanted->data, got->dtype, i);
    if (!CHECK_MSG(near_enough(got->dtype, a, b), "[%lld] is %.9g, not %.9g", (long long)i, a, b))
      return;
  }
}

/* ONNX 1.12 stored bfloat16 as uint16. */
static void read_tensor(const char *folder, int set, const char *kind, int index,
                        uc_onnx_dtype wanted, uc_onnx_tensor *tensor) {
  char path[1024];
  snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%d.pb", folder, set, kind, index);
  if (!CHECK_STATUS(uc_onnx_tensor_read(path, tensor), UPCONV_OK)) return;
  free(tensor->name);
  tensor->name = NULL;
  if (tensor->dtype == UC_ONNX_UINT16 && wanted == UC_ONNX_BFLOAT16) tensor->dtype = wanted;
}

/* The oracle agrees with the run, too. */
static void verify(uc_onnx_session *session, const uc_onnx_tensor *in, int inputs,
                   const uc_onnx_tensor *out, int outputs) {
  uc_onnx_result results[MOST] = {{.name = NULL}};
  if (!CHECK_STATUS(uc_onnx_reference(session, in, inputs, NULL, results, outputs), UPCONV_OK))
    return;
  for (int i = 0; i < outputs; i++) {
    double worst;
    CHECK_STATUS(uc_onnx_compare(&out[i], &results[i], &worst, NULL), UPCONV_OK);
    CHECK_MSG(worst <= 1, "output %d: %g of the bound", i, worst);
    uc_onnx_result_free(&results[i]);
  }
}

/* One data set: inputs, a run, outputs. */
static upconv_status run_set(uc_onnx_session *session, const uc_onnx_model *model,
                             const char *folder, int set, bool oracle) {
  uc_onnx_tensor in[MOST] = {{.name = NULL}}, out[MOST] = {{.name = NULL}};
  int inputs = uc_onnx_model_input_count(model), outputs = uc_onnx_model_output_count(model);
  if (!CHECK(inputs <= MOST && outputs <= MOST)) return UPCONV_OK;
  for (int i = 0; i < inputs; i++)
    read_tensor(folder, set, "input", i, uc_onnx_model_input(model, i)->dtype, &in[i]);
  upconv_status status = uc_onnx_run(session, in, inputs, out, outputs);
  for (int i = 0; i < outputs && !status; i++) {
    uc_onnx_tensor wanted = {.name = NULL};
    read_tensor(folder, set, "output", i, out[i].dtype, &wanted);
    compare(&out[i], &wanted);
    uc_onnx_tensor_free(&wanted);
  }
  if (!status && oracle) verify(session, in, inputs, out, outputs);
  for (int i = 0; i < MOST; i++) {
    uc_onnx_tensor_free(&in[i]);
    uc_onnx_tensor_free(&out[i]);
  }
  return status;
}

static void run_folder(const char *folder, bool oracle, counts *c) {
  char path[1024];
  uc_onnx_model *model = NULL;
  uc_onnx_session *session = NULL;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  if (access(path, F_OK) != 0) return;
  check_context("%s", folder);
  upconv_status status = uc_onnx_model_load(path, &model);
  if (!status) status = uc_onnx_session_create(model, context, NULL, &session);
  for (int set = 0; !status; set++) {
    snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
    if (access(path, F_OK) != 0) break;
    status = run_set(session, model, folder, set, oracle);
  }
  if (!status)
    c->passed++;
  else if (CHECK_MSG(is_known_refusal(upconv_last_error()), "%s", upconv_last_error()))
    c->refused++;
  uc_onnx_session_destroy(session);
  uc_onnx_model_destroy(model);
  check_context(NULL);
}

static counts run_folders(const char *parent, bool oracle) {
  counts c = {0, 0};
  DIR *directory = opendir(parent);
  if (!CHECK_MSG(directory, "cannot open %s", parent)) return c;
  if (!CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK)) return c;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char folder[768];
    if (entry->d_name[0] == '.') continue;
    snprintf(folder, sizeof folder, "%s/%s", parent, entry->d_name);
    run_folder(folder, oracle, &c);
  }
  upconv_context_destroy(context);
  closedir(directory);
  return c;
}

/* At least `least` pass, and no more than `most` are refused. */
static void official(const char *name, int least, int most) {
  const char *root = getenv("UPCONV_ONNX_TESTDATA");
  char parent[512];
  if (!root) CHECK_SKIP("ONNX's test data are not installed");
  snprintf(parent, sizeof parent, "%s/%s", root, name);
  counts c = run_folders(parent, false);
  CHECK_MSG(c.passed >= least && c.refused <= most, "%d passed, %d refused", c.passed, c.refused);
}

static void node(void) { official("node", 493, 440); }
static void pytorch_converted(void) { official("pytorch-converted", 80, 2); }
static void pytorch_operator(void) { official("pytorch-operator", 35, 0); }
static void simple(void) { official("simple", 6, 17); }

static void exported(void) {
  counts c = run_folders(UPCONV_TEST_DATA "/exported", true);
  CHECK_MSG(c.passed >= 85 && c.refused == 0, "%d passed, %d refused", c.passed, c.refused);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"node", node},
      {"pytorch_converted", pytorch_converted},
      {"pytorch_operator", pytorch_operator},
      {"simple", simple},
      {"exported", exported},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
