#pragma once
#include "simulator/evaluate.h"

// What a slow rank, a degraded NIC or link, or jitter costs a step, by playing it.
//
// Ranks that communicate within micro-batches (tensor, context and expert parallel groups; those of
// ZeRO 3) move in step: all wait for the slowest, in every task. Of such groups only those that
// differ need a timeline of their own, so that one slow rank of thousands is two timelines. Ranks
// of one stage wait for each other once more when they reduce gradients, all at the norm.
//
// A degraded NIC holds up all collectives and messages over its node's network that its group takes
// part in: they spread over the rails of a node and end with the slowest. So it does not matter
// which NIC of the node it is, and NICs of the node count as degraded alike. Prices are those of a
// cluster with such a node.

enum injection_kind { INJECT_RANK, INJECT_NIC, INJECT_LINK };

struct injection_cause {
    enum injection_kind kind;
    int first, last;  // ranks, or nodes of INJECT_NIC and INJECT_LINK, both included
    double factor;    // of ranks: their compute takes so much longer, >= 1; else the share of the
                      // bandwidth that is left, above 0 and at most 1
};

struct injection {
    const struct injection_cause *causes;
    int count;
    double jitter_ratio;  // see engine_options; each rank's tasks draw their own
    uint64_t seed;
};

// Ranks that fare alike, and what the step's extra seconds are to each of them.
struct injection_share {
    const char *who;  // "rank 137 (x1.2)", "in step with it: ranks 136, 138-143"
    int64_t rank_count;
    double compute_s, communication_s;  // longer than planned
    double wait_s;                      // the rest of what the step is longer
};

struct injection_effect {
    double alone_s;    // the step with this cause alone
    double without_s;  // the step without it, with all others
};

struct injection_result {
    double planned_s;                     // the step without any of it
    double steady_s;                      // with all causes, without jitter
    double step_s;                        // with all of it
    const struct simulation *simulation;  // of step_s, with a trace of the pipelines concerned and
                                          // one that is not, if asked for
    const struct injection_effect *effects;  // [cause]
    const struct injection_share *shares;    // the ranks of the causes first
    int share_count;
    int timeline_count;  // that were played
};

// What it costs the evaluated plan. ERR_USAGE when a rank or node is not there, naming those that
// are. The result lives in `arena`; `scratch` is reset.
MUST_CHECK bool inject(struct arena *arena, struct arena *scratch,
                       const struct evaluation_request *request,
                       const struct evaluation *evaluation, const struct injection *injection,
                       bool want_trace, struct injection_result *result, struct err *err);
