#pragma once
#include "topologies/cluster.h"

// What a vendor's sheet does not say of a cluster, and what is taken instead:
//   latency_s, in_network_reduction of intra   the row of its kind in cost_models/fabrics.json
//   network.latency_s                          the same; the rest as of a plain full network
//   host                                       a GPU's share of the shipped cluster whose device
//                                              is the same, or nearest by peak; no NVMe
//   name, count, gpus_per_host                 of the file, one node, one host a node
// A note lists all of it; constants get a provenance of kind `assumed`.

// Fills what `object` leaves out. A file of its own (not an object inside another) must also name
// fabrics that there are. Nothing to do for a complete object inside another file.
void cluster_assume(struct arena *arena, const struct json *object, struct cluster *cluster,
                    struct err *err);

// A row of the table of fabrics as far as a cluster file hangs on it: data that this folder reads
// without the code that prices it.
struct fabric_kind {
    const char *kind;
    double link_bytes_per_s_least;  // the row is for links from this speed on
    double latency_s;
    double reduce_efficiency_ratio;  // 0: does not add up on the way
};
struct fabric_kinds {
    struct fabric_kind *rows;
    int count;
};
MUST_CHECK struct fabric_kinds *fabric_kinds_load(struct arena *arena, struct err *err);
// The row of this kind and speed; NULL for a kind that there is none of.
const struct fabric_kind *fabric_kinds_find(const struct fabric_kinds *kinds, const char *kind,
                                            double link_bytes_per_s);
// An error at the value that names an unknown kind, with the nearest and all there are.
void fabric_kinds_fail(struct arena *arena, const struct fabric_kinds *kinds, const struct json *at,
                       const char *kind, struct err *err);
