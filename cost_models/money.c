#include "cost_models/money.h"

#include <assert.h>
#include <math.h>

static const double SECONDS_PER_HOUR = 3600;
static const double BILLION = 1e9;

static double step_count(const struct money_request *request)
{
    return ceil(request->tokens / request->step_tokens);
}

// Of a step that takes `ratio` times as long.
static struct goodput goodput_at(const struct money_request *request, double ratio,
                                 bool with_quantiles)
{
    if (request->checkpoint_bytes <= 0) return (struct goodput){0};
    struct cluster used = *request->cluster;  // a GPU that stands still stops nothing
    assert(request->idle_gpus >= 0 && request->idle_gpus < used.rank_count);
    used.rank_count -= request->idle_gpus;
    const struct goodput_request asked = {
        .cluster = &used,
        .step_s = request->step_s * ratio,
        .checkpoint_bytes = request->checkpoint_bytes,
        .steps = step_count(request),
        .communicators = request->communicators,
    };
    return with_quantiles ? goodput_of(&asked) : goodput_mean_of(&asked);
}

static double paid_gpus(const struct cluster *cluster)
{
    assert(cluster->node_group_count > 0);
    // Spares are taken to be nodes of the last group.
    const struct node_group *last = &cluster->nodes[cluster->node_group_count - 1];
    return cluster_rented_count(cluster) + (double)cluster->failures.spare_nodes * last->gpus;
}

static struct money priced(const struct money_request *request, double ratio,
                           const struct goodput *goodput)
{
    const struct price *price = &request->cluster->price;
    struct money money = {.gpu_count = paid_gpus(request->cluster)};
    double step_s = request->step_s * ratio;
    if (price->per_gpu_hour > 0) money.currency = price->currency;
    if (request->tokens > 0) {
        money.uninterrupted_s = step_count(request) * step_s;
        money.train_s = goodput->is_known ? goodput->expected_s : money.uninterrupted_s;
        money.billion_s = money.train_s / request->tokens * BILLION;
    } else {
        double goodput_ratio = goodput->is_known ? goodput->goodput_ratio : 1;
        bool ends = goodput_ratio >= GOODPUT_LEAST_RATIO;
        money.billion_s = ends ? step_s / request->step_tokens / goodput_ratio * BILLION : INFINITY;
    }
    double gpu_h_per_s = money.gpu_count / SECONDS_PER_HOUR;
    money.gpu_hours = money.train_s * gpu_h_per_s;
    money.billion_gpu_hours = money.billion_s * gpu_h_per_s;
    if (!money.currency) return money;
    money.total = money.gpu_hours * price->per_gpu_hour;
    money.per_billion_tokens = money.billion_gpu_hours * price->per_gpu_hour;
    return money;
}

struct money_band money_of(const struct money_request *request)
{
    assert(request->step_s > 0 && request->step_tokens > 0 && request->tokens >= 0);
    struct money_band all = {.goodput = goodput_at(request, 1, true)};
    const struct band *band = request->band;
    all.money = priced(request, 1, &all.goodput);
    if (!band) return all;
    struct goodput low = goodput_at(request, band->low_ratio, false);
    struct goodput high = goodput_at(request, band->high_ratio, false);
    all.low = priced(request, band->low_ratio, &low);
    all.high = priced(request, band->high_ratio, &high);
    return all;
}

struct money money_mean_of(const struct money_request *request)
{
    assert(request->step_s > 0 && request->step_tokens > 0 && request->tokens >= 0);
    struct goodput goodput = goodput_at(request, 1, false);
    return priced(request, 1, &goodput);
}

static bool is_within(const struct money_request *request, double steps, double time_s,
                      double total)
{
    struct money_request asked = *request;
    asked.tokens = steps * request->step_tokens;
    struct money money = money_mean_of(&asked);
    return money.train_s <= time_s && money.total <= total;
}

// Time and price grow with the steps.
double money_most_tokens(const struct money_request *request, double time_s, double total)
{
    static const double STEPS_MOST = 0x1p53;
    assert(isfinite(time_s) || isfinite(total));
    if (!is_within(request, 1, time_s, total)) return 0;
    double low = 1, high = 2;
    // Doubled first: the limit is unknown, and every question costs a whole run.
    while (high < STEPS_MOST && is_within(request, high, time_s, total)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        // `low` is within, `high` is not: whole steps end with both side by side.
        double middle = floor(low + (high - low) / 2);
        if (is_within(request, middle, time_s, total)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low * request->step_tokens;
}
