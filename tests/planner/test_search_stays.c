#include "planner/outgrown.h"
#include "planner/question.h"
#include "planner/search_stays.h"
#include "simulator/closed_form.h"

#include "tests/support/draw.h"
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

// On eight devices with states of all layers away the best is ZeRO 3, 837 ms a step with those of
// 34 and activations; pipelines, of which states of four layers a stage leave, take 822 ms.
static void states_of_some_layers_make_room_on_other_meshes(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct search_request request = request_of(arena, "gpt2-xl", 16);
    struct cluster *cluster = cluster_load(arena, "dgx-a100-40g", &err);
    cluster_set_memory(arena, cluster, 4200000000);
    request.cluster = cluster;
    request.workload.seq_len = 512;
    pins_clear(&request.pins, CHOICE_MICRO_BATCH);
    pins_clear(&request.pins, CHOICE_RECOMPUTE);
    const struct candidate found = found_of(arena, &request);
    assert_true(found.parallel.degree[AXIS_PP] == 8 && found.parallel.offload.optimizer_layers > 0);
    for (int layers = 2; layers <= 8; layers *= 2) {
        const struct offload some = {.optimizer = TIER_HOST, .optimizer_layers = (int16_t)layers};
        pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&some), offload_value(&some));
        struct search_result pinned;
        assert_true(search_plans(arena, &request, &pinned, &err));
        if (pinned.best_count > 0)
            assert_true(found.cost.step_s <= pinned.best[0].cost.step_s * 1.001);
    }
}

// Where nothing has to leave but states and activations, gradients of some layers may be faster:
// 4.89 s a step with activations of 19 layers away, 3.29 s with gradients of 39.
static void gradients_of_some_layers_leave_where_that_is_faster(void **state)
{
    struct arena *arena = *state;
    struct search_request request = request_of(arena, "gpt2-xl", 16);
    struct cluster *cluster = cluster_copy_nodes(arena, request.cluster);
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    struct err err = {0};
    cluster_set_memory(arena, cluster, 18900000000);
    request.cluster = cluster;
    request.workload.seq_len = 1024;
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 4, 4);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_SELECTIVE, RECOMPUTE_SELECTIVE);
    struct search_request asked = request;
    assert_true(outgrown_search(arena, &asked, false, &result, &answer, &outgrown, &err));
    assert_null(outgrown.said);
    const struct offload moved = {.optimizer = TIER_HOST, .gradients = true, .gradient_layers = 39};
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&moved), offload_value(&moved));
    assert_true(result.best[0].cost.step_s <= found_of(arena, &request).cost.step_s);
}

static int16_t draw_count(struct draw *draw, int layers, int least)
{
    return (int16_t)(draw_int(draw, 0, 2) || layers < least ? 0 : draw_int(draw, least, layers));
}

// Anything that plans may keep off the device; of few words no plan is legal.
static struct offload draw_offload(struct draw *draw, int layers)
{
    struct offload moved = {.optimizer = draw_int(draw, 0, 7) ? TIER_HOST : TIER_DEVICE};
    if (layers < 1) return moved;
    if (moved.optimizer != TIER_DEVICE) {
        moved.optimizer_layers = draw_count(draw, layers, 1);
        int most = moved.optimizer_layers > 0 ? moved.optimizer_layers : layers;
        bool parts = moved.optimizer_layers > 0;
        if (draw_int(draw, 0, 1)) {
            moved.parameters = TIER_HOST;
            moved.parameter_layers = draw_count(draw, most, 1);
            if (parts && moved.parameter_layers == 0) moved.parameter_layers = (int16_t)most;
            if (draw_int(draw, 0, 1)) moved.turn_blocks = (int16_t)draw_int(draw, 1, layers);
            if (draw_int(draw, 0, 1)) moved.between_layers = (int16_t)draw_int(draw, 1, layers);
        }
        moved.gradients = draw_int(draw, 0, 1) && most >= OFFLOAD_GRADIENTS_LEAST;
        if (moved.gradients)
            moved.gradient_layers = draw_count(draw, most, OFFLOAD_GRADIENTS_LEAST);
        if (moved.gradients && parts && moved.gradient_layers == 0)
            moved.gradient_layers = (int16_t)most;
    }
    if (draw_int(draw, 0, 1)) return moved;
    moved.activations = TIER_HOST;
    int count = draw_int(draw, 0, 1) ? draw_int(draw, 1, layers) : -1;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        moved.layers[class] = (int16_t)count;
    return moved;
}

// A model on a device that has room for part of what it needs with all of it there.
static bool draw_question(struct arena *arena, struct draw *draw, struct search_request *request)
{
    static const char *const MODELS[] = {"gpt2-large", "gpt2-xl", "gpt3-1.3b", "pythia-1.4b",
                                         "llama-2-7b", "phi-2",   "qwen3-8b",  "gpt-neo-2.7b"};
    static const int SEQS[] = {512, 1024, 2048};
    static const enum recompute WAYS[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    struct search_result result;
    struct err err = {0};
    *request = request_of(arena, DRAW_ONE(draw, MODELS), 1 << draw_int(draw, 0, 6));
    request->workload.seq_len = DRAW_ONE(draw, SEQS);
    int micro_batch = 1 << draw_int(draw, 0, 3);
    if (micro_batch > request->workload.global_batch || draw_int(draw, 0, 2) == 0)
        pins_clear(&request->pins, CHOICE_MICRO_BATCH);
    else
        pins_set(&request->pins, CHOICE_MICRO_BATCH, micro_batch, micro_batch);
    enum recompute way = DRAW_ONE(draw, WAYS);
    pins_set(&request->pins, CHOICE_RECOMPUTE, (int)way, (int)way);
    if (draw_int(draw, 0, 1)) pins_clear(&request->pins, CHOICE_RECOMPUTE);
    struct cluster *cluster = cluster_copy_nodes(arena, request->cluster);
    request->cluster = cluster;
    cluster_set_memory(arena, cluster, (int64_t)1 << 40);
    struct search_request whole = *request;
    whole.pins.search_offload = false;
    whole.objective = OBJECTIVE_MEMORY;
    if (!search_plans(arena, &whole, &result, &err) || result.best_count == 0) return false;
    double need = (double)result.best[0].memory.reserved_bytes;
    cluster_set_memory(arena, cluster, (int64_t)(need * (0.25 + 0.015 * draw_int(draw, 0, 60))));
    return true;
}

static const char *pin_words(struct arena *arena, const struct pins *pins, enum choice choice)
{
    struct int_range range = pins_get(pins, choice);
    return range.set ? choice_text(arena, choice, range.low) : "open";
}

// Prints what beats an answer by more than one in a hundred.
static int count_beaten(struct arena *arena, const struct search_request *request, double found_s,
                        const struct offload *moved)
{
    struct search_request pinned = *request;
    struct search_result result;
    struct err err = {0};
    pins_set(&pinned.pins, CHOICE_OFFLOAD, offload_value(moved), offload_value(moved));
    if (!search_plans(arena, &pinned, &result, &err) || result.best_count == 0) return 0;
    if (found_s <= result.best[0].cost.step_s * 1.01) return 0;
    print_message("# %s seq %d batch %d memory %.0f mb %s recompute %s: --offload auto %.4f s, %s "
                  "%.4f s\n",
                  request->model->name, (int)request->workload.seq_len,
                  (int)request->workload.global_batch,
                  (double)cluster_device_bytes(request->cluster),
                  pin_words(arena, &request->pins, CHOICE_MICRO_BATCH),
                  pin_words(arena, &request->pins, CHOICE_RECOMPUTE), found_s,
                  offload_words(arena, moved), result.best[0].cost.step_s);
    return 1;
}

static int count_layers(struct arena *arena, const struct search_request *request)
{
    const struct import_options options = {.flash = true};
    const struct graph *graph = model_graph(arena, request->model, &options);
    int layers = 0;
    for (int i = 0; i < graph->sequence_count; i++)
        layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    return layers;
}

// MESHWRIGHT_CASES asks more questions.
static void no_pin_is_faster_than_what_is_found(void **state)
{
    (void)state;
    const char *wanted = getenv("MESHWRIGHT_CASES");
    int cases = wanted ? atoi(wanted) : 1, pins = wanted ? 150 : 10, beaten = 0, answered = 0;
    struct draw draw = draw_start("offload against pins", 2424);
    for (int i = 0; i < cases; i++) {
        struct arena arena = {0};
        struct search_request request;
        struct search_result result = {0};
        struct uneven_answer answer;
        struct outgrown outgrown;
        struct err err = {0};
        double found_s = INFINITY;
        if (!draw_question(&arena, &draw, &request)) continue;
        struct search_request asked = request;
        if (outgrown_search(&arena, &asked, true, &result, &answer, &outgrown, &err) &&
            result.best_count > 0)
            found_s = result.best[0].cost.step_s;
        answered += result.best_count > 0;
        int layers = count_layers(&arena, &request);
        for (int p = 0; p < pins; p++) {
            struct offload moved = draw_offload(&draw, layers);
            struct arena_mark mark = arena_mark(&arena);
            beaten += count_beaten(&arena, &request, found_s, &moved);
            arena_reset(&arena, mark);
        }
        arena_free(&arena);
    }
    print_message("# %d questions, %d answered, %d beaten by pins\n", cases, answered, beaten);
    assert_int_equal(beaten, 0);
    assert_true(answered > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pin_is_faster_than_what_is_found),
        cmocka_unit_test(no_other_numbers_are_faster),
        cmocka_unit_test(gradients_leave_in_the_place_of_parameters_where_that_is_faster),
        cmocka_unit_test(states_of_some_layers_leave_where_that_is_faster),
        cmocka_unit_test(states_of_some_layers_make_room_on_other_meshes),
        cmocka_unit_test(gradients_of_some_layers_leave_where_that_is_faster),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
