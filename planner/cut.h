#pragma once

// What the space of a search leaves out of the values that pins may take. Where a plan among them
// could be faster than the best one found, the answer is not optimal but the best of what was
// searched, and says what was not.

enum cut {
    CUT_TP,           // over more than two nodes
    CUT_CP,           // pieces of less than 2,048 tokens
    CUT_MICRO_BATCH,  // of more than 32,768 tokens a rank
    CUT_ETP,          // parts of tp
    CUT_SP,           // off beside experts
    CUT_IMAGES,       // parts of images, which no search tries by itself
    CUT_RELAY,        // parts in which tp hands on what it gathers, which no search tries by itself
    CUT_LOSS,         // parts in which scores of a loss are made, which no search tries by itself
    CUT_STAGES,       // other splits than even ones, balanced ones and neighbours of the best
    CUT_RECOMPUTE,    // other sets of classes than those of planner/space.c
    CUT_IN_FLIGHT,    // other caps than three from those of 1F1B to the largest that is of use
    CUT_ZERO_GROUP,   // other groups than one node and all ranks
    CUT_BUCKET,       // other sizes than the stack's
    CUT_ATTENTION,    // another kernel than the stack's first
    CUT_OVERLAP,      // other than the stack overlaps by default
    CUT_PASSES,       // fewer than the stack can do
    CUT_OFFLOAD,      // what is moved off the device only on request
    CUT_STATES,       // states or parameters of some layers, which are tried beside the best alone
    CUT_COUNT
};
const char *cut_name(enum cut cut);  // "stages": its choice, as in plan.json
const char *cut_text(enum cut cut);  // "other splits over stages"

struct open_cut {
    enum cut cut;
    double bound_s;  // no plan among the values left out is faster; 0: not known
};
