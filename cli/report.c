#include "cli/commands.h"
#include "cli/options.h"
#include "cli/plan_question.h"
#include "cli/report_files.h"
#include "core/version.h"
#include "reports/page_planner.h"
#include "reports/report_make.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    const char *plan, *kernels, *folder;
    const char *slow;
    struct int_range gpus;
    bool no_scaling, json;
};

// "17=1.2": rank 17 computes 1.2 times as long.
static bool read_slow(const char *text, struct report_options *options, struct err *err)
{
    if (!text) return true;
    char rank[32];
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : sizeof rank;
    if (length >= sizeof rank)
        return err_set(err, ERR_USAGE, "--slow: expected RANK=FACTOR, found \"%s\"", text);
    memcpy(rank, text, length);
    rank[length] = '\0';
    int64_t number = 0;
    if (!units_parse_i64(rank, "--slow", 0, INT32_MAX, &number, err) ||
        !units_parse_f64(equals + 1, "--slow", &options->slow_ratio, err))
        return false;
    options->slow_rank = (int)number;
    if (options->slow_ratio < 1 || options->slow_ratio > 1000)
        return err_set(err, ERR_USAGE, "--slow: expected a factor of 1 to 1000, found \"%s\"",
                       equals + 1);
    return true;
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct report_options options = {.no_scaling = arguments->no_scaling};
    if (arguments->gpus.set) {
        options.gpus_least = arguments->gpus.low;
        options.gpus_most = arguments->gpus.high;
    }
    if (!read_slow(arguments->slow, &options, err)) return exit_status(err);
    struct evaluation_request request = {0};
    struct report report = {.plan_path = arguments->plan, .version = MESHWRIGHT_VERSION};
    report.plan = plan_question(arena, arguments->plan, arguments->kernels, &request, err);
    if (!report.plan) return exit_status(err);
    report.request = &request;
    int64_t rank_count = parallel_rank_count(&request.parallel);
    if (options.slow_rank >= rank_count) {
        err_set(err, ERR_USAGE, "--slow: the plan has the ranks 0 to %lld, not %d",
                (long long)rank_count - 1, options.slow_rank);
        return exit_status(err);
    }
    if (!page_planner_load(arena, &report.planner, err)) return exit_status(err);

    struct arena scratch = {0};
    bool done = report_make(arena, &scratch, &options, &report, err);
    const struct report_facts *facts = done ? report_facts_make(arena, &scratch, &report) : NULL;
    arena_free(&scratch);
    if (!done) return plan_question_status(arguments->plan, err);
    if (arguments->json) return fputs(report_data(arena, facts), stdout), 0;
    return report_files_write(arena, facts, arguments->folder, err) ? 0 : exit_status(err);
}

int report_command(int argc, char **argv, struct err *err)
{
    struct arguments arguments = {.folder = "report"};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan.json as `meshwright plan` writes it", NULL, 0,
         0},
        {"-o", OPTION_TEXT, &arguments.folder,
         "folder of index.html and its figures, made if absent (default report)", "DIR", 0, 0},
        {"--slow", OPTION_TEXT, &arguments.slow,
         "one rank computes FACTOR times as long: what it costs, and the pipeline with it",
         "RANK=FACTOR", 0, 0},
        {"--gpus", OPTION_RANGE, &arguments.gpus,
         "GPU counts of the scaling curve (default an eighth of the plan's to eight times)", NULL,
         0, 0},
        {"--no-scaling", OPTION_FLAG, &arguments.no_scaling, "search no other numbers of GPUs",
         NULL, 0, 0},
        {"--kernels", OPTION_TEXT, &arguments.kernels,
         "measured kernels that override the formulas: a file or a shipped name", "NAME", 0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "print the page's data and write no files", NULL,
         0, 0},
        {0},
    };
    if (command_wants_help(argc, argv)) return options_print(stdout, "report", options), 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);

    struct arena arena = {0};
    int status = run(&arena, &arguments, err);
    arena_free(&arena);
    return status;
}
