#include "cli/options.h"
#include "cli/output.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/file.h"
#include "reports/tables/plan_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct arguments {
    const char *plan, *trace, *folder;
    bool json;
};

static int end(const char *text, const char *json, bool as_json)
{
    if (as_json) return fputs(json, stdout), 0;
    console_print(stdout, text);
    return 0;
}

static const char *prediction_json(struct arena *arena, const struct table_plan *plan)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    table_prediction_write(&writer, &plan->request, &plan->prediction);
    json_close(&writer, '}');
    return writer.text;
}

static const char *memory_json(struct arena *arena, const struct table_plan *plan)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    table_memory_write(&writer, &plan->prediction);
    json_close(&writer, '}');
    return writer.text;
}

int tables_simulate_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {0};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan of a recommendation model", NULL, 0, 0},
        {"--trace", OPTION_OUTPUT, &arguments.trace,
         "write the timeline for Perfetto or chrome://tracing; packed where FILE ends in .gz",
         "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print {\"prediction\": {...}}", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&arguments.trace, err)) return exit_status(err);
    const struct table_plan *plan = table_plan_load(arena, arguments.plan, err);
    if (!plan) return exit_status(err);
    if (arguments.trace) {
        const struct trace trace = table_trace(arena, &plan->prediction);
        if (!trace_write(&trace, arguments.trace, err)) return exit_status(err);
    }
    end(table_step_text(arena, plan), prediction_json(arena, plan), arguments.json);
    return 0;
}

int tables_memory_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {0};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan of a recommendation model", NULL, 0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "print {\"memory\": {...}}", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    const struct table_plan *plan = table_plan_load(arena, arguments.plan, err);
    if (!plan) return exit_status(err);
    end(table_memory_text(arena, plan), memory_json(arena, plan), arguments.json);
    return !plan->prediction.fits;
}

static bool write_page(struct arena *arena, const struct table_plan *plan, const char *folder,
                       struct err *err)
{
    const char *page = table_page(arena, plan);
    if (strcmp(folder, "-") == 0) return fputs(page, stdout) >= 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return err_set(err, ERR_SYSTEM, "cannot make %s: %s", folder, strerror(errno));
    const char *path = arena_print(arena, "%s/index.html", folder);
    const char *said = output_said(arena, path);
    if (!file_write(path, page, strlen(page), err)) return false;
    console_printf(stdout, "%s\n", said);
    return true;
}

int tables_report_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {.folder = "report"};
    bool force = false;
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan of a recommendation model", NULL, 0, 0},
        {"-o", OPTION_TEXT, &arguments.folder,
         "folder of index.html, made if absent (default report); - prints the page", "DIR", 0, 0},
        {"--force", OPTION_FLAG, &force, "write into a folder that holds no report of ours", NULL,
         0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "print {\"prediction\": {...}}", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    bool is_page = strcmp(arguments.folder, "-") == 0;
    if (!is_page && !arguments.json && !force && !output_check(arguments.folder, err))
        return exit_status(err);
    const struct table_plan *plan = table_plan_load(arena, arguments.plan, err);
    if (!plan) return exit_status(err);
    if (arguments.json) return fputs(prediction_json(arena, plan), stdout), 0;
    return write_page(arena, plan, arguments.folder, err) ? 0 : exit_status(err);
}
