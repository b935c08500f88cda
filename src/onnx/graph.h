/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph as read: values are numbers, nodes stand in topological order, initialisers hold their
 * data. Nothing of protobuf is left here; load.c makes it, the rest of the folder reads it.
 */
#ifndef UPCONV_ONNX_GRAPH_H
#define UPCONV_ONNX_GRAPH_H

#include "onnx.h"

/* The newest operator set whose operators were compared with what is implemented here. */
enum { UC_ONNX_NEWEST_OPSET = 28 };

typedef enum uc_onnx_attr_kind {
  UC_ATTR_OTHER = 0, /* graphs, sparse tensors, types: no supported operator has one */
  UC_ATTR_FLOAT,
  UC_ATTR_INT,
  UC_ATTR_STRING,
  UC_ATTR_TENSOR,
  UC_ATTR_FLOATS,
  UC_ATTR_INTS,
} uc_onnx_attr_kind;

typedef struct uc_onnx_attr {
  char *name;
  uc_onnx_attr_kind kind;
  double f;
  int64_t i;
  char *s;
  uc_onnx_tensor t;
  int count; /* of floats or ints */
  float *floats;
  int64_t *ints;
} uc_onnx_attr;

typedef struct uc_onnx_node {
  char *name; /* never NULL; the name of an output where the file gives none */
  char *op_type;
  char *domain; /* "" for ONNX's own */
  int input_count, output_count;
  int *input; /* value numbers; -1: left out */
  int *output;
  int attr_count;
  uc_onnx_attr *attr;
} uc_onnx_node;

typedef struct uc_onnx_graph_value {
  char *name;
  int producer;    /* node number; -1: input or initialiser */
  bool is_input;   /* a graph input that has to be given */
  bool is_initial; /* has an initialiser */
  uc_onnx_tensor initial;
} uc_onnx_graph_value;

typedef struct uc_onnx_metadata {
  char *key, *value;
} uc_onnx_metadata;

struct uc_onnx_model {
  int64_t opset; /* of ai.onnx; 0: not imported */
  int metadata_count;
  uc_onnx_metadata *metadata;
  int node_count;
  uc_onnx_node *node;
  int value_count;
  uc_onnx_graph_value *value;
  int input_count, output_count;
  int *input, *output; /* value numbers */
  uc_onnx_value_info *input_info, *output_info;
};

const uc_onnx_attr *uc_onnx_attr_find(const uc_onnx_node *node, const char *name);

/* Older than operator set 7: an operand whose axes begin at `axis` of the other one's goes
   through this operator, which is not ONNX's. */
#define UC_ONNX_ALIGN "upconv.Align"
/* Puts these operators in; before uc_onnx_order. */
upconv_status uc_onnx_legacy(uc_onnx_model *model);

/* Checks names, finds producers and sorts the nodes; refuses duplicates, values that nobody
   makes and cycles. */
upconv_status uc_onnx_order(uc_onnx_model *model);

/* ---------------------------------------------------------------- reading (wire.c, file.c,
   tensor_proto.c) */

typedef struct uc_onnx_bytes {
  unsigned char *data;
  size_t size;
} uc_onnx_bytes;

/* A whole regular file of at most limit bytes. Freed with free(bytes->data). */
upconv_status uc_onnx_file_read(const char *path, size_t limit, uc_onnx_bytes *bytes);

/* Opens `location` below `directory` and reads `length` bytes at `offset` (length -1: to the
   end) into new memory. */
upconv_status uc_onnx_external_read(const char *directory, const char *location, int64_t offset,
                                    int64_t length, uc_onnx_bytes *bytes);

struct ProtobufCMessageDescriptor;
/* Unpacks a message from a stranger: depth and memory are bounded. Freed with
   uc_onnx_proto_free. */
upconv_status uc_onnx_proto_unpack(const struct ProtobufCMessageDescriptor *descriptor,
                                   const void *data, size_t size, void **message);
void uc_onnx_proto_free(void *message);

struct Onnx__TensorProto;
/* Takes over the proto's raw data where it can. what names the tensor in messages; directory as
   in uc_onnx_model_parse. */
upconv_status uc_onnx_tensor_from_proto(struct Onnx__TensorProto *proto, const char *what,
                                        const char *directory, uc_onnx_tensor *tensor);

/* strdup (NULL as "") and calloc (at least one byte). NULL with the library's message when
   memory does not suffice; callers return UPCONV_OUT_OF_MEMORY. */
char *uc_onnx_copy_string(const char *text);
void *uc_onnx_new(int64_t count, size_t size);

/* Bytes of memory of this machine: nothing larger is ever asked for. */
size_t uc_onnx_machine_memory(void);

#endif
