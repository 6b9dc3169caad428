#include "reports/tables/plan_file.h"
#include "core/json_peek.h"

#include <assert.h>
#include <string.h>

static const char KIND[] = "recommendation";
enum { TABLE_PLAN_VERSION = 1 };

struct plan_head {
    int64_t version;
    const char *kind;
};
static const struct json_field FIELDS[] = {
    {JSON_I64(struct plan_head, version, TABLE_PLAN_VERSION, TABLE_PLAN_VERSION)},
    {JSON_TEXT(struct plan_head, kind)},
    {JSON_ANY("model")},
    {JSON_ANY("cluster")},
    {JSON_ANY("stack")},
    {JSON_ANY("workload")},
    {JSON_ANY("placement")},
    {JSON_OPT_ANY("placing")},
    {JSON_OPT_ANY("memory")},
    {JSON_OPT_ANY("prediction")},
    {0},
};

bool table_plan_is(const char *path, struct err *err)
{
    static const char *const KINDS[] = {KIND, NULL};
    return json_peek(path, "kind", KINDS, err) != NULL;
}

// The model's file stands in the plan, so that it needs no other.
static const struct recommender *read_model(struct arena *arena, const struct json *root,
                                            struct err *err)
{
    struct json model = json_get(root, "model", err), name = json_get(&model, "name", err);
    struct json config = json_get(&model, "config", err);
    const char *text = json_text(&name, err);
    return err->kind ? NULL : recommender_read(arena, text, &config, err);
}

struct table_plan *table_plan_load(struct arena *arena, const char *path, struct err *err)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct table_plan *plan = ARENA_NEW(arena, struct table_plan, 1);
    struct plan_head head = {0};
    if (!json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    json_read(&root, FIELDS, &head, err);
    plan->request.model = read_model(arena, &root, err);
    struct json cluster = json_get(&root, "cluster", err), stack = json_get(&root, "stack", err);
    struct json workload = json_get(&root, "workload", err);
    struct json pieces = json_get(&root, "placement", err);
    if (err->kind) return NULL;
    plan->request.cluster = cluster_read(arena, &cluster, err);
    if (!err->kind) plan->request.stack = table_stack_read(arena, &stack, err);
    if (err->kind || !table_workload_read(&workload, &plan->request.workload, err)) return NULL;
    plan->placement =
        placement_read(arena, &pieces, plan->request.model, plan->request.cluster->rank_count, err);
    plan->request.fabrics = err->kind ? NULL : fabrics_load(arena, err);
    if (err->kind || !fabrics_cover(plan->request.fabrics, plan->request.cluster, err) ||
        !cluster_check_precision(plan->request.cluster, plan->request.workload.precision, err) ||
        !placement_check(plan->placement, &plan->request.workload, err)) {
        if (err->kind == ERR_USAGE) err->kind = ERR_INPUT;  // the file says what cannot be
        return NULL;
    }
    const struct table_request priced = place_priced(&plan->request, plan->placement);
    plan->prediction = table_price(&priced);
    return plan;
}

void table_prediction_write(struct json_writer *writer, const struct place_request *request,
                            const struct table_prediction *prediction)
{
    assert(prediction->step_s > 0 && prediction->hit_ratio >= 0 && prediction->hit_ratio <= 1);
    double peak = cluster_slowest_device(request->cluster, request->workload.precision)
                      ->peak_flop_per_s[request->workload.precision];
    json_open(writer, "prediction", '{');
    json_put_f64(writer, "step_s", prediction->step_s);
    json_put_f64(writer, "samples_per_s", prediction->samples_per_s);
    json_put_f64(writer, "model_flop_per_s_per_gpu", prediction->flop_per_s_per_gpu);
    json_put_f64(writer, "mfu_ratio", prediction->flop_per_s_per_gpu / peak);
    json_put_f64(writer, "hit_ratio", prediction->hit_ratio);
    json_put_f64(writer, "imbalance", prediction->imbalance);
    json_put_f64(writer, "unique_rows", prediction->unique_rows);
    json_open(writer, "tasks", '[');
    for (int task = 0; task < TABLE_TASK_COUNT; task++) {
        const struct table_span *span = &prediction->spans[task];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "task", table_task_name((enum table_task)task));
        json_put_text(writer, "stream", stream_name(table_task_stream((enum table_task)task)));
        json_put_f64(writer, "start_s", span->start_s);
        json_put_f64(writer, "s", span->s);
        json_put_f64(writer, "bytes", span->bytes);
        json_put_f64(writer, "flop", span->flop);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

void table_memory_write(struct json_writer *writer, const struct table_prediction *prediction)
{
    const struct table_memory *memory = &prediction->memory;
    json_open(writer, "memory", '{');
    json_put_bool(writer, "fits", prediction->fits);
    json_put_i64(writer, "tables_bytes", memory->tier_bytes[TIER_DEVICE]);
    json_put_i64(writer, "dense_bytes", memory->dense_bytes);
    json_put_i64(writer, "activations_bytes", memory->activation_bytes);
    json_put_i64(writer, "reserve_bytes", memory->reserve_bytes);
    json_put_i64(writer, "device_bytes", memory->device_bytes);
    json_put_i64(writer, "device_limit_bytes", prediction->device_limit_bytes);
    json_put_i64(writer, "host_bytes", prediction->host_bytes);
    json_put_i64(writer, "host_limit_bytes", prediction->host_limit_bytes);
    json_put_i64(writer, "nvme_bytes", prediction->nvme_bytes);
    json_put_i64(writer, "nvme_limit_bytes", prediction->nvme_limit_bytes);
    json_close(writer, '}');
}

char *table_plan_document(struct arena *arena, const struct place_request *request,
                          const struct place_result *result)
{
    assert(result->placement);
    const struct recommender *model = request->model;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", TABLE_PLAN_VERSION);
    json_put_text(&writer, "kind", KIND);
    json_open(&writer, "model", '{');
    json_put_text(&writer, "name", model->name);
    json_put_i64(&writer, "table_parameter_count", recommender_table_parameters(model));
    json_put_i64(&writer, "dense_parameter_count", recommender_dense_parameters(model));
    json_put_copy(&writer, "config", &model->config);
    json_close(&writer, '}');
    cluster_write(&writer, "cluster", request->cluster);
    table_stack_write(&writer, "stack", request->stack);
    table_workload_write(&writer, "workload", &request->workload);
    placement_write(&writer, result->placement);
    json_open(&writer, "placing", '{');
    json_put_f64(&writer, "busiest_s", result->busiest_s);
    json_put_f64(&writer, "bound_s", result->bound_s);
    json_put_f64(&writer, "gap_ratio", result->gap_ratio);
    json_put_i64(&writer, "option_count", result->option_count);
    json_close(&writer, '}');
    table_memory_write(&writer, &result->prediction);
    table_prediction_write(&writer, request, &result->prediction);
    json_close(&writer, '}');
    return writer.text;
}
