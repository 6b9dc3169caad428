#include "cli/whatif.h"
#include "core/console.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/table/release_text.h"
#include "reports/whatif/releases.h"

#include <stdio.h>
#include <string.h>

// "26.08", or the first and the last of several, the older one first.
static const char *name_of(struct arena *arena, const struct release_row *row)
{
    if (strcmp(row->newest, row->oldest) == 0) return row->newest;
    return arena_print(arena, "%s to %s", row->oldest, row->newest);
}

// What the asked release's plan gains by upgrading to it, and what a plan of its own does; "-"
// where there is none to compare with.
static const char *gain_text(struct arena *arena, double step_s, double base_s)
{
    if (step_s <= 0 || base_s <= 0) return "-";
    return units_signed_percent(arena, step_s / base_s - 1);
}

static void put_row(struct table *table, struct layout_legend *legend, const struct releases *found,
                    int index)
{
    struct arena *arena = table->arena;
    const struct release_row *row = &found->rows[index];
    double base_s = found->rows[found->asked].same_plan_s;
    const char *mark = index == found->asked ? "*" : " ";
    const char *reason = row->outcome.reason ? row->outcome.reason : "nothing fits";
    const char *cells[] = {
        arena_print(arena, "%s%s", mark, name_of(arena, row)), "-", "-", "-", "-", "-", reason};
    if (row->same_plan_s > 0) {
        cells[1] = arena_print(arena, "%.4g", row->same_plan_s);
        cells[2] = gain_text(arena, row->same_plan_s, base_s);
    }
    if (row->outcome.status == SCENARIO_FITS) {
        double step_s = row->outcome.prediction.step_s;
        cells[3] = arena_print(arena, "%.4g", step_s);
        cells[4] = gain_text(arena, step_s, base_s);
        cells[5] = units_bytes(arena, (double)row->outcome.prediction.reserved_bytes);
        cells[6] = parallel_text(arena, &row->outcome.best.parallel, row->stack);
        layout_legend_meet(legend, &row->outcome.best.parallel, row->stack);
    }
    table_row(table, cells);
}

static void print_releases(struct arena *arena, const struct whatif_job *job,
                           const struct sweep_point *point, const struct releases *found)
{
    static const char *const HEADS[] = {"release", "same plan s", "gain",  "best plan s",
                                        "gain",    "needs",       "layout"};
    const struct scenario *scenario = &point->scenario;
    struct table table = table_new(arena, "lrrrrrl");
    struct layout_legend legend = {0};
    table_row(&table, HEADS);
    for (int i = 0; i < found->count; i++)
        put_row(&table, &legend, found, i);
    console_printf(stdout,
                   "%s on %s, seq %lld, batch %lld, %s, releases of %s\n%s%s"
                   "   *: what was asked for, whose best plan is the same plan\n",
                   model_config_text(arena, job->request.model),
                   cluster_text(arena, scenario->cluster), (long long)scenario->workload.seq_len,
                   (long long)scenario->workload.global_batch,
                   precision_name(scenario->workload.precision), job->request.stack->name,
                   table_text(&table), layout_legend_text(arena, &legend));
    for (int i = 0; i < found->count; i++) {
        const struct release_row *row = &found->rows[i];
        if (!row->older) continue;
        console_printf(stdout, "   new since %s: %s\n", found->rows[i + 1].newest,
                       release_changes_text(arena, row->older));
    }
}

static void write_row(struct json_writer *writer, const struct releases *found, int index)
{
    const struct release_row *row = &found->rows[index];
    const struct scenario_outcome *outcome = &row->outcome;
    json_open(writer, NULL, '{');
    json_put_text(writer, "newest", row->newest);
    json_put_text(writer, "oldest", row->oldest);
    json_put_bool(writer, "asked", index == found->asked);
    if (row->older) {
        json_open(writer, "changes", '[');
        for (int i = 0; i < row->older->change_count; i++)
            json_put_text(writer, NULL, row->older->changes[i].key);
        json_close(writer, ']');
    }
    if (row->same_plan_s > 0) json_put_f64(writer, "same_plan_step_s", row->same_plan_s);
    if (outcome->status == SCENARIO_FITS) {
        json_put_text(writer, "layout",
                      parallel_text(writer->arena, &outcome->best.parallel, row->stack));
        json_put_f64(writer, "step_s", outcome->prediction.step_s);
        json_put_i64(writer, "reserved_bytes", outcome->prediction.reserved_bytes);
    } else {
        json_put_text(writer, "reason", outcome->reason ? outcome->reason : "nothing fits");
    }
    json_close(writer, '}');
}

static void write_releases(struct json_writer *writer, const struct sweep_point *point,
                           const struct releases *found)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "cluster", point->name);
    json_put_i64(writer, "gpus", point->scenario.cluster->rank_count);
    json_open(writer, "releases", '[');
    for (int i = 0; i < found->count; i++)
        write_row(writer, found, i);
    json_close(writer, ']');
    json_close(writer, '}');
}

int whatif_releases(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    struct sweep_points points;
    if (!sweep_points(arena, &job->sweep, &points, err)) return exit_status(err);
    struct json_writer writer = {.arena = arena};
    bool any = false;
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", job->request.model->name);
    json_put_text(&writer, "stack", job->request.stack->name);
    json_open(&writer, "scenarios", '[');
    for (int i = 0; i < points.count; i++) {
        struct releases found;
        if (!releases_find(arena, &job->request, &points.items[i].scenario, &found, err))
            return exit_status(err);
        for (int k = 0; k < found.count; k++)
            any = any || found.rows[k].outcome.status == SCENARIO_FITS;
        if (job->arguments->json)
            write_releases(&writer, &points.items[i], &found);
        else
            print_releases(arena, job, &points.items[i], &found);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    if (job->arguments->json) printf("%s\n", writer.text);
    return any ? 0 : 1;
}
