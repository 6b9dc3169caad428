#pragma once
#include "core/json.h"
#include "models/onnx/draft.h"
#include "models/onnx/names.h"

// A program of torch.export on its way to an ONNX model: what is stated of each tensor, and the
// nodes that were made so far. All of it lives in the arena of the reading.

struct pt2_program {
    struct arena *arena;
    const char *path;
    struct names names;  // of values
    struct draft_value *values;
    int value_count;
    struct onnx_draft draft;
    struct err *err;
};

enum { PT2_ARGUMENTS_MOST = 24 };

// A node of the file. Arguments are found by name; those of a default value are left out.
struct pt2_node {
    struct pt2_program *program;
    struct onnx_draft *draft;  // of the program
    const char *name, *target;
    struct json inputs[PT2_ARGUMENTS_MOST];
    const char *input_names[PT2_ARGUMENTS_MOST];
    int input_count;
    bool *was_read;  // by input
    bool is_rough;   // what it becomes has its shape and cost, not all of its numbers
    const struct draft_value **outputs;  // NULL: no tensor
    int output_count;
};

// "PATH: node NAME (TARGET): " before the text. Always false.
bool pt2_fail(const struct pt2_node *node, const char *format, ...) PRINTF_LIKE(2, 3);

// NULL where the argument is not there, or none. An error where it is another kind of thing.
const struct draft_value *pt2_tensor(const struct pt2_node *node, const char *name);
// The tensors of a list; NULL and an error where the argument is none. One that may be left out is
// NULL where it is.
const struct draft_value **pt2_tensors(const struct pt2_node *node, const char *name, int *count);
bool pt2_is_tensor(const struct pt2_node *node, const char *name);
bool pt2_has(const struct pt2_node *node, const char *name);
int64_t pt2_int(const struct pt2_node *node, const char *name, int64_t fallback);
double pt2_number(const struct pt2_node *node, const char *name, double fallback);
bool pt2_bool(const struct pt2_node *node, const char *name, bool fallback);
// NULL where the argument is no text.
const char *pt2_text(const struct pt2_node *node, const char *name);
// A list of whole numbers, or one; count 0 where it is not there.
const int64_t *pt2_ints(const struct pt2_node *node, const char *name, int *count);
const double *pt2_numbers(const struct pt2_node *node, const char *name, int *count);
// An axis of a tensor of this rank, counted from the front.
int64_t pt2_axis(const struct pt2_node *node, const char *name, int64_t fallback, int rank);

// The name under which output i of the node is known; one nobody asks for where it has none.
const char *pt2_output(const struct pt2_node *node, int i);
