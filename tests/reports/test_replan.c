#include "core/file.h"
#include "core/json_write.h"
#include "core/units.h"
#include "plan/plan.h"
#include "planner/choice.h"
#include "reports/page/replan.h"
#include "reports/page/replan_words.h"
#include "tests/support/test.h"

// A plan of the command line is made by reports/table/plan_json.c, as replan's is; that both are
// the same bytes is for tests/wasm.t. Here: what a change means, and what is refused.

static char *read_text(struct arena *arena, const char *folder, const char *name)
{
    struct err err = {0};
    size_t bytes = 0;
    const char *path = file_find_data(arena, folder, name, "table", &err);
    char *text = path ? file_read(arena, path, 1 << 24, &bytes, &err) : NULL;
    assert_string_equal(err.text, "");
    return text;
}

// gpt2 on two nodes of 8 A100, 64 sequences of 1,024 tokens a step; the plan is what the search
// finds, so that "{}" gives it again.
static const char *base_of(struct arena *arena)
{
    struct err err = {0};
    struct json_document documents[2];
    const char *config = read_text(arena, "models/zoo", "gpt2");
    const char *stack = read_text(arena, "cost_models/stacks", "meshwright");
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g-x2", &err);
    assert_non_null(cluster);
    assert_true(json_parse(arena, "config", config, strlen(config), &documents[0], &err));
    assert_true(json_parse(arena, "stack", stack, strlen(stack), &documents[1], &err));
    struct json roots[] = {json_root(&documents[0]), json_root(&documents[1])};
    struct workload workload = {
        .seq_len = 1024, .global_batch = 64, .precision = PRECISION_BF16, .expert_imbalance = 1};
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .vpp = 1,
                                .micro_batch = 4,
                                .zero = 1,
                                .recompute_layers = -1,
                                .schedule = SCHEDULE_1F1B};
    parallel.degree[AXIS_DP] = 16;
    parallel_default_order(&parallel);

    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_open(&writer, "plan", '{');
    json_put_i64(&writer, "version", PLAN_VERSION);
    json_open(&writer, "model", '{');
    json_put_text(&writer, "name", "gpt2");
    json_put_copy(&writer, "config", &roots[0]);
    json_close(&writer, '}');
    cluster_write(&writer, "cluster", cluster);
    json_put_copy(&writer, "stack", &roots[1]);
    workload_write(&writer, "workload", &workload);
    parallel_write(&writer, "parallel", &parallel);
    const char *const results[] = {"stages", "memory", "prediction", "alternatives", "provenance"};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        json_put_null(&writer, results[i]);
    json_close(&writer, '}');
    json_close(&writer, '}');
    writer.text[strlen(writer.text) - 3] = '\0';  // open again
    return arena_print(arena, "%s, \"fabrics\": %s, \"bands\": %s}", writer.text,
                       read_text(arena, "cost_models", "fabrics"),
                       read_text(arena, "cost_models", "bands"));
}

static struct search_request request_of(struct arena *arena, const char *change)
{
    struct err err = {0};
    struct json_document *documents = ARENA_NEW(arena, struct json_document, 2);
    struct json *roots = ARENA_NEW(arena, struct json, 2);
    const char *texts[] = {base_of(arena), change};
    for (int i = 0; i < 2; i++) {
        assert_true(json_parse(arena, "text", texts[i], strlen(texts[i]), &documents[i], &err));
        roots[i] = json_root(&documents[i]);
    }
    struct search_request request = {0};
    bool done = replan_request(arena, &roots[0], &roots[1], &request, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return request;
}

static struct json answered(struct arena *arena, const char *change)
{
    struct err err = {0};
    struct replan_answer answer = replan(arena, base_of(arena), change);
    assert_int_equal(answer.status, 0);
    assert_null(answer.reason);
    assert_non_null(answer.words);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    assert_true(json_parse(arena, "answer", answer.plan, strlen(answer.plan), document, &err));
    return json_root(document);
}

static double step_s(const struct json *plan)
{
    struct err err = {0};
    struct json prediction = json_get(plan, "prediction", &err);
    struct json step = json_get(&prediction, "step_s", &err);
    return json_f64(&step, 0, 1e9, &err);
}

static void assert_refused(struct arena *arena, const char *change, int status, const char *reason)
{
    struct replan_answer answer = replan(arena, base_of(arena), change);
    assert_int_equal(answer.status, status);
    assert_null(answer.plan);
    assert_string_equal(answer.reason, reason);
}

static void nothing_changed_is_the_plan_s_own_question(void **state)
{
    struct search_request request = request_of(*state, "{}");
    assert_string_equal(request.model->name, "gpt2");
    assert_int_equal(request.cluster->rank_count, 16);
    assert_int_equal(request.workload.seq_len, 1024);
    assert_int_equal(request.objective, OBJECTIVE_TIME);
    for (int i = 0; i < CHOICE_COUNT; i++)
        assert_false(pins_get(&request.pins, (enum choice)i).set);
}

static void gpus_are_whole_nodes_first(void **state)
{
    const int wanted[][3] = {{1, 1, 1}, {8, 1, 8}, {12, 2, 12}, {24, 3, 24}, {1000, 125, 1000}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *change = arena_print(*state, "{\"gpus\": %d}", wanted[i][0]);
        struct search_request request = request_of(*state, change);
        assert_int_equal(request.cluster->node_count, wanted[i][1]);
        assert_int_equal(request.cluster->rank_count, wanted[i][2]);
    }
}

static void ratios_multiply_what_they_name_and_nothing_else(void **state)
{
    struct search_request base = request_of(*state, "{}");
    struct search_request request =
        request_of(*state, "{\"network_ratio\": 0.5, \"intra_ratio\": 2, \"memory_ratio\": 1.5, "
                           "\"flop_ratio\": 3, \"price_per_gpu_hour\": 7, \"currency\": \"EUR\"}");
    const struct node_group *old = base.cluster->nodes, *new = request.cluster->nodes;
    assert_true(new->nics.bandwidth_bytes_per_s == old->nics.bandwidth_bytes_per_s / 2);
    assert_int_equal(new->nics.count, old->nics.count);
    assert_true(new->intra.bandwidth_bytes_per_s == old->intra.bandwidth_bytes_per_s * 2);
    assert_int_equal(new->device->memory_bytes, old->device->memory_bytes * 3 / 2);
    assert_true(new->device->memory_bandwidth_bytes_per_s ==
                old->device->memory_bandwidth_bytes_per_s);
    assert_true(new->device->peak_flop_per_s[PRECISION_BF16] ==
                old->device->peak_flop_per_s[PRECISION_BF16] * 3);
    assert_true(request.cluster->price.per_gpu_hour == 7);
    assert_string_equal(request.cluster->price.currency, "EUR");
}

static void the_workload_follows(void **state)
{
    struct search_request request =
        request_of(*state, "{\"seq_len\": 512, \"global_batch\": 32, \"tokens\": 1e12}");
    assert_int_equal(request.workload.seq_len, 512);
    assert_int_equal(request.workload.global_batch, 32);
    assert_true(request.workload.tokens == 1e12);
    assert_int_equal(request.workload.precision, PRECISION_BF16);
}

static void cluster_stack_and_precision_are_replaced(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct json_writer writer = {.arena = arena};
    const struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    assert_non_null(cluster);
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "precision", "fp8");
    cluster_write(&writer, "cluster", cluster);
    json_close(&writer, '}');
    struct search_request request = request_of(arena, writer.text);
    assert_int_equal(request.workload.precision, PRECISION_FP8);
    assert_string_equal(request.cluster->name, "dgx-h100");
    // As many GPUs as the plan has.
    assert_int_equal(request.cluster->rank_count, 16);
    const char *stack = read_text(arena, "cost_models/stacks", "megatron-core");
    request = request_of(arena, arena_print(arena, "{\"stack\": %s, \"gpus\": 8}", stack));
    assert_string_equal(request.stack->name, "megatron-core");
    assert_string_equal(request.cluster->name, "dgx-a100-80g");
    assert_int_equal(request.cluster->rank_count, 8);
}

static void what_is_kept_is_pinned_but_for_data_parallelism(void **state)
{
    struct search_request request = request_of(*state, "{\"keep\": true, \"pins\": {\"tp\": 2}}");
    assert_false(request.pins.degree[AXIS_DP].set);
    assert_int_equal(request.pins.degree[AXIS_TP].low, 2);
    assert_int_equal(request.pins.degree[AXIS_PP].high, 1);
    assert_int_equal(request.pins.micro_batch.low, 4);
    assert_int_equal(request.pins.zero.low, 1);
    request = request_of(*state, "{\"pins\": {\"zero\": \"1..3\", \"recompute\": \"full\"}}");
    assert_int_equal(request.pins.zero.low, 1);
    assert_int_equal(request.pins.zero.high, 3);
    assert_int_equal(request.pins.recompute_layers.low, -1);
}

static void more_bandwidth_and_more_gpus_are_never_slower(void **state)
{
    struct json plan = answered(*state, "{}");
    struct json fast = answered(*state, "{\"network_ratio\": 4}");
    struct json many = answered(*state, "{\"gpus\": 32}");
    struct json slow = answered(*state, "{\"flop_ratio\": 0.1}");
    assert_true(step_s(&fast) <= step_s(&plan));
    assert_true(step_s(&many) < step_s(&plan));
    assert_true(step_s(&slow) > step_s(&plan));
}

static void equal_questions_give_equal_bytes(void **state)
{
    const char *base = base_of(*state);
    const char *change = "{\"gpus\": 6, \"global_batch\": 48}";
    struct replan_answer first = replan(*state, base, change);
    struct replan_answer second = replan(*state, base, change);
    assert_int_equal(first.status, 0);
    assert_string_equal(first.plan, second.plan);
    assert_string_equal(first.words, second.words);
}

static void words_compare_steps_of_one_size_and_rates_else(void **state)
{
    const char *price = "\"price_per_gpu_hour\": 2, \"currency\": \"EUR\"";
    const char *base = base_of(*state);
    struct json plan = answered(*state, "{}");
    struct json many = answered(*state, "{\"gpus\": 32}");
    // The base's plan holds no prediction: its answer takes the plan's place.
    struct replan_answer first = replan(*state, base, "{}");
    assert_non_null(strstr(first.words, "\"sentence\": \"A step takes "));
    const char *words = replan_words(*state, &plan, &many);
    const char *sentence =
        arena_print(*state, "\"A step takes %s instead of %s, %s less.\"",
                    units_seconds(*state, step_s(&many)), units_seconds(*state, step_s(&plan)),
                    units_ratio(*state, 1 - step_s(&many) / step_s(&plan)));
    assert_non_null(strstr(words, sentence));
    assert_non_null(strstr(words, "\"better\": true"));

    struct json large = answered(*state, "{\"global_batch\": 128}");
    words = replan_words(*state, &plan, &large);
    assert_non_null(strstr(words, "\"sentence\": \"Tokens a second are "));
    const char *step = strstr(words, "\"name\": \"Step\"");
    assert_true(strstr(step, "\"better\"") > strstr(step, "\"name\": \"Tokens a second\""));

    struct json dear = answered(*state, arena_print(*state, "{%s, \"tokens\": 1e12}", price));
    words = replan_words(*state, &plan, &dear);
    assert_non_null(strstr(words, "\"sentence\": \"1 T tokens take "));
    assert_non_null(strstr(words, " and cost "));
    struct json same = answered(*state, "{}");
    words = replan_words(*state, &plan, &same);
    assert_non_null(strstr(words, "as before.\""));
    assert_null(strstr(words, "\"better\""));
}

// A step that cannot be run is no yardstick.
static void nothing_is_compared_with_what_does_not_fit(void **state)
{
    const char *text =
        "{\"memory\": {\"fits\": %s, \"device_bytes\": 80e9}, \"workload\": {\"seq_len\": 512, "
        "\"global_batch\": 8}, \"prediction\": {\"step_s\": %d, \"reserved_bytes\": %d}}";
    struct json plans[3];
    const char *const FITS[] = {"true", "false", "true"};
    for (int i = 0; i < 3; i++) {
        struct err err = {0};
        struct json_document *document = ARENA_NEW(*state, struct json_document, 1);
        const char *own = arena_print(*state, text, FITS[i], 10 - i, 90 - i);
        assert_true(json_parse(*state, "plan", own, strlen(own), document, &err));
        plans[i] = json_root(document);
    }
    const char *words = replan_words(*state, &plans[0], &plans[2]);
    assert_non_null(strstr(words, "A step takes 8.00 s instead of 10.00 s, 20.0 % less"));
    assert_non_null(strstr(words, "\"better\": true"));
    words = replan_words(*state, &plans[1], &plans[2]);
    assert_non_null(strstr(words, "A step takes 8.00 s, and the plan before does not fit"));
    assert_null(strstr(words, "\"better\""));
    assert_null(strstr(words, "-11.1"));
    words = replan_words(*state, &plans[0], &plans[1]);
    assert_non_null(strstr(words, "A step takes 9.00 s if it did fit"));
    assert_null(strstr(words, "\"better\""));
}

static void what_does_not_fit_has_a_reason_and_pinned_a_plan_as_well(void **state)
{
    const char *base = base_of(*state);
    struct replan_answer answer = replan(*state, base, "{\"memory_ratio\": 0.01}");
    assert_int_equal(answer.status, 1);
    assert_null(answer.plan);
    assert_ptr_equal(strstr(answer.reason, "nothing fits: "), answer.reason);
    answer = replan(*state, base,
                    "{\"memory_ratio\": 0.01, \"pins\": {\"tp\": 1, \"pp\": 1, \"dp\": 16}}");
    assert_int_equal(answer.status, 1);
    assert_non_null(answer.plan);
    assert_non_null(strstr(answer.plan, "\"fits\": false"));
}

static void wrong_changes_are_refused_at_their_place(void **state)
{
    const struct {
        const char *change;
        int status;
        const char *reason;
    } wrong[] = {
        {"{\"gpu\": 8}", 3, "change:1:2: $.gpu: unknown key, did you mean \"gpus\"?"},
        {"{\"gpus\": 0}", 3, "change:1:10: $.gpus: must be between 1 and 1073741824, found 0"},
        {"{\"gpus\": \"8\"}", 3, "change:1:10: $.gpus: expected a number, found a string"},
        {"{\"network_ratio\": 0}", 3,
         "change:1:19: $.network_ratio: must be between 0.01 and 100, found 0"},
        {"{\"price_per_gpu_hour\": 2}", 3,
         "change:1:24: $.price_per_gpu_hour: cluster dgx-a100-80g has no currency: \"currency\" is "
         "missing"},
        {"{\"pins\": {\"zer\": 1}}", 2, "unknown choice \"zer\": did you mean \"zero\"?"},
        {"{\"pins\": {\"tp\": \"4..2\"}}", 2,
         "tp: a range ends where it starts or later, found 4..2"},
        {"{\"pins\": [2]}", 3, "change:1:10: $.pins: expected an object, found an array"},
        {"{\"pins\": {\"tp\": 5}}", 2,
         "--tp 5: 12 heads cannot be split by 5; the nearest that divide are 4 and 6; with all "
         "else as it is, --tp may be 1, 2, 4"},
        {"{", 3, "change:1:2: not valid JSON from here on"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(*state, wrong[i].change, wrong[i].status, wrong[i].reason);
}

static void a_base_without_its_parts_is_refused(void **state)
{
    struct replan_answer answer = replan(*state, "{\"plan\": {}}", "{}");
    assert_int_equal(answer.status, 3);
    assert_string_equal(answer.reason, "page:1:1: $: missing \"bands\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changed_is_the_plan_s_own_question),
        cmocka_unit_test(gpus_are_whole_nodes_first),
        cmocka_unit_test(ratios_multiply_what_they_name_and_nothing_else),
        cmocka_unit_test(the_workload_follows),
        cmocka_unit_test(cluster_stack_and_precision_are_replaced),
        cmocka_unit_test(what_is_kept_is_pinned_but_for_data_parallelism),
        cmocka_unit_test(more_bandwidth_and_more_gpus_are_never_slower),
        cmocka_unit_test(equal_questions_give_equal_bytes),
        cmocka_unit_test(words_compare_steps_of_one_size_and_rates_else),
        cmocka_unit_test(nothing_is_compared_with_what_does_not_fit),
        cmocka_unit_test(what_does_not_fit_has_a_reason_and_pinned_a_plan_as_well),
        cmocka_unit_test(wrong_changes_are_refused_at_their_place),
        cmocka_unit_test(a_base_without_its_parts_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
