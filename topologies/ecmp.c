#include "topologies/ecmp.h"
#include "core/real.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FLOWS_A_LINK = 64, FLOWS_EXACT = 24, COUNT_MAX = 4 * FLOWS_A_LINK };
static const double PI = 3.14159265358979323846;

// Where a link has more than so many flows this rarely, of all links together, no two do.
static const double RARE_RATIO = 0.3;

// A link's flows, independent of the others': Poisson, and no more than `most`.
struct counts {
    double ratio[COUNT_MAX];  // P(this many)
    int most;
    double below;        // P(at most `most`)
    double above_ratio;  // P(more) of one link as it is: binomial
};

static double factorial(int n)
{
    assert(n >= 0 && n <= FLOWS_EXACT);
    double product = 1;
    for (int i = 2; i <= n; i++)
        product *= i;
    return product;
}

static void multiply(double *product, const double *factor, int flows)
{
    double sum[FLOWS_EXACT + 1] = {0};
    for (int i = 0; i <= flows; i++) {
        for (int k = 0; k <= flows - i; k++)
            sum[i + k] += product[i] * factor[k];
    }
    memcpy(product, sum, sizeof sum);
}

// P(so many flows in all), multiplied out; of all counts together where `most` bounds none.
static double sum_exact(const struct counts *counts, int flows, double links)
{
    assert(flows <= FLOWS_EXACT && links >= 1);
    double all[FLOWS_EXACT + 1] = {1}, power[FLOWS_EXACT + 1] = {0};
    for (int i = 0; i <= flows && i <= counts->most; i++)
        power[i] = counts->ratio[i];
    for (int left = (int)links; left > 0; left /= 2) {
        if (left % 2 == 1) multiply(all, power, flows);
        multiply(power, power, flows);
    }
    return all[flows];
}

// The same by the normal distribution and its first correction.
static double sum_near(const struct counts *counts, double flows, double links)
{
    double mean = 0, variance = 0, third = 0;
    for (int i = 0; i <= counts->most; i++)
        mean += i * counts->ratio[i] / counts->below;
    for (int i = 0; i <= counts->most; i++) {
        double off = i - mean, ratio = counts->ratio[i] / counts->below;
        variance += off * off * ratio;
        third += off * off * off * ratio;
    }
    if (variance <= 0) return 0;
    double deviation = sqrt(links * variance), z = (flows - links * mean) / deviation;
    double skewness = third / (variance * sqrt(variance) * sqrt(links));
    double density = real_exp(-z * z / 2) / (deviation * sqrt(2 * PI));
    double corrected = density * (1 + skewness / 6 * z * (z * z - 3));
    return fmax(corrected, 0) * real_power(counts->below, links);
}

// P(no link of one switch has more than counts->most flows).
static double none_above(const struct counts *counts, double flows, double links)
{
    if (flows <= FLOWS_EXACT) {
        int count = (int)flows;
        double unbound =
            real_exp(-flows) * real_power_int(flows, count) / factorial(count);  // of any counts
        return fmin(sum_exact(counts, count, links) / unbound, 1);
    }
    if (counts->above_ratio * links < RARE_RATIO) return real_power(1 - counts->above_ratio, links);
    double unbound = 1 / sqrt(2 * PI * flows);  // of any counts, as near
    return fmin(sum_near(counts, flows, links) / unbound, 1);
}

static double busiest_of(double flows, double links, double switches)
{
    assert(links > 1 && "one link has all the flows");
    struct counts counts = {.most = -1};
    double mean = flows / links, expected = 0, ratio = real_exp(-mean);
    double exactly = real_power(1 - 1 / links, flows);  // this many on one link
    counts.above_ratio = 1;
    for (int n = 0; n < COUNT_MAX && n < flows; n++) {
        counts.ratio[n] = ratio;
        counts.below += ratio;
        counts.most = n;
        ratio *= mean / (n + 1);
        counts.above_ratio = fmax(counts.above_ratio - exactly, 0);
        exactly *= (flows - n) / (n + 1) / (links - 1);
        double none = n < mean ? n * links >= flows : 1;
        if (none > 0) none = none_above(&counts, flows, links);
        // E = sum of P(highest > n), and the highest of all is at most n where each is.
        double some = 1 - (none > 0 ? real_power(none, switches) : 0);
        expected += some;
        if (some < 1e-9) break;
    }
    return expected;
}

double ecmp_busiest(double flows, double links, double switches)
{
    assert(flows >= 1 && links >= 1 && switches >= 1);
    if (links == 1) return flows;
    double counted = fmin(flows, FLOWS_A_LINK * links);
    double busiest = busiest_of(counted, links, switches);
    double mean = counted / links, whole = flows / links;
    return whole + (busiest - mean) * sqrt(whole / mean);
}
