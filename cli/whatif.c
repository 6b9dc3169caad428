#include "cli/whatif.h"

#include "cli/commands.h"
#include "core/file.h"
#include "core/progress.h"

#include <stdio.h>
#include <string.h>

static void show_progress(void *context, int done, int count)
{
    progress_show(context, "scenario %d of %d", done, count);
}

bool whatif_run(struct arena *arena, const struct scenario_request *request,
                const struct scenario *scenarios, int count, struct scenario_outcome *outcomes,
                struct err *err)
{
    struct progress progress = progress_start();
    struct scenario_request shown = *request;
    shown.progress = show_progress;
    shown.progress_context = &progress;
    double start_s = clock_s();
    bool done = scenarios_run(arena, &shown, scenarios, count, outcomes, err);
    double took_s = clock_s() - start_s;
    progress_end(&progress);
    if (done && progress.on) fprintf(stderr, "%d scenarios in %.1f s\n", count, took_s);
    return done;
}

static bool write_files(struct arena *arena, const struct whatif_arguments *arguments,
                        const struct whatif *whatif, struct err *err)
{
    if (!arguments->folder) return true;
    const struct file_text files[] = {
        {arena_print(arena, "%s/whatif.csv", arguments->folder), whatif_csv_text(arena, whatif)},
        {arena_print(arena, "%s/whatif.json", arguments->folder), whatif_json_text(arena, whatif)},
    };
    return file_write_all(files, sizeof files / sizeof *files, err);
}

static int answer(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    const struct whatif_arguments *arguments = job->arguments;
    struct sweep_points points;
    if (!sweep_points(arena, &job->sweep, &points, err)) return exit_status(err);
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, points.count);
    for (int i = 0; i < points.count; i++) {
        scenarios[i] = points.items[i].scenario;
    }
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, points.count);
    if (!whatif_run(arena, &job->request, scenarios, points.count, outcomes, err)) {
        return exit_status(err);
    }
    struct whatif whatif;
    if (!whatif_make(arena, &job->question, &job->sweep, &job->request, &points, outcomes, &whatif,
                     err)) {
        return exit_status(err);
    }
    const char *text = arguments->json ? whatif_json_text(arena, &whatif)
                       : arguments->csv
                           ? whatif_csv_text(arena, &whatif)
                           : whatif_table_text(arena, &whatif, arguments->top, &job->words);
    if (!write_files(arena, arguments, &whatif, err)) return exit_status(err);
    fputs(text, stdout);
    return whatif_best(&whatif) ? 0 : 1;
}

static int run(struct arena *arena, const struct whatif_arguments *arguments, int argc, char **argv,
               struct err *err)
{
    struct whatif_job job;
    if (arguments->json && arguments->csv) {
        err_set(err, ERR_USAGE, "--json and --csv exclude each other");
        return exit_status(err);
    }
    if (!whatif_job_make(arena, arguments, argc, argv, &job, err)) return exit_status(err);
    return answer(arena, &job, err);
}

int whatif_command(int argc, char **argv, struct err *err)
{
    struct whatif_arguments arguments = {.plan = plan_arguments_default(), .top = 20};
    struct option options[WHATIF_OPTION_COUNT] = {0};
    whatif_options(&arguments, options);
    if (command_wants_help(argc, argv)) return options_print(stdout, "whatif", options), 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    struct arena arena = {0};
    int status = run(&arena, &arguments, argc, argv, err);
    arena_free(&arena);
    return status;
}
