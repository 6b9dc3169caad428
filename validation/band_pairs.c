#include "validation/band_pairs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Upper ends of the differences that are told apart; the last takes the rest.
static const double EDGES[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, HUGE_VAL};
enum { EDGE_COUNT = sizeof EDGES / sizeof *EDGES };

struct tally {
    double right[EDGE_COUNT];
    int pairs[EDGE_COUNT];
};

struct pool {
    double right, weight;
    int pairs, last_edge;
};

// Within a sweep in order of time, so that each pair is divided the same way round.
static int by_sweep(const void *a, const void *b)
{
    const struct residual *left = *(const struct residual *const *)a;
    const struct residual *right = *(const struct residual *const *)b;
    int by_name = strcmp(left->sweep, right->sweep);
    if (by_name != 0) return by_name;
    int by_prediction =
        (left->left_out_s > right->left_out_s) - (left->left_out_s < right->left_out_s);
    if (by_prediction != 0) return by_prediction;
    return (left->measured_s > right->measured_s) - (left->measured_s < right->measured_s);
}

// A measured tie is half right: no prediction could be.
static void count_pair(const struct residual *a, const struct residual *b, struct tally *tally)
{
    double predicted = log(a->left_out_s / b->left_out_s);
    double measured = log(a->measured_s / b->measured_s);
    if (predicted == 0) return;
    double difference_ratio = expm1(fabs(predicted));
    int edge = 0;
    while (difference_ratio > EDGES[edge]) {
        edge++;
    }
    assert(edge < EDGE_COUNT && "the last edge is infinite");
    tally->pairs[edge]++;
    tally->right[edge] += measured == 0 ? 0.5 : (measured > 0) == (predicted > 0);
}

// Pairs of one sweep share their runs: n pairs weigh as the root of n.
static void add_sweep(const struct residual *const *rows, int count, struct pool *pools)
{
    assert(count > 0);
    struct tally tally = {0};
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            count_pair(rows[i], rows[j], &tally);
        }
    }
    for (int edge = 0; edge < EDGE_COUNT; edge++) {
        if (tally.pairs[edge] == 0) continue;
        double weight = sqrt((double)tally.pairs[edge]);
        pools[edge].right += weight * tally.right[edge] / tally.pairs[edge];
        pools[edge].weight += weight;
        pools[edge].pairs += tally.pairs[edge];
    }
}

// Pools at `pools` in place; returns how many are left. Empty ones join their right neighbour.
static int pool_violators(struct pool *pools)
{
    int count = 0;
    for (int edge = 0; edge < EDGE_COUNT; edge++) {
        if (pools[edge].pairs == 0) continue;
        struct pool next = pools[edge];
        next.last_edge = edge;
        while (count > 0 &&
               pools[count - 1].right / pools[count - 1].weight > next.right / next.weight) {
            struct pool *before = &pools[--count];
            next.right += before->right;
            next.weight += before->weight;
            next.pairs += before->pairs;
        }
        assert(next.weight > 0 && next.right >= 0 && next.right <= next.weight * (1 + 1e-9));
        pools[count++] = next;
    }
    return count;
}

// Only rows of a sweep are compared: others differ in more than the plan.
struct band_pairs *band_pairs_make(struct arena *arena, const struct residuals *residuals,
                                   const char *source, int *count)
{
    const struct residual **rows = ARENA_NEW(arena, const struct residual *, residuals->count);
    int known = 0, sweeps = 0;
    for (int i = 0; i < residuals->count; i++) {
        if (residuals->items[i].sweep) rows[known++] = &residuals->items[i];
    }
    qsort(rows, (size_t)known, sizeof(struct residual *), by_sweep);
    struct pool pools[EDGE_COUNT] = {0};
    for (int first = 0, end = 0; first < known; first = end) {
        while (end < known && strcmp(rows[first]->sweep, rows[end]->sweep) == 0) {
            end++;
        }
        sweeps += end - first > 1;
        add_sweep(rows + first, end - first, pools);
    }
    *count = pool_violators(pools);
    if (*count == 0) return NULL;
    const char *text = arena_print(
        arena, "pairs of rows of %d published sweeps, predicted without their family: %s", sweeps,
        source);
    struct band_pairs *pairs = ARENA_NEW(arena, struct band_pairs, *count);
    for (int i = 0; i < *count; i++) {
        bool last = i == *count - 1;
        pairs[i].difference_ratio = last ? 0 : EDGES[pools[i].last_edge];
        pairs[i].pair_count = pools[i].pairs;
        pairs[i].source = text;
        pairs[i].right_ratio = round(1000 * pools[i].right / pools[i].weight) / 1000;
    }
    return pairs;
}
