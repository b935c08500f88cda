/* SPDX-License-Identifier: Apache-2.0 */
/* upconv test: runs the folders of ONNX's backend tests. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "model.h"
#include "progress.h"
#include "units.h"

typedef struct test_values {
  arg_list folders;
  const char *device;
  int threads;
  bool verbose;
} test_values;

#ifdef UPCONV_WITH_ONNX

/* What ONNX's own backend runner allows. */
static const double RTOL = 1e-3, ATOL = 1e-7;

enum { MAX_DEPTH = 8 };

typedef struct names {
  char **name;
  int count, capacity;
} names;

typedef struct tester {
  const test_values *values;
  upconv_context *context;
  names folders; /* that hold a model.onnx */
  int passed, failed;
} tester;

/* ---- folders */

static bool names_add(names *list, char *name) {
  if (list->count == list->capacity) {
    int capacity = list->capacity ? 2 * list->capacity : 16;
    char **grown = realloc(list->name, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    list->name = grown;
    list->capacity = capacity;
  }
  list->name[list->count++] = name;
  return true;
}

static void names_free(names *list) {
  for (int i = 0; i < list->count; i++) free(list->name[i]);
  free(list->name);
  *list = (names){0};
}

/* Digits count as numbers, so that test_data_set_10 follows test_data_set_9. */
static int compare_names(const void *a, const void *b) {
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

static char *join_path(const char *folder, const char *name) {
  char *path = NULL;
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  return asprintf(&path, "%.*s/%s", (int)length, folder, name) < 0 ? NULL : path;
}

/* Names in a folder, without those that start with a dot, sorted. */
static bool list_folder(const char *path, names *list) {
  DIR *folder = opendir(path);
  if (!folder) return false;
  bool good = true;
  for (struct dirent *entry; good && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char *name = strdup(entry->d_name);
    good = name && names_add(list, name);
    if (!good) free(name);
  }
  closedir(folder);
  if (list->count) qsort(list->name, (size_t)list->count, sizeof *list->name, compare_names);
  return good;
}

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_file(const char *folder, const char *name) {
  char *path = join_path(folder, name);
  bool there = path && access(path, F_OK) == 0;
  free(path);
  return there;
}

/* Adds the folder if it holds a model, else looks into its folders. */
static int find_tests(tester *t, const char *folder, int depth) {
  if (has_file(folder, "model.onnx")) {
    char *name = strdup(folder);
    if (name && names_add(&t->folders, name)) return CLI_RIGHT;
    free(name);
    return cli_fail("test: out of memory");
  }
  names inside = {0};
  int code = CLI_RIGHT;
  if (!list_folder(folder, &inside)) code = cli_fail("test: %s: %s", folder, strerror(errno));
  for (int i = 0; i < inside.count && code == CLI_RIGHT && depth < MAX_DEPTH; i++) {
    char *path = join_path(folder, inside.name[i]);
    if (!path)
      code = cli_fail("test: out of memory");
    else if (is_folder(path))
      code = find_tests(t, path, depth + 1);
    free(path);
  }
  names_free(&inside);
  return code;
}

/* ---- one test */

static bool element_matches(double got, double wanted) {
  if (isnan(got) || isnan(wanted)) return isnan(got) && isnan(wanted);
  if (isinf(got) || isinf(wanted)) return got == wanted;
  return fabs(got - wanted) <= ATOL + RTOL * fabs(wanted);
}

/* "[1, 0, 7]" of an element. */
static const char *place(const uc_onnx_tensor *tensor, int64_t index, char text[UNITS_SHAPE_SIZE]) {
  int64_t at[UC_ONNX_MAX_RANK];
  for (int axis = tensor->rank - 1; axis >= 0; axis--) {
    at[axis] = index % tensor->shape[axis];
    index /= tensor->shape[axis];
  }
  return units_shape(tensor->rank, at, text);
}

static bool same_shape(const uc_onnx_tensor *a, const uc_onnx_tensor *b) {
  size_t size = (size_t)a->rank * sizeof *a->shape;
  return a->rank == b->rank && memcmp(a->shape, b->shape, size) == 0;
}

static bool compare(const char *name, const uc_onnx_tensor *got, const uc_onnx_tensor *wanted,
                    cli_error *why) {
  char a[UNITS_SHAPE_SIZE], b[UNITS_SHAPE_SIZE];
  if (got->dtype != wanted->dtype)
    return cli_error_set(why, "output %s: type %s instead of %s", name,
                         uc_onnx_dtype_name(got->dtype), uc_onnx_dtype_name(wanted->dtype));
  if (!same_shape(got, wanted))
    return cli_error_set(why, "output %s: shape %s instead of %s", name,
                         units_shape(got->rank, got->shape, a),
                         units_shape(wanted->rank, wanted->shape, b));
  int64_t count, wrong = 0, first = 0;
  if (!uc_onnx_tensor_elements(got, &count))
    return cli_error_set(why, "output %s: not a tensor of numbers", name);
  for (int64_t i = 0; i < count; i++) {
    if (element_matches(uc_onnx_get(got->data, got->dtype, i),
                        uc_onnx_get(wanted->data, wanted->dtype, i)))
      continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return true;
  return cli_error_set(why,
                       "output %s: %" PRId64 " of %" PRId64
                       " elements are wrong, the first at %s: %.9g instead of %.9g",
                       name, wrong, count, place(got, first, a),
                       uc_onnx_get(got->data, got->dtype, first),
                       uc_onnx_get(wanted->data, wanted->dtype, first));
}

static bool library_error(cli_error *why) { return cli_error_set(why, "%s", upconv_last_error()); }

/* Reads folder/KIND_0.pb, KIND_1.pb, ... Returns how many, or -1. */
static int read_tensors(const char *folder, const char *kind, uc_onnx_tensor *tensor, int limit,
                        cli_error *why) {
  int count = 0;
  for (;; count++) {
    char name[32];
    snprintf(name, sizeof name, "%s_%d.pb", kind, count);
    if (!has_file(folder, name)) return count;
    if (count == limit) {
      cli_error_set(why, "%s: the model has only %d %ss", name, limit, kind);
      return -1;
    }
    char *path = join_path(folder, name);
    bool good = path && uc_onnx_tensor_read(path, &tensor[count]) == UPCONV_OK;
    if (!path)
      cli_error_set(why, "out of memory");
    else if (!good)
      library_error(why);
    free(path);
    if (!good) return -1;
  }
}

static bool run_on(model_run *run, const uc_onnx_tensor *inputs, int input_count,
                   const uc_onnx_tensor *wanted, int wanted_count, uc_onnx_tensor *outputs,
                   cli_error *why) {
  /* The files' tensors go by their number; the names in them are not always the model's. */
  for (int i = 0; i < input_count; i++) {
    run->inputs[i] = inputs[i];
    run->inputs[i].name = NULL;
  }
  if (uc_onnx_run(run->session, run->inputs, input_count, outputs, wanted_count) != UPCONV_OK)
    return library_error(why);
  for (int i = 0; i < wanted_count; i++)
    if (!compare(uc_onnx_model_output(run->model, i)->name, &outputs[i], &wanted[i], why))
      return false;
  return true;
}

static bool run_data_set(model_run *run, const char *folder, cli_error *why) {
  size_t input_room = (size_t)run->input_count + 1, output_room = (size_t)run->output_count + 1;
  uc_onnx_tensor *inputs = calloc(input_room, sizeof *inputs);
  uc_onnx_tensor *wanted = calloc(output_room, sizeof *wanted);
  uc_onnx_tensor *outputs = calloc(output_room, sizeof *outputs);
  bool good = inputs && wanted && outputs;
  if (!good) cli_error_set(why, "out of memory");
  int input_count = good ? read_tensors(folder, "input", inputs, run->input_count, why) : -1;
  int wanted_count = -1;
  if (input_count >= 0)
    wanted_count = read_tensors(folder, "output", wanted, run->output_count, why);
  if (wanted_count == 0) cli_error_set(why, "%s holds no output_0.pb", folder);
  good = wanted_count > 0 && run_on(run, inputs, input_count, wanted, wanted_count, outputs, why);
  for (int i = 0; i < run->input_count && inputs; i++) uc_onnx_tensor_free(&inputs[i]);
  for (int i = 0; i < run->output_count && wanted && outputs; i++) {
    uc_onnx_tensor_free(&wanted[i]);
    uc_onnx_tensor_free(&outputs[i]);
  }
  for (int i = 0; i < run->input_count; i++) run->inputs[i] = (uc_onnx_tensor){0};
  free(inputs);
  free(wanted);
  free(outputs);
  return good;
}

static bool run_data_sets(model_run *run, const char *folder, cli_error *why) {
  names inside = {0};
  bool good = list_folder(folder, &inside);
  if (!good) cli_error_set(why, "%s", strerror(errno));
  int sets = 0;
  for (int i = 0; i < inside.count && good; i++) {
    if (strncmp(inside.name[i], "test_data_set", 13) != 0) continue;
    char *path = join_path(folder, inside.name[i]);
    good = path && run_data_set(run, path, why);
    if (!path) cli_error_set(why, "out of memory");
    free(path);
    sets++;
  }
  names_free(&inside);
  if (good && sets == 0) return cli_error_set(why, "the folder holds no test_data_set_0");
  return good;
}

static bool run_test(tester *t, const char *folder, cli_error *why) {
  char *path = join_path(folder, "model.onnx");
  if (!path) return cli_error_set(why, "out of memory");
  model_run run = {.command = "test", .path = path};
  bool good = false;
  if (uc_onnx_model_load(path, &run.model) != UPCONV_OK ||
      uc_onnx_session_create(run.model, t->context, NULL, &run.session) != UPCONV_OK) {
    library_error(why);
  } else {
    run.output_count = uc_onnx_model_output_count(run.model);
    run.input_count = uc_onnx_model_input_count(run.model);
    run.inputs = calloc((size_t)run.input_count + 1, sizeof *run.inputs);
    good = run.inputs ? run_data_sets(&run, folder, why) : cli_error_set(why, "out of memory");
  }
  free(run.inputs);
  uc_onnx_session_destroy(run.session);
  uc_onnx_model_destroy(run.model);
  free(path);
  return good;
}

/* ---- all tests */

static void run_tests(tester *t) {
  progress_start("running the tests", t->folders.count);
  for (int i = 0; i < t->folders.count; i++) {
    cli_error why;
    const char *folder = t->folders.name[i];
    if (run_test(t, folder, &why)) {
      t->passed++;
      if (t->values->verbose) {
        progress_clear();
        cli_print_line("pass %s", folder);
      }
    } else {
      t->failed++;
      progress_clear();
      cli_print_line("FAIL %s: %s", folder, why.text);
    }
    progress_update(i + 1);
  }
  progress_end();
}

static int test_all(tester *t) {
  for (int i = 0; i < t->values->folders.count; i++) {
    int before = t->folders.count;
    const char *folder = t->values->folders.item[i];
    int code = find_tests(t, folder, 0);
    if (code) return code;
    if (t->folders.count == before) return cli_fail("test: %s: holds no model.onnx", folder);
  }
  run_tests(t);
  printf("%d passed, %d failed\n", t->passed, t->failed);
  return t->failed ? CLI_WRONG : CLI_RIGHT;
}

static int run(const void *values) {
  tester t = {.values = values};
  int code = open_context("test", t.values->device, t.values->threads, &t.context);
  if (code) return code;
  code = test_all(&t);
  names_free(&t.folders);
  upconv_context_destroy(t.context);
  return code;
}

#else

static int run(const void *values) {
  (void)values;
  return fail_without_onnx("test");
}

#endif

static const arg_option options[] = {
    {"verbose", ARG_FLAG, NULL, offsetof(test_values, verbose), 0, 0,
     "names the tests that pass as well"},
    {"device", ARG_TEXT, "NAME", offsetof(test_values, device), 0, 0, DEVICE_HELP},
    {"threads", ARG_COUNT, "N", offsetof(test_values, threads), 1, MAX_THREADS,
     "CPU threads; as many as there are if not given"},
};

const arg_command command_test = {
    .name = "test",
    .summary = "Runs folders of ONNX's backend tests.",
    .usage = "DIR... [OPTION...]",
    .details = "A test is a folder with model.onnx and test_data_set_0/input_0.pb, output_0.pb and "
               "so on; folders without a model are searched for such folders. Outputs must agree "
               "with the stored ones in type, in shape, and in value to a relative 1e-3 plus 1e-7. "
               "Each failure is named; the last line is 'N passed, N failed', and the exit code 1 "
               "if any failed.",
    .examples = "  upconv test /usr/share/libonnx-testdata/data/node/test_convtranspose*\n"
                "  upconv test build/node --verbose\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .values_size = sizeof(test_values),
    .positionals = offsetof(test_values, folders),
    .min_positionals = 1,
    .max_positionals = -1,
    .positional = "folder",
    .run = run,
};
