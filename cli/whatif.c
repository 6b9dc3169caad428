#include "cli/whatif.h"

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/plain.h"
#include "core/progress.h"
#include "planner/batch.h"
#include "reports/whatif/whatif_refine.h"

#include <stdio.h>
#include <string.h>

static void show_progress(void *context, int done, int count)
{
    char left[PROGRESS_LEFT_BYTES];
    progress_show(context, "scenario %d of %d%s", done, count,
                  progress_left(context, (double)done / count, left));
}

// scenarios_run with a progress line, and on stderr how long it took.
static bool whatif_run(struct arena *arena, const struct scenario_request *request,
                       const struct scenario *scenarios, int count,
                       struct scenario_outcome *outcomes, struct err *err)
{
    struct progress progress = progress_start();
    struct scenario_request shown = *request;
    shown.progress = show_progress;
    shown.progress_context = &progress;
    shown.stop = interrupt_catch();
    double start_s = clock_s();
    bool done = scenarios_run(arena, &shown, scenarios, count, outcomes, err);
    double took_s = clock_s() - start_s;
    interrupt_release();
    bool was_shown = progress.on;
    progress_end(&progress);
    if (done && was_shown) console_printf(stderr, "%d scenarios in %.1f s\n", count, took_s);
    return done;
}

void whatif_batch_note(struct arena *arena, const struct whatif_job *job, int64_t batch)
{
    struct workload workload = job->sweep.workload;
    workload.global_batch = batch;
    const char *warning = batch_warning(arena, &workload);
    if (warning) console_printf(stderr, "warning: %s\n", warning);
}

// The largest batch that was asked for; those that nobody named are told of with the answer.
static void note_points(struct arena *arena, const struct whatif_job *job,
                        const struct sweep_points *points)
{
    int64_t largest = 0;
    for (int i = 0; i < points->count; i++) {
        int64_t batch = points->items[i].scenario.workload.global_batch;
        if (batch > largest && !sweep_batch_is_past(&job->sweep, batch)) largest = batch;
    }
    whatif_batch_note(arena, job, largest);
}

// Nothing beside the size of the cluster is swept; `who` asks.
static bool check_lists(const struct sweep *sweep, const char *who, struct err *err)
{
    for (int axis = SWEEP_SEQ_LEN; axis < SWEEP_AXIS_COUNT; axis++) {
        if (sweep->axes[axis].count < 2) continue;
        return err_set(err, ERR_USAGE, "%s sweeps the GPUs alone, and %s is a list", who,
                       sweep_option((enum sweep_axis)axis));
    }
    return true;
}

static bool check_scaling(const struct whatif_job *job, struct err *err)
{
    if (job->sweep.cluster_count != 1) {
        return err_set(err, ERR_USAGE, "--scaling is of one cluster, found %d",
                       job->sweep.cluster_count);
    }
    return check_lists(&job->sweep, "--scaling", err);
}

// What was asked, run and judged.
struct answered {
    struct whatif whatif;
    struct scaling scaling;
    bool has_scaling;
};

static bool run_points(struct arena *arena, const struct scenario_request *request,
                       const struct sweep_points *points, struct scenario_outcome *outcomes,
                       struct err *err)
{
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, points->count);
    for (int i = 0; i < points->count; i++) {
        scenarios[i] = points->items[i].scenario;
    }
    return whatif_run(arena, request, scenarios, points->count, outcomes, err);
}

static bool make(struct arena *arena, const struct whatif_job *job,
                 const struct sweep_points *points, const struct scenario_outcome *outcomes,
                 struct whatif *whatif, struct err *err)
{
    return whatif_make(arena, &job->question, &job->sweep, &job->request, points, outcomes, whatif,
                       err);
}

// Behind those that there are.
static bool add_points(struct arena *arena, const struct whatif_job *job,
                       const struct sweep_points *more, struct sweep_points *points,
                       struct scenario_outcome **outcomes, struct err *err)
{
    int count = points->count, all = count + more->count;
    struct sweep_point *items = ARENA_NEW(arena, struct sweep_point, all);
    struct scenario_outcome *results = ARENA_NEW(arena, struct scenario_outcome, all);
    memcpy(items, points->items, (size_t)count * sizeof *items);
    memcpy(items + count, more->items, (size_t)more->count * sizeof *items);
    memcpy(results, *outcomes, (size_t)count * sizeof *results);
    struct scenario_request request = job->request;
    request.nothing = SEARCH_FITS_ONLY;  // why one of them fits nowhere is not told
    if (!run_points(arena, &request, more, results + count, err)) return false;
    for (int i = count; i < all; i++) {
        bool is_slow = results[i].status == SCENARIO_NOTHING_FITS && !results[i].reason;
        if (is_slow) results[i].reason = "no plan that fits is fast enough to be the answer";
    }
    *points = (struct sweep_points){items, all};
    *outcomes = results;
    return true;
}

// Sizes between those of a range, until none of them can be better.
static bool refine(struct arena *arena, const struct whatif_job *job, struct sweep_points *points,
                   struct scenario_outcome *outcomes, struct whatif *whatif, struct err *err)
{
    int first_count = points->count, untried = 0;
    for (bool is_first = true;; is_first = false) {
        struct sweep_points more;
        if (!whatif_between(arena, whatif, is_first, &more, &untried, err)) return false;
        if (more.count == 0) break;
        if (!add_points(arena, job, &more, points, &outcomes, err)) return false;
        if (!make(arena, job, points, outcomes, whatif, err)) return false;
    }
    whatif->is_refined = true;
    whatif->between_count = points->count - first_count;
    whatif->untried_count = untried;
    return true;
}

static bool ask(struct arena *arena, const struct whatif_job *job, struct answered *answered,
                struct err *err)
{
    struct whatif_scaling asked = {0};
    if (!whatif_scaling_read(arena, job->arguments, &asked, err)) return false;
    if (asked.is_asked && !check_scaling(job, err)) return false;
    struct sweep_points *points = ARENA_NEW(arena, struct sweep_points, 1);
    if (!sweep_points(arena, &job->sweep, points, err)) return false;
    if (!whatif_check(&job->question, points, err)) return false;
    note_points(arena, job, points);
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, points->count);
    if (!run_points(arena, &job->request, points, outcomes, err)) return false;
    double ratio = 1;
    if (asked.calibrated.gpus > 0) {
        ratio = scaling_calibrate(points, &asked.calibrated, outcomes, err);
        if (ratio == 0) return false;
    }
    struct whatif *whatif = &answered->whatif;
    if (!make(arena, job, points, outcomes, whatif, err)) return false;
    bool refines = job->refines && !asked.is_asked && points->count <= WHATIF_REFINED_ROWS_MAX;
    if (refines && !refine(arena, job, points, outcomes, whatif, err)) {
        return false;
    }
    answered->has_scaling = asked.is_asked;
    answered->scaling = (struct scaling){whatif, asked.measured, asked.calibrated, ratio};
    return true;
}

static int answer(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    const struct whatif_arguments *arguments = job->arguments;
    struct answered answered = {0};
    if (!ask(arena, job, &answered, err)) return exit_status(err);
    const struct whatif *whatif = &answered.whatif;
    if (interrupt_seen() && !whatif_best(whatif)) {
        console_print(stderr,
                      "meshwright whatif: stopped by SIGINT before a plan was found that fits\n");
        return INTERRUPT_STATUS;
    }
    const struct scaling *scaling = answered.has_scaling ? &answered.scaling : NULL;
    const char *text = arguments->json  ? whatif_json_text(arena, whatif, scaling)
                       : arguments->csv ? whatif_csv_text(arena, whatif)
                       : answered.has_scaling
                           ? scaling_table_text(arena, &answered.scaling, &job->words)
                           : whatif_table_text(arena, whatif, arguments->top, &job->words);
    const char *folder = job->words.folder;
    bool is_page = arguments->folder && !folder;
    const char *said =
        folder ? output_said(arena, arena_print(arena, "%s/index.html", folder)) : "";
    if (folder && !whatif_write(arena, folder, whatif, scaling, &job->words, err)) {
        return exit_status(err);
    }
    bool is_data = arguments->json || arguments->csv;
    if (is_page) {
        whatif_print_page(arena, whatif, scaling, &job->words);
    } else if (is_data) {
        fputs(text, stdout);
    } else {
        console_print(stdout, text);
    }
    if (folder && !is_data) {
        console_printf(stdout, "%s, its plots, whatif.csv and whatif.json.\n", said);
    }
    if (interrupt_seen()) {
        console_print(stderr,
                      "note: stopped by SIGINT: the best of the scenarios searched so far\n");
        return INTERRUPT_STATUS;
    }
    return whatif_best(whatif) ? 0 : 1;
}

// The command line, for whoever wants the same page again.
static const char *command_text(struct arena *arena, int argc, char **argv)
{
    const char *text = "meshwright whatif";
    for (int i = 1; i < argc; i++)
        text = arena_print(arena, "%s %s", text, plain_shell(arena, argv[i]));
    return text;
}

static int run(struct arena *arena, const struct whatif_arguments *arguments, int argc, char **argv,
               struct err *err)
{
    struct whatif_job job;
    if (!whatif_modes_check(arguments, argc, argv, err)) return exit_status(err);
    if (!whatif_job_make(arena, arguments, argc, argv, &job, err)) return exit_status(err);
    job.words.command = command_text(arena, argc, argv);
    if (arguments->largest_model) return whatif_largest(arena, &job, err);
    if (arguments->tensor_kinds) return whatif_kinds(arena, &job, err);
    if (arguments->releases) return whatif_releases(arena, &job, err);
    bool no_cluster = job.sweep.cluster_count == 0;
    if (!no_cluster && !arguments->min_gpus) return answer(arena, &job, err);
    const char *who = no_cluster ? "whatif without CLUSTER" : "--min-gpus";
    if (!check_lists(&job.sweep, who, err)) return exit_status(err);
    return no_cluster ? whatif_needs(arena, &job, err) : whatif_least(arena, &job, err);
}

int whatif_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_are_asked(argc, argv, err)) return tables_whatif_command(arena, argc, argv, err);
    if (err->kind) return exit_status(err);
    struct whatif_arguments arguments = {.plan = plan_arguments_default(), .top = 20};
    struct option options[WHATIF_OPTION_COUNT] = {0};
    whatif_options(&arguments, options);
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    return run(arena, &arguments, argc, argv, err);
}
