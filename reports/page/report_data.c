#include "reports/page/section.h"
#include "reports/table/inject_table.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The numbers of the page as JSON, once. Their shape is that of reports/page/report.h.

enum { DATA_VERSION = 1 };

static void write_memory(struct json_writer *writer, const struct report *report)
{
    assert(report->evaluation->worst_stage < report->evaluation->program->shape.stage_count);
    const struct evaluation *evaluation = report->evaluation;
    int64_t device_bytes = evaluation->prediction.device_bytes;
    int64_t headroom_bytes = device_bytes - evaluation->prediction.reserved_bytes;
    bool fits = headroom_bytes >= 0 && hosts_shortfall(&evaluation->hosts) == 0;
    json_open(writer, "memory", '{');
    json_put_bool(writer, "fits", fits);
    json_put_i64(writer, "device_bytes", device_bytes);
    json_put_i64(writer, "headroom_bytes", headroom_bytes);
    json_put_i64(writer, "worst_stage", evaluation->worst_stage);
    json_open(writer, "stages", '[');
    for (int stage = 0; stage < evaluation->program->shape.stage_count; stage++) {
        json_open_flat(writer, NULL, '{');
        memory_write(writer, &evaluation->stage_memory[stage]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

static void write_alternatives(struct json_writer *writer, const struct report *report)
{
    const struct search_result *kept = &report->kept;
    const struct prediction *own = &report->evaluation->prediction;
    json_open(writer, "alternatives", '[');
    for (int i = 0; i < kept->best_count; i++) {
        const struct candidate *candidate = &kept->best[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "layout",
                      parallel_text(writer->arena, &candidate->parallel, report->request->stack));
        json_put_f64(writer, "step_s", candidate->cost.step_s);
        json_put_f64(writer, "mfu_ratio", own->mfu_ratio * own->step_s / candidate->cost.step_s);
        json_put_i64(writer, "peak_bytes", candidate->memory.peak_bytes);
        json_put_i64(writer, "reserved_bytes", candidate->memory.reserved_bytes);
        if (i > 0) {
            json_put_text(writer, "lost_to",
                          lost_to_text(writer->arena, &candidate->cost, &kept->best[0].cost));
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void write_neighbours(struct json_writer *writer, const struct report *report)
{
    static const char *const STATUSES[] = {"fits", "lacks memory", "impossible"};
    json_open(writer, "neighbours", '[');
    for (int i = 0; i < report->neighbours.count; i++) {
        const struct neighbour *neighbour = &report->neighbours.list[i];
        const struct prediction *prediction = &neighbour->prediction;
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "choice", choice_name(neighbour->choice));
        json_put_text(writer, "was", neighbour->was);
        json_put_text(writer, "value", neighbour->value);
        assert((size_t)neighbour->status < sizeof STATUSES / sizeof *STATUSES);
        json_put_text(writer, "status", STATUSES[neighbour->status]);
        if (neighbour->status == NEIGHBOUR_IMPOSSIBLE) {
            json_put_text(writer, "reason", neighbour->reason);
        } else {
            json_put_f64(writer, "step_s", prediction->step_s);
            json_put_i64(writer, "reserved_bytes", prediction->reserved_bytes);
            if (isfinite(prediction->money.train_s))
                json_put_f64(writer, "train_s", prediction->money.train_s);
            if (isfinite(prediction->money.total))
                json_put_f64(writer, "money", prediction->money.total);
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void write_published(struct json_writer *writer, const struct published *published)
{
    assert(published->count <= PUBLISHED_MAX);
    if (published->count == 0) return;
    json_open(writer, "published", '[');
    for (int i = 0; i < published->count; i++) {
        const struct published_run *run = &published->runs[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "id", run->id);
        json_put_text(writer, "model", run->model);
        json_put_text(writer, "device", run->device);
        json_put_text(writer, "stack", run->stack);
        json_put_i64(writer, "gpus", run->gpus);
        json_put_f64(writer, "measured_s", run->measured_s);
        json_put_f64(writer, "predicted_s", run->predicted_s);
        json_put_text(writer, "source", run->source);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void write_traffic(struct json_writer *writer, const char *key,
                          const struct traffic *traffic)
{
    assert(traffic->inside_bytes <= traffic->total_bytes * (1 + 1e-9));
    if (traffic->cell_count == 0) return;
    json_open(writer, key, '{');
    json_put_i64(writer, "nodes_per_cell", traffic->nodes_per_cell);
    json_put_f64(writer, "total_bytes", traffic->total_bytes);
    json_put_f64(writer, "inside_bytes", traffic->inside_bytes);
    json_open(writer, "bytes", '[');
    for (int from = 0; from < traffic->cell_count; from++) {
        json_open_flat(writer, NULL, '[');
        for (int to = 0; to < traffic->cell_count; to++)
            json_put_f64(writer, NULL, traffic->bytes[from * traffic->cell_count + to]);
        json_close(writer, ']');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

static void write_scaling(struct json_writer *writer, const struct report *report)
{
    if (report->scaling_count == 0) return;
    json_open(writer, "scaling", '[');
    for (int i = 0; i < report->scaling_count; i++) {
        const struct scenario_outcome *outcome = &report->scaled[i];
        const struct prediction *prediction = &outcome->prediction;
        bool fits = outcome->status == SCENARIO_FITS;
        json_open_flat(writer, NULL, '{');
        json_put_i64(writer, "gpus", report->scaling[i].cluster->rank_count);
        json_put_bool(writer, "fits", fits);
        if (fits) {
            json_put_text(
                writer, "layout",
                parallel_text(writer->arena, &outcome->best.parallel, report->request->stack));
            json_put_f64(writer, "step_s", prediction->step_s);
            json_put_f64(writer, "tokens_per_s", prediction->tokens_per_s);
            json_put_f64(writer, "tokens_per_s_per_gpu", prediction->tokens_per_s_per_gpu);
            json_put_f64(writer, "mfu_ratio", prediction->mfu_ratio);
            json_put_f64(writer, "run_s", prediction->money.train_s);
            json_put_f64(writer, "run_money", prediction->money.total);
        } else if (outcome->reason) {
            json_put_text(writer, "reason", outcome->reason);
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// Whether the command line said of prices, failures or tokens what the plan does not.
static bool is_restated(const struct report *report)
{
    const struct plan *plan = report->plan;
    const struct cluster *said = report->request->cluster, *planned = plan->cluster;
    return report->request->workload.tokens != plan->workload.tokens ||
           said->price.per_gpu_hour != planned->price.per_gpu_hour ||
           strcmp(said->price.per_gpu_hour > 0 ? said->price.currency : "",
                  planned->price.per_gpu_hour > 0 ? planned->price.currency : "") != 0 ||
           !failures_equal(&said->failures, &planned->failures);
}

// The plan that the page is of: a planner in it asks that one again, so that all of the page speaks
// of one run.
static void write_plan(struct json_writer *writer, const struct report *report)
{
    const struct json *document = &report->plan->document;
    struct err err = {0};
    if (!is_restated(report)) {
        json_put_copy(writer, "plan", document);
        return;
    }
    json_open(writer, "plan", '{');
    int count = json_member_count(document, &err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(document, i);
        const char *key = json_key(&member);
        if (strcmp(key, "cluster") == 0) {
            cluster_write(writer, key, report->request->cluster);
        } else if (strcmp(key, "workload") == 0) {
            workload_write(writer, key, &report->request->workload);
        } else if (strcmp(key, "prediction") == 0) {
            prediction_write(writer, key, &report->evaluation->prediction);
        } else {
            json_put_copy(writer, key, &member);
        }
    }
    json_close(writer, '}');
}

char *report_data(struct arena *arena, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "report", DATA_VERSION);
    json_put_text(&writer, "meshwright", report->version);
    write_plan(&writer, report);
    prediction_write(&writer, "prediction", &report->evaluation->prediction);
    write_memory(&writer, report);
    explain_write(&writer, &report->explain);
    write_alternatives(&writer, report);
    write_neighbours(&writer, report);
    write_published(&writer, &report->published);
    measured_write(&writer, report);
    history_write(&writer, report->history);
    write_traffic(&writer, "traffic", &facts->traffic);
    write_traffic(&writer, "measured_traffic", &facts->measured_traffic);
    if (report->injection) {
        const struct money_request asked =
            evaluation_money(report->request, report->evaluation, report->injected.step_s);
        const struct money money = money_mean_of(&asked);
        inject_write(&writer, report->injection, &report->injected, &money);
    }
    write_scaling(&writer, report);
    json_close(&writer, '}');
    return writer.text;
}
