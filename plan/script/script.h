#pragma once
#include "core/trace.h"
#include "plan/boundary.h"
#include "plan/script/graph.h"

// The script of a stage: one step of every rank of it, task by task in the order in which they are
// begun, with the address of every operand. It is the program (plan/program.h) written out: the
// slots of the pipeline's schedule, in each the instructions of the chunk's blocks in the scheduled
// order, messages, and what happens once a step. All ranks of a stage run the same script on slices
// of their own; what slice follows from the layouts and the rank's place in the mesh. The executor
// runs scripts and plans nothing.
//
// An exchange inside an operator (instr->inner) is a task behind it, not always at once: what the
// operator reads and writes is there until the last of them. Where two operators make terms of one
// parameter's gradient both add to it, and the instruction that sums the terms has no task.
//
// Three memories. The arena holds what comes and goes: activations, gradients of activations,
// gathered parameters, rooms for gradients, messages. The state holds what stays: weights,
// gradients and optimizer states of the stage's parameters, laid out by units (below). Ids come
// with the data. Addresses in the arena are bytes in the plan's precision; who computes wider
// multiplies them.

enum script_place {
    PLACE_ARENA,
    PLACE_WEIGHT,    // of parameter `parameter`, as the state holds it
    PLACE_GRADIENT,  // the same of its gradient
    PLACE_IDS        // tensor of role TENSOR_IDS of the block: the data of the micro-batch
};

struct script_operand {
    enum script_place place;
    int buffer;     // of the block program: tensor (-1: flat), layout, element
    int parameter;  // of the stage; -1. Set in the arena too, for parts of gathered units and rooms
    // An output that is added to what is there: a gradient that an earlier task of the step has
    // written. Of what a scattering takes beside its room: whether it is added to what that has.
    bool adds;
    int64_t offset;  // PLACE_ARENA: of the first byte
    int64_t bytes;   // PLACE_ARENA
};

struct script_task {
    // A byte each: there are a hundred thousand tasks a stage.
    enum task_kind kind : 8;
    enum task_kind slot_kind : 8;  // what of `slot` the task belongs to; W also where B runs it
    enum stream stream : 8;
    int chunk, position, micro_batch;  // position: block of the chunk; -1 where there is none
    int slot;                          // of the stage's schedule; -1: before or after them
    int block, instr;                  // of the program; -1. Buffers are those of this block
    int in_graph;                      // number of the step graph's task that it is one of
    struct script_operand *inputs, *outputs;  // in the order of the instruction's buffers
    int input_count, output_count;
    int peer_stage, peer_chunk;  // of the first message, where branches join of several
    int channel;                 // of them: receiving chunk and direction. In order on each alone
    // Flat collectives and rooms of a block cover `unit_count` units from `unit` on, whose elements
    // stand one behind another in the flat buffer; their operands in the state are one a unit, each
    // with the unit's first parameter. A scattering has further inputs: gradients that were made
    // before there was room, which go into it. Else -1; of a task on a bucket its first unit.
    int unit, unit_count;
    int bucket, bucket_count;  // of step-level work; -1: of no bucket, or all of them
    unsigned axes;             // TASK_SMALL_REDUCE
    // Tasks on other streams that have to end before this one begins, ascending; what stands before
    // it on its own stream has ended by then. As few as say all.
    int *waits;
    int wait_count;
};

// A parameter of the stage. Parameters with one tie on one stage are one: the later ones point to
// the first (`same_as`), share its storage and add into its gradient.
struct script_parameter {
    int chunk, position, block, index;  // index: of the block program's parameters
    int unit;
    int64_t first;     // element of the unit where it begins
    int64_t elements;  // local under the compute layout
    int same_as;       // parameter; -1
    // Layer that it belongs to, counted over the model: position of its block in the graph's
    // sequence. With the tensor's name (or its tie) the name under which every plan knows it.
    int sequence;
};

// What of one block at one position is in one bucket (without the combine pass one parameter), one
// after another as a flat buffer. Tied parameters are units of their own. Each axis set is split
// over as by shard_slice: of the unit, or where gradients are kept whole, of its bucket.
struct script_unit {
    enum parameter_kind kind;
    int chunk, position;
    int first_parameter, parameter_count;
    int64_t elements;
    struct storage storage;  // axes; 0 = whole on every rank
    unsigned reduce_axes;    // mesh axes over which its gradient is partial at the end of the step
                             // for all its parameters (data parallelism)
    int same_as;             // unit that stores it: its parameter is tied to that one's; -1
    int tied;                // of the program's ties, the one that other stages have too; -1
    int bucket;              // -1: that of `same_as`
    int64_t bucket_first;    // element of the bucket where it begins
};

// What is reduced, updated and gathered in one go: units of one chunk that are alike. The state
// keeps their weights, gradients and moments one behind another, bucket by bucket.
struct script_bucket {
    int chunk;
    int *units;  // ascending
    int unit_count;
    int64_t elements;
    enum parameter_kind kind;
    struct storage storage;
    unsigned reduce_axes;
    int tied;  // as of its units
    int room;  // where its gradients are while there are any, see struct script_room; -1
};
// Whether it is split over its optimizer axes as a whole; else its units are.
bool script_bucket_is_flat(const struct script_bucket *bucket);

// Room for the gradients of a bucket, and after its update, or once they are on the host, for those
// of another.
struct script_room {
    int64_t elements;
};

struct script {
    const struct program *program;
    const struct step_graph *graph;
    int stage;
    struct script_task *tasks;
    int task_count;
    struct script_parameter *parameters;
    int parameter_count;
    struct script_unit *units;
    int unit_count;
    struct script_bucket *buckets;
    int bucket_count;
    struct script_room *rooms;
    int room_count;
    struct step_rules rules;
    int64_t arena_bytes, alignment;
};
// Whether the gradients of a bucket are kept on the host, and pass through its room.
bool script_bucket_is_away(const struct script_bucket *bucket);
// Whether the host updates a unit.
bool script_unit_is_away(const struct script *script, int unit);

// plan/script/state.c: fills parameters, units and buckets of `script` (program, stage and rules
// are set).
void script_add_state(struct arena *arena, struct script *script);
// plan/script/gradients.c: says of every operand that is a gradient whether it adds, in the order
// of the tasks. Rooms in the arena are memory that the first to write into them takes as it is.
void script_add_firsts(struct script *script);
// plan/script/step.c: appends or inserts the tasks that run once a step (plan/step_end.h):
// reductions right behind the task that makes the last gradient of a bucket where the plan overlaps
// them or updates buckets as they come, else at the end. Small and tied gradients are summed as
// every rank keeps them (whole but for ZeRO 2 and 3), behind the reduction of their bucket.
void script_add_step(struct arena *arena, struct script *script);
// The parameters of the stage that a small reduction is of: the next one after `parameter`; -1.
int script_next_small(const struct script *script, const struct script_task *task, int parameter);

// plan/script/number.c: fills `graph` and the numbers of all tasks in it but rooms, of which
// whoever writes them knows the scattering. Every task is one of the graph (asserted).
void script_number(struct script *script);

// plan/script/waits.c: fills the waits of all tasks. Streams run beside each other, each in the
// order of the script: a task has to wait for the last write of what it reads, and for the last
// write and the reads since of what it writes, in the arena, in the state, and on the host for what
// is offloaded. What other waits imply is left out. One step: the next begins when all streams are
// done.
void script_add_waits(struct arena *arena, struct script *script);

// The n-th message of a task that sends or gets some, of which the task has an operand for each
// tensor, and what operand n crosses (plan/boundary.h).
bool script_message(const struct script *script, const struct script_task *task, int n,
                    struct boundary_message *message);
struct boundary script_boundary(const struct script *script, const struct script_task *task, int n);
// Elements of the weights that are cast once a step (plan/lower/casts.h), for each of which a rank
// keeps a byte as they lie and one turned.
int64_t script_weight_cast_elements(const struct script *script);

// The program's name of a task: "F2.0 3 attn.q", for messages and traces. Lives in `arena`.
const char *script_task_name(struct arena *arena, const struct script *script, int task);
// Of an instruction alone: "attn.q", "all-gather x".
const char *script_instr_name(struct arena *arena, const struct block_program *block, int index);
// Its number in traces (plan/schedule.h): instructions of a slot share the slot's.
struct task_id script_task_id(const struct script *script, int task);
