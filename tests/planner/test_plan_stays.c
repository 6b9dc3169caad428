#include "planner/plan_stays.h"

#include "tests/support/test.h"

#include <string.h>

// Which parameters stay between which uses: against every choice of how many, each ordered and laid
// out, and against what no placement fetches less than.

static const char MODEL[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": 64, \"intermediate_size\": "
    "128, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"tie_word_embeddings\": false}";
enum { LAYERS = 4, SEQ = 128, RANKS = 8 };

static struct evaluation_request request_of(struct arena *arena, const char *words,
                                            int micro_batches)
{
    struct err err = {0};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    assert_true(json_parse(arena, "model", MODEL, strlen(MODEL), document, &err));
    *root = json_root(document);
    struct evaluation_request request = {
        .model = model_read(arena, "model", root, NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-a100-80g", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = SEQ,
                     .global_batch = RANKS * micro_batches,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .parallel = {.vpp = 1,
                     .micro_batch = 1,
                     .schedule = SCHEDULE_1F1B,
                     .recompute_layers = -1,
                     .attention = ATTENTION_FLASH},
    };
    assert_string_equal(err.text, "");
    request.parallel.passes = request.stack->passes;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        request.parallel.degree[axis] = 1;
    request.parallel.degree[AXIS_DP] = RANKS;
    parallel_default_order(&request.parallel);
    assert_true(offload_parse(words, &request.parallel.offload));
    return request;
}

static const struct memory_options OPTIONS = {.method = MEMORY_ROAM, .alignment = 512};

// What is fetched with so many that stay, and the arena that takes.
static int64_t fetched_with(const struct evaluation_request *asked, int turn, int between,
                            int64_t *arena_bytes)
{
    struct arena arena = {0}, scratch = {0};
    struct evaluation_request request = *asked;
    struct evaluation evaluation;
    struct plan_stages stages;
    struct err err = {0};
    request.parallel.offload.turn_blocks = (int16_t)turn;
    request.parallel.offload.between_layers = (int16_t)between;
    assert_true(evaluate(&arena, &scratch, &request, &evaluation, &err));
    assert_true(plan_schedule_make(&arena, &scratch, evaluation.program, request.stack, &OPTIONS,
                                   &stages, &err));
    *arena_bytes = stages.stages[0].result.arena_bytes;
    int64_t bytes = plan_stays_fetched_bytes(evaluation.program);
    arena_free(&arena);
    arena_free(&scratch);
    return bytes;
}

// At every size of the arena that some choice has: no choice that fits fetches less, and the bound
// is below all of them.
static void no_other_counts_that_fit_fetch_less(void **state)
{
    enum { TURNS = LAYERS + 2, BETWEENS = LAYERS + 1 };
    for (int micro_batches = 1; micro_batches <= 3; micro_batches++) {
        struct evaluation_request request =
            request_of(*state, "optimizer,parameters", micro_batches);
        int64_t bytes[TURNS][BETWEENS], room[TURNS][BETWEENS];
        for (int turn = 0; turn < TURNS; turn++)
            for (int between = 0; between < BETWEENS; between++)
                bytes[turn][between] = fetched_with(&request, turn, between, &room[turn][between]);
        for (int size = 0; size < TURNS * BETWEENS; size++) {
            struct arena arena = {0}, scratch = {0};
            struct memory_options options = OPTIONS;
            struct plan_stays stays;
            struct err err = {0};
            options.capacity = room[size / BETWEENS][size % BETWEENS];
            if (options.capacity < room[0][0]) continue;
            assert_true(plan_stays_find(&arena, &scratch, &request, &options, &stays, &err));
            int64_t least = bytes[0][0];
            for (int i = 0; i < TURNS * BETWEENS; i++) {
                bool fits = room[i / BETWEENS][i % BETWEENS] <= options.capacity;
                int64_t other = bytes[i / BETWEENS][i % BETWEENS];
                if (fits && other < least) least = other;
            }
            assert_true(stays.kept.fits && stays.before_bytes == bytes[0][0]);
            assert_true(stays.kept.evaluation->prediction.planned_bytes <= options.capacity);
            if (stays.fetched_bytes != least)
                fail_msg("%d micro-batches in %lld bytes: %lld bytes are fetched, %lld would do",
                         micro_batches, (long long)options.capacity, (long long)stays.fetched_bytes,
                         (long long)least);
            assert_true(stays.bound_bytes <= (double)least + 1);
            arena_free(&arena);
            arena_free(&scratch);
        }
    }
}

static void plans_with_nothing_to_stay_are_told(void **state)
{
    struct arena scratch = {0};
    struct plan_stays stays;
    struct err err = {0};
    struct evaluation_request request = request_of(*state, "optimizer", 2);
    assert_false(plan_stays_find(*state, &scratch, &request, &OPTIONS, &stays, &err));
    assert_string_equal(err.text,
                        "--offload moments: the plan offloads no parameters; plan it with "
                        "--offload optimizer,parameters");
    request = request_of(*state, "optimizer,parameters", 2);
    request.parallel.degree[AXIS_PP] = 2;
    request.parallel.degree[AXIS_DP] = RANKS / 2;
    err = (struct err){0};
    assert_false(plan_stays_find(*state, &scratch, &request, &OPTIONS, &stays, &err));
    assert_string_equal(err.text, "--offload turn and between: not with --pp above 1, where "
                                  "micro-batches work beside each other");
    arena_free(&scratch);
}

// An arena too small for any is an answer.
static void what_never_fits_is_told_with_what_it_lacks(void **state)
{
    struct arena scratch = {0};
    struct plan_stays stays;
    struct err err = {0};
    struct memory_options options = OPTIONS;
    struct evaluation_request request = request_of(*state, "optimizer,parameters", 2);
    int64_t room;
    fetched_with(&request, 0, 0, &room);
    options.capacity = room - 512;
    assert_true(plan_stays_find(*state, &scratch, &request, &options, &stays, &err));
    assert_false(stays.kept.fits);
    assert_int_equal(stays.kept.lack_bytes, 512);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_counts_that_fit_fetch_less),
        cmocka_unit_test(plans_with_nothing_to_stay_are_told),
        cmocka_unit_test(what_never_fits_is_told_with_what_it_lacks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
