#include "cost_models/collective.h"
#include "core/real.h"

#include <assert.h>
#include <math.h>

// The group and its two kinds of link, as every algorithm sees them.
struct paths {
    double rank_count, node_count;
    double ranks_per_node;  // the least: a step waits for the node with fewest rails
    bool even;              // every node holds as many ranks
    const struct group_shape *group;
    const struct fabric *intra, *network;  // NULL where no message takes that kind of link
    double intra_latency_ratio, network_latency_ratio;  // of the link over the row's
    double intra_bytes_per_s, network_bytes_per_s;      // raw: of one rank's link, of its NIC share
    double link_bytes_per_s;  // of a torus, whose links intra_bytes_per_s is of; 0: none
    double network_scale;
};

static const struct collective_cost IMPOSSIBLE = {.s = INFINITY};

static struct paths paths_of(const struct fabrics *fabrics, const struct group_shape *group,
                             double network_scale)
{
    struct paths paths = {
        .rank_count = group->rank_count,
        .node_count = group->node_count,
        .ranks_per_node = group->ranks_per_node_least,
        .even = group->ranks_per_node == group->ranks_per_node_least,
        .group = group,
        .network_scale = network_scale,
    };
    if (group->ranks_per_node > 1) {
        paths.intra_bytes_per_s = group->intra->bandwidth_bytes_per_s;
        if (group->torus.links > 0) {
            paths.link_bytes_per_s = torus_link_bytes_per_s(group->intra);
            paths.intra_bytes_per_s = group->torus.links * paths.link_bytes_per_s;
        }
        paths.intra = fabrics_find(fabrics, group->intra->kind, paths.intra_bytes_per_s);
        assert(paths.intra && "fabrics_cover was asked");
        paths.intra_latency_ratio = group->intra->latency_s / paths.intra->latency_s;
    }
    if (group->node_count > 1) {
        paths.network_bytes_per_s = group->network_bytes_per_s_per_rank;
        paths.network = fabrics_find(fabrics, group->network->kind, paths.network_bytes_per_s);
        assert(paths.network && "fabrics_cover was asked");
        paths.network_latency_ratio = group->network->latency_s / paths.network->latency_s;
    }
    return paths;
}

// The share of its link that a ring in one node reaches; more ranks use more of the wires.
static double group_efficiency(const struct fabric *fabric, int rank_count)
{
    const struct group_efficiency *points = fabric->group_efficiency;
    int count = fabric->group_efficiency_count;
    if (count == 0) return fabric->efficiency_ratio;
    int next = 0;
    while (next < count && points[next].rank_count < rank_count)
        next++;
    if (next == 0) return points[0].ratio;
    if (next == count) return points[count - 1].ratio;
    const struct group_efficiency *low = &points[next - 1], *high = &points[next];
    double part = (double)(rank_count - low->rank_count) / (high->rank_count - low->rank_count);
    return low->ratio + part * (high->ratio - low->ratio);
}

// Infinite where no message passes, so that the slower of two links is their minimum.
static double intra_bus_bytes_per_s(const struct paths *paths, enum protocol protocol)
{
    if (!paths->intra) return INFINITY;
    double ratio = group_efficiency(paths->intra, paths->group->ranks_per_node);
    return paths->intra_bytes_per_s * ratio * paths->intra->protocols[protocol].bandwidth_ratio;
}

static double network_bus_bytes_per_s(const struct paths *paths, enum protocol protocol)
{
    if (!paths->network) return INFINITY;
    double ratio = paths->network->efficiency_ratio * paths->network_scale;
    ratio /= fmax(1, paths->group->load.ring);
    return paths->ranks_per_node * paths->network_bytes_per_s * ratio *
           paths->network->protocols[protocol].bandwidth_ratio;
}

// What lost packets among so many bytes over the network cost: all wait for the one whose message
// is sent again, and while they wait nothing more is lost.
static double stalls_s(const struct paths *paths, double bytes)
{
    if (!paths->network) return 0;
    const struct network *network = paths->group->network;
    return network->loss_ratio * bytes / NETWORK_PACKET_BYTES * network->loss_stall_s;
}

static bool protocol_runs(const struct paths *paths, enum protocol protocol)
{
    bool in_node = !paths->intra || paths->intra->protocols[protocol].bandwidth_ratio > 0;
    bool between = !paths->network || paths->network->protocols[protocol].bandwidth_ratio > 0;
    return in_node && between;
}

static double base_latency_s(const struct paths *paths, enum protocol protocol)
{
    double intra = paths->intra ? paths->intra->protocols[protocol].base_latency_s : 0;
    double network = paths->network ? paths->network->protocols[protocol].base_latency_s : 0;
    return fmax(intra, network);
}

static double ring_latency_s(const struct paths *paths, enum protocol protocol, double intra_steps,
                             double network_steps)
{
    double latency_s = 0;
    if (paths->intra) {
        latency_s += intra_steps * paths->intra_latency_ratio *
                     paths->intra->protocols[protocol].ring_step_latency_s;
    }
    if (paths->network) {
        latency_s += network_steps * paths->network_latency_ratio *
                     paths->network->protocols[protocol].ring_step_latency_s;
    }
    return latency_s;
}

static struct collective_cost cost_of(enum algorithm algorithm, enum protocol protocol,
                                      double latency_s, double bandwidth_s)
{
    return (struct collective_cost){latency_s + bandwidth_s, algorithm, protocol, latency_s,
                                    bandwidth_s};
}

// Every message goes to its reader, without others on the way.
static bool is_direct(enum collective collective)
{
    return collective == COLLECTIVE_ALL_TO_ALL || collective == COLLECTIVE_SEND_RECV;
}

// Once around for a gather or a scatter, twice for an all-reduce.
static double rounds_of(enum collective collective)
{
    return collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
}

static struct collective_cost price_ring(const struct paths *paths, enum collective collective,
                                         double bytes, enum protocol protocol)
{
    if (is_direct(collective)) return IMPOSSIBLE;
    double rounds = rounds_of(collective);
    // A ring visits the nodes one after another: of its hops in a round only those from one to the
    // next cross the network.
    double network_steps = rounds * (paths->node_count - 1);
    double intra_steps = rounds * (paths->rank_count - 1) - network_steps;
    // On a torus the rings of the dimensions run one after another in every node.
    if (paths->link_bytes_per_s > 0)
        intra_steps = rounds * paths->node_count * paths->group->torus.steps;
    double bus =
        fmin(intra_bus_bytes_per_s(paths, protocol), network_bus_bytes_per_s(paths, protocol));
    double sent_bytes = rounds * (paths->rank_count - 1) / paths->rank_count * bytes;
    double latency_s = base_latency_s(paths, protocol) +
                       ring_latency_s(paths, protocol, intra_steps, network_steps);
    return cost_of(ALGORITHM_RING, protocol, latency_s,
                   sent_bytes / bus + stalls_s(paths, paths->node_count * sent_bytes));
}

// NCCL's double binary tree: a chain inside the node, a tree between nodes, up and down.
static struct collective_cost price_tree(const struct paths *paths, enum collective collective,
                                         double bytes, enum protocol protocol)
{
    bool has_trees = paths->link_bytes_per_s == 0;
    if (collective != COLLECTIVE_ALL_REDUCE || !has_trees) return IMPOSSIBLE;
    double latency_s = base_latency_s(paths, protocol), ratio = 1;
    if (paths->intra) {
        ratio = paths->intra->tree_bandwidth_ratio;
        latency_s += 2 * (paths->group->ranks_per_node - 1) * paths->intra_latency_ratio *
                     paths->intra->protocols[protocol].tree_step_latency_s;
    }
    if (paths->network) {
        ratio = fmin(ratio, paths->network->tree_bandwidth_ratio);
        latency_s += 2 * real_log2_ceil(paths->node_count) * paths->network_latency_ratio *
                     paths->network->protocols[protocol].tree_step_latency_s;
    }
    double bus =
        fmin(intra_bus_bytes_per_s(paths, protocol), network_bus_bytes_per_s(paths, protocol));
    double passed_bytes = 2 * (paths->node_count - 1) * bytes;
    return cost_of(ALGORITHM_TREE, protocol, latency_s,
                   2 * bytes / (ratio * bus) + stalls_s(paths, passed_bytes));
}

// Reduce-scatter in the node, the collective between nodes on every rank's part, all-gather in the
// node; a gather or scatter alone does one of the two inner steps.
static struct collective_cost price_hierarchical(const struct paths *paths,
                                                 enum collective collective, double bytes,
                                                 enum protocol protocol)
{
    bool has_both = paths->intra && paths->network && paths->even;
    if (is_direct(collective) || !has_both) return IMPOSSIBLE;
    double rounds = rounds_of(collective);
    double nodes = paths->node_count, ranks = paths->ranks_per_node;
    double bandwidth_s =
        rounds * (ranks - 1) / ranks * bytes / intra_bus_bytes_per_s(paths, protocol) +
        rounds * (nodes - 1) / nodes * bytes / network_bus_bytes_per_s(paths, protocol) +
        stalls_s(paths, rounds * (nodes - 1) * bytes);
    // An all-reduce is three collectives one after the other, a gather or scatter two.
    double steps = paths->link_bytes_per_s > 0 ? paths->group->torus.steps : ranks - 1;
    double latency_s = (rounds + 1) * base_latency_s(paths, protocol) +
                       ring_latency_s(paths, protocol, rounds * steps, rounds * (nodes - 1));
    return cost_of(ALGORITHM_HIERARCHICAL, protocol, latency_s, bandwidth_s);
}

// The switch adds up: in one node NVLS, whose published bus bandwidth is counted as a ring's;
// between nodes SHARP, where every byte goes up and down once while the node's own ring runs.
static struct collective_cost price_in_network(const struct paths *paths,
                                               enum collective collective, double bytes,
                                               enum protocol protocol)
{
    assert(protocol == PROTOCOL_SIMPLE);
    (void)protocol;
    if (collective != COLLECTIVE_ALL_REDUCE) return IMPOSSIBLE;
    const struct fabric *fabric = paths->network ? paths->network : paths->intra;
    assert(fabric && "a group of more than one rank has links");
    bool offered = paths->network ? paths->group->network->in_network_reduction
                                  : paths->group->intra->in_network_reduction;
    if (!offered || fabric->reduce_efficiency_ratio <= 0 ||
        paths->rank_count < fabric->in_network_ranks_least) {
        return IMPOSSIBLE;
    }
    double latency_ratio =
        paths->network ? paths->network_latency_ratio : paths->intra_latency_ratio;
    double latency_s =
        base_latency_s(paths, PROTOCOL_SIMPLE) + fabric->reduce_latency_s * latency_ratio;
    double around = 2 * (paths->rank_count - 1) / paths->rank_count * bytes;
    if (!paths->network) {
        double bus = paths->intra_bytes_per_s * fabric->reduce_efficiency_ratio;
        return cost_of(ALGORITHM_IN_NETWORK, PROTOCOL_SIMPLE, latency_s, around / bus);
    }
    double steps = 2 * (paths->ranks_per_node - 1);
    double bus = paths->ranks_per_node * paths->network_bytes_per_s *
                 fabric->reduce_efficiency_ratio * paths->network_scale;
    latency_s += ring_latency_s(paths, PROTOCOL_SIMPLE, steps, 0);
    double in_node_s = around / intra_bus_bytes_per_s(paths, PROTOCOL_SIMPLE);
    double passed_s = bytes / bus + stalls_s(paths, 2 * paths->node_count * bytes);
    return cost_of(ALGORITHM_IN_NETWORK, PROTOCOL_SIMPLE, latency_s, fmax(in_node_s, passed_s));
}

// The first message takes a step of the protocol; what each further peer adds to it is the wire's
// own latency, that of the protocol for the smallest messages.
static double peers_latency_s(const struct fabric *fabric, double latency_ratio, double peers,
                              enum protocol protocol)
{
    if (peers < 1) return 0;
    bool has_least = fabric->protocols[PROTOCOL_LL].bandwidth_ratio > 0;
    enum protocol least = has_least ? PROTOCOL_LL : PROTOCOL_SIMPLE;
    return latency_ratio * (fabric->protocols[protocol].ring_step_latency_s +
                            (peers - 1) * fabric->protocols[least].ring_step_latency_s);
}

// What of its payload a rank passes on inside its node and to other nodes, and the share of the
// links that this reaches.
struct shares {
    double intra, network;
    double intra_ratio, network_ratio;
};

// A rank keeps 1/n, sends (k-1)/n to the k-1 others of its node over its link and (n-k)/n to other
// nodes over its share of the NICs.
static struct shares direct_shares(const struct paths *paths)
{
    const struct network *switches = paths->network ? paths->group->network : NULL;
    double ranks = paths->group->ranks_per_node;
    double network = (paths->rank_count - paths->ranks_per_node) / paths->rank_count;
    // Where switches join rails, what is for another rail is handed over inside the node first
    // (NCCL's PXN, since 2.12).
    bool by_rail = switches && switches->rail_optimized && switches->tier_count > 0;
    double handed = by_rail ? network * (ranks - 1) / ranks : 0;
    return (struct shares){
        .intra = (ranks - 1) / paths->rank_count + handed,
        .network = network,
        .intra_ratio = paths->intra ? paths->intra->all_to_all_efficiency_ratio : 1,
        .network_ratio = paths->network ? paths->network->all_to_all_efficiency_ratio : 1,
    };
}

// Of rows that fall anywhere with equal chance: 1 less the chance that none falls on a place.
static double places_of_all(double count, int rows)
{
    return count * (1 - real_power_int(1 - 1 / count, rows));
}

// Binomial coefficient, 0 where there is no such choice.
static double choose(int from, int count)
{
    double ways = count >= 0 && count <= from;
    for (int i = 0; i < count && ways > 0; i++)
        ways *= (double)(from - i) / (i + 1);
    return ways;
}

// How many of `count` equal places hold at least one of a token's rows.
static double places_reached(double count, const struct routing *routing)
{
    int rows = routing->rows;
    int groups = routing->group_count, open = routing->open_groups;
    if (groups <= 1 || open <= 0 || open >= groups) return places_of_all(count, rows);
    if (count >= groups) return places_of_all(count * open / groups, rows);
    if (fmod(groups, count) != 0) return fmin(places_of_all(count, rows), open);
    int own = (int)(groups / count);
    double reached = 0;
    assert(own >= 1 && own <= groups);
    for (int found = 1; found <= own && found <= open; found++) {
        double ways = choose(own, found) * choose(groups - own, open - found);
        reached +=
            ways / choose(groups, open) * (1 - real_power_int(1 - (double)found / open, rows));
    }
    return count * reached;
}

// A token enters a node on the rank that has its sender's rail and goes on from there. Kernels
// written for this reach what a ring does: DeepEP's published 153 GB/s over H800 links of 200, 43
// to 58 over NICs of 50 (its README, measured with 8 of 256 experts a token).
static struct shares dispatch_shares(const struct paths *paths, const struct routing *routing)
{
    double nodes = paths->node_count, ranks = paths->group->ranks_per_node;
    return (struct shares){
        .intra = places_reached(paths->rank_count, routing) / routing->rows * (ranks - 1) / ranks,
        .network = places_reached(nodes, routing) / routing->rows * (nodes - 1) / nodes,
        .intra_ratio = paths->intra ? paths->intra->efficiency_ratio : 1,
        .network_ratio = paths->network ? paths->network->efficiency_ratio : 1,
    };
}

// What a rank's bytes to others of its node pass at. Of a torus the load counts its own too.
static double all_to_all_bytes_per_s(const struct paths *paths)
{
    double ranks = paths->group->ranks_per_node;
    if (paths->link_bytes_per_s == 0) return paths->intra_bytes_per_s;
    return paths->link_bytes_per_s / paths->group->torus.load * (ranks - 1) / ranks;
}

// Every rank sends to every other at once; the parts inside the node and between nodes proceed
// side by side, so the slower one decides.
static struct collective_cost price_all_to_all(const struct paths *paths,
                                               const struct shares *shares, double bytes,
                                               enum protocol protocol)
{
    double intra_s = 0, network_s = 0, intra_latency_s = 0, network_latency_s = 0;
    if (paths->intra) {
        double ratio = shares->intra_ratio * paths->intra->protocols[protocol].bandwidth_ratio;
        double peers = paths->group->ranks_per_node - 1;
        intra_s = shares->intra * bytes / (all_to_all_bytes_per_s(paths) * ratio);
        intra_latency_s =
            peers_latency_s(paths->intra, paths->intra_latency_ratio, peers, protocol);
    }
    if (paths->network) {
        double ratio = shares->network_ratio * paths->network_scale *
                       paths->network->protocols[protocol].bandwidth_ratio;
        double peers = paths->rank_count - paths->ranks_per_node;
        network_s = shares->network * bytes / (paths->network_bytes_per_s * ratio);
        const struct group_shape *group = paths->group;
        if (group->crossing_ratio > 0)
            network_s = fmax(network_s,
                             group->crossing_ratio * bytes / (group->crossing_bytes_per_s * ratio));
        network_s = network_s * fmax(1, group->load.all_to_all) +
                    stalls_s(paths, shares->network * paths->rank_count * bytes);
        network_latency_s =
            peers_latency_s(paths->network, paths->network_latency_ratio, peers, protocol);
    }
    double latency_s = base_latency_s(paths, protocol) + fmax(intra_latency_s, network_latency_s);
    return cost_of(ALGORITHM_DIRECT, protocol, latency_s, fmax(intra_s, network_s));
}

// One message to the neighbour; in a group over several nodes some neighbour is in another node.
static struct collective_cost price_send(const struct paths *paths, double bytes,
                                         enum protocol protocol)
{
    const struct fabric *fabric = paths->network ? paths->network : paths->intra;
    assert(fabric && "a group of more than one rank has links");
    double in_node = paths->link_bytes_per_s > 0
                         ? paths->link_bytes_per_s * paths->group->torus.share
                         : paths->intra_bytes_per_s;
    double bytes_per_s =
        paths->network ? paths->network_bytes_per_s * paths->network_scale : in_node;
    double ratio = fabric->send_efficiency_ratio * fabric->protocols[protocol].bandwidth_ratio;
    if (paths->network) ratio /= fmax(1, paths->group->load.send);
    double latency_s =
        base_latency_s(paths, protocol) + (paths->network ? ring_latency_s(paths, protocol, 0, 1)
                                                          : ring_latency_s(paths, protocol, 1, 0));
    return cost_of(ALGORITHM_DIRECT, protocol, latency_s,
                   bytes / (bytes_per_s * ratio) + stalls_s(paths, bytes));
}

static struct collective_cost price_direct(const struct paths *paths, enum collective collective,
                                           double bytes, enum protocol protocol)
{
    if (!is_direct(collective)) return IMPOSSIBLE;
    struct shares shares = direct_shares(paths);
    return collective == COLLECTIVE_ALL_TO_ALL ? price_all_to_all(paths, &shares, bytes, protocol)
                                               : price_send(paths, bytes, protocol);
}

static const struct {
    const char *name;
    struct collective_cost (*price)(const struct paths *paths, enum collective collective,
                                    double bytes, enum protocol protocol);
    bool has_protocols;
} ALGORITHMS[ALGORITHM_COUNT] = {
#define ALGORITHM(id, name, price, has_protocols) [ALGORITHM_##id] = {name, price, has_protocols},
#include "cost_models/algorithms.inc"
};

const char *algorithm_name(enum algorithm algorithm)
{
    assert(algorithm >= 0 && algorithm < ALGORITHM_COUNT);
    return ALGORITHMS[algorithm].name;
}

static void keep_faster(struct collective_cost *best, struct collective_cost cost)
{
    if (cost.s < best->s) *best = cost;
}

struct collective_cost collective_price(const struct fabrics *fabrics,
                                        const struct group_shape *group, enum collective collective,
                                        double bytes, double network_scale)
{
    assert(bytes >= 0 && network_scale > 0 && group->rank_count >= 1);
    bool is_free = collective == COLLECTIVE_NONE || collective == COLLECTIVE_SLICE;
    if (group->rank_count == 1 || bytes <= 0 || is_free) return (struct collective_cost){0};
    struct paths paths = paths_of(fabrics, group, network_scale);
    struct collective_cost best = IMPOSSIBLE;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        if (ALGORITHMS[i].has_protocols) continue;
        keep_faster(&best, ALGORITHMS[i].price(&paths, collective, bytes, PROTOCOL_SIMPLE));
    }
    for (enum protocol protocol = PROTOCOL_LL; protocol < PROTOCOL_COUNT; protocol++) {
        if (!protocol_runs(&paths, protocol)) continue;
        for (int i = 0; i < ALGORITHM_COUNT; i++) {
            if (!ALGORITHMS[i].has_protocols) continue;
            keep_faster(&best, ALGORITHMS[i].price(&paths, collective, bytes, protocol));
        }
    }
    assert(isfinite(best.s) && best.s == best.latency_s + best.bandwidth_s);
    return best;
}

struct collective_cost broadcast_price(const struct fabrics *fabrics,
                                       const struct group_shape *group, double bytes,
                                       double network_scale)
{
    assert(bytes >= 0 && network_scale > 0);
    if (group->rank_count == 1 || bytes <= 0) return (struct collective_cost){0};
    struct paths paths = paths_of(fabrics, group, network_scale);
    // A gather leaves out of each link what its reader has.
    double gathered_bytes = bytes * paths.rank_count / (paths.rank_count - 1);
    struct collective_cost best = IMPOSSIBLE;
    for (enum protocol protocol = PROTOCOL_LL; protocol < PROTOCOL_COUNT; protocol++) {
        if (!protocol_runs(&paths, protocol)) continue;
        keep_faster(&best, price_ring(&paths, COLLECTIVE_ALL_GATHER, gathered_bytes, protocol));
    }
    return best;
}

struct collective_cost dispatch_price(const struct fabrics *fabrics,
                                      const struct group_shape *group,
                                      const struct routing *routing, double bytes,
                                      double network_scale)
{
    assert(bytes >= 0 && network_scale > 0 && routing->rows >= 1);
    if (group->rank_count == 1 || bytes <= 0) return (struct collective_cost){0};
    struct paths paths = paths_of(fabrics, group, network_scale);
    struct shares shares = dispatch_shares(&paths, routing);
    struct collective_cost best = IMPOSSIBLE;
    for (enum protocol protocol = PROTOCOL_LL; protocol < PROTOCOL_COUNT; protocol++) {
        if (!protocol_runs(&paths, protocol)) continue;
        keep_faster(&best, price_all_to_all(&paths, &shares, bytes, protocol));
    }
    return best;
}
