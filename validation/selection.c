#include "validation/selection.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Within a sweep the plan predicted best comes first.
static int by_family(const void *a, const void *b)
{
    const struct residual *left = *(const struct residual *const *)a;
    const struct residual *right = *(const struct residual *const *)b;
    int order = strcmp(left->family, right->family);
    if (order == 0) order = strcmp(left->sweep, right->sweep);
    if (order != 0) return order;
    if (left->left_out_s != right->left_out_s) return left->left_out_s < right->left_out_s ? -1 : 1;
    return (left->measured_s > right->measured_s) - (left->measured_s < right->measured_s);
}

// The rows of one sweep, that predicted best first; of equally good ones any may be chosen.
static double selected_of(const struct residual *const *rows, int count)
{
    assert(count >= 2);
    double sum = 0, best_sum = 0;
    int best_count = 0;
    for (int i = 0; i < count; i++) {
        double error = log(rows[i]->measured_s / rows[i]->left_out_s);
        sum += error;
        if (rows[i]->left_out_s > rows[0]->left_out_s) continue;
        best_sum += error;
        best_count++;
    }
    return best_sum / best_count - sum / count;
}

// Of one family there is no spread, and nothing is said.
static struct selection_band selection_of(const double *means, int family_count, int sweep_count)
{
    if (family_count < 2) return (struct selection_band){0};
    double mean = 0, squares = 0;
    for (int i = 0; i < family_count; i++) {
        mean += means[i] / family_count;
    }
    for (int i = 0; i < family_count; i++) {
        squares += (means[i] - mean) * (means[i] - mean);
    }
    double error = sqrt(squares / (family_count - 1) / family_count);
    return (struct selection_band){
        .mean_ratio = round(exp(mean) * 1e4) / 1e4,
        .error_ratio = round(expm1(error) * 1e4) / 1e4,
        .sweep_count = sweep_count,
        .family_count = family_count,
    };
}

struct selection_band selection_make(struct arena *arena, const struct residuals *residuals,
                                     const char *source)
{
    const struct residual **rows = ARENA_NEW(arena, const struct residual *, residuals->count);
    double *means = ARENA_NEW(arena, double, residuals->count);
    int count = 0, family_count = 0, sweep_count = 0, own_count = 0;
    for (int i = 0; i < residuals->count; i++) {
        if (residuals->items[i].sweep) rows[count++] = &residuals->items[i];
    }
    qsort(rows, (size_t)count, sizeof *rows, by_family);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++) {
            if (strcmp(rows[first]->sweep, rows[end]->sweep) != 0) break;
        }
        if (end - first > 1) {
            means[family_count] += selected_of(rows + first, end - first);
            own_count++;
            sweep_count++;
        }
        bool is_last = end == count || strcmp(rows[first]->family, rows[end]->family) != 0;
        if (!is_last || own_count == 0) continue;
        means[family_count++] /= own_count;
        own_count = 0;
    }
    struct selection_band selection = selection_of(means, family_count, sweep_count);
    selection.source = arena_print(
        arena,
        "log(measured / predicted) of the plan predicted best less the mean of its sweep, "
        "%d published sweeps of %d families, which weigh alike: %s",
        sweep_count, family_count, source);
    assert(family_count <= count && sweep_count >= family_count);
    return selection;
}
