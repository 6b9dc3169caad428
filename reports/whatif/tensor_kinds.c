#include "reports/whatif/tensor_kinds.h"

#include "core/units.h"
#include "planner/choice.h"

#include <assert.h>

// The block that most layers of the model are.
static const struct block_program *most_used(struct arena *arena, const struct program *program)
{
    int *uses = ARENA_NEW(arena, int, program->block_count);
    int best = 0, chunk_count = program->shape.stage_count * program->shape.chunk_count;
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        for (int u = 0; u < chunk->use_count; u++)
            uses[chunk->uses[u].block_program] += chunk->uses[u].count;
    }
    for (int b = 1; b < program->block_count; b++) {
        if (uses[b] > uses[best]) best = b;
    }
    return program->blocks[best];
}

// By ring, what a rank receives of `bytes` (struct instr) is (n - 1) / n of them, twice that where
// all end with the sum.
static double received_bytes(const struct instr *instr, double ranks)
{
    assert(ranks > 0);
    double times = instr->collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    return times * (ranks - 1) / ranks * (double)instr->bytes;
}

static void count_bytes(struct arena *arena, const struct cluster *cluster,
                        const struct program *program, struct tensor_kind *kind)
{
    const struct block_program *block = most_used(arena, program);
    double rounds = program_rounds(program);
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        bool moves = instr->collective != COLLECTIVE_NONE &&
                     instr->collective != COLLECTIVE_SLICE && instr->parent == AXIS_TP;
        if (!moves) continue;
        struct group_shape group = mesh_group(&program->mesh, cluster, instr->axes);
        double bytes = rounds * received_bytes(instr, group.rank_count);
        *(group.node_count > 1 ? &kind->between_bytes : &kind->inside_bytes) += bytes;
    }
}

static bool count_plan(const struct scenario_request *request, const struct scenario *scenario,
                       struct tensor_kind *kind, struct err *err)
{
    struct arena work = {0}, scratch = {0};
    const struct evaluation_request question = {
        .model = scenario->model ? scenario->model : request->model,
        .cluster = scenario->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = scenario->workload,
        .parallel = kind->outcome.best.parallel,
    };
    struct evaluation evaluation = {0};
    bool done = evaluate(&work, &scratch, &question, &evaluation, err);
    if (done) count_bytes(&work, scenario->cluster, evaluation.program, kind);
    arena_free(&scratch);
    arena_free(&work);
    return done;
}

static double step_of(const struct tensor_kinds *found, int kind)
{
    assert(found->kinds[kind].outcome.status == SCENARIO_FITS);
    return found->kinds[kind].outcome.prediction.step_s;
}

// The fastest that is slower than `than_s`; of equals the first.
static int fastest(const struct tensor_kinds *found, double than_s)
{
    int best = -1;
    for (int k = 0; k < TP_KIND_COUNT; k++) {
        if (found->kinds[k].outcome.status != SCENARIO_FITS || step_of(found, k) <= than_s)
            continue;
        if (best < 0 || step_of(found, k) < step_of(found, best)) best = k;
    }
    return best;
}

bool tensor_kinds_find(struct arena *arena, const struct scenario_request *request,
                       const struct scenario *scenario, struct tensor_kinds *found, struct err *err)
{
    struct scenario scenarios[TP_KIND_COUNT];
    struct scenario_outcome outcomes[TP_KIND_COUNT];
    struct scenario_request all = *request;
    all.may_idle = false;  // on the same GPUs
    *found = (struct tensor_kinds){.best = -1, .other = -1};
    for (int k = 0; k < TP_KIND_COUNT; k++) {
        scenarios[k] = *scenario;
        pins_set(&scenarios[k].pins, CHOICE_TP_KIND, k, k);
    }
    if (!scenarios_run(arena, &all, scenarios, TP_KIND_COUNT, outcomes, err)) return false;
    for (int k = 0; k < TP_KIND_COUNT; k++) {
        struct tensor_kind *kind = &found->kinds[k];
        kind->outcome = outcomes[k];
        if (outcomes[k].status != SCENARIO_FITS) continue;
        if (!count_plan(&all, &scenarios[k], kind, err)) return false;
    }
    found->best = fastest(found, 0);
    bool is_line = found->best == TP_1D,
         has_line = found->kinds[TP_1D].outcome.status == SCENARIO_FITS;
    if (found->best >= 0 && has_line && !is_line)
        found->other = TP_1D;
    else if (found->best >= 0)
        found->other = fastest(found, step_of(found, found->best));
    return true;
}

static double waited_s(const struct tensor_kind *kind)
{
    return kind->outcome.prediction.cost.exposed_s[PART_TP];
}

const char *tensor_kinds_why(struct arena *arena, const struct tensor_kinds *found)
{
    if (found->other < 0) return NULL;
    assert(found->best >= 0 && found->best != found->other);
    const struct tensor_kind *best = &found->kinds[found->best],
                             *next = &found->kinds[found->other];
    const char *name = tp_kind_name((enum tp_kind)found->best);
    const char *other = tp_kind_name((enum tp_kind)found->other);
    bool spans = best->between_bytes != next->between_bytes;
    double moved = spans ? best->between_bytes : best->inside_bytes;
    double other_moved = spans ? next->between_bytes : next->inside_bytes;
    return arena_print(
        arena,
        "%s is the fastest%s: its ranks wait %s a step for each other, those of %s %s; "
        "of a layer a rank receives %s %s, in %s %s",
        name, waited_s(best) <= waited_s(next) ? " and fits the links best" : "",
        units_seconds(arena, waited_s(best)), other, units_seconds(arena, waited_s(next)),
        units_bytes(arena, moved), spans ? "between nodes" : "inside a node", other,
        units_bytes(arena, other_moved));
}
