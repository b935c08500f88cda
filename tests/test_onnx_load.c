/* SPDX-License-Identifier: Apache-2.0 */
// labels: valgrind
/* Reading models: what good ones say, and that bad ones end in one line that names what is
   wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "onnx_case.h"

/* ---- helpers ---- */

static void put_file(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!CHECK(file)) return;
  CHECK(fwrite(data, 1, size, file) == size);
  fclose(file);
}

/* A folder of this test's own; its parts are removed by remove_folder. */
static char folder[64];
static void make_folder(void) {
  strcpy(folder, "/tmp/upconv-test-XXXXXX");
  CHECK(mkdtemp(folder));
}

static const char *in_folder(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void remove_folder(void) {
  static const char *const names[] = {"model.onnx", "w.bin", "sub/w.bin", "sub",
                                      "link",       "pipe",  "t.pb"};
  for (size_t i = 0; i < CHECK_COUNT(names); i++) remove(in_folder(names[i]));
  CHECK_INT(rmdir(folder), 0);
}

/* The last message: one line, and all of these words. */
static void message_has(const char *first, const char *second) {
  const char *message = upconv_last_error();
  CHECK_MSG(strstr(message, first) && (!second || strstr(message, second)), "'%s' and '%s' in: %s",
            first, second ? second : "", message);
  CHECK(strchr(message, '\n') == NULL);
}

/* Parsing the model fails with these words. */
static void refused(onnx_build *b, const char *first, const char *second) {
  uc_onnx_model *model = NULL;
  onnx_end(b);
  upconv_status status = uc_onnx_model_parse(b->data, b->size, NULL, &model);
  CHECK(status != UPCONV_OK && model == NULL);
  if (status)
    message_has(first, second);
  else
    uc_onnx_model_destroy(model);
  onnx_free(b);
}

/* It parses, but its session, or the plan for shapes of 2, fails with these words. */
static void not_planned(onnx_build *b, const char *first, const char *second) {
  upconv_context *context;
  uc_onnx_model *model;
  uc_onnx_session *session = NULL;
  uc_onnx_tensor inputs[4];
  size_t length;
  onnx_end(b);
  CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK);
  upconv_status status = uc_onnx_model_parse(b->data, b->size, NULL, &model);
  onnx_free(b);
  if (!CHECK_STATUS(status, UPCONV_OK)) return;
  int count = uc_onnx_model_input_count(model);
  status = uc_onnx_session_create(model, context, NULL, &session);
  for (int i = 0; i < count && i < 4; i++)
    CHECK_STATUS(uc_onnx_model_input_tensor(model, i, NULL, 0, 2, &inputs[i]), UPCONV_OK);
  if (!status) status = uc_onnx_print(session, inputs, count, false, NULL, 0, &length);
  CHECK(status != UPCONV_OK);
  if (status) message_has(first, second);
  uc_onnx_session_destroy(session);
  uc_onnx_model_destroy(model);
  upconv_context_destroy(context);
}

static onnx_build small_model(void) {
  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "N,2,H");
  onnx_random(&b, "w", "2,3,4", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_ints(&b, "strides", "2");
  onnx_node(&b, "Relu", "c", "y");
  onnx_output(&b, "y");
  return b;
}

/* ---- good models ---- */

static void inputs_and_symbols(void) {
  onnx_build b = small_model();
  uc_onnx_model *model;
  uc_onnx_tensor t;
  onnx_input(&b, "w", ONNX_FLOAT, "2,3,4"); /* an initialiser as well: no input */
  onnx_end(&b);
  if (!CHECK_STATUS(uc_onnx_model_parse(b.data, b.size, NULL, &model), UPCONV_OK)) return;
  CHECK_INT(uc_onnx_model_input_count(model), 1);
  CHECK_INT(uc_onnx_model_output_count(model), 1);
  CHECK(uc_onnx_model_input(model, 1) == NULL);
  CHECK(uc_onnx_model_output(model, -1) == NULL);
  const uc_onnx_value_info *info = uc_onnx_model_input(model, 0);
  CHECK_STR(info->name, "x");
  CHECK_INT(info->dtype, UC_ONNX_FLOAT);
  CHECK_INT(info->rank, 3);
  CHECK_INT(info->shape[0], -1);
  CHECK_STR(info->symbol[0], "N");
  CHECK_INT(info->shape[1], 2);
  CHECK_STR(info->symbol[1], NULL);
  CHECK_STR(uc_onnx_model_output(model, 0)->name, "y");
  CHECK_INT(uc_onnx_model_output(model, 0)->rank, -1);
  const uc_onnx_binding bindings[] = {{"H", 5}};
  CHECK_STATUS(uc_onnx_model_input_tensor(model, 0, bindings, 1, 7, &t), UPCONV_OK);
  CHECK(t.shape[0] == 7 && t.shape[1] == 2 && t.shape[2] == 5 && !t.data);
  CHECK_STATUS(uc_onnx_model_input_tensor(model, 0, bindings, 1, -1, &t), UPCONV_INVALID_ARGUMENT);
  message_has("'x'", "'N'");
  uc_onnx_model_destroy(model);
  onnx_free(&b);
}

/* A file may list nodes in any order; values are found all the same. */
static void nodes_out_of_order(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "x", ONNX_FLOAT, "2,2,5");
  onnx_random(&b, "w", "2,3,4", 1);
  onnx_node(&b, "Tanh", "r", "y");
  onnx_node(&b, "Relu", "c", "r");
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 1, NULL) && onnx_case_steps(&c, 1, 0)) onnx_case_run(&c);
  onnx_case_close(&c);
}

/* A node that no output needs may be anything. */
static void dead_nodes(void) {
  onnx_build b = small_model();
  onnx_case c;
  onnx_node(&b, "NotAnOperator", "c", "z");
  if (onnx_case_open(&c, &b, 2, NULL)) onnx_case_run(&c);
  onnx_case_close(&c);
}

static void tensors_round_trip(void) {
  static const uc_onnx_dtype types[] = {
      UC_ONNX_FLOAT, UC_ONNX_DOUBLE, UC_ONNX_FLOAT16, UC_ONNX_BFLOAT16, UC_ONNX_INT8,
      UC_ONNX_UINT8, UC_ONNX_INT16,  UC_ONNX_UINT16,  UC_ONNX_INT32,    UC_ONNX_UINT32,
      UC_ONNX_INT64, UC_ONNX_UINT64, UC_ONNX_BOOL};
  make_folder();
  for (size_t i = 0; i < CHECK_COUNT(types); i++) {
    char name[] = "t";
    uint64_t data[6] = {0};
    uc_onnx_tensor got,
        t = {.name = name, .dtype = types[i], .rank = 2, .shape = {2, 3}, .data = data};
    size_t bytes;
    for (int k = 0; k < 6; k++) uc_onnx_set(data, types[i], k, k);
    CHECK_STATUS(uc_onnx_tensor_write(in_folder("t.pb"), &t), UPCONV_OK);
    if (!CHECK_STATUS(uc_onnx_tensor_read(in_folder("t.pb"), &got), UPCONV_OK)) break;
    CHECK(got.owned && got.dtype == types[i] && got.rank == 2 && got.shape[1] == 3);
    CHECK_STR(got.name, "t");
    CHECK(uc_onnx_tensor_bytes(&got, &bytes) && memcmp(got.data, data, bytes) == 0);
    CHECK_NEAR(uc_onnx_get(got.data, types[i], 5), types[i] == UC_ONNX_BOOL ? 1 : 5, 0);
    uc_onnx_tensor_free(&got);
    CHECK(got.data == NULL);
  }
  remove_folder();
}

/* ---- damaged bytes ---- */

static void every_prefix(void) {
  onnx_build b = small_model();
  onnx_end(&b);
  int refusals = 0;
  for (size_t size = 0; size < b.size; size++) {
    uc_onnx_model *model = NULL;
    unsigned char *copy = malloc(size ? size : 1); /* exactly this long, so that reading on shows */
    if (!copy) abort();
    memcpy(copy, b.data, size);
    if (uc_onnx_model_parse(copy, size, NULL, &model))
      refusals++;
    else
      uc_onnx_model_destroy(model);
    free(copy);
  }
  /* A prefix can be complete only where a field of the model ends. */
  CHECK_MSG(refusals > (int)b.size - 4, "%d of %zu", refusals, b.size);
  onnx_free(&b);
}

/* Whatever survives a few wrong bytes is planned and run as well. */
static void flipped_bytes(void) {
  const uc_onnx_options options = {.memory_limit = 1 << 22};
  uint64_t seed = 11;
  upconv_context *context;
  onnx_build b = small_model();
  onnx_end(&b);
  CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK);
  int refused_count = 0, ran = 0;
  for (int round = 0; round < 3000; round++) {
    unsigned char *copy = malloc(b.size);
    uc_onnx_model *model;
    uc_onnx_session *session = NULL;
    if (!copy) abort();
    memcpy(copy, b.data, b.size);
    for (int64_t k = check_random_range(&seed, 1, 3); k > 0; k--)
      copy[check_random_range(&seed, 0, (int64_t)b.size - 1)] = (unsigned char)check_random(&seed);
    if (uc_onnx_model_parse(copy, b.size, NULL, &model)) {
      refused_count++;
    } else {
      uc_onnx_tensor input, output = {.name = NULL};
      float data[64] = {0};
      bool one = uc_onnx_model_input_count(model) == 1 &&
                 !uc_onnx_model_input_tensor(model, 0, NULL, 0, 2, &input);
      size_t bytes;
      if (one && uc_onnx_tensor_bytes(&input, &bytes) && bytes <= sizeof data &&
          !uc_onnx_session_create(model, context, &options, &session)) {
        input.data = data;
        if (!uc_onnx_run(session, &input, 1, &output, 1)) ran++;
        uc_onnx_tensor_free(&output);
      }
      uc_onnx_session_destroy(session);
      uc_onnx_model_destroy(model);
    }
    free(copy);
  }
  CHECK_MSG(refused_count > 300 && ran > 300, "%d refused, %d ran", refused_count, ran);
  upconv_context_destroy(context);
  onnx_free(&b);
}

/* Messages inside messages, without end. */
static void deep_nesting(void) {
  enum { DEPTH = 200000 };
  onnx_bytes inner = {0};
  uc_onnx_model *model;
  /* Built from the inside would be quadratic: tags and lengths are written into one buffer from
     the back. */
  size_t capacity = (size_t)DEPTH * 8 + 16, at = capacity;
  inner.data = malloc(capacity);
  if (!inner.data) abort();
  for (int i = 0; i < DEPTH; i++) {
    onnx_bytes head = {0};
    /* From the outside: model.graph (7), then graph.node (1), node.attribute (5), attribute.g
       (6) again and again. */
    static const int turn[] = {1, 5, 6};
    int outer = DEPTH - 1 - i, field = outer == 0 ? 7 : turn[(outer - 1) % 3];
    onnx_put_varint(&head, (uint64_t)field << 3 | 2);
    onnx_put_varint(&head, capacity - at);
    at -= head.size;
    memcpy(inner.data + at, head.data, head.size);
    free(head.data);
  }
  CHECK_STATUS(uc_onnx_model_parse(inner.data + at, capacity - at, NULL, &model),
               UPCONV_INVALID_ARGUMENT);
  message_has("not a complete ONNX", NULL);
  free(inner.data);
}

/* Two bytes a node would become hundreds of bytes in memory each. */
static void many_empty_nodes(void) {
  onnx_build b = onnx_begin(13);
  for (int i = 0; i < 300000; i++) onnx_put_bytes(&b.graph, 1, "", 0);
  refused(&b, "larger than memory allows", NULL);
  b = onnx_begin(13);
  for (int i = 0; i < 300000; i++) onnx_put_bytes(&b.graph, 1, "\x22\x04Relu", 6);
  refused(&b, "300000 nodes", NULL);
  b = onnx_begin(13);
  onnx_put_bytes(&b.graph, 1, "", 0);
  refused(&b, "no operator", "node 0");
}

static void not_a_model(void) {
  uc_onnx_model *model;
  CHECK_STATUS(uc_onnx_model_parse("hello", 5, NULL, &model), UPCONV_INVALID_ARGUMENT);
  CHECK_STATUS(uc_onnx_model_parse("", 0, NULL, &model), UPCONV_INVALID_ARGUMENT);
  message_has("no graph", NULL);
}

/* ---- graphs ---- */

static void wrong_graphs(void) {
  onnx_build b = small_model();
  onnx_node(&b, "Relu", "b", "a");
  onnx_node(&b, "Relu", "a", "b");
  refused(&b, "cycle", "Relu_");

  b = small_model();
  onnx_node(&b, "Tanh", "x", "y");
  refused(&b, "'y' is made twice", "Tanh_2");

  b = small_model();
  onnx_node(&b, "Tanh", "x", "w");
  refused(&b, "Tanh_2", "an initialiser already");

  b = small_model();
  onnx_node(&b, "Tanh", "nowhere", "z");
  refused(&b, "Tanh_2", "'nowhere', which nothing makes");

  b = small_model();
  onnx_output(&b, "nowhere");
  refused(&b, "graph output 'nowhere'", NULL);

  b = small_model();
  onnx_input(&b, "x", ONNX_FLOAT, "1");
  refused(&b, "two graph inputs are named 'x'", NULL);

  b = small_model();
  onnx_random(&b, "w", "1", 1);
  refused(&b, "two initialisers are named 'w'", NULL);

  b = small_model();
  onnx_input(&b, "s", 8, "1");
  refused(&b, "graph input 's'", "string");

  b = small_model();
  b.opset = 99;
  refused(&b, "operator set 99", "1 to");

  b = small_model();
  b.opset = 0;
  refused(&b, "operator set 0", NULL);
}

static void wrong_nodes(void) {
  onnx_build b = small_model();
  onnx_node(&b, "FancyNorm", "y", "z");
  onnx_output(&b, "z");
  not_planned(&b, "FancyNorm_2", "operator FancyNorm is not supported");

  b = small_model();
  onnx_node(&b, "Softmax", "y", "z");
  onnx_int(&b, "temperature", 3);
  onnx_output(&b, "z");
  not_planned(&b, "Softmax_2", "attribute 'temperature'");

  b = small_model();
  onnx_node(&b, "MaxPool", "y", "z,indices");
  onnx_ints(&b, "kernel_shape", "2");
  onnx_output(&b, "z");
  onnx_output(&b, "indices");
  not_planned(&b, "MaxPool_2", "output 1 ('indices')");

  b = small_model();
  onnx_node(&b, "MaxPool", "y", "z");
  onnx_ints(&b, "kernel_shape", "2");
  onnx_int(&b, "storage_order", 1);
  onnx_output(&b, "z");
  not_planned(&b, "MaxPool_2", "storage_order");

  b = small_model();
  onnx_random(&b, "k", "5", 2);
  onnx_node(&b, "Add", "y,k", "z");
  onnx_output(&b, "z");
  not_planned(&b, "Add_2", "[2,3,6] and [5]");

  b = small_model();
  onnx_node(&b, "Add", "y", "z");
  onnx_output(&b, "z");
  not_planned(&b, "Add_2", "has 1 inputs");

  b = small_model();
  onnx_node(&b, "Softmax", "y", "z");
  onnx_int(&b, "axis", 3);
  onnx_output(&b, "z");
  not_planned(&b, "Softmax_2", "axis is 3; allowed: -3 to 2");

  b = small_model();
  onnx_node(&b, "Resize", "y,,s", "z");
  onnx_string(&b, "mode", "cubic");
  onnx_floats(&b, "s", "3", (const float[]){1, 1, 2});
  onnx_output(&b, "z");
  not_planned(&b, "Resize_2", "'cubic'");

  b = small_model();
  onnx_node(&b, "Dropout", "y,,t", "z");
  onnx_input(&b, "t", ONNX_BOOL, "");
  onnx_output(&b, "z");
  not_planned(&b, "Dropout_2", "training_mode");
}

static void wrong_convolutions(void) {
  static const struct {
    const char *attribute, *values, *message;
  } table[] = {
      {"strides", "0", "strides[0] is 0"},
      {"strides", "2,2", "has 2 entries"},
      {"dilations", "-1", "dilations[0] is -1"},
      {"kernel_shape", "5", "kernel_shape[0] is 5; the weights have 4"},
      {"pads", "1", "'pads' has 1 entries"},
      {"output_padding", "1", "output_padding"},
      {"output_shape", "1,2", "'output_shape' has 2 entries"},
      {"pads", "100,100", "output"},
  };
  for (size_t i = 0; i < CHECK_COUNT(table); i++) {
    onnx_build b = onnx_begin(13);
    check_context("%s %s", table[i].attribute, table[i].values);
    onnx_input(&b, "x", ONNX_FLOAT, "N,2,H");
    onnx_random(&b, "w", "2,3,4", 1);
    onnx_node(&b, "ConvTranspose", "x,w", "y");
    onnx_ints(&b, table[i].attribute, table[i].values);
    onnx_output(&b, "y");
    not_planned(&b, "ConvTranspose_0", table[i].message);
  }
  check_context(NULL);

  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "N,5,H");
  onnx_random(&b, "w", "2,3,4", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "y");
  onnx_output(&b, "y");
  not_planned(&b, "ConvTranspose_0", "for 2 channels; the input has 5");

  b = onnx_begin(13);
  onnx_input(&b, "x", 11, "N,2,H");
  onnx_random(&b, "w", "2,3,4", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "y");
  onnx_output(&b, "y");
  not_planned(&b, "ConvTranspose_0", "type double");
}

/* Sizes that do not fit 64 bits, or memory. */
static void huge_sizes(void) {
  onnx_build b = small_model();
  onnx_int64s(&b, "s", "100000,100000,100000");
  onnx_node(&b, "ConstantOfShape", "s", "z");
  onnx_output(&b, "z");
  not_planned(&b, "ConstantOfShape_2", "bytes");

  b = small_model();
  onnx_int64s(&b, "s", "4000000000,4000000000,4000000000");
  onnx_node(&b, "Expand", "y,s", "z");
  onnx_output(&b, "z");
  not_planned(&b, "Expand_2", "do not fit together");

  b = small_model();
  onnx_int64s(&b, "s", "4000000000,4000000000,1,1,1");
  onnx_node(&b, "Expand", "y,s", "z");
  onnx_output(&b, "z");
  not_planned(&b, "Expand_2", "64 bits");

  b = small_model();
  onnx_int64s(&b, "s", "9223372036854775807,9223372036854775807,-1");
  onnx_node(&b, "Reshape", "y,s", "z");
  onnx_output(&b, "z");
  not_planned(&b, "Reshape_2", "64 bits");

  b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "4611686018427387904,4611686018427387904");
  onnx_node(&b, "Relu", "x", "y");
  onnx_output(&b, "y");
  not_planned(&b, "'x'", NULL);
}

/* ---- tensors ---- */

static onnx_build with_tensor(void) {
  onnx_build b = small_model();
  onnx_tensor_begin(&b, "t", ONNX_FLOAT);
  return b;
}

static void wrong_tensors(void) {
  const float data[4] = {0};
  onnx_build b = with_tensor();
  onnx_tensor_dims(&b, "2,3");
  onnx_tensor_raw(&b, data, sizeof data);
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "holds 16 bytes; the shape needs 24");

  b = with_tensor();
  onnx_tensor_dims(&b, "2,-3");
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "dims[1] is -3");

  b = with_tensor();
  onnx_tensor_dims(&b, "4294967296,4294967296,16");
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "64 bits");

  b = with_tensor();
  onnx_tensor_dims(&b, "4");
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "holds 0 numbers of type float; the shape needs 4");

  b = with_tensor();
  onnx_tensor_dims(&b, "1,1,1,1,1,1,1,1,1");
  onnx_tensor_raw(&b, data, 4);
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "rank 9");

  b = small_model();
  onnx_tensor_begin(&b, "t", 17); /* float8 */
  onnx_tensor_dims(&b, "1");
  onnx_tensor_raw(&b, data, 1);
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "data type 17");

  b = with_tensor();
  onnx_tensor_external(&b, "location", "w.bin");
  onnx_tensor_end(&b);
  refused(&b, "tensor 't'", "not a file");
}

/* ---- files ---- */

/* A model whose weights w lie in a file; keys and values in turn, up to NULL. */
static upconv_status load_external(const char *const *entries, uc_onnx_model **model) {
  onnx_build b = onnx_begin(13);
  onnx_input(&b, "x", ONNX_FLOAT, "1,2,5");
  onnx_tensor_begin(&b, "w", ONNX_FLOAT);
  onnx_tensor_dims(&b, "2,1,2");
  for (; *entries; entries += 2) onnx_tensor_external(&b, entries[0], entries[1]);
  onnx_tensor_end(&b);
  onnx_node(&b, "ConvTranspose", "x,w", "y");
  onnx_output(&b, "y");
  onnx_end(&b);
  put_file(in_folder("model.onnx"), b.data, b.size);
  onnx_free(&b);
  return uc_onnx_model_load(in_folder("model.onnx"), model);
}

static void external_refused(const char *location, const char *offset, const char *length,
                             const char *message) {
  const char *entries[8] = {"location", location, "offset", offset, "length", length};
  uc_onnx_model *model = NULL;
  if (!offset) entries[2] = NULL;
  check_context("location %s, offset %s, length %s", location, offset ? offset : "none",
                offset ? length : "none");
  upconv_status status = load_external(entries, &model);
  CHECK(status != UPCONV_OK);
  if (status)
    message_has("tensor 'w'", message);
  else
    uc_onnx_model_destroy(model);
  check_context(NULL);
}

static void external_data(void) {
  static const float data[6] = {9, 1, 2, 3, 4, 9};
  const char *const good[] = {"location", "sub/w.bin", "offset", "4", "length", "16", NULL};
  uc_onnx_model *model;
  make_folder();
  CHECK_INT(mkdir(in_folder("sub"), 0700), 0);
  put_file(in_folder("sub/w.bin"), data, sizeof data);
  put_file(in_folder("w.bin"), data, sizeof data);
  CHECK_INT(symlink("/etc/passwd", in_folder("link")), 0);
  if (CHECK_STATUS(load_external(good, &model), UPCONV_OK)) {
    upconv_context *context;
    uc_onnx_session *session;
    float x[10] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uc_onnx_tensor in = {.dtype = UC_ONNX_FLOAT, .rank = 3, .shape = {1, 2, 5}, .data = x};
    uc_onnx_tensor out = {.name = NULL};
    CHECK_STATUS(upconv_context_create(NULL, &context), UPCONV_OK);
    CHECK_STATUS(uc_onnx_session_create(model, context, NULL, &session), UPCONV_OK);
    if (CHECK_STATUS(uc_onnx_run(session, &in, 1, &out, 1), UPCONV_OK)) {
      CHECK_NEAR(((float *)out.data)[0], 1, 0);
      CHECK_NEAR(((float *)out.data)[1], 2, 0);
    }
    uc_onnx_tensor_free(&out);
    uc_onnx_session_destroy(session);
    upconv_context_destroy(context);
    uc_onnx_model_destroy(model);
  }
  external_refused("/etc/passwd", NULL, NULL, "relative path without '..'");
  external_refused("../w.bin", NULL, NULL, "relative path without '..'");
  external_refused("sub/../../w.bin", NULL, NULL, "relative path without '..'");
  external_refused("..", NULL, NULL, "relative path without '..'");
  external_refused("", NULL, NULL, "relative path without '..'");
  external_refused("link", NULL, NULL, "out of the model's folder");
  external_refused("missing.bin", NULL, NULL, "cannot be opened");
  external_refused("sub", NULL, NULL, "not a regular file");
  external_refused("w.bin", "12", "16", "do not lie in a file of 24 bytes");
  external_refused("w.bin", "9223372036854775807", "16", "do not lie in a file of 24 bytes");
  external_refused("w.bin", "-4", "16", "offset is '-4'");
  external_refused("w.bin", "0", "20", "length is 20; the shape needs 16");
  external_refused("w.bin", "0x10", "16", "offset is '0x10'");
  remove_folder();
}

static void files_that_are_none(void) {
  uc_onnx_model *model;
  uc_onnx_tensor tensor;
  make_folder();
  CHECK_STATUS(uc_onnx_model_load(folder, &model), UPCONV_INVALID_ARGUMENT);
  message_has(folder, "not a regular file");
  CHECK_STATUS(uc_onnx_model_load(in_folder("missing"), &model), UPCONV_INVALID_ARGUMENT);
  message_has("missing", "cannot be opened");
  CHECK_STATUS(uc_onnx_model_load("/dev/zero", &model), UPCONV_INVALID_ARGUMENT);
  /* A pipe that nobody writes to must not be waited for. */
  CHECK_INT(mkfifo(in_folder("pipe"), 0600), 0);
  CHECK_STATUS(uc_onnx_model_load(in_folder("pipe"), &model), UPCONV_INVALID_ARGUMENT);
  message_has("pipe", "not a regular file");
  put_file(in_folder("t.pb"), "junk", 4);
  CHECK_STATUS(uc_onnx_tensor_read(in_folder("t.pb"), &tensor), UPCONV_INVALID_ARGUMENT);
  message_has("t.pb", NULL);
  /* Larger than protobuf allows, without taking room on the disk. */
  put_file(in_folder("model.onnx"), "", 0);
  CHECK_INT(truncate(in_folder("model.onnx"), INT64_C(1) << 40), 0);
  CHECK_STATUS(uc_onnx_model_load(in_folder("model.onnx"), &model), UPCONV_INVALID_ARGUMENT);
  message_has("1099511627776 bytes", "at most");
  remove_folder();
}

/* ---- inputs of a run ---- */

static void wrong_inputs(void) {
  onnx_build b = onnx_begin(13);
  onnx_case c;
  onnx_input(&b, "x", ONNX_FLOAT, "N,2,H");
  onnx_input(&b, "r", ONNX_FLOAT, "N,3,K");
  onnx_random(&b, "w", "2,3,1", 1);
  onnx_node(&b, "ConvTranspose", "x,w", "c");
  onnx_node(&b, "Add", "c,r", "y");
  onnx_output(&b, "y");
  if (onnx_case_open(&c, &b, 2, NULL)) {
    uc_onnx_tensor in[2] = {c.input[0], c.input[1]}, out = {.name = NULL};
    char other[] = "other";
    CHECK_STATUS(uc_onnx_run(c.session, in, 1, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("input 'r' is not given", NULL);
    in[1].name = other;
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("no input 'other'", NULL);
    in[1] = in[0];
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("'x' is given twice", NULL);
    in[1] = c.input[1];
    in[1].shape[0] = 1;
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("'N' is 2 in input 'x' and 1 in input 'r'", NULL);
    in[1].shape[0] = 2;
    in[1].shape[1] = 4;
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("axis 1 has size 4; the model wants 3", NULL);
    in[1] = c.input[1];
    in[1].dtype = UC_ONNX_FLOAT16;
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("type float16; the model wants float", NULL);
    in[1] = c.input[1];
    in[1].data = NULL;
    CHECK_STATUS(uc_onnx_run(c.session, in, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("'r' has no data", NULL);
    float room[64];
    out = (uc_onnx_tensor){.dtype = UC_ONNX_FLOAT, .rank = 1, .shape = {64}, .data = room};
    CHECK_STATUS(uc_onnx_run(c.session, c.input, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("another type or shape", NULL);
    out = (uc_onnx_tensor){.name = other};
    CHECK_STATUS(uc_onnx_run(c.session, c.input, 2, &out, 1), UPCONV_INVALID_ARGUMENT);
    message_has("no output 'other'", NULL);
  }
  onnx_case_close(&c);
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"inputs_and_symbols", inputs_and_symbols},
      {"nodes_out_of_order", nodes_out_of_order},
      {"dead_nodes", dead_nodes},
      {"tensors_round_trip", tensors_round_trip},
      {"every_prefix", every_prefix},
      {"flipped_bytes", flipped_bytes},
      {"deep_nesting", deep_nesting},
      {"many_empty_nodes", many_empty_nodes},
      {"not_a_model", not_a_model},
      {"wrong_graphs", wrong_graphs},
      {"wrong_nodes", wrong_nodes},
      {"wrong_convolutions", wrong_convolutions},
      {"huge_sizes", huge_sizes},
      {"wrong_tensors", wrong_tensors},
      {"external_data", external_data},
      {"files_that_are_none", files_that_are_none},
      {"wrong_inputs", wrong_inputs},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
