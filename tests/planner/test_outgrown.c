#include "planner/outgrown.h"

#include "planner/choice.h"
#include "planner/ranking.h"
#include "tests/support/test.h"

// What else is searched where nothing fits: a device of a mebibyte, on which nothing ever does, so
// that the last rung answers and its pins are those of all the rungs before it.

static const char MODEL[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": 64, \"intermediate_size\": "
    "128, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"tie_word_embeddings\": false}";

static struct search_request request_of(struct arena *arena, int64_t device_bytes)
{
    struct err err = {0};
    struct search_request request = {
        .cluster = cluster_load(arena, "dgx-a100-80g", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 64,
                     .global_batch = 4,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .pins = pins_none(),
        .nothing = SEARCH_FITS_ONLY,
    };
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    assert_true(json_parse(arena, "model", MODEL, strlen(MODEL), document, &err));
    *root = json_root(document);
    request.model = model_read(arena, "model", root, NULL, NULL, &err);
    struct cluster *one = cluster_copy_nodes(arena, request.cluster);
    assert_true(cluster_take_gpus(one, 1, &err));
    cluster_set_memory(arena, one, device_bytes);
    one->nodes[0].host.nvme_bytes_per_s = 3e9;
    one->nodes[0].host.nvme_bytes = (int64_t)1 << 40;
    request.cluster = one;
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    return request;
}

enum {
    STATES = 1 << OFFLOADS_OPTIMIZER | 1 << OFFLOADS_ACTIVATIONS,
    FETCHED = STATES | 1 << OFFLOADS_PARAMETERS,
    RETURNED = FETCHED | 1 << OFFLOADS_GRADIENTS,
    DEEP = RETURNED | 1 << OFFLOADS_OPTIMIZER_NVME | 1 << OFFLOADS_PARAMETERS_NVME,
};

#define ON_HOST "--offload auto, parameters on the host"

static const struct asked {
    unsigned offers;
    bool says_memory, searches, pins_none, pins_bucket, has_no_drives;
    const char *said;  // NULL: what was asked
    enum tier parameters;
    bool gradients;
} ASKED[] = {
    // Who neither says a memory nor asks for a search has no other.
    {.offers = DEEP},
    {.offers = DEEP, .says_memory = true, .pins_none = true},
    {.offers = DEEP, .searches = true, .pins_none = true},
    {.offers = 0, .says_memory = true},
    {.offers = 0, .searches = true},
    {.offers = STATES, .says_memory = true, .said = "--offload auto"},
    {.offers = STATES, .searches = true},
    {.offers = FETCHED,
     .pins_bucket = true,
     .searches = true,
     .said = ON_HOST,
     .parameters = TIER_HOST},
    {.offers = FETCHED,
     .pins_bucket = true,
     .says_memory = true,
     .said = ON_HOST,
     .parameters = TIER_HOST},
    {.offers = FETCHED,
     .searches = true,
     .said = ON_HOST ", --bucket-bytes 4194304",
     .parameters = TIER_HOST},
    {.offers = RETURNED,
     .searches = true,
     .said = "--offload auto, parameters and gradients on the host",
     .parameters = TIER_HOST,
     .gradients = true},
    {.offers = DEEP,
     .searches = true,
     .said = "--offload auto, parameters on NVMe",
     .parameters = TIER_NVME,
     .gradients = true},
    {.offers = DEEP,
     .searches = true,
     .has_no_drives = true,
     .said = "--offload auto, parameters and gradients on the host",
     .parameters = TIER_HOST,
     .gradients = true},
};

static void check_rung(struct arena *arena, const struct asked *asked)
{
    struct search_request request = request_of(arena, 1 << 20);
    struct stack stack = *request.stack;
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    struct err err = {0};
    stack.offload = asked->offers;
    request.stack = &stack;
    request.pins.search_offload = asked->searches;
    if (asked->has_no_drives) request.cluster->nodes[0].host.nvme_bytes = 0;
    if (asked->has_no_drives) request.cluster->nodes[0].host.nvme_bytes_per_s = 0;
    if (asked->pins_none) pins_set(&request.pins, CHOICE_OFFLOAD, 0, 0);
    if (asked->pins_bucket) pins_set(&request.pins, CHOICE_BUCKET_BYTES, 1 << 20, 1 << 20);
    assert_true(
        outgrown_search(arena, &request, asked->says_memory, &result, &answer, &outgrown, &err));
    assert_int_equal(result.status, SEARCH_NOTHING_FITS);
    const struct pins *pins = &request.pins;
    bool is_other = asked->said != NULL;
    assert_int_equal(pins->search_offload, asked->searches || is_other);
    assert_int_equal(pins->search_parameters, asked->parameters);
    assert_int_equal(pins->search_gradients, asked->gradients);
    struct int_range bucket = pins_get(pins, CHOICE_BUCKET_BYTES);
    bool is_small = asked->parameters != TIER_DEVICE && !asked->pins_bucket;
    assert_int_equal(bucket.set, asked->pins_bucket || is_small);
    if (bucket.set) assert_int_equal(bucket.low, asked->pins_bucket ? 1048576 : 4194304);
    if (bucket.set) assert_int_equal(bucket.high, bucket.low);
    if (!asked->said) {
        assert_null(outgrown.said);
        return;
    }
    assert_string_equal(outgrown.said,
                        arena_print(arena,
                                    "nothing fits 1.00 MiB with all of it on the device; searched "
                                    "with %s",
                                    asked->said));
}

static void the_last_rung_answers_where_nothing_fits(void **state)
{
    for (size_t i = 0; i < sizeof ASKED / sizeof *ASKED; i++)
        check_rung(*state, &ASKED[i]);
}

// What fits at once is the plain answer, whatever could leave.
static void what_fits_is_searched_once(void **state)
{
    struct search_request request = request_of(*state, (int64_t)1 << 34);
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    struct err err = {0};
    assert_true(outgrown_search(*state, &request, true, &result, &answer, &outgrown, &err));
    assert_null(outgrown.said);
    assert_true(result.best_count > 0 && offload_is_none(&result.best[0].parallel.offload));
    assert_false(request.pins.search_offload);
    assert_int_equal(request.pins.search_parameters, TIER_DEVICE);
    // Nor is anything else where the first question is wrong.
    pins_set(&request.pins, CHOICE_TP, 3, 3);
    assert_false(outgrown_search(*state, &request, true, &result, &answer, &outgrown, &err));
    assert_int_equal(err.kind, ERR_USAGE);
}

static bool searched(struct arena *arena, const struct search_request *request,
                     const struct pins *pins, struct search_result *result)
{
    struct search_request asked = *request;
    struct uneven_answer answer;
    struct err err = {0};
    asked.pins = *pins;
    return uneven_search(arena, &asked, result, &answer, &err) && result->best_count > 0;
}

// The fastest of what may answer: the first rung on which a plan fits, and what else may leave.
static struct pins answer_of(struct arena *arena, const struct search_request *request,
                             double *step_s)
{
    struct pins rungs[4], best;
    struct search_result result;
    int at = 0, rivals = 0;
    for (int r = 0; r < 4; r++) {
        rungs[r] = r == 0 ? request->pins : rungs[r - 1];
        if (r == 1) rungs[r].search_parameters = TIER_HOST;
        if (r == 2) pins_set(&rungs[r], CHOICE_BUCKET_BYTES, 4194304, 4194304);
        if (r == 3) rungs[r].search_gradients = true;
    }
    while (at < 4 && !searched(arena, request, &rungs[at], &result))
        at++;
    *step_s = 0;
    if (at == 4) return rungs[3];
    best = rungs[at];
    *step_s = result.best[0].cost.step_s;
    const struct parallel *plan = &result.best[0].parallel;
    bool is_pressed = !offload_is_none(&plan->offload) || plan->recompute != RECOMPUTE_NONE;
    bool is_fetched = rungs[at].search_parameters == TIER_HOST;
    struct pins others[3] = {rungs[at], rungs[at], rungs[at]};
    if (is_fetched || is_pressed) {
        others[rivals].search_gradients = true;
        others[rivals++].search_parameters = TIER_DEVICE;
    }
    if (!is_fetched && is_pressed) others[rivals++].search_parameters = TIER_HOST;
    if (rivals > 0 && !rungs[at].search_gradients) {
        others[rivals].search_gradients = true;
        others[rivals++].search_parameters = TIER_HOST;
    }
    for (int i = 0; i < rivals; i++) {
        if (!searched(arena, request, &others[i], &result)) continue;
        if (step_ns(result.best[0].cost.step_s) >= step_ns(*step_s)) continue;
        *step_s = result.best[0].cost.step_s;
        best = others[i];
    }
    return best;
}

// From a device on which nothing fits to one on which all does.
static void what_else_may_leave_is_asked_where_memory_is_short(void **state)
{
    enum { STEPS = 8, STEP_BYTES = 440000 };
    int answered[3] = {0}, other = 0;
    struct arena *arena = *state;
    struct search_request roomy = request_of(arena, (int64_t)1 << 34);
    struct search_result plain;
    pins_clear(&roomy.pins, CHOICE_RECOMPUTE);
    roomy.objective = OBJECTIVE_MEMORY;
    assert_true(searched(arena, &roomy, &roomy.pins, &plain));
    int64_t most = plain.best[0].memory.reserved_bytes;
    for (int64_t bytes = most - STEPS * STEP_BYTES; bytes <= most; bytes += STEP_BYTES) {
        struct search_request request = request_of(arena, bytes);
        struct stack stack = *request.stack;
        struct search_result result;
        struct uneven_answer answer;
        struct outgrown outgrown;
        struct err err = {0};
        double step_s;
        stack.offload = RETURNED;
        request.stack = &stack;
        request.pins.search_offload = true;
        pins_clear(&request.pins, CHOICE_RECOMPUTE);
        struct pins wanted = answer_of(arena, &request, &step_s);
        assert_true(outgrown_search(arena, &request, false, &result, &answer, &outgrown, &err));
        assert_int_equal(result.best_count > 0, step_s > 0);
        if (step_s > 0) assert_true(result.best[0].cost.step_s == step_s);
        assert_int_equal(request.pins.search_parameters, wanted.search_parameters);
        assert_int_equal(request.pins.search_gradients, wanted.search_gradients);
        answered[step_s == 0 ? 0 : outgrown.said ? 1 : 2]++;
        other += step_s > 0 && wanted.search_gradients;
    }
    assert_true(answered[0] > 0 && answered[1] > 0 && answered[2] > 0 && other > 0);
}

// States of some layers and gradients leave, asked in the mesh of what moves no gradients: what
// bounded that bounds nothing of other meshes.
static void what_is_asked_in_one_mesh_has_no_bound(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct search_request request = request_of(arena, 1);
    struct cluster *two = cluster_load(arena, "dgx-h100", &err);
    assert_true(cluster_take_gpus(two, 2, &err));
    request.cluster = two;
    request.model = model_load(arena, "qwen3-8b", NULL, NULL, &err);
    request.workload = (struct workload){.seq_len = 4096,
                                         .global_batch = 1024,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    request.pins = pins_none();
    request.pins.search_offload = true;
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    assert_true(outgrown_search(arena, &request, false, &result, &answer, &outgrown, &err));
    assert_true(request.pins.search_gradients && result.best_count > 0);
    assert_true(result.bound_s == 0 && result.layers_s == 0);
    assert_int_equal(result.status, SEARCH_FEASIBLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rung_answers_where_nothing_fits),
        cmocka_unit_test(what_else_may_leave_is_asked_where_memory_is_short),
        cmocka_unit_test(what_fits_is_searched_once),
        cmocka_unit_test(what_is_asked_in_one_mesh_has_no_bound),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
