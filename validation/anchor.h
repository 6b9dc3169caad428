#pragma once
#include "validation/fit.h"
#include "validation/score.h"

// A few runs that were measured correct the constants that they touch, before a larger run is
// predicted: the estimate of fit.h from the shipped values, each with the spread of its term, so
// that what is least certain and matters most to these runs moves most. Only devices and stacks
// move, which a plan file holds; fabrics stay.
//
// A run whose measured peak of memory is above ANCHOR_FULL_RATIO of the device is left aside: there
// allocators free and ask anew, which takes time that no constant has (of nanotron's published
// pipelines on one such node all nine above 0.9 were 2.7 to 7.2 times slower than others).

#define ANCHOR_FULL_RATIO 0.9

struct anchor_run {
    const char *name;
    double measured_s;
    double before_s, after_s;  // predicted with the shipped constants and the corrected ones
    bool is_used;              // not near full memory
    bool is_met;
};

// A run that stays further off than this after all is not met.
#define ANCHOR_MET_WITHIN 0.1

struct anchor {
    struct anchor_run *runs;
    int run_count, used_count;
    bool is_met;  // all that are used; else something slowed them that is no constant, and the band
                  // of anchored predictions does not hold
    struct fit_constant *constants;  // those that moved
    int constant_count;
};

// Of trials that were asked; what of them is not searched is `is_given`. ERR_INPUT where one has no
// answer, or where none can be used. Lives in `arena`.
MUST_CHECK bool anchor_make(struct arena *arena, struct trials *trials, struct anchor *anchor,
                            struct err *err);

// The cluster's devices and the stack with the constants as they were corrected, whose provenance
// says by what (`words`: "2 runs of node.jsonl"). ERR_INPUT where the runs had neither this device
// nor this stack. Lives in `arena`.
MUST_CHECK bool anchor_apply(struct arena *arena, const struct anchor *anchor, const char *words,
                             const struct cluster **cluster, const struct stack **stack,
                             struct err *err);

// What the first trials, which are answered as all are, predict of all: in their order.
// `used_count` 0: all of them were near full memory, and there is no result.
MUST_CHECK bool anchor_predict(struct arena *arena, const struct trials *trials, int first_count,
                               int *used_count, struct fit_result *result, struct err *err);

// How good that is: of every series of published runs (one model, one release of one software, one
// device, several numbers of GPUs) those on the fewest GPUs correct the constants, all larger ones
// are predicted.
struct anchor_series {
    const char *name, *family;
    int gpus;          // of the runs that anchor it
    int anchor_count;  // how many of them were used
    int first, count;  // its larger runs in `rows`
};

struct anchor_row {
    const struct trial *trial;
    double before_s, after_s;
};

struct anchor_sweep {
    struct anchor_series *series;
    int series_count;
    struct anchor_row *rows;
    int row_count;
    struct score before, after;              // over rows
    double before_family_mape, family_mape;  // mean over families
    int family_count;
    struct anchored_band band;  // of measured / predicted after, families weighing alike; row_count
                                // 0: fewer than ANCHOR_BAND_FAMILIES families
};

enum { ANCHOR_BAND_FAMILIES = 3 };

// Of answered trials of these tiers. `source` ends that of the band.
MUST_CHECK bool anchor_sweep_make(struct arena *arena, const struct trials *trials,
                                  const char *tiers, const char *source, struct anchor_sweep *sweep,
                                  struct err *err);
