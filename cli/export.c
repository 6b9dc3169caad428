#include "exchange/export.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_question.h"
#include "core/console.h"
#include "core/plain.h"
#include "core/units.h"
#include "core/version.h"
#include "exchange/nearest.h"
#include "planner/choice.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    const char *plan, *target, *launcher, *folder;
    bool nearest;
};

static bool price(struct arena *arena, const struct evaluation_request *question,
                  struct evaluation *evaluation, struct err *err)
{
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, question, evaluation, err);
    arena_free(&scratch);
    return done;
}

// "tp4 pp4 dp8 mb1 z1: 74.9 s a step, 72.1 GiB"
static const char *priced_text(struct arena *arena, const struct evaluation_request *question,
                               const struct evaluation *evaluation)
{
    const struct prediction *prediction = &evaluation->prediction;
    return arena_print(arena, "%s (%.4g s a step, %.1f GiB)",
                       parallel_text(arena, &question->parallel, question->stack),
                       prediction->step_s, (double)prediction->peak_bytes / (1 << 30));
}

static bool find_nearest(struct arena *arena, const struct exchange_target *target,
                         const struct evaluation_request *question, struct nearest_answer *answer,
                         struct err *err)
{
    const struct nearest_request request = {
        .target = target,
        .search = {.model = question->model,
                   .cluster = question->cluster,
                   .stack = question->stack,
                   .fabrics = question->fabrics,
                   .workload = question->workload,
                   .pins = pins_none(),
                   .top = 5},
        .near = &question->parallel,
    };
    return nearest_find(arena, &request, answer, err);
}

// What misses by least, where nothing fits, and what it lacks.
static const char *closest_text(struct arena *arena, const struct nearest_answer *answer,
                                const struct stack *stack)
{
    const struct candidate *closest = answer->closest;
    const struct search_result *result = &answer->result;
    if (!closest) return "no plan of this model and batch can be run by it here";
    const char *text = arena_print(
        arena,
        "no plan that it can run fits: the closest is %s (%.4g s a step, %.1f GiB), %s too "
        "much",
        parallel_text(arena, &closest->parallel, stack), closest->cost.step_s,
        (double)closest->memory.peak_bytes / (1 << 30),
        units_bytes(arena, (double)result->shortfall_bytes));
    for (int i = 0; i < result->remedy_count; i++)
        text =
            arena_print(arena, "%s%s%s", text, i ? ", or " : "; would fit: ", result->remedies[i]);
    return text;
}

// The answer is no: why, and what would do.
static void refuse(struct arena *arena, const struct exchange_target *target,
                   const struct evaluation_request *own, const struct evaluation *evaluation,
                   const struct stack *stack, const struct refusals *refusals,
                   const struct nearest_answer *answer, struct err *err)
{
    const char *what = plain_copy(arena, refusals_text(arena, refusals));
    struct evaluation_request other = *own;
    struct evaluation found;
    other.stack = stack;
    if (answer->best) other.parallel = answer->best->parallel;
    if (answer->best && !price(arena, &other, &found, err)) return;
    console_printf(
        stderr, "meshwright export: %s %s cannot express %s of %s; %s\n", target->program,
        target->version, what, priced_text(arena, own, evaluation),
        answer->best
            ? arena_print(arena, "the nearest plan that it can run is %s: --nearest exports that",
                          priced_text(arena, &other, &found))
            : closest_text(arena, answer, stack));
}

static bool write_files(struct arena *arena, const struct arguments *arguments,
                        const struct export_request *request, struct err *err)
{
    struct file_text files[EXPORT_FILE_MAX];
    int count = export_files(arena, request, arguments->folder, files);
    const char *names = "";
    for (int i = 0; i < count; i++)
        names = arena_print(arena, "%s%s%s", names, i ? ", " : "",
                            files[i].path + strlen(arguments->folder) + 1);
    const struct prediction *prediction = &request->evaluation->prediction;
    const char *told = arena_print(
        arena, "%s %s, %s: %s\n      %.4g s a step, %.1f GiB of memory on a GPU\nWrote %s: %s.\n",
        request->target->program, request->target->version, request->launcher->name,
        parallel_text(arena, &request->question->parallel, request->question->stack),
        prediction->step_s, (double)prediction->peak_bytes / (1 << 30),
        plain_copy(arena, arguments->folder), names);
    if (!file_write_all(files, count, err)) return false;
    console_print(stdout, told);
    return true;
}

static bool judge(struct arena *arena, const struct evaluation_request *question,
                  struct export_request *request, struct settings *settings,
                  struct refusals *refusals, struct err *err)
{
    const struct facts_request asked = {
        .model = question->model,
        .stack = question->stack,
        .workload = &question->workload,
        .parallel = &question->parallel,
        .builds = stack_builds_among(arena, request->stack, question->stack->release),
    };
    request->settings = settings;
    return target_judge(arena, request->target, &asked, &request->facts, settings, refusals, err);
}

// The plan as the target's software would run it, priced so; or the nearest that it can run. False
// with `err` set, or with a line printed: then the answer is no.
static bool settle(struct arena *arena, const struct arguments *arguments,
                   struct export_request *request, struct evaluation_request *question,
                   const struct evaluation_request *own, struct evaluation *evaluation,
                   struct nearest_answer *answer, struct err *err)
{
    struct settings *settings = ARENA_NEW(arena, struct settings, 1);
    struct refusals refusals;
    const char *why = NULL;
    if (!judge(arena, question, request, settings, &refusals, err)) return false;
    if (refusals.count == 0 && !stack_can_run(question->stack, &question->parallel, arena, &why))
        refusals.items[refusals.count++] =
            (struct refusal){"such plans", arena_print(arena, "(%s)", why)};
    if (refusals.count > 0) {
        question->stack = request->stack;
        if (!find_nearest(arena, request->target, question, answer, err)) return false;
        if (!arguments->nearest || !answer->best) {
            if (!price(arena, own, evaluation, err)) return false;
            refuse(arena, request->target, own, evaluation, question->stack, &refusals, answer,
                   err);
            return false;
        }
        question->parallel = answer->best->parallel;
        if (!judge(arena, question, request, settings, &refusals, err)) return false;
    }
    return price(arena, question, evaluation, err);
}

// As the target's software runs this model (experts have abilities of their own), and in `built` as
// the plan's stack is built where that is the same software: the target is told so, or refuses.
static bool find_stacks(struct arena *arena, struct export_request *request,
                        const struct evaluation_request *own, const struct stack **built,
                        struct err *err)
{
    const struct import_options options = {.flash = true};
    const struct stack *stack = stack_load(arena, request->target->stack, err);
    if (!stack) return false;
    bool has_experts = model_graph(arena, own->model, &options)->expert_count > 0;
    bool is_same = strcmp(stack->name, own->stack->name) == 0;
    const char *builds = is_same ? stack_builds_among(arena, stack, own->stack->release) : NULL;
    const struct stack *other = builds ? stack_at_release(arena, stack, builds) : stack;
    request->stack = stack_for_model(arena, stack, has_experts);
    *built = stack_for_model(arena, other, has_experts);
    return true;
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct evaluation_request own = {0};
    struct evaluation evaluation;
    struct nearest_answer answer = {0};
    struct export_request request = {.launcher = launcher_find(arguments->launcher),
                                     .evaluation = &evaluation,
                                     .version = MESHWRIGHT_VERSION};
    request.target = target_find(arguments->target, err);
    if (!request.target) return exit_status(err);
    if (!plan_question(arena, arguments->plan, NULL, &own, err)) return exit_status(err);
    struct evaluation_request question = own;
    request.question = &question;
    if (!find_stacks(arena, &request, &own, &question.stack, err)) return exit_status(err);
    const char *why = NULL;
    if (!target_runs_on(arena, request.target, question.stack, question.cluster, &why)) {
        console_printf(stderr, "meshwright export: %s\n", why);
        return 1;
    }
    // What the plan's own software has by itself, the target's is not told.
    if (own.parallel.passes == own.stack->passes) question.parallel.passes = question.stack->passes;
    if (!settle(arena, arguments, &request, &question, &own, &evaluation, &answer, err))
        return err->kind ? plan_question_status(arguments->plan, err) : 1;
    // A plan that is exported as it is was searched when it was made.
    if (!answer.best) answer.result = (struct search_result){.status = SEARCH_FEASIBLE};
    const struct plan_document document = {
        .request = &question,
        .evaluation = &evaluation,
        .search = &answer.result,
        .version = MESHWRIGHT_VERSION,
    };
    request.plan_text = plan_document_text(arena, &document);
    return write_files(arena, arguments, &request, err) ? 0 : exit_status(err);
}

int export_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {.launcher = "torchrun"};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan.json as `meshwright plan` writes it", NULL, 0,
         0},
        {"--to", OPTION_CHOICE, &arguments.target, "program that will run it", target_names(arena),
         0, 0},
        {"--launcher", OPTION_CHOICE, &arguments.launcher, "what starts it (default torchrun)",
         "torchrun|slurm|kubernetes|mpirun", 0, 0},
        {"--nearest", OPTION_FLAG, &arguments.nearest,
         "where the program cannot run the plan, the nearest that it can", NULL, 0, 0},
        {"-o", OPTION_OUTPUT, &arguments.folder, "folder of the files (default: as --to)", "DIR", 0,
         0},
        OPTION_FORCE_ROW,
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_check_folder(arguments.folder, err)) return exit_status(err);
    if (!arguments.folder) arguments.folder = arguments.target;
    if (arguments.target) return run(arena, &arguments, err);
    err_set(err, ERR_USAGE, "--to is missing: %s", target_names(arena));
    return exit_status(err);
}
