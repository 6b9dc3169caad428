#pragma once
#include "core/arena.h"
#include "executor/engine/held.h"
#include "executor/kernel.h"

// Which tokens of a micro-batch chose which experts, as far as a rank has to know. A ragged tensor
// is (batch, seq, expert, columns), and of the dense box that a layout gives a rank only the rows
// of chosen experts exist; they stand in memory by expert, then by token. So the rows that any rank
// holds under any layout follow from the choices in its box, and so does what a change of layout
// moves: the rows that are in both boxes.

enum { ROWS_BATCH, ROWS_SEQ, ROWS_EXPERT, ROWS_COLUMN, ROWS_RANK };

struct expert_rows {
    int64_t first[ROWS_COLUMN], count[ROWS_COLUMN];  // what is known of the micro-batch
    int64_t *rows_of;                                // [experts + 1] prefix sums, by known expert
    int64_t *token_of;  // [rows] known tokens as batch * seqs + seq, ascending in an expert
    int64_t expert_capacity, row_capacity;
};

// Whether all rows of a box are known.
bool expert_rows_know(const struct expert_rows *rows, const struct held *box);
// Fills `rows` with what is true in `chosen`, [token][expert] of the region that `rows` is set to.
// Arrays grow in `arena` and stay for the next time.
void expert_rows_make(struct arena *arena, struct expert_rows *rows, const bool *chosen);
// The same of a box out of `rows`: chosen[token][expert] of it, cleared first.
void expert_rows_read(const struct expert_rows *rows, const struct held *box, bool *chosen);
// Takes out the rows of an expert past the first `capacity` of a sequence. All of each known
// sequence must be known.
void expert_rows_drop(struct expert_rows *rows, int64_t capacity);
int64_t expert_rows_count(const struct expert_rows *rows, const struct held *box);
// What a kernel is told of the rows in a box; arrays in `arena`.
struct kernel_routing *expert_rows_routing(struct arena *arena, const struct expert_rows *rows,
                                           const struct held *box);

// The rows that two boxes share, as runs that are contiguous in both: `source` and `target` are row
// numbers there. A zero walk with rows and boxes set begins; false at the end.
struct expert_walk {
    const struct expert_rows *rows;
    const struct held *source_box, *target_box;
    int64_t expert, row;  // the next to look at
    int64_t source, target;
};
struct expert_run {
    int64_t source, target, count;
};
bool expert_rows_next(struct expert_walk *walk, struct expert_run *run);
