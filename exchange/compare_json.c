#include "core/json_write.h"
#include "exchange/compare.h"

#include <assert.h>

// The names of members are a contract: reports/schema/compare.schema.json.
static void put_side(struct json_writer *writer, const char *key, const struct compare_side *side)
{
    assert(side->count > 0 && side->count <= COMPARE_FILES_MAX);
    json_open(writer, key, '{');
    json_put_text(writer, "kind", side_kind_name(side->files[0].kind));
    json_open_flat(writer, "paths", '[');
    for (int i = 0; i < side->count; i++)
        json_put_text(writer, NULL, side->files[i].path);
    json_close(writer, ']');
    json_put_i64(writer, "sample_count", side->step_s.count);
    json_put_f64(writer, "step_s", side->median_s);
    json_put_f64(writer, "spread_s", side->spread_s);
    json_put_f64(writer, "peak_bytes", side->peak_bytes);
    json_put_f64(writer, "tokens_per_step", side->tokens_per_step);
    json_close(writer, '}');
}

static void put_metric(struct json_writer *writer, const struct compare_metric *metric)
{
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "name", metric->name);
    json_put_f64(writer, "base", metric->base);
    json_put_f64(writer, "new", metric->now);
    json_put_f64(writer, "change_ratio", metric->ratio);
    if (metric->noise) {
        json_put_f64(writer, "slower_by_chance_ratio", metric->noise->slower);
        json_put_f64(writer, "faster_by_chance_ratio", metric->noise->faster);
        json_put_f64(writer, "level_ratio", metric->noise->level);
        json_put_f64(writer, "pairs_slower_by_chance_ratio", metric->noise->pairs_slower);
        json_put_f64(writer, "pairs_faster_by_chance_ratio", metric->noise->pairs_faster);
    }
    json_put_bool(writer, "is_judged", metric->is_judged);
    json_put_text(writer, "verdict", verdict_name(metric->verdict));
    json_close(writer, '}');
}

static void put_task(struct json_writer *writer, const struct compare_task *task)
{
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "task", task->name);
    json_put_text(writer, "kind", task->kind);
    json_put_f64(writer, "base_count", task->base_count);
    json_put_f64(writer, "count", task->count);
    json_put_f64(writer, "base_bytes", task->base_bytes);
    json_put_f64(writer, "bytes", task->bytes);
    json_put_f64(writer, "base_s", task->base_s);
    json_put_f64(writer, "s", task->s);
    json_put_f64(writer, "change_s", task->change_s);
    json_put_text(writer, "verdict", verdict_name(task->verdict));
    json_close(writer, '}');
}

char *compare_json_text(struct arena *arena, const struct compare *compare)
{
    assert(compare->metric_count > 0 && compare->metric_count <= COMPARE_METRICS_MAX);
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "verdict", verdict_name(compare->verdict));
    json_put_f64(&writer, "threshold_ratio", compare->request.threshold_ratio);
    json_put_i64(&writer, "seed", NOISE_SEED);
    json_put_text(&writer, "cause", compare->cause ? compare->cause->name : NULL);
    put_side(&writer, "base", compare->base);
    put_side(&writer, "new", compare->now);
    json_open(&writer, "metrics", '[');
    for (int i = 0; i < compare->metric_count; i++)
        put_metric(&writer, &compare->metrics[i]);
    json_close(&writer, ']');
    json_open(&writer, "choices", '[');
    for (int i = 0; i < compare->choice_count; i++) {
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "key", compare->choices[i].key);
        json_put_text(&writer, "base", compare->choices[i].base);
        json_put_text(&writer, "new", compare->choices[i].now);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_open(&writer, "tasks", '[');
    for (int i = 0; i < compare->task_count; i++)
        put_task(&writer, &compare->tasks[i]);
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
