#include "cost_models/compute.h"
#include "cost_models/tables/towers.h"
#include "tests/support/test.h"

#include <math.h>

// The dense part of a recommendation model, layer by layer by hand: 13 features through towers of
// 64 and 16, three tables of 16 numbers, so that 64 stand side by side; a top of 32 and 1. A rank
// has 1,000 samples; walks reach 0.5 TB/s, and a launch takes 7 us.

enum { SAMPLES = 1000, JOINED = 64 };
static const double LAUNCH_S = 7e-6, BYTES_PER_S = 0.5e12;

struct hand {
    struct device device;
    struct node_group nodes;
    struct cluster cluster;
    struct table_stack stack;
    struct recommender model;
    struct table_placement placement;
    struct table_request request;
};

static void start(struct hand *hand, enum precision precision)
{
    *hand = (struct hand){
        .device = {.peak_flop_per_s = {[PRECISION_FP32] = 50e12, [PRECISION_BF16] = 100e12},
                   .memory_bandwidth_bytes_per_s = 1e12,
                   .multiprocessor_count = 100,
                   .launch_latency_s = LAUNCH_S},
        .stack = {.gemm_scale = 0.75,
                  .cross_passes_forward = 11,
                  .cross_passes_backward = 17,
                  .join_passes = 3,
                  .activation_passes_backward = 5},
        .model = {.dense_features = 13,
                  .embedding_dim = 16,
                  .table_count = 3,
                  .bottom = {.layer_count = 2, .widths = {64, 16}},
                  .top = {.layer_count = 2, .widths = {32, 1}},
                  .interaction = INTERACTION_DOT},
        .placement = {.rank_count = 3},
    };
    struct device_efficiency *efficiency = &hand->device.efficiency;
    efficiency->memory_ratio = 0.5;
    efficiency->gemm_memory_ratio = 0.5;
    efficiency->gemm_ratio[PRECISION_FP32] = efficiency->gemm_ratio[PRECISION_BF16] = 0.5;
    hand->nodes = (struct node_group){.device = &hand->device, .count = 1, .gpus = 3};
    hand->cluster = (struct cluster){
        .nodes = &hand->nodes, .node_group_count = 1, .node_count = 1, .rank_count = 3};
    hand->placement.model = &hand->model;
    hand->request =
        (struct table_request){.cluster = &hand->cluster,
                               .stack = &hand->stack,
                               .placement = &hand->placement,
                               .workload = {.global_batch = 3 * SAMPLES, .precision = precision}};
}

static double product_s(const struct hand *hand, int64_t m, int64_t n, int64_t k)
{
    const struct stack stack = {.gemm_scale = 0.75, .unaligned_gemm_ratio = 1};
    const struct compute_context context = {
        .device = &hand->device, .stack = &stack, .precision = hand->request.workload.precision};
    enum bound bound;
    return gemm_s(&context, &(struct gemm){1, m, n, k}, 0, &bound);
}

// Gradients of the weights, and of what came in.
static double back_s(const struct hand *hand, int64_t inputs, int64_t outputs)
{
    return product_s(hand, inputs, outputs, SAMPLES) + product_s(hand, SAMPLES, inputs, outputs);
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-12 * fabs(wanted)) return;
    print_error("found %.15g, wanted %.15g\n", found, wanted);
    fail();
}

static double walk_s(double bytes)
{
    return bytes / BYTES_PER_S;
}

// Nobody asks for the gradient of the features. Pairs of four vectors are six, beside the 16 that
// come from below: 22 into the top. Of pairs all vectors are walked once forward, twice backward.
static void towers_and_pairs_by_hand(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        struct hand hand;
        start(&hand, wide ? PRECISION_FP32 : PRECISION_BF16);
        double bytes = wide ? 4.0 * SAMPLES : 2.0 * SAMPLES, flop = 2.0 * SAMPLES;
        struct towers_cost cost = towers_price(&hand.request);
        is_near(table_stream_s(&hand.request, 3e9), walk_s(3e9));
        is_near(cost.forward_s[DENSE_BOTTOM],
                product_s(&hand, SAMPLES, 64, 13) + product_s(&hand, SAMPLES, 16, 64));
        is_near(cost.forward_s[DENSE_TOP],
                product_s(&hand, SAMPLES, 32, 22) + product_s(&hand, SAMPLES, 1, 32));
        is_near(cost.backward_s[DENSE_BOTTOM], product_s(&hand, 13, 64, SAMPLES) +
                                                   back_s(&hand, 64, 16) +
                                                   walk_s(5 * bytes * (64 + 16)));
        is_near(cost.backward_s[DENSE_TOP],
                back_s(&hand, 22, 32) + back_s(&hand, 32, 1) + walk_s(5 * bytes * (32 + 1)));
        is_near(cost.forward_flop[DENSE_BOTTOM], flop * (13 * 64 + 64 * 16));
        is_near(cost.backward_flop[DENSE_BOTTOM], flop * (13 * 64 + 2 * 64 * 16));
        is_near(cost.forward_flop[DENSE_TOP], flop * (22 * 32 + 32));
        is_near(cost.backward_flop[DENSE_TOP], 2 * flop * (22 * 32 + 32));
        is_near(cost.forward_s[DENSE_CROSS], walk_s((3 + 1) * bytes * JOINED) + LAUNCH_S);
        is_near(cost.backward_s[DENSE_CROSS], walk_s((3 + 2) * bytes * JOINED) + LAUNCH_S);
        assert_true(cost.forward_flop[DENSE_CROSS] == 0 && cost.backward_flop[DENSE_CROSS] == 0);
    }
}

// Two cross layers of rank 8: down and up, with no activation behind them, and three launches
// backward for one forward. What is joined goes into the top as it is.
static void cross_layers_by_hand(void **state)
{
    (void)state;
    struct hand hand;
    start(&hand, PRECISION_BF16);
    hand.model.interaction = INTERACTION_DCN;
    hand.model.cross_layers = 2;
    hand.model.cross_rank = 8;
    struct towers_cost cost = towers_price(&hand.request);
    double bytes = 2.0 * SAMPLES, flop = 2.0 * SAMPLES;
    is_near(cost.forward_s[DENSE_CROSS],
            2 * (product_s(&hand, SAMPLES, 8, JOINED) + product_s(&hand, SAMPLES, JOINED, 8)) +
                walk_s((3 + 2 * 11) * bytes * JOINED) + 3 * LAUNCH_S);
    is_near(cost.backward_s[DENSE_CROSS],
            2 * (back_s(&hand, JOINED, 8) + back_s(&hand, 8, JOINED)) +
                walk_s((3 + 2 * 17) * bytes * JOINED) + 7 * LAUNCH_S);
    is_near(cost.forward_flop[DENSE_CROSS], flop * 2 * 2 * 8 * JOINED);
    is_near(cost.backward_flop[DENSE_CROSS], flop * 2 * 4 * 8 * JOINED);
    is_near(cost.forward_s[DENSE_TOP],
            product_s(&hand, SAMPLES, 32, JOINED) + product_s(&hand, SAMPLES, 1, 32));
}

// Weights and what the optimizer keeps of each are read and written, gradients read, in fp32.
static void updates_by_hand(void **state)
{
    (void)state;
    for (int sgd = 0; sgd < 2; sgd++) {
        struct hand hand;
        start(&hand, PRECISION_BF16);
        hand.request.workload.optimizer = sgd ? TABLE_SGD : TABLE_ADAGRAD;
        double parameters = 14.0 * 64 + 65 * 16 + 23 * 32 + 33;
        is_near(towers_price(&hand.request).update_s,
                walk_s(parameters * (sgd ? 8 + 4 : 16 + 4)) + LAUNCH_S);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(towers_and_pairs_by_hand),
        cmocka_unit_test(cross_layers_by_hand),
        cmocka_unit_test(updates_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
