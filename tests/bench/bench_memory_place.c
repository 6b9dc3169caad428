#include "core/progress.h"
#include "memory/order/order.h"
#include "memory/pack/pack_order.h"
#include "tests/support/memory_graphs.h"

#include <math.h>
#include <stdio.h>

// Heights over the most size alive, and seconds, of training graphs by size: the plain rule
// (largest first, first fit), all greedy rules, and repairs; in the same run and on the same
// lifetimes. Prints one line a problem; nothing here is a test.

// Any order that respects the edges: of the ready operators a random one among the `reach` that
// have waited longest.
static int *random_order(struct arena *arena, const struct memory_problem *problem, int reach,
                         struct draw *draw)
{
    int count = problem->operator_count, ready_count = 0;
    int *order = ARENA_NEW(arena, int, count), *ready = ARENA_NEW(arena, int, count);
    int *waits = ARENA_NEW(arena, int, count);
    for (int o = 0; o < count; o++) {
        waits[o] = problem->first_predecessor[o + 1] - problem->first_predecessor[o];
        if (waits[o] == 0) ready[ready_count++] = o;
    }
    for (int step = 0; step < count; step++) {
        int which = draw_int(draw, 0, (ready_count < reach ? ready_count : reach) - 1);
        int o = order[step] = ready[which];
        for (ready_count--; which < ready_count; which++)
            ready[which] = ready[which + 1];
        for (int i = problem->first_successor[o]; i < problem->first_successor[o + 1]; i++) {
            int successor = problem->successors[i];
            if (--waits[successor] == 0) ready[ready_count++] = successor;
        }
    }
    return order;
}

static struct pack_problem lifetimes(struct arena *arena, const struct memory_problem *problem,
                                     const int *order)
{
    int count = problem->buffer_count;
    int *birth = ARENA_NEW(arena, int, count), *death = ARENA_NEW(arena, int, count);
    memory_lifetimes(arena, problem, order, birth, death);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, count);
    for (int b = 0; b < count; b++) {
        buffers[b] = (struct pack_buffer){.lower = birth[b],
                                          .upper = death[b],
                                          .size = problem->buffers[b].bytes,
                                          .alignment = 512,
                                          .fixed_offset = -1};
    }
    return (struct pack_problem){.buffers = buffers, .count = count};
}

static double percent_over(int64_t height, int64_t bound)
{
    return 100 * ((double)height / (double)bound - 1);
}

// Worst of all problems, in percent over, and seconds of all.
struct worst {
    double plain, greedy, repaired, repaired_s;
    int count, exact_count;
};

static void bench(const char *name, const struct pack_problem *problem, struct worst *worst)
{
    struct arena scratch = {0};
    struct pack_sections *sections = pack_sections_make(&scratch, problem);
    int64_t *offsets = ARENA_NEW(&scratch, int64_t, problem->count), bound = sections->load_most;
    double start_s = clock_s();
    int64_t plain = pack_by_rule(&scratch, problem, sections, KEY_SIZE, INT64_MAX, offsets);
    double plain_s = clock_s() - start_s;
    start_s = clock_s();
    int64_t greedy = pack_greedy(&scratch, problem, offsets);
    double greedy_s = clock_s() - start_s;
    struct pack_options options = {.deadline_s = clock_s() + 30};
    struct pack_result counts = {0};
    start_s = clock_s();
    int64_t repaired = pack_large(&scratch, problem, &options, offsets, &counts);
    double repaired_s = clock_s() - start_s;
    worst->plain = fmax(worst->plain, percent_over(plain, bound));
    worst->greedy = fmax(worst->greedy, percent_over(greedy, bound));
    worst->repaired = fmax(worst->repaired, percent_over(repaired, bound));
    worst->repaired_s += repaired_s;
    worst->exact_count += repaired == bound;
    worst->count++;
    printf("%-47s %6d buffers: size, first fit %.3f %% over in %.2f s; all rules %.3f %%, %.2f s; "
           "repaired %.3f %%, %.2f s, %lld moves (%.4g x the height of the plain rule)\n",
           name, problem->count, percent_over(plain, bound), plain_s, percent_over(greedy, bound),
           greedy_s, percent_over(repaired, bound), repaired_s, (long long)counts.node_count,
           (double)repaired / (double)plain);
    fflush(stdout);
    arena_free(&scratch);
}

static void bench_orders(const char *name, struct arena *arena, const struct memory_graph *graph,
                         struct worst *worst)
{
    struct draw draw = {42};
    char line[64];
    struct memory_problem *problem = memory_problem_make(arena, graph, 512);
    int *program = order_program(arena, problem);
    struct pack_problem packing = lifetimes(arena, problem, program);
    snprintf(line, sizeof line, "%s, program order", name);
    bench(line, &packing, worst);
    packing = lifetimes(arena, problem, order_greedy(arena, arena, problem));
    snprintf(line, sizeof line, "%s, list order", name);
    bench(line, &packing, worst);
    for (int reach = 4; reach <= 256; reach *= 8) {
        packing = lifetimes(arena, problem, random_order(arena, problem, reach, &draw));
        snprintf(line, sizeof line, "%s, random order %d", name, reach);
        bench(line, &packing, worst);
    }
    arena_free(arena);
}

int main(void)
{
    struct arena arena = {0};
    struct draw draw = {7};
    struct worst worst = {0};
    bench_orders("GPT 48 layers", &arena, graph_gpt(&arena, 48, 8, 1600), &worst);
    bench_orders("GPT 180 layers", &arena, graph_gpt(&arena, 180, 1, 768), &worst);
    bench_orders("GPT 540 layers", &arena, graph_gpt(&arena, 540, 1, 768), &worst);
    bench_orders("Inception 100 blocks, batch 1", &arena, graph_inception(&arena, 100, 1), &worst);
    bench_orders("Inception 100 blocks, batch 32", &arena, graph_inception(&arena, 100, 32),
                 &worst);
    bench_orders("Inception 300 blocks, batch 8", &arena, graph_inception(&arena, 300, 8), &worst);
    bench_orders("ResNet 16 blocks, batch 32", &arena, graph_resnet(&arena, 16, 32), &worst);
    bench_orders("ResNet 300 blocks, batch 1", &arena, graph_resnet(&arena, 300, 1), &worst);
    bench_orders("ResNet 300 blocks, batch 8", &arena, graph_resnet(&arena, 300, 8), &worst);
    bench_orders("layers of 40, 20,000", &arena, graph_layered(&arena, &draw, 20000, 40), &worst);
    printf("%d of %d at the bound, worst %.3f %% over, in %.1f s together; worst of all rules "
           "%.3f %%, of the plain rule %.3f %%\n",
           worst.exact_count, worst.count, worst.repaired, worst.repaired_s, worst.greedy,
           worst.plain);
    return 0;
}
