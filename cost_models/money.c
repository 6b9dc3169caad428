#include "cost_models/money.h"

#include <assert.h>

static const double SECONDS_PER_HOUR = 3600;

struct money money_of(const struct cluster *cluster, double tokens_per_s, double tokens)
{
    assert(tokens_per_s > 0 && tokens >= 0);
    struct money money = {.currency = cluster->price.currency};
    double gpu_hours_per_token = cluster->rank_count / tokens_per_s / SECONDS_PER_HOUR;
    money.train_s = tokens / tokens_per_s;
    money.gpu_hours = gpu_hours_per_token * tokens;
    money.total = money.gpu_hours * cluster->price.per_gpu_hour;
    money.per_billion_tokens = gpu_hours_per_token * 1e9 * cluster->price.per_gpu_hour;
    return money;
}
