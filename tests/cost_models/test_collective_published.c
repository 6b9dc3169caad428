#include "tests/support/collective_case.h"

#include <math.h>
#include <stdio.h>

// Prices of collectives against what others measured and published.

static double bus_of(const struct collective_cost *cost, enum collective collective, int count,
                     double bytes)
{
    double rounds = collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    return rounds * (count - 1) / count * bytes / cost->s;
}

// Bus bandwidths at 1 GB: vTrain's NCCL tables (A100, V100), stas00/ml-engineering (H100, H200,
// B200, MI300X).
static const struct {
    const char *cluster;
    enum collective collective;
    int rank_count;
    double bytes, bus_bytes_per_s;
    enum algorithm algorithm;
} PUBLISHED[] = {
    {"dgx-a100-80g", COLLECTIVE_ALL_REDUCE, 8, 1e9, 229e9, ALGORITHM_RING},
    {"dgx-a100-80g", COLLECTIVE_ALL_REDUCE, 4, 1e9, 222e9, ALGORITHM_RING},
    {"dgx-a100-80g", COLLECTIVE_ALL_REDUCE, 2, 1e9, 197e9, ALGORITHM_RING},
    {"dgx-v100", COLLECTIVE_ALL_REDUCE, 8, 1e9, 135e9, ALGORITHM_RING},
    {"dgx-v100", COLLECTIVE_ALL_REDUCE, 4, 1e9, 85e9, ALGORITHM_RING},
    {"dgx-v100", COLLECTIVE_ALL_REDUCE, 2, 1e9, 23e9, ALGORITHM_RING},
    {"dgx-h100", COLLECTIVE_ALL_REDUCE, 8, 16e9, 480e9, ALGORITHM_IN_NETWORK},
    {"dgx-h200", COLLECTIVE_ALL_GATHER, 8, 16e9, 361e9, ALGORITHM_RING},
    {"dgx-h200", COLLECTIVE_REDUCE_SCATTER, 8, 16e9, 363e9, ALGORITHM_RING},
    {"dgx-b200", COLLECTIVE_ALL_REDUCE, 8, 16e9, 838e9, ALGORITHM_IN_NETWORK},
    {"dgx-b200", COLLECTIVE_ALL_GATHER, 8, 16e9, 678e9, ALGORITHM_RING},
    {"mi300x-8", COLLECTIVE_ALL_REDUCE, 8, 16e9, 313e9, ALGORITHM_RING},
    {"mi300x-8", COLLECTIVE_ALL_REDUCE, 2, 16e9, 47.7e9, ALGORITHM_RING},
};

static void the_published_bus_bandwidths_are_met_within_5_percent(void **state)
{
    for (size_t i = 0; i < sizeof PUBLISHED / sizeof *PUBLISHED; i++) {
        int count = PUBLISHED[i].rank_count;
        double bytes = PUBLISHED[i].bytes;
        struct collective_cost cost =
            price(*state, PUBLISHED[i].cluster, count, 1, PUBLISHED[i].collective, bytes);
        double bus = bus_of(&cost, PUBLISHED[i].collective, count, bytes);
        if (fabs(bus / PUBLISHED[i].bus_bytes_per_s - 1) > 0.05) {
            print_error("%s, %d ranks: %.1f GB/s, published %.1f\n", PUBLISHED[i].cluster, count,
                        bus / 1e9, PUBLISHED[i].bus_bytes_per_s / 1e9);
            fail();
        }
        assert_int_equal(cost.algorithm, PUBLISHED[i].algorithm);
    }
}

// All-reduces of 32 MiB to 2 GiB over EFA, in GB/s of the payload: nccl-tests on p5.48xlarge
// (crazyguitar/aws-gpu-communication-benchmark, data/nccl_all_reduce.csv).
static const int EFA_NODES[] = {2, 4, 8, 16};
static const double EFA_GB_PER_S[4][7] = {
    {78.6, 115.4, 161.4, 194.7, 211.4, 232.3, 237.2},
    {50.5, 78.7, 118.5, 141.3, 143.8, 144.7, 179.4},
    {44.8, 52.4, 78.9, 118.4, 138.2, 139.2, 141.6},
    {38.4, 47.5, 65.0, 74.7, 114.4, 135.4, 137.4},
};

static void all_reduces_over_efa_are_met_as_far_as_two_slopes_can(void **state)
{
    struct cluster *cluster = load(*state, "dgx-h100-x16");
    cluster->network.kind = "efa";
    cluster->network.latency_s = shipped_fabric(*state, "efa", 50e9)->latency_s;
    double squares = 0;
    for (int i = 0; i < 4; i++) {
        struct group_shape group = group_of(cluster, 8 * EFA_NODES[i], 1);
        for (int k = 0; k < 7; k++) {
            double bytes = ldexp(1, 25 + k);
            struct collective_cost cost =
                collective_price(shipped(*state), &group, COLLECTIVE_ALL_REDUCE, bytes, 1);
            squares += pow(log(cost.s * EFA_GB_PER_S[i][k] * 1e9 / bytes), 2);
        }
    }
    assert_true(sqrt(squares / 28) < 0.18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_bus_bandwidths_are_met_within_5_percent),
        cmocka_unit_test(all_reduces_over_efa_are_met_as_far_as_two_slopes_can),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
