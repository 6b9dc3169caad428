#pragma once
#include "plan/lower/lowering.h"

// Products that two exchanges of a grid meet at, over one dim: both operands are gathered over what
// they are multiplied along (SUMMA: van de Geijn and Watts 1997), or one is and the result is
// summed and scattered over what that has, as that of an input or of a matrix. Neither is ever
// whole: in as many turns as the axes have ranks each rank works on one part of the dim, of which
// it takes both panels, or hands what it made of it to the rank whose part it is, beside the
// products of the turn before. What comes of a matrix's gradient is added where the state has it.
//
// A rank at place i of one axis and j of the other works on part i + j, i + j - 1, ...: all parts
// are under way at once, each along its row and its column of the grid, and of every panel that an
// axis gathers a rank is sent what it has not got, once. Where published SUMMA broadcasts a panel
// at a time one rank of each row sends and the others wait. Two panels are in memory, the one that
// is worked on and the one that comes, so that of two ranks there is nothing to gain: they hand on
// one operand (plan/lower/relay.h).
//
// Of axes of r and c ranks turns are the least common multiple n of both, and a part is a piece of
// what a rank has, n / r or n / c of them: a rank at place i of r and j of c works on part
// i n / r + j n / c less the turn. So in each turn every member of a group is asked for a piece by
// one, that which goes with the turn: it is cut out and handed over, or comes and is put or added
// where it is of.

struct relay_sum {
    int scatter, sum;  // instructions: of what products make, and of those what adds it up; -1
};

struct relay_pair {
    enum dim dim;
    int *gathers, gather_count, *works, work_count;  // instructions
    struct relay_sum *sums;                          // each of a product or more
    int sum_count;
    int place;  // where it is put: the last product, or the first, or the last scatter
    unsigned axes[2];
    int turns;
};

// The pair that a product is of. `is_taken`, by instruction: part of another already. false: none.
bool relay_pair_find(const struct lowering *low, int work, const int *is_taken,
                     struct relay_pair *pair);
void relay_pair_emit(struct lowering *low, const struct instr *before,
                     const struct relay_pair *pair, int number);
