#include "planner/plan_stays.h"

#include "cost_models/offload.h"
#include "memory/placement/placement.h"
#include "memory/stage_alive.h"

#include <assert.h>

// Intervals up to which the relaxation is solved; a step with more is placed with fewer
// micro-batches.
enum { INTERVALS_MOST = 2000, MICRO_BATCHES_LEAST = 3 };

struct staying {
    struct arena *arena, *scratch;
    const struct evaluation_request *request;  // of the plan with none that stay
    const struct memory_options *options;
    const struct program *program;  // with none that stay
    struct placed_block *blocks;    // of the stage
    int block_count;
    int turn_most, between_most;  // that may stay
};

// A block that works, by position.
struct placed_block {
    int64_t bytes;  // that it fetches
    bool is_layer, may_stay;
    int64_t work_bytes[2];  // beside them, while it works forward and backward
};

static int64_t fetched(const struct block_program *block, enum phase phase)
{
    int64_t bytes = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        bool is_it = instr->collective == COLLECTIVE_FETCH && instr->phase == phase;
        bytes += is_it ? instr->bytes : 0;
    }
    return bytes;
}

int64_t plan_stays_fetched_bytes(const struct program *program)
{
    int64_t bytes = 0, rounds = program->shape.micro_batch_count;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[c]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_program *block = program->blocks[chunk->uses[u].block_program];
            int64_t first =
                (block->weights_rounds > 0 ? 1 : rounds) * fetched(block, PHASE_FORWARD);
            bytes += chunk->uses[u].count * (first + rounds * fetched(block, PHASE_BACKWARD));
        }
    }
    return bytes;
}

// Less than none where the arena may be larger.
static int64_t device_lack(const struct staying *staying, const struct plan_kept *made)
{
    const struct memory_parts *parts = &made->evaluation->stage_memory[0];
    int64_t capacity = staying->options->capacity;
    if (capacity > 0) return parts->planned_bytes - capacity;
    return parts->reserved_bytes - cluster_device_bytes(made->request.cluster);
}

// Orders and lays out the plan with so many that stay, and says what it lacks.
static bool lay_out(struct staying *staying, int turn, int between, struct plan_kept *made,
                    struct err *err)
{
    *made = (struct plan_kept){.request = *staying->request};
    made->request.parallel.offload.turn_blocks = (int16_t)turn;
    made->request.parallel.offload.between_layers = (int16_t)between;
    made->evaluation = ARENA_NEW(staying->arena, struct evaluation, 1);
    if (!evaluate(staying->arena, staying->scratch, &made->request, made->evaluation, err) ||
        !plan_schedule_make(staying->arena, staying->scratch, made->evaluation->program,
                            made->request.stack, staying->options, &made->stages, err))
        return false;
    made->schedule = plan_schedule_of(staying->arena, &made->stages, staying->options->alignment);
    plan_schedule_apply(made->schedule, made->evaluation);
    int64_t lack = device_lack(staying, made);
    int64_t host_lack = hosts_shortfall(&made->evaluation->hosts);
    made->lack_bytes = lack > host_lack ? lack : host_lack;
    made->fits = made->lack_bytes <= 0;
    return true;
}

static void list_blocks(struct staying *staying)
{
    const struct program *program = staying->program;
    const struct program_chunk *chunk = &program->chunks[program->class_of[0]];
    staying->blocks = ARENA_NEW(staying->arena, struct placed_block, program->spans[0].count);
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = program->blocks[chunk->uses[u].block_program];
        for (int i = 0; i < chunk->uses[u].count; i++) {
            struct placed_block *made = &staying->blocks[staying->block_count++];
            made->bytes = fetched(block, PHASE_FORWARD);
            made->is_layer = block->block->role == BLOCK_LAYER;
            bool fetches_again = fetched(block, PHASE_BACKWARD) > 0;
            // An embedding that fetches for forward alone is counted, but nothing of it stays.
            if (made->bytes > 0) staying->turn_most++;
            bool has_next = program->shape.micro_batch_count > 1;
            if (made->bytes > 0 && made->is_layer) staying->between_most += has_next;
            made->may_stay = made->bytes > 0 && fetches_again;
        }
    }
}

// Beside what may stay, forward and backward.
static void weigh_work(struct staying *staying, const struct plan_stage *stage)
{
    int count = staying->block_count;
    bool *may_stay = ARENA_NEW(staying->arena, bool, count);
    for (int p = 0; p < count; p++)
        may_stay[p] = staying->blocks[p].may_stay;
    const int64_t *work =
        stage_alive_beside(staying->arena, staying->program, stage, may_stay, count);
    for (int p = 0; p < count; p++) {
        for (int half = 0; half < 2; half++)
            staying->blocks[p].work_bytes[half] = work[half * count + p];
    }
}

struct placing {
    struct staying *staying;
    struct placed_chunk *chunks;
    struct placed_moment *moments;
    struct placed_access *accesses;
    int chunk_count, moment_count, access_count;
    int *first_chunk;  // [position]; -1
};

static void access(struct placing *placing, int chunk, bool writes)
{
    placing->accesses[placing->access_count++] = (struct placed_access){chunk, true, writes};
}

static void add_moment(struct placing *placing, int position, int micro_batch, bool is_back)
{
    const struct placed_block *block = &placing->staying->blocks[position];
    struct placed_moment *moment = &placing->moments[placing->moment_count++];
    *moment = (struct placed_moment){.accesses = &placing->accesses[placing->access_count],
                                     .access_count = block->may_stay,
                                     .work_bytes = block->work_bytes[is_back],
                                     .seconds = 1};
    int chunk = placing->first_chunk[position] + (block->is_layer ? 0 : micro_batch);
    if (block->may_stay) access(placing, chunk, false);
}

// What is no layer never stays from one micro-batch to the next: then each has a chunk of its own.
static void add_chunks(struct placing *placing, int micro_batches, enum tier home)
{
    const struct staying *staying = placing->staying;
    for (int p = 0; p < staying->block_count; p++) {
        const struct placed_block *block = &staying->blocks[p];
        placing->first_chunk[p] = placing->chunk_count;
        int count = !block->may_stay ? 0 : block->is_layer ? 1 : micro_batches;
        for (int i = 0; i < count; i++)
            placing->chunks[placing->chunk_count++] =
                (struct placed_chunk){PLACED_PARAMETERS, block->bytes, home};
    }
}

// The step as a circle of moments: its blocks forward and backward in each micro-batch, then the
// host's update of all weights.
static struct placement_problem problem_of(struct staying *staying, int micro_batches,
                                           int64_t device_bytes)
{
    const struct price_context context = evaluation_context(staying->request);
    enum tier home = staying->request->parallel.offload.parameters;
    int blocks = staying->block_count, moments = 2 * blocks * micro_batches + 1;
    int chunks = blocks * micro_batches;
    struct placing placing = {
        .staying = staying,
        .chunks = ARENA_NEW(staying->arena, struct placed_chunk, chunks),
        .moments = ARENA_NEW(staying->arena, struct placed_moment, moments),
        .accesses = ARENA_NEW(staying->arena, struct placed_access, moments + chunks),
        .first_chunk = ARENA_NEW(staying->arena, int, blocks),
    };
    add_chunks(&placing, micro_batches, home);
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
        access(&placing, c, true);
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
        .piece_bytes = INT64_MAX,
    };
}

// How many stay from forward to backward, and between micro-batches, in all of them.
struct stay_counts {
    int turn, between;
};

// Intervals of a chunk are in the order of its uses: the two of each micro-batch, then the host's.
static struct stay_counts counts_of(const struct staying *staying, int micro_batches,
                                    const bool *keep)
{
    struct stay_counts counts = {0, 0};
    for (int p = 0; p < staying->block_count; p++) {
        const struct placed_block *block = &staying->blocks[p];
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

// Counts to begin with, and what no placement beside the work of an order fetches less than.
struct placed_stays {
    struct stay_counts counts;
    double bound_bytes;
};

static struct placed_stays place(struct staying *staying, const struct plan_kept *made)
{
    struct placed_stays placed = {.bound_bytes = 0};
    int all = staying->program->shape.micro_batch_count, micro_batches = all;
    if (2 * all * staying->block_count > INTERVALS_MOST)
        micro_batches = all < MICRO_BATCHES_LEAST ? all : MICRO_BATCHES_LEAST;
    weigh_work(staying, &made->stages.stages[0]);
    const struct memory_parts *parts = &made->evaluation->stage_memory[0];
    int64_t room = parts->planned_bytes - device_lack(staying, made);
    struct placement_problem problem = problem_of(staying, micro_batches, room);
    const struct placement_options options = {.planned_alone = true};
    struct placement_solution solution;
    if (!placement_solve(staying->arena, &problem, &options, &solution)) return placed;
    placed.counts = counts_of(staying, micro_batches, solution.policies[PLACEMENT_PLANNED].keep);
    if (micro_batches < all) return placed;
    placed.bound_bytes = solution.bound_bytes;
    for (int p = 0; p < staying->block_count; p++) {
        const struct placed_block *block = &staying->blocks[p];
        if (!block->may_stay) placed.bound_bytes += (double)block->bytes * all;
    }
    return placed;
}

// Takes it where it fits and fetches less than the best so far.
static bool try(struct staying *staying, struct stay_counts counts, struct plan_stays *stays,
                bool *is_better, struct err *err)
{
    struct plan_kept made;
    *is_better = false;
    if (!lay_out(staying, counts.turn, counts.between, &made, err)) return false;
    stays->kept.round_count++;
    int64_t bytes = plan_stays_fetched_bytes(made.evaluation->program);
    *is_better = made.fits && bytes < stays->fetched_bytes;
    if (!*is_better) return true;
    made.round_count = stays->kept.round_count;
    made.kept_s = stays->kept.kept_s;
    made.reserved_bytes = stays->kept.reserved_bytes;
    stays->kept = made;
    stays->fetched_bytes = bytes;
    return true;
}

// Down until it fits, the one that saves less first; then up, either, while it does.
static bool run_rounds(struct staying *staying, struct stay_counts at, struct plan_stays *stays,
                       struct err *err)
{
    bool fits = false, grows[2] = {true, true};
    int *rounds = &stays->kept.round_count;
    while (!fits && *rounds < PLAN_STAYS_ROUNDS && at.turn + at.between > 0) {
        if (!try(staying, at, stays, &fits, err)) return false;
        if (fits) break;
        if (at.between > 0 && (at.between >= at.turn || at.turn == 0))
            at.between--;
        else
            at.turn--;
    }
    for (int which = 0; *rounds < PLAN_STAYS_ROUNDS && (grows[0] || grows[1]); which = !which) {
        struct stay_counts more = at;
        if (which == 0) more.turn++;
        if (which == 1) more.between++;
        grows[which] = grows[which] && more.turn <= staying->turn_most &&
                       more.between <= staying->between_most;
        if (!grows[which]) continue;
        if (!try(staying, more, stays, &grows[which], err)) return false;
        if (grows[which]) at = more;
    }
    return true;
}

static bool check(const struct parallel *parallel, struct err *err)
{
    if (!offload_moves_parameters(&parallel->offload))
        return err_set(err, ERR_USAGE,
                       "--offload moments: the plan offloads no parameters; plan it with --offload "
                       "optimizer,parameters");
    struct parallel asked = *parallel;
    asked.offload.turn_blocks = 1;
    return stays_check(&asked, err);
}

bool plan_stays_find(struct arena *arena, struct arena *scratch,
                     const struct evaluation_request *request, const struct memory_options *options,
                     struct plan_stays *stays, struct err *err)
{
    struct evaluation_request plain = *request;
    plain.parallel.offload.turn_blocks = plain.parallel.offload.between_layers = 0;
    struct staying staying = {arena, scratch, &plain, options, NULL, NULL, 0, 0, 0};
    *stays = (struct plan_stays){.fetched_bytes = 0};
    if (!check(&request->parallel, err)) return false;
    struct plan_kept *kept = &stays->kept;
    if (!lay_out(&staying, 0, 0, kept, err)) return false;
    const struct prediction *before = &kept->evaluation->prediction;
    stays->before_s = before->step_s;
    kept->kept_s = before->step_s - before->cost.exposed_s[PART_OFFLOAD];
    kept->reserved_bytes = kept->evaluation->prediction.reserved_bytes;
    staying.program = kept->evaluation->program;
    stays->before_bytes = stays->fetched_bytes = plan_stays_fetched_bytes(staying.program);
    if (!kept->fits) return true;
    list_blocks(&staying);
    struct placed_stays placed = place(&staying, kept);
    if (!run_rounds(&staying, placed.counts, stays, err)) return false;
    stays->bound_bytes = place(&staying, kept).bound_bytes;
    assert(stays->bound_bytes <= (double)stays->fetched_bytes * (1 + 1e-6) + 1);
    return true;
}
