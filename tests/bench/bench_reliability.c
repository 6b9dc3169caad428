#include "cost_models/goodput.h"
#include "simulator/inject.h"
#include "tests/support/random_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Goodput with quantiles against goodput without them, and one slow rank of thousands: folded
// timelines against one a rank.

static double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Seconds of one call; `months` of work, 0: no finish is asked for.
static double goodput_s(const struct cluster *cluster, double months)
{
    enum { ROUNDS = 200 };
    struct goodput_request request = {.cluster = cluster,
                                      .step_s = 5,
                                      .checkpoint_bytes = 1000000000000,
                                      .steps = months * 30 * 86400 / 5};
    double sum = 0, start_s = clock_s();
    for (int i = 0; i < ROUNDS; i++) {
        request.step_s = 5 + 1e-3 * i;
        sum += goodput_of(&request).goodput_ratio;
    }
    double each_s = (clock_s() - start_s) / ROUNDS;
    return sum > 0 ? each_s : 0;
}

static void bench_goodput(void)
{
    struct arena arena = {0};
    struct err err = {0};
    struct cluster *cluster = cluster_load(&arena, "dgx-h100-x128", &err);
    if (!cluster) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    double plain_s = goodput_s(cluster, 0);
    for (double months = 1; months <= 9; months *= 3) {
        double each_s = goodput_s(cluster, months);
        printf("goodput of %.0f months on 1,024 GPUs: %.0f us, %.0f x one without a finish\n",
               months, each_s * 1e6, each_s / plain_s);
    }
    arena_free(&arena);
}

static void bench_slow_rank(void)
{
    enum { STAGES = 16, RANKS = 16384, PIPELINES = RANKS / STAGES };
    struct arena arena = {0}, scratch = {0};
    struct schedule_shape shape = {STAGES, 1, 128, 0, NULL};
    struct step_price *price = even_plan(&arena, SCHEDULE_1F1B, shape, 10e-3, 20e-3);
    struct engine_options all = {.all_ranks = true, .rank_count = RANKS};
    all.stage_of_rank = ARENA_NEW(&arena, int, RANKS);
    all.slowdown_of_rank = ARENA_NEW(&arena, double, RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        all.stage_of_rank[rank] = rank / PIPELINES;
        all.slowdown_of_rank[rank] = rank == RANKS / 2 ? 1.2 : 1;
    }
    struct lane_stage slow[STAGES], calm[STAGES];
    for (int stage = 0; stage < STAGES; stage++) {
        calm[stage] = (struct lane_stage){.slowdown = 1};
        slow[stage] = (struct lane_stage){.slowdown = stage == STAGES / 2 ? 1.2 : 1};
    }
    const struct engine_lane lanes[] = {{.pipeline_count = 1, .stages = slow},
                                        {.pipeline_count = PIPELINES - 1, .stages = calm}};
    struct engine_options folded = {.lanes = lanes, .lane_count = 2};
    double start_s = clock_s();
    double all_step_s = simulate_step(&arena, &scratch, price, &all)->cost.step_s;
    double all_s = clock_s() - start_s;
    start_s = clock_s();
    double folded_step_s = simulate_step(&arena, &scratch, price, &folded)->cost.step_s;
    double folded_s = clock_s() - start_s;
    printf("one slow rank of 16,384, pp 16: %.2f ms in two timelines, %.0f ms in one a rank: %.0f "
           "x, %s\n",
           folded_s * 1e3, all_s * 1e3, all_s / folded_s,
           all_step_s == folded_step_s ? "the same step" : "ANOTHER STEP");
    arena_free(&arena);
    arena_free(&scratch);
}

int main(void)
{
    bench_goodput();
    bench_slow_rank();
    return 0;
}
