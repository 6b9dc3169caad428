#include "cli/run_job.h"
#include "core/console.h"

#include "cli/plan_question.h"
#include "plan/script/check.h"
#include "plan/unexecuted.h"
#include "reports/machine/own_stack.h"

#include <string.h>

enum { ALIGNMENT = 512 };  // of addresses: what CUDA's allocators round to
// Of the search for addresses, a tenth of a second: what is left to gain is a thousandth.
enum { NODE_CAP = 20000 };

static void price(struct arena *arena, struct run_job *job)
{
    job->ledger = ledger_new(arena);
    struct price_context context = evaluation_context(&job->request);
    context.ledger = &job->ledger;
    job->evaluation.price = step_price(arena, &context, job->evaluation.program);
}

// How many rows an expert gets is known when it runs: the arena has room for the most there can be.
static const struct program *roomy_program(struct arena *arena, const struct run_job *job)
{
    const struct program *program = job->evaluation.program;
    const struct graph *graph = program->graph;
    if (graph->expert_count == 0) return program;
    struct workload workload = program->workload;
    workload.expert_imbalance = (double)graph->expert_count / (double)graph->top_k;
    return program_lower(arena, graph, program->cluster, &workload, &program->parallel,
                         stack_joins(job->request.stack));
}

// A plan of other software may hold what only that does: the way out is a plan of our own.
static bool check_executed(const struct run_job *job, struct err *err)
{
    const struct program *program = job->evaluation.program;
    if (unexecuted_check(&program->workload, &program->parallel, err))
        return run_check_program(program, err);
    if (!stack_is_executed(job->request.stack))
        err_add(err, "; a plan made with --stack %s leaves it out", GPU_STACK);
    return false;
}

// Whether these scripts pass the memory that a device is said to have.
static bool passes_memory(struct arena *arena, const struct run_arguments *arguments,
                          const struct run_job *job, bool *passes, struct err *err)
{
    const char *note = NULL;
    *passes = false;
    if (arguments->device_memory_bytes <= 0) return true;
    const struct backend *backend = backend_choose(arena, arguments->backend, &note, err);
    if (!backend) return false;
    backend = backend_at(backend, job->request.workload.precision);
    int64_t peak_bytes =
        plan_scripts_peak_bytes((const struct script *const *)job->scripts, job->request.stack,
                                backend->real_bytes, backend->compute_bytes);
    *passes = peak_bytes > arguments->device_memory_bytes;
    return true;
}

// Every rank plans by itself what the plan has not planned, and all have to find the same: by
// rules, or exactly, but without asking a clock.
static bool make_with(struct arena *arena, struct arena *scratch, const struct program *program,
                      const struct plan_schedule *schedule, enum memory_method method,
                      struct run_job *job, struct err *err)
{
    const struct memory_options options = {
        .method = method, .alignment = ALIGNMENT, .node_cap = NODE_CAP};
    job->scripts = plan_scripts_make(arena, scratch, program, job->request.stack, schedule,
                                     &options, &job->is_planned, err);
    if (!job->scripts) return false;
    job->replicas = plan_scripts_of_replicas(arena, scratch, program, job->request.stack,
                                             job->scripts, &options, err);
    return err->kind == ERR_NONE;
}

static bool make_scripts(struct arena *arena, struct arena *scratch, const struct plan *plan,
                         const struct run_arguments *arguments, struct run_job *job,
                         struct err *err)
{
    if (!check_executed(job, err)) return false;
    const struct program *program = roomy_program(arena, job);
    const struct plan_schedule *schedule = NULL;
    bool is_own = program == job->evaluation.program;
    if (is_own &&
        !plan_schedule_read(arena, &plan->memory, program, job->request.stack, &schedule, err))
        return false;
    if (schedule) plan_schedule_apply(schedule, &job->evaluation);
    job->schedule = schedule;
    bool passes;
    if (!make_with(arena, scratch, program, schedule, MEMORY_GREEDY, job, err) ||
        !passes_memory(arena, arguments, job, &passes, err))
        return false;
    // As `memory PLAN` would have it: what is quick to find is not always small.
    if (passes && !(job->is_planned && !job->replicas) &&
        !make_with(arena, scratch, program, schedule, MEMORY_ROAM, job, err))
        return false;
    job->is_planned = job->is_planned && !job->replicas;
    job->stage_count = program->shape.stage_count;
    job->rank_count = program->mesh.rank_count;
    const struct script *const *scripts = (const struct script *const *)job->scripts;
    job->messages = script_messages_under_way(scratch, scripts, job->stage_count);
    return true;
}

// Whether a norm is asked for decides what a step does once.
static void choose_clip(const struct run_arguments *arguments, struct run_job *job)
{
    struct workload *workload = &job->request.workload;
    job->clip_norm = arguments->training.clip_norm;
    if (job->clip_norm < 0) job->clip_norm = workload->unclipped ? 0 : 1;
    workload->unclipped = job->clip_norm <= 0;
}

bool run_job_load(struct arena *arena, const struct run_arguments *arguments, struct run_job *job,
                  struct err *err)
{
    const char *path = arguments->plan;
    *job = (struct run_job){0};
    const struct plan *plan = plan_question(arena, path, NULL, &job->request, err);
    if (!plan) return false;
    choose_clip(arguments, job);
    job->request.engine.want_trace = true;
    job->text = plan->config.document->text;
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, &job->request, &job->evaluation, err);
    if (done) price(arena, job);
    done = done && make_scripts(arena, &scratch, plan, arguments, job, err);
    arena_free(&scratch);
    if (!done) (void)plan_question_status(path, err);
    return done;
}

const struct run_job *run_job_masked(struct arena *arena, const struct run_job *job,
                                     double document_tokens, struct err *err)
{
    struct run_job *masked = ARENA_NEW(arena, struct run_job, 1);
    struct arena scratch = {0};
    *masked = *job;
    masked->request.document_tokens = document_tokens;
    bool done = evaluate(arena, &scratch, &masked->request, &masked->evaluation, err);
    if (done) price(arena, masked);
    if (done && job->schedule) plan_schedule_apply(job->schedule, &masked->evaluation);
    arena_free(&scratch);
    return done ? masked : NULL;
}

int run_job_stage(const struct run_job *job, int rank)
{
    return mesh_stage_of(&job->evaluation.program->mesh, rank);
}

const struct script *run_job_script(const struct run_job *job, int rank)
{
    int stage = run_job_stage(job, rank);
    if (!job->replicas) return job->scripts[stage];
    return job->replicas[program_replica(job->evaluation.program, rank)][stage];
}

void run_job_say_turns(int rank_count, int core_count)
{
    if (rank_count <= core_count) return;
    console_printf(stderr, "meshwright run: %d ranks on %d core%s: they take turns\n", rank_count,
                   core_count, core_count == 1 ? "" : "s");
}
