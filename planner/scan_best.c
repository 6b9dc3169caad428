#include "planner/scan.h"

#include <string.h>

static const int *copy_numbers(struct arena *arena, const int *numbers, int count)
{
    if (count == 0) return NULL;
    int *copy = ARENA_NEW(arena, int, count);
    memcpy(copy, numbers, (size_t)count * sizeof *copy);
    return copy;
}

struct candidate candidate_copy(struct arena *arena, const struct candidate *plan)
{
    struct candidate copy = *plan;
    struct parallel *parallel = &copy.parallel;
    parallel->stage_layers =
        copy_numbers(arena, parallel->stage_layers, parallel->stage_layers_count);
    parallel->stage_tp = copy_numbers(arena, parallel->stage_tp, parallel->stage_tp_count);
    parallel->replica_micro_batches =
        copy_numbers(arena, parallel->replica_micro_batches, parallel->replica_count);
    return copy;
}

static bool scan_one(struct arena *arena, const struct search_request *request, int looks_most,
                     struct candidate *best)
{
    struct arena work = {0}, scratch = {0};
    struct search_request quiet = *request;
    quiet.progress = NULL;
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
