#pragma once
#include "plan/program.h"

// The parameters that one chunk of a stage holds, counted as one rank does: what gradient
// reduction, update and memory are multiples of.

enum { PARTIAL_MAX = 16 };

struct parameter_sums {
    double elements[PARAMETER_KIND_COUNT];  // local, tied parameters of the chunk once
    int tensor_count[PARAMETER_KIND_COUNT];
    struct {
        enum parameter_kind kind;
        unsigned axes;  // whose ranks hold parts of these gradients at the end of the step
        double elements;
        int tensor_count;
    } partial[PARTIAL_MAX];
    int partial_count;
};

struct parameter_sums parameter_sums(const struct program *program,
                                     const struct program_chunk *chunk);

// Elements of both kinds that one rank keeps, each divided over the axes of its storage.
// `axes` picks the member of struct storage: offsetof(struct storage, weight_axes), ...
double parameter_stored(const struct program *program, const struct parameter_sums *sums,
                        size_t axes);

// Bytes of a weight as the GEMMs read it from memory: what is narrower than 16 bits is cast on the
// way, and kept in 16.
double parameter_weight_bytes(enum precision precision);
