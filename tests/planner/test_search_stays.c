#include "planner/outgrown.h"
#include "planner/question.h"
#include "planner/search_stays.h"
#include "simulator/closed_form.h"

#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Which parameters stay between two uses in what the search finds, beside gradients that leave:
// against every choice of how many, each priced as a whole plan.

static const char MODEL[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": 256, \"intermediate_size\": "
    "512, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"tie_word_embeddings\": false}";
enum { LAYERS = 3, ALL = LAYERS + 1, SEQ = 64, SEQUENCES = 4 };

static struct search_request request_of(struct arena *arena, const char *model, int sequences)
{
    struct err err = {0};
    struct search_request request = {
        .cluster = cluster_load(arena, "dgx-a100-80g", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = SEQ,
                     .global_batch = sequences,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .pins = pins_none(),
        .nothing = SEARCH_FITS_ONLY,
    };
    struct cluster *one = cluster_copy_nodes(arena, request.cluster);
    assert_true(cluster_take_gpus(one, 1, &err));
    request.cluster = one;
    if (*model == '{') {
        struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
        struct json *root = ARENA_NEW(arena, struct json, 1);
        assert_true(json_parse(arena, "model", model, strlen(model), document, &err));
        *root = json_root(document);
        request.model = model_read(arena, "model", root, NULL, NULL, &err);
    } else {
        request.model = model_load(arena, model, NULL, NULL, &err);
    }
    assert_string_equal(err.text, "");
    request.pins.search_offload = true;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    return request;
}

static struct candidate found_of(struct arena *arena, const struct search_request *request)
{
    struct search_result result;
    struct err err = {0};
    assert_true(search_plans(arena, request, &result, &err));
    assert_true(result.best_count > 0);
    return result.best[0];
}

// Its step where a file can say it, it is legal and has room.
static double step_of(const struct search_request *request, const struct parallel *parallel)
{
    struct arena arena = {0}, scratch = {0};
    struct evaluation evaluation;
    struct err err = {0};
    struct evaluation_request asked = search_question(request, parallel);
    double step_s = INFINITY;
    struct offload said;
    if (offload_parse(offload_words(&arena, &parallel->offload), &said) &&
        evaluate(&arena, &scratch, &asked, &evaluation, &err) &&
        evaluation.prediction.reserved_bytes <= cluster_device_bytes(request->cluster))
        step_s = closed_form(evaluation.price).step_s;
    arena_free(&arena);
    arena_free(&scratch);
    return step_s;
}

// Of all numbers of layers whose parameters and gradients leave and whose parameters stay.
static double fastest_of(const struct search_request *request, const struct parallel *found)
{
    double least_s = INFINITY;
    struct parallel plan = *found;
    struct offload *offload = &plan.offload;
    for (int away = 1; away <= ALL; away++) {
        for (int gradients = OFFLOAD_GRADIENTS_LEAST - 1; gradients <= ALL; gradients++) {
            for (int stays = 0; stays < (ALL + 1) * (LAYERS + 1); stays++) {
                bool leave = gradients >= OFFLOAD_GRADIENTS_LEAST;
                offload->parameter_layers = (int16_t)(away % ALL);
                offload->gradients = leave;
                offload->gradient_layers = (int16_t)(leave ? gradients % ALL : 0);
                offload->turn_blocks = (int16_t)(stays / (LAYERS + 1));
                offload->between_layers = (int16_t)(stays % (LAYERS + 1));
                least_s = fmin(least_s, step_of(request, &plan));
            }
        }
    }
    return least_s;
}

static void no_other_numbers_are_faster(void **state)
{
    struct arena *arena = *state;
    struct search_request request = request_of(arena, MODEL, SEQUENCES);
    request.pins.search_parameters = TIER_HOST;
    request.pins.search_gradients = true;
    request.objective = OBJECTIVE_MEMORY;
    const int64_t least_bytes = found_of(arena, &request).memory.reserved_bytes;
    request.objective = OBJECTIVE_TIME;
    const int64_t layer_bytes = 2 * (4 * 256 * 256 + 3 * 256 * 512);
    int staying = 0;
    for (int eighths = 1; eighths <= 33; eighths += 8) {
        struct cluster *cluster = cluster_copy_nodes(arena, request.cluster);
        cluster_set_memory(arena, cluster, least_bytes + eighths * layer_bytes / 8);
        request.cluster = cluster;
        const struct candidate best = found_of(arena, &request);
        assert_true(best.closed_form_s <= fastest_of(&request, &best.parallel) * (1 + 1e-9));
        staying += offload_keeps_some(&best.parallel.offload);
    }
    assert_in_range(staying, 3, 5);
}

static void gradients_leave_in_the_place_of_parameters_where_that_is_faster(void **state)
{
    struct arena *arena = *state;
    struct search_request request = request_of(arena, "mpt-30b", 4);
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    struct err err = {0};
    request.workload.seq_len = 2048;
    pins_clear(&request.pins, CHOICE_RECOMPUTE);
    struct search_request fetched = request;
    pins_set(&fetched.pins, CHOICE_BUCKET_BYTES, 4194304, 4194304);
    fetched.pins.search_parameters = TIER_HOST;
    fetched.pins.search_gradients = true;
    assert_true(outgrown_search(arena, &request, false, &result, &answer, &outgrown, &err));
    const struct offload *offload = &result.best[0].parallel.offload;
    assert_non_null(strstr(outgrown.said, "searched with --offload auto, gradients on the host"));
    assert_true(offload_moves_gradients(offload) && !offload_moves_parameters(offload));
    assert_true(result.best[0].cost.step_s < found_of(arena, &fetched).cost.step_s);
}

// What makes room is a question of time: with all states away a step took 1.23 s, with those of 22
// layers and 47 recomputed 0.74 s.
static void states_of_some_layers_leave_where_that_is_faster(void **state)
{
    struct arena *arena = *state;
    struct search_request request = request_of(arena, "gpt2-xl", 4);
    struct cluster *cluster = cluster_copy_nodes(arena, request.cluster);
    cluster_set_memory(arena, cluster, 23415666593);
    request.cluster = cluster;
    request.workload.seq_len = 1024;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 4, 4);
    pins_clear(&request.pins, CHOICE_RECOMPUTE);
    double found_s = found_of(arena, &request).cost.step_s;
    for (int layers = 8; layers <= 48; layers += 8) {
        struct search_result pinned;
        struct err err = {0};
        struct offload moved = {.optimizer = TIER_HOST, .optimizer_layers = (int16_t)layers};
        pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&moved), offload_value(&moved));
        assert_true(search_plans(arena, &request, &pinned, &err));
        if (pinned.best_count > 0) assert_true(found_s <= pinned.best[0].cost.step_s * 1.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_numbers_are_faster),
        cmocka_unit_test(gradients_leave_in_the_place_of_parameters_where_that_is_faster),
        cmocka_unit_test(states_of_some_layers_leave_where_that_is_faster),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
