#include "library/question.h"

#include "core/file.h"
#include "core/version.h"
#include "plan/plan.h"
#include "planner/choice.h"
#include "planner/default_stack.h"
#include "planner/explain.h"
#include "reports/page/replan.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <string.h>

bool question_of_plan(struct arena *arena, const struct json *root,
                      struct evaluation_request *request, struct err *err)
{
    const struct plan *plan = plan_read(arena, root, err);
    if (!plan) return false;
    *request = (struct evaluation_request){
        .model = plan->model,
        .cluster = plan->cluster,
        .workload = plan->workload,
        .parallel = plan->parallel,
        .stack = stack_read(arena, &plan->stack, err),
        .fabrics = err->kind ? NULL : fabrics_load(arena, err),
        .bands = err->kind ? NULL : bands_load(arena, err),
    };
    return !err->kind && fabrics_cover(request->fabrics, plan->cluster, err);
}

struct question {
    const char *model, *cluster, *stack, *precision, *optimizer;
    int64_t nodes, gpus, seq_len, global_batch;
    double tokens;
};

static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct question, model)},
    {JSON_TEXT(struct question, cluster)},
    {JSON_I64(struct question, seq_len, 1, 1e12)},
    {JSON_I64(struct question, global_batch, 1, 1 << 30)},
    {JSON_OPT_I64(struct question, nodes, 1, CLUSTER_NODES_MAX)},
    {JSON_OPT_I64(struct question, gpus, 1, CLUSTER_GPUS_MAX)},
    {JSON_OPT_TEXT(struct question, stack)},
    {JSON_OPT_TEXT(struct question, precision)},
    {JSON_OPT_TEXT(struct question, optimizer)},
    {JSON_OPT_F64(struct question, tokens, 1, 1e30)},
    {JSON_OPT_ANY("pins")},
    {0},
};

static const struct cluster *cluster_of(struct arena *arena, const struct question *question,
                                        struct err *err)
{
    struct cluster *cluster = cluster_load(arena, question->cluster, err);
    if (!cluster) return NULL;
    if (question->nodes && !cluster_set_nodes(cluster, question->nodes, err)) return NULL;
    if (question->gpus && !cluster_take_gpus(cluster, question->gpus, err)) return NULL;
    return cluster;
}

static bool workload_of(const struct json *at, const struct question *question,
                        struct workload *workload, struct err *err)
{
    *workload = (struct workload){
        .seq_len = question->seq_len,
        .global_batch = question->global_batch,
        .precision = PRECISION_BF16,
        .optimizer = OPTIMIZER_ADAMW,
        .tokens = question->tokens,
        .expert_imbalance = 1,
    };
    if (question->precision && !precision_from_name(question->precision, &workload->precision))
        return json_fail(at, err, "%s is no precision", question->precision);
    if (question->optimizer && !optimizer_from_name(question->optimizer, &workload->optimizer))
        return json_fail(at, err, "%s is no optimizer", question->optimizer);
    return true;
}

static const struct stack *stack_of(struct arena *arena, const char *name,
                                    const struct search_request *request, struct err *err)
{
    const struct import_options options = {.flash = true};
    bool has_experts = model_graph(arena, request->model, &options)->expert_count > 0;
    const struct stack *stack = NULL;
    if (name) {
        stack = stack_load(arena, name, err);
    } else {
        struct default_stack found;
        const struct default_stack_question question = {
            .clusters = &request->cluster,
            .cluster_count = 1,
            .precision = request->workload.precision,
            .has_experts = has_experts,
            .pins = &request->pins,
            .bands = bands_load(arena, err),
        };
        if (question.bands && default_stack_find(arena, &question, &found, err))
            stack = found.stack;
    }
    return stack ? stack_for_model(arena, stack, has_experts) : NULL;
}

static bool request_of(struct arena *arena, const struct json *at, struct search_request *request,
                       struct err *err)
{
    struct question question = {0};
    json_read(at, FIELDS, &question, err);
    if (err->kind) return false;
    *request = (struct search_request){.pins = pins_none(), .top = 5};
    request->model = model_load(arena, question.model, NULL, NULL, err);
    request->cluster = request->model ? cluster_of(arena, &question, err) : NULL;
    if (!request->cluster || !workload_of(at, &question, &request->workload, err) ||
        !replan_pins(arena, at, &request->pins, err))
        return false;
    request->stack = stack_of(arena, question.stack, request, err);
    request->fabrics = request->stack ? fabrics_load(arena, err) : NULL;
    return request->fabrics && fabrics_cover(request->fabrics, request->cluster, err);
}

static const char *plan_text(struct arena *arena, const struct search_request *request,
                             const struct search_result *result, struct err *err)
{
    struct evaluation_request evaluated = {
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .bands = bands_load(arena, err),
        .workload = request->workload,
        .parallel = result->best[0].parallel,
        .selected_count = result->considered_count,
    };
    struct evaluation evaluation;
    struct arena scratch = {0};
    bool done = evaluated.bands && evaluate(arena, &scratch, &evaluated, &evaluation, err);
    arena_free(&scratch);
    if (!done) return NULL;
    const struct plan_document document = {
        .request = &evaluated,
        .evaluation = &evaluation,
        .search = result,
        .device_bytes = cluster_device_bytes(request->cluster),
        .version = MESHWRIGHT_VERSION,
    };
    return plan_document_text(arena, &document);
}

struct question_answer question_answer(struct arena *arena, const struct json *question,
                                       struct err *err)
{
    struct question_answer answer = {0};
    struct search_request request;
    struct search_result result = {0};
    if (!request_of(arena, question, &request, err) || !search_plans(arena, &request, &result, err))
        return answer;
    if (result.status == SEARCH_NOTHING_FITS)
        answer.reason = plan_nothing_text(arena, &request, &result);
    else
        answer.plan = plan_text(arena, &request, &result, err);
    return answer;
}

struct question_answer question_why(struct arena *arena, const struct json *question,
                                    const char *choice, struct err *err)
{
    struct question_answer answer = {0};
    struct search_request request;
    struct search_result result = {0};
    struct explanation explanation = {0};
    const char *equals = strchr(choice, '=');
    if (!equals) {
        err_set(err, ERR_USAGE, "expected KEY=VALUE, found \"%s\"", choice);
        return answer;
    }
    if (!request_of(arena, question, &request, err) || !search_plans(arena, &request, &result, err))
        return answer;
    if (result.status == SEARCH_NOTHING_FITS) {
        err_set(err, ERR_USAGE, "%s", plan_nothing_text(arena, &request, &result));
        return answer;
    }
    const char *key = arena_print(arena, "%.*s", (int)(equals - choice), choice);
    if (!explain_why(arena, &request, &result, key, equals + 1, &explanation, err)) return answer;
    answer.reason = explanation.text ? explanation.text : explanation.reason;
    answer.plan = plan_text(arena, &request, &result, err);
    return answer;
}

const char *question_base(struct arena *arena, const char *plan, struct err *err)
{
    enum { DATA_BYTES_MAX = 64 << 20 };
    static const char *const NAMES[] = {"fabrics", "bands"};
    const char *texts[2];
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        const char *path = file_find_data(arena, "cost_models", NAMES[i], NAMES[i], err);
        texts[i] = path ? file_read(arena, path, DATA_BYTES_MAX, &bytes, err) : NULL;
        if (!texts[i]) return NULL;
    }
    return arena_print(arena, "{\"plan\": %s, \"fabrics\": %s, \"bands\": %s}", plan, texts[0],
                       texts[1]);
}
