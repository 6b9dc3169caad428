#pragma once
#include "cost_models/tables/price.h"

// The dense part of a rank's step.
struct towers_cost {
    double forward_s[DENSE_PART_COUNT], backward_s[DENSE_PART_COUNT];
    double forward_flop[DENSE_PART_COUNT], backward_flop[DENSE_PART_COUNT];
    double update_s;
};
struct towers_cost towers_price(const struct table_request *request);
// Bytes read and written at the rate of walks over the device's memory.
double table_stream_s(const struct table_request *request, double bytes);
