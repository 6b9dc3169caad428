#include "plan/plan.h"
#include "plan/choice.h"
#include "plan/layout/rules.h"

#include <assert.h>
#include <string.h>

static const struct json_field PLAN_FIELDS[] = {
    {JSON_ANY("version")},
    {JSON_ANY("model")},
    {JSON_ANY("cluster")},
    {JSON_ANY("stack")},
    {JSON_ANY("workload")},
    {JSON_ANY("parallel")},
    {JSON_ANY("stages")},
    {JSON_ANY("memory")},
    {JSON_ANY("prediction")},
    {JSON_ANY("alternatives")},
    {JSON_ANY("provenance")},
    {JSON_OPT_ANY("launch")},
    {0},
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
    {JSON_OPT_BOOL(struct workload, unclipped)},
    {JSON_ANY("precision")},
    {JSON_ANY("optimizer")},
    {0},
};

void workload_write(struct json_writer *writer, const char *key, const struct workload *workload)
{
    assert(workload->seq_len >= 1 && workload->global_batch >= 1);
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
    if (workload->unclipped) json_put_bool(writer, "unclipped", true);
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
    assert(parallel->order_count >= 0 && parallel->order_count <= AXIS_COUNT);
    json_open(writer, key, '{');
    choices_write(writer, parallel);
    json_open_flat(writer, "order", '[');
    for (int i = 0; i < parallel->order_count; i++) {
        enum axis axis = parallel->order[i];
        bool is_told = parallel->degree[axis] > 1 || !choice_axis_may_be_absent(axis);
        if (is_told) json_put_text(writer, NULL, axis_name(axis));
    }
    json_close(writer, ']');
    if (parallel->stage_layers_count > 0) {
        json_put_ints(writer, "stages", parallel->stage_layers, parallel->stage_layers_count);
    }
    if (parallel->replica_count > 0) {
        json_put_ints(writer, "replica_batches", parallel->replica_micro_batches,
                      parallel->replica_count);
    }
    if (parallel->stage_tp_count > 0) {
        json_put_ints(writer, "stage_tp", parallel->stage_tp, parallel->stage_tp_count);
    }
    if (parallel->stage_ranks_count > 0) {
        json_open_flat(writer, "stage_ranks", '[');
        for (int i = 0; i < parallel->stage_ranks_count; i++)
            json_put_i64(writer, NULL, parallel->stage_ranks[i]);
        json_close(writer, ']');
    }
    if (parallel->branches) json_put_bool(writer, "branches", true);
    if (parallel->layout_count > 0) layout_rules_write(writer, "layouts", parallel);
    json_close(writer, '}');
}

static const char *axes_text(struct arena *arena, const struct parallel *ordered)
{
    const char *text = "";
    for (int i = 0; i < ordered->order_count; i++) {
        enum axis axis = ordered->order[i];
        bool is_told = ordered->degree[axis] > 1 || !choice_axis_may_be_absent(axis);
        if (is_told) text = arena_print(arena, "%s%s%s", text, i ? ", " : "", axis_name(axis));
    }
    return text;
}

// The order is a permutation of the axes that take ranks.
static bool read_order(struct arena *arena, const struct json *object, struct parallel *parallel,
                       struct err *err)
{
    struct parallel wanted = *parallel;
    parallel_default_order(&wanted);
    struct json order = json_get(object, "order", err);
    int count = json_count(&order, err);
    if (err->kind) return false;
    int least = 0;
    for (int i = 0; i < wanted.order_count; i++)
        least +=
            parallel->degree[wanted.order[i]] > 1 || !choice_axis_may_be_absent(wanted.order[i]);
    if (count < least || count > wanted.order_count) {
        return json_fail(&order, err, "expected %d axes, found %d", least, count);
    }
    bool seen[AXIS_COUNT] = {0};
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&order, i);
        const char *name = json_text(&item, err);
        if (err->kind) return false;
        enum axis axis = AXIS_TP;
        if (!axis_from_name(name, &axis) || !axis_takes_ranks(axis) || seen[axis]) {
            return json_fail(&item, err, "expected each of %s once, found \"%s\"",
                             axes_text(arena, &wanted), name);
        }
        seen[axis] = true;
        parallel->order[i] = axis;
    }
    parallel->order_count = count;
    for (int i = 0; i < wanted.order_count; i++) {
        enum axis axis = wanted.order[i];
        if (seen[axis] || choice_axis_may_be_absent(axis)) continue;
        return json_fail(&order, err, "%s is missing", axis_name(axis));
    }
    parallel_complete_order(parallel);
    assert(parallel->order_count == wanted.order_count);
    return true;
}

const int *plan_numbers(struct arena *arena, const struct json *object, const char *key, int *count,
                        struct err *err)
{
    if (!json_has(object, key)) return NULL;
    struct json list = json_get(object, key, err);
    *count = json_count(&list, err);
    if (err->kind) return NULL;
    int *numbers = ARENA_NEW(arena, int, *count);
    for (int i = 0; i < *count; i++) {
        struct json item = json_item(&list, i);
        numbers[i] = (int)json_i64(&item, 0, 1 << 20, err);
    }
    return numbers;
}

static bool read_layouts(struct arena *arena, const struct json *object, struct parallel *parallel,
                         struct err *err)
{
    if (!json_has(object, "layouts")) return true;
    struct json list = json_get(object, "layouts", err);
    return layout_rules_read(arena, &list, parallel, err);
}

bool parallel_read(struct arena *arena, const struct json *object, struct parallel *parallel,
                   struct err *err)
{
    struct json_field fields[CHOICE_COUNT + 8] = {{0}};
    choice_fields(fields);
    fields[CHOICE_COUNT] = (struct json_field){JSON_ANY("order")};
    fields[CHOICE_COUNT + 1] = (struct json_field){JSON_OPT_ANY("stages")};
    fields[CHOICE_COUNT + 2] = (struct json_field){JSON_OPT_ANY("replica_batches")};
    fields[CHOICE_COUNT + 3] = (struct json_field){JSON_OPT_ANY("layouts")};
    fields[CHOICE_COUNT + 4] = (struct json_field){JSON_OPT_ANY("stage_tp")};
    fields[CHOICE_COUNT + 5] = (struct json_field){JSON_OPT_BOOL(struct parallel, branches)};
    fields[CHOICE_COUNT + 6] = (struct json_field){JSON_OPT_ANY("stage_ranks")};
    json_read(object, fields, parallel, err);
    choices_read(arena, object, parallel, err);
    if (err->kind) return false;
    parallel->stage_layers =
        plan_numbers(arena, object, "stages", &parallel->stage_layers_count, err);
    parallel->replica_micro_batches =
        plan_numbers(arena, object, "replica_batches", &parallel->replica_count, err);
    parallel->stage_tp = plan_numbers(arena, object, "stage_tp", &parallel->stage_tp_count, err);
    parallel->stage_ranks =
        plan_numbers(arena, object, "stage_ranks", &parallel->stage_ranks_count, err);
    return read_order(arena, object, parallel, err) && read_layouts(arena, object, parallel, err) &&
           !err->kind;
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

// What is wrong with a rule, against the operators of the model with attention fused and not; NULL:
// nothing.
static const char *rule_fault(struct arena *arena, const struct graph *const graphs[2],
                              const struct layout_rule *rule)
{
    struct layout_rule anywhere = *rule;
    anywhere.is_of_stage = false;
    const struct parallel one = {.layouts = &anywhere, .layout_count = 1};
    for (int g = 0; g < 2; g++) {
        for (int b = 0; b < graphs[g]->block_count; b++) {
            const struct block *block = &graphs[g]->blocks[b];
            for (int o = 0; o < block->op_count; o++) {
                if (layout_rule_of(&one, rule->axis, block, &block->ops[o]))
                    return layout_rule_fault(arena, block, &block->ops[o], rule);
            }
        }
    }
    return "is no operator of the model";
}

static bool check_layouts(struct arena *arena, const struct json *root, const struct plan *plan,
                          struct err *err)
{
    const struct import_options fused = {.flash = true}, chain = {.flash = false};
    if (plan->parallel.layout_count == 0) return true;
    const struct graph *const graphs[] = {model_graph(arena, plan->model, &fused),
                                          model_graph(arena, plan->model, &chain)};
    struct json parallel = json_get(root, "parallel", err);
    struct json list = json_get(&parallel, "layouts", err);
    for (int i = 0; i < plan->parallel.layout_count; i++) {
        const struct layout_rule *rule = &plan->parallel.layouts[i];
        const char *fault = rule_fault(arena, graphs, rule);
        struct json item = json_item(&list, i);
        if (fault) return json_fail(&item, err, "%s %s", rule->operator, fault);
    }
    return true;
}

struct plan *plan_read(struct arena *arena, const struct json *object, struct err *err)
{
    struct plan *plan = ARENA_NEW(arena, struct plan, 1);
    // The cursors that the plan keeps point at their parents: those live in the arena.
    struct json *model = ARENA_NEW(arena, struct json, 1);
    plan->document = *object;
    if (json_is_object(object) && json_has(object, "placement")) {
        json_fail(object, err,
                  "the plan of a recommendation model: simulate, memory, report and run take it");
        return NULL;
    }
    if (!read_identity(arena, object, plan, err)) return NULL;
    *model = json_get(object, "model", err);
    if (err->kind || !read_model(arena, model, plan, err)) return NULL;
    if (!check_layouts(arena, object, plan, err)) return NULL;
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
