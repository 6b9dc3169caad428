#include "tests/support/checker.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "plan/schedule.h"
#include "planner/search.h"
#include "reports/table/plan_json.h"

#include <cjson/cJSON.h>
#include <stdio.h>

// The judge of plans and orders: it passes what the program makes, and sees what is spoiled.

enum { STAGES_MAX = 8, MICRO_BATCHES_MAX = 24 };

static struct checker_order order_of(struct arena *arena, enum schedule_kind kind,
                                     const struct schedule_shape *shape)
{
    int count = SLOT_KIND_COUNT * shape->chunk_count * shape->micro_batch_count;
    const struct schedule_row *row = schedule_row(kind);
    struct checker_slot **stages = ARENA_NEW(arena, struct checker_slot *, shape->stage_count);
    struct slot *slots = ARENA_NEW(arena, struct slot, count);
    for (int stage = 0; stage < shape->stage_count; stage++) {
        stages[stage] = ARENA_NEW(arena, struct checker_slot, count);
        row->order(shape, stage, slots);
        for (int i = 0; i < count; i++) {
            stages[stage][i] =
                (struct checker_slot){slots[i].kind, slots[i].chunk, slots[i].micro_batch};
        }
    }
    return (struct checker_order){.schedule = row->name,
                                  .stages = shape->stage_count,
                                  .chunks = shape->chunk_count,
                                  .micro_batches = shape->micro_batch_count,
                                  .in_flight = shape->in_flight,
                                  .slots = (const struct checker_slot *const *)stages};
}

static struct schedule_shape draw_shape(struct draw *draw, enum schedule_kind kind)
{
    struct schedule_shape shape = {draw_int(draw, 1, STAGES_MAX), draw_int(draw, 1, 4),
                                   draw_int(draw, 1, MICRO_BATCHES_MAX), 0, NULL};
    bool takes_cap = kind == SCHEDULE_ZB_AUTO;
    if (takes_cap) shape.in_flight = draw_int(draw, 0, 2 * shape.stage_count);
    if (kind == SCHEDULE_ZB_H2) shape.in_flight = draw_int(draw, 0, 1) * 2 * shape.stage_count;
    return shape;
}

static void orders_of_every_schedule_are_sound(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("orders", 20261123);
    for (int kind = 0; kind < SCHEDULE_KIND_COUNT; kind++) {
        int seen = 0;
        for (int i = 0; i < 2000 && seen < 60; i++) {
            struct arena_mark mark = arena_mark(arena);
            struct schedule_shape shape = draw_shape(&draw, (enum schedule_kind)kind);
            const char *why = NULL;
            if (schedule_row((enum schedule_kind)kind)->legal(&shape, &why)) {
                struct checker_order order = order_of(arena, (enum schedule_kind)kind, &shape);
                struct checker_result result = checker_schedule(&order);
                if (result.violation_count) {
                    fail_msg("%s, %d stages, %d chunks, %d micro-batches, in flight %d: %s",
                             order.schedule, order.stages, order.chunks, order.micro_batches,
                             order.in_flight, result.text);
                }
                seen++;
            }
            arena_reset(arena, mark);
        }
        assert_int_equal(seen, 60);
    }
}

static void check_spoiled(const struct checker_order *order, const char *said)
{
    struct checker_result result = checker_schedule(order);
    assert_true(result.violation_count > 0);
    if (!strstr(result.text, said)) fail_msg("%s, not: %s", result.text, said);
}

static void spoiled_orders_are_seen(void **state)
{
    struct arena *arena = *state;
    struct schedule_shape shape = {4, 1, 12, 0, NULL};
    struct checker_order order = order_of(arena, SCHEDULE_ZB_H1, &shape);
    struct checker_slot *slots = (struct checker_slot *)order.slots[1];
    struct checker_slot kept = slots[0];
    slots[0] = slots[1];
    check_spoiled(&order, "is no task, or one of before");
    slots[0] = kept;
    // A weight gradient before its B.
    int backward = 0, weight = 0;
    for (int i = 0; i < 36; i++) {
        if (slots[i].micro_batch != 5) continue;
        if (slots[i].kind == TASK_BACKWARD) backward = i;
        if (slots[i].kind == TASK_WEIGHT) weight = i;
    }
    kept = slots[backward];
    slots[backward] = slots[weight];
    slots[weight] = kept;
    check_spoiled(&order, "chunk 0, micro-batch 5");
    // Orders of one schedule under the name of another that holds less, or fuses.
    order = order_of(arena, SCHEDULE_GPIPE, &shape);
    order.schedule = "1f1b";
    check_spoiled(&order, "alive of 4");
    order = order_of(arena, SCHEDULE_ZB_H2, &shape);
    order.schedule = "zb-h1";
    check_spoiled(&order, "alive of 4");
    order.schedule = "gpipe";
    check_spoiled(&order, "micro-batch 0");
    order.schedule = "zb-auto";
    order.in_flight = 3;
    check_spoiled(&order, "held of 3");
}

static void stages_that_wait_for_each_other_are_seen(void **state)
{
    struct arena *arena = *state;
    struct schedule_shape shape = {2, 1, 2, 0, NULL};
    struct checker_order order = order_of(arena, SCHEDULE_GPIPE, &shape);
    struct checker_slot *first = (struct checker_slot *)order.slots[0];
    // The first stage wants its gradient of 0 before it has sent 1, the last runs 1 first.
    static const struct checker_slot FIRST[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0},
                                                {0, 0, 1}, {1, 0, 1}, {2, 0, 1}};
    static const struct checker_slot LAST[] = {{0, 0, 1}, {1, 0, 1}, {2, 0, 1},
                                               {0, 0, 0}, {1, 0, 0}, {2, 0, 0}};
    memcpy(first, FIRST, sizeof FIRST);
    memcpy((struct checker_slot *)order.slots[1], LAST, sizeof LAST);
    check_spoiled(&order, "stages wait for each other");
}

// A plan of a shipped model with experts, in text.
static const char *shipped_plan(struct arena *arena)
{
    struct err err = {0};
    struct evaluation_request request = {
        .workload = {.seq_len = 4096,
                     .global_batch = 256,
                     .precision = PRECISION_BF16,
                     .tokens = 1e12},
        .parallel = {.degree = {[AXIS_TP] = 2, 2, 1, 1, 4, 1, [AXIS_DP] = 4, 4},
                     .sp = true,
                     .vpp = 1,
                     .micro_batch = 1,
                     .zero = 1,
                     .recompute_layers = -1,
                     .schedule = SCHEDULE_ZB_H1,
                     .cp_kind = CP_ULYSSES}};
    parallel_default_order(&request.parallel);
    request.model = model_load(arena, "mixtral-8x7b", NULL, NULL, &err);
    request.cluster = cluster_load(arena, "dgx-h100-x8", &err);
    // One with all that is spoiled below: zero bubble, and ZeRO 3 without a pipeline.
    struct stack *stack = stack_copy(arena, stack_load(arena, "megatron-core", &err));
    stack->schedules |= stack_load(arena, "megatron-zero-bubble", &err)->schedules;
    stack->flags_of = NULL;
    stack->flag_count = 0;
    request.stack = stack;
    request.fabrics = fabrics_load(arena, &err);
    request.bands = bands_load(arena, &err);
    assert_string_equal(err.text, "");
    struct evaluation *evaluation = ARENA_NEW(arena, struct evaluation, 1);
    struct arena scratch = {0};
    bool ok = evaluate(arena, &scratch, &request, evaluation, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(ok);
    struct search_result result = {0};
    struct plan_document document = {
        .request = &request, .evaluation = evaluation, .search = &result, .version = "test"};
    return plan_document_text(arena, &document);
}

// One value of a sound plan changed, and what is then said.
struct spoiling {
    const char *section, *key;  // of the plan
    double number;
    const char *text;  // instead of the number
    const char *said;
};

static const struct spoiling SPOILINGS[] = {
    {"parallel", "ep", 3, NULL, "ep * etp = 3 does not divide"},
    {"parallel", "ep", 16, NULL, "ep 16 and 8 experts"},
    {"parallel", "etp", 8, NULL, "does not divide 16 ranks"},
    {"parallel", "cp", 4, NULL, "dp*tp*cp*pp = 128 on 64"},
    {"parallel", "cp_kind", 0, "star", "star is not among the cp_kinds"},
    {"parallel", "schedule", 0, "zb-v", "zb-v with 1 chunks"},
    {"parallel", "schedule", 0, "gpipe", "gpipe is not among the schedules"},
    {"parallel", "vpp", 2, NULL, "zb-h1 with 2 chunks"},
    {"parallel", "in_flight", 3, NULL, "in_flight 3 of zb-h1"},
    {"parallel", "zero", 3, NULL, "zero_stages_with_pipeline"},
    {"parallel", "zero_group", 3, NULL, "zero_group 3 over dp 4"},
    {"parallel", "recompute", 0, "attention,lunch", "lunch is not among the recompute_classes"},
    {"parallel", "passes", 0, "fusion,magic", "magic is not among the passes"},
    {"parallel", "overlap", 0, "dp", "cannot overlap dp"},
    {"workload", "seq_len", 4098, NULL, "a sequence of 4098 over 4 ranks"},
    {"memory", "worst_stage", 9, NULL, "worst_stage is no stage"},
    {"memory", "weights_bytes", 5, NULL, "weights_bytes is 5, on the worst stage"},
    {"memory", "fits", 0, "no", "fits is false"},
    {"prediction", "step_s", 1e9, NULL, "the parts of the step"},
    {"prediction", "peak_bytes", 1, NULL, "two values of peak_bytes"},
    {"prediction", "mfu_ratio", 2, NULL, "mfu_ratio is 2"},
    {"prediction", "step_s_low", 1e9, NULL, "outside its band, 1e+09 to"},
    {"prediction", "step_s_high", 1e-9, NULL, "outside its band"},
    {"prediction", "confidence", 0, "validated", "runs is called \"validated\""},
    {"prediction", "confidence", 0, "datasheet", "runs is called \"datasheet\""},
    {"prediction", "confidence", 0, "sure", "runs is called \"sure\""},
    {"prediction", "band", 5, NULL, "a band"},
    {"prediction", "money", 5, NULL, "to train at the low end of the band"},
};
enum { SPOILING_COUNT = sizeof SPOILINGS / sizeof *SPOILINGS };

static void spoil(const char *plan, const struct spoiling *spoiling)
{
    cJSON *root = cJSON_Parse(plan);
    cJSON *section = cJSON_GetObjectItemCaseSensitive(root, spoiling->section);
    cJSON *value =
        spoiling->text ? cJSON_CreateString(spoiling->text) : cJSON_CreateNumber(spoiling->number);
    assert_true(cJSON_ReplaceItemInObjectCaseSensitive(section, spoiling->key, value));
    char *text = cJSON_PrintUnformatted(root);
    struct checker_result result = checker_check(text);
    if (!strstr(result.text, spoiling->said)) {
        fail_msg("%s.%s: \"%s\", not \"%s\"", spoiling->section, spoiling->key, result.text,
                 spoiling->said);
    }
    cJSON_free(text);
    cJSON_Delete(root);
}

static void spoiled_plans_are_seen(void **state)
{
    const char *plan = shipped_plan(*state);
    assert_string_equal(checker_check(plan).text, "");
    for (int i = 0; i < SPOILING_COUNT; i++)
        spoil(plan, &SPOILINGS[i]);
    assert_string_equal(checker_check("{").text, "no JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_of_every_schedule_are_sound),
        cmocka_unit_test(spoiled_orders_are_seen),
        cmocka_unit_test(stages_that_wait_for_each_other_are_seen),
        cmocka_unit_test(spoiled_plans_are_seen),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
