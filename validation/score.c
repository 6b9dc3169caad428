#include "validation/score.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>

static void count_band(struct score *score, const struct estimate *estimate)
{
    if (estimate->high <= 0) return;
    assert(estimate->low <= estimate->high);
    score->banded_count++;
    score->covered_ratio +=
        estimate->low <= estimate->measured && estimate->measured <= estimate->high;
}

// Of `count` sorted absolute errors, at least one.
static void take_quantiles(struct score *score, const double *errors, int count)
{
    assert(count > 0 && errors[0] >= 0);
    score->median = (errors[(count - 1) / 2] + errors[count / 2]) / 2;
    score->p90 = errors[(9 * count + 9) / 10 - 1];
    score->worst = errors[count - 1];
}

// Rows without a measured value count nowhere; those without a prediction are failures.
struct score score_of(const struct estimate *estimates, int count)
{
    struct score score = {0};
    struct arena scratch = {0};
    double *errors = ARENA_NEW(&scratch, double, count);
    for (int i = 0; i < count; i++) {
        const struct estimate *estimate = &estimates[i];
        if (estimate->measured <= 0) continue;
        if (estimate->predicted <= 0) {
            score.failure_count++;
            continue;
        }
        double error = estimate->predicted / estimate->measured - 1;
        score.least = fmin(score.least, error);
        score.most = fmax(score.most, error);
        score.bias += error;
        score.mape += fabs(error);
        errors[score.row_count++] = fabs(error);
        count_band(&score, estimate);
    }
    if (score.row_count > 0) {
        sort_f64s(errors, (size_t)score.row_count);
        score.mape /= score.row_count;
        score.bias /= score.row_count;
        take_quantiles(&score, errors, score.row_count);
    }
    if (score.banded_count > 0) score.covered_ratio /= score.banded_count;
    arena_free(&scratch);
    assert(score.banded_count <= score.row_count && score.covered_ratio <= 1);
    return score;
}
