#include "simulator/inject.h"
#include "core/sort.h"
#include "simulator/lanes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool check_causes(const struct evaluation_request *request,
                         const struct evaluation *evaluation, const struct injection *injection,
                         struct err *err)
{
    static const char *const OPTIONS[] = {"--slow-rank", "--degraded-nic", "--slow-link"};
    for (int i = 0; i < injection->count; i++) {
        const struct injection_cause *cause = &injection->causes[i];
        assert(0 <= cause->first && cause->first <= cause->last);
        bool is_rank = cause->kind == INJECT_RANK;
        int count = is_rank ? evaluation->program->mesh.rank_count : request->cluster->node_count;
        if (cause->last < count) continue;
        return err_set(err, ERR_USAGE, "%s: the plan has %s 0 to %d, found %d",
                       OPTIONS[cause->kind], is_rank ? "ranks" : "nodes", count - 1, cause->last);
    }
    return true;
}

static struct simulation *play(struct arena *arena, struct arena *scratch,
                               const struct lanes *lanes, const struct injection *injection,
                               bool want_trace)
{
    struct engine_options options = {
        .want_trace = want_trace,
        .lanes = lanes->list,
        .lane_count = lanes->count,
        .prices = lanes->prices,
        .stage_price = lanes->stage_price,
        .jitter_ratio = injection ? injection->jitter_ratio : 0,
        .jitter_ranks = lanes_group_size(lanes, 0),
        .seed = injection ? injection->seed : 0,
    };
    return simulate_step(arena, scratch, lanes->prices[0], &options);
}

// The step with these causes and nothing else, played and forgotten.
static double step_with(struct arena *scratch, const struct evaluation_request *request,
                        const struct evaluation *evaluation, const struct injection_cause *causes,
                        int count)
{
    struct arena_mark mark = arena_mark(scratch);
    struct arena inner = {0};
    struct lanes *lanes = lanes_make(scratch, request, evaluation, causes, count, false);
    double step_s = play(scratch, &inner, lanes, NULL, false)->cost.step_s;
    arena_free(&inner);
    arena_reset(scratch, mark);
    return step_s;
}

static void find_effects(struct arena *arena, struct arena *scratch,
                         const struct evaluation_request *request,
                         const struct evaluation *evaluation, const struct injection *injection,
                         struct injection_result *result)
{
    struct injection_effect *effects = ARENA_NEW(arena, struct injection_effect, injection->count);
    struct injection_cause *others = ARENA_NEW(arena, struct injection_cause, injection->count);
    for (int i = 0; i < injection->count; i++) {
        memcpy(others, injection->causes, (size_t)i * sizeof *others);
        memcpy(others + i, injection->causes + i + 1,
               (size_t)(injection->count - i - 1) * sizeof *others);
        effects[i].alone_s = step_with(scratch, request, evaluation, &injection->causes[i], 1);
        effects[i].without_s = injection->count == 1 ? result->planned_s
                                                     : step_with(scratch, request, evaluation,
                                                                 others, injection->count - 1);
    }
    result->effects = effects;
}

// What the tasks of a stage compute in a step as planned.
static double stage_compute_s(const struct lanes *lanes, const struct rank_group *group, int stage)
{
    const struct step_price *price = lanes->prices[group->base];
    double sum_s = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int class = price->class_of[stage * price->shape.chunk_count + chunk];
        const struct chunk_price *own = &price->classes[class];
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
            sum_s += (own->phase_s[kind][PART_COMPUTE] + own->phase_s[kind][PART_RECOMPUTE]) *
                     group->micro_batch_count;
        }
        sum_s += own->update_s;
    }
    return sum_s;
}

static double stage_busy_s(const struct step_price *price, int rounds, int stage)
{
    double sum_s = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int class = price->class_of[stage * price->shape.chunk_count + chunk];
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
            for (int part = 0; part < PART_COUNT; part++) {
                sum_s += price->classes[class].phase_s[kind][part] * rounds;
            }
        }
    }
    return sum_s;
}

enum { LISTED_MOST = 6 };

// "rank 137", "ranks 136, 138-143", "120 ranks from 8 on"
static const char *ranks_text(struct arena *arena, const int *ranks, int count)
{
    const char *text = count == 1 ? "rank" : "ranks";
    int pieces = 0;
    for (int i = 0; i < count;) {
        int end = i + 1;
        while (end < count && ranks[end] == ranks[end - 1] + 1)
            end++;
        if (++pieces > LISTED_MOST)
            return arena_print(arena, "%d ranks from %d on", count, ranks[0]);
        text = arena_print(arena, "%s%s %d", text, pieces > 1 ? "," : "", ranks[i]);
        if (end > i + 1) text = arena_print(arena, "%s-%d", text, ranks[end - 1]);
        i = end;
    }
    return text;
}

struct sharing {
    struct arena *arena;
    const struct lanes *lanes;
    const struct injection *injection;
    const struct injection_result *result;
    struct injection_share *list;
    int count;
};

static void add_share(struct sharing *sharing, const char *who, int64_t ranks, double compute_s,
                      double communication_s)
{
    if (ranks == 0) return;
    double longer_s = sharing->result->step_s - sharing->result->planned_s;
    sharing->list[sharing->count++] = (struct injection_share){
        who, ranks, compute_s, communication_s, longer_s - compute_s - communication_s};
}

// The ranks of a stage of all pipelines of a lane, ascending.
static int *lane_ranks(struct arena *arena, const struct lanes *lanes, int lane, int stage,
                       int *count)
{
    int size = lanes_group_size(lanes, stage), found = 0;
    *count = lanes->list[lane].pipeline_count * size;
    int *ranks = ARENA_NEW(arena, int, *count);
    for (int pipeline = lanes->pipeline_of[lane]; found < *count; pipeline++) {
        if (lanes->lane_of[pipeline] != lane) continue;
        lanes_group_ranks(lanes, pipeline, stage, ranks + found);
        found += size;
    }
    sort_ints(ranks, (size_t)found);
    return ranks;
}

static const struct rank_group *lanes_group(const struct lanes *lanes, int lane, int stage)
{
    return &lanes->groups[(ptrdiff_t)lanes->pipeline_of[lane] * lanes->stage_count + stage];
}

static bool is_on_slow_links(const struct lanes *lanes, int lane, int stage)
{
    const struct rank_group *group = lanes_group(lanes, lane, stage);
    return group->price != group->base;
}

static double links_s(const struct lanes *lanes, int lane, int stage)
{
    const struct rank_group *group = lanes_group(lanes, lane, stage);
    int rounds = group->micro_batch_count;
    return stage_busy_s(lanes->prices[group->price], rounds, stage) -
           stage_busy_s(lanes->prices[group->base], rounds, stage);
}

// Those that are slow themselves, and those that move in step with them or sit on slow links.
static void share_stage(struct sharing *sharing, int lane, int stage)
{
    const struct lanes *lanes = sharing->lanes;
    const struct injection *injection = sharing->injection;
    const struct lane_stage *own = &lanes->list[lane].stages[stage];
    int all;
    const int *ranks = lane_ranks(sharing->arena, lanes, lane, stage, &all);
    int *part = ARENA_NEW(sharing->arena, int, all);
    double compute_s = stage_compute_s(lanes, lanes_group(lanes, lane, stage), stage),
           factor = own->slowdown;
    while (factor > 0) {
        int count = 0;
        double next = 0;
        for (int i = 0; i < all; i++) {
            double slow = lanes_rank_slowdown(injection->causes, injection->count, ranks[i]);
            if (slow == factor) part[count++] = ranks[i];
            if (slow < factor) next = fmax(next, slow);
        }
        const char *before = factor < own->slowdown ? "in step with it: " : "";
        const char *slow = factor > 1 ? arena_print(sharing->arena, " (x%.3g)", factor) : "";
        add_share(sharing,
                  arena_print(sharing->arena, "%s%s%s%s", before,
                              ranks_text(sharing->arena, part, count), slow,
                              is_on_slow_links(lanes, lane, stage) ? ", on slower links" : ""),
                  count, (factor - 1) * compute_s, links_s(lanes, lane, stage));
        factor = next;
    }
}

// Those that have no line of their own, in the mean.
struct rest {
    int64_t rank_count;
    double compute_s, communication_s;  // sums over ranks
};

static void add_to_rest(const struct sharing *sharing, int lane, int stage, struct rest *rest)
{
    const struct lanes *lanes = sharing->lanes;
    const struct injection *injection = sharing->injection;
    int count;
    const int *ranks = lane_ranks(sharing->arena, lanes, lane, stage, &count);
    double compute_s = stage_compute_s(lanes, lanes_group(lanes, lane, stage), stage);
    for (int i = 0; i < count; i++) {
        double slow = lanes_rank_slowdown(injection->causes, injection->count, ranks[i]);
        rest->compute_s += (slow - 1) * compute_s;
    }
    rest->communication_s += count * links_s(lanes, lane, stage);
    rest->rank_count += count;
}

// By how much the worst ranks of a lane are busy longer.
static double severity_s(const struct lanes *lanes, int lane)
{
    double most_s = 0;
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        const struct lane_stage *own = &lanes->list[lane].stages[stage];
        double longer_s =
            (own->slowdown - 1) * stage_compute_s(lanes, lanes_group(lanes, lane, stage), stage) +
            links_s(lanes, lane, stage);
        most_s = fmax(most_s, longer_s);
    }
    return most_s;
}

// The worst first; those that are alike in the order of their ranks.
static int *order_lanes(struct arena *arena, const struct lanes *lanes)
{
    int *order = ARENA_NEW(arena, int, lanes->count);
    double *severity = ARENA_NEW(arena, double, lanes->count);
    for (int lane = 0; lane < lanes->count; lane++) {
        int at = lane;
        double own_s = severity_s(lanes, lane);
        assert(own_s >= 0 && "nothing that is slowed works less");
        for (; at > 0 && severity[at - 1] < own_s; at--) {
            order[at] = order[at - 1];
            severity[at] = severity[at - 1];
        }
        order[at] = lane;
        severity[at] = own_s;
    }
    return order;
}

static void find_shares(struct arena *arena, const struct lanes *lanes,
                        const struct injection *injection, struct injection_result *result)
{
    enum { LANES_MOST = 4 };
    int concerned = 0;
    int64_t rest = 0, beside = 0;
    size_t factors = (size_t)injection->count + 1;
    size_t room = (size_t)LANES_MOST * (size_t)lanes->stage_count * factors + 3;
    struct sharing sharing = {
        arena, lanes, injection, result, ARENA_NEW(arena, struct injection_share, room), 0};
    struct rest more = {0};
    const int *order = order_lanes(arena, lanes);
    for (int place = 0; place < lanes->count; place++) {
        int lane = order[place];
        const struct engine_lane *own = &lanes->list[lane];
        if (!lanes_is_concerned(lanes, lanes->pipeline_of[lane])) {
            for (int stage = 0; stage < lanes->stage_count; stage++)
                rest += (int64_t)own->pipeline_count * lanes_group_size(lanes, stage);
            continue;
        }
        bool is_listed = concerned++ < LANES_MOST;
        for (int stage = 0; stage < lanes->stage_count; stage++) {
            bool is_calm =
                own->stages[stage].slowdown <= 1 && !is_on_slow_links(lanes, lane, stage);
            if (is_calm) {
                beside += (int64_t)own->pipeline_count * lanes_group_size(lanes, stage);
            } else if (is_listed) {
                share_stage(&sharing, lane, stage);
            } else {
                add_to_rest(&sharing, lane, stage, &more);
            }
        }
    }
    double ranks = (double)(more.rank_count > 0 ? more.rank_count : 1);
    add_share(&sharing, "more like these, in the mean", more.rank_count, more.compute_s / ranks,
              more.communication_s / ranks);
    add_share(&sharing, "other stages of their pipelines", beside, 0, 0);
    add_share(&sharing, "all other pipelines", rest, 0, 0);
    result->shares = sharing.list;
    result->share_count = sharing.count;
    assert((size_t)sharing.count <= room);
}

// What a trace calls its ranks by; the shape first, which names tasks.
struct rank_names {
    struct schedule_shape shape;
    const struct lanes *lanes;
    struct injection injection;
};

// The ranks of its group that are as slow as this one, which the trace shows for all of them.
static const char *alike_text(const struct rank_names *names, int pipeline, int stage, double own,
                              struct arena *scratch)
{
    const struct injection *injection = &names->injection;
    int size = lanes_group_size(names->lanes, stage), count = 0;
    int *ranks = ARENA_NEW(scratch, int, size);
    lanes_group_ranks(names->lanes, pipeline, stage, ranks);
    for (int i = 0; i < size; i++) {
        double slow = lanes_rank_slowdown(injection->causes, injection->count, ranks[i]);
        if (slow == own) ranks[count++] = ranks[i];
    }
    return ranks_text(scratch, ranks, count);
}

static const char *rank_name(const void *context, int rank, struct arena *scratch)
{
    const struct rank_names *names = context;
    const struct lanes *lanes = names->lanes;
    int pipeline, stage;
    lanes_place(lanes, rank, &pipeline, &stage);
    const struct rank_group *group = &lanes->groups[pipeline * lanes->stage_count + stage];
    if (!lanes_is_concerned(lanes, pipeline))
        return arena_print(scratch, "rank %d (like all other pipelines)", rank);
    double own = lanes_rank_slowdown(names->injection.causes, names->injection.count, rank);
    const char *who = alike_text(names, pipeline, stage, own, scratch);
    if (own > 1) return arena_print(scratch, "%s (x%.3g)", who, own);
    const char *why = "in the same pipeline";
    if (group->price != group->base) why = "on slower links";
    if (group->slowdown > 1) why = "in step with a slow one";
    return arena_print(scratch, "%s (%s)", who, why);
}

// Which line stands for which ranks: of a group that the trace shows, the first that is as slow.
static int *stand_ins(struct arena *arena, const struct lanes *lanes,
                      const struct injection *injection, const struct trace *trace)
{
    int rank_count = lanes->mesh->rank_count;
    int *shown_as = ARENA_NEW(arena, int, rank_count), *ranks = ARENA_NEW(arena, int, rank_count);
    for (int rank = 0; rank < rank_count; rank++) {
        int pipeline, stage;
        lanes_place(lanes, rank, &pipeline, &stage);
        lanes_group_ranks(lanes, pipeline, stage, ranks);
        int size = lanes_group_size(lanes, stage);
        bool is_calm = !lanes_is_concerned(lanes, pipeline);
        double own = lanes_rank_slowdown(injection->causes, injection->count, rank);
        shown_as[rank] = -1;
        for (int i = 0; i < size && shown_as[rank] < 0; i++) {
            bool is_shown = ranks[i] < trace->rank_count && trace->appears[ranks[i]];
            double slow = lanes_rank_slowdown(injection->causes, injection->count, ranks[i]);
            if (is_shown && (is_calm || slow == own)) shown_as[rank] = ranks[i];
        }
    }
    return shown_as;
}

static void name_ranks(struct arena *arena, const struct lanes *lanes,
                       const struct injection *injection, struct trace *trace)
{
    struct rank_names *names = ARENA_NEW(arena, struct rank_names, 1);
    *names = (struct rank_names){lanes->prices[0]->shape, lanes, *injection};
    trace->context = names;
    trace->rank_name = rank_name;
    trace->shown_as = stand_ins(arena, lanes, injection, trace);
}

bool inject(struct arena *arena, struct arena *scratch, const struct evaluation_request *request,
            const struct evaluation *evaluation, const struct injection *injection, bool want_trace,
            struct injection_result *result, struct err *err)
{
    if (!check_causes(request, evaluation, injection, err)) return false;
    bool is_random = injection->jitter_ratio > 0;
    *result = (struct injection_result){0};
    result->planned_s = step_with(scratch, request, evaluation, NULL, 0);
    struct lanes *lanes =
        lanes_make(arena, request, evaluation, injection->causes, injection->count, is_random);
    if (want_trace) lanes_show(arena, lanes, injection->causes, injection->count);
    struct simulation *simulation = play(arena, scratch, lanes, injection, want_trace);
    if (want_trace) name_ranks(arena, lanes, injection, &simulation->trace);
    result->simulation = simulation;
    result->step_s = result->simulation->cost.step_s;
    assert(result->step_s > 0 && result->planned_s > 0);
    result->steady_s =
        is_random ? step_with(scratch, request, evaluation, injection->causes, injection->count)
                  : result->step_s;
    result->timeline_count = lanes->count;
    find_effects(arena, scratch, request, evaluation, injection, result);
    if (is_random)
        lanes = lanes_make(arena, request, evaluation, injection->causes, injection->count, false);
    find_shares(arena, lanes, injection, result);
    return true;
}
