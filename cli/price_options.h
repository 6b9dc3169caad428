#pragma once
#include "cli/options.h"
#include "topologies/cluster.h"

// What the command line says of prices, the same on every command that prices. A price that is
// given takes the place of what the cluster files say, which a note on stderr says; a file's price
// in a currency of which a rate is given is kept, and converted.

struct price_arguments {
    double per_gpu_hour;   // 0: not given
    const char *currency;  // of that price and of what is converted; NULL: USD
    struct text_list rates;
};

enum { PRICE_OPTION_COUNT = 4 };

// The rows of the table, without the end row. Returns how many were written.
int price_options(struct price_arguments *arguments, struct option options[PRICE_OPTION_COUNT]);

// Clusters whose price changes are replaced by copies. ERR_USAGE where an option is wrong or
// changes nothing.
MUST_CHECK bool price_apply(struct arena *arena, const struct price_arguments *arguments,
                            const struct cluster **clusters, int count, struct err *err);

// What one unit of `currency` is in that of the answer; 0: no rate of it is given. ERR_USAGE where
// a rate is wrong, and 0.
double price_rate(struct arena *arena, const struct price_arguments *arguments,
                  const char *currency, struct err *err);
