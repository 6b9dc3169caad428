#include "core/progress.h"
#include "memory/certify.h"
#include "memory/keep/keep.h"
#include "tests/support/random_problem.h"

#include <stdio.h>

// How far GLPK gets. Prints one line a fact; nothing here is a test.

enum { ROUNDS = 4 };
static const double LIMIT_S = 5;

// Precedence model against the whole graph with time steps, on the same random problems.
static void bench_orders(int operator_count)
{
    struct draw draw = {(uint64_t)operator_count};
    double pairs_s = 0, steps_s = 0;
    int pairs_proven = 0, steps_proven = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct arena arena = {0};
        struct memory_problem *problem = random_problem(&arena, &draw, operator_count, 512);
        struct milp_options options = {.time_limit_s = LIMIT_S};
        int order[64];
        double start_s = clock_s();
        pairs_proven += certify_order(&arena, problem, 0, &options, order).status == MILP_OPTIMAL;
        pairs_s += clock_s() - start_s;
        start_s = clock_s();
        steps_proven += global_order(&arena, problem, &options, order).status == MILP_OPTIMAL;
        steps_s += clock_s() - start_s;
        arena_free(&arena);
    }
    printf("order of %d: pairs prove %d of %d in %.3f s, steps %d in %.3f s (%.1f times)\n",
           operator_count, pairs_proven, ROUNDS, pairs_s, steps_proven, steps_s, steps_s / pairs_s);
}

static void bench_layouts(int count)
{
    struct draw draw = {(uint64_t)count};
    double sum_s = 0;
    int proven = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct arena arena = {0};
        struct pack_buffer buffers[32];
        int64_t offsets[32];
        for (int b = 0; b < count; b++) {
            int lower = draw_int(&draw, 0, 2 * count);
            buffers[b] = (struct pack_buffer){.lower = lower,
                                              .upper = lower + draw_int(&draw, 1, count),
                                              .size = draw_int(&draw, 1, 99),
                                              .alignment = 1,
                                              .fixed_offset = -1};
        }
        struct pack_problem problem = {.buffers = buffers, .count = count};
        struct milp_options options = {.time_limit_s = LIMIT_S};
        double start_s = clock_s();
        proven += certify_pack(&arena, &problem, &options, offsets).status == MILP_OPTIMAL;
        sum_s += clock_s() - start_s;
        arena_free(&arena);
    }
    printf("layout of %d: %d of %d proven in %.3f s\n", count, proven, ROUNDS, sum_s);
}

static void bench_keep(int class_count, int recompute_count, int stage_count)
{
    struct arena arena = {0};
    struct keep_class classes[OFFLOAD_CLASS_MAX];
    struct keep_recompute recomputes[16] = {0};
    struct keep_stage stages[8];
    int64_t sum_bytes = 0;
    for (int c = 0; c < class_count; c++) {
        classes[c] = (struct keep_class){30000000 + 17000000 * (c * 7 % 5), (unsigned)c};
        sum_bytes += classes[c].bytes;
        for (int r = 0; r < recompute_count; r++)
            recomputes[r].saved_bytes[c] = r > 0 && (r >> c % 4 & 1) ? 0 : classes[c].bytes;
    }
    for (int r = 0; r < recompute_count; r++)
        recomputes[r].seconds = 0.7e-3 * r;
    for (int s = 0; s < stage_count; s++)
        stages[s] = (struct keep_stage){128, stage_count - s, 20000000000, 4e-3, 8e-3};
    struct keep_problem problem = {.classes = classes,
                                   .class_count = class_count,
                                   .recomputes = recomputes,
                                   .recompute_count = recompute_count,
                                   .stages = stages,
                                   .stage_count = stage_count,
                                   .micro_batch_count = 32,
                                   .device_bytes = 20000000000 + sum_bytes * 64 * stage_count,
                                   .host_bytes_per_s = 20e9,
                                   .host_bytes = 500000000000,
                                   .tiers = 1 << TIER_HOST | 1 << TIER_DEVICE};
    struct milp_options options = {0};
    double start_s = clock_s();
    struct keep_result result = keep_solve(&arena, &problem, &options);
    printf("keep, %d classes, %d recomputes, %d stages: %.4f s added, bound %.4f, moved %.0f %% of "
           "everything, in %.1f ms\n",
           class_count, recompute_count, stage_count, result.added_s, result.bound_s,
           100 * (double)result.moved_bytes / (double)result.static_bytes,
           1e3 * (clock_s() - start_s));
    arena_free(&arena);
}

int main(void)
{
    for (int count = 6; count <= 30; count += count < 12 ? 3 : 9)
        bench_orders(count);
    for (int count = 6; count <= 15; count += 3)
        bench_layouts(count);
    for (int class_count = 2; class_count <= 6; class_count += 2) {
        bench_keep(class_count, 4, 1);
        bench_keep(class_count, 8, 4);
    }
    return 0;
}
