#pragma once
#include "planner/search.h"

// Plans whose stages have meshes of their own (struct parallel, stage_tp). The best plans of the
// search, where all stages have one, are given those that are asked for: what is pinned, or, with
// `search_stage_tp`, each divisor of tp for the stages in front of each cut, behind it, and for all
// but the first and the last, which tied embeddings keep alike. Each is lowered and played whole,
// with micro-batches that the stage with least tp can split and layers shared out by the speed of
// the stages, and the best few are changed a layer at a time while that helps. Plans with one mesh
// are in the running where they are allowed, so that `search_stage_tp` is never worse than without.
// Nothing is proven of the answer.
//
// Or stages have pinned numbers of ranks, unlike ones (struct parallel, stage_ranks). Seeds are
// then plans of as many stages that have as many ranks as the largest and as the smallest of them
// all.
//
// Where branches side by side are asked for or may be better (planner/branches.h) each seed is
// tried with them as well.

struct meshes_answer {
    bool is_asked;
    bool has_alike;  // a plan with one mesh for all fits
    double alike_s;
    struct parallel alike;
    int played_count;
};

bool meshes_are_asked(const struct pins *pins);
// As search_plans. Lives in `arena`.
MUST_CHECK bool meshes_search(struct arena *arena, const struct search_request *request,
                              struct search_result *result, struct meshes_answer *answer,
                              struct err *err);
