#include "simulator/unlike.h"

#include "simulator/lanes.h"

#include <math.h>

bool unlike_is(const struct evaluation_request *request, const struct program *program)
{
    return program->parallel.replica_count > 0 || program->parallel.stage_ranks_count > 0 ||
           !cluster_is_uniform(request->cluster);
}

static struct lanes *lanes_of(struct arena *arena, const struct evaluation_request *request,
                              const struct program *program, const struct step_price *price,
                              bool keep_apart)
{
    const struct evaluation evaluation = {.program = program, .price = price};
    return lanes_make(arena, request, &evaluation, NULL, 0, keep_apart);
}

static double busy_s(const struct lanes *lanes, const struct engine_lane *lane, int stage)
{
    const struct step_price *price = lanes->prices[lane->stages[stage].price];
    double sum_s = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int class = price->class_of[stage * price->shape.chunk_count + chunk];
        for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
            sum_s += (&price->classes[class].phase_s[0][0])[i];
    }
    return sum_s * lane->micro_batch_count;
}

// Of equal ones the first.
static int busiest_on(const struct lanes *lanes, int stage)
{
    double most_s = -1;
    int busiest = 0;
    for (int i = 0; i < lanes->count; i++) {
        double s = busy_s(lanes, &lanes->list[i], stage);
        if (s > most_s) most_s = s, busiest = i;
    }
    return busiest;
}

// By its busiest stage.
static int busiest_lane(const struct lanes *lanes)
{
    double most_s = -1;
    int busiest = 0;
    for (int i = 0; i < lanes->count; i++) {
        for (int stage = 0; stage < lanes->stage_count; stage++) {
            double s = busy_s(lanes, &lanes->list[i], stage);
            if (s > most_s) most_s = s, busiest = i;
        }
    }
    return busiest;
}

// A rank a stage of one pipeline, numbered by stages.
static void show_one(struct arena *arena, struct lanes *lanes)
{
    int lane = busiest_lane(lanes);
    struct lane_stage *stages = ARENA_NEW(arena, struct lane_stage, lanes->stage_count);
    int *ranks = ARENA_NEW(arena, int, lanes->stage_count);
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        ranks[stage] = stage;
        stages[stage] = lanes->list[lane].stages[stage];
        stages[stage].shown_count = 1;
        stages[stage].shown = ranks + stage;
    }
    lanes->list[lane].stages = stages;
}

static void show_all(struct arena *arena, struct lanes *lanes)
{
    for (int lane = 0; lane < lanes->count; lane++) {
        struct lane_stage *stages = ARENA_NEW(arena, struct lane_stage, lanes->stage_count);
        for (int stage = 0; stage < lanes->stage_count; stage++) {
            int size = lanes_group_size(lanes, stage);
            int *ranks = ARENA_NEW(arena, int, size);
            lanes_group_ranks(lanes, lanes->pipeline_of[lane], stage, ranks);
            stages[stage] = lanes->list[lane].stages[stage];
            stages[stage].shown_count = size;
            stages[stage].shown = ranks;
        }
        lanes->list[lane].stages = stages;
    }
}

// What no schedule can win: the busiest stage of all pipelines against the mean.
static void part_waiting(const struct lanes *lanes, struct simulation *simulation)
{
    struct cost *cost = &simulation->cost;
    double most_s = 0, sum_s = 0, count = 0;
    for (int i = 0; i < lanes->count; i++) {
        int pipelines = lanes->list[i].pipeline_count;
        count += pipelines;
        for (int stage = 0; stage < lanes->stage_count; stage++) {
            double s = simulation->lane_busy_s[i * lanes->stage_count + stage];
            most_s = fmax(most_s, s);
            sum_s += s * pipelines;
        }
    }
    double waiting_s = cost->bubble_s + cost->imbalance_s;
    double uneven_s = most_s - sum_s / (count * lanes->stage_count);
    if (uneven_s < 1e-12 * cost->step_s) uneven_s = 0;
    cost->imbalance_s = fmin(uneven_s, waiting_s);
    cost->bubble_s = waiting_s - cost->imbalance_s;
}

struct simulation *unlike_play(struct arena *arena, struct arena *scratch,
                               const struct evaluation_request *request,
                               const struct program *program, const struct step_price *price,
                               const struct engine_options *options)
{
    if (!unlike_is(request, program)) return simulate_step(arena, scratch, price, options);
    struct arena own = {0};
    struct lanes *lanes = lanes_of(&own, request, program, price, options->all_ranks);
    if (options->all_ranks) {
        show_all(&own, lanes);
    } else {
        show_one(&own, lanes);
    }
    struct engine_options unlike = {
        .want_trace = options->want_trace,
        .lanes = lanes->list,
        .lane_count = lanes->count,
        .prices = lanes->prices,
        .stage_price = lanes->stage_price,
    };
    struct simulation *simulation = simulate_step(arena, scratch, price, &unlike);
    part_waiting(lanes, simulation);
    // A stage waits as the ranks do that its breakdown is of (unlike_busiest).
    for (int stage = 0; stage < lanes->stage_count; stage++) {
        const struct stage_waits *busiest =
            &simulation->lane_waits[busiest_on(lanes, stage) * lanes->stage_count + stage];
        simulation->stage_waits[stage].blocked_s = busiest->blocked_s;
        simulation->stage_waits[stage].gather_s = busiest->gather_s;
    }
    simulation->lane_busy_s = NULL;
    simulation->lane_waits = NULL;
    arena_free(&own);
    return simulation;
}

struct unlike_place unlike_busiest(struct arena *scratch, const struct evaluation_request *request,
                                   const struct program *program, const struct step_price *price,
                                   int stage)
{
    struct unlike_place place = {evaluation_context(request).compute.device, 0,
                                 program->shape.micro_batch_count};
    if (!unlike_is(request, program)) return place;
    struct arena_mark mark = arena_mark(scratch);
    struct lanes *lanes = lanes_of(scratch, request, program, price, false);
    const struct engine_lane *lane = &lanes->list[busiest_on(lanes, stage)];
    const struct rank_group *priced = &lanes->priced[lane->stages[stage].price];
    place.device = priced->device;
    place.at_stage = priced->at_stage;
    place.micro_batch_count = lane->micro_batch_count;
    arena_reset(scratch, mark);
    return place;
}

double *unlike_replica_s(struct arena *arena, struct arena *scratch,
                         const struct evaluation_request *request, const struct program *program,
                         const struct step_price *price)
{
    int replicas = program->parallel.degree[AXIS_DP], stages = program->shape.stage_count;
    double *replica_s = ARENA_NEW(arena, double, (size_t)replicas *(size_t)stages);
    struct arena_mark mark = arena_mark(scratch);
    struct lanes *lanes = lanes_of(scratch, request, program, price, true);
    int *ranks = ARENA_NEW(scratch, int, program->mesh.rank_count);
    for (int i = 0; i < lanes->count; i++) {
        const struct engine_lane *lane = &lanes->list[i];
        for (int stage = 0; stage < stages; stage++) {
            lanes_group_ranks(lanes, lanes->pipeline_of[i], stage, ranks);
            // Stages with unlike numbers of ranks are one pipeline: whatever the replica.
            int replica = program->mesh.stage_ranks ? 0 : program_replica(program, ranks[0]);
            double *at = &replica_s[replica * stages + stage];
            *at = fmax(*at, busy_s(lanes, lane, stage) / lane->micro_batch_count);
        }
    }
    arena_reset(scratch, mark);
    return replica_s;
}

int64_t unlike_stage_bytes(const struct cluster *cluster, const struct mesh *mesh, int stage)
{
    int64_t least = INT64_MAX;
    int end = 0, rank = 0;
    if (cluster_has_one_device(cluster)) return cluster_device_bytes(cluster);
    for (int g = 0; g < cluster->node_group_count; g++) {
        const struct node_group *nodes = &cluster->nodes[g];
        end += nodes->count * nodes->gpus;
        for (; rank < end && rank < mesh->rank_count; rank++) {
            bool is_less =
                nodes->device->memory_bytes < least && mesh_stage_of(mesh, rank) == stage;
            if (is_less) least = nodes->device->memory_bytes;
        }
    }
    return least;
}
