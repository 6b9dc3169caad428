#pragma once
#include "models/onnx/model.h"

// A model of another format on its way to ONNX: the messages that were made so far. Readers write
// each of their operators as nodes of ONNX, and draft_read goes on as with an ONNX file. All of it
// lives in the arena of the reading, and texts are copied into it.

struct draft_value {
    const char *name;
    enum onnx_element element;
    int rank;
    const int64_t *dims;
    bool is_fixed;   // neither inputs nor parameters go into it
    double drawn;    // the share of ones among zeros, where that is how it is made; 0: it is not
    bool is_scaled;  // these ones are over that share
    double risen;    // drawn evenly from here to 1 above it, of which the floor are such ones
    bool is_even;
    const struct draft_value *turned;   // of a transposition: what is turned; else NULL
    const int64_t *order;               // which of its dimensions each is
    const struct draft_value *divided;  // of a quotient by a number; else NULL
    double divisor;
};

struct onnx_draft {
    struct arena *arena;
    const char *name;  // of the operator that is written: what lies between is named after it
    int made_count;
    Onnx__NodeProto **nodes;
    Onnx__TensorProto **weights;
    Onnx__ValueInfoProto **inputs, **outputs;
    int node_count, weight_count, input_count, output_count;
    int node_room, weight_room, input_room, output_room;
};

// An attribute of nodes that stand for their operator in shapes and costs, not in all numbers: they
// are planned, and no kernel runs them.
#define DRAFT_ROUGH "is_rough"

// A name for what lies between the nodes that one operator becomes.
const char *draft_between(struct onnx_draft *draft);

// A node of ONNX with `count` inputs (NULL: left out) and one output. More outputs and attributes
// are added to what is returned.
Onnx__NodeProto *draft_put(struct onnx_draft *draft, const char *type, const char *output,
                           int count, const char *const *inputs);
void draft_put_output(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *output);
void draft_put_int(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                   int64_t i);
void draft_put_ints(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                    const int64_t *ints, int count);
void draft_put_float(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                     double number);
void draft_put_text(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                    const char *text);

// Constants: a list of whole numbers, one number of an element type, and one whose numbers are not
// known. The first two return the name they are made under.
const char *draft_list(struct onnx_draft *draft, const int64_t *ints, int count);
const char *draft_number(struct onnx_draft *draft, enum onnx_element element, double number);
// What is no parameter of the program is not trained; a weight under another shape is.
void draft_constant(struct onnx_draft *draft, const struct draft_value *value);
void draft_unknown(struct onnx_draft *draft, const struct draft_value *value);

// The ends of the model: its parameters, what it is given and what it answers.
void draft_weight(struct onnx_draft *draft, const struct draft_value *value);
void draft_input(struct onnx_draft *draft, const struct draft_value *value);
void draft_output(struct onnx_draft *draft, const struct draft_value *value);

// As onnx_read. `name`: of the model.
MUST_CHECK struct onnx_graph *draft_read(struct arena *arena, const char *path,
                                         const struct onnx_draft *draft, const char *name,
                                         const struct onnx_options *options, struct err *err);
