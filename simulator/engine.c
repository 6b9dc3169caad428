#include "simulator/engine.h"

#include "simulator/walk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The step, in order: the pipelines (walk.c), each stage's gradient reductions (reduce.c), the
// small reductions, the tied parameters, the norm, the update, the parameter gathering unless it
// runs in the next step's forward, the overhead. What is walked are lanes; without any, pipeline q
// is the q-th rank of every stage, in rank order. The ranks of a stage reduce together.

struct stage_end {
    int64_t walk_ns;    // the slowest rank's last task, and blocking send
    int64_t reduce_ns;  // reductions done; the step's synchronisation
    int64_t beside_ns;  // of the update, beside the reductions
    int64_t exposed_ns[PART_COUNT], exposed_pp_ns;  // of each rank, between the two
};

struct event_engine {
    const struct step_price *price;
    const struct engine_options *options;
    struct walk *walk;
    const struct engine_lane *lanes;
    int lane_count;
    double pipeline_count;                       // that they stand for
    int *shown_count;                            // [stage] ranks of the trace
    int **shown;                                 // [stage][n]
    struct stage_end *ends;                      // [stage]
    double busy_ns, blocked_ns, gather_wait_ns;  // over all pipelines
    double recompute_s, exposed_s[PART_COUNT];   // the same, inside tasks
    double *slow_most;                           // [stage]
    double *lane_busy_s;                         // [lane * stage_count + stage]
    struct stage_waits *lane_waits;              // the same
    int64_t *stage_busy_ns;                      // [stage], the busiest rank
    struct stage_waits *waits;                   // [stage]
};

// One lane a pipeline.
static void make_lanes(struct arena *scratch, struct event_engine *engine)
{
    int stage_count = engine->price->shape.stage_count;
    const struct engine_options *options = engine->options;
    int rank_count = options->all_ranks ? options->rank_count : stage_count;
    assert(rank_count > 0 && rank_count % stage_count == 0);
    engine->lane_count = rank_count / stage_count;
    struct engine_lane *lanes = ARENA_NEW(scratch, struct engine_lane, engine->lane_count);
    struct lane_stage *stages = ARENA_NEW(scratch, struct lane_stage, rank_count);
    int *ranks = ARENA_NEW(scratch, int, rank_count);
    int *filled = ARENA_NEW(scratch, int, stage_count);
    for (int rank = 0; rank < rank_count; rank++) {
        int stage = options->all_ranks ? options->stage_of_rank[rank] : rank;
        int lane = filled[stage]++;
        assert(lane < engine->lane_count && "stages of different rank counts");
        ranks[rank] = rank;
        bool is_slow = options->all_ranks && options->slowdown_of_rank;
        stages[lane * stage_count + stage] = (struct lane_stage){
            is_slow ? options->slowdown_of_rank[rank] : 1, 0, 1, ranks + rank, NULL};
    }
    for (int lane = 0; lane < engine->lane_count; lane++)
        lanes[lane] = (struct engine_lane){1, stages + (ptrdiff_t)lane * stage_count, 0};
    engine->lanes = lanes;
}

static void take_lanes(struct arena *scratch, struct event_engine *engine)
{
    int stage_count = engine->price->shape.stage_count;
    engine->lanes = engine->options->lanes;
    engine->lane_count = engine->options->lane_count;
    if (!engine->lanes) make_lanes(scratch, engine);
    engine->shown_count = ARENA_NEW(scratch, int, stage_count);
    engine->shown = ARENA_NEW(scratch, int *, stage_count);
    for (int lane = 0; lane < engine->lane_count; lane++) {
        engine->pipeline_count += engine->lanes[lane].pipeline_count;
        for (int stage = 0; stage < stage_count; stage++)
            engine->shown_count[stage] += engine->lanes[lane].stages[stage].shown_count;
    }
    for (int stage = 0; stage < stage_count; stage++) {
        engine->shown[stage] = ARENA_NEW(scratch, int, engine->shown_count[stage]);
        for (int lane = 0, n = 0; lane < engine->lane_count; lane++) {
            const struct lane_stage *own = &engine->lanes[lane].stages[stage];
            for (int i = 0; i < own->shown_count; i++)
                engine->shown[stage][n++] = own->shown[i];
        }
    }
}

// What all ranks of a stage do together, at the pace of those on the slowest links.
static const struct step_price *stage_price(const struct event_engine *engine, int stage)
{
    const struct engine_options *options = engine->options;
    return options->stage_price ? options->prices[options->stage_price[stage]] : engine->price;
}

// Of a price that all stages wait for: the most that any has to pay.
static double norm_most_s(const struct event_engine *engine)
{
    double most = 0;
    for (int stage = 0; stage < engine->price->shape.stage_count; stage++)
        most = fmax(most, stage_price(engine, stage)->norm_s);
    return most;
}

static double tied_s(const struct event_engine *engine, int tie)
{
    const struct tied_price *tied = &engine->price->ties[tie];
    double most = 0;
    for (int i = 0; i < tied->stage_count; i++)
        most = fmax(most, stage_price(engine, tied->stages[i])->ties[tie].s);
    return most;
}

static int stage_buckets(const struct step_price *price, int stage)
{
    int sum = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int class = price->class_of[stage * price->shape.chunk_count + chunk];
        int buckets = price->classes[class].bucket_count;
        sum += buckets < 1 ? 1 : buckets;
    }
    return sum;
}

// Room for every span there can be: slots, two ends of two messages each way, reductions, and the
// handful at the end of the step.
static struct spans *make_spans(struct arena *arena, const struct event_engine *engine)
{
    if (!engine->options->want_trace) return NULL;
    struct spans *spans = ARENA_NEW(arena, struct spans, 1);
    const struct schedule_shape *shape = &engine->price->shape;
    int64_t messages = 4 * (int64_t)shape->chunk_count * shape->micro_batch_count;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        int64_t rank_spans = SPANS_PER_SLOT * engine->walk->slot_count + messages +
                             stage_buckets(engine->price, stage) + engine->price->tie_count +
                             TASK_KIND_COUNT + 2;
        spans->capacity += rank_spans * engine->shown_count[stage];
    }
    spans->list = ARENA_NEW(arena, struct span, spans->capacity);
    return spans;
}

static const struct step_price *lane_price(const struct event_engine *engine,
                                           const struct engine_lane *lane, int stage)
{
    const struct engine_options *options = engine->options;
    return options->prices ? options->prices[lane->stages[stage].price] : engine->price;
}

// What the tasks of a lane contain beside compute.
static void add_parts(struct event_engine *engine, const struct engine_lane *lane)
{
    const struct schedule_shape *shape = &engine->price->shape;
    double times = (double)lane_rounds(lane, shape) * lane->pipeline_count;
    for (int at = 0; at < shape->stage_count * shape->chunk_count; at++) {
        int stage = at / shape->chunk_count;
        const struct step_price *price = lane_price(engine, lane, stage);
        const struct chunk_price *class = &price->classes[price->class_of[at]];
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
            const double *part_s = class->phase_s[kind];
            engine->recompute_s += part_s[PART_RECOMPUTE] * times * lane->stages[stage].slowdown;
            for (int part = PART_TP; part < PART_COUNT; part++)
                engine->exposed_s[part] += part_s[part] * times;
        }
    }
}

static void run_lane(struct event_engine *engine, int index)
{
    int stage_count = engine->price->shape.stage_count;
    const struct engine_lane *lane = &engine->lanes[index];
    walk_run(engine->walk, lane);
    add_parts(engine, lane);
    double count = lane->pipeline_count, each_s = 1e-9 * count / engine->pipeline_count;
    for (int stage = 0; stage < stage_count; stage++) {
        const struct stage_walk *own = &engine->walk->stages[stage];
        engine->busy_ns += (double)own->busy_ns * count;
        engine->blocked_ns += (double)own->blocked_ns * count;
        engine->gather_wait_ns += (double)own->gather_wait_ns * count;
        engine->waits[stage].blocked_s += (double)own->blocked_ns * each_s;
        engine->waits[stage].gather_s += (double)own->gather_wait_ns * each_s;
        engine->lane_waits[index * stage_count + stage] =
            (struct stage_waits){.blocked_s = (double)own->blocked_ns * 1e-9,
                                 .gather_s = (double)own->gather_wait_ns * 1e-9};
        double slowdown = lane->stages[stage].slowdown;
        if (slowdown > engine->slow_most[stage]) engine->slow_most[stage] = slowdown;
        engine->lane_busy_s[index * stage_count + stage] = (double)own->busy_ns * 1e-9;
        if (own->busy_ns > engine->stage_busy_ns[stage])
            engine->stage_busy_ns[stage] = own->busy_ns;
        if (own->end_ns > engine->ends[stage].walk_ns) engine->ends[stage].walk_ns = own->end_ns;
    }
}

// Sums of a stage's chunks, once a step.
struct stage_once {
    int64_t small_ns, update_ns, gather_ns;
    int64_t copy_ns[2];  // inside the update: gradients to the host, parameters from there
};

static struct stage_once stage_once(const struct event_engine *engine, int stage)
{
    const struct step_price *price = stage_price(engine, stage);
    struct stage_once once = {0};
    double update_s = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int at = stage * price->shape.chunk_count + chunk;
        const struct chunk_price *class = &price->classes[price->class_of[at]];
        once.small_ns += walk_ns(class->small_reduce_s);
        update_s += class->update_s;
        for (int way = 0; way < 2; way++)
            once.copy_ns[way] += walk_ns(class->update_copy_s[way]);
        if (!price->gather_overlapped) once.gather_ns += engine->walk->gather_ns[at];
    }
    once.update_ns = walk_ns(update_s);
    return once;
}

static void put_spans(struct event_engine *engine, int stage, struct task_id id, enum stream stream,
                      int64_t start_ns, int64_t end_ns)
{
    struct spans *spans = engine->walk->spans;
    if (!spans || start_ns == end_ns) return;
    assert(start_ns < end_ns && "a task ends behind its beginning");
    for (int i = 0; i < engine->shown_count[stage]; i++) {
        int task = task_number(&engine->price->shape, &id);
        spans_add(spans, &(struct span){engine->shown[stage][i], stream, task, start_ns, end_ns});
    }
}

static void add_spans(struct event_engine *engine, int stage, enum task_kind kind,
                      enum stream stream, int64_t start_ns, int64_t end_ns)
{
    engine->walk->event_count += engine->lane_count;
    put_spans(engine, stage, (struct task_id){(int)kind, 0, 0}, stream, start_ns, end_ns);
}

// What an update on the host copies is inside the update, which is the event.
static void add_copies(struct event_engine *engine, int stage, enum stream stream, int64_t start_ns,
                       int64_t end_ns)
{
    put_spans(engine, stage, (struct task_id){TASK_UPDATE, 0, 0}, stream, start_ns, end_ns);
}

// Where buckets are updated as they come, all but the last of them are while that is reduced.
static int64_t beside_ns(const struct event_engine *engine, int stage, int64_t exposed_ns)
{
    const struct step_price *price = stage_price(engine, stage);
    double buckets = stage_buckets(price, stage);
    if (!price->streams || !price->reduce_overlapped) return 0;
    int64_t most_ns = (int64_t)((double)stage_once(engine, stage).update_ns * (1 - 1 / buckets));
    assert(buckets >= 1 && most_ns >= 0);
    return most_ns < exposed_ns ? most_ns : exposed_ns;
}

// When all stages of a tie have reduced and summed what is in front of it.
static void reduce_tied(struct event_engine *engine, int tie)
{
    const struct tied_price *tied = &engine->price->ties[tie];
    int64_t tied_ns = walk_ns(tied_s(engine, tie)), start_ns = 0;
    for (int i = 0; i < tied->stage_count; i++) {
        const struct stage_end *end = &engine->ends[tied->stages[i]];
        if (end->reduce_ns > start_ns) start_ns = end->reduce_ns;
    }
    for (int i = 0; i < tied->stage_count && tied_ns > 0; i++) {
        int stage = tied->stages[i];
        struct task_id id = {TASK_TIED_REDUCE, 0, tie};
        engine->ends[stage].reduce_ns = start_ns + tied_ns;
        engine->ends[stage].exposed_pp_ns += tied_ns;
        engine->waits[stage].tied_s += (double)tied_ns * 1e-9;
        engine->walk->event_count += engine->lane_count;
        put_spans(engine, stage, id, STREAM_DP, start_ns, start_ns + tied_ns);
    }
}

// From the last backward to the norm, when every rank waits for the slowest; returns that time.
static int64_t reduce_all(struct event_engine *engine)
{
    int stage_count = engine->price->shape.stage_count;
    for (int stage = 0; stage < stage_count; stage++) {
        struct stage_end *end = &engine->ends[stage];
        int64_t reduced_ns = reduce_end_ns(engine->walk, stage_price(engine, stage), stage,
                                           engine->shown[stage], engine->shown_count[stage]);
        if (reduced_ns < end->walk_ns) reduced_ns = end->walk_ns;
        int64_t small_ns = stage_once(engine, stage).small_ns;
        assert(small_ns >= 0 && end->walk_ns > 0);
        end->beside_ns = beside_ns(engine, stage, reduced_ns - end->walk_ns);
        end->exposed_ns[PART_DP] = reduced_ns - end->walk_ns - end->beside_ns;
        engine->waits[stage].reduce_s = (double)end->exposed_ns[PART_DP] * 1e-9;
        end->exposed_ns[PART_TP] = small_ns;
        end->reduce_ns = reduced_ns + small_ns;
        add_spans(engine, stage, TASK_SMALL_REDUCE, STREAM_TP, reduced_ns, end->reduce_ns);
    }
    for (int i = 0; i < engine->price->tie_count; i++)
        reduce_tied(engine, i);
    int64_t all_ns = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        if (engine->ends[stage].reduce_ns > all_ns) all_ns = engine->ends[stage].reduce_ns;
    }
    return all_ns;
}

// Norm, update and parameter gathering; returns the length of the step without its overhead. Where
// the norm is validated behind the update no stage waits for another, and the next step of each
// begins when it is through with this one.
static int64_t update_all(struct event_engine *engine, int64_t sync_ns)
{
    bool validated = engine->price->post_validated;
    bool waits = !validated && !engine->price->streams;
    int64_t norm_ns = walk_ns(norm_most_s(engine));
    int64_t end_ns = waits ? sync_ns + norm_ns : 0;
    double rise_s = 0;
    for (int stage = 0; stage < engine->price->shape.stage_count; stage++) {
        const struct stage_end *end = &engine->ends[stage];
        struct stage_once once = stage_once(engine, stage);
        int64_t start_ns = waits ? sync_ns + norm_ns : end->reduce_ns - end->beside_ns;
        add_spans(engine, stage, TASK_NORM, STREAM_DP, sync_ns, sync_ns + norm_ns);
        int64_t update_ns = llround((double)once.update_ns * engine->slow_most[stage]);
        int64_t updated_ns = start_ns + update_ns;
        add_spans(engine, stage, TASK_UPDATE, STREAM_COMPUTE, start_ns, updated_ns);
        int64_t down_ns = once.copy_ns[0] < update_ns ? once.copy_ns[0] : update_ns;
        int64_t up_ns = once.copy_ns[1] < update_ns ? once.copy_ns[1] : update_ns;
        add_copies(engine, stage, STREAM_D2H, start_ns, start_ns + down_ns);
        add_copies(engine, stage, STREAM_H2D, updated_ns - up_ns, updated_ns);
        add_spans(engine, stage, TASK_PARAMETER_GATHER, STREAM_DP, updated_ns,
                  updated_ns + once.gather_ns);
        int64_t length_ns = updated_ns + once.gather_ns;
        assert(length_ns >= start_ns);
        if (validated) length_ns -= walk_ns(step_begin_s(engine->price, stage, rise_s));
        rise_s += step_rise_s(engine->price, stage);
        if (length_ns > end_ns) end_ns = length_ns;
    }
    return end_ns;
}

// The mean over ranks of what each did with the step. What is not accounted for is waiting.
static struct cost cost_of(const struct event_engine *engine, int64_t end_ns)
{
    const struct step_price *price = engine->price;
    const struct schedule_shape *shape = &price->shape;
    double ranks = engine->pipeline_count * shape->stage_count, *exposed_s = NULL;
    assert(ranks > 0 && end_ns > 0);
    struct cost cost = {.overhead_s = price->overhead_s, .recompute_s = engine->recompute_s};
    exposed_s = cost.exposed_s;
    memcpy(exposed_s, engine->exposed_s, sizeof engine->exposed_s);
    double task_s = engine->busy_ns * 1e-9 - cost.recompute_s;
    for (int part = PART_TP; part < PART_COUNT; part++)
        task_s -= exposed_s[part];
    cost.compute_s = task_s;

    exposed_s[PART_DP] += engine->gather_wait_ns * 1e-9;
    double norm_s = norm_most_s(engine);
    if (!price->post_validated) exposed_s[PART_DP] += norm_s * ranks;
    double pp_s = engine->blocked_ns * 1e-9;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        const struct stage_end *end = &engine->ends[stage];
        struct stage_once once = stage_once(engine, stage);
        double each_s = 1e-9 * engine->pipeline_count;
        for (int part = PART_TP; part < PART_COUNT; part++)
            exposed_s[part] += (double)end->exposed_ns[part] * each_s;
        pp_s += (double)end->exposed_pp_ns * each_s;
        exposed_s[PART_DP] += (double)once.gather_ns * each_s;
        // The update of a stage's fast ranks ends with its slowest, which the gathering waits for.
        cost.update_s += (double)once.update_ns * each_s * engine->slow_most[stage];
    }
    cost.compute_s /= ranks;
    cost.recompute_s /= ranks;
    cost.update_s /= ranks;
    cost.exposed_pp_s = pp_s / ranks;
    cost.exposed_comm_s = cost.exposed_pp_s;
    for (int part = PART_TP; part < PART_COUNT; part++) {
        exposed_s[part] /= ranks;
        cost.exposed_comm_s += exposed_s[part];
    }
    cost.step_s = (double)end_ns * 1e-9 + price->overhead_s;
    cost.bubble_s = cost.step_s - cost.compute_s - cost.recompute_s - cost.exposed_comm_s -
                    cost.update_s - cost.overhead_s;
    // Each part of each task is rounded to a nanosecond; beyond that, waiting is never negative.
    assert(cost.bubble_s > -1e-6 * cost.step_s - 1e-8);
    if (cost.bubble_s < 0) cost.compute_s += cost.bubble_s, cost.bubble_s = 0;
    assert(fabs(cost_parts_sum(&cost) - cost.step_s) <= 1e-9 * cost.step_s + 1e-12);
    return cost;
}

static void keep_trace(struct arena *arena, struct arena *scratch,
                       const struct event_engine *engine, struct trace *trace)
{
    struct spans *spans = engine->walk->spans;
    spans_sort(scratch, spans);
    struct schedule_shape *shape = ARENA_NEW(arena, struct schedule_shape, 1);
    *shape = engine->price->shape;
    int rank_count = 0;
    for (int64_t i = 0; i < spans->count; i++) {
        if (spans->list[i].rank >= rank_count) rank_count = spans->list[i].rank + 1;
    }
    bool *appears = ARENA_NEW(arena, bool, rank_count);
    for (int64_t i = 0; i < spans->count; i++)
        appears[spans->list[i].rank] = true;
    *trace = (struct trace){
        .spans = spans->list,
        .span_count = spans->count,
        .rank_count = rank_count,
        .appears = engine->options->lanes ? appears : NULL,
        .task_name = spans_task_name,
        .track_name = spans_track_name,
        .context = shape,
    };
}

static struct walk *new_walk(struct arena *scratch, const struct event_engine *engine)
{
    const struct engine_options *options = engine->options;
    struct walk *walk = walk_new(scratch, engine->price);
    walk->prices = options->prices;
    walk->jitter_ratio = options->jitter_ratio;
    walk->jitter_ranks = options->jitter_ranks;
    walk->random = options->seed;
    for (int stage = 0; stage < engine->price->shape.stage_count; stage++)
        walk_set_stage_price(walk, stage, stage_price(engine, stage));
    return walk;
}

struct simulation *simulate_step(struct arena *arena, struct arena *scratch,
                                 const struct step_price *price,
                                 const struct engine_options *options)
{
    struct simulation *simulation = ARENA_NEW(arena, struct simulation, 1);
    int stage_count = price->shape.stage_count;
    simulation->stage_busy_s = ARENA_NEW(arena, double, stage_count);
    simulation->stage_waits = ARENA_NEW(arena, struct stage_waits, stage_count);
    struct arena_mark mark = arena_mark(scratch);
    struct event_engine engine = {.price = price, .options = options};
    engine.waits = simulation->stage_waits;
    take_lanes(scratch, &engine);
    engine.walk = new_walk(scratch, &engine);
    engine.lane_busy_s = ARENA_NEW(arena, double, (size_t)engine.lane_count *(size_t)stage_count);
    engine.lane_waits =
        ARENA_NEW(arena, struct stage_waits, (size_t)engine.lane_count * (size_t)stage_count);
    if (options->lanes) simulation->lane_busy_s = engine.lane_busy_s;
    if (options->lanes) simulation->lane_waits = engine.lane_waits;
    engine.ends = ARENA_NEW(scratch, struct stage_end, stage_count);
    engine.slow_most = ARENA_NEW(scratch, double, stage_count);
    engine.stage_busy_ns = ARENA_NEW(scratch, int64_t, stage_count);
    engine.walk->spans = make_spans(arena, &engine);
    for (int lane = 0; lane < engine.lane_count; lane++)
        run_lane(&engine, lane);
    int64_t end_ns = update_all(&engine, reduce_all(&engine));

    simulation->cost = cost_of(&engine, end_ns);
    cost_part_waiting(&simulation->cost, price,
                      stage_runs_make(scratch, &price->shape, price->class_of, price->class_count));
    simulation->event_count = engine.walk->event_count;
    for (int stage = 0; stage < stage_count; stage++)
        simulation->stage_busy_s[stage] = (double)engine.stage_busy_ns[stage] * 1e-9;
    if (options->want_trace) keep_trace(arena, scratch, &engine, &simulation->trace);
    arena_reset(scratch, mark);
    return simulation;
}
