#include "cli/whatif.h"

#include "cli/commands.h"
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

static bool ask(struct arena *arena, const struct whatif_job *job, struct answered *answered,
                struct err *err)
{
    struct whatif_scaling asked = {0};
    if (!whatif_scaling_read(arena, job->arguments, &asked, err)) return false;
    if (asked.is_asked && !check_scaling(job, err)) return false;
    struct sweep_points *points = ARENA_NEW(arena, struct sweep_points, 1);
    if (!sweep_points(arena, &job->sweep, points, err)) return false;
    if (!whatif_check(&job->question, points, err)) return false;
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, points->count);
    for (int i = 0; i < points->count; i++) {
        scenarios[i] = points->items[i].scenario;
    }
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, points->count);
    if (!whatif_run(arena, &job->request, scenarios, points->count, outcomes, err)) return false;
    double ratio = 1;
    if (asked.calibrated.gpus > 0) {
        ratio = scaling_calibrate(points, &asked.calibrated, outcomes, err);
        if (ratio == 0) return false;
    }
    if (!whatif_make(arena, &job->question, &job->sweep, &job->request, points, outcomes,
                     &answered->whatif, err)) {
        return false;
    }
    answered->has_scaling = asked.is_asked;
    answered->scaling =
        (struct scaling){&answered->whatif, asked.measured, asked.calibrated, ratio};
    return true;
}

static int answer(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    const struct whatif_arguments *arguments = job->arguments;
    struct answered answered = {0};
    if (!ask(arena, job, &answered, err)) return exit_status(err);
    const struct whatif *whatif = &answered.whatif;
    const char *text = arguments->json  ? whatif_json_text(arena, whatif)
                       : arguments->csv ? whatif_csv_text(arena, whatif)
                       : answered.has_scaling
                           ? scaling_table_text(arena, &answered.scaling)
                           : whatif_table_text(arena, whatif, arguments->top, &job->words);
    const struct scaling *scaling = answered.has_scaling ? &answered.scaling : NULL;
    if (arguments->folder &&
        !whatif_write(arena, arguments->folder, whatif, scaling, &job->words, err)) {
        return exit_status(err);
    }
    fputs(text, stdout);
    if (arguments->folder && !arguments->json && !arguments->csv) {
        printf("Wrote %s/index.html, its plots, whatif.csv and whatif.json.\n", arguments->folder);
    }
    return whatif_best(whatif) ? 0 : 1;
}

static bool check_arguments(const struct whatif_arguments *arguments, struct err *err)
{
    if (arguments->json && arguments->csv) {
        return err_set(err, ERR_USAGE, "--json and --csv exclude each other");
    }
    if (arguments->min_gpus && arguments->largest_model) {
        return err_set(err, ERR_USAGE, "--min-gpus and --largest-model are two questions");
    }
    if (arguments->offers && arguments->clusters.count > 0) {
        return err_set(err, ERR_USAGE, "--offers takes the place of CLUSTER, found \"%s\" as well",
                       arguments->clusters.items[0]);
    }
    if (arguments->offers && (arguments->lists[SWEEP_GPUS] || arguments->lists[SWEEP_NODES])) {
        return err_set(err, ERR_USAGE, "--offers says itself how many GPUs there are");
    }
    if (arguments->min_gpus && arguments->lists[SWEEP_NODES]) {
        return err_set(err, ERR_USAGE, "--min-gpus looks for the size itself: --nodes has no say");
    }
    bool no_cluster = arguments->clusters.count == 0 && !arguments->offers;
    bool sizes = arguments->min_gpus || arguments->largest_model || no_cluster;
    bool limits = arguments->deadline || arguments->budget > 0 || arguments->scaling ||
                  arguments->calibrate || arguments->measured;
    if (arguments->largest_model && no_cluster) return err_set(err, ERR_USAGE, "missing CLUSTER");
    if (sizes && (limits || arguments->csv || arguments->folder)) {
        return err_set(err, ERR_USAGE, "%s",
                       no_cluster ? "missing CLUSTER"
                                  : "--min-gpus and --largest-model stand alone");
    }
    return true;
}

static int run(struct arena *arena, const struct whatif_arguments *arguments, int argc, char **argv,
               struct err *err)
{
    struct whatif_job job;
    if (!check_arguments(arguments, err)) return exit_status(err);
    if (!whatif_job_make(arena, arguments, argc, argv, &job, err)) return exit_status(err);
    if (arguments->largest_model) return whatif_largest(arena, &job, err);
    bool no_cluster = job.sweep.cluster_count == 0;
    if (!no_cluster && !arguments->min_gpus) return answer(arena, &job, err);
    const char *who = no_cluster ? "whatif without CLUSTER" : "--min-gpus";
    if (!check_lists(&job.sweep, who, err)) return exit_status(err);
    return no_cluster ? whatif_needs(arena, &job, err) : whatif_least(arena, &job, err);
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
