#include "core/zipf.h"
#include "core/real.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

static double power(double rank, double exponent)
{
    return exponent > 0 ? real_power(rank, exponent) : 1;
}

// Of ranks from ZIPF_HEAD + 1 to `rank`.
static double tail_sum(double exponent, double rank)
{
    double from = ZIPF_HEAD, flat = 1 - exponent;
    double area = fabs(flat) < 1e-12 ? real_log(rank / from)
                                     : (real_power(rank, flat) - real_power(from, flat)) / flat;
    double ends = (1 / power(rank, exponent) - 1 / power(from, exponent)) / 2;
    double slopes = exponent * (1 / power(from, exponent + 1) - 1 / power(rank, exponent + 1)) / 12;
    return area + ends + slopes;
}

static double harmonic(const struct zipf *zipf, double rank)
{
    if (rank > ZIPF_HEAD) return zipf->head[ZIPF_HEAD] + tail_sum(zipf->exponent, rank);
    int whole = (int)rank;
    double part = rank - whole;
    return part > 0 ? zipf->head[whole] * (1 - part) + zipf->head[whole + 1] * part
                    : zipf->head[whole];
}

struct zipf zipf_make(int64_t count, double exponent)
{
    assert(count >= 1 && exponent >= 0);
    assert(count >= 1 && exponent >= 0);
    struct zipf zipf = {.count = count, .exponent = exponent};
    for (int k = 1; k <= ZIPF_HEAD; k++)
        zipf.head[k] = zipf.head[k - 1] + 1 / power(k, exponent);
    zipf.total = harmonic(&zipf, (double)count);
    return zipf;
}

double zipf_share(const struct zipf *zipf, double rank)
{
    if (rank <= 0) return 0;
    return rank >= (double)zipf->count ? 1 : harmonic(zipf, rank) / zipf->total;
}

// log(1 - p) without the loss of digits of 1 - p.
static double log_of_rest(double p)
{
    if (p >= 1) return -INFINITY;
    return p < 1e-4 ? -p * (1 + p * (1.0 / 2 + p * (1.0 / 3 + p / 4))) : real_log(1 - p);
}

static double missed_of_requests(double p, double requests)
{
    double exponent = requests * log_of_rest(p);
    return exponent > -700 ? -real_expm1(exponent) : 1;
}

static double seen_within(double p, double time)
{
    return p * time < 700 ? -real_expm1(-p * time) : 1;
}

static double weighed_seen(double p, double time)
{
    return p * seen_within(p, time);
}

// The sum of a function of p_k over all things.
static double sum_over(const struct zipf *zipf, double (*of)(double p, double x), double x)
{
    double sum = 0;
    for (int64_t first = 1; first <= zipf->count;) {
        int64_t width = first <= ZIPF_HEAD ? 1 : first / 100;
        if (width > zipf->count - first + 1) width = zipf->count - first + 1;
        // The mean p of the block is exact, so that sums of p are.
        double share =
            zipf_share(zipf, (double)(first + width - 1)) - zipf_share(zipf, (double)(first - 1));
        sum += (double)width * of(share / (double)width, x);
        first += width;
    }
    return sum;
}

double zipf_unique(const struct zipf *zipf, double requests)
{
    assert(requests >= 0);
    return requests > 0 ? sum_over(zipf, missed_of_requests, requests) : 0;
}

double zipf_lru_share(const struct zipf *zipf, double places)
{
    assert(places >= 0);
    if (places <= 0) return 0;
    if (places >= (double)zipf->count) return 1;
    double low = 0, high = places;
    while (sum_over(zipf, seen_within, high) < places)
        high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        bool is_low = sum_over(zipf, seen_within, middle) < places;
        low = is_low ? middle : low;
        high = is_low ? high : middle;
    }
    return sum_over(zipf, weighed_seen, (low + high) / 2);
}

int64_t zipf_rank(const struct zipf *zipf, double uniform)
{
    int64_t low = 1, high = zipf->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (zipf_share(zipf, (double)middle) > uniform) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
