#pragma once
#include "plan/script/check.h"

// The verifier's own state. Included by plan/script/check*.c alone.
//
// A value is what one task writes into one operand. Of each buffer of a block at work on one
// micro-batch the block program says which of its writes an instruction reads: the last in program
// order before it. Reads are checked against a map of the arena that knows for each byte whose
// value lies there.

// Bytes [first, end) of the arena and the value in them.
struct check_run {
    int64_t first, end;
    int value;
};
struct check_map {
    struct arena *arena;
    struct check_run *runs;  // ascending, apart
    int count, capacity;
};
void check_map_write(struct check_map *map, int64_t first, int64_t end, int value);
// The first value in [first, end) that is not `value`: -1 = `value` is all there is; -2 = some of
// it was never written.
enum { CHECK_MAP_SAME = -1, CHECK_MAP_NOTHING = -2 };
int check_map_other(const struct check_map *map, int64_t first, int64_t end, int value);

// What a block program says of its operands, made once a block.
struct check_block {
    const struct block_program *program;
    int *version_first;  // [buffer]: of the versions of all its buffers; [buffer_count] = all
    int (*read_version)[OP_INPUT_MAX];  // [instr][input]: which write is read; -1: its own
    int (*written_version)[OP_OUTPUT_MAX];
    int output_version[BLOCK_EDGES], input_gradient_version[BLOCK_EDGES];
    int *forward_version;          // [buffer]: the last that forward writes; -1
    int *inner_op;                 // [instr]: the operator that it is an exchange of; -1
    int *exchanges;                // [instr]: sums inside it; what it makes is whole behind them
    const enum op_class *classes;  // by buffer, of what is moved
    bool *is_streamed;             // by buffer
    // Of parameters' gradients.
    const struct block_gradients *gradients;
    int *gradient_writes;  // [parameter]: instructions that add to it, exchanges inside them too
};

struct check_value {
    int task;
    int64_t offset, bytes;
    int exchanges_left;  // inside the operator that made it
};

// A parameter's elements in a flat buffer.
struct check_part {
    int value;  // 1 + value of the buffer; 0: none
    int64_t offset, bytes;
};

// Who has used bytes [first, end) of the arena, or a parameter of the state: 1 + task, 0: nobody.
struct check_use {
    int64_t first, end;
    int writer, readers[STREAM_COUNT];  // readers since the writer, the last of each stream
};
struct check_uses {
    struct arena *arena;
    struct check_use *uses;  // ascending, apart
    int count, capacity;
};

// One block at work on one micro-batch.
struct check_work {
    bool *is_done;                   // [instr]
    int *versions;                   // values, see version_first; 0: not yet, else 1 + value
    int *moved;                      // [buffer]: 1 + the value that came back
    int *moved_out;                  // buffers in the order in which they left; NULL: none has left
    int left_with;                   // task
    struct check_part *gathered[2];  // [parameter]: forward and backward
    int *room;                       // [parameter]: 1 + value of its part of a room
    int *added;                      // [parameter]: gradient writes so far
    int *waiting;                    // [parameter]: 1 + value that was made before the room
    int *waiting_buffer;             // [parameter]: and the buffer that it is
    bool *is_scattered;              // [parameter]
};

struct check_link {  // from one stage to another on one channel, a queue
    int *tasks;      // of the sender
    int count, capacity, taken;
};

struct check_stage {
    const struct script *script;
    int next;  // task
    struct check_map map;
    struct check_value *values;
    int value_count, value_capacity;
    int **block_at;             // [chunk][position]: block of the program
    unsigned **moved_at;        // [chunk][position]: classes
    int *block_count;           // [chunk]
    int **first_parameter;      // [chunk][position], in the script
    struct check_work **works;  // [micro_batch * chunks + chunk][position]
    int64_t done_count;         // instructions
    // Units.
    int *adds_left;                           // [unit]: contributions that have still to come
    bool *is_begun, *is_small;                // [parameter]: its gradient is written, and reduced
    bool *is_tied, *is_reduced, *is_updated;  // [bucket]
    bool *is_gathered;                        // [unit]
    bool *is_out;                             // [bucket]: its gradients are on the host
    int *room_buckets;                        // [room]: 1 + bucket whose gradients are in it
    bool has_norm, has_trust;
    int loss_count;
    // Streams: of every task that has begun, what had ended by then on each stream, and what has
    // with it: 1 + task.
    int (*clocks)[STREAM_COUNT];
    int last[STREAM_COUNT];
    struct check_uses uses;
    struct check_use *weight_uses, *gradient_uses;  // [parameter]
};

struct checking {
    struct arena *arena;
    const struct program *program;
    const struct script *const *scripts;
    int stage_count;
    struct check_stage *stages;
    struct check_block *blocks;  // [block of the program]
    int channel_count;
    struct check_link *links;  // [(from * stage_count + to) * channel_count + channel]
    struct err *err;
};

// False always; the line begins with stage and task.
bool check_fail(const struct checking *checking, const struct check_stage *stage,
                const char *format, ...) PRINTF_LIKE(3, 4);
bool check_fail_unit(const struct checking *checking, const struct check_stage *stage, int unit,
                     const char *what);
const char *check_buffer_name(const struct block_program *block, int buffer);
// A parameter of the script, by its number there; and the unit whose bytes a unit's are.
const struct parameter *check_described(const struct script *script, int index);
int check_stored(const struct script *script, int unit);

// plan/script/check_block.c
struct check_block check_block_make(struct arena *arena, const struct program *program,
                                    const struct block_program *block);
// Whether an instruction adds up terms of a parameter's gradient, which are added where they are
// made: no task runs it.
bool check_is_term_sum(const struct block_program *block, const struct instr *instr);
// The parameter whose weight or gradient (or term of one) a tensor is; -1.
int check_weight_of(const struct check_block *block, int tensor);
int check_gradient_of(const struct check_block *block, int tensor);

// plan/script/check_layout.c: sizes and layouts of all buffers and of the collectives between them,
// and of what blocks hand to each other.
bool check_layouts(const struct checking *checking);
// Whether two stages of unlike meshes hold all of a tensor, each in parts of its own.
bool check_is_resharded(const struct checking *checking, int block_a, const struct buffer *a,
                        int block_b, const struct buffer *b);

// plan/script/check_held.c: what ranks hold, of the program that the block's stage sees. Whether a
// collective, whose axes change as they should, hands each rank what its output has.
bool check_hands_on(const struct program *program, const struct block_program *block,
                    const struct instr *instr);
// The same of a part that a relay hands on; and whether those that work on parts of what this
// instruction does work on all of it together, on no part twice.
bool check_relays(const struct program *program, const struct block_program *block,
                  const struct instr *instr);
bool check_parts(const struct program *program, const struct block_program *block,
                 const struct instr *instr);
// The buffer of keys that are not all there that an instruction's query heads read; -1.
int check_keys(const struct program *program, const struct block_program *block,
               const struct instr *instr);

// plan/script/check_state.c
bool check_state(const struct checking *checking);  // parameters, units and buckets
// plan/script/check_step.c
bool check_step_task(const struct checking *checking, struct check_stage *stage);
bool check_step_end(const struct checking *checking, struct check_stage *stage);
// A gradient of unit `unit` was added to the state. check_first: of a parameter that is stored;
// the first of a step writes, the others add.
bool check_added(const struct checking *checking, struct check_stage *stage, int unit);
bool check_first(const struct checking *checking, struct check_stage *stage, int parameter,
                 const struct script_operand *operand);

// What reads a parameter stands before its update.
bool check_old_weight(const struct checking *checking, struct check_stage *stage, int parameter);

// A task that works on a block.
struct check_flow {
    const struct checking *checking;
    struct check_stage *stage;
    const struct script_task *task;
    const struct check_block *block;
    struct check_work *work;
};
// The value of a version of a buffer of a block; -1: not there. What comes from a neighbour on this
// stage is that one's.
int check_value_of(const struct check_flow *flow, int chunk, int position, int buffer, int version);
// As an instruction reads it: in backward what was moved is what came back.
int check_read_value(const struct check_flow *flow, int buffer, int version, bool is_backward);
bool check_write_version(const struct check_flow *flow, const struct script_operand *operand,
                         int version);
bool check_is_moved(const struct check_flow *flow, int buffer);
// plan/script/check_inner.c: what an instruction that is an exchange inside an operator reads and
// writes besides its own operands, and where it stands.
bool check_inner(const struct check_flow *flow);
// plan/script/check_boundary.c
bool check_boundary_task(const struct check_flow *flow, bool is_in);
bool check_copy_out(const struct check_flow *flow);
bool check_copy_in(const struct check_flow *flow);

// plan/script/check_streams.c: whatever uses a place in turn does so on one stream, or waits. The
// next task begins; then it uses bytes of the arena, or the weight or gradient of a parameter or
// unit. check_follows: whether the next task begins behind the end of another.
bool check_begin(const struct checking *checking, struct check_stage *stage);
bool check_use_bytes(const struct checking *checking, struct check_stage *stage, int64_t first,
                     int64_t end, bool writes);
bool check_use_parameter(const struct checking *checking, struct check_stage *stage,
                         struct check_use *uses, int parameter, bool writes);
bool check_use_unit(const struct checking *checking, struct check_stage *stage,
                    struct check_use *uses, int unit, bool writes);
bool check_follows(const struct checking *checking, const struct check_stage *stage, int other);

// plan/script/check_flow.c: the next task of a stage that is none of the step.
bool check_flow_task(const struct checking *checking, struct check_stage *stage);
// plan/script/check_flat.c: gathering, scattering, rooms. check_gathered: where a parameter of the
// block that a task works on is whole in forward or (`half` 1) backward.
const struct check_part *check_gathered(const struct check_stage *stage,
                                        const struct script_task *task, int half, int index);
bool check_flat_task(const struct checking *checking, struct check_stage *stage);

// What both use.
const struct script_task *check_task(const struct check_stage *stage);
struct check_work *check_work_of(const struct check_stage *stage, const struct script_task *task);
bool check_write(const struct checking *checking, struct check_stage *stage,
                 const struct script_operand *operand, int *value);
// A part of a room, which need not be aligned.
bool check_write_part(const struct checking *checking, struct check_stage *stage,
                      const struct script_operand *operand, int *value);
// `value` -1: was not written. `part` of it, or NULL: all.
bool check_read(const struct checking *checking, struct check_stage *stage,
                const struct script_operand *operand, int value, const struct check_part *part);
// The parameter of the script that is `index` of the block that the next task works on.
int check_parameter(const struct check_stage *stage, const struct script_task *task, int index);
int64_t check_element_bytes(const struct checking *checking);  // of a parameter in the arena
