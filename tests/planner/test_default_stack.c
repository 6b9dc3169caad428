#include "planner/choice.h"
#include "planner/default_stack.h"
#include "tests/support/test.h"

static struct pins PINS;

static struct default_stack_question ask(struct arena *arena, const char *cluster,
                                         enum precision precision)
{
    struct err err = {0};
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, 1);
    clusters[0] = cluster_load(arena, cluster, &err);
    PINS = pins_none();
    struct default_stack_question question = {
        .clusters = clusters,
        .cluster_count = 1,
        .precision = precision,
        .pins = &PINS,
        .bands = bands_load(arena, &err),
    };
    assert_string_equal(err.text, "");
    return question;
}

static struct default_stack find(struct arena *arena, const struct default_stack_question *question)
{
    struct err err = {0};
    struct default_stack found = {0};
    assert_true(default_stack_find(arena, question, &found, &err));
    assert_string_equal(err.text, "");
    return found;
}

static const char *refusal(struct arena *arena, const struct default_stack_question *question)
{
    struct err err = {0};
    struct default_stack found = {0};
    assert_false(default_stack_find(arena, question, &found, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    return arena_print(arena, "%s", err.text);
}

// No shipped stack has more runs there, counted from the rows themselves.
static void the_stack_with_most_runs_on_the_device_is_taken(void **state)
{
    static const char *const CLUSTERS[] = {"dgx-a100-80g", "dgx-h100", "dgx-h200", "dgx-b200",
                                           "gb200-nvl72"};
    for (size_t i = 0; i < sizeof CLUSTERS / sizeof *CLUSTERS; i++) {
        struct default_stack_question question = ask(*state, CLUSTERS[i], PRECISION_BF16);
        const char *device = question.clusters[0]->nodes[0].device->name;
        struct default_stack found = find(*state, &question);
        int most = 0, taken = 0, row_count = question.bands->count;
        for (int j = 0; j < row_count; j++) {
            const struct band *row = &question.bands->rows[j];
            if (strcmp(row->device, device) != 0 || strcmp(row->stack, "*") == 0) continue;
            int sum = 0;
            for (int k = 0; k < row_count; k++) {
                const struct band *other = &question.bands->rows[k];
                bool is_same =
                    strcmp(other->device, device) == 0 && strcmp(other->stack, row->stack) == 0;
                if (is_same) sum += other->row_count;
            }
            if (sum > most) most = sum;
            if (strcmp(row->stack, found.stack->name) == 0) taken = sum;
        }
        assert_int_equal(taken, most);
        assert_true(most > 0);
        assert_string_equal(found.why, arena_print(*state, "%d measured runs on %s", most, device));
    }
}

static void a_device_without_runs_takes_those_of_the_nearest(void **state)
{
    struct default_stack_question of_a800 = ask(*state, "hgx-a800", PRECISION_BF16);
    struct default_stack_question of_a100 = ask(*state, "dgx-a100-80g", PRECISION_BF16);
    struct default_stack found = find(*state, &of_a800);
    assert_string_equal(found.stack->name, find(*state, &of_a100).stack->name);
    assert_non_null(strstr(found.why, "no measured run on a800-sxm4-80g, "));
    assert_non_null(strstr(found.why, " on the nearest device, a100-sxm4-80g"));
}

// It has runs on A100, and few have it.
static void a_fork_is_taken_only_when_named(void **state)
{
    struct default_stack_question question = ask(*state, "dgx-a100-80g", PRECISION_BF16);
    assert_true(bands_runs(question.bands, "a100-sxm4-80g", "megatron-zero-bubble") > 0);
    question.has_experts = true;
    assert_string_equal(find(*state, &question).stack->name, "megatron-core");
    pins_set(&PINS, CHOICE_SCHEDULE, SCHEDULE_ZB_H1, SCHEDULE_ZB_H1);
    assert_string_equal(refusal(*state, &question),
                        "stack megatron-core, taken because --stack is not given (no measured run "
                        "on a100-sxm4-80g), has no schedule zb-h1; --stack megatron-zero-bubble "
                        "can");
}

static void a_stack_is_for_its_kind_of_device(void **state)
{
    struct default_stack_question question = ask(*state, "ascend-910b", PRECISION_BF16);
    struct default_stack found = find(*state, &question);
    assert_string_equal(found.stack->name, "mindspeed");
    assert_string_equal(found.why, "no measured run on ascend-910b-64g");
}

static void what_the_first_cannot_run_goes_to_the_next_that_can(void **state)
{
    struct default_stack_question question = ask(*state, "dgx-a100-80g", PRECISION_BF16);
    const struct stack *first = find(*state, &question).stack;
    assert_true(first->experts_only_when_named && !first->fp8_gemms);
    question.has_experts = true;
    struct default_stack found = find(*state, &question);
    assert_true(found.stack->axes >> AXIS_EP & 1);
    assert_non_null(strstr(found.why, arena_print(*state, "; %s, with ", first->name)));
    assert_non_null(strstr(found.why, ", has no measured run with experts"));
    assert_non_null(strstr(found.why, ", cannot split over ep"));
    pins_set(&PINS, CHOICE_EP, 1, 1);
    assert_string_equal(find(*state, &question).stack->name, found.stack->name);
    question = ask(*state, "dgx-a100-80g", PRECISION_FP8);
    found = find(*state, &question);
    assert_true(found.stack->fp8_gemms);
    assert_non_null(strstr(found.why, ", runs no GEMMs in fp8"));
}

// Else `--vpp 2..8` would find the plan of another stack, faster than the best without it.
static void a_pin_never_changes_the_stack(void **state)
{
    struct default_stack_question question = ask(*state, "l40s-pcie8-x4", PRECISION_BF16);
    assert_string_equal(find(*state, &question).stack->name, "megatron-deepspeed");
    pins_set(&PINS, CHOICE_VPP, 2, 8);
    assert_string_equal(refusal(*state, &question),
                        "stack megatron-deepspeed, taken because --stack is not given (no measured "
                        "run on l40s-48g, 157 on the nearest device, a100-sxm4-80g), has no "
                        "schedule interleaved; --stack internevo can");
    pins_set(&PINS, CHOICE_VPP, 1, 8);
    assert_string_equal(find(*state, &question).stack->name, "megatron-deepspeed");
    question = ask(*state, "dgx-h200", PRECISION_BF16);
    pins_set(&PINS, CHOICE_ZERO, 1, 1);
    assert_string_equal(refusal(*state, &question),
                        "stack fsdp2, taken because --stack is not given (25 measured runs on "
                        "h200-sxm5-141g), has no zero stage 1; --stack megatron-core can");
    pins_set(&PINS, CHOICE_ZERO, 1, 2);
    assert_string_equal(find(*state, &question).stack->name, "fsdp2");
    question = ask(*state, "dgx-a100-80g", PRECISION_BF16);
    pins_set(&PINS, CHOICE_CP, 2, 4);
    assert_non_null(strstr(refusal(*state, &question), "), cannot split over cp; --stack "));
}

// Every pin of one value, on every kind of cluster: the stack of the question without it, or none.
// What no search tries by itself asks for a stack that has it: a grid of tp, a relay, a loss in
// parts, and shard groups of their own.
static void of_every_pin_the_stack_is_that_of_no_pin(void **state)
{
    static const char *const CLUSTERS[] = {"dgx-a100-80g", "dgx-h200"};
    int refused = 0, asked = 0;
    for (size_t i = 0; i < 2 * sizeof CLUSTERS / sizeof *CLUSTERS; i++) {
        struct default_stack_question question = ask(*state, CLUSTERS[i / 2], PRECISION_BF16);
        question.has_experts = i % 2;
        const char *own = find(*state, &question).stack->name;
        for (int choice = 0; choice < CHOICE_COUNT; choice++) {
            for (int value = 0; value < 4; value++) {
                struct err err = {0};
                struct default_stack found = {0};
                PINS = pins_none();
                pins_set(&PINS, (enum choice)choice, value, value);
                bool ok = default_stack_find(*state, &question, &found, &err);
                refused += !ok;
                bool is_grid = choice == CHOICE_TP_KIND && value != TP_1D;
                bool is_parts = choice == CHOICE_TP_RELAY || choice == CHOICE_LOSS_CHUNKS;
                bool is_group = choice == CHOICE_ZERO_GRADIENTS || choice == CHOICE_ZERO_PARAMETERS;
                bool is_ours = (is_parts && value > 1) || (is_group && value > 0);
                asked += is_ours;
                if (ok && is_grid) assert_true(found.stack->tp_kinds >> value & 1);
                if (is_ours) assert_true(ok && stack_is_executed(found.stack));
                if (ok && !is_grid && !is_ours) assert_string_equal(found.stack->name, own);
            }
        }
    }
    assert_in_range(refused, 10, 200);
    assert_int_equal(asked, 4 * (2 + 2 + 3 + 3));
}

// Height and width of pictures are split by ours, which has no kernels for them on GPUs, and by
// xla.
static void a_model_without_kernels_is_not_sent_to_our_stack(void **state)
{
    struct default_stack_question question = ask(*state, "dgx-h100", PRECISION_BF16);
    pins_set(&PINS, CHOICE_SP_H, 2, 2);
    assert_non_null(strstr(refusal(*state, &question), "; --stack meshwright can"));
    question.is_unexecuted = true;
    assert_non_null(strstr(refusal(*state, &question), "; --stack xla can"));
}

static void what_no_stack_can_run_is_left_to_the_search(void **state)
{
    struct default_stack_question question = ask(*state, "dgx-h100", PRECISION_BF16);
    const struct stack *first = find(*state, &question).stack;
    pins_set(&PINS, CHOICE_SCHEDULE, SCHEDULE_GPIPE, SCHEDULE_GPIPE);
    pins_set(&PINS, CHOICE_VPP, 3, 3);
    assert_string_equal(find(*state, &question).stack->name, first->name);
}

static void one_stack_is_taken_for_several_clusters(void **state)
{
    struct err err = {0};
    struct default_stack_question question = ask(*state, "dgx-h100", PRECISION_BF16);
    const struct cluster *both[] = {question.clusters[0], cluster_load(*state, "dgx-h200", &err)};
    question.clusters = both;
    question.cluster_count = 2;
    struct default_stack found = find(*state, &question);
    assert_string_equal(found.stack->name, "megatron-core");
    assert_non_null(strstr(found.why, " measured runs on these devices"));
}

// Runs that are given here: `rows` of them, in place of those that are shipped.
static struct default_stack_question ask_of(struct arena *arena, const char *cluster,
                                            struct bands *bands, struct band *rows, int count)
{
    struct default_stack_question question = ask(arena, cluster, PRECISION_BF16);
    *bands = (struct bands){.rows = rows, .count = count};
    question.bands = bands;
    return question;
}

// With as many runs on the device more on any decide, with as many of these the name does.
static void ties_go_to_more_runs_in_all_and_then_to_the_name(void **state)
{
    struct bands bands;
    struct band rows[] = {{.device = "a100-sxm4-80g", .stack = "*", .row_count = 10},
                          {.device = "a100-sxm4-80g", .stack = "nanotron", .row_count = 2},
                          {.device = "a100-sxm4-80g", .stack = "nanotron", .row_count = 3},
                          {.device = "a100-sxm4-80g", .stack = "fsdp2", .row_count = 5},
                          {.device = "*", .stack = "fsdp2", .row_count = 14},
                          {.device = "*", .stack = "nanotron", .row_count = 14}};
    struct default_stack_question question = ask_of(*state, "dgx-a100-80g", &bands, rows, 6);
    struct default_stack found = find(*state, &question);
    assert_string_equal(found.stack->name, "fsdp2");
    assert_string_equal(found.why, "5 measured runs on a100-sxm4-80g");
    rows[5].row_count = 15;
    assert_string_equal(find(*state, &question).stack->name, "nanotron");
    rows[2].row_count = 2;
    assert_string_equal(find(*state, &question).stack->name, "fsdp2");
}

// From A800 it is once the distance to A100 of 80 GB, 2039 / 1555 = 1.31 times to that of 40 GB and
// 989 / 312 * 4800 / 2039 = 7.5 times to H200; from L40S 362 / 312 * 1555 / 864 = 2.09 times to the
// 40 GB one, 2.74 to the other and 989 / 362 * 4800 / 864 = 15.2 to H200.
static void the_nearest_device_has_the_nearest_rates(void **state)
{
    struct bands bands;
    struct band rows[] = {{.device = "a100-sxm4-40g", .stack = "*", .row_count = 1},
                          {.device = "a100-sxm4-40g", .stack = "nanotron", .row_count = 1},
                          {.device = "a100-sxm4-80g", .stack = "*", .row_count = 1},
                          {.device = "a100-sxm4-80g", .stack = "fsdp2", .row_count = 1},
                          {.device = "h200-sxm5-141g", .stack = "*", .row_count = 50},
                          {.device = "h200-sxm5-141g", .stack = "eager", .row_count = 50},
                          {.device = "ascend-910b-64g", .stack = "*", .row_count = 70},
                          {.device = "*", .stack = "xla", .row_count = 70}};
    struct default_stack_question question = ask_of(*state, "hgx-a800", &bands, rows, 8);
    struct default_stack found = find(*state, &question);
    assert_string_equal(found.stack->name, "fsdp2");
    assert_string_equal(found.why, "no measured run on a800-sxm4-80g, 1 on the nearest device, "
                                   "a100-sxm4-80g");
    question = ask_of(*state, "l40s-pcie8-x4", &bands, rows, 8);
    assert_string_equal(find(*state, &question).stack->name, "nanotron");
    // Of two clusters nobody measured neither is named.
    struct err err = {0};
    const struct cluster *both[] = {cluster_load(*state, "hgx-a800", &err),
                                    cluster_load(*state, "l40s-pcie8-x4", &err)};
    question.clusters = both;
    question.cluster_count = 2;
    assert_string_equal(find(*state, &question).why,
                        "no measured run on any of these devices, 1 on the nearest device, "
                        "a100-sxm4-80g");
    // Without a run on any device of its kind runs elsewhere decide.
    question = ask_of(*state, "hgx-a800", &bands, rows + 6, 2);
    found = find(*state, &question);
    assert_string_equal(found.stack->name, "xla");
    assert_string_equal(found.why, "no measured run on a800-sxm4-80g");
}

// What a stack with most runs lacks of a pin is said, and the first by runs and name that has it.
static void what_is_pinned_is_asked_of_the_stack(void **state)
{
    static const struct {
        const char *stack;
        enum choice choice;
        int64_t value;
        const char *lacks, *other;  // NULL: nothing
    } CASES[] = {
        {"nanotron", CHOICE_CP, 2, "cannot split over cp", "automodel"},
        {"nanotron", CHOICE_CP, 1, NULL, NULL},
        {"nanotron", CHOICE_ZERO, 2, "has no zero stage 2", "automodel"},
        {"nanotron", CHOICE_VPP, 2, "has no schedule interleaved", "automodel"},
        {"nanotron", CHOICE_VPP, 1, NULL, NULL},
        {"nanotron", CHOICE_SCHEDULE, SCHEDULE_1F1B, NULL, NULL},
        {"fsdp", CHOICE_SCHEDULE, SCHEDULE_1F1B, "cannot split over pp", "automodel"},
        {"nanotron", CHOICE_SCHEDULE, SCHEDULE_GPIPE, "has no schedule gpipe", "fsdp2"},
        {"nanotron", CHOICE_ATTENTION, ATTENTION_UNFUSED, "has no unfused attention", "colossalai"},
        {"nanotron", CHOICE_TP, 4, NULL, NULL},
        {"fsdp", CHOICE_TP, 4, "cannot split over tp", "automodel"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct bands bands;
        struct band rows[] = {{.device = "a100-sxm4-80g", .stack = "*", .row_count = 4},
                              {.device = "a100-sxm4-80g", .stack = CASES[i].stack, .row_count = 4}};
        struct default_stack_question question = ask_of(*state, "dgx-a100-80g", &bands, rows, 2);
        pins_set(&PINS, CASES[i].choice, CASES[i].value, CASES[i].value);
        if (!CASES[i].lacks) {
            assert_string_equal(find(*state, &question).stack->name, CASES[i].stack);
            continue;
        }
        assert_string_equal(
            refusal(*state, &question),
            arena_print(*state,
                        "stack %s, taken because --stack is not given (4 measured runs on "
                        "a100-sxm4-80g), %s; --stack %s can",
                        CASES[i].stack, CASES[i].lacks, CASES[i].other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stack_with_most_runs_on_the_device_is_taken),
        cmocka_unit_test(a_device_without_runs_takes_those_of_the_nearest),
        cmocka_unit_test(a_fork_is_taken_only_when_named),
        cmocka_unit_test(a_stack_is_for_its_kind_of_device),
        cmocka_unit_test(what_the_first_cannot_run_goes_to_the_next_that_can),
        cmocka_unit_test(a_pin_never_changes_the_stack),
        cmocka_unit_test(of_every_pin_the_stack_is_that_of_no_pin),
        cmocka_unit_test(a_model_without_kernels_is_not_sent_to_our_stack),
        cmocka_unit_test(what_no_stack_can_run_is_left_to_the_search),
        cmocka_unit_test(one_stack_is_taken_for_several_clusters),
        cmocka_unit_test(ties_go_to_more_runs_in_all_and_then_to_the_name),
        cmocka_unit_test(the_nearest_device_has_the_nearest_rates),
        cmocka_unit_test(what_is_pinned_is_asked_of_the_stack),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
