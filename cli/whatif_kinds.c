#include "cli/whatif.h"
#include "core/console.h"
#include "core/table.h"
#include "core/units.h"
#include "planner/choice.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/tensor_kinds.h"

#include <stdio.h>

static void put_row(struct table *table, struct layout_legend *legend,
                    const struct tensor_kinds *found, int kind, const struct stack *stack)
{
    struct arena *arena = table->arena;
    const struct tensor_kind *row = &found->kinds[kind];
    const struct prediction *prediction = &row->outcome.prediction;
    const char *name = arena_print(arena, "%s%s", kind == found->best ? "*" : " ",
                                   tp_kind_name((enum tp_kind)kind));
    const char *reason = row->outcome.reason ? row->outcome.reason : "nothing fits";
    const char *cells[] = {name, "-", "-", "-", "-", "-", reason};
    if (row->outcome.status == SCENARIO_FITS) {
        cells[1] = arena_print(arena, "%.4g", prediction->step_s);
        cells[2] = arena_print(arena, "%.4g", prediction->cost.exposed_s[PART_TP]);
        cells[3] = units_bytes(arena, (double)prediction->reserved_bytes);
        cells[4] = units_bytes(arena, row->inside_bytes);
        cells[5] = units_bytes(arena, row->between_bytes);
        cells[6] = parallel_text(arena, &row->outcome.best.parallel, stack);
        layout_legend_meet(legend, &row->outcome.best.parallel, stack);
    }
    table_row(table, cells);
}

static void print_kinds(struct arena *arena, const struct whatif_job *job,
                        const struct sweep_point *point, const struct tensor_kinds *found)
{
    static const char *const HEADS[] = {"tp",     "step s",  "waits s", "needs",
                                        "inside", "between", "layout"};
    const struct scenario *scenario = &point->scenario;
    struct table table = table_new(arena, "lrrrrrl");
    struct layout_legend legend = {0};
    table_row(&table, HEADS);
    for (int k = 0; k < TP_KIND_COUNT; k++)
        put_row(&table, &legend, found, k, job->request.stack);
    const char *why = tensor_kinds_why(arena, found);
    console_printf(stdout,
                   "%s on %s, seq %lld, batch %lld, %s, tensor parallel ranks in a line and as "
                   "grids\n%s%s   waits: what nothing hides of a step's exchanges; inside, between "
                   "nodes: received by a rank of a layer, a step\n%s%s",
                   model_config_text(arena, job->request.model),
                   cluster_text(arena, scenario->cluster), (long long)scenario->workload.seq_len,
                   (long long)scenario->workload.global_batch,
                   precision_name(scenario->workload.precision), table_text(&table),
                   layout_legend_text(arena, &legend), why ? why : "", why ? "\n" : "");
}

static void write_kinds(struct json_writer *writer, const struct stack *stack,
                        const struct sweep_point *point, const struct tensor_kinds *found)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "cluster", point->name);
    json_put_i64(writer, "gpus", point->scenario.cluster->rank_count);
    if (found->best >= 0) json_put_text(writer, "best", tp_kind_name((enum tp_kind)found->best));
    const char *why = tensor_kinds_why(writer->arena, found);
    if (why) json_put_text(writer, "why", why);
    json_open(writer, "kinds", '[');
    for (int k = 0; k < TP_KIND_COUNT; k++) {
        const struct tensor_kind *row = &found->kinds[k];
        const struct scenario_outcome *outcome = &row->outcome;
        json_open(writer, NULL, '{');
        json_put_text(writer, "tp_kind", tp_kind_name((enum tp_kind)k));
        if (outcome->status == SCENARIO_FITS) {
            json_put_text(writer, "layout",
                          parallel_text(writer->arena, &outcome->best.parallel, stack));
            json_put_f64(writer, "step_s", outcome->prediction.step_s);
            json_put_f64(writer, "wait_s", outcome->prediction.cost.exposed_s[PART_TP]);
            json_put_i64(writer, "reserved_bytes", outcome->prediction.reserved_bytes);
            json_put_f64(writer, "layer_bytes_inside_node", row->inside_bytes);
            json_put_f64(writer, "layer_bytes_between_nodes", row->between_bytes);
        } else {
            json_put_text(writer, "reason", outcome->reason ? outcome->reason : "nothing fits");
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

int whatif_kinds(struct arena *arena, const struct whatif_job *job, struct err *err)
{
    struct int_range tp = pins_get(&job->sweep.pins, CHOICE_TP);
    struct sweep_points points;
    if (!tp.set || tp.low < 2) {
        err_set(err, ERR_USAGE, "--tensor-kinds compares the ranks of --tp N, N above 1");
        return exit_status(err);
    }
    if (!sweep_points(arena, &job->sweep, &points, err)) return exit_status(err);
    struct json_writer writer = {.arena = arena};
    bool any = false;
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", job->request.model->name);
    json_open(&writer, "scenarios", '[');
    for (int i = 0; i < points.count; i++) {
        struct tensor_kinds found;
        if (!tensor_kinds_find(arena, &job->request, &points.items[i].scenario, &found, err))
            return exit_status(err);
        any = any || found.best >= 0;
        if (job->arguments->json) {
            write_kinds(&writer, job->request.stack, &points.items[i], &found);
        } else {
            print_kinds(arena, job, &points.items[i], &found);
        }
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    if (job->arguments->json) printf("%s\n", writer.text);
    return any ? 0 : 1;
}
