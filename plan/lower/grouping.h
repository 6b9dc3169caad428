#pragma once
#include "plan/lower/groups.h"

// Inside of lowering; included by plan/lower/group*.c and merged.c alone. The instructions of one
// phase while groups of them grow. Indices of instructions are those of the program, and good until
// something moves.

// How often the program reads and writes a buffer, which instructions do, last, and in which phase
// any of them is last: the same wherever instructions stand.
struct group_uses {
    int readers, writers;
    int reader, writer;  // numbers: where they stood at first
    enum phase last;
};

struct grouping {
    struct block_program *program;
    unsigned joins;
    int begin;                      // of the phase
    const struct group_uses *uses;  // [buffer]
    int *numbers, *places;          // [place] of what stands there; [number] where that stands
    int buffer_capacity;            // of the program's
    bool has_experts;               // any tensor of the block
};

// Of a program none of whose instructions has moved.
struct grouping grouping_of(struct arena *arena, struct block_program *program, unsigned joins);

struct instr *group_at(const struct grouping *grouping, int index);
const struct op *group_op(const struct grouping *grouping, int index);
// The group that an instruction is in, itself where it is in none: its first, and behind its last.
int group_first(const struct grouping *grouping, int index);
int group_end(const struct grouping *grouping, int first);
bool group_is_alone(const struct grouping *grouping, int index);
// Whether it may stand in front of, or behind, those of [from, to).
bool group_may_pass(const struct grouping *grouping, int index, int from, int to);
// Instructions [first, end) behind those up to `to`; `index` in front of those from `to` on.
void group_move_down(struct grouping *grouping, int first, int end, int to);
void group_move_up(struct grouping *grouping, int index, int to);
// Makes `index` the last of the group that begins at `first`, whichever of them has to move; false:
// what stands between them is in the way.
bool group_add(struct grouping *grouping, int first, int index, enum join rule);
// What may be a member: compute on this rank's part of dense tensors. Two of one group are alike in
// phase and in whether they are recomputed.
bool group_is_plain(const struct grouping *grouping, int index);
bool group_is_alike(const struct grouping *grouping, int a, int b);
bool group_has_views(const struct grouping *grouping, int index);
// Who wrote a buffer last before `index` in its phase; -1.
int group_maker(const struct grouping *grouping, int index, int buffer);
// Whether one instruction reads this buffer, once, and one writes it.
bool group_is_passed_on(const struct grouping *grouping, int buffer);
const struct tensor *group_tensor(const struct grouping *grouping, int buffer);
// Whether both hold the same part of the same dims.
bool group_is_same_shape(const struct grouping *grouping, int a, int b);
// The same but for whether they are still partial: a sum is reduced where it is.
bool group_is_same_part(const struct grouping *grouping, int a, int b);
// Whether `buffer` is a parameter with the last dims of `whole` alone.
bool group_is_bias(const struct grouping *grouping, int buffer, int whole);
