#include "simulator/breakdown.h"
#include "core/sort.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What the breakdown is made from, and how often each block and chunk runs on the stage.
struct sources {
    const struct ledger *ledger;
    const struct program *program;
    const struct step_price *price;
    const struct stage_waits *waits;
    int stage;
    double *block_uses;                // [block] a micro-batch
    double *chunk_uses;                // [class of chunks]
    double hops;                       // messages that the stage sends and receives in a step
    double waited_ratio[ENTRY_COUNT];  // share of what it takes alone that is waited for
};

static bool is_communication(const struct ledger_line *line)
{
    return line->collective != COLLECTIVE_NONE || line->entry == ENTRY_COPY;
}

bool breakdown_is_communication(const struct breakdown_line *line)
{
    return is_communication(line->price);
}

static void count_uses(struct arena *arena, struct sources *sources)
{
    const struct program *program = sources->program;
    int chunk_count = program->shape.chunk_count;
    sources->block_uses = ARENA_NEW(arena, double, program->block_count);
    sources->chunk_uses = ARENA_NEW(arena, double, program->chunk_class_count);
    for (int i = 0; i < chunk_count; i++) {
        int class = program->class_of[sources->stage * chunk_count + i];
        assert(class >= 0 && class < program->chunk_class_count);
        const struct program_chunk *chunk = &program->chunks[class];
        sources->chunk_uses[class] += 1;
        for (int u = 0; u < chunk->use_count; u++)
            sources->block_uses[chunk->uses[u].block_program] += chunk->uses[u].count;
    }
}

// Over each boundary between virtual stages that are on different stages, one of them this one.
static double hops_of(const struct step_price *price, int stage)
{
    const struct schedule_shape *shape = &price->shape;
    const struct schedule_row *row = schedule_row(price->schedule);
    int virtual_count = shape->stage_count * shape->chunk_count, neighbours = 0;
    for (int at = 0; at + 1 < virtual_count; at++) {
        int from = row->stage_of(shape, at), to = row->stage_of(shape, at + 1);
        assert(from >= 0 && from < shape->stage_count && to >= 0 && to < shape->stage_count);
        if (from != to) neighbours += (from == stage) + (to == stage);
    }
    // A forward one way, a gradient the other.
    return 2.0 * neighbours * shape->micro_batch_count;
}

// Each tie is a line, in their order.
static bool has_tie(const struct sources *sources, const struct ledger_line *line)
{
    int tie = 0;
    for (const struct ledger_line *at = sources->ledger->lines; at < line; at++)
        tie += at->entry == ENTRY_TIED;
    assert(tie < sources->price->tie_count);
    const struct tied_price *tied = &sources->price->ties[tie];
    for (int i = 0; i < tied->stage_count; i++)
        if (tied->stages[i] == sources->stage) return true;
    return false;
}

static double line_uses(const struct sources *sources, const struct ledger_line *line)
{
    double rounds = sources->price->shape.micro_batch_count;
    assert(line->block < sources->program->block_count);
    assert(line->chunk < sources->program->chunk_class_count);
    if (line->block >= 0) return rounds * sources->block_uses[line->block];
    bool each_round =
        line->entry == ENTRY_TASK || line->entry == ENTRY_COPY || line->entry == ENTRY_BEGIN;
    if (each_round) return rounds * sources->chunk_uses[line->chunk];
    if (line->chunk >= 0) return sources->chunk_uses[line->chunk];
    if (line->entry == ENTRY_HOP) return sources->hops;
    if (line->entry == ENTRY_TIED) return has_tie(sources, line);
    return 1;
}

// What the events say is waited for, over what the lines take alone.
static void find_ratios(struct sources *sources)
{
    double alone_s[ENTRY_COUNT] = {0};
    for (int i = 0; i < sources->ledger->count; i++) {
        const struct ledger_line *line = &sources->ledger->lines[i];
        alone_s[line->entry] += line->s * line_uses(sources, line);
    }
    const struct step_price *price = sources->price;
    double waited_s[ENTRY_COUNT];
    for (int entry = 0; entry < ENTRY_COUNT; entry++)
        waited_s[entry] = alone_s[entry];
    waited_s[ENTRY_REDUCE] = sources->waits->reduce_s;
    if (price->gather_overlapped) waited_s[ENTRY_GATHER] = sources->waits->gather_s;
    waited_s[ENTRY_HOP] = sources->waits->blocked_s;
    waited_s[ENTRY_TIED] = sources->waits->tied_s;
    if (price->post_validated) waited_s[ENTRY_NORM] = waited_s[ENTRY_TRUST] = 0;
    for (int entry = 0; entry < ENTRY_COUNT; entry++) {
        assert((alone_s[entry] > 0 || waited_s[entry] < 1e-8) && "what is waited for has a line");
        sources->waited_ratio[entry] = alone_s[entry] > 0 ? waited_s[entry] / alone_s[entry] : 0;
    }
}

// Without a shape two lines are alike by name.
static bool is_alike(const struct ledger_line *a, const struct ledger_line *b)
{
    if (a->entry != b->entry || strcmp(a->what, b->what) != 0 || a->phase != b->phase ||
        a->recompute != b->recompute || a->collective != b->collective) {
        return false;
    }
    if (!a->instr && !is_communication(a)) return true;
    return a->s == b->s && a->bytes == b->bytes && a->flop == b->flop && a->joined == b->joined &&
           a->exchange == b->exchange && a->axes == b->axes && a->rank_count == b->rank_count &&
           a->count == b->count && a->gemm.m == b->gemm.m && a->gemm.n == b->gemm.n &&
           a->gemm.k == b->gemm.k && a->gemm.batch == b->gemm.batch;
}

static void add_line(const struct sources *sources, const struct ledger_line *line,
                     struct breakdown *breakdown)
{
    double uses = line_uses(sources, line);
    assert(line->s >= 0 && line->exposed_s >= 0 && "no line gives time back");
    if (uses <= 0) return;
    struct breakdown_line *own = NULL;
    for (int i = 0; i < breakdown->count && !own; i++) {
        if (is_alike(breakdown->lines[i].price, line)) own = &breakdown->lines[i];
    }
    if (!own) {
        assert(breakdown->count < sources->ledger->count);
        own = &breakdown->lines[breakdown->count++];
        own->price = line;
    }
    double s = line->exposed_s * uses * sources->waited_ratio[line->entry];
    bool is_apart = is_communication(line);
    own->count += line->count * uses;
    own->flop += line->flop * uses;
    own->bytes += is_apart ? 0 : line->bytes * uses;
    own->alone_s += line->s * uses;
    own->s += s;
    *(is_apart ? &breakdown->communication_s : &breakdown->operators_s) += s;
}

static bool is_longer(const void *a, const void *b)
{
    const struct breakdown_line *first = a, *second = b;
    return first->s > second->s;
}

struct breakdown breakdown_of_stage(struct arena *arena, const struct ledger *ledger,
                                    const struct program *program, const struct step_price *price,
                                    const struct simulation *simulation, int stage)
{
    assert(stage >= 0 && stage < price->shape.stage_count);
    struct sources sources = {.ledger = ledger,
                              .program = program,
                              .price = price,
                              .waits = &simulation->stage_waits[stage],
                              .stage = stage,
                              .hops = hops_of(price, stage)};
    count_uses(arena, &sources);
    find_ratios(&sources);
    struct mesh *mesh = ARENA_NEW(arena, struct mesh, 1);
    struct program room;
    bool has_own = program->mesh.stage_ranks != NULL;
    *mesh = has_own ? program_at(program, stage, &room)->mesh : program->mesh;
    struct breakdown breakdown = {.mesh = mesh,
                                  .stage = stage,
                                  .stage_count = price->shape.stage_count,
                                  .step_s = simulation->cost.step_s,
                                  .lines = ARENA_NEW(arena, struct breakdown_line, ledger->count),
                                  .overhead_s = price->overhead_s};
    for (int i = 0; i < ledger->count; i++)
        add_line(&sources, &ledger->lines[i], &breakdown);
    // Ties stay in the order of the program.
    sort_stable(arena, breakdown.lines, breakdown.count, sizeof *breakdown.lines, is_longer);
    breakdown.waiting_s =
        breakdown.step_s - breakdown.overhead_s - breakdown.operators_s - breakdown.communication_s;
    assert(breakdown.waiting_s >
               -1e-6 * breakdown.step_s - 1e-8 - (price->post_validated ? price->hop_s : 0) &&
           "no stage works longer than the step");
    return breakdown;
}

struct breakdown breakdown_of_unlike(struct arena *arena, struct arena *scratch,
                                     const struct evaluation_request *request,
                                     const struct program *program,
                                     const struct simulation *simulation, int stage, int *rounds)
{
    struct price_context context = evaluation_context(request);
    const struct step_price *slowest = step_price(arena, &context, program);
    struct unlike_place place = unlike_busiest(scratch, request, program, slowest, stage);
    assert(place.device && place.micro_batch_count > 0);
    struct ledger *ledger = ARENA_NEW(arena, struct ledger, 1);
    *ledger = ledger_new(arena);
    context.ledger = ledger;
    context.compute.device = place.device;
    context.at_stage = place.at_stage;
    context.micro_batch_count = place.micro_batch_count;
    struct step_price *own = ARENA_NEW(arena, struct step_price, 1);
    *own = *step_price(arena, &context, program);
    own->shape.micro_batch_count = *rounds = place.micro_batch_count;
    return breakdown_of_stage(arena, ledger, program, own, simulation, stage);
}

struct breakdown breakdown_make(struct arena *arena, struct arena *scratch,
                                const struct evaluation_request *request,
                                const struct evaluation *evaluation)
{
    struct ledger *ledger = ARENA_NEW(arena, struct ledger, 1);
    *ledger = ledger_new(arena);
    struct price_context context = evaluation_context(request);
    context.ledger = ledger;
    const struct program *program = evaluation->program;
    const struct step_price *price = step_price(arena, &context, program);
    const struct simulation *simulation =
        unlike_play(arena, scratch, request, program, price, &(struct engine_options){0});
    assert(fabs(simulation->cost.step_s - evaluation->prediction.step_s) <=
           1e-9 * simulation->cost.step_s);
    int busiest = 0;
    for (int stage = 1; stage < price->shape.stage_count; stage++) {
        if (simulation->stage_busy_s[stage] > simulation->stage_busy_s[busiest]) busiest = stage;
    }
    if (!unlike_is(request, program))
        return breakdown_of_stage(arena, ledger, program, price, simulation, busiest);
    int rounds;
    return breakdown_of_unlike(arena, scratch, request, program, simulation, busiest, &rounds);
}
