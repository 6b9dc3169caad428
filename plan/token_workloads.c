#include "core/mersenne.h"
#include "plan/token_routing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// The workloads of the public benchmark of token imbalance (NVIDIA/Megatron-LM pull request 7488,
// benchmarks/moe/token_imbalance): what each is, written anew from its description, and the order
// in which PyTorch's CPU generator draws permutations, so that rows are equal to the last one.

static const char *const NAMES[TOKEN_WORKLOAD_COUNT] = {
    "W0_balanced",      "W1_hot_expert_set",   "W2_hot_rank",         "W3_spread_hot_experts",
    "W4_source_ragged", "W5_zero_expert_rank", "W6_rotating_hotspot", "W7_burst",
};

const char *token_routing_workload_name(int workload)
{
    assert(workload >= 0 && workload < TOKEN_WORKLOAD_COUNT);
    return NAMES[workload];
}

enum { EXPERTS_MAX = 4096 };

struct pool {
    int experts[EXPERTS_MAX];
    int count;
};

static struct pool pool_of(int first, int step, int count, int expert_count)
{
    struct pool pool = {.count = count};
    for (int i = 0; i < count; i++)
        pool.experts[i] = (first + step * i) % expert_count;
    return pool;
}

// The first k of a permutation of the pool: from the front, each place is exchanged with one drawn
// from itself and those behind it; all places but the last draw.
static void add_token(struct mersenne *state, const struct pool *pool, int top_k, int64_t *counts)
{
    int order[EXPERTS_MAX] = {0};
    for (int i = 0; i < pool->count; i++)
        order[i] = i;
    for (int i = 0; i < pool->count - 1; i++) {
        int other = i + (int)(mersenne_bits(state) % (uint32_t)(pool->count - i));
        int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < top_k; i++)
        counts[pool->experts[order[i]]]++;
}

// Experts that are hot at this step.
static struct pool hot_of(int workload, int expert_count, int top_k, int64_t step)
{
    int quarter = expert_count / 4 > top_k ? expert_count / 4 : top_k;
    int half = expert_count / 2 > top_k ? expert_count / 2 : top_k;
    switch (workload) {
    case 3:
        // Every other one; where these are fewer than are wanted, each once.
        if (half > (expert_count + 1) / 2) half = (expert_count + 1) / 2;
        if (half < top_k) break;
        return pool_of(0, 2, half, expert_count);
    case 5:
        return pool_of(expert_count / 2, 1, expert_count - expert_count / 2, expert_count);
    case 6:
        return pool_of((int)(step / 3 * quarter % expert_count), 1, quarter, expert_count);
    case 1:
    case 2:
    case 7:
        return pool_of(0, 1, quarter, expert_count);
    default:
        break;
    }
    return pool_of(0, 1, expert_count, expert_count);
}

static bool is_hot(int workload, int64_t token, int64_t step)
{
    if (workload == 5) return true;
    if (workload == 7) return step % 4 == 3 && token % 2 == 0;
    return workload != 4 && token % 4 != 0;
}

void token_routing_workload_rows(int workload, int expert_count, int top_k, int64_t tokens,
                                 int64_t step, int64_t seed, int64_t *counts)
{
    char words[96];
    struct mersenne state;
    memset(counts, 0, (size_t)expert_count * sizeof *counts);
    if (workload == 0) {
        for (int64_t i = 0; i < tokens * top_k; i++)
            counts[i % expert_count]++;
        return;
    }
    snprintf(words, sizeof words, "%s|%lld|%lld", NAMES[workload], (long long)seed,
             (long long)step);
    mersenne_start(&state, sha256_head(words));
    const struct pool all = pool_of(0, 1, expert_count, expert_count);
    const struct pool hot = hot_of(workload, expert_count, top_k, step);
    assert(top_k <= hot.count && top_k <= all.count && "a token goes to an expert once");
    for (int64_t token = 0; token < tokens; token++)
        add_token(&state, is_hot(workload, token, step) ? &hot : &all, top_k, counts);
}
