#include "cli/memory_bug.h"
#include "cli/memory_run.h"
#include "cli/options.h"
#include "cli/plan_question.h"
#include "core/file.h"
#include "planner/memory/plan_schedule.h"

#include <stdio.h>
#include <string.h>

enum { PLAN_ALIGNMENT = 512 };  // what CUDA's allocators round to

// All stages of the plan scheduled. Where the checker refuses one, its graph is saved.
static bool schedule_stages(struct arena *arena, const struct evaluation_request *request,
                            const struct memory_options *options, struct plan_stages *stages,
                            struct err *err)
{
    struct arena scratch = {0};
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    bool ok = evaluate(arena, &scratch, request, evaluation, err) &&
              plan_schedule_make(arena, &scratch, evaluation->program, request->stack, options,
                                 stages, err);
    arena_free(&scratch);
    return ok || (stages->refused && memory_save_graph(arena, stages->refused, err));
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
        text = arena_print(
            arena, "%sStage %d%s: arena %s, %s\n", text, at->stage,
            at->stage_count == 1 ? "" : arena_print(arena, " and %d like it", at->stage_count - 1),
            units_bytes(arena, (double)result->arena_bytes), proof);
    }
    return text;
}

// All stages fit, or the first that does not says what is missing.
static int answer(struct arena *arena, const struct memory_arguments *arguments,
                  const struct plan_stages *stages, const struct plan_stage *shown,
                  const struct memory_report *report, const char *target)
{
    const char *wrote = arena_print(arena, "%sWrote %s: memory.schedule, order and offsets%s\n",
                                    stages_text(arena, stages), target,
                                    arguments->output ? "" : " (the plan is updated in place)");
    if (arguments->plot) {
        wrote = arena_print(arena, "%sWrote %s: address over time of stage %d\n", wrote,
                            arguments->plot, shown->stage);
    }
    int status = memory_answer(arena, arguments, report, wrote);
    for (int i = 0; i < stages->count && status == 0; i++) {
        if (stages->stages[i].result.fits) continue;
        fprintf(stderr, "meshwright memory: stage %d does not fit the capacity either\n",
                stages->stages[i].stage);
        status = 1;
    }
    return status;
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
    struct plan_stages stages = {0};
    if (!schedule_stages(arena, &request, &options, &stages, err))
        return plan_question_status(arguments->input, err);
    const struct plan_stage *shown = find_stage(arguments, &stages, err);
    struct memory_report report;
    if (!shown || !memory_run_graph(arena, arguments, shown->graph->graph, shown->problem,
                                    alignment, &shown->result, &report, err)) {
        return exit_status(err);
    }
    report.name = arena_print(arena, "stage %d of %s", shown->stage, arguments->input);
    const char *target = arguments->output ? arguments->output : arguments->input;
    const struct plan_schedule *schedule = plan_schedule_of(arena, &stages, alignment);
    const char *text = plan_schedule_text(arena, &plan->memory, schedule);
    if (!file_write(target, text, strlen(text), err) ||
        !memory_draw_graph(arena, arguments, shown->problem, &report, err)) {
        return exit_status(err);
    }
    return answer(arena, arguments, &stages, shown, &report, target);
}
