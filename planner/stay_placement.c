#include "planner/stay_placement.h"

#include "cost_models/offload.h"
#include "memory/placement/placement.h"
#include "memory/stage_alive.h"

#include <assert.h>

// Intervals up to which the relaxation is solved; a step with more is placed with fewer
// micro-batches.
enum { INTERVALS_MOST = 2000, MICRO_BATCHES_LEAST = 3 };

// Beside what may stay, forward and backward.
static void weigh_work(struct stay_stage *stage, const struct plan_stage *order)
{
    int count = stage->block_count;
    bool *may_stay = ARENA_NEW(stage->arena, bool, count);
    for (int p = 0; p < count; p++)
        may_stay[p] = stage->blocks[p].may_stay;
    const int64_t *work = stage_alive_beside(stage->arena, stage->program, order, may_stay, count);
    for (int p = 0; p < count; p++) {
        for (int half = 0; half < 2; half++)
            stage->blocks[p].work_bytes[half] = work[half * count + p];
    }
}

struct placing {
    struct stay_stage *stage;
    struct placed_chunk *chunks;
    struct placed_moment *moments;
    struct placed_access *accesses;
    int chunk_count, moment_count, access_count;
    int *first_chunk;     // [position]
    int *gradient_chunk;  // [position]; of those that leave
    bool has_gradients;
};

static void access(struct placing *placing, int chunk, bool reads, bool writes)
{
    placing->accesses[placing->access_count++] = (struct placed_access){chunk, reads, writes};
}

static void add_moment(struct placing *placing, int position, int micro_batch, bool is_back)
{
    const struct stay_block *block = &placing->stage->blocks[position];
    bool adds = placing->has_gradients && is_back && block->gradient_bytes > 0;
    struct placed_moment *moment = &placing->moments[placing->moment_count++];
    *moment = (struct placed_moment){.accesses = &placing->accesses[placing->access_count],
                                     .access_count = block->may_stay + adds,
                                     .work_bytes = block->work_bytes[is_back],
                                     .seconds = 1};
    int chunk = placing->first_chunk[position] + (block->is_layer ? 0 : micro_batch);
    if (block->may_stay) access(placing, chunk, true, false);
    if (adds) access(placing, placing->gradient_chunk[position], micro_batch > 0, true);
}

// What is no layer never stays from one micro-batch to the next: then each has a chunk of its own.
static void add_chunks(struct placing *placing, int micro_batches, enum tier home)
{
    const struct stay_stage *stage = placing->stage;
    for (int p = 0; p < stage->block_count; p++) {
        const struct stay_block *block = &stage->blocks[p];
        placing->first_chunk[p] = placing->chunk_count;
        int count = !block->may_stay ? 0 : block->is_layer ? 1 : micro_batches;
        for (int i = 0; i < count; i++)
            placing->chunks[placing->chunk_count++] =
                (struct placed_chunk){PLACED_PARAMETERS, block->bytes, home};
    }
    for (int p = 0; p < stage->block_count; p++) {
        int64_t bytes = placing->has_gradients ? stage->blocks[p].gradient_bytes : 0;
        placing->gradient_chunk[p] = placing->chunk_count;
        if (bytes > 0)
            placing->chunks[placing->chunk_count++] =
                (struct placed_chunk){PLACED_GRADIENTS, bytes, TIER_HOST};
    }
}

// The step as a circle of moments: its blocks forward and backward in each micro-batch, then the
// host's update of all weights.
static struct placement_problem problem_of(struct stay_stage *stage, int micro_batches,
                                           int64_t device_bytes, bool gradients)
{
    const struct price_context context = evaluation_context(stage->request);
    enum tier home = stage->request->parallel.offload.parameters;
    int blocks = stage->block_count, moments = 2 * blocks * micro_batches + 1;
    int chunks = blocks * (micro_batches + 1);
    struct placing placing = {
        .stage = stage,
        .chunks = ARENA_NEW(stage->arena, struct placed_chunk, chunks),
        .moments = ARENA_NEW(stage->arena, struct placed_moment, moments),
        .accesses = ARENA_NEW(stage->arena, struct placed_access, 2 * moments + chunks),
        .first_chunk = ARENA_NEW(stage->arena, int, blocks),
        .gradient_chunk = ARENA_NEW(stage->arena, int, blocks),
        .has_gradients = gradients,
    };
    add_chunks(&placing, micro_batches, home);
    assert(placing.chunk_count <= chunks);
    for (int m = 0; m < micro_batches; m++) {
        for (int p = 0; p < blocks; p++)
            add_moment(&placing, p, m, false);
        for (int p = blocks - 1; p >= 0; p--)
            add_moment(&placing, p, m, true);
    }
    placing.moments[placing.moment_count++] =
        (struct placed_moment){.accesses = &placing.accesses[placing.access_count],
                               .access_count = placing.chunk_count,
                               .seconds = 1,
                               .on_host = true};
    for (int c = 0; c < placing.chunk_count; c++)
        access(&placing, c, true, placing.chunks[c].kind == PLACED_PARAMETERS);
    assert(placing.moment_count == moments && placing.access_count <= 2 * moments + chunks);
    double link = offload_bytes_per_s(&context, TIER_HOST);
    return (struct placement_problem){
        .chunks = placing.chunks,
        .chunk_count = placing.chunk_count,
        .moments = placing.moments,
        .moment_count = placing.moment_count,
        .device_bytes = device_bytes,
        .up_bytes_per_s = link,
        .down_bytes_per_s = link,
        .nvme_bytes_per_s = home == TIER_NVME ? offload_bytes_per_s(&context, TIER_NVME) : link,
        .start_s = context.compute.device->launch_latency_s,
    };
}

// Intervals of a chunk are in the order of its uses: the two of each micro-batch, then the host's.
static struct stay_counts counts_of(const struct stay_stage *stage, int micro_batches,
                                    const bool *keep)
{
    struct stay_counts counts = {0, 0};
    for (int p = 0; p < stage->block_count; p++) {
        const struct stay_block *block = &stage->blocks[p];
        bool turns = block->may_stay, stays = block->is_layer && micro_batches > 1;
        // Of a layer all in one chunk; else each micro-batch has a host's of its own.
        int stride = block->is_layer ? 2 : 3;
        for (int m = 0; m < micro_batches && block->may_stay; m++) {
            turns = turns && keep[m * stride];
            stays = stays && (m + 1 == micro_batches || keep[m * stride + 1]);
        }
        if (block->may_stay) keep += micro_batches * stride + block->is_layer;
        counts.turn += turns;
        counts.between += block->may_stay && stays;
    }
    return counts;
}

struct placed_stays stay_placement(struct stay_stage *stage, const struct plan_stage *order,
                                   int64_t room_bytes, bool gradients)
{
    struct placed_stays placed = {.bound_bytes = 0};
    int all = stage->program->shape.micro_batch_count, micro_batches = all;
    int each = gradients ? 3 : 2;  // intervals of a block in a micro-batch
    if (each * all * stage->block_count > INTERVALS_MOST)
        micro_batches = all < MICRO_BATCHES_LEAST ? all : MICRO_BATCHES_LEAST;
    weigh_work(stage, order);
    struct placement_problem problem = problem_of(
        stage, micro_batches, room_bytes + (gradients ? stage->rooms_bytes : 0), gradients);
    const struct placement_options options = {.planned_alone = true};
    struct placement_solution solution;
    if (!placement_solve(stage->arena, &problem, &options, &solution)) return placed;
    placed.counts = counts_of(stage, micro_batches, solution.policies[PLACEMENT_PLANNED].keep);
    if (micro_batches < all) return placed;
    placed.bound_bytes = solution.bound_bytes;
    for (int p = 0; p < stage->block_count; p++) {
        const struct stay_block *block = &stage->blocks[p];
        if (!block->may_stay) placed.bound_bytes += (double)block->bytes * all;
        // However many stay, all go down once.
        if (gradients) placed.bound_bytes -= (double)block->gradient_bytes;
    }
    return placed;
}
