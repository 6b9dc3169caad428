#pragma once
#include "memory/order/order_part.h"

// Segments solved again by GLPK (certify.h).

struct order_certificate {
    int certified_count;  // parts that GLPK proved to be as low as the search says
    int disputed_count;   // parts where it proved otherwise: a bug in one of them
};

// Parts of up to `operators_max` operators whose search was not given up.
struct order_certificate order_certify(struct arena *scratch, const struct order_division *division,
                                       const struct order_parts *parts,
                                       const struct order_options *options);
