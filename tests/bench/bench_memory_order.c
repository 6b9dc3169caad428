#include "core/progress.h"
#include "memory/certify.h"
#include "memory/formats.h"
#include "memory/order/order.h"
#include "tests/support/memory_graphs.h"

#include <stdio.h>
#include <stdlib.h>

// Operator order: gaps and seconds on training graphs, large graphs and wide ones; the search
// against the same without rules and against GLPK's precedence model. Nothing here is a test.

enum { ROUNDS = 6, STATE_CAP = 2000000 };
static const double GLPK_LIMIT_S = 5;

static double ratio(int64_t bytes, int64_t of_bytes)
{
    return (double)bytes / (double)of_bytes;
}

static int64_t peak_of(struct arena *scratch, const struct memory_problem *problem,
                       const int *order)
{
    int *birth = ARENA_NEW(scratch, int, problem->buffer_count);
    int *death = ARENA_NEW(scratch, int, problem->buffer_count);
    return memory_lifetimes(scratch, problem, order, birth, death);
}

// One line a graph: what the order gains over greedy, the gap that is left, the seconds.
static void bench_graph(const char *name, const struct memory_problem *problem, double wanted_gap,
                        double wanted_s)
{
    struct arena arena = {0}, scratch = {0};
    double start_s = clock_s();
    struct order_result result = order_solve(&arena, &scratch, problem, &(struct order_options){0});
    double own_s = clock_s() - start_s;
    start_s = clock_s();
    int64_t greedy_bytes = peak_of(&scratch, problem, order_greedy(&scratch, &scratch, problem));
    double greedy_s = clock_s() - start_s;
    int64_t program_bytes = peak_of(&scratch, problem, order_program(&scratch, problem));
    double gap = ratio(result.peak_bytes, result.bound_bytes) - 1;
    printf("%-18s %6d operators: %8.3f s (%5.1f x greedy's), gap %7.4f %%, greedy %7.4f %%, "
           "program %7.2f %%",
           name, problem->operator_count, own_s, own_s / greedy_s, 100 * gap,
           100 * (ratio(greedy_bytes, result.bound_bytes) - 1),
           100 * (ratio(program_bytes, result.bound_bytes) - 1));
    if (wanted_gap > 0)
        printf("; wanted gap %.1f %%: %s", 100 * wanted_gap, gap <= wanted_gap ? "yes" : "NO");
    if (wanted_s > 0) printf("; wanted %.1f s: %s", wanted_s, own_s <= wanted_s ? "yes" : "NO");
    printf("\n");
    arena_free(&scratch);
    arena_free(&arena);
}

static const struct memory_problem *aligned(struct arena *arena, const struct memory_graph *graph)
{
    return memory_problem_make(arena, graph, 512);
}

static void bench_training(void)
{
    static const int BATCHES[] = {1, 2, 8, 32};
    for (size_t i = 0; i < sizeof BATCHES / sizeof *BATCHES; i++) {
        struct arena arena = {0};
        int batch = BATCHES[i];
        bench_graph(arena_print(&arena, "gpt 12 b%d", batch),
                    aligned(&arena, graph_gpt(&arena, 12, batch, 768)), 0.003, 0);
        bench_graph(arena_print(&arena, "inception 12 b%d", batch),
                    aligned(&arena, graph_inception(&arena, 12, batch)), 0.03, 0);
        bench_graph(arena_print(&arena, "resnet 16 b%d", batch),
                    aligned(&arena, graph_resnet(&arena, 16, batch)), 0.03, 0);
        arena_free(&arena);
    }
}

static void bench_large(void)
{
    static const struct {
        int gpt, inception, resnet;
        double wanted_s;
    } SIZES[] = {{72, 58, 116, 0.5}, {715, 582, 1170, 2}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        struct arena arena = {0};
        bench_graph("gpt b1", aligned(&arena, graph_gpt(&arena, SIZES[i].gpt, 1, 768)), 0,
                    SIZES[i].wanted_s);
        bench_graph("inception b1", aligned(&arena, graph_inception(&arena, SIZES[i].inception, 1)),
                    0, SIZES[i].wanted_s);
        bench_graph("resnet b1", aligned(&arena, graph_resnet(&arena, SIZES[i].resnet, 1)), 0,
                    SIZES[i].wanted_s);
        arena_free(&arena);
    }
}

// Graphs without cuts: by others (when they are there), and layers that read at random.
static void bench_wide(void)
{
    static const char *const NAMES[] = {"OperatorGraphs_bert_l-3", "OperatorGraphs_bert_l-6"};
    const char *given = getenv("MESHWRIGHT_GRAPHS");
    for (int i = 0; i < 2; i++) {
        struct arena arena = {0};
        struct err err = {0};
        const char *path = arena_print(&arena, "%s/dnn-partitioning/%s_training.json",
                                       given ? given : "../shared/graphs", NAMES[i]);
        const struct memory_graph *graph = memory_graph_load(&arena, path, &err);
        if (graph) bench_graph(&NAMES[i][15], aligned(&arena, graph), 0, 0);
        if (!graph) printf("%s: skipped (%s)\n", NAMES[i], err.text);
        arena_free(&arena);
    }
    static const int SHAPES[][2] = {{100, 10}, {300, 5}, {300, 20}, {1000, 10}, {10000, 20}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        struct arena arena = {0};
        struct draw draw = {i + 1};
        const struct memory_graph *graph = graph_layered(&arena, &draw, SHAPES[i][0], SHAPES[i][1]);
        bench_graph(arena_print(&arena, "layers of %d", SHAPES[i][1]),
                    memory_problem_make(&arena, graph, 1), 0, 0);
        arena_free(&arena);
    }
}

struct sums {
    double seconds;
    int64_t state_count;
    int proven;
};

// The peak where it is proven, else -1.
static int64_t add_search(struct sums *sums, const struct memory_problem *problem,
                          const struct order_options *options)
{
    struct arena arena = {0}, scratch = {0};
    double start_s = clock_s();
    struct order_result result = order_solve(&arena, &scratch, problem, options);
    sums->seconds += clock_s() - start_s;
    sums->state_count += result.state_count;
    bool is_proven = result.bound_bytes == result.peak_bytes;
    sums->proven += is_proven;
    arena_free(&scratch);
    arena_free(&arena);
    return is_proven ? result.peak_bytes : -1;
}

static int64_t add_program(struct sums *sums, const struct memory_problem *problem)
{
    struct arena arena = {0};
    double start_s = clock_s();
    struct milp_options options = {.time_limit_s = GLPK_LIMIT_S};
    struct milp_result result = certify_order(&arena, problem, 0, &options, NULL);
    sums->seconds += clock_s() - start_s;
    bool is_proven = result.status == MILP_OPTIMAL;
    sums->proven += is_proven;
    arena_free(&arena);
    return is_proven ? (int64_t)result.objective : -1;
}

static const struct order_options PLAIN = {.state_cap = STATE_CAP,
                                           .no_forced_moves = true,
                                           .no_segments = true,
                                           .no_update_branches = true};

static void print_plain(const struct sums *own, const struct sums *plain)
{
    printf("; without rules %d in %.4f s (%.1f x), %lld sets (%.1f x)", plain->proven,
           plain->seconds, plain->seconds / own->seconds, (long long)plain->state_count,
           (double)plain->state_count / (double)(own->state_count + 1));
}

// The same problems by all three; proven peaks that differ are a bug.
static void bench_parts(int operator_count, int width)
{
    struct draw draw = {(uint64_t)operator_count};
    struct sums own = {0}, plain = {0}, glpk = {0};
    bool with_glpk = operator_count <= 30;
    int disputed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct arena arena = {0};
        const struct memory_problem *problem =
            memory_problem_make(&arena, graph_layered(&arena, &draw, operator_count, width), 1);
        struct order_options rules = {.state_cap = STATE_CAP};
        int64_t own_bytes = add_search(&own, problem, &rules);
        int64_t plain_bytes = add_search(&plain, problem, &PLAIN);
        int64_t glpk_bytes = with_glpk ? add_program(&glpk, problem) : -1;
        disputed += own_bytes >= 0 && plain_bytes >= 0 && own_bytes != plain_bytes;
        disputed += own_bytes >= 0 && glpk_bytes >= 0 && own_bytes != glpk_bytes;
        arena_free(&arena);
    }
    printf("%d operators, %d abreast: %d of %d proven in %.4f s, %lld sets", operator_count, width,
           own.proven, ROUNDS, own.seconds, (long long)own.state_count);
    print_plain(&own, &plain);
    if (with_glpk)
        printf("; GLPK %d in %.3f s (%.0f x)", glpk.proven, glpk.seconds,
               glpk.seconds / own.seconds);
    printf("%s\n", disputed ? "; DISPUTED" : "");
}

static void bench_rules(const char *name, const struct memory_problem *problem)
{
    struct sums own = {0}, plain = {0};
    add_search(&own, problem, &(struct order_options){.state_cap = STATE_CAP / 10});
    struct order_options none = PLAIN;
    none.state_cap = STATE_CAP / 10;
    add_search(&plain, problem, &none);
    printf("%s, %d operators: %d of 1 proven in %.4f s, %lld sets", name, problem->operator_count,
           own.proven, own.seconds, (long long)own.state_count);
    print_plain(&own, &plain);
    printf("\n");
}

static void bench_searches(void)
{
    static const int SHAPES[][2] = {{12, 3}, {20, 3}, {28, 4}, {40, 4}, {60, 4}, {60, 6}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        bench_parts(SHAPES[i][0], SHAPES[i][1]);
    struct arena arena = {0};
    bench_rules("gpt 1 b1", aligned(&arena, graph_gpt(&arena, 1, 1, 768)));
    bench_rules("inception 1 b1", aligned(&arena, graph_inception(&arena, 1, 1)));
    bench_rules("resnet 1 b1", aligned(&arena, graph_resnet(&arena, 1, 1)));
    arena_free(&arena);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_training();
    bench_large();
    bench_wide();
    bench_searches();
    return 0;
}
