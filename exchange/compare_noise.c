#include "exchange/compare_noise.h"

#include "core/random.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static double *sorted(struct arena *arena, struct samples samples)
{
    double *values = ARENA_COPY(arena, double, samples.values, samples.count);
    sort_f64s(values, (size_t)samples.count);
    return values;
}

static double quantile(const double *values, int count, double share)
{
    assert(count > 0 && share >= 0 && share <= 1);
    double at = share * (count - 1);
    int below = (int)at, above = below + 1 < count ? below + 1 : below;
    return values[below] + (at - below) * (values[above] - values[below]);
}

double samples_median(struct arena *arena, struct samples samples)
{
    assert(samples.count > 0);
    return quantile(sorted(arena, samples), samples.count, 0.5);
}

double samples_spread(struct arena *arena, struct samples samples)
{
    assert(samples.count > 0);
    const double *values = sorted(arena, samples);
    return quantile(values, samples.count, 0.75) - quantile(values, samples.count, 0.25);
}

// How many of the sorted values are below this one, or not above it.
static int count_below(const double *values, int count, double value, bool or_equal)
{
    int low = 0;
    while (low < count) {
        int middle = low + (count - low) / 2;
        bool is_below = values[middle] < value || (or_equal && values[middle] == value);
        if (is_below)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

// The pooled samples by their ranks, twice the mean rank of those that are equal: whole numbers, so
// that sums of them are compared exactly.
struct pool {
    int64_t *ranks;  // those of the base first
    int base_count, count;
    int64_t observed;  // sum of the ranks of the new state
};

static struct pool pool_make(struct arena *arena, struct samples base, struct samples now)
{
    struct pool pool = {.base_count = base.count, .count = base.count + now.count};
    double *values = ARENA_NEW(arena, double, pool.count);
    memcpy(values, base.values, (size_t)base.count * sizeof *values);
    memcpy(values + base.count, now.values, (size_t)now.count * sizeof *values);
    const double *order = sorted(arena, (struct samples){values, pool.count});
    pool.ranks = ARENA_NEW(arena, int64_t, pool.count);
    for (int i = 0; i < pool.count; i++) {
        pool.ranks[i] = count_below(order, pool.count, values[i], false) +
                        count_below(order, pool.count, values[i], true);
        if (i >= pool.base_count) pool.observed += pool.ranks[i];
    }
    return pool;
}

// Of very many samples as many as tell enough, evenly over all.
static struct samples thinned(struct arena *arena, struct samples samples)
{
    if (samples.count <= NOISE_SAMPLES) return samples;
    // Equal steps through the samples keep a drift over the run in what is compared.
    double *values = ARENA_NEW(arena, double, NOISE_SAMPLES);
    for (int i = 0; i < NOISE_SAMPLES; i++)
        values[i] = samples.values[(int64_t)i * samples.count / NOISE_SAMPLES];
    return (struct samples){values, NOISE_SAMPLES};
}

// Binomial coefficients past 1e300 are as good as endless: then exchanges are drawn.
static double exchange_count(int count, int chosen)
{
    assert(chosen >= 0 && chosen <= count);
    double ways = 1;
    for (int i = 1; i <= chosen; i++)
        ways = ways * (count - chosen + i) / i;
    return fmin(round(ways), 1e300);
}

struct tally {
    double above, below, all;
};

static void count_one(const struct pool *pool, int64_t sum, struct tally *tally)
{
    tally->above += sum >= pool->observed;
    tally->below += sum <= pool->observed;
    tally->all++;
}

// Every way to call so many of the pool new: indices that rise, the last one moved first.
static struct tally count_all(struct arena *arena, const struct pool *pool)
{
    struct tally tally = {0};
    int chosen = pool->count - pool->base_count;
    int *at = ARENA_NEW(arena, int, chosen);
    for (int i = 0; i < chosen; i++)
        at[i] = i;
    for (;;) {
        int64_t sum = 0;
        for (int i = 0; i < chosen; i++)
            sum += pool->ranks[at[i]];
        count_one(pool, sum, &tally);
        int moved = chosen - 1;
        while (moved >= 0 && at[moved] == pool->count - chosen + moved)
            moved--;
        if (moved < 0) return tally;
        at[moved]++;
        for (int i = moved + 1; i < chosen; i++)
            at[i] = at[i - 1] + 1;
    }
}

// The order that was observed is one of those drawn.
static struct tally count_drawn(struct arena *arena, const struct pool *pool)
{
    struct tally tally = {1, 1, 1};
    uint64_t state = NOISE_SEED;
    int chosen = pool->count - pool->base_count;
    int64_t *ranks = ARENA_COPY(arena, int64_t, pool->ranks, pool->count);
    for (int draw = 0; draw < NOISE_DRAWS; draw++) {
        int64_t sum = 0;
        for (int i = 0; i < chosen; i++) {
            int with = i + (int)(random_uniform(&state) * (pool->count - i));
            int64_t rank = ranks[with];
            ranks[with] = ranks[i];
            ranks[i] = rank;
            sum += rank;
        }
        count_one(pool, sum, &tally);
    }
    return tally;
}

// The ranks of the differences by size, with the sign of each; those that are 0 are left out.
static int64_t *signed_ranks(struct arena *arena, struct samples base, struct samples now,
                             int *count)
{
    assert(base.count == now.count && "pairs are of as many samples");
    double *sizes = ARENA_NEW(arena, double, base.count),
           *values = ARENA_NEW(arena, double, base.count);
    *count = 0;
    for (int i = 0; i < base.count; i++) {
        double difference = now.values[i] - base.values[i];
        if (difference == 0) continue;
        values[*count] = difference;
        sizes[(*count)++] = fabs(difference);
    }
    const double *order = sorted(arena, (struct samples){sizes, *count});
    int64_t *ranks = ARENA_NEW(arena, int64_t, *count);
    for (int i = 0; i < *count; i++) {
        int64_t rank = count_below(order, *count, sizes[i], false) +
                       count_below(order, *count, sizes[i], true) + 1;
        ranks[i] = values[i] > 0 ? rank : -rank;
    }
    return ranks;
}

static void test_pairs(struct arena *arena, struct samples base, struct samples now,
                       struct noise *noise)
{
    enum { ALL_SIGNS = 14 };
    int count;
    const int64_t *ranks = signed_ranks(arena, base, now, &count);
    if (count == 0 || ldexp(1, -count) > NOISE_LEVEL) return;
    int64_t observed = 0;
    for (int i = 0; i < count; i++)
        observed += ranks[i];
    bool is_drawn = count > ALL_SIGNS;
    int64_t ways = is_drawn ? NOISE_DRAWS : (int64_t)1 << count;
    uint64_t state = NOISE_SEED;
    struct tally tally = {is_drawn, is_drawn, is_drawn};
    for (int64_t way = 0; way < ways; way++) {
        int64_t sum = 0;
        uint64_t bits = (uint64_t)way;
        for (int i = 0; i < count; i++) {
            if (is_drawn && i % 64 == 0) bits = random_bits(&state);
            sum += bits >> i % 64 & 1 ? ranks[i] : -ranks[i];
        }
        tally.above += sum >= observed;
        tally.below += sum <= observed;
        tally.all++;
    }
    noise->pairs_slower = tally.above / tally.all;
    noise->pairs_faster = tally.below / tally.all;
}

struct noise noise_test(struct arena *arena, struct samples base, struct samples now, bool in_pairs)
{
    assert(base.count > 0 && now.count > 0);
    base = thinned(arena, base);
    now = thinned(arena, now);
    const struct pool pool = pool_make(arena, base, now);
    double ways = exchange_count(pool.count, now.count);
    struct tally tally = ways <= NOISE_DRAWS ? count_all(arena, &pool) : count_drawn(arena, &pool);
    struct noise noise = {
        .slower = tally.above / tally.all,
        .faster = tally.below / tally.all,
        .level = fmax(NOISE_LEVEL, 1 / ways),
        .pairs_slower = 1,
        .pairs_faster = 1,
    };
    if (in_pairs && base.count == now.count) test_pairs(arena, base, now, &noise);
    return noise;
}

// A share of the exchanges is a quotient of counts, and so is the level.
static bool is_below(double share, double level)
{
    assert(share >= 0 && level > 0);
    return share <= level * (1 + 1e-9);
}

bool noise_is_slower(const struct noise *noise)
{
    return is_below(noise->slower, noise->level) || is_below(noise->pairs_slower, NOISE_LEVEL);
}

bool noise_is_faster(const struct noise *noise)
{
    return is_below(noise->faster, noise->level) || is_below(noise->pairs_faster, NOISE_LEVEL);
}
