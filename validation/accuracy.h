#pragma once
#include "validation/fits.h"
#include "validation/left_out.h"
#include "validation/ranking.h"
#include "validation/score.h"
#include "validation/trial.h"

// How far predictions are from published runs: by family, by kind, in all; memory; the order of
// plans. The same rows are scored with what was predicted for them with constants fitted without
// their family, where that is known (left_out.h).

struct accuracy_line {
    const char *name;
    struct score now, left_out;  // left_out.row_count is 0 where nothing is known
};

enum accuracy_group {
    ACCURACY_DENSE,          // GEMMs in 16 bits
    ACCURACY_LOW_PRECISION,  // dense, GEMMs in fp8 or fp4
    ACCURACY_ALL_DENSE,      // both
    ACCURACY_MIXTURE,
    ACCURACY_UNSTATED,  // network not stated, whatever the kind
    ACCURACY_ALL,
    ACCURACY_GROUP_COUNT
};

enum { ACCURACY_TIER_COUNT = 3 };

struct accuracy {
    const struct trials *trials;
    const char *tiers;  // that all but tier_lines are of
    bool has_left_out;
    bool is_blind;  // set by who asked for the rows as they came: reports say so first
    struct accuracy_line *families;  // by name, the dense ones first
    int family_count;
    struct accuracy_line *softwares;  // by what ran, in the order of the rows
    int software_count;
    double family_mape, left_out_family_mape;  // mean over families
    struct accuracy_line groups[ACCURACY_GROUP_COUNT];
    struct accuracy_line tier_lines[ACCURACY_TIER_COUNT];  // A, B, C
    struct score allocated, reserved;        // peaks of memory; a failed step fails here, too
    struct accuracy_line *allocated_stacks;  // by the stack that ran, in the order of the rows
    int allocated_stack_count;
    struct ranking_score ranking, left_out_ranking;
    struct accuracy_fits fits;
    int adapter_count;  // rows that train adapters: not asked, and scored nowhere
};

// `tiers` holds one letter a tier; `left_out` may be NULL. Answered trials. Lives in `arena`.
struct accuracy *accuracy_of(struct arena *arena, const struct trials *trials, const char *tiers,
                             const struct left_out *left_out);
