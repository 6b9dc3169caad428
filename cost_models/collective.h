#pragma once
#include "plan/layout/layout.h"
#include "topologies/route.h"

// Seconds of a collective on a group of ranks: algorithms ring, tree, hierarchical and in-network
// (NVLS, SHARP), each with its latency steps and bandwidth, the fastest is taken, as NCCL does per
// message size. Constants per kind of link are rows of cost_models/fabrics.json with their source.
//
// Bandwidths are NCCL's bus bandwidths: an all-reduce of S bytes over n ranks takes
// 2 (n-1)/n S / bus, an all-gather or reduce-scatter (n-1)/n S / bus. Over several nodes a ring
// passes the network once a node on every rail, so that k ranks of the group in a node bring
// k times their share of the NICs: bus = min(intra bus, k * share * efficiency).
// An all-to-all's part inside the node and its part between nodes, over each rank's own share of
// the NICs, proceed at once: the slower decides, and each further peer adds latency.

// How a library moves a message: trades latency against bandwidth (NCCL's LL, LL128, Simple).
enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_COUNT };

struct fabric_protocol {
    double base_latency_s;       // of any collective: software's, whatever the link
    double ring_step_latency_s;  // one hop, on a link of the row's latency_s
    double tree_step_latency_s;
    double bandwidth_ratio;  // of the fabric's; 0 = the protocol does not run here
};

struct group_efficiency {  // of a group of so many ranks in one node
    int rank_count;
    double ratio;
};

struct fabric {  // one kind of link, from one speed on
    const char *kind;
    double link_bytes_per_s_least;   // of the rows of a kind the fastest that the link reaches
    double latency_s;                // of the link that the latencies of steps and of reduction
                                     // were measured on; on another they scale with its latency
    double efficiency_ratio;         // bus bandwidth over link bandwidth, large messages, ring
    double tree_bandwidth_ratio;     // of a tree over that of a ring
    double reduce_efficiency_ratio;  // of in-network reduction (NVLS, SHARP); 0 = has none
    double reduce_latency_s;         // of in-network reduction
    int in_network_ranks_least;      // ranks from which in-network reduction is used
    double all_to_all_efficiency_ratio;
    double send_efficiency_ratio;
    struct fabric_protocol protocols[PROTOCOL_COUNT];
    struct group_efficiency *group_efficiency;  // ascending; overrides efficiency_ratio, linear
    int group_efficiency_count;                 // between its points, level beyond them
    struct provenance *provenance;
    int provenance_count;
};

struct fabrics {
    struct fabric *rows;
    int count;
};
MUST_CHECK const struct fabrics *fabrics_load(struct arena *arena, struct err *err);
MUST_CHECK const struct fabrics *fabrics_read(struct arena *arena, const struct json *object,
                                              struct err *err);
// Its kind, and for rows of a kind that do not begin at 0 the speed: "nvswitch from 400 GB/s".
const char *fabric_name(struct arena *arena, const struct fabric *fabric);
// The members of a row and of its protocols, as the reader takes them, and the key of a protocol.
const struct json_field *fabric_fields(void);
const struct json_field *fabric_protocol_fields(void);
const char *protocol_name(enum protocol protocol);
#define FABRIC_GROUP_RATIO_LOW 1e-3
// A copy whose numbers may be changed without changing the original's.
struct fabrics *fabrics_copy(struct arena *arena, const struct fabrics *fabrics);
// The row for a link of this kind and speed; NULL if the kind is unknown.
const struct fabric *fabrics_find(const struct fabrics *fabrics, const char *kind,
                                  double link_bytes_per_s);
// Whether every link of the cluster has a row; else ERR_INPUT names the kinds there are. Prices
// assert it.
MUST_CHECK bool fabrics_cover(const struct fabrics *fabrics, const struct cluster *cluster,
                              struct err *err);

// The lines of cost_models/algorithms.inc.
enum algorithm {
#define ALGORITHM(id, ...) ALGORITHM_##id,
#include "cost_models/algorithms.inc"
    ALGORITHM_COUNT
};
const char *algorithm_name(enum algorithm algorithm);

struct collective_cost {
    double s;
    enum algorithm algorithm;
    enum protocol protocol;
    double latency_s, bandwidth_s;  // the two parts of `s`
};

// `bytes` as in struct instr. A group of one rank costs nothing. `network_scale` of the stack: on
// the efficiency of the network between nodes.
struct collective_cost collective_price(const struct fabrics *fabrics,
                                        const struct group_shape *group, enum collective collective,
                                        double bytes, double network_scale);

// One rank's `bytes` to all others. NCCL passes them round a ring and has no other algorithm for it
// (src/graph/tuning.cc): all of them over every link.
struct collective_cost broadcast_price(const struct fabrics *fabrics,
                                       const struct group_shape *group, double bytes,
                                       double network_scale);

// Where the rows of a token go: to `rows` experts, which lie in `open_groups` of `group_count`
// groups of neighbouring experts; no groups (0 or all of them open): anywhere.
struct routing {
    int rows;
    int group_count, open_groups;
};

// An all-to-all of the rows of experts by a library that sends a token once to each node and there
// once to each rank, however many of its experts sit on it (DeepEP, Zhao et al. 2025;
// Megatron-Core's flex dispatcher). With k rows spread evenly over n ranks of N nodes it reaches
// n (1 - (1 - 1/n)^k) ranks and N (1 - (1 - 1/N)^k) nodes; fewer where a token opens only some
// groups (DeepSeek-V3, arXiv 2412.19437, 2.1.2). `bytes` are those of all rows.
struct collective_cost dispatch_price(const struct fabrics *fabrics,
                                      const struct group_shape *group,
                                      const struct routing *routing, double bytes,
                                      double network_scale);
