#include "plan/plan.h"
#include "plan/passes.h"

#include <string.h>

static const struct json_field PLAN_FIELDS[] = {
    {JSON_ANY("version")},      {JSON_ANY("model")},      {JSON_ANY("cluster")},
    {JSON_ANY("stack")},        {JSON_ANY("workload")},   {JSON_ANY("parallel")},
    {JSON_ANY("stages")},       {JSON_ANY("memory")},     {JSON_ANY("prediction")},
    {JSON_ANY("alternatives")}, {JSON_ANY("provenance")}, {0},
};

static const struct json_field MODEL_FIELDS[] = {
    {JSON_ANY("name")},
    {JSON_OPT_ANY("parameter_count")},
    {JSON_OPT_ANY("active_parameter_count")},
    {JSON_OPT_ANY("mtp_parameter_count")},
    {JSON_ANY("config")},
    {0},
};

static const struct json_field WORKLOAD_FIELDS[] = {
    {JSON_I64(struct workload, seq_len, 1, 1e12)},
    {JSON_I64(struct workload, global_batch, 1, 1e12)},
    {JSON_F64(struct workload, tokens, 0, 1e30)},
    {JSON_F64(struct workload, expert_imbalance, 1, 1e6)},
    {JSON_F64(struct workload, capacity_factor, 0, 1e6)},
    {JSON_ANY("precision")},
    {JSON_ANY("optimizer")},
    {0},
};

static const struct json_field PARALLEL_FIELDS[] = {
    {JSON_ANY("tp")},
    {JSON_ANY("cp")},
    {JSON_ANY("ep")},
    {JSON_ANY("etp")},
    {JSON_ANY("dp")},
    {JSON_ANY("pp")},
    {JSON_ANY("cp_kind")},
    {JSON_BOOL(struct parallel, sp)},
    {JSON_INT(struct parallel, vpp, 1, STAGE_MAX)},
    {JSON_INT(struct parallel, micro_batch, 1, 1 << 30)},
    {JSON_INT(struct parallel, zero, 0, 3)},
    {JSON_INT(struct parallel, zero_group, 0, 1 << 30)},
    {JSON_ANY("recompute")},
    {JSON_INT(struct parallel, recompute_layers, -1, 1 << 20)},
    {JSON_ANY("schedule")},
    {JSON_INT(struct parallel, in_flight, 0, 1 << 30)},
    {JSON_ANY("attention")},
    {JSON_ANY("offload")},
    {JSON_ANY("overlap")},
    {JSON_INT(struct parallel, bucket_bytes, 0, 1 << 30)},
    {JSON_ANY("passes")},
    {JSON_ANY("order")},
    {JSON_OPT_ANY("stages")},
    {0},
};

void workload_write(struct json_writer *writer, const char *key, const struct workload *workload)
{
    json_open(writer, key, '{');
    json_put_i64(writer, "seq_len", workload->seq_len);
    json_put_i64(writer, "global_batch", workload->global_batch);
    json_put_text(writer, "precision", precision_name(workload->precision));
    json_put_text(writer, "optimizer", optimizer_name(workload->optimizer));
    json_put_f64(writer, "tokens", workload->tokens);
    // A record made in memory may leave the imbalance at 0, which means balanced as well.
    double imbalance = workload->expert_imbalance > 0 ? workload->expert_imbalance : 1;
    json_put_f64(writer, "expert_imbalance", imbalance);
    json_put_f64(writer, "capacity_factor", workload->capacity_factor);
    json_close(writer, '}');
}

bool workload_read(const struct json *object, struct workload *workload, struct err *err)
{
    json_read(object, WORKLOAD_FIELDS, workload, err);
    struct json precision = json_get(object, "precision", err);
    const char *name = json_text(&precision, err);
    if (err->kind) return false;
    if (!precision_from_name(name, &workload->precision)) {
        return json_fail(&precision, err, "\"%s\" is no precision (fp32, fp16, bf16, fp8, fp4)",
                         name);
    }
    struct json optimizer = json_get(object, "optimizer", err);
    name = json_text(&optimizer, err);
    if (err->kind) return false;
    if (optimizer_from_name(name, &workload->optimizer)) return true;
    return json_fail(&optimizer, err, "\"%s\" is no optimizer (adamw, adam, sgd, lamb, lars)",
                     name);
}

void parallel_write(struct json_writer *writer, const char *key, const struct parallel *parallel)
{
    json_open(writer, key, '{');
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        json_put_i64(writer, axis_name((enum axis)axis), parallel->degree[axis]);
    }
    json_put_text(writer, "cp_kind", cp_kind_name(parallel->cp_kind));
    json_put_bool(writer, "sp", parallel->sp);
    json_put_i64(writer, "vpp", parallel->vpp);
    json_put_i64(writer, "micro_batch", parallel->micro_batch);
    json_put_i64(writer, "zero", parallel->zero);
    json_put_i64(writer, "zero_group", parallel->zero_group);
    json_put_text(writer, "recompute",
                  recompute_words(writer->arena, parallel->recompute, parallel->recompute_classes));
    json_put_i64(writer, "recompute_layers", parallel->recompute_layers);
    json_put_text(writer, "schedule", schedule_name(parallel->schedule));
    json_put_i64(writer, "in_flight", parallel->in_flight);
    json_put_text(writer, "attention", attention_name(parallel->attention));
    json_put_text(writer, "offload", offload_words(writer->arena, &parallel->offload));
    json_put_text(writer, "overlap", overlap_text(writer->arena, parallel->overlap));
    json_put_i64(writer, "bucket_bytes", parallel->bucket_bytes);
    json_put_text(writer, "passes", pass_text(writer->arena, parallel->passes));
    json_open_flat(writer, "order", '[');
    for (int i = 0; i < parallel->order_count; i++) {
        json_put_text(writer, NULL, axis_name(parallel->order[i]));
    }
    json_close(writer, ']');
    if (parallel->stage_layers_count > 0) {
        json_open_flat(writer, "stages", '[');
        for (int i = 0; i < parallel->stage_layers_count; i++) {
            json_put_i64(writer, NULL, parallel->stage_layers[i]);
        }
        json_close(writer, ']');
    }
    json_close(writer, '}');
}

// The order is a permutation of the axes that take ranks.
static bool read_order(const struct json *object, struct parallel *parallel, struct err *err)
{
    struct parallel wanted = *parallel;
    parallel_default_order(&wanted);
    struct json order = json_get(object, "order", err);
    int count = json_count(&order, err);
    if (err->kind) return false;
    if (count != wanted.order_count) {
        return json_fail(&order, err, "expected %d axes, found %d", wanted.order_count, count);
    }
    bool seen[AXIS_COUNT] = {0};
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&order, i);
        const char *name = json_text(&item, err);
        if (err->kind) return false;
        enum axis axis = AXIS_TP;
        if (!axis_from_name(name, &axis) || !axis_takes_ranks(axis) || seen[axis]) {
            return json_fail(&item, err, "expected each of tp, cp, dp, pp once, found \"%s\"",
                             name);
        }
        seen[axis] = true;
        parallel->order[i] = axis;
    }
    parallel->order_count = count;
    return true;
}

static bool read_stage_layers(struct arena *arena, const struct json *object,
                              struct parallel *parallel, struct err *err)
{
    if (!json_has(object, "stages")) return true;
    struct json stages = json_get(object, "stages", err);
    int count = json_count(&stages, err);
    if (err->kind) return false;
    int *layers = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&stages, i);
        layers[i] = (int)json_i64(&item, 0, 1 << 20, err);
    }
    parallel->stage_layers = layers;
    parallel->stage_layers_count = count;
    return !err->kind;
}

// The text under `key`; NULL and a set `err` when there is none.
static const char *word_of(const struct json *object, const char *key, struct json *value,
                           struct err *err)
{
    *value = json_get(object, key, err);
    const char *word = json_text(value, err);
    return err->kind ? NULL : word;
}

static bool read_words(const struct json *object, struct parallel *parallel, struct err *err)
{
    struct json value;
    const char *word = word_of(object, "cp_kind", &value, err);
    if (word && !cp_kind_from_name(word, &parallel->cp_kind)) {
        json_fail(&value, err, "\"%s\" is no cp_kind (ring, allgather, ulysses)", word);
    }
    word = word_of(object, "recompute", &value, err);
    if (word && !recompute_parse(word, &parallel->recompute, &parallel->recompute_classes)) {
        json_fail(&value, err,
                  "\"%s\" is no recompute (none, selective, full, or classes of operators)", word);
    }
    word = word_of(object, "schedule", &value, err);
    if (word && !schedule_from_name(word, &parallel->schedule)) {
        json_fail(&value, err,
                  "\"%s\" is no schedule (gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, zb-auto)",
                  word);
    }
    word = word_of(object, "attention", &value, err);
    if (word && !attention_from_name(word, &parallel->attention)) {
        json_fail(&value, err, "\"%s\" is no attention (flash, unfused)", word);
    }
    word = word_of(object, "overlap", &value, err);
    if (word && !overlap_parse(word, &parallel->overlap)) {
        json_fail(&value, err, "\"%s\" is neither none nor a list of overlaps", word);
    }
    word = word_of(object, "passes", &value, err);
    if (word && !pass_parse(word, &parallel->passes)) {
        json_fail(&value, err, "\"%s\" is neither none nor a list of passes", word);
    }
    word = word_of(object, "offload", &value, err);
    if (word && !offload_parse(word, &parallel->offload)) {
        json_fail(&value, err,
                  "\"%s\" is no offload (none, or optimizer, activations, classes of operators)",
                  word);
    }
    return !err->kind;
}

bool parallel_read(struct arena *arena, const struct json *object, struct parallel *parallel,
                   struct err *err)
{
    json_read(object, PARALLEL_FIELDS, parallel, err);
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        struct json degree = json_get(object, axis_name((enum axis)axis), err);
        parallel->degree[axis] = (int)json_i64(&degree, 1, 1 << 30, err);
    }
    if (err->kind) return false;
    return read_words(object, parallel, err) && read_order(object, parallel, err) &&
           read_stage_layers(arena, object, parallel, err);
}

static bool read_model(struct arena *arena, const struct json *object, struct plan *plan,
                       struct err *err)
{
    json_read(object, MODEL_FIELDS, plan, err);
    struct json name = json_get(object, "name", err);
    const char *text = json_text(&name, err);
    plan->config = json_get(object, "config", err);
    if (err->kind) return false;
    plan->model = model_read(arena, text, &plan->config, NULL, NULL, err);
    return plan->model != NULL;
}

static bool read_identity(struct arena *arena, const struct json *root, struct plan *plan,
                          struct err *err)
{
    json_read(root, PLAN_FIELDS, plan, err);
    struct json version = json_get(root, "version", err);
    int64_t number = json_i64(&version, 0, 1e9, err);
    if (!err->kind && number != PLAN_VERSION) {
        json_fail(&version, err, "expected version %d, found %d", PLAN_VERSION, (int)number);
    }
    struct json cluster = json_get(root, "cluster", err);
    struct json workload = json_get(root, "workload", err);
    struct json parallel = json_get(root, "parallel", err);
    plan->stack = json_get(root, "stack", err);
    plan->memory = json_get(root, "memory", err);
    if (err->kind) return false;
    plan->cluster = cluster_read(arena, &cluster, err);
    return plan->cluster && workload_read(&workload, &plan->workload, err) &&
           parallel_read(arena, &parallel, &plan->parallel, err);
}

struct plan *plan_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct plan *plan = ARENA_NEW(arena, struct plan, 1);
    // The cursors that the plan keeps point at their parents: those live in the arena.
    struct json *model = ARENA_NEW(arena, struct json, 1);
    plan->document = *object;
    if (!read_identity(arena, object, plan, err)) return NULL;
    *model = json_get(object, "model", err);
    if (err->kind || !read_model(arena, model, plan, err)) return NULL;
    return plan;
}

struct plan *plan_load(struct arena *arena, const char *path, struct err *err)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_load(arena, path, document, err)) return NULL;
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    return plan_read(arena, root, err);
}
