#include "core/progress.h"
#include "planner/choice.h"
#include "reports/whatif/whatif.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// Speed of many scenarios: 1,000 of one model, a fifth of which differ in more than the price.
// Prints the seconds, and how much sharing and the processors gain. Nothing here is a test.

struct whatif_bench {
    struct arena arena;
    struct scenario_request request;
    struct scenario *scenarios;
    struct scenario_outcome *outcomes;
    int count;
};

static void check(const struct err *err)
{
    if (!err->kind) return;
    fprintf(stderr, "bench_whatif: %s\n", err->text);
    exit(1);
}

static void make(struct whatif_bench *bench)
{
    struct arena *arena = &bench->arena;
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", &err);
    check(&err);
    cluster->price = (struct price){.per_gpu_hour = 2, .currency = "USD"};
    const struct cluster *clusters[] = {cluster};
    bench->request = (struct scenario_request){
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
    };
    struct sweep sweep = {.clusters = clusters,
                          .cluster_count = 1,
                          .workload = {.seq_len = 4096,
                                       .global_batch = 1024,
                                       .precision = PRECISION_BF16,
                                       .optimizer = OPTIMIZER_ADAMW,
                                       .tokens = 1e12},
                          .pins = pins_none()};
    static const struct {
        enum sweep_axis axis;
        const char *text;
    } LISTS[] = {{SWEEP_GPUS, "8..1024"},
                 {SWEEP_SEQ_LEN, "1024,2048,3072,4096,6144"},
                 {SWEEP_BANDWIDTH_FACTOR, "0.25,0.5,1,1.5,2"},
                 {SWEEP_PRICE_FACTOR, "0.5,0.75,1,1.25,1.5"}};
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        if (!sweep_parse(arena, LISTS[i].axis, LISTS[i].text, &sweep.axes[LISTS[i].axis], &err)) {
            check(&err);
        }
    }
    struct sweep_points points = {0};
    if (!sweep_points(arena, &sweep, &points, &err)) check(&err);
    bench->count = points.count;
    bench->scenarios = ARENA_NEW(arena, struct scenario, points.count);
    bench->outcomes = ARENA_NEW(arena, struct scenario_outcome, points.count);
    for (int i = 0; i < points.count; i++) {
        bench->scenarios[i] = points.items[i].scenario;
    }
}

struct time_taken {
    double wall_s, cpu_s;  // a neighbour on the same processors changes the former alone
};

static struct time_taken run(struct whatif_bench *bench, int workers, bool alone)
{
    struct err err = {0};
    struct arena arena = {0};
    struct scenario_request request = bench->request;
    request.workers = workers;
    request.alone = alone;
    double start_s = clock_s();
    clock_t start = clock();
    if (!scenarios_run(&arena, &request, bench->scenarios, bench->count, bench->outcomes, &err)) {
        check(&err);
    }
    const struct time_taken taken = {clock_s() - start_s,
                                     (double)(clock() - start) / CLOCKS_PER_SEC};
    arena_free(&arena);
    return taken;
}

int main(void)
{
    struct whatif_bench bench = {0};
    make(&bench);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const struct time_taken all = run(&bench, 0, false);
    int searched = scenarios_searched(bench.outcomes, bench.count);
    const struct time_taken one = run(&bench, 1, false), alone = run(&bench, 1, true);
    printf("%d scenarios, %d searched, on %ld processors: %.2f s, %.2f s of processor\n",
           bench.count, searched, processors, all.wall_s, all.cpu_s);
    printf("the same by one worker: %.2f s, %.2fx as long\n", one.wall_s, one.wall_s / all.wall_s);
    printf(
        "by one worker, nothing shared: %.2f s, %.2f s of processor: %.2fx of what sharing takes\n",
        alone.wall_s, alone.cpu_s, alone.cpu_s / one.cpu_s);
    arena_free(&bench.arena);
    return 0;
}
