#include "planner/ranking.h"
#include "tests/support/proof_case.h"
#include "tests/support/test.h"

// Questions in which tests/support/draw_proofs.c found an answer that a narrower one beat.

static void pin_values(struct pins *pins, const struct parallel *plan)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        int64_t value = choice_value(plan, (enum choice)i);
        pins_set(pins, (enum choice)i, value, value);
    }
}

// No option says how the mesh lies over the ranks: what is found must lie in the best way.
static void a_plan_of_other_stages_lies_in_its_best_order(void **state)
{
    struct question_words words =
        proof_words("gpt-oss-20b", "dgx-a100-80g-x3", "megatron-deepspeed", 4096, 2048);
    words.workload.precision = PRECISION_FP32;
    words.workload.capacity_factor = 1.1;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result free = proof_find(*state, &question, &pins, false);
    const struct candidate *winner = &free.best[0];
    assert_true(winner->parallel.stage_layers_count > 0);
    pin_values(&pins, &winner->parallel);
    pins.stage_layers = winner->parallel.stage_layers;
    pins.stage_layers_count = winner->parallel.stage_layers_count;
    struct search_result back = proof_find(*state, &question, &pins, false);
    assert_true(back.best[0].closed_form_s == winner->closed_form_s);
}

// A plan that came out first with sets of classes that the space does not list had few tries left
// for other schedules, which have room for other layers.
static void what_recomputes_an_unlisted_set_is_found_in_any_schedule(void **state)
{
    struct question_words words =
        proof_words("gemma-2-27b", "jean-zay-v100", "meshwright-cpu", 4096, 128);
    words.nodes = 4;
    words.workload.precision = PRECISION_FP32;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_RECOMPUTE_LAYERS, 10, 27);
    struct search_result narrow = proof_find(*state, &question, &pins, false);
    assert_not_beaten(&question, &free, &narrow);
}

// Layers that were moved to another stage and came back are no other plan.
static void no_plan_is_shown_twice(void **state)
{
    struct question_words words =
        proof_words("deepseek-v3", "dgx-h100", "megatron-core", 4096, 15360);
    words.nodes = 256;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result shown = proof_find(*state, &question, &pins, false);
    for (int i = 0; i + 1 < shown.best_count; i++) {
        const struct candidate *a = &shown.best[i], *b = &shown.best[i + 1];
        bool is_same = step_ns(a->cost.step_s) == step_ns(b->cost.step_s);
        for (int c = 0; c < CHOICE_COUNT; c++)
            is_same = is_same && choice_value(&a->parallel, (enum choice)c) ==
                                     choice_value(&b->parallel, (enum choice)c);
        assert_false(is_same);
    }
}

// Shard groups that only polishing finds lie in the best order, too: each plan that is shown.
static void plans_with_other_shard_groups_lie_in_their_best_order(void **state)
{
    struct question_words words = proof_words("gpt3-6.7b", "a100-pcie8", "internevo", 3072, 256);
    words.nodes = 4;
    words.workload.precision = PRECISION_FP32;
    words.workload.optimizer = OPTIMIZER_SGD;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_PP, 2, 2);
    pins_set(&pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    struct search_result shown = proof_find(*state, &question, &pins, false);
    assert_true(shown.best_count > 1 && shown.best[1].parallel.zero_group == 4);
    pin_values(&pins, &shown.best[1].parallel);
    pins.stage_layers = shown.best[1].parallel.stage_layers;
    pins.stage_layers_count = shown.best[1].parallel.stage_layers_count;
    struct search_result back = proof_find(*state, &question, &pins, false);
    assert_true(back.best[0].closed_form_s == shown.best[1].closed_form_s);
}

// FSDP2 keeps gradients whole while it adds them up: of one micro-batch it adds nothing, so the
// largest has room where smaller ones have none.
static void a_single_micro_batch_that_needs_least_is_found(void **state)
{
    struct question_words words = proof_words("qwen1.5-moe-a2.7b", "hgx-h800", "fsdp2", 2048, 128);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_MICRO_BATCH, 16, 16);
    struct search_result single = proof_find(*state, &question, &pins, false);
    assert_true(single.best_count > 0);
    assert_not_beaten(&question, &free, &single);
}

// Where steps run into each other stages do not wait for the first forward of a step.
static void zero_bubble_whose_steps_run_into_each_other_is_found(void **state)
{
    struct question_words words =
        proof_words("llama-2-7b", "gb200-nvl72-x2", "megatron-zero-bubble", 8192, 1024);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&pins, CHOICE_ZERO, 0, 0);
    struct search_result narrow = proof_find(*state, &question, &pins, false);
    assert_not_beaten(&question, &free, &narrow);
}

// Of 48 sequences a rank 2 micro-batches of 24 can be interleaved over two stages and 3 of 16
// cannot: the larger is not bounded by the smaller.
static void a_micro_batch_with_more_schedules_than_a_smaller_one_is_found(void **state)
{
    struct question_words words = proof_words("qwen3-8b", "dgx-b200", "megatron-core", 128, 96);
    words.workload.precision = PRECISION_FP32;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_PP, 2, 2);
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins_set(&pins, CHOICE_MICRO_BATCH, 24, 24);
    struct search_result narrow = proof_find(*state, &question, &pins, false);
    assert_not_beaten(&question, &free, &narrow);
}

// Without sharding there are no groups to shard in: the pin was forgotten beside --zero 0 alone,
// and so found what it kept from being found without.
static void a_shard_group_is_asked_of_sharding_alone(void **state)
{
    struct question_words words =
        proof_words("megatron-1.7b", "rtx4090-pcie8-x2", "megatron-deepspeed", 1024, 256);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_ZERO_GROUP, 16, 16);
    struct search_result grouped = proof_find(*state, &question, &pins, false);
    assert_true(grouped.best[0].parallel.zero > 0);
    assert_int_equal(grouped.best[0].parallel.zero_group, 16);
    pins_set(&pins, CHOICE_ZERO, 0, 0);
    struct search_request request = question.request;
    request.pins = pins;
    struct search_result none = {0};
    struct err err = {0};
    assert_false(search_plans(*state, &request, &none, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.text, "--zero may be 1, 2, 3"));
}

static bool leaves_out(const struct search_result *result, enum cut cut)
{
    for (int i = 0; i < result->cut_count; i++)
        if (result->cuts[i].cut == cut) return true;
    return false;
}

// GELU in the epilogue of its GEMM writes what backward reads; recomputed it does not, and forwards
// that later stages wait for are shorter.
static void recomputing_may_win_in_a_pipeline(void **state)
{
    struct question_words words = proof_words("gpt2", "dgx-h200-x3", "meshwright", 1024, 32);
    words.workload.precision = PRECISION_FP16;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_PP, 12, 12);
    pins_set(&pins, CHOICE_SCHEDULE, SCHEDULE_ZB_H2, SCHEDULE_ZB_H2);
    struct search_result free = proof_find(*state, &question, &pins, false);
    assert_true(leaves_out(&free, CUT_RECOMPUTE));
}

// Of 24 layers 12 are recomputed: a bound in which all are lies above the plan itself.
static void bounds_of_some_layers_recomputed_are_not_of_all(void **state)
{
    struct question_words words = proof_words("opt-1.3b", "dgx-h100", "megatron-core", 32768, 128);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    int full = recompute_value(RECOMPUTE_FULL, 0);
    pins_set(&pins, CHOICE_RECOMPUTE, full, full);
    pins_set(&pins, CHOICE_RECOMPUTE_LAYERS, 12, 12);
    struct search_result some = proof_find(*state, &question, &pins, false);
    assert_true(leaves_out(&some, CUT_BUCKET));
}

// DeepSpeed moves states at ZeRO 1 and up: on one rank of each shard, too.
static void zero_that_shards_nothing_is_asked_for_what_it_moves(void **state)
{
    struct question_words words =
        proof_words("gpt3-175b", "p4de-efa-x3", "megatron-deepspeed", 2048, 32);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_TP, 1, 1);
    pins_set(&pins, CHOICE_PP, 24, 24);
    question.request.objective = OBJECTIVE_MEMORY;
    pins.search_offload = true;
    struct search_result moved = proof_find(*state, &question, &pins, false);
    assert_int_not_equal(moved.status, SEARCH_NOTHING_FITS);
    assert_true(moved.best[0].parallel.zero > 0);
    assert_int_not_equal(moved.best[0].parallel.offload.optimizer, TIER_DEVICE);
}

// Where gradients are reduced over tp alone, those that it does not split go in buckets too.
static void buckets_of_small_gradients_are_left_out(void **state)
{
    struct question_words words = proof_words("bert-340m", "dgx-a100-40g", "colossalai", 8192, 144);
    words.workload.optimizer = OPTIMIZER_SGD;
    words.workload.unclipped = true;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_TP, 8, 8);
    struct search_result free = proof_find(*state, &question, &pins, false);
    assert_true(leaves_out(&free, CUT_BUCKET));
    pins_set(&pins, CHOICE_MICRO_BATCH, 24, 24);
    pins_set(&pins, CHOICE_BUCKET_BYTES, 268435456, 268435456);
    struct search_result other = proof_find(*state, &question, &pins, false);
    const struct candidate *found = &other.best[0];
    assert_true(found->closed_form_s < free.best[0].closed_form_s);
    for (int i = 0; i < free.cut_count; i++)
        if (free.cuts[i].cut == CUT_BUCKET)
            assert_true(found->closed_form_s >= free.cuts[i].bound_s);
}

// In a pipeline alone nothing is reduced in buckets, but states that are moved go in them.
static void buckets_of_moved_states_are_left_out(void **state)
{
    struct question_words words = proof_words("gpt2", "dgx-h100", "meshwright", 1024, 8);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_PP, 8, 8);
    question.request.objective = OBJECTIVE_MEMORY;
    struct search_result kept = proof_find(*state, &question, &pins, false);
    assert_false(leaves_out(&kept, CUT_BUCKET));
    pins.search_offload = true;
    struct search_result moved = proof_find(*state, &question, &pins, false);
    assert_true(leaves_out(&moved, CUT_BUCKET));
}

// An even split has no stage of so many layers to recompute, and another has.
static void stages_that_only_a_pin_makes_legal_are_said_to_be_left_out(void **state)
{
    struct question_words words =
        proof_words("gpt-oss-20b", "dgx-h200-x2", "meshwright-cpu", 4096, 128);
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    pins_set(&pins, CHOICE_RECOMPUTE_LAYERS, 13, 13);
    struct search_result free = proof_find(*state, &question, &pins, false);
    static const int STAGES[] = {14, 10};
    pins.stage_layers = STAGES;
    pins.stage_layers_count = 2;
    struct search_result staged = proof_find(*state, &question, &pins, false);
    assert_true(proof_value(&question.request, &staged) < proof_claim(&question.request, &free));
    assert_true(leaves_out(&free, CUT_STAGES));
    assert_true(proof_is_excused(&free, "stages", proof_value(&question.request, &staged)));
}

// Buckets have rooms of their own, and what nothing fits in is not all there is.
static void what_may_be_smaller_is_said_to_be_left_out(void **state)
{
    struct question_words words =
        proof_words("llama-2-13b", "ascend-910b-x2", "megatron-deepspeed", 1024, 256);
    words.objective = OBJECTIVE_MEMORY;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = pins_none();
    struct search_result smallest = proof_find(*state, &question, &pins, false);
    assert_true(leaves_out(&smallest, CUT_BUCKET));
    words = proof_words("llama-3.1-8b", "p5-efa", "meshwright", 512, 32);
    words.gpus = 1;
    question = proof_make(*state, &words);
    struct search_result nothing = proof_find(*state, &question, &pins, false);
    assert_int_equal(nothing.status, SEARCH_NOTHING_FITS);
    assert_true(leaves_out(&nothing, CUT_OFFLOAD));
    int64_t moved = offload_value(&(struct offload){.optimizer = TIER_HOST});
    pins_set(&pins, CHOICE_OFFLOAD, moved, moved);
    assert_true(proof_find(*state, &question, &pins, false).best_count > 0);
}

// A search of what is moved looks at it beside the stages that it found, too.
static void forbidding_what_is_moved_does_not_find_a_smaller_plan(void **state)
{
    struct question_words words = proof_words("gemma-7b", "dgx-h200-x4", "meshwright", 3072, 16);
    words.gpus = 9;
    words.workload.precision = PRECISION_FP32;
    words.objective = OBJECTIVE_MEMORY;
    words.offload_auto = true;
    struct proof_question question = proof_make(*state, &words);
    struct pins pins = question.request.pins;
    pins_set(&pins, CHOICE_CP_KIND, CP_RING, CP_RING);
    struct search_result free = proof_find(*state, &question, &pins, false);
    pins.forbidden[0].key = choice_name(CHOICE_OFFLOAD);
    pins.forbidden[0].value = choice_value(&free.best[0].parallel, CHOICE_OFFLOAD);
    pins.forbidden_count = 1;
    struct search_result other = proof_find(*state, &question, &pins, false);
    assert_not_beaten(&question, &free, &other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_of_other_stages_lies_in_its_best_order),
        cmocka_unit_test(what_recomputes_an_unlisted_set_is_found_in_any_schedule),
        cmocka_unit_test(no_plan_is_shown_twice),
        cmocka_unit_test(plans_with_other_shard_groups_lie_in_their_best_order),
        cmocka_unit_test(a_single_micro_batch_that_needs_least_is_found),
        cmocka_unit_test(zero_bubble_whose_steps_run_into_each_other_is_found),
        cmocka_unit_test(a_shard_group_is_asked_of_sharding_alone),
        cmocka_unit_test(a_micro_batch_with_more_schedules_than_a_smaller_one_is_found),
        cmocka_unit_test(recomputing_may_win_in_a_pipeline),
        cmocka_unit_test(bounds_of_some_layers_recomputed_are_not_of_all),
        cmocka_unit_test(zero_that_shards_nothing_is_asked_for_what_it_moves),
        cmocka_unit_test(buckets_of_small_gradients_are_left_out),
        cmocka_unit_test(buckets_of_moved_states_are_left_out),
        cmocka_unit_test(stages_that_only_a_pin_makes_legal_are_said_to_be_left_out),
        cmocka_unit_test(what_may_be_smaller_is_said_to_be_left_out),
        cmocka_unit_test(forbidding_what_is_moved_does_not_find_a_smaller_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
