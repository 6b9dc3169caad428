#include "validation/ranking.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Measured steps closer than this are noise of repeated runs (dense rows that were published
// again for another release are 1.6 % from their median).
static const double PAIR_DISTANCE = 1.03;

// Names alone do not tell sizes apart.
static const char *shape_of(struct arena *arena, const struct row *row)
{
    const struct row_model *model = &row->facts.model;
    return arena_print(arena, "%s/%dx%d/%d.%d.%d/%d.%d.%d/%d.%d/%d", row->model_name, model->layers,
                       model->hidden, model->heads, model->kv_heads, model->head_dim,
                       model->ffn_hidden, model->ffn_gated, model->vocab, model->experts,
                       model->experts_per_token, model->moe_ffn_hidden);
}

// What runs share that differ in their plan alone.
const char *row_sweep(struct arena *arena, const struct row *row)
{
    const struct row_facts *facts = &row->facts;
    return arena_print(arena, "%s|%s|%d %s|%s|%s|%lld x %lld %s", row->family, shape_of(arena, row),
                       facts->gpus, row->device, row->stack, facts->software ? facts->software : "",
                       (long long)facts->global_batch, (long long)facts->seq_len,
                       facts->precision ? facts->precision : "");
}

// As a sweep, of any number of GPUs and any batch.
const char *row_series(struct arena *arena, const struct row *row)
{
    const struct row_facts *facts = &row->facts;
    return arena_print(arena, "%s|%s|%s|%s|%s|%lld %s|%d", row->family, shape_of(arena, row),
                       row->device, row->stack, facts->software ? facts->software : "",
                       (long long)facts->seq_len, facts->precision ? facts->precision : "",
                       facts->lora.rank);
}

static int compare_sweeps(const void *a, const void *b)
{
    const struct ranked *const *left = a, *const *right = b;
    int order = strcmp((*left)->sweep, (*right)->sweep);
    return order ? order : (*left > *right) - (*left < *right);
}

static bool is_ranked(const struct ranked *plan)
{
    return plan->measured_s > 0 && plan->predicted_s > 0;
}

// The plans of one sweep, two at least.
static void add_sweep(struct ranking_score *score, const struct ranked *const *plans, int count)
{
    assert(count >= 2);
    const struct ranked *chosen = plans[0];
    double best_s = plans[0]->measured_s;
    for (int i = 0; i < count; i++) {
        const struct ranked *plan = plans[i];
        best_s = fmin(best_s, plan->measured_s);
        bool as_good = plan->predicted_s == chosen->predicted_s;
        if (plan->predicted_s < chosen->predicted_s ||
            (as_good && plan->measured_s > chosen->measured_s)) {
            chosen = plan;
        }
        for (int k = 0; k < i; k++) {
            double measured = plan->measured_s / plans[k]->measured_s;
            if (fmax(measured, 1 / measured) <= PAIR_DISTANCE) continue;
            double predicted = plan->predicted_s / plans[k]->predicted_s;
            score->pair_count++;
            score->right_count += measured > 1 ? predicted > 1 : predicted < 1;
        }
    }
    double regret = chosen->measured_s / best_s - 1;
    assert(regret >= 0);
    score->sweep_count++;
    score->regret_mean += regret;
    if (regret <= score->regret_worst) return;
    score->regret_worst = regret;
    score->worst_sweep = chosen->sweep;
}

struct ranking_score ranking_of(const struct ranked *plans, int count)
{
    struct ranking_score score = {0};
    struct arena scratch = {0};
    const struct ranked **sorted = ARENA_NEW(&scratch, const struct ranked *, count);
    int used = 0;
    for (int i = 0; i < count; i++) {
        if (is_ranked(&plans[i])) sorted[used++] = &plans[i];
    }
    qsort(sorted, (size_t)used, sizeof *sorted, compare_sweeps);
    for (int first = 0, end; first < used; first = end) {
        for (end = first + 1; end < used; end++) {
            if (strcmp(sorted[first]->sweep, sorted[end]->sweep) != 0) break;
        }
        if (end - first > 1) add_sweep(&score, sorted + first, end - first);
    }
    if (score.sweep_count > 0) score.regret_mean /= score.sweep_count;
    arena_free(&scratch);
    assert(score.right_count <= score.pair_count && score.regret_worst >= 0);
    return score;
}
