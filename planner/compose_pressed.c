#include "cost_models/offload.h"
#include "planner/composing.h"
#include "planner/saturated.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// A stage that has no room for all that its layers save has them recomputed, moved, or both. What
// that costs at least: of all mixtures the cheapest that frees what is short, where each layer
// chooses for itself, and in parts.

// Layers of a kind on a stage that are alive in as many micro-batches.
struct alike {
    int block, alive, count;  // as it is without recompute
};

struct pressed {
    struct composer *composer;
    const struct composer_ways *ways;
    struct program *program;  // everything is kept
    const struct division *division;
    const struct memo_block **plain;  // [block of the division] without recompute; NULL: not asked
    struct spared_hull **hulls;       // of such a block; NULL: not asked yet
    struct alike *layers;             // of the stage at hand
    struct spared *steps;             // along the hulls of all of them
    int layers_count, step_count;
    double stage_s, saved_bytes;  // of a micro-batch; but for the head's
    double before_s;              // the stages before it, of their first chunk
};

static int compare_rates(const void *a, const void *b)
{
    const struct spared *first = a, *second = b;
    double left = first->seconds * second->bytes, right = second->seconds * first->bytes;
    return (left > right) - (left < right);
}

// Of a block of the division as it is without recompute.
static int plain_of(int block)
{
    return division_block(division_kind(block), false, division_stays(block));
}

static const struct memo_block *plain_block(const struct pressed *pressed, int block)
{
    const struct memo_block **plain = &pressed->plain[block];
    if (!*plain)
        *plain = composing_block(pressed->composer, &pressed->program->parallel, plain_of(block));
    return *plain;
}

static double held_bytes(const struct pressed *pressed, const struct memo_block *block)
{
    const struct stack *stack = pressed->composer->request->stack;
    return memory_held_bytes(pressed->program, stack, block->light);
}

// As blocks say that are lowered for it.
static void find_hull(struct pressed *pressed, int of, struct spared_hull *hull)
{
    assert(2 * pressed->ways->count <= SPARED_MAX && "each way, and the same with all moved");
    const struct price_context *context = memo_context(pressed->composer->memo);
    const struct memo_block *plain = plain_block(pressed, of);
    struct offload all = {.activations = TIER_HOST};
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
        all.layers[class] = -1;
    struct spared points[SPARED_MAX];
    int count = 0, recomputed = division_block(division_kind(of), true, division_stays(of));
    for (int i = 0; i < pressed->ways->count; i++) {
        struct parallel parallel = pressed->program->parallel;
        parallel.recompute =
            recompute_of_value(pressed->ways->recomputes[i], &parallel.recompute_classes);
        const struct memo_block *block = composing_block(pressed->composer, &parallel, recomputed);
        struct spared point = {held_bytes(pressed, plain) - held_bytes(pressed, block),
                               composing_block_s(block) - composing_block_s(plain)};
        points[count++] = point;
        if (!pressed->ways->moves) continue;
        // No tier is nearer than the host.
        struct copy_price copy =
            copy_price(context, TIER_HOST, block->light, &block->price, offload_classes(&all, 0));
        point.bytes += copy.bytes, point.seconds += copy.forward_s + copy.backward_s;
        points[count++] = point;
    }
    spared_hull_make(hull, points, count);
}

static const struct saturated *saturated_of(const struct pressed *pressed, int of)
{
    const struct saturated *const *all = pressed->ways->saturated;
    return all ? all[division_kind(of)] : NULL;
}

// As the largest kernels say.
static void guess_hull(struct pressed *pressed, int of, struct spared_hull *hull)
{
    const struct price_context *context = memo_context(pressed->composer->memo);
    const struct memo_block *plain = plain_block(pressed, of);
    const struct parallel *parallel = &pressed->program->parallel;
    const int *degree = parallel->degree;
    double ranks =
        (double)degree[AXIS_TP] * degree[AXIS_CP] * degree[AXIS_SP_H] * degree[AXIS_SP_W];
    struct saturated_copies copies = {0, copy_window(context, TIER_HOST, &plain->price), 0};
    if (pressed->ways->moves) copies.bytes_per_s = offload_bytes_per_s(context, TIER_HOST);
    const struct saturated_layer layer = {
        .saturated = saturated_of(pressed, of),
        .share = parallel->micro_batch / ranks,
        .kept_bytes = held_bytes(pressed, plain),
        .hideable_s = plain->price.hideable_s,
        .copies = pressed->ways->moves ? &copies : NULL,
        .values = pressed->ways->recomputes,
        .value_count = pressed->ways->count,
    };
    saturated_spared(&layer, hull);
}

static const struct spared_hull *hull_of(struct pressed *pressed, int of)
{
    struct spared_hull *hull = pressed->hulls[of];
    if (hull) return hull;
    hull = pressed->hulls[of] = ARENA_NEW(pressed->composer->scratch, struct spared_hull, 1);
    if (saturated_of(pressed, of)) {
        guess_hull(pressed, of, hull);
    } else {
        find_hull(pressed, of, hull);
    }
    return hull;
}

// The moment in which most chunks are alive; whatever layers do, the stage has to have room in it.
static const struct schedule_in_flight *fullest(const struct stage_in_flight *in_flight, int chunks)
{
    const struct schedule_in_flight *found = NULL;
    for (int i = 0, most = -1; i < in_flight->count; i++) {
        const struct schedule_in_flight *moment = &in_flight->moments[i * chunks];
        int alive = 0;
        for (int chunk = 0; chunk < chunks; chunk++)
            alive += moment[chunk].alive;
        if (alive <= most) continue;
        most = alive;
        found = moment;
    }
    return found;
}

static void add_use(struct pressed *pressed, const struct block_use *use, int alive)
{
    int of = plain_of(use->block_program), at = 0;
    const struct memo_block *block = plain_block(pressed, of);
    enum block_role role = block->light->block->role;
    pressed->stage_s += use->count * composing_block_s(block);
    if (role == BLOCK_HEAD) return;
    pressed->saved_bytes += (double)use->count * alive * held_bytes(pressed, block);
    if (role != BLOCK_LAYER) return;
    struct alike *layers = pressed->layers;
    while (at < pressed->layers_count && (layers[at].block != of || layers[at].alive != alive))
        at++;
    if (at == pressed->layers_count) layers[pressed->layers_count++] = (struct alike){of, alive, 0};
    layers[at].count += use->count;
}

// Takes each layer's fastest way, and says what further steps free.
static void add_steps(struct pressed *pressed, const struct alike *layers)
{
    const struct spared_hull *hull = hull_of(pressed, layers->block);
    double count = layers->count, alive = layers->alive;
    pressed->stage_s += count * hull->points[0].seconds;
    pressed->saved_bytes -= count * alive * hull->points[0].bytes;
    for (int i = 1; i < hull->count && alive > 0; i++) {
        const struct spared *from = &hull->points[i - 1], *to = &hull->points[i];
        pressed->steps[pressed->step_count++] = (struct spared){
            count * alive * (to->bytes - from->bytes), count * (to->seconds - from->seconds)};
    }
}

static void find_stage(struct pressed *pressed, int stage)
{
    const struct division *division = pressed->division;
    int v = division->chunk_count;
    const struct stage_in_flight *in_flight =
        moments_get(&pressed->composer->moments, pressed->program, stage);
    const struct schedule_in_flight *moment = fullest(&in_flight[stage], v);
    assert(moment && "every stage has a moment in which chunks are alive");
    pressed->stage_s = pressed->saved_bytes = 0;
    pressed->layers_count = pressed->step_count = 0;
    for (int chunk = 0; chunk < v; chunk++) {
        const struct program_chunk *uses = &division->chunks[division->class_of[stage * v + chunk]];
        for (int u = 0; u < uses->use_count; u++)
            add_use(pressed, &uses->uses[u], moment[chunk].alive);
    }
    int most = 0;
    for (int i = 0; i < pressed->layers_count; i++)
        most += hull_of(pressed, pressed->layers[i].block)->count;
    pressed->steps = ARENA_NEW(pressed->composer->scratch, struct spared, most);
    for (int i = 0; i < pressed->layers_count; i++)
        add_steps(pressed, &pressed->layers[i]);
    assert(pressed->step_count <= most);
    qsort(pressed->steps, (size_t)pressed->step_count, sizeof *pressed->steps, compare_rates);
}

// What a stage's first chunk takes of a micro-batch, each layer treated the fastest way.
static double first_chunk_s(struct pressed *pressed, int stage)
{
    const struct division *division = pressed->division;
    int class = division->class_of[stage * division->chunk_count];
    const struct program_chunk *chunk = &division->chunks[class];
    double sum_s = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        int of = plain_of(chunk->uses[u].block_program);
        const struct memo_block *block = plain_block(pressed, of);
        bool is_layer = block->light->block->role == BLOCK_LAYER;
        double each_s =
            composing_block_s(block) + (is_layer ? hull_of(pressed, of)->points[0].seconds : 0);
        sum_s += chunk->uses[u].count * each_s;
    }
    return sum_s;
}

bool composing_waits(const struct composer *composer, const struct parallel *parallel)
{
    const struct schedule_row *row = schedule_row(parallel->schedule);
    struct schedule_shape shape = {.stage_count = parallel->degree[AXIS_PP],
                                   .chunk_count = parallel->vpp};
    bool runs_on = step_post_validated(composer->request->stack, parallel);
    return row->backward_fused && !runs_on &&
           row->stage_of(&shape, shape.stage_count - 1) == shape.stage_count - 1;
}

// Seconds of a micro-batch on the stage; INFINITY where nothing makes room.
static double stage_s(struct pressed *pressed, int stage, int64_t limit_bytes)
{
    const struct stack *stack = pressed->composer->request->stack;
    double slack = 1 + stack_reserve_ratio(stack, pressed->division->stage_count);
    find_stage(pressed, stage);
    int64_t stored = composing_stored_bytes(pressed->composer, pressed->program, stage);
    double room = (double)(limit_bytes - stored + 1) / slack;
    double short_bytes = pressed->saved_bytes * (1 - 1e-9) - room, s = pressed->stage_s;
    for (int i = 0; i < pressed->step_count && short_bytes > 0; i++) {
        const struct spared *step = &pressed->steps[i];
        double part = fmin(1, short_bytes / step->bytes);
        s += part * step->seconds;
        short_bytes -= step->bytes;
    }
    return short_bytes > 0 ? INFINITY : s;
}

double composer_pressed(struct composer *composer, const struct candidate *kept,
                        const struct composer_ways *ways, int64_t limit_bytes)
{
    const struct parallel *parallel = &kept->parallel;
    const struct division *division = composer_division(composer, parallel);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    struct arena_mark mark = arena_mark(composer->scratch);
    int kinds = DIVISION_WAYS * composer->graph->block_count;
    int most = division->chunk_count * kinds;
    struct pressed pressed = {
        .composer = composer,
        .ways = ways,
        .program = &program,
        .division = division,
        .plain = ARENA_NEW(composer->scratch, const struct memo_block *, kinds),
        .hulls = ARENA_NEW(composer->scratch, struct spared_hull *, kinds),
        .layers = ARENA_NEW(composer->scratch, struct alike, most),
    };
    double most_s = 0, once_s = kept->cost.overhead_s;
    double enough_s = ways->enough_s > 0 ? ways->enough_s : INFINITY;
    int before = composing_waits(composer, parallel) ? 0 : division->stage_count;
    for (int i = 0; i < division->head_count && most_s * (1 - 1e-9) < enough_s; i++) {
        int stage = division->heads[i];
        while (before < stage)
            pressed.before_s += first_chunk_s(&pressed, before++);
        double each_s = stage_s(&pressed, stage, limit_bytes);
        most_s = fmax(most_s, each_s * program.shape.micro_batch_count + pressed.before_s);
    }
    arena_reset(composer->scratch, mark);
    // Where steps run into each other the update is beside other stages' work.
    bool is_apart = !step_post_validated(composer->request->stack, parallel);
    if (is_apart && !composing_once_hangs(composer, parallel)) once_s += kept->cost.update_s;
    return (most_s + once_s) * (1 - 1e-9);
}

struct composer_probe composer_probe(struct composer *composer, const struct parallel *parallel,
                                     int kind)
{
    assert(kind >= 0 && kind < composer->graph->block_count);
    struct parallel whole = *parallel;
    whole.zero = 0;
    whole.vpp = 2;  // what is hidden in any of its pipelines
    const struct memo_block *block =
        memo_block(composer->memo, composer->graph, kind, &composer->mesh[0], &whole,
                   RECOMPUTE_NONE, memo_longest_stay(composer->memo));
    double chain_s = parts_s(block->price.phase_s[PHASE_FORWARD]) +
                     parts_s(block->price.phase_s[PHASE_BACKWARD]);
    return (struct composer_probe){
        {chain_s + parts_s(block->price.phase_s[PHASE_WEIGHT]), chain_s},
        copy_window(memo_context(composer->memo), TIER_HOST, &block->price),
        block->price.hideable_s};
}
