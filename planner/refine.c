#include "planner/refine.h"

#include "planner/keep_plan.h"
#include "planner/scan_tail.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_room(struct scan *scan, const struct parallel *parallel)
{
    return composer_meets(scan->composer, parallel, scan->limit_bytes) &&
           composer_host_shortfall(scan->composer, parallel) == 0;
}

// Whether the device has room beside the most that whole layers spare: what recomputes most stands
// last.
static bool makes_room(struct scan *scan, const struct parallel *kept,
                       const struct space_tail *tail)
{
    for (int m = 0; m < tail->move_count; m++) {
        const struct space_move *move = &tail->moves[m];
        int r = tail->recompute_count - 1;
        while (r >= 0 && !(tail->recomputes[r].moves >> m & 1))
            r--;
        if (r < 0 || move->offload.optimizer != kept->offload.optimizer) continue;
        struct parallel parallel = *kept;
        parallel.recompute = tail->recomputes[r].recompute;
        parallel.recompute_classes = tail->recomputes[r].classes;
        parallel.recompute_layers = tail->recomputes[r].layers_high;
        parallel.offload = space_moved(move, move->layers_high);
        if (has_room(scan, &parallel)) return true;
    }
    return false;
}

static void bases_add(struct refine_bases *bases, const struct refine_base *base)
{
    assert(base->kept.closed_form_s > 0);
    ARENA_GROW(bases->arena, bases->items, bases->count, bases->capacity);
    bases->items[bases->count++] = *base;
}

static bool may_keep_all(const struct space_tail *tail)
{
    for (int r = 0; r < tail->recompute_count; r++)
        if (tail->recomputes[r].recompute == RECOMPUTE_NONE) return true;
    return false;
}

// States on NVMe beside activations anywhere ask the program what states on the host ask it, but of
// a slower step, where the host has room for both.
static bool is_dominated(struct scan *scan, const struct parallel *first,
                         const struct space_tail *tail, int move)
{
    for (int m = 0; m < tail->move_count; m++) {
        const struct offload *offload = &tail->moves[m].offload;
        bool is_most = offload->activations == TIER_NVME &&
                       offload->optimizer == tail->moves[move].offload.optimizer;
        if (is_most)
            return offload->optimizer == TIER_NVME && tail_host_twin(scan, tail, first, m) >= 0;
    }
    return false;
}

bool refine_is_behind(const struct scan *scan, double kept_s)
{
    const struct refine_bases *bases = scan->request->bases;
    if (!bases) return true;
    const struct ranking *ranking = &scan->result.ranking;
    int before = 0;
    if (ranking->count > 0 && kept_s >= ranking->items[0].closed_form_s) return true;
    for (int i = 0; i < bases->count && before < REFINE_MOST; i++)
        before += bases->items[i].kept.closed_form_s < kept_s;
    return before == REFINE_MOST;
}

// With everything kept. Where W stands apart the closed form replays the schedule, which takes
// longer.
static double kept_step_s(struct scan *scan, const struct parallel *kept)
{
    bool is_replayed = !schedule_row(kept->schedule)->backward_fused;
    return is_replayed ? composer_bound(scan->composer, kept)
                       : composer_cost(scan->composer, kept).step_s;
}

// Whether the device has no room for it, but may have beside whole layers; the cheaper question
// first.
static bool is_pressed(struct scan *scan, const struct parallel *kept,
                       const struct space_tail *tail, const struct refine_seen *seen)
{
    enum tier states = kept->offload.optimizer;
    if (seen->kept_s[states] <= 0 && has_room(scan, kept)) return false;
    int64_t floor_bytes = seen->floor_bytes[states];
    if (floor_bytes <= 0) floor_bytes = composer_floor_bytes(scan->composer, kept);
    if (floor_bytes > scan->limit_bytes) return false;
    return makes_room(scan, kept, tail);
}

void refine_note(struct scan *scan, const struct parallel *first, const struct space_tail *tail,
                 enum tier settled, const struct refine_seen *seen)
{
    struct refine_bases *bases = scan->request->bases;
    if (!bases || !may_keep_all(tail)) return;
    for (int m = 0; m < tail->move_count; m++) {
        const struct space_move *move = &tail->moves[m];
        enum tier states = move->offload.optimizer;
        if (offload_moves_activations(&move->offload) || !space_has_move(tail, m)) continue;
        if (states >= settled || seen->floor_bytes[states] > scan->limit_bytes) continue;
        struct refine_base base = {.kept = {.parallel = *first}, .tail = tail};
        struct parallel *kept = &base.kept.parallel;
        kept->offload = move->offload;
        kept->recompute = RECOMPUTE_NONE;
        kept->recompute_classes = 0;
        kept->recompute_layers = -1;
        if (is_dominated(scan, first, tail, m)) continue;
        double kept_s = seen->kept_s[states];
        double least_s = kept_s > 0 ? kept_s : composer_bound(scan->composer, kept) * (1 - 1e-9);
        if (refine_is_behind(scan, least_s)) continue;
        if (kept_s <= 0) kept_s = kept_step_s(scan, kept);
        base.kept.cost.step_s = base.kept.closed_form_s = kept_s;
        if (refine_is_behind(scan, kept_s)) continue;
        if (is_pressed(scan, kept, tail, seen)) bases_add(bases, &base);
    }
}

static int compare_bases(const void *a, const void *b)
{
    const struct refine_base *first = a, *second = b;
    if (first->kept.closed_form_s != second->kept.closed_form_s)
        return first->kept.closed_form_s < second->kept.closed_form_s ? -1 : 1;
    return candidate_compare(OBJECTIVE_TIME, &first->kept, &second->kept);
}

// Plans that differ in nothing but what they keep, and in how they divide the layers.
static bool same_tail(const struct candidate *a, const struct candidate *b)
{
    struct candidate left = {.parallel = a->parallel}, right = {.parallel = b->parallel};
    left.parallel.recompute = right.parallel.recompute;
    left.parallel.recompute_classes = right.parallel.recompute_classes;
    left.parallel.recompute_layers = right.parallel.recompute_layers;
    left.parallel.offload = right.parallel.offload;
    left.parallel.stage_layers = right.parallel.stage_layers;
    left.parallel.stage_layers_count = right.parallel.stage_layers_count;
    return candidate_compare(OBJECTIVE_TIME, &left, &right) == 0;
}

static void offer(struct ranking *ranking, const struct candidate *plan)
{
    for (int i = 0; i < ranking->count; i++) {
        if (!same_tail(plan, &ranking->items[i])) continue;
        if (candidate_compare(ranking->objective, plan, &ranking->items[i]) >= 0) return;
        ranking->count--;
        memmove(&ranking->items[i], &ranking->items[i + 1],
                (size_t)(ranking->count - i) * sizeof *ranking->items);
    }
    ranking_offer(ranking, plan);
}

static void ask(struct composer *composer, const struct scan_request *request,
                const struct refine_base *base, struct ranking *ranking)
{
    int values[2 * SPACE_VALUE_MAX];
    struct candidate plan = {0};
    const struct keep_question question = {
        .parallel = base->kept.parallel,
        .recomputes = values,
        .recompute_count = space_recompute_values(base->tail, values),
        .may_move = true,
    };
    enum choice broken;
    composer_group(composer, &question.parallel);
    if (!keep_plan_find(composer, &question, &plan.parallel)) return;
    if (!pins_allow_all(&request->search->pins, &plan.parallel, &broken)) return;
    plan.cost = composer_cost(composer, &plan.parallel);
    plan.closed_form_s = plan.cost.step_s;
    plan.memory = composer_memory(composer, &plan.parallel, &plan.worst_stage);
    offer(ranking, &plan);
}

struct refine_result refine(struct arena *arena, struct arena *scratch,
                            const struct scan_request *request, struct ranking *ranking)
{
    const struct refine_bases *bases = request->bases;
    struct refine_result result = {.bound_s = INFINITY};
    if (ranking->count == 0) return result;
    result.layers_s = ranking->items[0].closed_form_s;
    assert(request->bases && "tails were noted");
    struct composer *composer = composer_new(arena, scratch, request->memo);
    if (bases->count > 0)
        qsort(bases->items, (size_t)bases->count, sizeof *bases->items, compare_bases);
    for (int i = 0, stages = 0; i < bases->count; i++) {
        const struct refine_base *base = &bases->items[i];
        if (base->kept.closed_form_s >= result.layers_s) break;
        if (i == 0) result.bound_s = base->kept.closed_form_s;
        stages += base->kept.parallel.degree[AXIS_PP];
        bool long_enough = i >= REFINE_LEAST && stages > REFINE_STAGES_MOST;
        if (i == REFINE_MOST || long_enough) break;
        result.stopped = search_should_stop(request->search);
        if (result.stopped) break;
        ask(composer, request, base, ranking);
        result.asked_count++;
    }
    return result;
}
