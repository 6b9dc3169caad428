#pragma once
#include "models/graph.h"
#include "plan/layout/sequence.h"

#include <stdint.h>

// An operator on the slices that one rank holds, as back ends run it. Kernels know nothing of
// parallelism: an array says how much of each dim is here and where that begins in the whole.
//
// Arrays are dense, row-major, dims in the order of the tensor's extents; but rows of (batch, seq)
// may lie apart, as parts of longer ones (plan/lower/merged.h). ELEMENT_COMPUTE and
// ELEMENT_FP32 are the back end's reals (both REAL on the CPU; executor/backend.h says what they
// are elsewhere), ELEMENT_INT64 and ELEMENT_BYTE as named.

struct kernel_array {
    void *data;  // NULL: a dry run (can_run)
    int rank;
    enum element element;
    enum dim dims[TENSOR_RANK_MAX];
    int64_t sizes[TENSOR_RANK_MAX];  // held here; may be 0
    int64_t first[TENSOR_RANK_MAX];  // index in the whole. For batch: of the step's sequences; for
                                     // seq: as `order` of the call has it
    int64_t whole[TENSOR_RANK_MAX];  // size of the whole; for batch that of one micro-batch
    int64_t row_stride;  // elements from a row of (batch, seq), its first dims, to the next where
                         // they lie apart; 0: dense
};

// Ragged tensors (density > 0) hold the rows that exist, sorted by local expert and then by token:
// data is [rows][last dims]. `routing` of the call says which; sizes are those of the dense shape.
// The caller makes it, from the weights of the router: those of 0 have no row. In host memory, good
// for the call.
struct kernel_routing {
    int64_t expert_count, first_expert;  // local experts
    int64_t *rows_of;                    // [expert_count + 1] prefix sums of rows by local expert
    int64_t *token_of;                   // [rows] flat (batch, seq) token in the box that is here
};

// A weight in 8 bits, which a rank casts once a step: the matrix as it lies and turned, and what
// its numbers are times. Weights whose products run as one stand one behind another, and the first
// of them speaks for all.
struct kernel_weight_cast {
    int input;      // that is the weight
    uint8_t *rows;  // NULL: there is none
    uint8_t *turned;
    float *factor;
    bool makes;  // this call is the first of the step that reads it, and makes it first
};

enum { KERNEL_WHOLE = 0 };  // part: all of the operator

struct kernel_call {
    const struct op *op;
    struct kernel_array inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];
    int input_count, output_count;
    unsigned adds;     // 1 << output: the result is added to what is there
    unsigned passing;  // 1 << output that only calls joined with this one read
    bool merged;       // joined with calls that are one GEMM, see executor/merged.h
    // Operators that exchange something inside (vocabulary-parallel loss: max, sum of exponentials,
    // target logit): part 2n - 1 fills `inner` for exchange n, part 2n takes in its result. Part 0
    // of a call whose vocabulary is all here does everything; of one that holds a part of it, it
    // does nothing, and parts 1 to 6 follow with the same arrays: between them the state is in the
    // outputs. Norms over a part of hidden do the same, with op_inner_reductions exchanges.
    int part;
    struct kernel_array inner;
    void *kept;    // NULL, or where the first output, which is a wide copy, stands in 16 bits
    uint64_t key;  // of random numbers: seed, step, layer, operator; see executor/random.h
    const uint64_t *key_at;  // NULL, or where the device finds the key in its memory when it runs
    int64_t vocab;           // columns of logits past this one do not exist (padding)
    int64_t head_count;      // of the whole, for the slopes of alibi
    struct sequence_order order;  // of what dim seq counts
    // Causal attention: of each place in the step's sequences where its document begins, in host
    // memory, rows of `document_stride`; what stands before it is not seen. NULL: all is one. For
    // back ends that mask documents.
    const int64_t *documents;
    int64_t document_stride;
    const struct kernel_routing *routing;  // NULL: nothing is ragged
    // OP_CONTRACT: whether it multiplies by a parameter of a layer, or is its gradient, which runs
    // of 8 bits do in these; and 1 << input that is a gradient.
    bool is_linear;
    unsigned gradients;
    // Of products in 8 bits. Inputs that are casts already (struct buffer): their elements are
    // bytes, turned, and their factor is here; NULL: as any other. And what the product casts for
    // others beside its own work, `cast_from` into `cast_to`: rows and columns of what it reads.
    const float *factors[2];
    void *cast_to;  // NULL: nothing
    int cast_input;
    struct kernel_array cast_from;
    struct kernel_weight_cast weight_cast;
    // Ring attention: keys and values of one rank are here at a time. Forward merges into out and
    // log-sum-exp what earlier blocks left (`merges`), backward adds to the gradients.
    bool merges;
};

// Where the document of a place in a sequence of the step begins; 0 where all is one.
static inline int64_t call_document(const struct kernel_call *call, int64_t sequence, int64_t place)
{
    return call->documents ? call->documents[sequence * call->document_stride + place] : 0;
}

// executor/engine/call.c: says what the call's GEMM is of, `is_linear` and `gradients`.
void kernel_call_know_gemm(const struct block *block, struct kernel_call *call);

// Counter-based random bits (Philox 4x32-10, Salmon et al. 2011, SC11) of (key, index): equal for
// every plan because the index is that in the whole. executor/random.h
