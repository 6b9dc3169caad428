#include "cli/commands.h"
#include "cli/inject_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_options.h"
#include "cli/plan_question.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/units.h"
#include "memory/plan_script.h"
#include "plan/unexecuted.h"
#include "reports/table/ablation_table.h"
#include "reports/table/explain_table.h"
#include "reports/table/inject_table.h"
#include "reports/table/input_text.h"
#include "reports/table/kernels_table.h"
#include "reports/table/plan_json.h"
#include "reports/table/routed_text.h"
#include "reports/table/step_table.h"
#include "simulator/timeline.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    const char *plan;
    const char *trace, *kernels, *readers, *routing;
    int routing_steps;
    int64_t routing_seed;
    bool all_ranks, ablation, explain, kernels_account, verify, json;
    double tokens;  // 0: those of the plan
    struct reliability_arguments reliability;
    struct price_arguments price;
    struct inject_arguments inject;
};

static void unfold(struct arena *arena, const struct parallel *parallel, int64_t kv_head_count,
                   struct engine_options *options)
{
    struct mesh mesh = mesh_make(parallel, kv_head_count);
    options->all_ranks = true;
    options->rank_count = mesh.rank_count;
    options->stage_of_rank = ARENA_NEW(arena, int, mesh.rank_count);
    for (int rank = 0; rank < mesh.rank_count; rank++)
        options->stage_of_rank[rank] = mesh_stage_of(&mesh, rank);
}

// What was asked for beside the prediction; NULL: not.
struct more {
    const struct ablation *ablation;
    const struct explain *explain;
    const struct kernels_account *kernels;
    const struct input_price *input;
    const struct routed *routed;
    const struct injection *injection;
    const struct injection_result *injected;
    const struct money *money;  // of the run with it
};

static void print_json(struct arena *arena, const struct prediction *prediction,
                       const struct more *more)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    prediction_write(&writer, "prediction", prediction);
    if (more->ablation) ablation_write(&writer, more->ablation);
    if (more->explain) explain_write(&writer, more->explain);
    if (more->kernels) kernels_account_write(&writer, more->kernels);
    if (more->input) input_write(&writer, more->input);
    if (more->routed) routed_write(&writer, more->routed);
    if (more->injected) inject_write(&writer, more->injection, more->injected, more->money);
    json_close(&writer, '}');
    fputs(writer.text, stdout);
}

// Where the plan has a memory schedule, what that needs is what will be allocated.
static bool use_schedule(struct arena *arena, const struct plan *plan, const struct stack *stack,
                         struct evaluation *evaluation, const struct plan_schedule **schedule,
                         struct err *err)
{
    if (!plan_schedule_read(arena, &plan->memory, evaluation->program, stack, schedule, err))
        return false;
    if (*schedule) plan_schedule_apply(*schedule, evaluation);
    return true;
}

// The scripts of all stages as `run` would execute them, written out and verified. A line for
// people in *verified.
static bool verify(struct arena *arena, const struct stack *stack,
                   const struct evaluation *evaluation, const struct plan_schedule *schedule,
                   const char **verified, struct err *err)
{
    enum { ALIGNMENT = 512 };
    const struct memory_options options = {.method = MEMORY_GREEDY, .alignment = ALIGNMENT};
    const struct program *program = evaluation->program;
    const struct unexecuted *row = unexecuted_of(&program->workload, &program->parallel);
    if (row && !row->is_scripted)
        return err_set(err, ERR_USAGE, "--verify: %s", unexecuted_text(arena, row));
    double tasks;
    int written, all = program->shape.micro_batch_count;
    if (!plan_scripts_verify(arena, program, stack, schedule, &options, &tasks, &written, err))
        return false;
    const char *repeats = "";
    if (written < all)
        repeats = arena_print(
            arena, "          The %d micro-batches repeat rounds of %d that were written out.\n",
            all, written);
    *verified = arena_print(
        arena,
        "Verified: %s tasks of %d stage%s: every message sent is received and nobody waits for "
        "ever,\n          layouts agree, no byte is overwritten that is still read, every gradient "
        "is reduced once.\n%s",
        units_count(arena, tasks), program->shape.stage_count,
        program->shape.stage_count == 1 ? "" : "s", repeats);
    return true;
}

// Everything that was asked for beside the prediction.
struct extras {
    struct ablation ablation;
    struct explain explain;
    struct kernels_account kernels;
    struct input_price input;  // no readers: the model takes no tokens
    struct routed routed;
    struct injection injection;
    struct injection_result injected;
    const char *verified;
};

static bool find_extras(struct arena *arena, struct arena *scratch,
                        const struct arguments *arguments, const struct evaluation_request *request,
                        const struct evaluation *evaluation, struct extras *extras, struct err *err)
{
    if (arguments->ablation && !ablate(arena, scratch, request, &extras->ablation, err))
        return false;
    if (arguments->explain) {
        extras->explain.breakdown = breakdown_make(arena, scratch, request, evaluation);
        extras->explain.sensitivity = sensitivity_make(arena, scratch, request, evaluation);
    }
    if (arguments->kernels_account)
        extras->kernels = kernels_account_make(arena, request, evaluation);
    if (input_has_ids(evaluation->program)) {
        const struct input_request input = {
            .program = evaluation->program,
            .readers = arguments->readers ? readers_parse(arguments->readers) : READERS_RANK,
            .step_s = evaluation->prediction.step_s,
        };
        extras->input = input_price(scratch, &input);
    } else if (arguments->readers) {
        return err_set(err, ERR_USAGE, "--readers: %s is not fed with tokens",
                       evaluation->graph->name);
    }
    if (arguments->routing &&
        !routed_make(arena, request, arguments->routing, arguments->routing_steps,
                     arguments->routing_seed, &extras->routed, err))
        return false;
    return !inject_is_asked(&arguments->inject) ||
           inject(arena, scratch, request, evaluation, &extras->injection, arguments->trace != NULL,
                  &extras->injected, err);
}

static void print(struct arena *arena, const struct arguments *arguments,
                  const struct evaluation_request *request, const struct evaluation *evaluation,
                  const struct extras *extras)
{
    bool is_injected = inject_is_asked(&arguments->inject);
    const char *warning =
        extras->input.reader_count > 0 ? input_warning(arena, &extras->input) : NULL;
    if (warning) console_printf(stderr, "warning: %s\n", warning);
    struct money money = {0};
    if (is_injected) {
        const struct money_request asked =
            evaluation_money(request, evaluation, extras->injected.step_s);
        money = money_mean_of(&asked);
    }
    if (arguments->json) {
        const struct more more = {arguments->ablation ? &extras->ablation : NULL,
                                  arguments->explain ? &extras->explain : NULL,
                                  arguments->kernels_account ? &extras->kernels : NULL,
                                  arguments->readers ? &extras->input : NULL,
                                  arguments->routing ? &extras->routed : NULL,
                                  &extras->injection,
                                  is_injected ? &extras->injected : NULL,
                                  &money};
        print_json(arena, &evaluation->prediction, &more);
        return;
    }
    console_print(stdout, step_table_text(arena, request, evaluation));
    if (arguments->readers) console_print(stdout, input_text(arena, &extras->input));
    console_print(stdout, extras->verified);
    if (arguments->ablation) console_print(stdout, ablation_text(arena, &extras->ablation));
    if (arguments->explain) console_print(stdout, explain_text(arena, &extras->explain));
    if (arguments->kernels_account)
        console_print(stdout, kernels_account_text(arena, &extras->kernels));
    if (arguments->routing)
        console_print(stdout, routed_text(arena, arguments->routing, &extras->routed));
    if (is_injected) {
        console_print(stdout,
                      inject_text(arena, &extras->injection, &extras->injected,
                                  &evaluation->prediction.money, &money, request->workload.tokens));
    }
}

static const char *trace_said(struct arena *arena, const struct arguments *arguments)
{
    if (arguments->json) return output_noted(arena, arguments->trace);
    const char *said = output_said(arena, arguments->trace);
    return *said ? arena_print(arena, "%s\n", said) : "";
}

// Ranks are those of the cluster, but where one stands for all of its stage.
static bool write_trace(struct arena *arena, const struct arguments *arguments,
                        const struct evaluation_request *request,
                        const struct evaluation *evaluation, const struct extras *extras,
                        struct err *err)
{
    bool is_injected = inject_is_asked(&arguments->inject);
    const struct simulation *shown =
        is_injected ? extras->injected.simulation : evaluation->simulation;
    struct arena scratch = {0};
    const struct trace trace = timeline_make(arena, &scratch, request, evaluation, &shown->trace,
                                             !is_injected && !arguments->all_ranks);
    arena_free(&scratch);
    return trace_write(&trace, arguments->trace, err);
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct evaluation_request request = {0};
    struct extras extras = {.verified = ""};
    if (!inject_read(arena, &arguments->inject, &extras.injection, err)) return exit_status(err);
    const struct plan *plan =
        plan_question(arena, arguments->plan, arguments->kernels, &request, err);
    if (!plan) return exit_status(err);
    if (!plan_override(arena, arguments->tokens, &arguments->reliability, &arguments->price,
                       &request, err))
        return exit_status(err);
    bool is_injected = inject_is_asked(&arguments->inject);
    request.engine.want_trace = arguments->trace != NULL && !is_injected;
    if (arguments->all_ranks) unfold(arena, &request.parallel, 0, &request.engine);

    struct arena scratch = {0};
    struct evaluation evaluation = {0};
    const struct plan_schedule *schedule = NULL;
    bool done = evaluate(arena, &scratch, &request, &evaluation, err) &&
                use_schedule(arena, plan, request.stack, &evaluation, &schedule, err);
    if (done && arguments->verify) {
        done = verify(arena, request.stack, &evaluation, schedule, &extras.verified, err);
    }
    if (!done) {
        arena_free(&scratch);
        return plan_question_status(arguments->plan, err);
    }
    done = find_extras(arena, &scratch, arguments, &request, &evaluation, &extras, err);
    arena_free(&scratch);
    if (!done) return exit_status(err);
    const char *said = arguments->trace ? trace_said(arena, arguments) : "";
    if (arguments->trace && !write_trace(arena, arguments, &request, &evaluation, &extras, err))
        return exit_status(err);
    print(arena, arguments, &request, &evaluation, &extras);
    console_print(arguments->json ? stderr : stdout, said);
    return 0;
}

int simulate_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_plan_is_asked(argc, argv, err))
        return tables_simulate_command(arena, argc, argv, err);
    if (err->kind) return exit_status(err);
    struct arguments arguments = {
        .routing_steps = 200, .routing_seed = 1, .reliability = reliability_arguments_default()};
    const struct option rows[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan.json as `meshwright plan` writes it", NULL, 0,
         0},
        {"--trace", OPTION_OUTPUT, &arguments.trace,
         "write the timeline for Perfetto or chrome://tracing; packed where FILE ends in .gz",
         "FILE", 0, 0},
        {"--kernels", OPTION_TEXT, &arguments.kernels,
         "measured kernels that override the formulas: a file or a shipped name", "NAME", 0, 0},
        {"--all-ranks", OPTION_FLAG, &arguments.all_ranks, "simulate each rank, not one a stage",
         NULL, 0, 0},
        {"--ablation", OPTION_FLAG, &arguments.ablation, "what each pass gains", NULL, 0, 0},
        {"--explain", OPTION_FLAG, &arguments.explain,
         "every operator, collective and constant: seconds and influence", NULL, 0, 0},
        {"--kernels-account", OPTION_FLAG, &arguments.kernels_account,
         "the kernels of a layer: roof of the device's sheet, alone, priced", NULL, 0, 0},
        {"--verify", OPTION_FLAG, &arguments.verify,
         "write out what every stage does and check it, as `run` does", NULL, 0, 0},
        {"--tokens", OPTION_F64, &arguments.tokens,
         "to train in all, for time and money to finish (default: as planned)", "N",
         PLAN_TOKENS_LOW, PLAN_TOKENS_HIGH},
        {"--readers", OPTION_CHOICE, &arguments.readers,
         "what a step's data takes when every rank reads files, one a host, or rank 0 for all",
         READERS_WORDS, 0, 0},
        {"--routing", OPTION_TEXT, &arguments.routing,
         "where tokens go, and what that takes: zipf:S, W0 to W7, or a file of rows by expert",
         "WHAT", 0, 0},
        {"--routing-steps", OPTION_INT, &arguments.routing_steps, "steps drawn (default 200)", "N",
         1, 10000},
        {"--routing-seed", OPTION_I64, &arguments.routing_seed, "of the draws (default 1)", "N", 0,
         1e15},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print {\"prediction\": {...}}", NULL, 0, 0},
    };
    enum { ROW_COUNT = sizeof rows / sizeof *rows };
    struct option options[ROW_COUNT + RELIABILITY_OPTION_COUNT + PRICE_OPTION_COUNT +
                          INJECT_OPTION_COUNT + 1] = {0};
    memcpy(options, rows, sizeof rows);
    int count = ROW_COUNT + reliability_options(&arguments.reliability, options + ROW_COUNT);
    count += price_options(&arguments.price, options + count);
    inject_options(&arguments.inject, options + count);
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&arguments.trace, err)) return exit_status(err);

    return run(arena, &arguments, err);
}
