#pragma once
#include "plan/program.h"

// One block program as the graph of a stage repeats it: its instructions as steps, its buffers as
// values (one each time that a buffer is written), and what has to run before what. Included by
// planner/memory/stage_*.c alone.
//
// Parameters, their gradients and ids are no values. Two things that ZeRO adds are: the whole
// parameters that a gathering makes, read by whatever reads one of them in the same half of the
// block's work, and the whole gradients that a scattering takes, for which a step of its own makes
// room: products write into it in any order.

struct block_value {
    int buffer;
    int older;       // value whose memory it is written over; -1
    bool is_border;  // comes from a neighbour: block input or output gradient
};

struct block_step {
    int instr;                    // -1: makes room for gradients
    int *reads, *writes, *after;  // values, values, steps
    int read_count, write_count, after_count;
    bool reads_weights, writes_gradients;  // of the model state
    bool gathers, makes_room;
};

struct block_steps {
    const struct block_program *program;
    struct block_step *steps;  // the instructions, then those that make room
    int step_count;
    struct block_value *values;
    int value_count;
    int inputs[2], outputs[2], input_gradients[2], output_gradients[2];  // values; -1: none
    // The order of work in a slot: forward; B and W as autograd runs them, or each by itself where
    // the schedule parts them.
    int *forward, *backward, *weight;
    int forward_count, backward_count, weight_count;
};

struct block_steps *block_steps_make(struct arena *arena, const struct program *program,
                                     const struct block_program *block);
