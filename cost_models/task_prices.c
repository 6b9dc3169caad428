#include "cost_models/task_prices.h"
#include "cost_models/gemm.h"

#include <assert.h>

struct pricing {
    struct task_prices prices;
};

// One class of chunks, or (chunk -1) all tasks: from *first up to the one returned.
static int tasks_of(const struct step_graph *graph, int chunk, int *first)
{
    *first = chunk < 0 ? 0 : graph->first[chunk];
    return chunk < 0 ? graph->task_count : graph->first[chunk + 1];
}

static void add(struct pricing *pricing, int task, double s)
{
    assert(task >= 0 && task < pricing->prices.graph->task_count && s >= 0);
    pricing->prices.s[task] += s;
}

// What an update takes is priced for a chunk, whatever its groups: of each as much as it has.
static bool spread_update(struct pricing *pricing, const struct ledger_line *line)
{
    const struct step_graph *graph = pricing->prices.graph;
    int first, end = tasks_of(graph, line->chunk, &first);
    double all = 0;
    for (int t = first; t < end; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind == TASK_UPDATE) all += task->bytes.reals * task->count;
    }
    for (int t = first; t < end && all > 0; t++) {
        if (graph->tasks[t].kind == TASK_UPDATE)
            add(pricing, t, line->exposed_s * graph->tasks[t].bytes.reals / all);
    }
    return all > 0;
}

// What the chunks of a stage take, of the mean stage: each has one such task.
static bool spread_norm(struct pricing *pricing, const struct ledger_line *line,
                        enum task_kind kind)
{
    const struct step_graph *graph = pricing->prices.graph;
    const struct program *program = graph->program;
    int stages = program->shape.stage_count, uses = 0, found = 0;
    for (int at = 0; at < stages * program->shape.chunk_count; at++)
        uses += program->class_of[at] == line->chunk;
    for (int t = 0; t < graph->task_count; t++) {
        if (graph->tasks[t].kind != kind) continue;
        add(pricing, t, line->s * uses / stages);
        found++;
    }
    return found > 0;
}

// A line of `count` tasks, or of one; `group` and `use`: that it is of, -1: any.
struct target {
    enum task_kind kind;
    int group, use;
    bool is_each;  // the line is the price of one
};

static bool add_to(struct pricing *pricing, const struct ledger_line *line,
                   const struct target *target)
{
    const struct step_graph *graph = pricing->prices.graph;
    int first, end = tasks_of(graph, line->chunk, &first), found = 0;
    for (int t = first; t < end; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == target->kind &&
                     (target->group < 0 || task->group == target->group) &&
                     (target->use < 0 || task->use == target->use);
        if (!is_it) continue;
        found++;
        add(pricing, t, target->is_each ? line->s : line->s / task->count);
    }
    return found > 0;
}

// In every micro-batch, of one block, in all its uses in all classes of chunks. One priced for
// operators that run together with others counts for them.
static bool add_instr(struct pricing *pricing, const struct ledger_line *line)
{
    const struct step_graph *graph = pricing->prices.graph;
    int found = 0;
    for (int t = 0; t < graph->task_count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == TASK_INSTR && task->block == line->block &&
                     task->instr == line->of_instr - 1 && task->count > 0;
        if (!is_it) continue;
        found++;
        // What the first micro-batch alone does is priced as the mean of all.
        add(pricing, t,
            line->s * (task->is_repeated ? 1 : graph->program->shape.micro_batch_count));
    }
    return found > 0;
}

// Of the block that ends the model, in every micro-batch.
static bool add_losses(struct pricing *pricing, const struct ledger_line *line, enum task_kind kind)
{
    const struct step_graph *graph = pricing->prices.graph;
    int found = 0;
    for (int t = 0; t < graph->task_count; t++) {
        if (graph->tasks[t].kind != kind || graph->tasks[t].block != line->block) continue;
        add(pricing, t, line->s);
        found++;
    }
    return found > 0;
}

static bool is_used(const struct step_graph *graph, int block)
{
    for (int t = 0; t < graph->task_count; t++) {
        if (graph->tasks[t].kind == TASK_INSTR && graph->tasks[t].block == block) return true;
    }
    return false;
}

// Gradients of a group, in every micro-batch: to the host behind it, or from there before it.
static bool add_gradients(struct pricing *pricing, const struct ledger_line *line)
{
    struct ledger_line all = *line;
    enum task_kind kind = line->phase == PHASE_WEIGHT ? TASK_GRADIENT_OUT : TASK_GRADIENT_IN;
    all.s *= pricing->prices.graph->program->shape.micro_batch_count;
    return add_to(pricing, &all, &(struct target){kind, line->of_group - 1, -1, 0});
}

// In each micro-batch, of a block or of one of a chunk's.
static bool add_begin(struct pricing *pricing, const struct ledger_line *line)
{
    const struct step_graph *graph = pricing->prices.graph;
    if (line->block >= 0) return add_instr(pricing, line);
    int first, end = tasks_of(graph, line->chunk, &first), found = 0;
    for (int t = first; t < end; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == TASK_INSTR && task->use == line->of_use - 1 &&
                     task->instr == line->of_instr - 1;
        if (!is_it) continue;
        found++;
        add(pricing, t, line->s / task->count);
    }
    return found > 0;
}

// What is no task of the graph (contention, launches) stands beside.
static bool add_line(struct pricing *pricing, const struct ledger_line *line)
{
    int group = line->of_group - 1, use = line->of_use - 1;
    bool is_forward = line->phase == PHASE_FORWARD;
    switch (line->entry) {
    case ENTRY_OPERATOR:
    case ENTRY_EXCHANGE:
        return add_instr(pricing, line) || !is_used(pricing->prices.graph, line->block);
    case ENTRY_LOSS:
        return add_losses(pricing, line, TASK_LOSS);
    case ENTRY_SEED:
        return add_losses(pricing, line, TASK_SEED);
    case ENTRY_COPY:
        if (group >= 0) return add_gradients(pricing, line);
        return add_to(pricing, line,
                      &(struct target){is_forward ? TASK_COPY_OUT : TASK_COPY_IN, -1, use, 0});
    case ENTRY_BEGIN:
        return add_begin(pricing, line);
    case ENTRY_UPDATE:
        return spread_update(pricing, line);
    case ENTRY_SQUARES:
        return spread_norm(pricing, line, TASK_NORM);
    case ENTRY_RATIOS:
        return spread_norm(pricing, line, TASK_TRUST);
    case ENTRY_REDUCE:
        return add_to(pricing, line, &(struct target){TASK_GRADIENT_REDUCE, group, -1, 0});
    case ENTRY_GATHER:
        return add_to(pricing, line, &(struct target){TASK_PARAMETER_GATHER, group, -1, 0});
    case ENTRY_SMALL:
        return add_to(pricing, line, &(struct target){TASK_SMALL_REDUCE, group, -1, 0});
    case ENTRY_TIED:
        return add_to(pricing, line, &(struct target){TASK_TIED_REDUCE, -1, -1, 1});
    case ENTRY_NORM:
        return add_to(pricing, line, &(struct target){TASK_NORM, -1, -1, 1});
    case ENTRY_TRUST:
        return add_to(pricing, line, &(struct target){TASK_TRUST, -1, -1, 1});
    case ENTRY_HOP:
        return add_to(pricing, line, &(struct target){TASK_SEND, -1, -1, 1}) &&
               add_to(pricing, line, &(struct target){TASK_RECEIVE, -1, -1, 1});
    default:
        pricing->prices.beside_s += line->s;
        return true;
    }
}

struct task_prices task_prices_of(struct arena *arena, const struct step_graph *graph,
                                  const struct ledger *ledger)
{
    struct pricing pricing = {
        .prices = {.graph = graph, .s = ARENA_NEW(arena, double, graph->task_count)}};
    for (int i = 0; i < ledger->count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        bool is_beside = (line->of_instr == 0 && line->entry == ENTRY_OPERATOR) ||
                         (line->of_group == 0 && line->entry == ENTRY_SMALL);
        if (is_beside) {
            pricing.prices.beside_s += line->s;
            continue;
        }
        if (!add_line(&pricing, line)) pricing.prices.unrun_s += line->s;
    }
    return pricing.prices;
}

// Of what a ring hands on the first has the price of all.
static bool is_handed_on(const struct block_program *block, const struct instr *instr)
{
    for (const struct instr *at = block->instrs; instr->streamed && at < instr; at++) {
        if (at->streamed && at->phase == instr->phase && at->recompute == instr->recompute)
            return true;
    }
    return false;
}

// Of a fused chain, of merged contractions and of a ring the first has the price of all.
static bool is_with_another(const struct program *program, const struct graph_task *task)
{
    if (task->kind != TASK_INSTR) return false;
    const struct block_program *block = program->blocks[task->block];
    const struct instr *instr = &block->instrs[task->instr], *joined[CONTRACTION_JOINED_MAX];
    struct gemm gemm;
    if (instr->collective) return is_handed_on(block, instr);
    bool is_merged = instr->kind == OP_CONTRACT && !instr->joined &&
                     contraction_joined(block, instr, joined, &gemm) == 0;
    return instr->kernel || is_merged || contraction_has_summed(block, instr);
}

enum task_pricing task_pricing_of(const struct task_prices *prices, int task)
{
    assert(task >= 0 && task < prices->graph->task_count);
    const struct graph_task *of = &prices->graph->tasks[task];
    if (prices->s[task] > 0) return TASK_PRICED;
    if (is_with_another(prices->graph->program, of)) return TASK_PRICED_WITH;
    bool moves = of->bytes.compute > 0 || of->bytes.reals > 0 || of->bytes.plain > 0;
    // A norm reads what its bytes, which are those that ranks exchange, do not count.
    return moves || of->kind == TASK_NORM || of->kind == TASK_TRUST ? TASK_UNPRICED : TASK_FREE;
}

const char *task_pricing_name(enum task_pricing pricing)
{
    assert(pricing <= TASK_FREE);
    static const char *const NAMES[] = {"not", "alone", "with another", "nothing"};
    return NAMES[pricing];
}
