#include "core/json_write.h"
#include "reports/comparison/run_compare.h"

#include <assert.h>

// JSON has no word for what is not finite.
static void put_numbers(struct json_writer *writer, const char *key, const double *values,
                        int count)
{
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++) {
        json_put_known(writer, NULL, values[i]);
    }
    json_close(writer, ']');
}

static void put_facts(struct json_writer *writer, const struct run_facts *facts)
{
    json_open(writer, "plan", '{');
    json_put_text(writer, "path", facts->plan_path);
    json_put_text(writer, "hash", facts->plan_hash);
    json_close(writer, '}');
    json_open(writer, "machine", '{');
    json_put_text(writer, "host", facts->machine);
    json_put_text(writer, "device", facts->device);
    json_put_text(writer, "libraries", facts->libraries);
    json_put_text(writer, "backend", facts->backend);
    json_put_text(writer, "transport", facts->transport);
    json_put_i64(writer, "ranks", facts->rank_count);
    json_close(writer, '}');
}

// Names of groups are a contract: executor/run.schema.json.
static void put_rows(struct json_writer *writer, const struct run_compare *compare)
{
    static const char *const GROUPS[] = {"task", "operator", "collective"};
    json_open(writer, "kinds", '[');
    for (int i = 0; i < compare->row_count; i++) {
        const struct run_row *row = &compare->rows[i];
        assert((size_t)row->group < sizeof GROUPS / sizeof *GROUPS);
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "group", GROUPS[row->group]);
        json_put_text(writer, "kind", row->name);
        json_put_f64(writer, "predicted_count", row->predicted_count);
        json_put_f64(writer, "count", row->count);
        json_put_f64(writer, "predicted_s", row->predicted_s);
        json_put_f64(writer, "measured_s", row->measured_s);
        json_put_f64(writer, "predicted_bytes", row->predicted_bytes);
        json_put_f64(writer, "measured_bytes", row->bytes);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// The joined tasks of the step graph.
static void put_tasks(struct json_writer *writer, const struct run_compare *compare)
{
    const struct run_join *join = &compare->join;
    json_open(writer, "tasks", '[');
    for (int i = 0; i < join->row_count; i++) {
        const struct run_joined *row = &join->rows[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "task", run_joined_name(writer->arena, join, row));
        json_put_text(writer, "kind", task_kind_name(row->task->kind));
        json_put_f64(writer, "predicted_count", row->predicted_count);
        json_put_f64(writer, "count", row->count);
        json_put_f64(writer, "predicted_bytes", row->predicted_bytes);
        json_put_f64(writer, "bytes", row->bytes);
        json_put_f64(writer, "predicted_s", row->predicted_s);
        json_put_text(writer, "priced", task_pricing_name(row->pricing));
        json_put_f64(writer, "s", row->s);
        json_put_bool(writer, "matches", run_joined_matches(row));
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void put_attention(struct json_writer *writer, const struct run_result *result)
{
    json_open(writer, "attention", '[');
    for (int i = 0; i < result->attention_count; i++) {
        const struct attention_path *way = &result->attentions[i].way;
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "phase", way->is_backward ? "backward" : "forward");
        json_put_text(writer, "path", way->path);
        json_put_text(writer, "reason", way->reason);
        json_put_bool(writer, "is_refused", way->is_refused);
        json_put_i64(writer, "rank_count", result->attentions[i].rank_count);
        json_put_bool(writer, "causal", way->causal);
        json_put_i64(writer, "batch", way->batch);
        json_put_i64(writer, "heads", way->heads);
        json_put_i64(writer, "kv_heads", way->kv_heads);
        json_put_i64(writer, "queries", way->queries);
        json_put_i64(writer, "keys", way->keys);
        json_put_i64(writer, "width", way->width);
        json_put_i64(writer, "value_width", way->value_width);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// A span is [rank, stream, task, start_ns, end_ns].
static void put_trace(struct json_writer *writer, const struct trace *trace)
{
    assert(trace->span_count >= 0);
    json_open(writer, "trace", '[');
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        json_open_flat(writer, NULL, '[');
        json_put_i64(writer, NULL, span->rank);
        json_put_text(writer, NULL, stream_name(span->stream));
        json_put_i64(writer, NULL, span->task);
        json_put_i64(writer, NULL, span->start_ns);
        json_put_i64(writer, NULL, span->end_ns);
        json_close(writer, ']');
    }
    json_close(writer, ']');
}

// [from, to, bytes] of each pair that has any.
static void put_traffic(struct json_writer *writer, const struct run_result *result)
{
    assert(result->trace.rank_count >= 0);
    int ranks = result->trace.rank_count;
    json_open(writer, "traffic", '[');
    for (int pair = 0; result->traffic_bytes && pair < ranks * ranks; pair++) {
        if (result->traffic_bytes[pair] <= 0) continue;
        json_open_flat(writer, NULL, '[');
        json_put_i64(writer, NULL, pair / ranks);
        json_put_i64(writer, NULL, pair % ranks);
        json_put_i64(writer, NULL, result->traffic_bytes[pair]);
        json_close(writer, ']');
    }
    json_close(writer, ']');
}

static void put_saved(struct json_writer *writer, const struct run_compare *compare)
{
    assert(compare->result->saved.every > 0);
    const struct run_saved *saved = &compare->result->saved;
    json_open(writer, "checkpoints", '{');
    json_put_i64(writer, "count", saved->count);
    json_put_i64(writer, "bytes", saved->bytes);
    json_put_i64(writer, "every_steps", saved->every);
    json_put_i64(writer, "last_step", saved->step);
    json_put_i64(writer, "resumed_step", saved->resumed_step);
    json_put_f64(writer, "predicted_pause_s", compare->pause_s);
    json_put_f64(writer, "pause_s", saved->pause_s);
    json_put_f64(writer, "predicted_write_s", compare->write_s);
    json_put_f64(writer, "write_s", saved->write_s);
    json_close(writer, '}');
}

static void put_input(struct json_writer *writer, const struct run_compare *compare)
{
    assert(compare->result->input.reader_count > 0);
    const struct input_price *predicted = &compare->input;
    const struct run_input *measured = &compare->result->input;
    json_open(writer, "input", '{');
    json_put_text(writer, "readers", readers_name(predicted->readers));
    json_put_i64(writer, "predicted_reader_count", predicted->reader_count);
    json_put_i64(writer, "reader_count", measured->reader_count);
    json_put_f64(writer, "predicted_read_bytes", predicted->read_bytes);
    json_put_f64(writer, "read_bytes", measured->read_bytes);
    json_put_f64(writer, "predicted_host_read_bytes", predicted->host_read_bytes);
    json_put_f64(writer, "host_read_bytes", measured->host_read_bytes);
    json_put_known(writer, "predicted_read_s", predicted->read_s);
    json_put_f64(writer, "read_s", measured->read_s);
    json_put_f64(writer, "predicted_broadcast_bytes", predicted->broadcast_bytes);
    json_put_f64(writer, "broadcast_bytes", measured->broadcast_bytes);
    json_put_known(writer, "predicted_broadcast_s", predicted->broadcast_s);
    json_put_f64(writer, "broadcast_s", measured->broadcast_s);
    json_close(writer, '}');
}

char *run_json_text(struct arena *arena, const struct run_compare *compare,
                    const struct run_facts *facts)
{
    assert(facts->rank_count > 0);
    const struct run_result *result = compare->result;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    put_facts(&writer, facts);
    put_numbers(&writer, "step_s", result->step_s, result->step_count);
    put_numbers(&writer, "loss", result->loss, result->step_count);
    put_numbers(&writer, "gradient_norm", result->gradient_norm, result->step_count);
    if (compare->request->workload.precision == PRECISION_FP16)
        put_numbers(&writer, "loss_scale", result->loss_scale, result->step_count);
    json_put_i64(&writer, "peak_bytes", result->peak_bytes);
    json_put_i64(&writer, "host_peak_bytes", result->host_peak_bytes);
    json_put_i64(&writer, "nvme_bytes", result->nvme_bytes);
    json_open(&writer, "memory", '{');
    json_put_i64(&writer, "arena_bytes", result->arena_bytes);
    json_put_i64(&writer, "arena_used_bytes", result->arena_used_bytes);
    json_put_i64(&writer, "state_bytes", result->state_bytes);
    json_put_i64(&writer, "staging_bytes", result->staging_bytes);
    json_close(&writer, '}');
    if (result->device_limit_bytes > 0) {
        json_open(&writer, "device_memory", '{');
        json_put_i64(&writer, "limit_bytes", result->device_limit_bytes);
        json_put_i64(&writer, "peak_bytes", result->device_peak_bytes);
        json_close(&writer, '}');
    }
    if (result->saved.every > 0) put_saved(&writer, compare);
    if (result->input.reader_count > 0) put_input(&writer, compare);
    json_open(&writer, "compare", '{');
    json_put_f64(&writer, "predicted_step_s", compare->predicted_step_s);
    json_put_f64(&writer, "measured_step_s", compare->measured_step_s);
    json_put_f64(&writer, "measured_tokens_per_s", compare->tokens_per_s);
    json_put_f64(&writer, "measured_between_s", compare->between_s);
    json_put_f64(&writer, "predicted_moved_s", compare->predicted_moved_s);
    json_put_f64(&writer, "measured_moved_s", result->moved_s);
    if (result->nvme_bytes_per_s > 0) {
        json_put_f64(&writer, "predicted_nvme_bytes_per_s", compare->predicted_nvme_bytes_per_s);
        json_put_f64(&writer, "measured_nvme_bytes_per_s", result->nvme_bytes_per_s);
    }
    json_put_i64(&writer, "predicted_peak_bytes", compare->predicted.peak_bytes);
    json_put_i64(&writer, "predicted_host_peak_bytes", compare->predicted.host_peak_bytes);
    json_put_i64(&writer, "predicted_nvme_bytes", compare->predicted.nvme_bytes);
    json_close(&writer, '}');
    put_rows(&writer, compare);
    put_attention(&writer, result);
    put_tasks(&writer, compare);
    put_traffic(&writer, result);
    put_trace(&writer, &result->trace);
    json_close(&writer, '}');
    return writer.text;
}
