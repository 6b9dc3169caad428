#include "memory/plan_script.h"

#include "cost_models/memory.h"
#include "cost_models/parameters.h"
#include "plan/script/check.h"

#include <assert.h>
#include <stddef.h>

enum { INSTRS_MOST = 2000000 };

static bool check_count(const struct program *program, struct err *err)
{
    const struct schedule_shape *shape = &program->shape;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        int64_t count = 0;
        for (int c = 0; c < shape->chunk_count; c++) {
            int class = program->class_of[stage * shape->chunk_count + c];
            const struct program_chunk *chunk = &program->chunks[class];
            for (int u = 0; u < chunk->use_count; u++) {
                const struct block_use *use = &chunk->uses[u];
                count += (int64_t)program->blocks[use->block_program]->instr_count * use->count;
            }
        }
        count *= shape->micro_batch_count;
        if (count <= INSTRS_MOST) continue;
        return err_set(err, ERR_USAGE,
                       "stage %d has %lld instructions a step, more than can be run (%d)", stage,
                       (long long)count, INSTRS_MOST);
    }
    return true;
}

// Flat collectives inside micro-batches take all parameters of a kind for copies along the axes of
// its storage.
static bool check_storage(const struct program *of, struct err *err)
{
    for (int b = 0; b < of->block_count; b++) {
        struct program room;
        const struct program *program = program_of_block(of, b, &room);
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->parameter_count; i++) {
            const struct parameter *parameter = &block->parameters[i];
            const struct storage *storage = &program->storage[parameter->kind];
            unsigned axes = storage->weight_axes | storage->gradient_axes;
            for (int a = 0; a < program->mesh.axis_count; a++) {
                if (!(axes >> a & 1) || parameter->layout.of[a] <= 0) continue;
                return err_set(err, ERR_USAGE,
                               "%s is split over %s, over which zero %d shards as well; zero 0 or "
                               "1 would run",
                               block->block->tensors[parameter->tensor].name,
                               program->mesh.axes[a].name, program->parallel.zero);
            }
        }
    }
    return true;
}

// The plan's schedule of a stage, if it holds what a script needs.
static const struct stage_schedule *planned_of(const struct plan_schedule *schedule,
                                               const struct plan_stage *group)
{
    for (int i = 0; schedule && i < schedule->count; i++) {
        const struct stage_schedule *of = &schedule->stages[i];
        for (int k = 0; k < of->stage_count; k++) {
            bool is_it = of->stages[k] == group->stage &&
                         of->micro_batches == group->graph->micro_batches &&
                         of->operator_count == group->graph->graph->operator_count;
            if (is_it) return of;
        }
    }
    return NULL;
}

// What it takes is given back before scripts are written.
static const struct stage_schedule *make_schedule(struct arena *arena, struct plan_stage *group,
                                                  const struct memory_options *options,
                                                  struct err *err)
{
    struct arena scratch = {0};
    bool done = memory_schedule_graph(arena, &scratch, group->graph->graph, group->problem, options,
                                      &group->result, err);
    arena_free(&scratch);
    if (!done) return NULL;
    struct plan_stages one = {.stages = group, .count = 1};
    return &plan_schedule_of(arena, &one, options->alignment)->stages[0];
}

struct making {
    struct arena *arena;
    const struct program *program;
    const struct stack *stack;
    const struct plan_schedule *schedule;
    const struct memory_options *options;
    struct plan_stages groups;
    const struct program *written;  // with as many micro-batches as scripts are to have
    struct step_rules rules;
    struct script **scripts;
    bool is_planned;
};

static struct making start(struct arena *arena, const struct program *program,
                           const struct stack *stack, const struct plan_schedule *schedule,
                           const struct memory_options *options)
{
    struct making making = {
        .arena = arena,
        .program = program,
        .stack = stack,
        .schedule = schedule,
        .options = options,
        .written = program,
        .rules = step_rules_of(stack, program),
        .scripts = ARENA_NEW(arena, struct script *, program->shape.stage_count),
        .is_planned = true,
    };
    plan_stages_group(arena, program, &making.groups);
    return making;
}

// The scripts of the stages of a group. `own` has what is of the group alone.
static bool make_group(struct making *making, struct arena *own, struct plan_stage *group,
                       struct err *err)
{
    int64_t alignment = making->options->alignment;
    if (!plan_stage_build(own, making->program, making->stack, alignment, group, err)) return false;
    const struct stage_schedule *of = planned_of(making->schedule, group);
    making->is_planned = making->is_planned && of;
    if (of) {
        alignment = making->schedule->alignment;
    } else {
        of = make_schedule(own, group, making->options, err);
        if (!of) return false;
    }
    for (int k = 0; k < group->stage_count; k++) {
        int stage = group->stages[k];
        struct stage_slots cut =
            stage_slots_of(own, making->program, stage, group->graph->micro_batches);
        struct stage_unroll unroll;
        bool is_unrolled = stage_unroll(own, making->written, stage, &cut, &unroll);
        assert(is_unrolled && "a group of a few micro-batches repeats them");
        (void)is_unrolled;
        making->scripts[stage] = plan_script_stage(making->arena, making->written, group->graph,
                                                   stage, &unroll, of, alignment, &making->rules);
    }
    return true;
}

static bool make_scripts(struct making *making, struct arena *scratch, struct err *err)
{
    for (int i = 0; i < making->groups.count; i++) {
        struct arena own = {0};
        bool is_made = make_group(making, &own, &making->groups.stages[i], err);
        arena_free(&own);
        if (!is_made) return false;
    }
    struct arena_mark mark = arena_mark(scratch);
    const struct script *const *scripts = (const struct script *const *)making->scripts;
    bool is_right = script_check(scratch, scripts, making->program->shape.stage_count, err);
    arena_reset(scratch, mark);
    return is_right;
}

struct script **plan_scripts_make(struct arena *arena, struct arena *scratch,
                                  const struct program *program, const struct stack *stack,
                                  const struct plan_schedule *schedule,
                                  const struct memory_options *options, bool *is_planned,
                                  struct err *err)
{
    if (!check_count(program, err) || !check_storage(program, err)) return NULL;
    struct making making = start(arena, program, stack, schedule, options);
    bool is_right = make_scripts(&making, scratch, err);
    *is_planned = making.is_planned;
    return is_right ? making.scripts : NULL;
}

// Whether a step of so many micro-batches is the whole one without some of its rounds.
static bool is_step_without_rounds(const struct making *making, int micro_batches)
{
    const struct program *program = making->program;
    if (!stage_slots_is_legal(program, micro_batches)) return false;
    struct arena scratch = {0};
    const struct program *fewer = program_of_count(&scratch, program, micro_batches);
    bool is_same = true;
    for (int i = 0; i < making->groups.count && is_same; i++) {
        const struct plan_stage *group = &making->groups.stages[i];
        for (int k = 0; k < group->stage_count && is_same; k++) {
            int stage = group->stages[k];
            struct stage_slots cut = stage_slots_of(&scratch, program, stage, group->micro_batches);
            struct stage_unroll whole, part;
            is_same = stage_unroll(&scratch, program, stage, &cut, &whole) &&
                      stage_unroll(&scratch, fewer, stage, &cut, &part) && whole.at == part.at &&
                      whole.round_micro_batches == part.round_micro_batches;
        }
    }
    arena_free(&scratch);
    return is_same;
}

// A place is taken in turn with as many as a group's graph has at most. Behind its micro-batches
// come as many again, so that each turn comes round among those repeated.
static int enough_micro_batches(const struct making *making)
{
    int all = making->program->shape.micro_batch_count, most = 0;
    for (int i = 0; i < making->groups.count; i++) {
        int of = making->groups.stages[i].micro_batches;
        if (of > most) most = of;
    }
    int count = 3 * most;
    while (count < all && !is_step_without_rounds(making, count))
        count++;
    return count < all ? count : all;
}

static int tasks_of(const struct script *script, int micro_batch)
{
    int count = 0;
    for (int t = 0; t < script->task_count; t++)
        count += script->tasks[t].micro_batch == micro_batch;
    return count;
}

bool plan_scripts_verify(struct arena *arena, const struct program *program,
                         const struct stack *stack, const struct plan_schedule *schedule,
                         const struct memory_options *options, double *task_count,
                         int *micro_batches, struct err *err)
{
    if (!check_count(program, err) || !check_storage(program, err)) return false;
    struct making making = start(arena, program, stack, schedule, options);
    int all = program->shape.micro_batch_count, written = enough_micro_batches(&making);
    making.written = program_of_count(arena, program, written);
    struct arena scratch = {0};
    bool is_right = make_scripts(&making, &scratch, err);
    arena_free(&scratch);
    *task_count = 0;
    *micro_batches = written;
    for (int stage = 0; stage < program->shape.stage_count && is_right; stage++) {
        const struct script *script = making.scripts[stage];
        double left_out = (double)(all - written) * tasks_of(script, written / 2);
        *task_count += script->task_count + left_out;
    }
    return is_right;
}

struct script ***plan_scripts_of_replicas(struct arena *arena, struct arena *scratch,
                                          const struct program *program, const struct stack *stack,
                                          struct script **scripts,
                                          const struct memory_options *options, struct err *err)
{
    const struct parallel *parallel = &program->parallel;
    const int *counts = parallel->replica_micro_batches;
    if (parallel->replica_count == 0) return NULL;
    struct script ***replicas = ARENA_NEW(arena, struct script **, parallel->replica_count);
    for (int r = 0; r < parallel->replica_count; r++) {
        if (counts[r] == program->shape.micro_batch_count) replicas[r] = scripts;
        for (int before = 0; before < r && !replicas[r]; before++) {
            if (counts[before] == counts[r]) replicas[r] = replicas[before];
        }
        if (replicas[r]) continue;
        bool is_planned;
        const struct program *own = program_of_count(arena, program, counts[r]);
        replicas[r] =
            plan_scripts_make(arena, scratch, own, stack, NULL, options, &is_planned, err);
        if (!replicas[r]) return NULL;
    }
    return replicas;
}

// The program in the numbers of a run. No copies of the weights in two widths; GEMMs of fp8 are
// run on tensors of 16 bits.
static struct program program_as_run(const struct program *planned, int real_bytes,
                                     int compute_bytes)
{
    struct program run = *planned;
    // What is done once a step is what the plan's own precision asks for.
    if (step_takes_norm(&planned->workload)) run.workload.unclipped = false;
    if (compute_bytes == real_bytes)
        run.workload.precision = PRECISION_FP32;
    else if (planned->workload.precision != PRECISION_FP16)
        run.workload.precision = PRECISION_BF16;
    return run;
}

static double element_bytes(const struct program *planned)
{
    double bytes = precision_bytes(planned->workload.precision);
    return bytes < 2 ? 2 : bytes;
}

// Of the rank with most the bytes of a tier, states in reals and activations as they are computed.
static int64_t moved_bytes(const struct script *const *scripts, const struct stack *stack,
                           int real_bytes, int compute_bytes, size_t tier)
{
    const struct program *planned = scripts[0]->program;
    struct program run = program_as_run(planned, real_bytes, compute_bytes), kept = *planned;
    run.parallel.offload.activations = TIER_DEVICE;
    kept.parallel.offload.optimizer = kept.parallel.offload.parameters = TIER_DEVICE;
    int64_t most = 0;
    for (int stage = 0; stage < planned->shape.stage_count; stage++) {
        struct memory_parts parts[2] = {memory_of_stage(&run, stack, stage),
                                        memory_of_stage(&kept, stack, stage)};
        int64_t states = *(const int64_t *)((const char *)&parts[0] + tier);
        int64_t activations = *(const int64_t *)((const char *)&parts[1] + tier);
        double bytes = (double)states * real_bytes / precision_bytes(PRECISION_FP32) +
                       (double)activations * compute_bytes / element_bytes(planned);
        if ((int64_t)bytes > most) most = (int64_t)bytes;
    }
    return most;
}

int64_t plan_scripts_host_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes)
{
    return moved_bytes(scripts, stack, real_bytes, compute_bytes,
                       offsetof(struct memory_parts, host_bytes));
}

int64_t plan_scripts_nvme_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes)
{
    return moved_bytes(scripts, stack, real_bytes, compute_bytes,
                       offsetof(struct memory_parts, nvme_bytes));
}

int64_t plan_scripts_peak_bytes(const struct script *const *scripts, const struct stack *stack,
                                int real_bytes, int compute_bytes)
{
    const struct program *planned = scripts[0]->program;
    struct program run = program_as_run(planned, real_bytes, compute_bytes);
    int64_t most = 0;
    double plan_bytes = element_bytes(planned);
    for (int stage = 0; stage < planned->shape.stage_count; stage++) {
        struct memory_parts parts = memory_of_stage(&run, stack, stage);
        double state =
            (double)(parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes);
        double bytes = state * real_bytes / precision_bytes(PRECISION_FP32) +
                       (double)scripts[stage]->arena_bytes * compute_bytes / plan_bytes +
                       2 * (double)script_weight_cast_elements(scripts[stage]);
        if ((int64_t)bytes > most) most = (int64_t)bytes;
    }
    return most;
}
