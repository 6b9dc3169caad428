#include "planner/layout_prices.h"

#include "plan/choice.h"
#include "plan/layout/annotations.h"
#include "plan/ties.h"
#include "planner/traces.h"
#include "simulator/closed_form.h"

#include <assert.h>
#include <string.h>

// What is said of the operators of a unit: blocks of one name, which share their rules.
struct laid_key {
    const struct graph *graph;
    int32_t unit, count;
    struct {
        uint16_t block, op, dim, follows;
    } said[LAYOUT_SITES_MAX];
};

struct laid {
    struct laid_key key;
    const struct layout_rule *rules;  // with those that follow; NULL: none
    int count;
};

// Whether plans of which the same is asked can have them.
struct laid_asked {
    struct {
        const struct laid *laid;
        int64_t question;
    } key;
    uint64_t asked, held;  // on which of the first stages, and where they can
};

struct layout_memo {
    struct arena *arena, *scratch;
    struct memo *memo;
    struct moments moments;
    struct index laid, asked;
    struct parallel *questions;  // plans that differ in what a rule's check asks
    int question_count, question_capacity;
};

struct layout_prices {
    struct layout_memo *memo;
    const struct evaluation_request *request;
    struct parallel parallel;
    const struct graph *graph;
    struct graph *units, tied;  // each some blocks of the graph
    int unit_count, *unit_of;   // [block]
    bool *has_tie;              // [unit]
    int stage_count;            // that may have rules of their own; 1: all have the same
    bool *is_on;                // [stage * unit_count + unit]
    int tied_unit_count;
    const struct laid **tied_as;  // [unit] that were asked about last, and whether they can be
    bool ties_hold;
    struct program *program;  // without rules
    const struct stage_runs *runs;
    double hop_s;
    int question;
};

struct layout_memo *layout_memo_new(struct arena *arena, struct arena *scratch,
                                    const struct search_request *request)
{
    struct layout_memo *memo = ARENA_NEW(arena, struct layout_memo, 1);
    *memo = (struct layout_memo){
        .arena = arena,
        .scratch = scratch,
        .memo = memo_new(arena, scratch, request),
        .moments.arena = arena,
        .laid.key_bytes = sizeof(struct laid_key),
        .asked.key_bytes = sizeof(((struct laid_asked *)0)->key),
    };
    return memo;
}

const struct graph *layout_prices_graph(const struct layout_prices *prices)
{
    return prices->graph;
}

static void add_block(struct arena *arena, struct graph *part, const struct graph *graph, int block)
{
    if (!part->blocks) {
        *part = *graph;
        part->blocks = ARENA_NEW(arena, struct block, graph->block_count);
        part->block_count = 0;
    }
    part->blocks[part->block_count++] = graph->blocks[block];
}

static void add_units(struct layout_prices *prices)
{
    struct arena *arena = prices->memo->scratch;
    const struct graph *graph = prices->graph;
    prices->units = ARENA_NEW(arena, struct graph, graph->block_count);
    prices->unit_of = ARENA_NEW(arena, int, graph->block_count);
    prices->has_tie = ARENA_NEW(arena, bool, graph->block_count);
    prices->tied_as = ARENA_NEW(arena, const struct laid *, graph->block_count);
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        int unit = 0;
        while (unit < b && strcmp(graph->blocks[unit].name, block->name) != 0)
            unit++;
        unit = unit < b ? prices->unit_of[unit] : prices->unit_count++;
        prices->unit_of[b] = unit;
        add_block(arena, &prices->units[unit], graph, b);
        bool has_tie = false;
        for (int t = 0; t < block->tensor_count; t++)
            has_tie |= block->tensors[t].tie != NULL;
        if (!has_tie) continue;
        prices->tied_unit_count += !prices->has_tie[unit];
        prices->has_tie[unit] = true;
        add_block(arena, &prices->tied, graph, b);
    }
}

static int stage_of(const struct layout_prices *prices, const struct block_origin *origin)
{
    return prices->stage_count > 1 ? origin->mesh : 0;
}

// The units that each stage has, where stages are told apart by their numbers of ranks.
static void find_stages(struct layout_prices *prices)
{
    const struct program *program = prices->program;
    int stages = program->parallel.stage_ranks_count;
    prices->stage_count = stages > 1 ? stages : 1;
    prices->is_on = ARENA_NEW(prices->memo->scratch, bool,
                              (size_t)prices->stage_count *(size_t)prices->unit_count);
    for (int i = 0; i < program->block_count; i++) {
        const struct block_origin *origin = &program->origins[i];
        int stage = stage_of(prices, origin);
        assert(stage >= 0 && stage < prices->stage_count);
        prices->is_on[stage * prices->unit_count + prices->unit_of[origin->kind]] = true;
    }
}

// Whether rules can be of both or of neither: what comes once a step, and in what order, is not
// asked.
static bool is_asked_alike(const struct parallel *a, const struct parallel *b)
{
    static const enum choice IRRELEVANT[] = {CHOICE_VPP,       CHOICE_ZERO,
                                             CHOICE_RECOMPUTE, CHOICE_SCHEDULE,
                                             CHOICE_IN_FLIGHT, CHOICE_RECOMPUTE_LAYERS};
    uint64_t irrelevant = 0;
    for (size_t i = 0; i < sizeof IRRELEVANT / sizeof *IRRELEVANT; i++)
        irrelevant |= (uint64_t)1 << IRRELEVANT[i];
    bool is_alike = parallel_groups_shards(a) == parallel_groups_shards(b) &&
                    a->order_count == b->order_count && a->stage_tp_count == b->stage_tp_count &&
                    a->stage_ranks_count == b->stage_ranks_count && a->stage_tp == b->stage_tp &&
                    a->stage_ranks == b->stage_ranks;
    for (int c = 0; c < CHOICE_COUNT && is_alike; c++)
        is_alike = irrelevant >> c & 1 ||
                   choice_value(a, (enum choice)c) == choice_value(b, (enum choice)c);
    for (int i = 0; i < a->order_count && is_alike; i++)
        is_alike = a->order[i] == b->order[i];
    return is_alike;
}

static int question_of(struct layout_memo *memo, const struct parallel *parallel)
{
    for (int i = 0; i < memo->question_count; i++)
        if (is_asked_alike(&memo->questions[i], parallel)) return i;
    ARENA_GROW(memo->arena, memo->questions, memo->question_count, memo->question_capacity);
    memo->questions[memo->question_count] = *parallel;
    return memo->question_count++;
}

struct layout_prices *layout_prices_new(struct layout_memo *memo,
                                        const struct evaluation_request *request)
{
    assert(request->parallel.layout_count == 0 && "rules are said of it afterwards");
    struct layout_prices *prices = ARENA_NEW(memo->scratch, struct layout_prices, 1);
    struct parallel *parallel = &prices->parallel;
    *prices =
        (struct layout_prices){.memo = memo, .request = request, .parallel = request->parallel};
    parallel->accumulates =
        stack_accumulates(request->stack, parallel, request->workload.global_batch);
    prices->question = question_of(memo, parallel);
    prices->graph = memo_graph(memo->memo, parallel->attention, parallel->degree[AXIS_TP]);
    add_units(prices);
    struct program *program =
        program_lower(memo->scratch, prices->graph, request->cluster, &request->workload, parallel,
                      stack_joins(request->stack));
    // No rule changes what blocks hand on.
    prices->hop_s = step_price(memo->scratch, memo_context(memo->memo), program)->hop_s;
    program->mesh = memo_mesh(prices->graph, parallel);
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        program->storage[kind] =
            program_storage(&program->mesh, parallel, (enum parameter_kind)kind);
    for (int stage = 0; stage < program->shape.stage_count; stage++)
        program->in_flight = moments_get(&memo->moments, program, stage);
    prices->runs = stage_runs_make(memo->scratch, &program->shape, program->class_of,
                                   program->chunk_class_count);
    prices->program = program;
    find_stages(prices);
    return prices;
}

bool layout_prices_is_on(const struct layout_prices *prices, int stage, int block)
{
    assert(stage >= 0 && stage < prices->stage_count);
    return prices->is_on[stage * prices->unit_count + prices->unit_of[block]];
}

bool layout_prices_is_tied(const struct layout_prices *prices, int block)
{
    return prices->has_tie[prices->unit_of[block]];
}

static bool is_said(const struct layout_prices *prices, const struct layout_said *said, int unit,
                    int stage)
{
    bool is_here = !said->rule.is_of_stage || said->rule.stage == stage;
    return is_here && prices->unit_of[said->block] == unit;
}

// The rules that follow from what is said of a unit on a stage.
static void fill(struct layout_prices *prices, int stage, const struct layout_said *said, int count,
                 struct laid *laid)
{
    struct arena *scratch = prices->memo->scratch, *arena = prices->memo->arena;
    struct layout_rule *given = ARENA_NEW(scratch, struct layout_rule, count);
    int given_count = 0;
    for (int i = 0; i < count; i++) {
        if (!is_said(prices, &said[i], laid->key.unit, stage)) continue;
        given[given_count] = said[i].rule;
        given[given_count++].is_of_stage = false;
    }
    const struct annotations annotations = {given, given_count};
    struct annotations filled =
        annotations_fill(scratch, &prices->units[laid->key.unit], &annotations);
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, filled.count);
    for (int i = 0; i < filled.count; i++) {
        rules[i] = filled.rules[i];
        rules[i].operator= arena_copy(arena, rules[i].operator);
    }
    laid->rules = rules;
    laid->count = filled.count;
}

static struct laid *laid_of(struct layout_prices *prices, int unit, int stage,
                            const struct layout_said *said, int count)
{
    struct layout_memo *memo = prices->memo;
    struct laid_key key;
    memset(&key, 0, sizeof key);
    key.graph = prices->graph;
    key.unit = unit;
    for (int i = 0; i < count; i++) {
        if (!is_said(prices, &said[i], unit, stage)) continue;
        assert(key.count < LAYOUT_SITES_MAX);
        key.said[key.count].block = (uint16_t)said[i].block;
        key.said[key.count].op = (uint16_t)said[i].op;
        key.said[key.count].follows = said[i].rule.follows;
        key.said[key.count++].dim = (uint16_t)said[i].rule.dim;
    }
    struct laid *laid = index_find(&memo->laid, &key);
    if (laid) return laid;
    laid = ARENA_NEW(memo->arena, struct laid, 1);
    memcpy(&laid->key, &key, sizeof key);
    if (key.count > 0) fill(prices, stage, said, count, laid);
    index_put(memo->arena, &memo->laid, laid);
    return laid;
}

// On one of the stages that are told apart; -1: on all.
static bool holds(const struct layout_prices *prices, int stage, const struct graph *part,
                  const struct layout_rule *rules, int count, bool ties_alone)
{
    struct parallel parallel = prices->parallel;
    struct err err = {.kind = ERR_USAGE};  // nobody reads why
    parallel.layouts = rules;
    parallel.layout_count = count;
    const struct workload *workload = &prices->request->workload;
    return stage < 0 ? layout_rules_hold(part, workload, &parallel, ties_alone, &err)
                     : layout_rules_hold_at(part, workload, &parallel, stage, ties_alone, &err);
}

static bool unit_holds(const struct layout_prices *prices, const struct laid *laid, int stage)
{
    enum { KNOWN_MAX = 64 };
    struct layout_memo *memo = prices->memo;
    const struct graph *part = &prices->units[laid->key.unit];
    int at = prices->stage_count > 1 ? stage : -1;
    if (stage >= KNOWN_MAX) return holds(prices, at, part, laid->rules, laid->count, false);
    const struct laid_asked wanted = {.key = {laid, prices->question}};
    struct laid_asked *known = index_find(&memo->asked, &wanted);
    if (!known) {
        known = ARENA_COPY(memo->arena, struct laid_asked, &wanted, 1);
        index_put(memo->arena, &memo->asked, known);
    }
    uint64_t bit = (uint64_t)1 << stage;
    if (!(known->asked & bit) && holds(prices, at, part, laid->rules, laid->count, false))
        known->held |= bit;
    known->asked |= bit;
    return known->held & bit;
}

// One parameter in two units: what of both is said of it, on all stages.
static bool ties_hold(struct layout_prices *prices, struct laid *const *laid)
{
    bool is_known = true;
    int count = 0;
    if (prices->tied_unit_count < 2) return true;
    for (int u = 0; u < prices->unit_count; u++) {
        if (!prices->has_tie[u]) continue;
        is_known &= prices->tied_as[u] == laid[u];
        prices->tied_as[u] = laid[u];
        count += laid[u]->count;
    }
    if (is_known) return prices->ties_hold;
    struct layout_rule *rules = ARENA_NEW(prices->memo->scratch, struct layout_rule, count);
    count = 0;
    for (int u = 0; u < prices->unit_count; u++)
        for (int i = 0; prices->has_tie[u] && i < laid[u]->count; i++)
            rules[count++] = laid[u]->rules[i];
    prices->ties_hold = holds(prices, -1, &prices->tied, rules, count, true);
    return prices->ties_hold;
}

// Of blocks without rules in a plan that has some elsewhere: lowering asks whether there are any.
static const struct layout_rule ELSEWHERE = {.operator= "" };

// The program with these rules, the prices of its blocks and, where asked for, their traces.
static struct program lay_out(struct layout_prices *prices, struct laid *const *laid,
                              struct block_price *block_prices, const uint32_t **traces)
{
    struct program program = *prices->program, room;
    bool has_rules = false;
    for (int i = 0; i < prices->stage_count * prices->unit_count; i++)
        has_rules |= laid[i]->count > 0;
    program.blocks = ARENA_NEW(prices->memo->scratch, struct block_program *, program.block_count);
    for (int i = 0; i < program.block_count; i++) {
        const struct block_origin *origin = &program.origins[i];
        const struct program *seen = program_of_block(prices->program, i, &room);
        struct parallel parallel = seen->parallel;
        const struct laid *of =
            laid[stage_of(prices, origin) * prices->unit_count + prices->unit_of[origin->kind]];
        parallel.layouts = of->rules;
        parallel.layout_count = of->count;
        if (has_rules && of->count == 0) {
            parallel.layouts = &ELSEWHERE;
            parallel.layout_count = 1;
        }
        const struct block_program *plain = prices->program->blocks[i];
        int stays = plain->weights_away ? STAYS_TURN * plain->weights_turn +
                                              STAYS_BETWEEN * (plain->weights_rounds > 0)
                                        : STAYS_ALWAYS;
        const struct memo_block *block =
            memo_block(prices->memo->memo, prices->graph, origin->kind, &seen->mesh, &parallel,
                       origin->recompute, (enum stays)stays);
        program.blocks[i] = block->light;
        block_prices[i] = block->price;
        if (traces) traces[i] = block->traces;
    }
    if (program.tie_count > 0) ties_find(prices->memo->scratch, &program);
    return program;
}

static struct layout_value price(struct layout_prices *prices, struct laid **laid, double below_s)
{
    struct layout_memo *memo = prices->memo;
    struct block_price *blocks =
        ARENA_NEW(memo->scratch, struct block_price, prices->program->block_count);
    struct program program = lay_out(prices, laid, blocks, NULL);
    struct step_price *step = step_price_of_blocks(memo->scratch, memo_context(memo->memo),
                                                   &program, blocks, &prices->hop_s);
    step->runs = prices->runs;
    struct layout_value value = {true, closed_form(step).step_s, INT64_MAX};
    int stage = 0;
    if (value.step_s < below_s)
        value.reserved_bytes =
            memory_worst(&program, prices->request->stack, &stage).reserved_bytes;
    return value;
}

// What is said, by stage and unit; false: it cannot be.
static bool is_legal(struct layout_prices *prices, const struct layout_said *said, int count,
                     struct laid **laid)
{
    int units = prices->unit_count, all = prices->stage_count * units;
    bool holds = true, has_rules = false;
    for (int i = 0; i < all; i++) {
        laid[i] = laid_of(prices, i % units, i / units, said, count);
        has_rules |= laid[i]->count > 0;
    }
    // The table itself is not asked, as the check of a plan does not where it has no layouts. Where
    // it has some all blocks are asked on all stages, also those that a stage does not have.
    for (int i = 0; i < all && has_rules && holds; i++)
        holds = unit_holds(prices, laid[i], i / units);
    return holds && (!has_rules || ties_hold(prices, laid));
}

static struct laid **room_for_laid(const struct layout_prices *prices)
{
    return ARENA_NEW(prices->memo->scratch, struct laid *,
                     (size_t)prices->stage_count * (size_t)prices->unit_count);
}

const uint32_t *const *layout_prices_traces(struct layout_prices *prices,
                                            const struct layout_said *said, int count)
{
    struct arena *scratch = prices->memo->scratch;
    int blocks = prices->program->block_count;
    const uint32_t **traces = ARENA_NEW(scratch, const uint32_t *, blocks);
    struct arena_mark mark = arena_mark(scratch);
    struct laid **laid = room_for_laid(prices);
    bool is_known = is_legal(prices, said, count, laid);
    if (is_known)
        (void)lay_out(prices, laid, ARENA_NEW(scratch, struct block_price, blocks), traces);
    is_known = is_known && blocks > 0 && traces[0];
    arena_reset(scratch, mark);
    return is_known ? traces : NULL;
}

bool layout_traces_meet(const struct layout_prices *prices, const uint32_t *const *base,
                        const uint32_t *const *a, const uint32_t *const *b)
{
    for (int i = 0; i < prices->program->block_count; i++) {
        const struct block *block = prices->program->blocks[i]->block;
        if (a[i] != base[i] && b[i] != base[i] && traces_meet(block, base[i], a[i], b[i]))
            return true;
    }
    return false;
}

struct layout_value layout_prices_value(struct layout_prices *prices,
                                        const struct layout_said *said, int count, double below_s)
{
    struct arena_mark mark = arena_mark(prices->memo->scratch);
    struct laid **laid = room_for_laid(prices);
    struct layout_value value = {0};
    if (is_legal(prices, said, count, laid)) value = price(prices, laid, below_s);
    assert(!value.is_legal || (value.step_s > 0 && value.reserved_bytes > 0));
    arena_reset(prices->memo->scratch, mark);
    return value;
}
