#pragma once
#include "cost_models/ledger.h"
#include "simulator/evaluate.h"

// Where the seconds of a step go on one GPU of one pipeline stage: a line for each operator and
// each collective, from the prices that the step itself was made of. How they are booked:
// - an operator with all its seconds, for every micro-batch and every layer of the stage;
// - communication inside a micro-batch with what no compute hides: `s` of the line, beside
//   `alone_s`; what hiding costs the compute beside it is a line of its own;
// - gradient reduction, parameter gathering and hops with what the events say this stage waits for
//   them, each line in proportion to what it takes alone;
// - waiting for other stages is what is left of the step: filling and draining the pipeline, and
//   where stages are uneven the slower ones.
// So lines, waiting and overhead sum to the step.

struct breakdown_line {
    const struct ledger_line *price;  // of one kernel or message; of those put together the first
    double count;                     // kernels or messages a step
    double flop, bytes;               // a step; bytes of operators and updates only
    double alone_s;                   // a step, if nothing were hidden
    double s;                         // a step, as booked
};

struct breakdown {
    const struct mesh *mesh;  // that the axes of collectives are of
    int stage, stage_count;
    double step_s;
    struct breakdown_line *lines;  // by falling `s`, then in the order of the program; lines alike
    int count;                     // (name, phase, shape) are put together
    double operators_s, communication_s;  // sums of lines
    double waiting_s;  // the rest. May be below 0 by the rounding of tasks to nanoseconds, and
                       // where steps run into each other by the hop before the first forward,
                       // which this stage waits for at the end of the step before
    double overhead_s;
};

// The breakdown of this stage. All prices must be of the same step.
struct breakdown breakdown_of_stage(struct arena *arena, const struct ledger *ledger,
                                    const struct program *program, const struct step_price *price,
                                    const struct simulation *simulation, int stage);

// The same of ranks that are unlike (simulator/unlike.h): of those of the stage that are busiest,
// on their device and with their number of micro-batches, which goes to `rounds`.
struct breakdown breakdown_of_unlike(struct arena *arena, struct arena *scratch,
                                     const struct evaluation_request *request,
                                     const struct program *program,
                                     const struct simulation *simulation, int stage, int *rounds);

// The breakdown of the stage with most to do, of an evaluated plan. It is that of `evaluation` also
// where this has simulated all ranks. Lives in `arena`.
struct breakdown breakdown_make(struct arena *arena, struct arena *scratch,
                                const struct evaluation_request *request,
                                const struct evaluation *evaluation);

// A collective, or a copy to or from the host.
bool breakdown_is_communication(const struct breakdown_line *line);
