#pragma once
#include "core/json.h"
#include "models/onnx/model.h"
#include "models/onnx/names.h"

// A program of torch.export on its way to an ONNX model: what is stated of each tensor, and the
// nodes that were made so far. All of it lives in the arena of the reading.

struct pt2_value {
    const char *name;
    enum onnx_element element;
    int rank;
    const int64_t *dims;
    bool is_fixed;  // neither inputs nor parameters go into it
};

struct pt2_program {
    struct arena *arena;
    const char *path;
    struct names names;  // of values
    struct pt2_value *values;
    int value_count, made_count;
    Onnx__NodeProto **nodes;
    Onnx__TensorProto **weights;
    Onnx__ValueInfoProto **inputs, **outputs;
    int node_count, weight_count, input_count, output_count;
    int node_room, weight_room, input_room, output_room;
    struct err *err;
};

enum { PT2_ARGUMENTS_MOST = 24 };

// A node of the file. Arguments are found by name; those of a default value are left out.
struct pt2_node {
    struct pt2_program *program;
    const char *name, *target;
    struct json inputs[PT2_ARGUMENTS_MOST];
    const char *input_names[PT2_ARGUMENTS_MOST];
    int input_count;
    const struct pt2_value **outputs;  // NULL: no tensor
    int output_count;
};

// "PATH: node NAME (TARGET): " before the text. Always false.
bool pt2_fail(const struct pt2_node *node, const char *format, ...) PRINTF_LIKE(2, 3);

// NULL where the argument is not there, or none. An error where it is another kind of thing.
const struct pt2_value *pt2_tensor(const struct pt2_node *node, const char *name);
// The tensors of a list; NULL and an error where the argument is none. One that may be left out is
// NULL where it is.
const struct pt2_value **pt2_tensors(const struct pt2_node *node, const char *name, int *count);
bool pt2_has(const struct pt2_node *node, const char *name);
int64_t pt2_int(const struct pt2_node *node, const char *name, int64_t fallback);
double pt2_number(const struct pt2_node *node, const char *name, double fallback);
bool pt2_bool(const struct pt2_node *node, const char *name, bool fallback);
// NULL where the argument is no text.
const char *pt2_text(const struct pt2_node *node, const char *name);
// A list of whole numbers, or one; count 0 where it is not there.
const int64_t *pt2_ints(const struct pt2_node *node, const char *name, int *count);
// An axis of a tensor of this rank, counted from the front.
int64_t pt2_axis(const struct pt2_node *node, const char *name, int64_t fallback, int rank);

// The name under which output i of the node is known; one nobody asks for where it has none.
const char *pt2_output(const struct pt2_node *node, int i);
// A name for what lies between the nodes that one operator becomes.
const char *pt2_between(const struct pt2_node *node);

// A node of ONNX with `count` inputs (NULL: left out) and one output. More outputs and attributes
// are added to what is returned.
Onnx__NodeProto *pt2_put(const struct pt2_node *node, const char *type, const char *output,
                         int count, const char *const *inputs);
void pt2_put_output(const struct pt2_node *node, Onnx__NodeProto *proto, const char *output);
void pt2_put_int(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name, int64_t i);
void pt2_put_ints(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                  const int64_t *ints, int count);
void pt2_put_float(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                   double number);
void pt2_put_text(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                  const char *text);

// Constants: a list of whole numbers, one number of an element type, and one whose numbers are not
// known. The first two return the name they are made under.
const char *pt2_put_list(const struct pt2_node *node, const int64_t *ints, int count);
const char *pt2_put_number(const struct pt2_node *node, enum onnx_element element, double number);
// What is no parameter of the program is not trained; a weight under another shape is.
void pt2_put_weight(struct pt2_program *program, const struct pt2_value *value);
void pt2_put_unknown(struct pt2_program *program, const struct pt2_value *value);
