#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "planner/bound.h"
#include "planner/choice.h"
#include "planner/uneven_split.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// What no plan on unlike devices is faster than: by hand, and against every split of drawn
// questions, played. MESHWRIGHT_CASES draws more.

enum { RANKS_MOST = 4, LAYERS_MOST = 4 };

static const char *const DEVICES[] = {"h100-sxm5-80g", "a100-sxm4-80g", "l40s-48g",
                                      "v100-sxm2-32g"};

static void draw_question(struct arena *arena, struct draw *draw, struct search_request *request,
                          int *layers)
{
    struct err err = {0};
    *request = (struct search_request){.pins = pins_none(), .top = 1, .nothing = SEARCH_FITS_ONLY};
    struct cluster *cluster = cluster_load(arena, "h100-a100-mixed", &err);
    int counts[2] = {draw_int(draw, 1, RANKS_MOST / 2), draw_int(draw, 1, RANKS_MOST / 2)};
    for (int i = 0; i < 2; i++) {
        cluster->nodes[i].device = device_load(arena, DRAW_ONE(draw, DEVICES), &err);
        cluster->nodes[i].gpus = cluster->nodes[i].gpus_per_host = counts[i];
    }
    cluster->rank_count = counts[0] + counts[1];
    *layers = draw_int(draw, 1, LAYERS_MOST);
    const char *config = arena_print(
        arena,
        "{\"model_type\": \"gpt2\", \"vocab_size\": %d, \"n_embd\": %d, \"n_layer\": %d, "
        "\"n_head\": 16, \"n_positions\": 2048}",
        draw_int(draw, 1, 8) * 512, draw_int(draw, 1, 4) * 2048, *layers);
    struct json_document document = {0};
    assert_true(json_parse(arena, "drawn", config, strlen(config), &document, &err));
    const struct json root = json_root(&document);
    request->cluster = cluster;
    request->model = model_read(arena, "drawn", &root, NULL, NULL, &err);
    request->stack = stack_load(arena, "meshwright", &err);
    request->fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request->workload = (struct workload){.seq_len = draw_int(draw, 1, 2) * 1024,
                                          .global_batch = draw_int(draw, 1, 3) * 4,
                                          .precision = PRECISION_FP16,
                                          .optimizer = OPTIMIZER_ADAMW};
}

// Every way to cut `left` into parts of at least 1 from `at` on, each of which is played.
struct playing {
    struct uneven_split split;
    struct parallel parallel;
    int layers[RANKS_MOST], batches[RANKS_MOST];
    double best_s;
    int played;
};

static void play_batches(struct playing *playing, int replica, int left)
{
    int replicas = playing->parallel.degree[AXIS_DP];
    struct candidate played;
    if (replica < replicas - 1) {
        for (int own = 1; own < left; own++) {
            playing->batches[replica] = own;
            play_batches(playing, replica + 1, left - own);
        }
        return;
    }
    playing->batches[replica] = left;
    playing->parallel.replica_micro_batches = playing->batches;
    playing->parallel.replica_count = replicas > 1 ? replicas : 0;
    if (!uneven_play(&playing->split, &playing->parallel, &played)) return;
    playing->best_s = fmin(playing->best_s, played.cost.step_s);
    playing->played++;
}

static void play_layers(struct playing *playing, int stage, int left)
{
    int stages = playing->parallel.degree[AXIS_PP];
    int64_t batch = playing->split.request->workload.global_batch;
    if (stage < stages - 1) {
        for (int own = 0; own <= left; own++) {
            playing->layers[stage] = own;
            play_layers(playing, stage + 1, left - own);
        }
        return;
    }
    playing->layers[stage] = left;
    playing->parallel.stage_layers = playing->layers;
    playing->parallel.stage_layers_count = stages > 1 ? stages : 0;
    if (batch % playing->parallel.micro_batch != 0) return;
    int count = (int)(batch / playing->parallel.micro_batch);
    if (count >= playing->parallel.degree[AXIS_DP]) play_batches(playing, 0, count);
}

static void play_all(struct playing *playing, int layers)
{
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_1F1B, SCHEDULE_ZB_H1};
    int ranks = playing->split.request->cluster->rank_count;
    for (int pp = 1; pp <= ranks; pp++) {
        for (int tp = 1; tp <= ranks; tp++) {
            if (ranks % (pp * tp) != 0) continue;
            struct parallel *parallel = &playing->parallel;
            *parallel = (struct parallel){.vpp = 1, .recompute_layers = -1};
            for (int i = 0; i < AXIS_COUNT; i++)
                parallel->degree[i] = 1;
            parallel->degree[AXIS_PP] = pp;
            parallel->degree[AXIS_TP] = tp;
            parallel->degree[AXIS_DP] = ranks / (pp * tp);
            parallel->passes = playing->split.request->stack->passes;
            parallel_default_order(parallel);
            for (int i = 0; i < 2 * 3; i++) {
                parallel->schedule = SCHEDULES[i % 2];
                parallel->micro_batch = 1 << i / 2;
                play_layers(playing, 0, layers);
            }
        }
    }
}

static void no_split_is_faster_than_all_work_at_full_rate(void **state)
{
    const char *wanted = getenv("MESHWRIGHT_CASES");
    struct draw draw = draw_start("all work at full rate", 20261201);
    double nearest = INFINITY;
    int played = 0;
    (void)state;
    for (int i = 0; i < (wanted ? atoi(wanted) : 6); i++) {
        struct arena arena = {0};
        struct search_request request;
        int layers = 0;
        draw_question(&arena, &draw, &request, &layers);
        struct playing playing = {.split = {.arena = &arena, .request = &request},
                                  .best_s = INFINITY};
        play_all(&playing, layers);
        const struct bound_facts facts = bound_facts_of(&request);
        double bound_s = bound_work_s(&request, &facts);
        assert_true(bound_s > 0 && bound_s <= playing.best_s);
        nearest = fmin(nearest, playing.best_s / bound_s);
        played += playing.played;
        arena_free(&arena);
    }
    printf("# of %d plans the nearest is %.2f times the bound\n", played, nearest);
    assert_true(played > 100 && nearest < 3);
}

// Llama 2 7B on 6 H100 and 2 A100: 6 flops for each parameter of a product and token (the table of
// the embedding is looked up), and in each layer 6 * 4096 * seq for causal attention; products at
// most at the share of the peak that the device's file says, attention at its own.
static void the_bound_is_what_it_is_by_hand(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "h100-a100-mixed", &err);
    cluster->nodes[0].gpus = 6;
    cluster->nodes[1].gpus = 2;
    cluster->rank_count = 8;
    struct search_request request = {.pins = pins_none(), .cluster = cluster};
    request.model = model_load(*state, "llama-2-7b", NULL, NULL, &err);
    request.stack = stack_load(*state, "meshwright", &err);
    request.workload = (struct workload){.seq_len = 4096,
                                         .global_batch = 64,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    assert_string_equal(err.text, "");
    double rates[2];
    for (int i = 0; i < 2; i++) {
        const struct device_efficiency *own = &cluster->nodes[i].device->efficiency;
        double share = own->gemm_ratio[PRECISION_BF16] * request.stack->gemm_scale;
        share = fmax(share, own->attention_forward_ratio * request.stack->attention_forward_scale);
        share =
            fmax(share, own->attention_backward_ratio * request.stack->attention_backward_scale);
        rates[i] = share * (i == 0 ? 989e12 : 312e12);
    }
    double parameters = 32 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008) + 32000 * 4096.0;
    double flop = 64 * 4096.0 * (6 * parameters + 32 * 6 * 4096.0 * 4096);
    const struct bound_facts facts = bound_facts_of(&request);
    double wanted_s = flop / (6 * rates[0] + 2 * rates[1]);
    printf("# %.17g s, by hand %.17g\n", bound_work_s(&request, &facts), wanted_s);
    assert_true(fabs(bound_work_s(&request, &facts) / wanted_s - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_split_is_faster_than_all_work_at_full_rate),
        cmocka_unit_test(the_bound_is_what_it_is_by_hand),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
