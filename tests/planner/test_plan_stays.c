#include "planner/plan_stays.h"

#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Which parameters stay between which uses, and whose gradients: against every choice of how many,
// each ordered and laid out, and against what no placement moves less than.

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

enum { TURNS = LAYERS + 2, BETWEENS = LAYERS + 1, GRADIENTS = 4, CHOICES = TURNS * BETWEENS };
// Of how many layers gradients leave: of all that there is, of layers alone, of three, which pass
// through two rooms, and of none.
static const int LEAVING[GRADIENTS] = {0, LAYERS, 3, -1};

// A way to stay: what is moved so, and the arena and the gradients of the device that it takes.
struct way {
    int64_t moved_bytes, room_bytes, arena_bytes;
    double step_s;
};

// By hand: attention, the three of the gate, two norms; embedding, head, the last norm.
static int64_t gradient_elements(int leaving)
{
    const int64_t layer = 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64, others = 2 * 512 * 64 + 64;
    return leaving < 0 ? 0 : leaving == 0 ? LAYERS * layer + others : leaving * layer;
}

static struct way way_of(const struct evaluation_request *asked, int turn, int between, int leaving)
{
    struct arena arena = {0}, scratch = {0};
    struct evaluation_request request = *asked;
    struct evaluation evaluation;
    struct plan_stages stages;
    struct err err = {0};
    struct offload *offload = &request.parallel.offload;
    offload->turn_blocks = (int16_t)turn;
    offload->between_layers = (int16_t)between;
    offload->gradient_layers = (int16_t)(leaving < 0 ? 0 : leaving);
    offload->gradients = offload->gradients && leaving >= 0;
    assert_true(evaluate(&arena, &scratch, &request, &evaluation, &err));
    assert_true(plan_schedule_make(&arena, &scratch, evaluation.program, request.stack, &OPTIONS,
                                   &stages, &err));
    int64_t back = asked->workload.global_batch / RANKS - 1, width = 4;
    struct way way = {.moved_bytes = plan_stays_fetched_bytes(evaluation.program),
                      .arena_bytes = stages.stages[0].result.arena_bytes,
                      .step_s = evaluation.prediction.step_s};
    if (offload->gradients) way.moved_bytes += 2 * back * width * gradient_elements(leaving);
    way.room_bytes = way.arena_bytes + evaluation.stage_memory[0].gradients_bytes;
    arena_free(&arena);
    arena_free(&scratch);
    return way;
}

static bool is_same(double a_s, double b_s)
{
    return fabs(a_s - b_s) <= 1e-12 * b_s;
}

// What is found in a room is the fastest way that has room in it, of equally fast ones the one that
// moves least, and the bound is below all of them.
static void check_room(const struct evaluation_request *request, const struct way *ways, int count,
                       int64_t capacity)
{
    struct arena arena = {0}, scratch = {0};
    struct memory_options options = OPTIONS;
    struct plan_stays stays;
    struct err err = {0};
    // The arena's, beside gradients as the plan has them.
    int64_t beside = ways[0].room_bytes - ways[0].arena_bytes;
    options.capacity = capacity - beside;
    assert_true(plan_stays_find(&arena, &scratch, request, &options, &stays, &err));
    const struct way *best = &ways[0];
    int64_t least = ways[0].moved_bytes;
    for (int i = 0; i < count; i++) {
        const struct way *way = &ways[i];
        if (way->room_bytes > capacity) continue;
        if (way->moved_bytes < least) least = way->moved_bytes;
        bool is_as_fast = is_same(way->step_s, best->step_s);
        if (is_as_fast ? way->moved_bytes < best->moved_bytes : way->step_s < best->step_s)
            best = way;
    }
    const struct memory_parts *parts = &stays.kept.evaluation->stage_memory[0];
    assert_true(stays.kept.fits && stays.before_bytes == ways[0].moved_bytes);
    assert_true(parts->planned_bytes + parts->gradients_bytes <= capacity);
    double step_s = stays.kept.evaluation->prediction.step_s;
    if (!is_same(step_s, best->step_s) || stays.moved_bytes != best->moved_bytes)
        fail_msg("%s in %lld bytes: %.9f s and %lld bytes moved, not %.9f s and %lld",
                 offload_words(&arena, &stays.kept.request.parallel.offload), (long long)capacity,
                 step_s, (long long)stays.moved_bytes, best->step_s, (long long)best->moved_bytes);
    assert_true(stays.bound_bytes <= (double)least + 1);
    arena_free(&arena);
    arena_free(&scratch);
}

// At every size that some choice has; `step`: every so manyth of them.
static void check_ways(const struct evaluation_request *request, int gradients, int step)
{
    struct way ways[CHOICES * GRADIENTS];
    int count = CHOICES * gradients;
    for (int i = 0; i < count; i++)
        ways[i] = way_of(request, i / gradients / BETWEENS, i / gradients % BETWEENS,
                         LEAVING[i % gradients]);
    for (int i = 0; i < count; i += step)
        if (ways[i].room_bytes >= ways[0].room_bytes)
            check_room(request, ways, count, ways[i].room_bytes);
}

static void no_other_counts_that_fit_are_faster(void **state)
{
    for (int micro_batches = 1; micro_batches <= 3; micro_batches++) {
        struct evaluation_request request =
            request_of(*state, "optimizer,parameters", micro_batches);
        check_ways(&request, 1, 1);
    }
}

// Gradients beside them: what is kept of either takes the room of the other. Where compute hides
// their copies those that stay are waited for in the update; over a link a hundred times as slow
// those that leave are.
static void gradients_stay_where_that_is_faster(void **state)
{
    for (int slow = 0; slow < 2; slow++) {
        struct evaluation_request request = request_of(*state, "optimizer,parameters,gradients", 2);
        struct cluster *cluster = cluster_copy_nodes(*state, request.cluster);
        if (slow) cluster->nodes[0].host.pcie_bytes_per_s /= 100;
        request.cluster = cluster;
        request.parallel.bucket_bytes = 4096;
        check_ways(&request, GRADIENTS, slow ? 17 : 53);
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
                        "--offload moments: the plan offloads neither parameters nor gradients; "
                        "plan it with --offload optimizer,parameters");
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
    options.capacity = way_of(&request, 0, 0, -1).arena_bytes - 512;
    assert_true(plan_stays_find(*state, &scratch, &request, &options, &stays, &err));
    assert_false(stays.kept.fits);
    assert_int_equal(stays.kept.lack_bytes, 512);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_counts_that_fit_are_faster),
        cmocka_unit_test(gradients_stay_where_that_is_faster),
        cmocka_unit_test(plans_with_nothing_to_stay_are_told),
        cmocka_unit_test(what_never_fits_is_told_with_what_it_lacks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
