#include "cli/memory_run.h"
#include "cli/options.h"
#include "cli/plan_question.h"
#include "core/console.h"
#include "core/plain.h"
#include "plan/step_end.h"
#include "reports/table/placement_table.h"
#include "simulator/unlike.h"

#include <stdio.h>

// Answers which placement of a plan's state over a step moves least; writes nothing into the plan.

enum { AHEAD_MOST = 3 };

static bool place(struct arena *arena, const struct placement_question *question,
                  struct placement_place *place, struct err *err)
{
    const struct placement_options options = {.ahead_most = AHEAD_MOST};
    if (!placed_plan_make(arena, question, &place->plan, err)) return false;
    place->least_bytes = placement_least_bytes(&place->plan.problem);
    place->fits = placement_solve(arena, &place->plan.problem, &options, &place->solution);
    return true;
}

static double planned_s(const struct placement_place *place)
{
    return place->solution.policies[PLACEMENT_PLANNED].step_s;
}

static bool solve(struct arena *arena, const struct evaluation_request *request,
                  const struct evaluation *evaluation, struct placement_report *report,
                  struct err *err)
{
    struct price_context context = evaluation_context(request);
    for (int i = 0; i < 2; i++) {
        struct placement_question question = {
            .program = evaluation->program,
            .context = &context,
            .stage = report->stage,
            .device_bytes = report->device_bytes,
            .updates_on_host = i == PLACEMENT_HOST_UPDATES,
        };
        if (!place(arena, &question, &report->places[i], err)) return false;
        if (!question.updates_on_host || step_streams(&evaluation->program->workload)) continue;
        struct placement_place ahead;
        question.updates_ahead = true;
        if (!place(arena, &question, &ahead, err)) return false;
        if (ahead.fits && planned_s(&ahead) < planned_s(&report->places[i]))
            report->places[i] = ahead;
    }
    return true;
}

int memory_policies(struct arena *arena, const struct memory_arguments *arguments, struct err *err)
{
    struct evaluation_request request;
    const struct plan *plan = plan_question(arena, arguments->input, NULL, &request, err);
    if (!plan) return exit_status(err);
    if (request.stack->offload == 0) {
        err_set(err, ERR_USAGE, "--policies: stack %s moves nothing off the device",
                request.stack->name);
        return exit_status(err);
    }
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    struct arena scratch = {0};
    // Which parameters stay when is what is asked.
    request.parallel.offload.turn_blocks = request.parallel.offload.between_layers = 0;
    bool ok = evaluate(arena, &scratch, &request, evaluation, err);
    arena_free(&scratch);
    if (!ok) return plan_question_status(arguments->input, err);
    int stage_count = evaluation->program->shape.stage_count;
    if (arguments->stage >= stage_count) {
        err_set(err, ERR_USAGE, "--stage: the plan has no stage %d", arguments->stage);
        return exit_status(err);
    }
    struct placement_report report = {
        .name = plain_copy(arena, arguments->input),
        .stage = arguments->stage < 0 ? evaluation->worst_stage : arguments->stage,
        .stage_count = stage_count,
        .micro_batch_count = evaluation->program->shape.micro_batch_count,
        .device_bytes = arguments->device_bytes,
    };
    if (report.device_bytes == 0)
        report.device_bytes =
            unlike_stage_bytes(request.cluster, &evaluation->program->mesh, report.stage);
    if (!solve(arena, &request, evaluation, &report, err)) return exit_status(err);
    if (arguments->json) {
        struct json_writer writer = {.arena = arena};
        placement_report_write(&writer, &report);
        printf("%s\n", writer.text);
    } else {
        console_print(stdout, placement_table_text(arena, &report));
    }
    return placement_report_best(&report) ? 0 : 1;
}
