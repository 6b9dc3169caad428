#pragma once
#include "models/autodiff.h"
#include "plan/layout/strategy.h"
#include "plan/lower/joins.h"

// Lowering one block for one micro-batch: operators with local shapes, the collectives between
// them, what stays alive for backward. No shape, byte count, flop count or collective is computed
// anywhere else. The result depends on the block; of the mesh on the parents, roles and order of
// its axes and on their sizes, except that of axes that split the batch alone only whether there
// are any; on sp, the kind of context parallelism, micro-batch, ZeRO 2 and 3 or not, recompute and
// its classes, sequence, precision, imbalance and capacity of experts, and the passes fusion and
// combine; and is memoised on exactly those.
//
// Conventions. Tensors are kept in the layout in which they were produced; a copy in another layout
// is made once a phase group (forward; recomputed forward; backward with weight) and shared there.
// What an all-to-all made is kept for backward as well, beside the original where backward reads
// both: what is saved is what backward reads of what forward made. An all-reduce works in place.
// Sums of several row-parallel GEMMs are added up before their one reduction, also where biases
// stand between them. Activations of fp8 and fp4 runs are counted in two bytes; of those that
// low-precision GEMMs read block_program tells how many. Gradients of block outputs
// arrive in the layout of the output.

struct buffer {  // a local tensor
    int tensor;  // in the differentiated block; -1: a flat buffer or scratch
    int64_t bytes;
    struct layout layout;  // after its last writer
    int birth, death;  // instructions [birth, death) in block_program order; saved ones live from
                       // forward to backward
    bool saved;
    bool packed;  // the rows of several tensors, one behind another: its readers and writers see
                  // views of it; `tensor` and `layout` are those of the first
    bool cast;    // in 8 bits, see plan/lower/casts.h; `tensor` and `layout` are the value's
    int behind;   // holds what the member so many behind this one holds in this layout: of
    unsigned relay_axes;  // a group over these axes (plan/lower/relay.c); 0: the own part
    unsigned skew_axes;   // so many less as its rank is along these (plan/lower/relay_pair.c)
    int pieces;     // of a pair on axes of unlike sizes: of so many of a member's own it holds one,
                    // and counts them; 0: all of it
    bool is_own;    // a piece of the rank's own, that the turn asks of it or brings
    bool external;  // ids, parameters, their gradients and flat buffers of them: the data loader,
                    // the model state and ZeRO count those, the sums of this program do not. What
                    // is gathered of a parameter that a grid of tp keeps split, and the gradient
                    // before it is scattered, are buffers as any other
};

// A cast begins with the fp32 that its numbers are times; behind so many bytes they follow, turned:
// of what a product with a weight keeps the last dims first, one line after another.
enum { CAST_HEAD_BYTES = 256 };

// What an instruction sees of a packed buffer.
struct packed_view {
    int buffer;          // its tensor and layout; it has no memory of its own
    int whole;           // the packed buffer
    int64_t first, row;  // elements: of a row, where it begins; of the whole's row
};

struct instr {
    enum phase phase;
    bool recompute;  // forward work repeated in PHASE_BACKWARD
    // compute: collective == COLLECTIVE_NONE
    int op;  // in the differentiated block; of a collective: -1, or the op whose
             // inner tensor it reduces
    enum op_kind kind;
    double flop;
    int64_t read_bytes, write_bytes;
    int kernel;  // 0: begins a kernel; else 1 + the instruction that began the kernel it is part of
    int64_t kept_bytes;  // of those read and written, what a kernel of several keeps to itself
    int joined;          // of the first of those that our engine runs as one call: how many, which
                         // stand behind one another; 0
    enum join join;      // of the others: by which rule
    unsigned passing;    // 1 << output that nothing outside its kernel reads: need not be written
    struct gemm gemm;    // contractions; a linear loss's scores of all columns
    int cast;            // of those: 1 + input whose cast is its last output, behind its operator's
    int weight_cast;     // of those: 1 + input that is a weight in 8 bits, cast once a step
    int64_t batch, heads, kv_heads, head_dim, value_dim, seq, kv_seq, window;  // attention, softmax
    bool causal, chunked;
    bool in_order;  // of our own engine: the ranks of a ring have slices in order, and unequal work
    int merge;      // see struct op, of its forward op: instructions that run as one GEMM; 0: alone
    // communication
    enum collective collective;
    unsigned axes;
    enum axis parent;  // of the axes: the stream it runs on
    int8_t combine;
    int64_t bytes;   // the whole payload: gathered result of an all-gather, buffer of an
                     // all-reduce, input of a reduce-scatter, fuller of the two
                     // local buffers of an all-to-all, message of a send; a streamed
                     // one moves stream_steps parts of 1 / ranks of it
    bool parameter;  // payload are all parameters of a kind or their gradients (ZeRO 2 and 3, or
                     // from the host)
    int inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];  // buffers
    int input_count, output_count;
    int8_t input_views[OP_INPUT_MAX], output_views[OP_OUTPUT_MAX];  // 1 + view of the program; 0:
                                                                    // all of the buffer
    enum dim dim, to_dim;  // of the change of layout, see struct change
    bool deep;             // of a fetch: from NVMe, through the host
    bool streamed;         // blocks of the payload pass round the axis while their reader works on
                           // them (ring attention): never whole in memory
    int stream_steps;      // of a streamed one: neighbour exchanges, at most ranks - 1
    bool ragged;           // payload or work depends on routing; the sizes here are those of the
                           // fullest rank, expert_imbalance times the mean
    int relay;             // of the block's relays, 1 ..: hands a part on (a SEND_RECV), or works
                           // on one; 0: neither
    int rows;   // of work in a relay: 1 + operand (inputs, then outputs) that is the part, whose
                // indices of `dim` are all of the others that it reads and writes; 0: all of each
    int inner;  // n-th inner exchange (1 ..) of `op`, which stands before it: the
                // vocabulary-parallel loss reduces max, sum of exponentials and target
                // logit between its own steps; a dispatch gathers the counts of its rows
};

// Of the flat collectives on parameters: whether weights come, from other ranks or the host; else
// their gradients go.
static inline bool instr_gathers(const struct instr *instr)
{
    return instr->collective == COLLECTIVE_ALL_GATHER || instr->collective == COLLECTIVE_FETCH;
}

// Of work in a relay the buffer that is the part.
static inline int instr_part(const struct instr *instr)
{
    int at = instr->rows - 1;
    return at < instr->input_count ? instr->inputs[at] : instr->outputs[at - instr->input_count];
}

// Of the instructions that run as one call with this one, the first and the last: itself where it
// runs alone.
static inline int instr_first(const struct instr *instrs, int index)
{
    int first = instrs[index].kernel ? instrs[index].kernel - 1 : index;
    return instrs[first].joined > 0 ? first : index;
}
static inline int instr_last(const struct instr *instrs, int index)
{
    int first = instr_first(instrs, index);
    return instrs[first].joined > 0 ? first + instrs[first].joined - 1 : index;
}

struct parameter {  // one of the block's parameters as one rank holds it
    int tensor;
    const char *tie;
    int64_t elements;  // local under the compute layout (over tp; never over dp)
    int tensor_count;  // 1; more where one entry stands for several parameters
    unsigned
        gradient_partial_axes;  // mesh axes whose ranks hold parts of the gradient at the end of
                                // the step (ZeRO 2 and 3 have reduced the shard axes by then)
    enum parameter_kind kind;   // says which axes store it
    bool decayed;               // by weight decay: matrices and tables, no biases and norms
    struct layout layout;
};

// A trained matrix as the stack stores it: those of contractions that it merges are one, and those
// of a rank's experts are one of this size each.
struct weight {
    enum parameter_kind kind;
    int merge;         // see struct op; 0: a GEMM of its own
    enum dim last;     // up and down of an MLP have as many elements, but not one shape
    int64_t elements;  // local, of all its experts
    int expert_count;  // local; 1 of what is no expert
};

// How our own engine makes gradients of parameters, for which the first micro-batch of a step finds
// none there, or every one where they leave for shards at its end (ZeRO 2 and 3).
struct begins {
    // Local, of gradients that lookups begin with zeros: of tables of the block's own, and of tied
    // ones, which another block may have begun.
    int64_t zeroed_elements, tied_elements;
    int added_sums;  // biases' beside their weights', which all others add by one kernel more
    bool each_time;
};

struct block_program {
    const struct block *block;  // differentiated
    struct instr *instrs;
    int instr_count;
    int phase_first[PHASE_COUNT + 1];  // instructions of a phase are contiguous
    struct buffer *buffers;
    int buffer_count;
    struct packed_view *views;
    int view_count;
    struct parameter *parameters;
    int parameter_count;
    bool weights_away;           // on the host or below: it works on copies, which it fetches
    bool weights_turn;           // of them: backward works on the copies of forward
    int weights_rounds;          // of them, not 0: forward works on the copies that backward of the
                                 // micro-batch before has left; the first of so many fetches them
    int64_t parameter_elements;  // sum over parameters
    int64_t trained_elements;    // of them, those that have gradients
    struct weight *weights;      // the matrices and tables among them, but the router's
    int weight_count;
    struct begins begins;
    int64_t linear_elements;  // of those that plain GEMMs read, neither the router's nor
    int linear_count;         // tied ones: what fp8 and fp4 quantise. Of our own engine what it
                              // casts once a step (plan/lower/casts.h), and in how many casts
    int64_t saved_bytes;      // alive from the end of forward to backward, one micro-batch;
                              // block inputs count here, block outputs in the next block
    // The same by the class of the operator that made it (enum op_class); what came in from the
    // block before is of no class.
    int64_t class_saved_bytes[OP_CLASS_COUNT];
    int class_saved_count[OP_CLASS_COUNT];  // in so many arrays
    // Of those what weight gradients of the plain GEMMs read, alone and beside others: where
    // such GEMMs are narrow, that is kept as they read it.
    int64_t weight_read_bytes, shared_read_bytes;
    int64_t gathered_bytes;    // that tp gathers of activations in forward; 0 where forward work is
                               // recomputed that gathers
    int64_t regathered_bytes;  // the same where it is: what tp gathers once more
    int64_t forward_transient_bytes;  // peak above saved while forward runs
    int64_t
        backward_transient_bytes;  // peak above saved while backward runs (recomputed included),
                                   // each weight gradient right after its input gradient
    double kernel_bytes;           // see memory_note_kernels, which lowering does not
    bool knows_kernels;
    int64_t score_bytes;  // of the largest scores that a softmax reads; 0: attention is fused
    int64_t beside_logits_bytes;  // of a head: the same for either, without the logits and their
                                  // gradient, of which software keeps more or fewer copies
    int64_t output_bytes;         // block outputs as sent to the next stage
    struct layout output_layout;
    int64_t held_bytes;              // alive between B and W where a schedule parts them
    int64_t parted_transient_bytes;  // there: the larger of the peak above saved while B runs and
                                     // above held while W runs
    // Buffers that cross the boundary: what neighbours and the executor hand in and take out.
    int inputs[BLOCK_EDGES], outputs[BLOCK_EDGES];                    // -1: none
    int input_gradients[BLOCK_EDGES], output_gradients[BLOCK_EDGES];  // -1: none
};

// Which of a block's edges has a value; -1.
static inline int block_edge_of(const int values[BLOCK_EDGES], int value)
{
    for (int k = 0; k < BLOCK_EDGES; k++) {
        if (values[k] == value) return k;
    }
    return -1;
}

// Whether a buffer is there before the block or behind it.
static inline bool block_program_crosses(const struct block_program *program, int buffer)
{
    return block_edge_of(program->outputs, buffer) >= 0 ||
           block_edge_of(program->input_gradients, buffer) >= 0 ||
           program->buffers[buffer].external;
}

// Whether a buffer has rows of experts, whose number is known when it runs.
static inline bool block_program_is_ragged(const struct block_program *program, int buffer)
{
    int tensor = program->buffers[buffer].tensor;
    return tensor >= 0 && program->block->tensors[tensor].density > 0;
}

// What a slice copies: the smaller of what it reads and writes; of a relay part of what it adds to.
static inline int64_t lower_slice_bytes(const struct block_program *program,
                                        const struct instr *slice)
{
    int64_t from = program->buffers[slice->inputs[0]].bytes;
    int64_t to = program->buffers[slice->outputs[0]].bytes;
    return from < to ? from : to;
}

// Whether it makes a parameter's gradient by adding rows to a table of them, in the state or a
// room, and nothing in front of it in the block adds to that table, whose parameter is tied or not.
bool instr_adds_rows(const struct block_program *program, const struct instr *instr);
bool instr_begins_rows(const struct block_program *program, const struct instr *instr,
                       bool *is_tied);
// Whether the group that it begins makes such a gradient of a bias beside that of a weight
// (JOIN_BIAS_GRADIENT).
bool instr_sums_beside(const struct block_program *program, const struct instr *first);

// What the operands of an instruction are: buffers, or those that it has views of.
static inline int instr_input(const struct block_program *program, const struct instr *instr,
                              int index)
{
    int view = instr->input_views[index];
    return view ? program->views[view - 1].buffer : instr->inputs[index];
}
static inline int instr_output(const struct block_program *program, const struct instr *instr,
                               int index)
{
    int view = instr->output_views[index];
    return view ? program->views[view - 1].buffer : instr->outputs[index];
}

// A block with its backward pass and the questions lowering would ask again on every call; made
// once a graph.
struct block_sum {  // of an OP_ADD
    int inputs[OP_INPUT_MAX];
    int input_count;  // 0: folded into the sum that reads it
};
struct differentiated {
    const struct block *block;  // the forward block with the backward pass appended
    struct block_gradients gradients;
    int forward_op_count;
    struct block_sum *sums;  // by op
    bool *is_output;         // by tensor
    int *parameters;         // tensors, in order
    int parameter_count;
};
struct graph_gradients {
    struct differentiated *blocks;  // by block kind
    int block_count;
};
void block_differentiate(struct arena *arena, const struct block *forward,
                         struct differentiated *facts);
struct graph_gradients *graph_differentiate(struct arena *arena, const struct graph *graph);

// The layouts that the ops of one block need and make on one mesh, found as they are asked for:
// they depend neither on micro-batch nor on what is recomputed, so that a search shares them among
// all of these. Good for one mesh (strides and the size of data parallelism apart), sp and kind of
// context parallelism.
struct op_layouts;
struct op_layouts *lower_layouts(struct arena *arena, const struct differentiated *facts);

struct lower_request {
    const struct block *block;  // forward
    const struct mesh *mesh;
    const struct parallel *parallel;
    enum recompute recompute;  // of this block (recompute_layers makes some differ)
    int64_t seq_len;
    enum precision precision;
    double expert_imbalance, capacity_factor;  // see struct workload; 0 = 1 and dropless
    unsigned joins;  // rules by which instructions become one kernel, see plan/lower/joins.h
    bool zigzag;     // of our own engine: sequence_order_of says so
    double dropout_ratio;
    // Of parameters that leave (plan/offload.h): whether they stay from forward to backward, and
    // where they do from backward to forward, micro-batches of a step.
    bool stays_turn;
    int stays_rounds;
    const struct differentiated *differentiated;  // of `block`; NULL: made here, at some cost
    struct op_layouts *layouts;                   // NULL: made here
};
struct block_program *lower_block(struct arena *arena, const struct lower_request *request);

// The instructions as autograd runs them, in `arena`: forward, then each of backward followed by
// the weight gradients that can be made from then on. Schedules that part B and W run them in
// program order.
int *lower_fused_order(struct arena *arena, const struct block_program *program);
// By buffer: the class of the operator that made it in forward (class_saved_bytes), in `arena`.
enum op_class *lower_classes(struct arena *arena, const struct block_program *program);

// What ZeRO 2 and 3 add to `whole`, the same block lowered with less: the gathering and scattering
// of its parameters in the phases where lower_block puts them, and the parameters as their
// gradients are left. All else of a block with work in B is the same with and without, for these
// buffers are external; where gathering alone makes B a task (an embedding) it is not. Of `whole`
// only block, phases, parameters and begins are read; with the combine pass they may be sums of
// like ones. The program has no other instructions; it lives in `arena`.
struct block_program *lower_sharding(struct arena *arena, const struct lower_request *request,
                                     const struct block_program *whole);

// Of an element in memory, in a run of this precision: fp8 and fp4 are formats of GEMMs,
// tensors between them stay in 16 bits.
int64_t lower_element_bytes(enum element element, enum precision precision);
