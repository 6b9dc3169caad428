#pragma once
#include "models/onnx/draft.h"

// What a name of the program stands for: a tensor as it is written to ONNX, seen under other
// dimensions. A dimension of the view is one of the tensor, or a repetition: then it is none (-1),
// or one of size 1. So broadcast_in_dim, transpose and reshapes by dimensions of 1 write nothing
// until a reader wants them so.

struct hlo_made;
struct hlo_value;

// A transposition of a tensor that is written: which of its dimensions stands at each place.
struct hlo_turn {
    const struct hlo_turn *next;
    const char *name;
    int64_t order[RANK_MOST];
};

struct hlo_tensor {
    struct draft_value as;  // name NULL: not written yet
    bool is_given;          // an argument of the program
    bool has_number;        // one number, known here: rank 0
    double number;
    const char *weight;  // its name, where it is one that is trained
    // Which of its dimensions stands at each place, where a weight is written in another order than
    // the program's: kernels of images have their channels behind.
    bool is_turned;
    int64_t turned[RANK_MOST];
    // What it is the join of along a dimension, until something reads the whole: a weight that is a
    // stack of those of layers, or what a loop wrote place by place. NULL: it is one, or so far
    // nobody has asked for the part, which has 1 along that dimension.
    const struct hlo_value **parts;
    int part_axis;
    const struct hlo_made *made;  // by what, where a rule may ask; else NULL
    const struct hlo_turn *turns;
    // Of a reduction that is not written yet: what it is of, and over which dimensions, which stay
    // as 1.
    const char *reduction, *of;
    int64_t axes[RANK_MOST];
    int axis_count;
    int64_t reduced_count;  // elements that become one
    // Of a sum over windows of as many elements: their mean.
    struct hlo_tensor *mean;
};

struct hlo_value {
    struct hlo_tensor *tensor;
    struct draft_value as;  // the dimensions that the program states
    int map[RANK_MOST];
};

// What made a tensor: the operator, what it read, and how the tensor was seen then.
struct hlo_made {
    const char *operator, * mode;
    const struct hlo_value *operands[3], *result;
};

// A tensor seen as it is. A name of NULL and is_fixed: a constant that is written when it is read.
struct hlo_value *hlo_value_new(struct onnx_draft *draft, const struct draft_value *as);
struct hlo_value *hlo_value_weight(struct onnx_draft *draft, const struct draft_value *as);
struct hlo_value *hlo_value_number(struct onnx_draft *draft, enum onnx_element element,
                                   double number);
struct hlo_value *hlo_value_of(struct onnx_draft *draft, struct hlo_tensor *tensor,
                               const struct draft_value *stated, const int *map);

bool hlo_is_fixed(const struct hlo_value *value);
bool hlo_is_number(const struct hlo_value *value, double number);
// Elements that differ: those of the tensor.
bool hlo_is_single(const struct hlo_value *value);
// Whether both are the same tensor under the same view.
bool hlo_is_same(const struct hlo_value *a, const struct hlo_value *b);

// What made a value that is seen as it was then; NULL: another operator, or nothing is known.
const struct hlo_made *hlo_made_by(const struct hlo_value *value, const char *operator);

// One place of a tensor along a dimension, where that is a part of it; NULL: the tensor has no
// parts, or was read whole or along another dimension before.
const struct hlo_value *hlo_part(struct onnx_draft *draft, struct hlo_tensor *tensor, int axis,
                                 int64_t place);
// The tensor with another part, where it is a constant or a join along that dimension; NULL: it is
// neither.
struct hlo_tensor *hlo_with_part(struct onnx_draft *draft, const struct hlo_value *of, int axis,
                                 int64_t place, const struct hlo_value *part);

// The tensor's name, written where it was not yet.
const char *hlo_name(struct onnx_draft *draft, struct hlo_tensor *tensor);

enum hlo_fit {
    HLO_LOOSE,  // repeats in ONNX to what is asked for: dimensions of 1, or fewer in front
    HLO_WHOLE,  // has all of its elements
};

// A tensor whose dimensions are those of the value in this order (-1: a 1). Its own dimensions in
// `dims` and `rank`, which may be NULL.
const char *hlo_lay(struct onnx_draft *draft, const struct hlo_value *value, const int *order,
                    int count, enum hlo_fit fit, int64_t *dims, int *rank);
// As the program states it, whole.
const char *hlo_whole(struct onnx_draft *draft, const struct hlo_value *value);
