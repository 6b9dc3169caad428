#pragma once
#include "core/json_write.h"

// The network between nodes: how fast it is, and how its switches are joined (topologies/tiers.h).

enum { NETWORK_TIERS_MAX = 4 };

// Switches that join so many neighbouring nodes, a block. What leaves it takes the links upward.
struct network_tier {
    int nodes;
    double oversubscription_ratio;  // bandwidth into the block's switches from below over upward
    bool dragonfly;  // each block has links of its own to every other one, no switch above
    int uplinks;     // over which flows are hashed (ECMP); 0: spread evenly, packet by packet
};

struct network {
    const char *kind;  // "infiniband", "roce", "efa", "ethernet", "none", ...
    double latency_s;
    double oversubscription_ratio;  // 1 = full bisection; of all messages between nodes
    // The first tier's switches join one NIC of each node of the block.
    bool rail_optimized;
    bool in_network_reduction;
    struct network_tier tiers[NETWORK_TIERS_MAX];  // from below; none: one switch joins all nodes
    int tier_count;
    int flows_per_nic;    // of a connection, where a tier hashes them; 0: none does
    double loss_ratio;    // packets lost over packets sent
    double loss_stall_s;  // that one costs until its message goes on
};

// What a loss ratio counts: the payload of a packet of RoCE and InfiniBand at their largest MTU.
enum { NETWORK_PACKET_BYTES = 4096 };

const struct json_shape *network_shape(void);  // for json_check
// The object "network"; an absent one leaves `network` as it is.
void network_read(const struct json *object, struct network *network, struct err *err);
void network_write(struct json_writer *writer, const struct network *network);
