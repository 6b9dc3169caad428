#include "planner/scan.h"

struct candidate candidate_copy(struct arena *arena, const struct candidate *plan)
{
    struct candidate copy = *plan;
    copy.parallel = parallel_copy(arena, &plan->parallel);
    return copy;
}

static bool scan_one(struct arena *arena, const struct search_request *request, int looks_most,
                     struct candidate *best)
{
    struct arena work = {0}, scratch = {0};
    struct search_request quiet = *request;
    quiet.progress = NULL;
    quiet.exhaustive = false;  // it proves the search that was asked, not what is beside its answer
    struct scan_request scan = {
        .search = &quiet, .keep = 1, .objective = request->objective, .looks_most = looks_most};
    scan.memo = memo_new(&work, &scratch, &quiet);
    scan.graphs = (struct space_graphs){memo_graph_of, scan.memo};
    scan.space = space_make(&work, &quiet, &scan.graphs);
    struct scan_result result = scan_space(&work, &scratch, &scan);
    bool found = result.ranking.count > 0;
    if (found) *best = candidate_copy(arena, &result.ranking.items[0]);
    arena_free(&scratch);
    arena_free(&work);
    return found;
}

bool scan_best(struct arena *arena, const struct search_request *request, struct candidate *best)
{
    return scan_one(arena, request, 0, best);
}

bool scan_good(struct arena *arena, const struct search_request *request, struct candidate *good)
{
    return scan_one(arena, request, SCAN_GOOD_LOOKS, good);
}
