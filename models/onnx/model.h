#pragma once
#include "models/onnx.h"
#include "models/onnx/wire.h"

// The model while it is being read: values and calls as in the file, in an order that respects the
// edges. read.c fills it, operators.h gives shapes, fold.h the numbers of small constants, and
// program.h makes the result of it. Everything lives in the arena of the reading, which ends
// with it; texts that go into the result are copied.

// Element types of TensorProto.
enum onnx_element {
    ELEMENT_FLOAT = 1,
    ELEMENT_UINT8 = 2,
    ELEMENT_INT8 = 3,
    ELEMENT_UINT16 = 4,
    ELEMENT_INT16 = 5,
    ELEMENT_INT32 = 6,
    ELEMENT_INT64 = 7,
    ELEMENT_BOOL = 9,
    ELEMENT_FLOAT16 = 10,
    ELEMENT_DOUBLE = 11,
    ELEMENT_UINT32 = 12,
    ELEMENT_UINT64 = 13,
    ELEMENT_BFLOAT16 = 16,
};

enum {
    RANK_MOST = 16,
    NUMBERS_MOST = 1 << 14,   // of a constant whose values are followed
    FLOAT_NUMBERS_MOST = 16,  // floats: enough for scales, too few for weights
};

// An attribute of Constant: 1 where it is no weight, whatever its shape. Of our own readers alone.
#define CONSTANT_FIXED "meshwright.fixed"

struct onnx_value {
    const char *name;
    enum onnx_element element;
    int rank;
    const int64_t *dims;
    int64_t elements;
    const double *numbers;  // of a small constant, else NULL; integers up to 2^53 are exact
    bool is_known;          // shape and element type are set
    bool is_constant;       // an initializer, or made of constants alone
    bool is_learned;        // an initializer of floats and rank >= 1, or made of one: training
                            // changes it, and what follows from it
    bool follows_batch;     // made of an input whose first dimension is the batch
    bool is_made;           // by a node, else an input or an initializer
    bool is_read;           // by a call that runs, or from outside: an output of the model
    bool is_output;
    bool is_trained;  // a learned constant that a call that runs is differentiable in
};

struct onnx_call {
    const char *name, *type;
    const char *mode;  // of a call that stands for a chain (chains.h): that of struct onnx_node
    const Onnx__NodeProto *proto;
    const struct onnx_operator *row;
    const int *inputs, *outputs;  // values; -1: left out
    int input_count, output_count;
    double flop;
    struct window windows[WINDOW_DIMS];  // of height and width; taps 0: none
    bool is_folded;                      // its outputs are constants: it does not run
    bool is_live;                        // an output of the model depends on it
};

struct onnx_model {
    struct arena *arena;  // of the reading
    const char *path, *name;
    struct onnx_options options;
    struct onnx_value *values;
    struct onnx_call *calls;
    int value_count, call_count;
    bool has_batch;  // a first dimension of 1 became another batch
    int64_t opset;   // version of the standard operators; 0: not of an ONNX file
    struct err *err;
};

// 0 for types without a size of whole bytes, which are refused.
int element_bytes(enum onnx_element element);
// Whether a tensor has at most 2^50 bytes, so that sums over tensors stay far from overflow. A
// dimension of zero hides none of the others; none is negative.
bool element_fits(enum onnx_element element, int rank, const int64_t *dims);
bool element_is_float(enum onnx_element element);
// The number that 16 bits of a half float are, and the bits of the nearest one.
double half_number(uint16_t bits, enum onnx_element element);
uint16_t half_bits(double number, enum onnx_element element);

// False, with "PATH: node NAME (TYPE): " before the text. Values are named by value_name.
bool call_fail(const struct onnx_model *model, const struct onnx_call *call, const char *format,
               ...) PRINTF_LIKE(3, 4);
// A name as it may be printed: other bytes than those of printing ASCII become '?',
// and it ends after TEXT_BYTES_MAX (core/plain.h).
const char *printable(struct arena *arena, const char *name);

// Attributes; the fallback where there is none of that name.
int64_t attribute_int(const struct onnx_call *call, const char *name, int64_t fallback);
double attribute_float(const struct onnx_call *call, const char *name, double fallback);
bool attribute_is(const struct onnx_call *call, const char *name, const char *text);
bool attribute_has(const struct onnx_call *call, const char *name);
const Onnx__TensorProto *attribute_tensor(const struct onnx_call *call, const char *name);
// NULL and count 0 where there is none.
const int64_t *attribute_ints(const struct onnx_call *call, const char *name, int *count);

// Input i of a call, NULL where it is left out.
const struct onnx_value *call_input(const struct onnx_model *model, const struct onnx_call *call,
                                    int i);

// Whether input i is a tensor that the call reads when it runs, not a part of its shape.
bool call_reads(const struct onnx_call *call, int i);

// Integers that an old opset has as attribute `name` and a newer one as input `input`. Sets
// `count` to -1 where there is neither; false where the input is there but its numbers are not.
bool call_ints(const struct onnx_model *model, const struct onnx_call *call, const char *name,
               int input, const int64_t **ints, int *count);

// Sets shape and type of an output that the call has; dimensions must be >= 0 and the bytes fit.
bool set_output(const struct onnx_model *model, const struct onnx_call *call, int output,
                enum onnx_element element, int rank, const int64_t *dims);

// Fills a value from a constant's message: shape, type, and the numbers where they are few.
bool value_set_tensor(const struct onnx_model *model, struct onnx_value *value,
                      const Onnx__TensorProto *tensor);
// As set_output, for any value; `place` begins the error line.
bool value_set(const struct onnx_model *model, struct onnx_value *value, const char *place,
               enum onnx_element element, int rank, const int64_t *dims);
