#include "cost_models/renewal.h"
#include "core/random.h"
#include "core/real.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// Failures that take a node come only while the job runs, with at most `spare_nodes` nodes in
// repair; with one more it waits. That is a system of spare_nodes + 1 servers that loses whom it
// has no server for, here nobody.
double renewal_wait_ratio(const struct renewal *renewal)
{
    double offered = renewal->node_loss_ratio * renewal->repair_s / renewal->mtbf_s;
    double blocked_ratio = 1;
    for (int servers = 1; servers <= renewal->spare_nodes + 1; servers++)
        blocked_ratio = offered * blocked_ratio / (servers + offered * blocked_ratio);
    return blocked_ratio;
}

// Segments with a checkpoint behind them, and the work left for the last one, which has none.
struct segments {
    double count, rest_s;
};

static struct segments cut(const struct renewal *renewal, double work_s)
{
    double count = ceil(work_s / renewal->interval_s) - 1;
    if (count < 0) count = 0;
    return (struct segments){count, work_s - count * renewal->interval_s};
}

// Daly's equation 20 and its like for the time until a checkpoint is stored, from the time that the
// last one was.
static double segment_mean_s(const struct renewal *renewal, double length_s)
{
    double mtbf_s = renewal->mtbf_s;
    double back_s = renewal->restart_s + renewal->storing_s;
    return mtbf_s * real_exp(back_s / mtbf_s) * real_expm1(length_s / mtbf_s);
}

double renewal_mean_s(const struct renewal *renewal, double work_s)
{
    struct segments segments = cut(renewal, work_s);
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    double busy_s = segment_mean_s(renewal, segments.rest_s);
    if (segments.count > 0) busy_s += segments.count * segment_mean_s(renewal, length_s);
    return busy_s / (1 - renewal_wait_ratio(renewal));
}

// With probability q = e^(-L/M) a segment takes L; else it fails at F < L and then takes Y, until
// for the first time D = R + P + L pass without a failure: E[Y] = M (e^d - 1) and
// Var[Y] = M^2 (e^2d - 2 d e^d - 1), d = D / M.
struct spread {
    double time;      // its variance
    double failures;  // variance of the number of failures beyond that of a Poisson process, times
                      // M squared
};

static struct spread segment_spread(const struct renewal *renewal, double length_s)
{
    double mtbf_s = renewal->mtbf_s, l = length_s / mtbf_s;
    double d = l + (renewal->restart_s + renewal->storing_s) / mtbf_s;
    double passes = real_exp(-l), fails = -real_expm1(-l);
    if (fails <= 0) return (struct spread){0, 0};
    double again = real_expm1(d);
    double again_square = again * again + real_exp(2 * d) - 2 * d * real_exp(d) - 1;
    double failure = (fails - l * passes) / fails;
    double failure_square = (2 * fails - l * (2 + l) * passes) / fails;
    double square = passes * l * l + fails * (failure_square + 2 * failure * again + again_square);
    double mean = passes * l + fails * (failure + again);
    // Behind the first failure come as many as geometric trials fail, each with e^-d to succeed.
    double count = fails * real_exp(d);
    double count_square = fails * (1 + again * (3 + 2 * again));
    double variance = fmax(square - mean * mean, 0);
    return (struct spread){variance * mtbf_s * mtbf_s,
                           (count_square - count * count - count) * mtbf_s * mtbf_s};
}

// The time spent waiting, by the second moment of the time that a birth and death process spends in
// its last state (Whitt 1992, "Asymptotic formulas for Markov processes with applications to
// simulation", Operations Research 40, equation 17): variance a second of wall clock.
static double wait_variance_per_s(const struct renewal *renewal)
{
    double offered = renewal->node_loss_ratio * renewal->repair_s / renewal->mtbf_s;
    if (offered <= 0) return 0;
    int last = renewal->spare_nodes + 1;
    double ratios[SPARE_NODES_MAX + 2] = {0}, sum = 0;
    // The state of most weight is 1, so that neither end of the chain overflows.
    int most = offered < last ? (int)offered : last;
    ratios[most] = 1;
    for (int n = most; n > 0; n--)
        ratios[n - 1] = ratios[n] * n / offered;
    for (int n = most; n < last; n++)
        ratios[n + 1] = ratios[n] * offered / (n + 1);
    for (int n = 0; n <= last; n++)
        sum += ratios[n];
    double below_ratio = 0, variance = 0, wait_ratio = ratios[last] / sum;
    for (int n = 0; n < last; n++) {
        double ratio = ratios[n] / sum;
        below_ratio += ratio;
        if (ratio > 0) variance += below_ratio * below_ratio / ratio;
    }
    return 2 * wait_ratio * wait_ratio * variance * renewal->mtbf_s / renewal->node_loss_ratio;
}

// Each failure brings a wait of its own, w M in the mean. The covariance of the number of failures
// N and of the time X follows from Var[N - X / M] = E[N], N - X / M being a martingale.
double renewal_deviation_s(const struct renewal *renewal, double work_s)
{
    struct segments segments = cut(renewal, work_s);
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    struct spread spread = segment_spread(renewal, segments.rest_s);
    if (segments.count > 0) {
        struct spread each = segment_spread(renewal, length_s);
        spread.time += segments.count * each.time;
        spread.failures += segments.count * each.failures;
    }
    double running_ratio = 1 - renewal_wait_ratio(renewal), w = 1 / running_ratio - 1;
    double waits = wait_variance_per_s(renewal) * renewal_mean_s(renewal, work_s);
    return sqrt((1 + w) * (spread.time + w * spread.failures) +
                waits / running_ratio / running_ratio);
}

// Nodes in repair: when each is back.
struct repairs {
    double back_s[SPARE_NODES_MAX + 1];
    int count;
};

static void forget_repaired(struct repairs *repairs, double now_s)
{
    int kept = 0;
    for (int i = 0; i < repairs->count; i++) {
        if (repairs->back_s[i] > now_s) repairs->back_s[kept++] = repairs->back_s[i];
    }
    repairs->count = kept;
}

// A node is lost; returns when the job has a full set again.
static double replace_node(const struct renewal *renewal, struct repairs *repairs, uint64_t *state,
                           double now_s)
{
    if (renewal->repair_s <= 0) return now_s;
    forget_repaired(repairs, now_s);
    repairs->back_s[repairs->count++] = now_s + random_exponential(state, renewal->repair_s);
    if (repairs->count <= renewal->spare_nodes) return now_s;
    double first_s = repairs->back_s[0];
    for (int i = 1; i < repairs->count; i++)
        first_s = fmin(first_s, repairs->back_s[i]);
    forget_repaired(repairs, first_s);
    return first_s;
}

static double draw_run(const struct renewal *renewal, double work_s, uint64_t *state)
{
    struct repairs repairs = {.count = 0};
    struct segments segments = cut(renewal, work_s);
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    double wall_s = 0, restart_s = 0, left = segments.count;
    for (;;) {
        double need_s = restart_s + left * length_s + segments.rest_s;
        double failure_s = random_exponential(state, renewal->mtbf_s);
        if (failure_s >= need_s) return wall_s + need_s;
        wall_s += failure_s;
        double stored = floor((failure_s - restart_s - renewal->storing_s) / length_s);
        if (stored > 0) left -= fmin(stored, left);
        restart_s = renewal->restart_s;
        if (random_uniform(state) < renewal->node_loss_ratio)
            wall_s = replace_node(renewal, &repairs, state, wall_s);
    }
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void renewal_draw(const struct renewal *renewal, double work_s, unsigned seed, double *wall_s,
                  int count)
{
    uint64_t state = seed;
    for (int i = 0; i < count; i++)
        wall_s[i] = draw_run(renewal, work_s, &state);
    qsort(wall_s, (size_t)count, sizeof *wall_s, compare);
}

// Where the normal distribution reaches this ratio, by bisection.
static double normal_quantile(double ratio)
{
    double low = -10, high = 10;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (real_normal_ratio(middle) < ratio) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (low + high) / 2;
}

void renewal_quantiles(const struct renewal *renewal, double work_s, const double *ratios,
                       double *wall_s, int count)
{
    enum { RUNS = 600, SEED = 20061001 };
    static const double FEW = 20;
    double mean_s = renewal_mean_s(renewal, work_s);
    double drawn_s[RUNS];
    bool is_drawn = mean_s / renewal->mtbf_s < FEW;
    if (is_drawn) renewal_draw(renewal, work_s, SEED, drawn_s, RUNS);
    double deviation_s = is_drawn ? 0 : renewal_deviation_s(renewal, work_s);
    for (int i = 0; i < count; i++) {
        assert(ratios[i] > 0 && ratios[i] < 1);
        wall_s[i] = is_drawn ? drawn_s[(int)(ratios[i] * RUNS)]
                             : mean_s + normal_quantile(ratios[i]) * deviation_s;
    }
}
