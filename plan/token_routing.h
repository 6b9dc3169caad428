#pragma once
#include "core/arena.h"
#include "core/err.h"

#include <stdint.h>

// Where tokens go in a layer with experts, as data: rows (a token at an expert) by expert. Ranks of
// an expert group hold consecutive experts, as many each.

enum token_routing_kind { TOKEN_ROUTING_SHARES, TOKEN_ROUTING_WORKLOAD };

struct token_routing {
    enum token_routing_kind kind;
    int expert_count, top_k;
    const char *name;  // as it was asked for
    double *share;     // of TOKEN_ROUTING_SHARES: of the rows, by expert, in sum 1
    bool is_shuffled;  // every layer has its own hot experts
    int workload;      // of TOKEN_ROUTING_WORKLOAD: 0 to 7
};

// "zipf:S" (the k-th expert of a layer in a drawn order has k^-S), "W0".."W7" (the workloads of
// Megatron-LM pull request 7488, by their first two letters or whole names), or a file of one
// number an expert, separated by blanks or commas. ERR_USAGE or ERR_INPUT.
MUST_CHECK bool token_routing_read(struct arena *arena, const char *text, int expert_count,
                                   int top_k, struct token_routing *routing, struct err *err);

enum { TOKEN_WORKLOAD_COUNT = 8 };
const char *token_routing_workload_name(int workload);

// Rows by expert that one rank's `tokens` make in a workload: derived from (workload, seed, step)
// alone, to the row what the pull request's own generator gives. `counts` has an entry an expert.
void token_routing_workload_rows(int workload, int expert_count, int top_k, int64_t tokens,
                                 int64_t step, int64_t seed, int64_t *counts);

// Rows by expert of one layer, of so many tokens: drawn from the shares (each expert's rows normal
// about their mean, binomial in variance), or those of the workload at this step.
void token_routing_draw(struct arena *scratch, const struct token_routing *routing, double tokens,
                        int64_t step, uint64_t *state, double *rows);

// Rows of the busiest of `ranks` over the mean.
double token_routing_imbalance(const double *rows, int expert_count, int ranks);
// The same once experts are placed anew, the heaviest first on the least loaded rank that has
// room, and `replicas` of the heaviest on every rank share their rows evenly.
double token_routing_replaced(struct arena *scratch, const double *rows, int expert_count,
                              int ranks, int replicas);
// Share of the rows that find no room where each expert has `factor` times the mean.
double token_routing_dropped(const double *rows, int expert_count, double factor);
