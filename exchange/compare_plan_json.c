#include "core/json_write.h"
#include "exchange/compare_plan.h"

#include <assert.h>

static void put_figures(struct json_writer *writer, const struct plan_compare *compare)
{
    assert(compare->measured->step_s.count > 0);
    const struct prediction *prediction = &compare->evaluation->prediction;
    const struct measurement *measured = compare->measured;
    json_open(writer, "predicted", '{');
    json_put_f64(writer, "step_s", prediction->step_s);
    json_put_f64(writer, "step_s_low", prediction->step_s_low);
    json_put_f64(writer, "step_s_high", prediction->step_s_high);
    json_put_f64(writer, "tokens_per_s", prediction->tokens_per_s);
    json_put_i64(writer, "peak_bytes", prediction->peak_bytes);
    json_put_i64(writer, "reserved_bytes", prediction->reserved_bytes);
    json_close(writer, '}');
    json_open(writer, "measured", '{');
    json_put_text(writer, "path", measured->path);
    json_put_text(writer, "framework", measured->framework);
    json_put_i64(writer, "sample_count", measured->step_s.count);
    json_put_f64(writer, "step_s", measured->median_s);
    json_put_f64(writer, "spread_s", samples_spread(writer->arena, measured->step_s));
    json_put_f64(writer, "tokens_per_s", prediction->tokens_per_s / compare->ratio);
    json_put_f64(writer, "peak_bytes", measured->is_reserved ? 0 : measured->peak_bytes);
    json_put_f64(writer, "reserved_bytes", measured->is_reserved ? measured->peak_bytes : 0);
    json_put_f64(writer, "flop_per_s_per_gpu", measured->flop_per_s_per_gpu);
    json_close(writer, '}');
}

char *plan_compare_json_text(struct arena *arena, const struct plan_compare *compare)
{
    assert(compare->cause_count <= LONE_CAUSES_MAX);
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "verdict", verdict_name(compare->verdict));
    json_put_f64(&writer, "ratio", compare->ratio);
    if (compare->threshold_ratio < 0)
        json_put_null(&writer, "threshold_ratio");
    else
        json_put_f64(&writer, "threshold_ratio", compare->threshold_ratio);
    put_figures(&writer, compare);
    json_open(&writer, "tasks", '[');
    for (int i = 0; i < compare->row_count; i++) {
        const struct kind_row *row = &compare->rows[i];
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "kind", row->kind);
        json_put_f64(&writer, "predicted_count", row->predicted_count);
        json_put_f64(&writer, "count", row->count);
        json_put_f64(&writer, "predicted_s", row->predicted_s);
        json_put_f64(&writer, "s", row->s);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_open(&writer, "causes", '[');
    for (int i = 0; i < compare->cause_count; i++) {
        const struct lone_cause *cause = &compare->causes[i];
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "owner", cause->constant->owner_name);
        json_put_text(&writer, "key", cause->constant->key);
        json_put_f64(&writer, "value", *cause->constant->value);
        json_put_f64(&writer, "wanted", cause->wanted);
        json_put_f64(&writer, "elasticity", cause->elasticity);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
