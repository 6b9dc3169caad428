#include "planner/space_list.h"

#include "planner/memo.h"
#include "planner/refuse.h"
#include "planner/space.h"

#include <assert.h>
#include <string.h>

static void add_value(struct space_list *list, enum choice choice, int64_t value)
{
    assert((unsigned)choice < CHOICE_COUNT);
    int64_t *values = list->choices[choice].values;
    int count = list->choices[choice].count, kept = count < SPACE_LIST_MAX ? count : SPACE_LIST_MAX;
    int at = kept;
    for (int i = 0; i < kept; i++)
        if (values[i] == value) return;
    list->choices[choice].count++;
    if (kept == SPACE_LIST_MAX) return;
    for (; at > 0 && values[at - 1] > value; at--)
        values[at] = values[at - 1];
    values[at] = value;
}

static void add_plan(struct space_list *list, const struct parallel *parallel)
{
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        add_value(list, (enum choice)choice, choice_value(parallel, (enum choice)choice));
}

// Plans that differ in the layers that they recompute differ in nothing else.
static void add_tail(const struct space *space, const struct space_group *group,
                     const struct space_tail *tail, struct space_list *list)
{
    for (int r = 0; r < tail->recompute_count; r++) {
        const struct space_recompute *recompute = &tail->recomputes[r];
        int low = recompute->layers_low, high = recompute->layers_high;
        if (recompute->moves == 0 || low > high) continue;
        struct parallel parallel = space_parallel(space, group, tail, recompute, low);
        for (int m = 0; m < tail->move_count; m++) {
            parallel.offload = space_moved(&tail->moves[m], tail->moves[m].layers_low);
            if (recompute->moves >> m & 1) add_plan(list, &parallel);
        }
        for (int layers = low + 1; layers <= high; layers++) {
            parallel = space_parallel(space, group, tail, recompute, layers);
            add_value(list, CHOICE_RECOMPUTE_LAYERS,
                      choice_value(&parallel, CHOICE_RECOMPUTE_LAYERS));
        }
    }
}

static void add_groups(struct space *space, const struct space_graphs *graphs,
                       struct space_list *list)
{
    const struct space_tails *last = NULL;
    for (int g = 0; g < space->group_count; g++) {
        const struct space_group *group = &space->groups[g];
        const struct space_tails *tails = space_tails(space, graphs, group);
        list->plan_count += tails->plan_count;
        if (tails->count == 0) continue;
        list->has_pipeline |= space->meshes[group->mesh].degree[AXIS_PP] > 1;
        struct parallel first = space_first(space, group, &tails->tails[0]);
        add_plan(list, &first);
        for (int i = 0; i < tails->count && tails != last; i++)
            add_tail(space, group, &tails->tails[i], list);
        last = tails;
    }
}

bool space_list(struct arena *arena, const struct search_request *request, struct space_list *list,
                struct err *err)
{
    static_assert(CHOICE_COUNT <= sizeof list->choices / sizeof *list->choices, "one a choice");
    struct arena work = {0}, scratch = {0};
    *list = (struct space_list){0};
    struct memo *memo = memo_new(&work, &scratch, request);
    const struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(&work, request, &graphs);
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        list->choices[choice].is_pinned = pins_get(&request->pins, (enum choice)choice).set;
    add_groups(space, &graphs, list);
    list->cuts = space->cuts;
    bool found = list->plan_count > 0 || refuse_empty(arena, request, space, err);
    arena_free(&scratch);
    arena_free(&work);
    return found;
}
