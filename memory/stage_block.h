#pragma once
#include "plan/program.h"

// One block program as the graph of a stage repeats it: its instructions as steps, its buffers as
// values (one each time that a buffer is written), and what has to run before what. Included by
// memory/stage_*.c alone.
//
// Parameters, their gradients and ids are no values. Where weights stay from forward to backward
// both read what forward has fetched. Two things that ZeRO adds are: the whole
// parameters that a gathering makes, read by whatever reads one of them in the same half of the
// block's work, and the whole gradients that a scattering takes, for which a step of its own makes
// room: products write into it in any order.

// What is offloaded of what forward saves is read by one step behind forward and made again by
// another for backward.

struct block_value {
    int buffer;
    int older;         // value whose memory it is written over; -1
    bool is_boundary;  // comes from a neighbour: block input or output gradient
    int left;          // of what forward fetches: value that the micro-batch before has left of it,
                       // so that only the first fetches; -1
};

struct block_step {
    enum task_kind kind;          // TASK_INSTR, TASK_ROOM or a copy
    int instr;                    // -1: of another kind
    int *reads, *writes, *after;  // values, values, steps
    int read_count, write_count, after_count;
    bool reads_weights, writes_gradients;  // of the model state
    bool is_inside;                        // an exchange inside an operator
    bool gathers;                          // parameters, ahead of the block where the plan says so
    // Of an instruction: values of its operands; -1: in the model state, or ids.
    int input_values[OP_INPUT_MAX], output_values[OP_OUTPUT_MAX];
    int nth;  // gathering, scattering or room of the block, as lowering counts them; -1: none
};

struct block_steps {
    const struct block_program *program;
    struct block_step *steps;  // the instructions, then those of other kinds
    int copy_out, copy_in;     // steps; -1: nothing is moved
    int step_count;
    struct block_value *values;
    int value_count;
    int inputs[BLOCK_EDGES], outputs[BLOCK_EDGES];                    // values; -1: none
    int input_gradients[BLOCK_EDGES], output_gradients[BLOCK_EDGES];  // the same
    // The order of work in a slot: forward; B and W as autograd runs them, or each by itself where
    // the schedule parts them.
    int *forward, *backward, *weight;
    int forward_count, backward_count, weight_count;
};

// `moved`: see struct block_use. Copying out is in no order: it ends later.
struct block_steps *block_steps_make(struct arena *arena, const struct program *program,
                                     const struct block_program *block, unsigned moved);
// Whether a step fetches what the micro-batch before has left.
bool block_step_is_left(const struct block_steps *steps, int step);
// Of a step of the block at this position, for graphs and messages. Lives in `arena`.
const char *block_step_name(struct arena *arena, const struct block_steps *steps,
                            const struct block_step *step, int position);
