#include "cli/commands.h"
#include "cli/output.h"
#include "cli/plan_options.h"
#include "core/console.h"
#include "core/file.h"
#include "reports/machine/measure_script.h"
#include "reports/table/measure_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct asked {
    struct plan_arguments plan;
    int count;
    int64_t seed;
    const char *path;
    bool json;
};

static int run(struct arena *arena, struct asked *asked, struct err *err)
{
    struct search_request request = {0};
    struct search_result result = {0};
    struct measure_next next;
    if (!plan_request(arena, &asked->plan, &request, err) ||
        !search_plans(arena, &request, &result, err))
        return exit_status(err);
    if (result.best_count == 0) {
        console_printf(stderr, "meshwright measure-next: no plan fits; meshwright plan says why\n");
        return 1;
    }
    if (!measure_next_make(arena, &request, &result, asked->count, (uint64_t)asked->seed, &next,
                           err))
        return exit_status(err);
    if (asked->path) {
        const char *text = measure_script_text(arena, &request, &result, &next, err);
        const char *noted = output_noted(arena, asked->path);
        if (!text || !file_write(asked->path, text, strlen(text), err)) return exit_status(err);
        console_print(stderr, noted);
    }
    if (asked->json)
        fputs(measure_json_text(arena, &next), stdout);
    else
        console_print(stdout, measure_text(arena, &next));
    return 0;
}

int measure_next_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct asked asked = {.plan = plan_arguments_default(), .count = 3, .seed = 1};
    struct option options[PLAN_OPTION_COUNT + 7] = {0};
    asked.plan.top = 50;
    int count = plan_options(&asked.plan, options);
    const struct option rows[] = {
        {"Measuring", OPTION_GROUP, NULL, "among the plans of --top (here 50 by default)", NULL, 0,
         0},
        {"--count", OPTION_INT, &asked.count, "benchmarks to name (default 3)", "N", 1,
         MEASURE_KIND_COUNT},
        {"--seed", OPTION_I64, &asked.seed, "of the draws of constants (default 1)", "N", 0, 0},
        {"-o", OPTION_OUTPUT, &asked.path, "write them as a script of PyTorch", "FILE.py", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &asked.json, "print an object instead of the table", NULL, 0, 0},
    };
    assert((size_t)count + sizeof rows / sizeof *rows < sizeof options / sizeof *options);
    memcpy(options + count, rows, sizeof rows);
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err) || !output_take_stdout(&asked.path, err))
        return exit_status(err);
    return run(arena, &asked, err);
}
