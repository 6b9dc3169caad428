#pragma once
#include "plan/lower/lower.h"

// Inside of lowering; included by plan/lower/*.c alone. The working state of one lower_block call:
// where each tensor is now, and the program as far as it is written.

struct place {         // of one tensor
    int home;          // buffer that holds it as produced (reduced, once something reduced it); -1
    int copies;        // newest buffer with it in another layout; -1
    int copies_group;  // the group that may use the copies
    int moved;         // newest buffer that an all-to-all made of it: kept for every group, as the
                       // original is, since backward would have to move it again; -1
};

// What lowering knows of a buffer beside what the program says.
struct backing {
    int older;            // the next in a list of copies
    int stream_steps;     // neighbour exchanges that fill or empty it; 0 = it is whole
    int64_t whole_bytes;  // of a streamed one more than its bytes
};

// How the keys and values of an attention reach it: see lowering_stream.
struct key_stream {
    unsigned axes;
    int steps;  // 0 = gathered whole
    int held;   // blocks in memory at once
};

// Of one op, and what follows from it.
struct op_layouts {
    bool known, has_keys, reduces;  // keys of attention; inside, over dims that are split
    unsigned linear;                // axes over which partial inputs may stay partial
    struct strategy strategy;
    struct layout inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];
};

struct lowering {
    struct arena *arena;
    const struct lower_request *request;
    const struct differentiated *facts;
    const struct block *block;
    const struct mesh *mesh;
    int64_t batch;               // whole: micro-batches of all data ranks
    struct op_layouts *layouts;  // by op
    const bool *saved;           // by tensor: kept for backward
    struct place *places;        // by tensor
    // By tensor: where a parameter is kept and its gradient is put, of[axis] > 0 where that is over
    // axes that no reader splits it over; NULL: nothing is kept so.
    struct layout *stored;
    unsigned joins;  // of the request, those that this plan allows
    struct block_program *program;
    int instr_capacity, buffer_capacity;
    struct backing *backing;   // by buffer
    struct key_stream stream;  // of the tensor being read
    int group;                 // copies are shared inside one
    enum phase phase;
    bool recompute;
    bool apart;  // what is read is gathered for this operator alone (JOIN_APART)
};

// plan/lower/differentiate.c: what is recomputed, and what is kept for backward (by tensor). Of
// most classes each result is dropped and made again for whoever reads it (Megatron-Core's
// output-discarding checkpoints); a region, the attention core, is recomputed as a whole, and what
// others read of it is kept (its plain checkpoints).
bool lowering_is_recomputed(const struct op *op, enum recompute recompute, unsigned classes);
bool lowering_is_region(enum op_class class);
bool *lowering_saved(struct arena *arena, const struct differentiated *facts,
                     enum recompute recompute, unsigned classes);

// plan/lower/lower_buffer.c: buffers and their sizes.
int64_t lowering_element_bytes(const struct lowering *low, enum element element);
int lowering_buffer(struct lowering *low, int tensor, const struct layout *layout);
// Whether a buffer with a parameter or its gradient in this layout is that of the state.
bool lowering_is_stored(const struct lowering *low, int tensor, const struct layout *layout);
// A flat buffer or scratch of `bytes` that belongs to no tensor.
int lowering_flat_buffer(struct lowering *low, int64_t bytes, const struct layout *layout);
// How much more of a ragged tensor a rank has room for than its mean; 1 for others.
double lowering_room(const struct lowering *low, int tensor, const struct layout *layout);
// Whether how much of it there is follows from the routing alone.
bool lowering_is_ragged(const struct lowering *low, int tensor);
// How an input or output of attention that holds keys is streamed under a strategy.
struct key_stream lowering_stream(const struct lowering *low, const struct op *op,
                                  const struct strategy *strategy, bool output, int index);
// Leaves a buffer that a stream fills or empties only the blocks it needs at once, and back.
void lowering_shrink(struct lowering *low, int buffer, const struct key_stream *stream);
void lowering_unshrink(struct lowering *low, int buffer);

// plan/lower/lower_emit.c: changes of layout, instructions.
struct instr *lowering_instr(struct lowering *low);
// Emits what turns a buffer into the layout wanted; returns the buffer that has it.
int lowering_change(struct lowering *low, int buffer, const struct layout *want);
// The buffer that holds a tensor in this layout, changed or copied as far as needed.
int lowering_read(struct lowering *low, int tensor, const struct layout *want);
void lowering_set_home(struct lowering *low, int tensor, int buffer);
void lowering_forget(struct lowering *low, int tensor);
struct layout lowering_home_layout(const struct lowering *low, int tensor);
// One change of layout of a buffer that is not a tensor's (ZeRO), from `from` to `to`.
void lowering_flat_change(struct lowering *low, int64_t bytes, const struct layout *from,
                          const struct layout *to);
// Over which axes parameters of a kind are sharded, and whether micro-batches find the weights
// (ZeRO 3) or leave their gradients (2 and 3) in shards.
unsigned lowering_shard_axes(const struct lowering *low, enum parameter_kind kind,
                             enum stored stored);
bool lowering_is_sharded(const struct lowering *low, int zero, enum parameter_kind kind);
// Weights come to where they are computed with, gradients go to where they are stored.
void lowering_gather_parameters(struct lowering *low);
void lowering_scatter_gradients(struct lowering *low);
// Parameters of so many bytes come from the host.
void lowering_fetch(struct lowering *low, int64_t bytes);
// Every rank learns how many rows it will get of each expert.
void lowering_exchange_counts(struct lowering *low, int op, unsigned axes, int64_t expert_count);

// plan/lower/lower_op.c: one operator; whether GEMMs gather what they read each for itself.
bool lowering_is_apart(const struct lowering *low);
const struct op_layouts *lowering_layouts(struct lowering *low, int index);
void lowering_op(struct lowering *low, int index);
// The numbers of an instruction whose buffers are set.
void lowering_measure(const struct lowering *low, const struct op *op, struct instr *instr);

// plan/lower/early_stop.c: takes recomputed work out that nothing reads.
void lowering_stop_early(struct lowering *low);

// plan/lower/lower_memory.c: lifetimes and the sums that follow from them.
void lowering_memory(struct lowering *low);

// plan/lower/lower_weights.c: the parameters of the program as matrices.
void lowering_weights(struct lowering *low);

// plan/lower/begins.c: how gradients begin, once groups are formed.
void lowering_begins(struct lowering *low);
