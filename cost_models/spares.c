#include "cost_models/spares.h"
#include "core/real.h"

#include <assert.h>
#include <math.h>

static double offered(const struct spares *spares)
{
    return spares->loss_per_s * spares->repair_s;
}

// Erlang's loss formula by its recurrence over the number of servers, which are the spares and the
// node that is waited for.
double spares_wait_ratio(const struct spares *spares)
{
    assert(spares->count >= 0 && offered(spares) >= 0);
    double blocked_ratio = 1;
    for (int servers = 1; servers <= spares->count + 1; servers++)
        blocked_ratio =
            offered(spares) * blocked_ratio / (servers + offered(spares) * blocked_ratio);
    assert(blocked_ratio >= 0 && blocked_ratio <= 1);
    return blocked_ratio;
}

// Complex numbers of plain arithmetic: what a compiler calls for theirs differs between machines.
struct point {
    double re, im;
};

static struct point times(struct point a, struct point b)
{
    return (struct point){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct point over(struct point a, struct point b)
{
    double square = b.re * b.re + b.im * b.im;
    return (struct point){(a.re * b.re + a.im * b.im) / square,
                          (a.im * b.re - a.re * b.im) / square};
}

static struct point plus(struct point a, double factor, struct point b)
{
    return (struct point){a.re + factor * b.re, a.im + factor * b.im};
}

// Laplace transforms at s of the probability that all spares are in repair: from the start, when
// none is, and from a time when all are; and from the start the same times the number of nodes lost
// so far. From n in repair to n + 1 it takes a time of transform
// up = loss / (loss + s + n repair (1 - up of n - 1)). `lost` are derivatives: where each loss
// brings a factor z, up is z times as large and what comes in at the top is loss (1 - z) less.
struct transforms {
    struct point from_none, from_all, lost;
};

static struct transforms transforms_at(const struct spares *spares, struct point s)
{
    assert(spares->repair_s > 0 && spares->loss_per_s > 0);
    double loss = spares->loss_per_s, repair = 1 / spares->repair_s;
    const struct point one = {1, 0};
    struct point up = {0, 0}, up_lost = {0, 0}, all_up = one, share_lost = {0, 0};
    for (int n = 0; n < spares->count; n++) {
        struct point below = {loss + s.re + n * repair * (1 - up.re), s.im - n * repair * up.im};
        struct point ratio_lost = plus(one, n * repair, over(up_lost, below));
        up = over((struct point){loss, 0}, below);
        up_lost = times(up, ratio_lost);
        share_lost = plus(share_lost, 1, ratio_lost);
        all_up = times(all_up, up);
    }
    double all = spares->count * repair;
    struct point leave = {s.re + all * (1 - up.re), s.im - all * up.im};
    struct point stay = over(one, leave);
    struct point stay_lost = times(stay, plus((struct point){loss, 0}, all, up_lost));
    struct point from_none = times(all_up, stay);
    return (struct transforms){from_none, stay, times(from_none, plus(share_lost, 1, stay_lost))};
}

// At time t, all of them of the state in which all spares are in repair: the time spent there until
// then, the integral over u <= v of the probability to be there at u and at v, the probability to
// be there, and that times the number of nodes lost so far.
struct spare_moments {
    double time, pair, now, lost;
};

static struct spare_moments transformed(const struct spares *spares, struct point s)
{
    struct transforms at = transforms_at(spares, s);
    return (struct spare_moments){over(at.from_none, s).re,
                                  over(times(at.from_none, at.from_all), s).re, at.from_none.re,
                                  at.lost.re};
}

static struct spare_moments added(struct spare_moments sum, double factor,
                                  struct spare_moments term)
{
    return (struct spare_moments){sum.time + factor * term.time, sum.pair + factor * term.pair,
                                  sum.now + factor * term.now, sum.lost + factor * term.lost};
}

// Abate and Whitt (1995), "Numerical inversion of Laplace transforms of probability distributions",
// ORSA Journal on Computing 7, algorithm EULER: a Fourier series of which the last partial sums are
// averaged by binomial weights. A of 18.4 leaves an error of e^-A, 1e-8, of the largest value.
static struct spare_moments invert(const struct spares *spares, double t)
{
    enum { TERMS = 60, AVERAGED = 12 };
    static const double A = 18.4, PI = 3.14159265358979323846;
    static const double WEIGHTS[AVERAGED + 1] = {1,   12,  66,  220, 495, 792, 924,
                                                 792, 495, 220, 66,  12,  1};
    const struct spare_moments none = {0, 0, 0, 0};
    const struct point first = {A / (2 * t), 0};
    double scale = real_exp(A / 2) / t;
    struct spare_moments sum = added(none, scale / 2, transformed(spares, first)), mean = none;
    for (int k = 1; k <= TERMS + AVERAGED; k++) {
        struct point s = {first.re, k * PI / t};
        sum = added(sum, k % 2 ? -scale : scale, transformed(spares, s));
        if (k >= TERMS) mean = added(mean, WEIGHTS[k - TERMS] / 4096, sum);
    }
    return mean;
}

// A wait is exponential: its mean square is twice the square of its mean. Of two waits at u < v the
// product of the means counts twice.
struct spares_wait spares_wait(const struct spares *spares, double busy_s, double cost_s)
{
    assert(busy_s >= 0 && cost_s >= 0 && spares->loss_per_s >= 0);
    if (spares->repair_s <= 0 || spares->loss_per_s <= 0 || busy_s <= 0)
        return (struct spares_wait){0, 0};
    if (!isfinite(busy_s)) return (struct spares_wait){INFINITY, INFINITY};
    struct spare_moments moments = invert(spares, busy_s);
    double loss = spares->loss_per_s, each_s = spares->repair_s / (spares->count + 1);
    double wait_count = loss * fmin(fmax(moments.time, 0), busy_s);
    double variance = 2 * wait_count + 2 * loss * loss * moments.pair - wait_count * wait_count;
    // Nodes lost beyond the mean by a job that is short of nodes.
    double excess = fmax(moments.lost - loss * busy_s * moments.now, 0);
    return (struct spares_wait){each_s * (wait_count + loss * cost_s * excess),
                                each_s * each_s * fmax(variance, 0)};
}
