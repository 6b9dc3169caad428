#include "cost_models/renewal.h"
#include "core/random.h"
#include "core/real.h"
#include "core/sort.h"
#include "cost_models/spares.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <math.h>

static struct spares spares_of(const struct renewal *renewal)
{
    assert(renewal->mtbf_s > 0 && renewal->node_loss_ratio >= 0);
    return (struct spares){
        .loss_per_s = renewal->node_loss_ratio / renewal->mtbf_s,
        .repair_s = renewal->repair_s,
        .count = renewal->spare_nodes,
    };
}

double renewal_wait_ratio(const struct renewal *renewal)
{
    const struct spares spares = spares_of(renewal);
    return spares_wait_ratio(&spares);
}

// Segments with a checkpoint behind them, and the work left for the last one, which has none.
struct segments {
    double count, rest_s;
};

static struct segments cut(const struct renewal *renewal, double work_s)
{
    assert(renewal->interval_s > 0 && work_s >= 0);
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

double renewal_busy_s(const struct renewal *renewal, double work_s)
{
    struct segments segments = cut(renewal, work_s);
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    double busy_s = segment_mean_s(renewal, segments.rest_s);
    if (segments.count > 0) busy_s += segments.count * segment_mean_s(renewal, length_s);
    return busy_s;
}

// Each failure makes the job run longer by what it does twice and by the restart.
static struct spares_wait wait_of(const struct renewal *renewal, double work_s)
{
    const struct spares spares = spares_of(renewal);
    double checkpoints_s = cut(renewal, work_s).count * renewal->checkpoint_s;
    double busy_s = renewal_busy_s(renewal, work_s);
    double cost_ratio = isfinite(busy_s) ? fmax(1 - (work_s + checkpoints_s) / busy_s, 0) : 0;
    return spares_wait(&spares, busy_s, cost_ratio * renewal->mtbf_s);
}

double renewal_wait_s(const struct renewal *renewal, double work_s)
{
    return wait_of(renewal, work_s).mean_s;
}

double renewal_mean_s(const struct renewal *renewal, double work_s)
{
    return renewal_busy_s(renewal, work_s) + renewal_wait_s(renewal, work_s);
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
    struct spares_wait wait = wait_of(renewal, work_s);
    double w = wait.mean_s / renewal_busy_s(renewal, work_s);
    return sqrt((1 + w) * (spread.time + w * spread.failures) + wait.variance);
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
    // The job has waited for every one beyond the spares.
    assert(repairs->count <= renewal->spare_nodes && renewal->spare_nodes <= SPARE_NODES_MAX);
    repairs->back_s[repairs->count++] = now_s + random_exponential(state, renewal->repair_s);
    if (repairs->count <= renewal->spare_nodes) return now_s;
    double first_s = repairs->back_s[0];
    for (int i = 1; i < repairs->count; i++)
        first_s = fmin(first_s, repairs->back_s[i]);
    forget_repaired(repairs, first_s);
    return first_s;
}

// One run, failure after failure: the exponential has no memory, so that each is drawn anew.
static double draw_run(const struct renewal *renewal, double work_s, uint64_t *state)
{
    struct repairs repairs = {.count = 0};
    struct segments segments = cut(renewal, work_s);
    double length_s = renewal->interval_s + renewal->checkpoint_s;
    double wall_s = 0, restart_s = 0, left = segments.count;
    for (;;) {
        // The last segment has no checkpoint behind it.
        double need_s = restart_s + left * length_s + segments.rest_s;
        double failure_s = random_exponential(state, renewal->mtbf_s);
        if (failure_s >= need_s) return wall_s + need_s;
        wall_s += failure_s;
        double stored = floor((failure_s - restart_s - renewal->storing_s) / length_s);
        // The restart and what the last checkpoint still needed come before the first segment that
        // counts.
        if (stored > 0) left -= fmin(stored, left);
        restart_s = renewal->restart_s;
        if (random_uniform(state) < renewal->node_loss_ratio)
            wall_s = replace_node(renewal, &repairs, state, wall_s);
    }
}

void renewal_draw(const struct renewal *renewal, double work_s, unsigned seed, double *wall_s,
                  int count)
{
    assert(count >= 0 && renewal->spare_nodes <= SPARE_NODES_MAX);
    uint64_t state = seed;
    for (int i = 0; i < count; i++)
        wall_s[i] = draw_run(renewal, work_s, &state);
    sort_f64s(wall_s, (size_t)count);
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

// Few interruptions are far from normal, and so are few waits: of a run that ends before its spares
// come and go as they would in the long run.
static bool is_drawn(const struct renewal *renewal, double busy_s)
{
    static const double FEW = 20, MANY = 400, SETTLED = 20;
    double interruptions = busy_s / renewal->mtbf_s;
    return interruptions < FEW || (interruptions < MANY && busy_s < SETTLED * renewal->repair_s);
}

// The seed is fixed: equal questions get equal answers.
void renewal_quantiles(const struct renewal *renewal, double work_s, const double *ratios,
                       double *wall_s, int count)
{
    enum { RUNS = 600, SEED = 20061001 };
    double drawn_s[RUNS], mean_s = 0, deviation_s = 0;
    bool draws = is_drawn(renewal, renewal_busy_s(renewal, work_s));
    if (draws) {
        renewal_draw(renewal, work_s, SEED, drawn_s, RUNS);
    } else {
        mean_s = renewal_mean_s(renewal, work_s);
        deviation_s = renewal_deviation_s(renewal, work_s);
    }
    for (int i = 0; i < count; i++) {
        assert(ratios[i] > 0 && ratios[i] < 1);
        wall_s[i] = draws ? drawn_s[(int)(ratios[i] * RUNS)]
                          : mean_s + normal_quantile(ratios[i]) * deviation_s;
    }
}
