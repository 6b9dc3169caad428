#pragma once
#include "memory/plan_script.h"
#include "memory/stage_chunks.h"
#include "memory/stage_unroll.h"

// A script while it is written. Included by memory/plan_script*.c alone.

struct script_writing {
    struct arena *arena;
    const struct program *program;
    const struct stage_graph *graph;
    const int64_t *offsets;  // [tensor] of the graph
    struct script *script;
    struct stage_slots slots;  // of the graph
    int task_capacity;
    int **first_parameter;                 // [chunk][position], in the script
    int later_slots, later_micro_batches;  // of the step than those of the graph
};

// Where a task stands in the graph, of which the step's may be a later round.
struct script_spot {
    int chunk, position, micro_batch, slot;
    const struct block_steps *steps;
    const struct stage_work *work;
};

// A value where the schedule has put it.
struct script_operand script_in_arena(const struct script_writing *writing,
                                      const struct script_spot *spot, int value);
// An operand of an instruction; `value` as block_step says.
struct script_operand script_operand_of(const struct script_writing *writing,
                                        const struct script_spot *spot, int value, int buffer,
                                        bool is_output);
// The parameter, of the script, whose weight or gradient a buffer is; -1.
int script_parameter_of(const struct script_writing *writing, const struct script_spot *spot,
                        int buffer, bool gradient);
// The units that the n-th gathering (or scattering) of a block covers: how many from *first on.
int script_covered_units(const struct script_writing *writing, const struct script_spot *spot,
                         int n, bool gathers, int *first);
