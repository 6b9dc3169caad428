#include "cli/bench_history.h"
#include "cli/commands.h"
#include "cli/inject_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_options.h"
#include "cli/plan_question.h"
#include "cli/report_files.h"
#include "cli/tables.h"
#include "core/plain.h"
#include "core/progress.h"
#include "core/version.h"
#include "reports/page/page_planner.h"
#include "reports/page/report_make.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    const char *plan, *kernels, *folder, *measured, *history;
    struct int_range gpus;
    double tokens;
    struct inject_arguments inject;
    struct reliability_arguments reliability;
    struct price_arguments price;
    bool no_scaling, json, force;
};

static void show_progress(void *context, int done, int count)
{
    char left[PROGRESS_LEFT_BYTES];
    progress_show(context, "%d of %d numbers of GPUs searched%s", done, count,
                  progress_left(context, (double)done / count, left));
}

// The command line without where its answer went: what makes the same page again.
static const char *command_text(struct arena *arena, int argc, char **argv)
{
    const char *text = "meshwright report";
    for (int i = 1; i < argc; i++) {
        bool is_folder = strcmp(argv[i], "-o") == 0;
        if (is_folder) i++;
        if (is_folder || strcmp(argv[i], "--force") == 0 || strcmp(argv[i], "--json") == 0)
            continue;
        text = arena_print(arena, "%s %s", text, plain_shell(arena, argv[i]));
    }
    return text;
}

static int run(struct arena *arena, const struct arguments *arguments, const char *command,
               struct err *err)
{
    struct injection injection;
    if (!inject_read(arena, &arguments->inject, &injection, err)) return exit_status(err);
    struct progress progress = progress_start();
    struct report_options options = {.no_scaling = arguments->no_scaling,
                                     .progress = show_progress,
                                     .progress_context = &progress};
    if (arguments->gpus.set) {
        options.gpus_least = arguments->gpus.low;
        options.gpus_most = arguments->gpus.high;
    }
    struct evaluation_request request = {0};
    struct report report = {
        .plan_path = arguments->plan, .command = command, .version = MESHWRIGHT_VERSION};
    report.plan = plan_question(arena, arguments->plan, arguments->kernels, &request, err);
    if (!report.plan) return exit_status(err);
    if (!plan_override(arena, arguments->tokens, &arguments->reliability, &arguments->price,
                       &request, err))
        return exit_status(err);
    report.request = &request;
    if (arguments->history) {
        const char *hash = run_plan_hash(arena, report.plan->document.document->text);
        report.history = bench_report(arena, arguments->history, hash, err);
        if (!report.history) return exit_status(err);
    }
    if (!page_planner_load(arena, &report.planner, err)) return exit_status(err);

    struct arena scratch = {0};
    bool is_made = report_make(arena, &scratch, &options, &report, err);
    progress_end(&progress);
    bool done = is_made &&
                (!arguments->measured ||
                 report_measured(arena, &scratch, arguments->measured, &report, err)) &&
                (!inject_is_asked(&arguments->inject) ||
                 report_inject(arena, &scratch, &injection, &report, err));
    const struct report_facts *facts = done ? report_facts_make(arena, &scratch, &report) : NULL;
    arena_free(&scratch);
    if (!is_made) return plan_question_status(arguments->plan, err);
    if (!done) return exit_status(err);
    if (arguments->json) return fputs(report_data(arena, facts), stdout), 0;
    if (strcmp(arguments->folder, "-") == 0) return fputs(report_page(arena, facts), stdout), 0;
    return report_files_write(arena, facts, arguments->folder, err) ? 0 : exit_status(err);
}

int report_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_plan_is_asked(argc, argv, err)) return tables_report_command(arena, argc, argv, err);
    if (err->kind) return exit_status(err);
    struct arguments arguments = {.folder = "report",
                                  .reliability = reliability_arguments_default()};
    const struct option rows[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan.json as `meshwright plan` writes it", NULL, 0,
         0},
        {"-o", OPTION_TEXT, &arguments.folder,
         "folder of index.html and its figures, made if absent (default report); - prints the page",
         "DIR", 0, 0},
        {"--run", OPTION_TEXT, &arguments.measured,
         "run.json of this plan: measured beside predicted, stragglers, the critical path", "FILE",
         0, 0},
        {"--history", OPTION_TEXT, &arguments.history,
         "folder of `bench --save`: how long a step of this plan took, call by call", "DIR", 0, 0},
        {"--force", OPTION_FLAG, &arguments.force,
         "write into a folder that holds no report of ours", NULL, 0, 0},
        {"--gpus", OPTION_RANGE, &arguments.gpus,
         "GPU counts of the scaling curve (default an eighth of the plan's to eight times)", NULL,
         0, 0},
        {"--no-scaling", OPTION_FLAG, &arguments.no_scaling, "search no other numbers of GPUs",
         NULL, 0, 0},
        {"--kernels", OPTION_TEXT, &arguments.kernels,
         "measured kernels that override the formulas: a file or a shipped name", "NAME", 0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "print the page's data and write no files", NULL,
         0, 0},
        {"--tokens", OPTION_F64, &arguments.tokens,
         "to train in all, for time and money to finish (default: as planned)", "N",
         PLAN_TOKENS_LOW, PLAN_TOKENS_HIGH},
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
    bool is_page = strcmp(arguments.folder, "-") == 0;
    if (!is_page && !arguments.json && !arguments.force && !output_check(arguments.folder, err)) {
        return exit_status(err);
    }

    return run(arena, &arguments, command_text(arena, argc, argv), err);
}
