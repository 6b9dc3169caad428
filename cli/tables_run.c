#include "cli/options.h"
#include "cli/output.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/file.h"
#include "core/table.h"
#include "executor/launcher/launch.h"
#include "executor/tables/table_run.h"
#include "plan/tables/unexecuted.h"
#include "reports/tables/plan_file.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    const char *plan, *output;
    int steps;
    int64_t seed;
    double learning_rate;
    bool json, spawn;
};

struct job {
    const struct arguments *arguments;
    const struct table_plan *plan;
    struct launch_place place;
    struct heartbeat_page *page;
};

// In double precision, all ranks on this host.
static bool check(struct arena *arena, const struct table_plan *plan, struct err *err)
{
    const char *why = table_unexecuted(plan->placement, &plan->request.workload);
    if (why) return err_set(err, ERR_USAGE, "%s", why);
    double numbers = (double)recommender_table_parameters(plan->request.model);
    double bytes = 2 * numbers * sizeof(double);
    double here = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes <= 0.8 * here ||
           err_set(err, ERR_USAGE,
                   "tables and their state take %s in double precision, this host has %s",
                   units_bytes(arena, bytes), units_bytes(arena, here));
}

static double predicted_count(const struct table_plan *plan, enum table_task task)
{
    double sum = 0;
    int ranks = plan->placement->rank_count;
    for (int rank = 0; rank < ranks; rank++) {
        const struct table_traffic traffic =
            placement_traffic(plan->placement, &plan->request.workload, rank);
        sum += task == TABLE_TASK_IDS         ? traffic.ids
               : task == TABLE_TASK_SUMS      ? traffic.sums
               : task == TABLE_TASK_GRADIENTS ? traffic.gradients
               : task == TABLE_TASK_NORMS     ? traffic.norms
                                              : 0;
    }
    bool reduces = task == TABLE_TASK_REDUCE && ranks > 1;
    return reduces ? (double)ranks * (double)placement_dense_elements(plan->placement) : sum;
}

static double width_of(const struct table_plan *plan, enum table_task task)
{
    return task == TABLE_TASK_IDS ? table_id_bytes(plan->request.model)
                                  : table_exchange_bytes(plan->request.workload.precision);
}

static double mean_step_s(const struct arguments *arguments, const struct table_run_result *result)
{
    double sum_s = 0;
    for (int step = 0; step < arguments->steps; step++)
        sum_s += result->step_s[step];
    return sum_s / arguments->steps;
}

static const char *json_of(struct arena *arena, const struct job *job,
                           const struct table_run_result *result)
{
    const struct arguments *arguments = job->arguments;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "kind", "recommendation-run");
    json_put_text(&writer, "model", job->plan->request.model->name);
    json_put_i64(&writer, "ranks", job->plan->placement->rank_count);
    json_put_i64(&writer, "seed", arguments->seed);
    json_put_f64(&writer, "predicted_step_s", job->plan->prediction.step_s);
    json_put_f64s(&writer, "step_s", result->step_s, arguments->steps);
    json_put_f64s(&writer, "loss", result->loss, arguments->steps);
    json_open(&writer, "tasks", '[');
    for (int t = 0; t < TABLE_TASK_COUNT; t++) {
        enum table_task task = (enum table_task)t;
        double width = width_of(job->plan, task);
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "task", table_task_name(task));
        json_put_f64(&writer, "predicted_bytes", predicted_count(job->plan, task) * width);
        json_put_f64(&writer, "bytes", result->received_by_all[t] / arguments->steps * width);
        json_put_f64(&writer, "predicted_s", job->plan->prediction.spans[t].s);
        json_put_f64(&writer, "s", result->task_s[t] / arguments->steps);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}

static const char *text_of(struct arena *arena, const struct job *job,
                           const struct table_run_result *result)
{
    const struct arguments *arguments = job->arguments;
    struct table table = table_new(arena, "lrrrr");
    table_row(&table, (const char *[]){"task", "predicted", "measured", "predicted bytes",
                                       "counted bytes"});
    for (int t = 0; t < TABLE_TASK_COUNT; t++) {
        enum table_task task = (enum table_task)t;
        double count = predicted_count(job->plan, task), width = width_of(job->plan, task);
        double found = result->received_by_all[t] / arguments->steps;
        bool talks = table_task_talks(task);
        table_row(&table,
                  (const char *[]){table_task_name(task),
                                   units_seconds(arena, job->plan->prediction.spans[t].s),
                                   units_seconds(arena, result->task_s[t] / arguments->steps),
                                   talks ? arena_print(arena, "%.0f", count * width) : "",
                                   talks ? arena_print(arena, "%.0f", found * width) : ""});
    }
    return arena_print(arena,
                       "\n%s\nStep: predicted %s, measured %s (mean of %d), double precision on %d "
                       "ranks; bytes a step, of all ranks, as the plan's numbers are wide\n",
                       table_text(&table), units_seconds(arena, job->plan->prediction.step_s),
                       units_seconds(arena, mean_step_s(arguments, result)), arguments->steps,
                       job->place.rank_count);
}

static void report_step(void *context, int step, double loss, double step_s)
{
    const struct job *job = context;
    struct arena arena = {0};
    if (job->place.rank == 0 && !job->arguments->json)
        console_printf(stdout, "step %d  loss %.12f  %s\n", step + 1, loss,
                       units_seconds(&arena, step_s));
    arena_free(&arena);
}

static bool answer(struct arena *arena, const struct job *job,
                   const struct table_run_result *result, struct err *err)
{
    const struct arguments *arguments = job->arguments;
    const char *json = json_of(arena, job, result);
    const char *said = arguments->output ? output_said(arena, arguments->output) : "";
    if (arguments->output && !file_write(arguments->output, json, strlen(json), err)) return false;
    if (arguments->json) return fputs(json, stdout), true;
    console_print(stdout, text_of(arena, job, result));
    if (*said) console_printf(stdout, "%s\n", said);
    return true;
}

static bool train(struct arena *arena, struct job *job, struct err *err)
{
    const struct backend *backend = backend_open("cpu-fp64", err);
    struct device *device = NULL;
    if (!backend) return false;
    assert(backend->real_bytes == sizeof(double));
    const char *failure = backend->open(0, &device);
    if (failure) return err_set(err, ERR_SYSTEM, "cannot open a device: %s", failure);
    struct heartbeat *heartbeat = job->page ? heartbeat_of(job->page, job->place.rank) : NULL;
    const struct communicator_request asked = {
        .kind = job->place.memory_name ? TRANSPORT_HOST : TRANSPORT_AUTO,
        .backend = backend,
        .device = device,
        .rank = job->place.rank,
        .rank_count = job->place.rank_count,
        .host_name = job->place.memory_name,
        .local_rank = job->place.local_rank,
        .heartbeat = heartbeat,
    };
    struct communicator *communicator = NULL;
    const struct transport *transport = communicator_open(&asked, &communicator, err);
    struct table_run_result result;
    if (transport) {
        const struct table_run_request request = {
            .placement = job->plan->placement,
            .workload = &job->plan->request.workload,
            .transport = transport,
            .communicator = communicator,
            .rank = job->place.rank,
            .step_count = job->arguments->steps,
            .seed = job->arguments->seed,
            .learning_rate = job->arguments->learning_rate,
            .report = report_step,
            .context = job,
        };
        if (heartbeat) atomic_store(&heartbeat->state, HEARTBEAT_WORKING);
        failure = table_run(arena, &request, &result);
        if (failure) err_set(err, ERR_SYSTEM, "rank %d: %s", job->place.rank, failure);
        if (failure) transport->abort(communicator, failure);
        if (!failure && job->place.rank == 0 && !answer(arena, job, &result, err))
            transport->abort(communicator, err->text);
        if (heartbeat)
            atomic_store(&heartbeat->state, err->kind ? HEARTBEAT_FAILED : HEARTBEAT_DONE);
        transport->close(communicator);
    }
    backend->close(device);
    return !err->kind;
}

static int launch(struct arena *arena, const struct job *job, int argc, char **argv,
                  struct err *err)
{
    // Longer than any step of what fits here may take: a rank counts no pieces of its work.
    const double stuck_s = 600;
    char **whole = ARENA_NEW(arena, char *, argc + 3), binary[] = "meshwright";
    whole[0] = binary;
    memcpy(whole + 1, argv, (size_t)argc * sizeof *argv);
    const struct launch_request request = {
        .rank_count = job->plan->placement->rank_count,
        .argv = whole,
        .argc = argc + 1,
        .stuck_s = stuck_s,
        .spawns = true,
    };
    int status = 0;
    return launch_job(&request, &status, err) ? status : exit_status(err);
}

static int run(struct arena *arena, struct job *job, int argc, char **argv, struct err *err)
{
    int status = 0;
    if (job->place.is_launched && !launch_enter(&job->place, &job->page, &status, err))
        return err->kind ? exit_status(err) : status;
    job->plan = table_plan_load(arena, job->arguments->plan, err);
    if (job->plan && check(arena, job->plan, err)) {
        int ranks = job->plan->placement->rank_count;
        if (!job->place.is_launched && ranks > 1) return launch(arena, job, argc, argv, err);
        if (job->place.rank_count != ranks) {
            err_set(err, ERR_USAGE, "the plan has %d ranks, the launcher started %d", ranks,
                    job->place.rank_count);
        } else if (train(arena, job, err)) {
            heartbeat_page_close(job->page);
            return 0;
        }
    }
    status = exit_status(err);
    if (job->page) launch_tell(job->page, job->place.rank, LAUNCH_ALONE, err);
    heartbeat_page_close(job->page);
    return status;
}

int tables_run_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = {.steps = 10, .seed = 1, .learning_rate = 0.005};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan of a recommendation model", NULL, 0, 0},
        {"--steps", OPTION_INT, &arguments.steps, "steps to train (default 10)", NULL, 1, 1e9},
        {"--seed", OPTION_I64, &arguments.seed, "of weights, features and ids (default 1)", NULL, 0,
         1e15},
        {"--lr", OPTION_F64, &arguments.learning_rate, "learning rate (default 0.005)", NULL, 1e-12,
         1e3},
        {"--spawn", OPTION_FLAG, &arguments.spawn, "start the ranks here, as is done anyway", NULL,
         0, 0},
        {"-o", OPTION_OUTPUT, &arguments.output, "write all that was measured", "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print what -o writes instead of the table", NULL,
         0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (arguments.output && strcmp(arguments.output, "-") == 0) {
        arguments.output = NULL;
        arguments.json = true;
    }
    struct job job = {.arguments = &arguments, .place = launch_place_find()};
    return run(arena, &job, argc, argv, err);
}
