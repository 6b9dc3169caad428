#pragma once
#include "tests/support/index_sets_op.h"

// Inside of tests/index_sets*.c: all ranks of a mesh, and what each holds of each buffer.

enum { TERM_MAX = 16, FLAT_MAX = 256 };

struct index_held {           // one buffer
    struct index_box *boxes;  // by rank; NULL until something fills it
    uint64_t **values;        // by rank
    struct layout claim;      // what it holds just now; the layout of struct buffer is the last one
    int terms[TERM_MAX];      // the tensors whose sum it holds: one, but for sums in the making
    int term_count;
};

struct flat {  // a collective over parameters or their gradients as one buffer
    enum collective collective;
    enum phase phase;
    unsigned axes;
    int64_t bytes;
};

struct index_machine {
    struct arena *arena;
    const struct sets_case *task;
    const struct block_program *program;
    const struct block *block;
    const struct mesh *mesh;
    int64_t batch;
    struct index_box *whole;      // by tensor
    uint64_t **truth;             // by tensor
    struct index_held *held;      // by buffer
    const struct instr *waiting;  // a loss over a split vocabulary or a norm over split rows, until
                                  // its inner reductions ran
    int inner_done;
    unsigned (*counted_axes)[2];  // by dispatch, and done again: who knows how many rows come
    struct flat flats[FLAT_MAX];
    int flat_count;
    int at;  // instruction
    struct sets_result *result;
};

int64_t sets_divide_up(int64_t size, int64_t by);
// Of a loss the input that has the columns.
static inline int sets_columns_input(const struct op *op)
{
    return op->kind == OP_LINEAR_LOSS;
}

struct index_box sets_claimed_box(const struct index_machine *m, int tensor,
                                  const struct layout *layout, int rank);
// Bytes of a rank's slice, the last slice of a dim counted like the others.
int64_t sets_bytes(const struct index_machine *m, int tensor, const struct layout *layout);
bool sets_same_group(const struct mesh *mesh, unsigned axes, int a, int b);
void sets_complain(struct index_machine *m, int buffer, const char *what);

// Gives every rank room for the slice that the buffer claims from now on.
void sets_make_room(struct index_machine *m, int buffer);
// The complete set of one element of the sum that a buffer labelled `tensor` holds.
uint64_t sets_truth(const struct index_machine *m, const struct index_held *held, int tensor,
                    const int64_t index[VIEW_RANK_MAX]);
// The buffer holds what it claims: the parts of each group of `axes` add up to the complete set;
// with check_claim, of the axes over which it claims to be partial.
void sets_check_sums(struct index_machine *m, int buffer, unsigned axes);
void sets_check_claim(struct index_machine *m, int buffer);

// Carries out an operator on every rank; tests/support/index_sets.c. With `axes` its rows are those
// of all ranks of their groups.
void sets_carry_out(struct index_machine *m, const struct instr *instr, unsigned axes);

void sets_communicate(struct index_machine *m, const struct instr *instr);

// tests/support/index_sets_relay.c: the rank so many before another in the order of a group, round
// and round; what a rank holds of a buffer that claims to be in this layout; an operator that works
// on a part; and a part that is handed on, or added.
int sets_behind(const struct index_machine *m, unsigned axes, int rank, int behind);
struct index_box sets_part_box(struct index_machine *m, int buffer, const struct layout *claim,
                               int rank);
void sets_work_on_part(struct index_machine *m, const struct instr *instr);
void sets_hand_on(struct index_machine *m, const struct instr *instr);
