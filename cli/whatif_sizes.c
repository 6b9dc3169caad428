#include "cli/whatif.h"
#include "core/console.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/table.h"
#include "core/units.h"
#include "models/scaled.h"
#include "planner/choice.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_needs.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_placed.h"

#include <stdio.h>
#include <string.h>

// Beyond this no shipped model is: enough for 1 T parameters on 24 GB.
static const int64_t GPUS_MOST = 4096;

static bool is_known(const struct cluster *const *clusters, int count, const struct device *device)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(clusters[i]->nodes[0].device->name, device->name) == 0) return true;
    }
    return false;
}

// A shipped cluster for every device that trains in this precision, by name.
static const struct cluster **shipped(struct arena *arena, const struct whatif_arguments *arguments,
                                      const struct whatif_job *job, int *count, struct err *err)
{
    enum precision precision = job->sweep.workload.precision;
    int name_count = 0;
    const char **names = file_list_data(arena, "topologies", &name_count);
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, name_count);
    *count = 0;
    for (int i = 0; i < name_count; i++) {
        struct cluster *cluster = cluster_load(arena, names[i], err);
        if (!cluster) return NULL;
        reliability_apply(&arguments->plan.reliability, &cluster->failures);
        const struct device *device = cluster->nodes[0].device;
        if (device->peak_flop_per_s[precision] <= 0) continue;
        if (!is_known(clusters, *count, device)) clusters[(*count)++] = cluster;
    }
    return price_apply(arena, &arguments->plan.price, clusters, *count, err) ? clusters : NULL;
}

int whatif_needs(struct arena *arena, struct whatif_job *job, struct err *err)
{
    const struct whatif_arguments *arguments = job->arguments;
    job->request.fabrics = fabrics_load(arena, err);
    if (!job->request.fabrics) return exit_status(err);
    int count = 0;
    const struct cluster **clusters = shipped(arena, arguments, job, &count, err);
    if (!clusters) return exit_status(err);
    if (count > 0 && !whatif_stack(arena, job, clusters, count, err)) return exit_status(err);
    struct model_needs needs;
    if (count == 0 ||
        !model_needs_find(&job->request, clusters[0], &job->sweep.workload, &needs, err)) {
        if (!err->kind) err_set(err, ERR_USAGE, "no shipped device trains in this precision");
        return exit_status(err);
    }
    needs.word = arguments->plan.model;
    struct device_needs *devices = ARENA_NEW(arena, struct device_needs, count);
    struct progress progress = progress_start();
    int64_t batch = 0;
    for (int i = 0; i < count; i++) {
        progress_show(&progress, "device %d of %d", i + 1, count);
        if (!device_needs_find(arena, &job->request, &job->sweep, &needs, clusters[i], GPUS_MOST,
                               &devices[i], err)) {
            progress_end(&progress);
            return exit_status(err);
        }
        if (devices[i].least.batch > batch) batch = devices[i].least.batch;
    }
    progress_end(&progress);
    whatif_batch_note(arena, job, batch);
    if (arguments->json) {
        fputs(model_needs_json(arena, &needs, devices, count), stdout);
    } else {
        console_print(stdout, model_needs_text(arena, &needs, devices, count));
    }
    return 0;
}

static void write_least(struct json_writer *writer, const struct stack *stack, const char *name,
                        const struct least_gpus *found)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "cluster", name);
    json_put_i64(writer, "tried_gpus", found->tried);
    if (found->cluster) {
        const struct scenario_outcome *outcome = &found->outcome;
        json_put_i64(writer, "least_gpus", found->cluster->rank_count);
        json_put_text(writer, "layout",
                      parallel_text(writer->arena, &outcome->best.parallel, stack));
        json_put_i64(writer, "reserved_bytes", outcome->prediction.reserved_bytes);
        json_put_f64(writer, "step_s", outcome->prediction.step_s);
    }
    json_close(writer, '}');
}

static void print_least(struct arena *arena, const struct stack *stack, struct table *table,
                        struct layout_legend *legend, const char *name,
                        const struct cluster *cluster, const struct least_gpus *found)
{
    const struct scenario_outcome *outcome = &found->outcome;
    bool fits = found->cluster != NULL;
    if (fits) cluster = found->cluster;  // its memory may be scaled
    const char *cells[] = {
        name,
        fits ? arena_print(arena, "%d", found->cluster->rank_count)
             : arena_print(arena, "> %lld", (long long)found->tried),
        fits ? units_bytes(arena, (double)outcome->prediction.reserved_bytes) : "-",
        units_bytes(arena, (double)cluster_device_bytes(cluster)),
        fits ? arena_print(arena, "%.4g", outcome->prediction.step_s) : "-",
        fits ? parallel_text(arena, &outcome->best.parallel, stack) : least_gpus_none(found)};
    if (fits) layout_legend_meet(legend, &outcome->best.parallel, stack);
    table_row(table, cells);
}

int whatif_least(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    static const char *const HEADS[] = {"cluster", "GPUs", "needs", "of", "step s", "layout"};
    const struct sweep *sweep = &job->sweep;
    struct table table = table_new(arena, "lrrrrl");
    struct layout_legend legend = {0};
    struct json_writer writer = {.arena = arena};
    bool any = false;
    int64_t batch = 0;
    table_row(&table, HEADS);
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", job->request.model->name);
    json_open(&writer, "clusters", '[');
    for (int i = 0; i < sweep->cluster_count; i++) {
        const struct cluster *cluster = sweep->clusters[i];
        struct least_gpus found;
        if (!least_gpus_find(arena, &job->request, sweep, cluster, &sweep->axes[SWEEP_GPUS],
                             GPUS_MOST, &found, err)) {
            return exit_status(err);
        }
        any = any || found.cluster;
        if (found.batch > batch) batch = found.batch;
        const char *name = sweep_cluster_name(arena, sweep, i);
        print_least(arena, job->request.stack, &table, &legend, name, cluster, &found);
        write_least(&writer, job->request.stack, name, &found);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    whatif_batch_note(arena, job, batch);
    if (job->arguments->json) {
        printf("%s\n", writer.text);
    } else {
        console_printf(
            stdout, "%s, seq %lld, %s: the smallest number of GPUs that a plan fits on\n%s%s",
            model_config_text(arena, job->request.model), (long long)sweep->workload.seq_len,
            precision_name(sweep->workload.precision), table_text(&table),
            layout_legend_text(arena, &legend));
    }
    return any ? 0 : 1;
}

static void print_largest(struct arena *arena, const struct sweep_point *point,
                          const struct whatif_job *job, const struct largest_model *found,
                          bool has_nvme)
{
    const struct scenario *scenario = &point->scenario;
    static const char *const HEADS[] = {"memory", "parameters", "heads", "moved",
                                        "step s", "times",      "layout"};
    struct err none = {0};
    int64_t step = model_scale_step(job->request.model, &none);
    struct table table = table_new(arena, "lrrlrrl");
    struct layout_legend legend = {0};
    table_row(&table, HEADS);
    for (int tier = 0; tier < CAPACITY_COUNT; tier++) {
        const char *cells[] = {capacity_name((enum capacity)tier), "-", "-", "-", "-", "-",
                               "not even the smallest fits"};
        bool is_there = tier != CAPACITY_NVME || has_nvme;
        if (!is_there) cells[6] = "the hosts have none";
        if (is_there && found->tiers[tier].model) {
            double least = found->tiers[0].parameter_count;
            cells[1] = units_count(arena, found->tiers[tier].parameter_count);
            cells[2] = arena_print(arena, "%lld", (long long)found->tiers[tier].steps * step);
            cells[3] = found->tiers[tier].offload;
            cells[4] = arena_print(arena, "%.4g", found->tiers[tier].outcome.prediction.step_s);
            cells[5] = least > 0
                           ? arena_print(arena, "%.1fx", found->tiers[tier].parameter_count / least)
                           : "-";
            cells[6] =
                parallel_text(arena, &found->tiers[tier].outcome.best.parallel, job->request.stack);
            layout_legend_meet(&legend, &found->tiers[tier].outcome.best.parallel,
                               job->request.stack);
        }
        table_row(&table, cells);
    }
    bool is_plain = strcmp(point->name, scenario->cluster->name) == 0;
    console_printf(
        stdout,
        "The largest model of the shape of %s on %s%s%s%s, seq %lld, batch %lld, %s\n"
        "(heads, width and layers grow in proportion, %lld heads at a time):\n%s%s",
        job->request.model->name, cluster_text(arena, scenario->cluster), is_plain ? "" : " (",
        is_plain ? "" : point->name, is_plain ? "" : ")", (long long)scenario->workload.seq_len,
        (long long)scenario->workload.global_batch, precision_name(scenario->workload.precision),
        (long long)step, table_text(&table), layout_legend_text(arena, &legend));
}

static void write_largest(struct json_writer *writer, const struct sweep_point *point,
                          const struct largest_model *found, const struct placed_sizes *placed)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "cluster", point->name);
    json_put_i64(writer, "gpus", point->scenario.cluster->rank_count);
    json_open(writer, "memory", '[');
    for (int tier = 0; tier < CAPACITY_COUNT; tier++) {
        json_open(writer, NULL, '{');
        json_put_text(writer, "with", capacity_name((enum capacity)tier));
        json_put_f64(writer, "parameter_count", found->tiers[tier].parameter_count);
        if (found->tiers[tier].model) {
            json_put_text(writer, "offload", found->tiers[tier].offload);
            json_put_f64(writer, "step_s", found->tiers[tier].outcome.prediction.step_s);
            json_put_copy(writer, "config", &found->tiers[tier].model->config);
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
    placed_sizes_write(writer, placed);
    json_close(writer, '}');
}

int whatif_largest(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    struct sweep_points points;
    if (pins_get(&job->sweep.pins, CHOICE_OFFLOAD).set) {
        err_set(err, ERR_USAGE, "--largest-model tries --offload itself");
        return exit_status(err);
    }
    if (!sweep_points(arena, &job->sweep, &points, err)) return exit_status(err);
    int64_t batch = 0;
    for (int i = 0; i < points.count; i++) {
        int64_t own = points.items[i].scenario.workload.global_batch;
        if (own > batch) batch = own;
    }
    whatif_batch_note(arena, job, batch);
    struct json_writer writer = {.arena = arena};
    bool any = false;
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", job->request.model->name);
    json_open(&writer, "scenarios", '[');
    for (int i = 0; i < points.count; i++) {
        const struct scenario *scenario = &points.items[i].scenario;
        struct largest_model found;
        if (!largest_model_find(arena, &job->request, scenario, &found, err)) {
            return exit_status(err);
        }
        struct placed_sizes placed;
        if (!placed_sizes_find(arena, &job->request, scenario, &placed, err))
            return exit_status(err);
        any = any || found.tiers[CAPACITY_COUNT - 1].model || placed.count > 0;
        if (job->arguments->json) {
            write_largest(&writer, &points.items[i], &found, &placed);
        } else {
            print_largest(arena, &points.items[i], job, &found, placed.has_nvme);
            double device_count = found.tiers[CAPACITY_GPU].parameter_count;
            console_print(stdout, placed_sizes_text(arena, &placed, device_count));
        }
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    if (job->arguments->json) printf("%s\n", writer.text);
    return any ? 0 : 1;
}
