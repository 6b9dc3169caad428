#pragma once
#include "core/arena.h"
#include "plan/script/script.h"

// A checkpoint is a set of pieces: parts of arrays that have one name and one size whatever the
// plan. Which pieces a rank keeps follows from the layouts of its script alone, so that any process
// can say it of any rank; two plans differ in nothing but where they cut.

enum checkpoint_kind { CHECKPOINT_WEIGHT, CHECKPOINT_FIRST, CHECKPOINT_SECOND };
enum { CHECKPOINT_KIND_COUNT = 3 };
const char *checkpoint_kind_name(enum checkpoint_kind kind);  // "weight", "first_moment", ...
bool checkpoint_kind_find(const char *name, enum checkpoint_kind *kind);

// Of the array called `name` the box [first, first + count) of each dim, and of that box, row by
// row, the elements [from, from + elements).
struct checkpoint_piece {
    const char *name;  // "attention.q.weight.3": the tensor's, and its place in the model; of tied
                       // ones the tie's
    int rank;          // dims
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX], whole[TENSOR_RANK_MAX];
    int vocab_dim;  // its whole size is padded as the plan wants; -1: none
    int64_t from, elements;
    int parameter;  // of the script; -1: read from a file
};
int64_t checkpoint_box_elements(const struct checkpoint_piece *piece);

struct checkpoint_pieces {
    struct checkpoint_piece *items;
    int count;
};
// What a rank writes: of all that ranks of its stage hold alike each piece has one writer, in turn,
// so that they share the work. Every element of the stage is in one piece of one rank. `rank` must
// be of the script's stage.
struct checkpoint_pieces checkpoint_pieces_written(struct arena *arena, const struct script *script,
                                                   int rank);
// What a rank reads when it starts: its weights as kept. And what it updates, of which there are
// moments.
struct checkpoint_pieces checkpoint_pieces_read(struct arena *arena, const struct script *script,
                                                int rank, bool is_kept);

// Elements of `source` that are `target`'s, in runs that are contiguous in both, in the order of
// `target`. `from`, `to`: from the beginning of either piece. Returns how many there are.
struct checkpoint_run {
    int64_t from, to, count;
};
int64_t checkpoint_overlap(const struct checkpoint_piece *source,
                           const struct checkpoint_piece *target,
                           void (*visit)(void *context, const struct checkpoint_run *run),
                           void *context);
// How many elements of a piece a source must have: of the vocabulary only rows of the model, not
// those that pad it.
int64_t checkpoint_elements_wanted(const struct checkpoint_piece *piece, int64_t vocab);
