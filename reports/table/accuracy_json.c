#include "reports/table/accuracy_table.h"
#include "reports/table/plan_table.h"

#include <assert.h>

static void put_score(struct json_writer *writer, const char *key, const struct score *score)
{
    assert(score->covered_ratio >= 0 && score->covered_ratio <= 1);
    json_open(writer, key, '{');
    json_put_i64(writer, "row_count", score->row_count);
    json_put_i64(writer, "failure_count", score->failure_count);
    json_put_f64(writer, "mape_ratio", score->mape);
    json_put_f64(writer, "median_ratio", score->median);
    json_put_f64(writer, "bias_ratio", score->bias);
    json_put_f64(writer, "p90_ratio", score->p90);
    json_put_f64(writer, "worst_ratio", score->worst);
    json_put_f64(writer, "least_ratio", score->least);
    json_put_f64(writer, "most_ratio", score->most);
    json_put_i64(writer, "banded_count", score->banded_count);
    json_put_f64(writer, "covered_ratio", score->covered_ratio);
    json_close(writer, '}');
}

static void put_lines(struct json_writer *writer, const char *key,
                      const struct accuracy_line *lines, int count)
{
    json_open(writer, key, '[');
    for (int i = 0; i < count; i++) {
        json_open(writer, NULL, '{');
        json_put_text(writer, "name", lines[i].name);
        put_score(writer, "now", &lines[i].now);
        if (lines[i].left_out.row_count) put_score(writer, "left_out", &lines[i].left_out);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void put_ranking(struct json_writer *writer, const char *key,
                        const struct ranking_score *ranking)
{
    assert(ranking->right_count <= ranking->pair_count);
    json_open(writer, key, '{');
    json_put_i64(writer, "sweep_count", ranking->sweep_count);
    json_put_i64(writer, "pair_count", ranking->pair_count);
    json_put_i64(writer, "right_count", ranking->right_count);
    json_put_f64(writer, "regret_mean_ratio", ranking->regret_mean);
    json_put_f64(writer, "regret_worst_ratio", ranking->regret_worst);
    if (ranking->worst_sweep) json_put_text(writer, "worst_sweep", ranking->worst_sweep);
    json_close(writer, '}');
}

static void put_fits(struct json_writer *writer, const struct accuracy_fits *fits)
{
    assert(fits->ran_fit_count <= fits->ran_count &&
           fits->failed_unfit_count <= fits->failed_count);
    json_open(writer, "fits", '{');
    json_put_i64(writer, "ran_count", fits->ran_count);
    json_put_i64(writer, "ran_fit_count", fits->ran_fit_count);
    json_put_i64(writer, "failed_count", fits->failed_count);
    json_put_i64(writer, "failed_unfit_count", fits->failed_unfit_count);
    json_put_i64(writer, "refused_count", fits->refused_count);
    json_put_i64(writer, "refused_unfit_count", fits->refused_unfit_count);
    json_put_i64(writer, "outdone_count", fits->outdone_count);
    json_put_i64(writer, "short_count", fits->short_count);
    json_put_i64(writer, "short_unfit_count", fits->short_unfit_count);
    json_put_i64(writer, "other_count", fits->other_count);
    json_put_i64(writer, "other_fit_count", fits->other_fit_count);
    json_close(writer, '}');
}

static void put_prediction(struct json_writer *writer, const struct trial *trial)
{
    const struct prediction *prediction = &trial->prediction;
    json_put_text(writer, "plan", parallel_text(writer->arena, &trial->parallel, trial->stack));
    json_put_f64(writer, "step_s", prediction->step_s);
    json_put_f64(writer, "step_s_low", prediction->step_s_low);
    json_put_f64(writer, "step_s_high", prediction->step_s_high);
    if (prediction->band) {
        json_put_text(writer, "confidence", confidence_name(prediction->band->confidence));
    }
    json_put_i64(writer, "peak_bytes", prediction->peak_bytes);
    json_put_i64(writer, "reserved_bytes", prediction->reserved_bytes);
}

static void put_trial(struct json_writer *writer, const struct trial *trial,
                      const struct left_out *left_out)
{
    const struct row *row = trial->row;
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "id", row->id);
    json_put_text(writer, "family", row->family);
    json_put_text(writer, "tier", (const char[]){row->tier, '\0'});
    json_put_text(writer, "kind", row_kind_name(row->kind));
    json_put_text(writer, "device", row->device);
    json_put_text(writer, "stack", row->stack);
    json_put_bool(writer, "network_stated", row->network_stated);
    if (row->step_s > 0) json_put_f64(writer, "measured_step_s", row->step_s);
    if (row->peak_bytes > 0) {
        json_put_f64(writer, row->allocated ? "measured_peak_bytes" : "measured_reserved_bytes",
                     row->peak_bytes);
    }
    if (trial->answered) {
        put_prediction(writer, trial);
    } else {
        json_put_text(writer, "failed", trial->why_not);
    }
    const struct left_out_row *out = left_out ? left_out_find(left_out, row->id) : NULL;
    if (out) {
        json_put_f64(writer, "left_out_step_s", out->step_s);
        json_put_f64(writer, "left_out_step_s_low", out->step_s_low);
        json_put_f64(writer, "left_out_step_s_high", out->step_s_high);
    }
    json_close(writer, '}');
}

char *accuracy_json_text(struct arena *arena, const struct accuracy *accuracy,
                         const struct left_out *left_out)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "tiers", accuracy->tiers);
    put_lines(&writer, "families", accuracy->families, accuracy->family_count);
    put_lines(&writer, "softwares", accuracy->softwares, accuracy->software_count);
    json_put_f64(&writer, "family_mape_ratio", accuracy->family_mape);
    put_lines(&writer, "groups", accuracy->groups, ACCURACY_GROUP_COUNT);
    put_lines(&writer, "tier_lines", accuracy->tier_lines, ACCURACY_TIER_COUNT);
    put_score(&writer, "allocated", &accuracy->allocated);
    put_lines(&writer, "allocated_stacks", accuracy->allocated_stacks,
              accuracy->allocated_stack_count);
    put_score(&writer, "reserved", &accuracy->reserved);
    put_ranking(&writer, "ranking", &accuracy->ranking);
    put_fits(&writer, &accuracy->fits);
    json_put_i64(&writer, "adapter_count", accuracy->adapter_count);
    if (accuracy->has_left_out) {
        put_ranking(&writer, "left_out_ranking", &accuracy->left_out_ranking);
    }
    json_open(&writer, "rows", '[');
    for (int i = 0; i < accuracy->trials->count; i++) {
        put_trial(&writer, &accuracy->trials->items[i], left_out);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
