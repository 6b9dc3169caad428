#include "planner/choice.h"
#include "planner/outgrown.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

// What --offload auto finds is no slower than what any pinned offload does, from models of a
// hundred million parameters to seventy billion, on 1 to 128 GPUs whose memory decides.

static const double SLOWER_MOST = 1e-3;

static const struct kind {
    const char *model;
    int layers;
    double billions;  // of parameters
} KINDS[] = {{"gpt2", 12, 0.12},         {"gpt2-large", 36, 0.77},  {"gpt3-1.3b", 24, 1.3},
             {"gpt2-xl", 48, 1.5},       {"gpt-neo-2.7b", 32, 2.7}, {"llama-2-7b", 32, 6.7},
             {"qwen3-8b", 36, 8.2},      {"gpt3-13b", 40, 13},      {"qwen3-30b-a3b", 48, 30.5},
             {"mixtral-8x7b", 32, 46.7}, {"llama-3-70b", 80, 70.6}};

static struct search_request question(struct arena *arena, struct draw *draw,
                                      const struct kind *kind)
{
    static const char *const CLUSTERS[] = {"a100-pcie8", "dgx-a100-80g", "dgx-h100"};
    static const int FEW[] = {1, 1, 1, 2, 4, 8}, MANY[] = {1, 4, 8, 16, 32, 128};
    static const int BATCHES[] = {4, 8, 16, 32};
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, DRAW_ONE(draw, CLUSTERS), &err);
    int gpus = kind->billions < 10 ? DRAW_ONE(draw, FEW) : DRAW_ONE(draw, MANY);
    if (gpus > 8) assert_true(cluster_set_nodes(cluster, gpus / 8, &err));
    assert_true(cluster_take_gpus(cluster, gpus, &err));
    double share = draw_int(draw, 15, 120) / 100.0;
    double bytes = fmax(1.2e9, share * 16e9 * kind->billions / gpus);
    int64_t most = cluster->nodes[0].device->memory_bytes;
    cluster_set_memory(arena, cluster, bytes < (double)most ? (int64_t)bytes : most);
    struct search_request request = {
        .cluster = cluster,
        .model = model_load(arena, kind->model, NULL, NULL, &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024,
                     .global_batch = gpus * DRAW_ONE(draw, BATCHES),
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
        .pins = pins_none(),
        .nothing = SEARCH_FITS_ONLY,
    };
    assert_string_equal(err.text, "");
    return request;
}

// Seconds of the best plan; 0: none fits.
static double seconds_of(const struct search_request *asked)
{
    struct arena arena = {0};
    struct search_request request = *asked;
    struct search_result result;
    struct uneven_answer answer;
    struct outgrown outgrown;
    struct err err = {0};
    bool ok = outgrown_search(&arena, &request, false, &result, &answer, &outgrown, &err);
    double s = ok && result.best_count > 0 ? result.best[0].closed_form_s : 0;
    arena_free(&arena);
    return s;
}

static const char *pin_text(struct arena *arena, struct draw *draw, int layers)
{
    static const char *const WORDS[] = {"none",
                                        "optimizer",
                                        "activations",
                                        "optimizer,activations",
                                        "attention",
                                        "mlp",
                                        "optimizer,gradients",
                                        "optimizer,parameters",
                                        "optimizer,parameters,gradients"};
    static const char *const COUNTED[] = {
        "optimizer:%d",           "activations:%d",           "optimizer,gradients:%d",
        "optimizer:%d,gradients", "optimizer,activations:%d", "mlp:%d"};
    int count = draw_int(draw, 1, layers - 1), other = draw_int(draw, 1, layers - 1);
    if (draw_int(draw, 0, 2) == 0) return DRAW_ONE(draw, WORDS);
    if (draw_int(draw, 0, 3) == 0)
        return arena_print(arena, "optimizer:%d,%s:%d", count,
                           draw_int(draw, 0, 1) ? "activations" : "gradients",
                           other < count ? other : count);
    const char *form = DRAW_ONE(draw, COUNTED);
    return strstr(form, ",gradients") && strstr(form, ":%d,") && count < 3
               ? "optimizer"
               : arena_print(arena, form, count);
}

static void no_pin_is_faster_than_what_auto_finds(void **state)
{
    (void)state;
    struct draw draw = draw_start("pinned offloads", 61);
    const char *count_text = getenv("MESHWRIGHT_DRAWS");
    int questions = count_text ? atoi(count_text) : 12, pins = 0, beaten = 0;
    double worst = 0;
    for (int i = 0; i < questions; i++) {
        struct arena arena = {0};
        const struct kind *kind = &DRAW_ONE(&draw, KINDS);
        struct search_request request = question(&arena, &draw, kind);
        struct search_request open = request;
        open.pins.search_offload = true;
        double auto_s = seconds_of(&open);
        for (int p = 0; p < 6; p++) {
            struct offload offload;
            const char *text = pin_text(&arena, &draw, kind->layers);
            if (!offload_parse(text, &offload)) continue;
            pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&offload),
                     offload_value(&offload));
            double pinned_s = seconds_of(&request);
            if (pinned_s <= 0) continue;
            pins++;
            double slower = auto_s > 0 ? auto_s / pinned_s - 1 : INFINITY;
            worst = fmax(worst, slower);
            if (slower <= SLOWER_MOST) continue;
            beaten++;
            print_message("# %s on %d %s of %lld bytes, batch %lld: %s takes %.6g s, auto %.6g s, "
                          "%.2g %% more\n",
                          kind->model, request.cluster->rank_count, request.cluster->name,
                          (long long)cluster_device_bytes(request.cluster),
                          (long long)request.workload.global_batch, text, pinned_s, auto_s,
                          100 * slower);
        }
        arena_free(&arena);
    }
    print_message("# %d questions, %d pins that fit, %d faster, by %.2g %% at most\n", questions,
                  pins, beaten, 100 * worst);
    assert_true(pins > questions && beaten == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_pin_is_faster_than_what_auto_finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
