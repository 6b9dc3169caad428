#pragma once
#include "executor/cpu/cpu.h"

// A scan (models/op_scan.h) as one rank has it: some of the heads, and the groups that these read.
struct scan_call {
    int64_t batch, seq, heads, groups, width, state;  // here
    int64_t heads_each, first_head, first_group;      // heads of a group; where both begin
    int64_t rates_each;  // numbers of A of a head: 1, or one for each of its state
    int64_t stride;      // tokens from a state that is kept to the next
    bool is_steady;      // without dt and d, and with rates in place of a_log
    const REAL *x, *dt, *b, *c, *a_log, *d;
};
