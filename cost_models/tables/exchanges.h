#pragma once
#include "cost_models/tables/price.h"

// What ranks exchange in a step, and what comes from their hosts.
//
// Flat: one all-to-all over all ranks. Hierarchical, over R ranks of each of N nodes: the sums of a
// rank go to the R ranks of its own node, to each those for the ranks of its place in all nodes; it
// adds up those of one table's columns and sends what is left to N - 1 nodes. So a table whose rows
// lie on all ranks of a node crosses the network as one that lies on one rank. Gradients go the
// same way back.

struct exchanged {           // numbers, of the rank that sends or receives most
    double flat;             // over all ranks
    double inside, between;  // hierarchical: in the node, over the network
};
bool exchange_is_hierarchical(const struct table_request *request);

// Fills bytes and seconds of all tasks that talk.
void exchanges_price(const struct table_request *request, struct table_span *spans);
// The same without latencies, of what is sent in the node and over the network alone.
double inside_rate_s(const struct table_request *request, double bytes);
double between_rate_s(const struct table_request *request, double bytes);
double flat_rate_s(const struct table_request *request, double bytes);
double reduce_rate_s(const struct table_request *request, double bytes);

// Seconds until the rows that a host's ranks miss are on their devices: each device's PCIe, the
// host's memory for all of them, its drives for all of them, whichever takes longest.
double host_fetch_s(const struct table_request *request, const struct host *host,
                    double fetch_bytes, double host_fetch_bytes, double host_nvme_bytes);
