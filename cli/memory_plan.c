#include "cli/memory_bug.h"
#include "cli/memory_run.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_question.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "memory/plan_chunk.h"
#include "planner/plan_stays.h"
#include "reports/table/plan_table.h"

#include <stdio.h>
#include <string.h>

enum { PLAN_ALIGNMENT = 512 };  // what CUDA's allocators round to

// A plan with its schedule, and its file without one: as it was, or anew.
struct made {
    const char *said, *plot_said;  // of what is written
    const struct plan *plan;
    const struct program *program;
    const struct stack *stack;
    struct plan_stages stages;
    struct json memory;  // the object of the file that the schedule goes into
    const char *chosen;  // in words; "" where nothing was
    int64_t lack_bytes;  // what was chosen does not fit by so much
};

static bool schedule_plan(struct arena *arena, struct arena *scratch,
                          const struct evaluation_request *request,
                          const struct memory_options *options, struct made *made, struct err *err)
{
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    made->memory = made->plan->memory;
    made->chosen = "";
    made->stack = request->stack;
    if (!evaluate(arena, scratch, request, evaluation, err)) return false;
    made->program = evaluation->program;
    return plan_schedule_make(arena, scratch, evaluation->program, request->stack, options,
                              &made->stages, err);
}

static bool choose_plan(struct arena *arena, struct arena *scratch,
                        const struct memory_arguments *arguments,
                        const struct evaluation_request *request,
                        const struct memory_options *options, struct made *made, struct err *err)
{
    const struct plan_keep_request asked = {
        .request = request,
        .options = options,
        .may_recompute = arguments->recompute != NULL,
        .may_move = arguments->offload != NULL,
    };
    bool of_moments = memory_asks_moments(arguments);
    struct plan_stays stays = {.moved_bytes = 0};
    struct plan_kept kept = {0};
    bool done = of_moments ? plan_stays_find(arena, scratch, request, options, &stays, err)
                           : plan_keep(arena, scratch, &asked, &kept, err);
    if (of_moments) kept = stays.kept;
    made->stages = kept.stages;
    if (!done) return false;
    const char *text = memory_kept_document(arena, &kept);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    if (!json_parse(arena, arguments->input, text, strlen(text), document, err)) return false;
    *root = json_root(document);
    made->memory = json_get(root, "memory", err);
    made->program = kept.evaluation->program;
    made->stack = kept.request.stack;
    const char *text_of = of_moments ? memory_stays_text(arena, made->plan, &stays)
                                     : memory_kept_text(arena, made->plan, &kept);
    made->chosen =
        kept.fits ? text_of : parallel_text(arena, &kept.request.parallel, kept.request.stack);
    made->lack_bytes = kept.fits ? 0 : kept.lack_bytes;
    return !err->kind;
}

// The group to print: the one with the stage asked for, else the one with the largest arena.
static const struct plan_stage *find_stage(const struct memory_arguments *arguments,
                                           const struct plan_stages *stages, struct err *err)
{
    const struct plan_stage *worst = &stages->stages[0];
    for (int i = 0; i < stages->count; i++) {
        const struct plan_stage *at = &stages->stages[i];
        for (int j = 0; j < at->stage_count; j++) {
            if (at->stages[j] == arguments->stage) return at;
        }
        if (at->result.arena_bytes > worst->result.arena_bytes) worst = at;
    }
    if (arguments->stage < 0) return worst;
    err_set(err, ERR_USAGE, "--stage: the plan has no stage %d", arguments->stage);
    return NULL;
}

static const char *stages_text(struct arena *arena, const struct plan_stages *stages)
{
    const char *text = "";
    for (int i = 0; i < stages->count; i++) {
        const struct plan_stage *at = &stages->stages[i];
        const struct memory_schedule *result = &at->result;
        const char *proof =
            result->arena_bytes == result->bound_bytes
                ? "proven optimal"
                : arena_print(arena, "within %.2f %% of optimal", 100 * memory_gap(result));
        // What a run takes, and --device-memory of it has to give.
        int64_t peak_bytes = result->persistent_bytes + result->arena_bytes;
        text = arena_print(
            arena, "%sStage %d%s: arena %s, %s; %lld bytes with what stays\n", text, at->stage,
            at->stage_count == 1 ? "" : arena_print(arena, " and %d like it", at->stage_count - 1),
            units_bytes(arena, (double)result->arena_bytes), proof, (long long)peak_bytes);
    }
    return text;
}

// In what pieces the gradients of a stage go to a host that updates, and parameters come back.
static const char *chunks_text(struct arena *arena, const struct made *made, int stage)
{
    if (made->program->parallel.offload.optimizer == TIER_DEVICE) return "";
    struct plan_chunk chunk = plan_chunk_of(arena, made->program, made->stack, stage);
    if (chunk.chunk_bytes <= 0) return "";
    double wasted_percent =
        100 * (double)chunk.wasted_bytes / (double)(chunk.tensor_bytes + chunk.wasted_bytes);
    return arena_print(arena,
                       "Stage %d: %s of gradients of %d parameters go to the host, best in chunks "
                       "of %s (%.1f %% of them empty)\n",
                       stage, units_bytes(arena, (double)chunk.tensor_bytes), chunk.tensor_count,
                       units_bytes(arena, (double)chunk.chunk_bytes), wasted_percent);
}

// All stages fit, or the first that does not says what is missing.
static int answer(struct arena *arena, const struct memory_arguments *arguments,
                  const struct made *made, const struct plan_stage *shown,
                  const struct memory_report *report)
{
    const struct plan_stages *stages = &made->stages;
    const char *wrote = arena_print(arena, "%s%s%s%s", made->chosen, stages_text(arena, stages),
                                    chunks_text(arena, made, shown->stage), made->said);
    if (*made->plot_said) {
        wrote = arena_print(arena, "%s%s: address over time of stage %d\n", wrote, made->plot_said,
                            shown->stage);
    }
    int status = memory_answer(arena, arguments, report, wrote);
    for (int i = 0; i < stages->count && status == 0; i++) {
        if (stages->stages[i].result.fits) continue;
        console_printf(stderr, "meshwright memory: stage %d does not fit the capacity either\n",
                       stages->stages[i].stage);
        status = 1;
    }
    return status;
}

// Nothing is written of a choice that does not fit.
static int refuse(struct arena *arena, const struct made *made)
{
    console_printf(stderr, "meshwright memory: nothing fits: the best choice found (%s) lacks %s\n",
                   made->chosen, units_bytes(arena, (double)made->lack_bytes));
    return 1;
}

static bool writes_rows(const struct memory_arguments *arguments)
{
    const char *end = arguments->output ? strrchr(arguments->output, '.') : NULL;
    return end && strcmp(end, ".csv") == 0;
}

// Before anything is: what is there already is replaced.
static void say_what_is_written(struct arena *arena, const struct memory_arguments *arguments,
                                const struct plan_stage *shown, struct made *made)
{
    const char *what = "memory.schedule, order and offsets";
    if (writes_rows(arguments))
        what = arena_print(arena, "buffers of stage %d with their offsets", shown->stage);
    const char *said = arguments->output ? output_said(arena, arguments->output) : "";
    made->plot_said = arguments->plot ? output_said(arena, arguments->plot) : "";
    made->said = *said ? arena_print(arena, "%s: %s\n", said, what) : "";
    if (!arguments->output) {
        made->said = arena_print(arena, "Wrote %s: %s (the plan is updated in place)\n",
                                 plain_copy(arena, arguments->input), what);
    }
}

int memory_plan(struct arena *arena, const struct memory_arguments *arguments, struct err *err)
{
    struct evaluation_request request;
    const struct plan *plan = plan_question(arena, arguments->input, NULL, &request, err);
    if (!plan) return exit_status(err);
    int64_t alignment = arguments->alignment ? arguments->alignment : PLAN_ALIGNMENT;
    struct memory_options options = memory_options_of(arguments, alignment);
    struct memory_methods methods = memory_methods_of(arguments);
    options.method = methods.methods[methods.count - 1];
    struct made made = {.plan = plan};
    struct memory_watch watch;
    memory_watch_start(&watch, arguments, &options);
    struct arena scratch = {0};
    bool chooses = arguments->recompute || arguments->offload;
    bool ok = chooses ? choose_plan(arena, &scratch, arguments, &request, &options, &made, err)
                      : schedule_plan(arena, &scratch, &request, &options, &made, err);
    arena_free(&scratch);
    memory_watch_end(&watch);
    // Where the checker refuses a stage, its graph is saved.
    if (!ok && made.stages.refused) (void)memory_save_graph(arena, made.stages.refused, err);
    if (!ok) return plan_question_status(arguments->input, err);
    if (made.lack_bytes > 0) return refuse(arena, &made);
    const struct plan_stage *shown = find_stage(arguments, &made.stages, err);
    struct memory_report report;
    if (!shown || !memory_run_graph(arena, arguments, shown->graph->graph, shown->problem,
                                    alignment, &shown->result, &report, err)) {
        return exit_status(err);
    }
    report.name = arena_print(arena, "stage %d of %s", shown->stage, arguments->input);
    const char *target = arguments->output ? arguments->output : arguments->input;
    say_what_is_written(arena, arguments, shown, &made);
    const char *text =
        writes_rows(arguments)
            ? memory_result_csv(arena, shown->graph->graph, shown->problem, &shown->result)
            : plan_schedule_text(arena, &made.memory,
                                 plan_schedule_of(arena, &made.stages, alignment));
    if (!file_write(target, text, strlen(text), err) ||
        !memory_draw_graph(arena, arguments, shown->problem, &report, err)) {
        return exit_status(err);
    }
    return answer(arena, arguments, &made, shown, &report);
}
