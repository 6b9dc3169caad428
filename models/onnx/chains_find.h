#pragma once
#include "models/onnx/model.h"

// What the chains of chains.h are found by. Calls that were folded are constants, not links.

struct chain_model {
    struct onnx_model *model;
    int *maker;         // of a value: the call that makes it, or -1
    int *reader_count;  // calls that read it when they run; an output of the model counts as one
    bool *is_trained;   // a weight goes into it
};

// Whether a value is this one number.
bool chain_is_number(const struct chain_model *c, int value, double number);
// Whether it is one number that nothing trains, which a kernel may take in.
bool chain_is_factor(const struct chain_model *c, int value);
// The value in front of the casts to other types of floats that it is behind.
int chain_origin(const struct chain_model *c, int value);
// The call of this type that makes a value, or what it is a cast of, with that many inputs; NULL:
// there is none.
const struct onnx_call *chain_maker(const struct chain_model *c, int value, const char *type,
                                    int input_count);
// What is beside a number in a sum, product or quotient, in front of casts; -1: it is none of
// these.
int chain_beside(const struct chain_model *c, int value, const char *type, double number);
// Makes a call another operator with these inputs; what it read before no longer runs for it.
void chain_become(const struct chain_model *c, struct onnx_call *call, const char *type,
                  const int *inputs, int input_count);

// Gives it one attribute, and none beside that; and a whole number beside it.
void chain_say(const struct chain_model *c, struct onnx_call *call, const char *name,
               double number);
void chain_say_int(const struct chain_model *c, struct onnx_call *call, const char *name,
                   int64_t number);
// The d of d^2; -1: it is none. chains_norm.c
int chain_rooted(const struct chain_model *c, int value);
// The weight of so many numbers, in dimensions of 1 or not, as it lies; -1: it is none.
int chain_vector(const struct chain_model *c, int value, int64_t size);

// True where this call ended such a chain and is now the whole of it.
bool chain_join_gelu(const struct chain_model *c, struct onnx_call *call);     // chains_function.c
bool chain_join_product(const struct chain_model *c, struct onnx_call *call);  // Swish, Mish
bool chain_join_sigmoid(const struct chain_model *c, struct onnx_call *call);
bool chain_join_softmax(const struct chain_model *c, struct onnx_call *call);  // chains_norm.c
bool chain_join_drop(const struct chain_model *c, struct onnx_call *call);     // chains_drop.c
bool chain_join_bias(const struct chain_model *c, struct onnx_call *call);     // chains_bias.c
bool chain_join_norm(const struct chain_model *c, struct onnx_call *call);     // chains_norm.c
bool chain_join_groups(const struct chain_model *c, struct onnx_call *call);   // chains_group.c
bool chain_join_group_norm(const struct chain_model *c,
                           struct onnx_call *call);  // chains_group.c
bool chain_join_attention(const struct chain_model *c,
                          struct onnx_call *call);  // chains_attention.c
