#include "planner/ranking.h"

#include <assert.h>
#include <math.h>

struct ranking ranking_new(struct arena *arena, enum objective objective, int capacity)
{
    assert(capacity >= 1);
    return (struct ranking){objective, ARENA_NEW(arena, struct candidate, capacity), 0, capacity};
}

int64_t step_ns(double step_s)
{
    return llround(step_s * 1e9);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_choices(const struct parallel *a, const struct parallel *b)
{
    int order = 0;
    for (int i = 0; i < CHOICE_COUNT && order == 0; i++) {
        enum choice choice = (enum choice)i;
        order = compare(choice_value(a, choice), choice_value(b, choice));
    }
    for (int i = 0; i < a->order_count && order == 0; i++) {
        order = compare(a->order[i], b->order[i]);
    }
    if (order == 0) order = compare(a->stage_layers_count, b->stage_layers_count);
    if (order == 0) order = compare(a->replica_count, b->replica_count);
    for (int i = 0; i < a->replica_count && order == 0; i++)
        order = compare(a->replica_micro_batches[i], b->replica_micro_batches[i]);
    for (int i = 0; i < a->stage_layers_count && order == 0; i++) {
        order = compare(a->stage_layers[i], b->stage_layers[i]);
    }
    if (order == 0) order = compare(a->stage_tp_count, b->stage_tp_count);
    for (int i = 0; i < a->stage_tp_count && order == 0; i++)
        order = compare(a->stage_tp[i], b->stage_tp[i]);
    if (order == 0) order = compare(a->stage_ranks_count, b->stage_ranks_count);
    for (int i = 0; i < a->stage_ranks_count && order == 0; i++)
        order = compare(a->stage_ranks[i], b->stage_ranks[i]);
    if (order == 0) order = compare(a->branches, b->branches);
    return order;
}

int candidate_compare(enum objective objective, const struct candidate *a,
                      const struct candidate *b)
{
    int by_time = compare(step_ns(a->cost.step_s), step_ns(b->cost.step_s));
    int by_memory = compare(a->memory.reserved_bytes, b->memory.reserved_bytes);
    int first = objective == OBJECTIVE_MEMORY ? by_memory : by_time;
    int second = objective == OBJECTIVE_MEMORY ? by_time : by_memory;
    if (first) return first;
    return second ? second : compare_choices(&a->parallel, &b->parallel);
}

bool ranking_offer(struct ranking *ranking, const struct candidate *plan)
{
    int at = ranking->count;
    while (at > 0 && candidate_compare(ranking->objective, plan, &ranking->items[at - 1]) < 0) {
        at--;
    }
    if (at == ranking->capacity) return false;
    int last = ranking->count < ranking->capacity ? ranking->count++ : ranking->capacity - 1;
    for (int i = last; i > at; i--) {
        ranking->items[i] = ranking->items[i - 1];
    }
    ranking->items[at] = *plan;
    return true;
}

bool ranking_may_take(const struct ranking *ranking, double step_s, int64_t reserved_bytes)
{
    if (ranking->count < ranking->capacity) return true;
    const struct candidate *worst = &ranking->items[ranking->count - 1];
    return ranking->objective == OBJECTIVE_MEMORY ? reserved_bytes <= worst->memory.reserved_bytes
                                                  : step_ns(step_s) <= step_ns(worst->cost.step_s);
}

void ranking_sort(struct ranking *ranking)
{
    struct ranking sorted = *ranking;
    sorted.count = 0;
    for (int i = 0; i < ranking->count; i++) {
        struct candidate plan = ranking->items[i];
        ranking_offer(&sorted, &plan);
    }
    assert(sorted.count == ranking->count);
}
