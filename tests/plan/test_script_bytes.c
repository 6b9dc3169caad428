#include "cost_models/ledger.h"
#include "plan/layout/shard.h"
#include "plan/ties.h"
#include "tests/support/script_case.h"
#include "tests/support/script_exchanges.h"
#include "tests/support/test.h"

#include <math.h>

// What scripts move against what was priced, kind by kind, over random plans.

// Random plans until `wanted` of them were looked at; `look` says whether it did.
static void with_plans(const char *name, uint64_t seed, int wanted,
                       bool (*look)(struct script_case *of))
{
    struct draw draw = draw_start(name, seed);
    wanted = script_case_count(wanted);
    for (int done = 0, tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 300 * wanted + 300);
        if (script_case_draw(&arena, &draw, &of)) {
            script_case_write(&of);
            done += look(&of);
        }
        arena_free(&arena);
    }
}

// Bytes of one kind of communication on one stage in a step: over which axes, by what.
enum source {
    SOURCE_EXCHANGE,
    SOURCE_SCATTER,
    SOURCE_HOP,
    SOURCE_REDUCE,
    SOURCE_GATHER,
    SOURCE_SMALL,
    SOURCE_TIED,
    SOURCE_NORM,
    SOURCE_TRUST,
    SOURCE_COUNT
};
static const char *const SOURCES[SOURCE_COUNT] = {"exchange", "scatter", "hop",  "reduce", "gather",
                                                  "small",    "tied",    "norm", "trust"};
struct amount {
    enum source source;
    enum collective collective;
    unsigned axes;
    double planned_bytes, priced_bytes;
    int count;
};
struct amounts {
    struct amount items[64];
    int count;
};

static struct amount *amount_of(struct amounts *amounts, enum source source,
                                enum collective collective, unsigned axes)
{
    for (int i = 0; i < amounts->count; i++) {
        struct amount *at = &amounts->items[i];
        if (at->source == source && at->collective == collective && at->axes == axes) return at;
    }
    assert_true(amounts->count < 64);
    struct amount *made = &amounts->items[amounts->count++];
    *made = (struct amount){.source = source, .collective = collective, .axes = axes};
    return made;
}

static enum source source_of(const struct script *script, const struct script_task *task)
{
    static const enum source OF_STEP[] = {
        [TASK_SEND] = SOURCE_HOP,         [TASK_SMALL_REDUCE] = SOURCE_SMALL,
        [TASK_TIED_REDUCE] = SOURCE_TIED, [TASK_GRADIENT_REDUCE] = SOURCE_REDUCE,
        [TASK_NORM] = SOURCE_NORM,        [TASK_PARAMETER_GATHER] = SOURCE_GATHER,
        [TASK_TRUST] = SOURCE_TRUST,
    };
    if (task->kind != TASK_INSTR) return OF_STEP[task->kind];
    const struct instr *instr = &script->program->blocks[task->block]->instrs[task->instr];
    bool scatters = instr->parameter && instr->collective == COLLECTIVE_REDUCE_SCATTER;
    return scatters ? SOURCE_SCATTER : SOURCE_EXCHANGE;
}

// Elements of a parameter that a rank keeps the gradient of, mean over the ranks.
static double mean_kept(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    int ranks = script->program->mesh.rank_count;
    double sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const struct script_unit *unit = &script->units[of->unit];
        struct slice slice =
            shard_slice(&script->program->mesh, unit->storage.gradient_axes, unit->elements, rank);
        double first = fmax((double)slice.first, (double)of->first);
        double end = fmin((double)(slice.first + slice.count), (double)(of->first + of->elements));
        sum += fmax(0, end - first);
    }
    return sum / ranks;
}

// Of all parameters that are partial over the axes of a small reduction.
static double mean_small(const struct script *script, const struct script_task *task)
{
    double elements = 0;
    for (int p = 0; p < script->parameter_count; p++) {
        const struct script_parameter *of = &script->parameters[p];
        const struct script_unit *unit = &script->units[of->unit];
        const struct parameter *known = &script->program->blocks[of->block]->parameters[of->index];
        bool is_in = unit->bucket >= task->bucket &&
                     unit->bucket < task->bucket + task->bucket_count &&
                     unit->kind == script->buckets[task->bucket].kind;
        bool is_its = (known->gradient_partial_axes & ~unit->reduce_axes) == task->axes;
        if (is_in && is_its && of->same_as < 0) elements += mean_kept(script, p);
    }
    return elements;
}

// Elements of the state travel in the width in which gradients are reduced and weights kept: 4
// bytes each in the runs in fp32 that are looked at.
static void add_planned(const struct script *script, struct amounts *amounts)
{
    for (int i = 0; i < script->task_count; i++) {
        struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX];
        int count = script_exchanges(script, i, exchanges);
        for (int k = 0; k < count; k++) {
            const struct script_task *task = &script->tasks[i];
            enum source source = source_of(script, task);
            bool has_axes = source != SOURCE_HOP && source != SOURCE_TIED;
            struct amount *amount = amount_of(amounts, source, exchanges[k].collective,
                                              has_axes ? exchanges[k].axes : 0);
            double elements = (double)exchanges[k].elements;
            if (source == SOURCE_SMALL) elements = mean_small(script, task);
            amount->planned_bytes += (double)exchanges[k].bytes + 4 * elements;
            amount->count++;
        }
    }
}

static double uses_of(const struct script *script, const struct ledger_line *line)
{
    const struct program *program = script->program;
    double uses = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int class = program->class_of[script->stage * program->shape.chunk_count + c];
        if (line->chunk == class) uses++;
        for (int u = 0; u < program->chunks[class].use_count && line->block >= 0; u++) {
            const struct block_use *use = &program->chunks[class].uses[u];
            if (use->block_program == line->block)
                uses += (double)use->count * program->shape.micro_batch_count;
        }
    }
    return line->chunk < 0 && line->block < 0 ? 1 : uses;
}

static double sends_of(const struct script *script)
{
    double sends = 0;
    for (int i = 0; i < script->task_count; i++)
        sends += script->tasks[i].kind == TASK_SEND;
    return sends;
}

static void add_priced(const struct script *script, const struct ledger *ledger,
                       struct amounts *amounts)
{
    static const enum source SOURCE_OF[ENTRY_COUNT] = {
        [ENTRY_EXCHANGE] = SOURCE_EXCHANGE, [ENTRY_REDUCE] = SOURCE_REDUCE,
        [ENTRY_GATHER] = SOURCE_GATHER,     [ENTRY_SMALL] = SOURCE_SMALL,
        [ENTRY_HOP] = SOURCE_HOP,           [ENTRY_TIED] = SOURCE_TIED,
        [ENTRY_NORM] = SOURCE_NORM,
    };
    int tie = 0;
    for (int i = 0; i < ledger->count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        if (line->collective == COLLECTIVE_NONE) continue;
        enum source source = SOURCE_OF[line->entry];
        if (line->entry == ENTRY_EXCHANGE && line->exchange == EXCHANGE_SCATTER)
            source = SOURCE_SCATTER;
        const struct program *program = script->program;
        if (source == SOURCE_TIED && ties_at(program, script->stage, program->ties[tie++].tie) < 0)
            continue;
        double uses = source == SOURCE_HOP ? sends_of(script) : uses_of(script, line);
        if (uses <= 0) continue;
        bool has_axes = source != SOURCE_HOP && source != SOURCE_TIED;
        enum collective collective = has_axes ? line->collective : COLLECTIVE_SEND_RECV;
        amount_of(amounts, source, collective, has_axes ? line->axes : 0)->priced_bytes +=
            line->bytes * line->count * uses;
    }
}

// Parameters that are tied inside a stage but lie in several of its chunks are priced in each.
static bool is_tied_across_chunks(const struct script_case *of)
{
    for (int s = 0; s < of->program->shape.stage_count; s++) {
        const struct script *script = of->scripts[s];
        for (int u = 0; u < script->unit_count; u++) {
            int same_as = script->units[u].same_as;
            if (same_as >= 0 && script->units[same_as].chunk != script->units[u].chunk) return true;
        }
    }
    return false;
}

static bool has_priced_bytes(struct script_case *of)
{
    if (of->program->workload.precision != PRECISION_FP32 || is_tied_across_chunks(of))
        return false;
    struct ledger ledger = ledger_new(of->arena);
    struct price_context context = of->context;
    context.ledger = &ledger;
    step_price(of->arena, &context, of->program);
    for (int s = 0; s < of->program->shape.stage_count; s++) {
        struct amounts amounts = {.count = 0};
        add_planned(of->scripts[s], &amounts);
        add_priced(of->scripts[s], &ledger, &amounts);
        for (int i = 0; i < amounts.count; i++) {
            const struct amount *at = &amounts.items[i];
            // Parts of units are rounded up to whole elements.
            double slack = at->source == SOURCE_REDUCE ? 4.0 * at->count : 1e-9 * at->priced_bytes;
            if (fabs(at->planned_bytes - at->priced_bytes) <= slack) continue;
            script_case_print(of);
            fail_msg("stage %d, %s by %s over axes %x: %.0f bytes in the script, %.0f priced\n", s,
                     SOURCES[at->source], collective_name(at->collective), at->axes,
                     at->planned_bytes, at->priced_bytes);
        }
    }
    return true;
}

static void a_step_moves_the_bytes_that_are_priced(void **state)
{
    (void)state;
    with_plans("bytes", 3, 40, has_priced_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_moves_the_bytes_that_are_priced),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
