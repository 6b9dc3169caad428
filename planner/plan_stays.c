#include "planner/plan_stays.h"

#include "cost_models/parameters.h"
#include "plan/step_end.h"
#include "planner/stay_placement.h"

#include <assert.h>
#include <math.h>

struct staying {
    struct arena *arena, *scratch;
    const struct memory_options *options;
    struct stay_stage stage;
    int turn_most, between_most;  // that may stay
    // Of how many layers gradients leave: those of the plan, then fewer and fewer; NULL: no choice.
    int16_t *rungs;
    int rung_count;
    int64_t gradient_bytes;  // of the device, where gradients leave as the plan has it
};

enum { NO_GRADIENTS = -1 };  // of `rungs`; 0: all

// An order and its addresses, and as many gradients beside it as there is room for.
struct laid {
    struct plan_kept kept;
    int64_t room_bytes;  // for the arena, where no gradients stay
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

static struct step_end end_of(const struct staying *staying, const struct program *program)
{
    const struct step_rules rules = step_rules_of(staying->stage.request->stack, program);
    return step_end_of(program, &program->chunks[program->class_of[0]], &rules);
}

static double gradient_width(const struct staying *staying)
{
    return stack_gradient_bytes(staying->stage.request->stack,
                                staying->stage.request->workload.precision);
}

// Parameters that are fetched; gradients that go down and come back for another micro-batch.
static int64_t moved(const struct staying *staying, const struct program *program)
{
    const struct step_end end = end_of(staying, program);
    double elements = 0;
    for (int g = 0; g < end.group_count; g++)
        elements += end.groups[g].is_away ? end.groups[g].elements : 0;
    int64_t bytes = (int64_t)(elements * gradient_width(staying));
    return plan_stays_fetched_bytes(program) + 2 * (program->shape.micro_batch_count - 1) * bytes;
}

// Less than none where there is more room. Gradients that stay take of that of the arena.
static int64_t device_lack(const struct staying *staying, const struct plan_kept *made)
{
    const struct memory_parts *parts = &made->evaluation->stage_memory[0];
    int64_t capacity = staying->options->capacity;
    if (capacity > 0)
        return parts->planned_bytes + parts->gradients_bytes - staying->gradient_bytes - capacity;
    return parts->reserved_bytes - cluster_device_bytes(made->request.cluster);
}

// Prices a plan whose order is known, with so many gradients that stay, and says what it lacks.
static bool weigh(struct staying *staying, struct plan_kept *made, int rung, struct err *err)
{
    assert(rung >= 0 && rung < (staying->rungs ? staying->rung_count : 1));
    struct offload *offload = &made->request.parallel.offload;
    if (staying->rungs) {
        offload->gradients = staying->rungs[rung] != NO_GRADIENTS;
        offload->gradient_layers = offload->gradients ? staying->rungs[rung] : 0;
    }
    made->evaluation = ARENA_NEW(staying->arena, struct evaluation, 1);
    if (!evaluate(staying->arena, staying->scratch, &made->request, made->evaluation, err))
        return false;
    plan_schedule_apply(made->schedule, made->evaluation);
    int64_t lack = device_lack(staying, made);
    int64_t host_lack = hosts_shortfall(&made->evaluation->hosts);
    made->lack_bytes = lack > host_lack ? lack : host_lack;
    made->fits = made->lack_bytes <= 0;
    return true;
}

// Steps that rounding alone tells apart.
static const double SAME_RATIO = 1e-12;

static double step_s(const struct plan_kept *made)
{
    return made->evaluation->prediction.step_s;
}

// Orders and lays out the plan with so many parameters that stay. Gradients are no part of the
// arena: more and more of them stay while there is room beside it and a step takes no longer. What
// stays is waited for once a step, in the update, and what leaves in each micro-batch where no
// compute hides it, so that of their numbers one is the best.
static bool lay_out(struct staying *staying, struct stay_counts counts, bool fills,
                    struct laid *laid, struct err *err)
{
    struct plan_kept *made = &laid->kept;
    struct evaluation evaluation;
    *made = (struct plan_kept){.request = *staying->stage.request};
    made->request.parallel.offload.turn_blocks = (int16_t)counts.turn;
    made->request.parallel.offload.between_layers = (int16_t)counts.between;
    if (!evaluate(staying->arena, staying->scratch, &made->request, &evaluation, err) ||
        !plan_schedule_make(staying->arena, staying->scratch, evaluation.program,
                            made->request.stack, staying->options, &made->stages, err))
        return false;
    made->schedule = plan_schedule_of(staying->arena, &made->stages, staying->options->alignment);
    if (!staying->stage.program)
        staying->gradient_bytes = evaluation.stage_memory[0].gradients_bytes;
    if (!weigh(staying, made, 0, err)) return false;
    laid->room_bytes = made->evaluation->stage_memory[0].planned_bytes - device_lack(staying, made);
    int low = 0, high = made->fits && fills ? staying->rung_count - 1 : 0;
    while (low < high) {
        struct plan_kept less = *made, more = *made;
        int middle = (low + high) / 2;
        if (!weigh(staying, &less, middle, err) || !weigh(staying, &more, middle + 1, err))
            return false;
        bool grows = more.fits && step_s(&more) <= step_s(&less) * (1 + SAME_RATIO);
        if (grows) low = middle + 1;
        if (!grows) high = middle;
        *made = grows ? more : less;
    }
    return true;
}

// What leaves and comes back of a block's gradients.
static int64_t gradients_away(const struct staying *staying, const struct step_end *end,
                              const struct block_use *use)
{
    const struct program *program = staying->stage.program;
    const struct block_program *block = program->blocks[use->block_program];
    double elements = 0;
    for (int i = 0; i < block->parameter_count; i++) {
        const struct parameter *parameter = &block->parameters[i];
        if (!parameter_kind_is_trained(parameter->kind) || parameter->tie) continue;
        int group = step_group_of(program, end, parameter, step_away(program, use, parameter));
        if (end->groups[group].is_away) elements += (double)parameter->elements;
    }
    return (int64_t)(elements * gradient_width(staying));
}

// All that leave; those of layers alone; of fewer and fewer of them, of which more than two buckets
// leave or none does.
static void list_rungs(struct staying *staying, const struct step_end *end)
{
    const struct offload *offload = &staying->stage.request->parallel.offload;
    int layers = 0, most = offload->gradient_layers;
    int64_t all = 0;
    for (int p = 0; p < staying->stage.block_count; p++) {
        layers += staying->stage.blocks[p].is_layer;
        all += staying->stage.blocks[p].gradient_bytes;
    }
    if (all == 0 || staying->stage.program->shape.micro_batch_count == 1) return;
    if (offload->optimizer_layers > 0 && offload->optimizer_layers < layers)
        layers = offload->optimizer_layers;
    if (most > 0 && most <= layers) layers = most - 1;
    staying->rungs = ARENA_NEW(staying->arena, int16_t, layers + 2);
    staying->rungs[staying->rung_count++] = (int16_t)most;
    for (int i = layers; i >= OFFLOAD_GRADIENTS_LEAST; i--)
        staying->rungs[staying->rung_count++] = (int16_t)i;
    staying->rungs[staying->rung_count++] = NO_GRADIENTS;
    assert(staying->rung_count <= layers + 2);
    for (int g = 0; g < end->group_count; g++) {
        const struct step_group *group = &end->groups[g];
        double elements = group->is_away ? group->room_elements : 0;
        staying->stage.rooms_bytes += (int64_t)(elements * gradient_width(staying));
    }
}

static void list_blocks(struct staying *staying)
{
    const struct program *program = staying->stage.program;
    const struct program_chunk *chunk = &program->chunks[program->class_of[0]];
    const struct step_end end = end_of(staying, program);
    staying->stage.blocks = ARENA_NEW(staying->arena, struct stay_block, program->spans[0].count);
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = program->blocks[chunk->uses[u].block_program];
        for (int i = 0; i < chunk->uses[u].count; i++) {
            struct stay_block *made = &staying->stage.blocks[staying->stage.block_count++];
            made->bytes = fetched(block, PHASE_FORWARD);
            made->gradient_bytes = gradients_away(staying, &end, &chunk->uses[u]);
            made->is_layer = block->block->role == BLOCK_LAYER;
            bool fetches_again = fetched(block, PHASE_BACKWARD) > 0;
            // An embedding that fetches for forward alone is counted, but nothing of it stays.
            if (made->bytes > 0) staying->turn_most++;
            bool has_next = program->shape.micro_batch_count > 1;
            if (made->bytes > 0 && made->is_layer) staying->between_most += has_next;
            made->may_stay = made->bytes > 0 && fetches_again;
        }
    }
    assert(staying->stage.block_count == program->spans[0].count);
    list_rungs(staying, &end);
}

struct tried {
    bool fits;
    double step_s;
    int64_t moved_bytes;
};

// Whether it fits and its step is shorter, or as long and moves less.
static bool is_better(const struct tried *a, const struct tried *b)
{
    if (!a->fits) return false;
    if (fabs(a->step_s - b->step_s) <= SAME_RATIO * b->step_s)
        return a->moved_bytes < b->moved_bytes;
    return a->step_s < b->step_s;
}

// Takes it where it is better than the best so far.
static bool try(struct staying *staying, struct stay_counts counts, struct plan_stays *stays,
                struct laid *best, struct tried *tried, struct err *err)
{
    struct laid made;
    if (!lay_out(staying, counts, true, &made, err)) return false;
    stays->kept.round_count++;
    assert(stays->kept.fits && "rounds start from a plan that fits");
    const struct tried before = {true, step_s(&stays->kept), stays->moved_bytes};
    *tried = (struct tried){made.kept.fits, step_s(&made.kept),
                            moved(staying, made.kept.evaluation->program)};
    if (!is_better(tried, &before)) return true;
    made.kept.round_count = stays->kept.round_count;
    made.kept.kept_s = stays->kept.kept_s;
    made.kept.reserved_bytes = stays->kept.reserved_bytes;
    *best = made;
    stays->kept = made.kept;
    stays->moved_bytes = tried->moved_bytes;
    return true;
}

// Down until it fits, the one that saves less first; then up, either, while no step gets longer:
// a block more may cost the gradients of a layer, and the next one nothing.
static bool run_rounds(struct staying *staying, struct stay_counts at, struct plan_stays *stays,
                       struct laid *best, struct err *err)
{
    struct tried here = {true, stays->before_s, stays->before_bytes}, next;
    bool grows[2] = {true, true};
    int *rounds = &stays->kept.round_count, most = *rounds + PLAN_STAYS_ROUNDS;
    while (*rounds < most && (at.turn + at.between > 0 || staying->rungs)) {
        if (!try(staying, at, stays, best, &here, err)) return false;
        if (here.fits || at.turn + at.between == 0) break;
        if (at.between > 0 && (at.between >= at.turn || at.turn == 0))
            at.between--;
        else
            at.turn--;
    }
    for (int which = 0; *rounds < most && (grows[0] || grows[1]); which = !which) {
        struct stay_counts more = at;
        if (which == 0) more.turn++;
        if (which == 1) more.between++;
        grows[which] = grows[which] && more.turn <= staying->turn_most &&
                       more.between <= staying->between_most;
        if (!grows[which]) continue;
        if (!try(staying, more, stays, best, &next, err)) return false;
        grows[which] = next.fits && next.step_s <= here.step_s * (1 + SAME_RATIO);
        if (grows[which]) at = more, here = next;
    }
    return true;
}

static struct placed_stays place(struct staying *staying, const struct laid *laid, bool gradients)
{
    return stay_placement(&staying->stage, &laid->kept.stages.stages[0], laid->room_bytes,
                          gradients);
}

// From what the placement keeps. It keeps gradients block by block, and a plan those of few numbers
// of layers: so also with none of them in the way of parameters, and the other way round.
static bool run_starts(struct staying *staying, struct plan_stays *stays, struct laid *best,
                       struct err *err)
{
    bool has_gradients = staying->rungs != NULL;
    const struct laid plain = *best;
    struct stay_counts starts[3] = {place(staying, &plain, has_gradients).counts};
    starts[1] = has_gradients ? place(staying, &plain, false).counts : starts[0];
    starts[2] = (struct stay_counts){has_gradients ? 0 : starts[0].turn, starts[0].between};
    for (int i = 0; i < 3; i++) {
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new = is_new &&
                     (starts[k].turn != starts[i].turn || starts[k].between != starts[i].between);
        if (is_new && !run_rounds(staying, starts[i], stays, best, err)) return false;
    }
    return true;
}

static bool check(const struct parallel *parallel, struct err *err)
{
    if (!offload_moves_parameters(&parallel->offload) &&
        !offload_moves_gradients(&parallel->offload))
        return err_set(err, ERR_USAGE,
                       "--offload moments: the plan offloads neither parameters nor gradients; "
                       "plan it with --offload optimizer,parameters");
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
    struct staying staying = {
        .arena = arena,
        .scratch = scratch,
        .options = options,
        .stage = {.arena = arena, .request = &plain},
    };
    struct laid best;
    *stays = (struct plan_stays){.moved_bytes = 0};
    if (!check(&request->parallel, err)) return false;
    if (!lay_out(&staying, (struct stay_counts){0, 0}, false, &best, err)) return false;
    struct plan_kept *kept = &best.kept;
    const struct prediction *before = &kept->evaluation->prediction;
    stays->before_s = before->step_s;
    kept->kept_s = before->step_s - before->cost.exposed_s[PART_OFFLOAD];
    kept->reserved_bytes = before->reserved_bytes;
    stays->kept = *kept;
    staying.stage.program = kept->evaluation->program;
    stays->before_bytes = stays->moved_bytes = moved(&staying, staying.stage.program);
    if (!kept->fits) return true;
    list_blocks(&staying);
    stays->has_gradients = staying.rungs != NULL;
    if (!run_starts(&staying, stays, &best, err)) return false;
    stays->bound_bytes = place(&staying, &best, stays->has_gradients).bound_bytes;
    assert(stays->bound_bytes <= (double)stays->moved_bytes * (1 + 1e-6) + 1);
    return true;
}
