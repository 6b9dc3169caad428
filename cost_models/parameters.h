#pragma once
#include "plan/program.h"

// The parameters that one chunk of a stage holds, counted as one rank does: what gradient
// reduction, update and memory are multiples of.

enum { PARTIAL_MAX = 16 };

struct parameter_sums {
    double elements;  // local, tied parameters of the chunk once
    struct {
        unsigned axes;  // whose ranks hold parts of these gradients at the end of the step
        double elements;
    } partial[PARTIAL_MAX];
    int partial_count;
};

struct parameter_sums parameter_sums(const struct program *program,
                                     const struct program_chunk *chunk);

// Bytes of a weight as the GEMMs read it from memory: what is narrower than 16 bits is cast on the
// way, and kept in 16.
double parameter_weight_bytes(enum precision precision);
