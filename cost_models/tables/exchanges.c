#include "cost_models/tables/exchanges.h"

#include <assert.h>
#include <math.h>

// Ranks of a node, those of all nodes at one place, or all.
enum reach { REACH_INSIDE, REACH_BETWEEN, REACH_ALL };

static int node_ranks(const struct table_request *request)
{
    assert(request->placement->rank_count > 0 && request->cluster->nodes[0].gpus > 0);
    int ranks = request->placement->rank_count, gpus = request->cluster->nodes[0].gpus;
    return gpus < ranks ? gpus : ranks;
}

static int node_count(const struct table_request *request)
{
    return request->placement->rank_count / node_ranks(request);
}

// Nodes that are not full have ranks without partners.
bool exchange_is_hierarchical(const struct table_request *request)
{
    return request->stack->hierarchical && node_count(request) > 1 &&
           request->placement->rank_count % node_ranks(request) == 0;
}

static struct group_shape group_of(const struct table_request *request, enum reach reach)
{
    int inside = node_ranks(request), nodes = node_count(request);
    struct route_axes all = {.count = 1}, part = {.count = 1}, mesh = {.count = 2};
    all.sizes[0] = request->placement->rank_count;
    all.strides[0] = 1;
    if (reach == REACH_ALL) return route_group(request->cluster, &all, &all);
    part.sizes[0] = reach == REACH_INSIDE ? inside : nodes;
    part.strides[0] = reach == REACH_INSIDE ? 1 : inside;
    mesh.sizes[0] = inside;
    mesh.strides[0] = 1;
    mesh.sizes[1] = nodes;
    mesh.strides[1] = inside;
    return route_group(request->cluster, &part, &mesh);
}

// `bytes` of an all-to-all are those for others; collective_price counts a rank's own as well.
static double exchange_s(const struct table_request *request, enum reach reach,
                         enum collective collective, double bytes)
{
    const struct group_shape group = group_of(request, reach);
    double ranks = group.rank_count;
    if (ranks < 2 || bytes <= 0) return 0;
    double whole = collective == COLLECTIVE_ALL_TO_ALL ? bytes * ranks / (ranks - 1) : bytes;
    return collective_price(request->fabrics, &group, collective, whole, 1).s;
}

// An all-to-all in which a rank has so many bytes for others.
static double all_to_all_s(const struct table_request *request, double bytes)
{
    return exchange_s(request, REACH_ALL, COLLECTIVE_ALL_TO_ALL, bytes);
}

// Latencies are of the exchange, not of a piece of it: the difference of two large ones has none.
static double rate_s(const struct table_request *request, enum reach reach,
                     enum collective collective, double bytes)
{
    const double large = 1e10;
    double slope = exchange_s(request, reach, collective, 2 * large) -
                   exchange_s(request, reach, collective, large);
    return slope * (bytes / large);
}

double inside_rate_s(const struct table_request *request, double bytes)
{
    return rate_s(request, REACH_INSIDE, COLLECTIVE_ALL_TO_ALL, bytes);
}

double between_rate_s(const struct table_request *request, double bytes)
{
    return rate_s(request, REACH_BETWEEN, COLLECTIVE_ALL_TO_ALL, bytes);
}

double flat_rate_s(const struct table_request *request, double bytes)
{
    return rate_s(request, REACH_ALL, COLLECTIVE_ALL_TO_ALL, bytes);
}

double reduce_rate_s(const struct table_request *request, double bytes)
{
    return rate_s(request, REACH_ALL, COLLECTIVE_ALL_REDUCE, bytes);
}

// Columns on a node, those of one table and place counted once: other rows of them are added up.
static bool is_first_of_node(const struct table_placement *placement, int at, int inside)
{
    const struct table_piece *piece = &placement->pieces[at];
    for (int i = at - 1; i >= 0 && placement->pieces[i].table == piece->table; i--) {
        const struct table_piece *before = &placement->pieces[i];
        if (before->first_column == piece->first_column &&
            before->rank / inside == piece->rank / inside)
            return false;
    }
    return true;
}

// Whether the node has other columns of the same rows before it: the ids are there.
static bool is_again(const struct table_placement *placement, int at, int inside)
{
    const struct table_piece *piece = &placement->pieces[at];
    for (int i = at - 1; i >= 0 && placement->pieces[i].table == piece->table; i--) {
        const struct table_piece *before = &placement->pieces[i];
        if (before->first_row == piece->first_row && before->rank / inside == piece->rank / inside)
            return true;
    }
    return false;
}

static struct exchanged exchanged_sums(const struct table_request *request)
{
    const struct table_placement *placement = request->placement;
    int ranks = placement->rank_count, inside = node_ranks(request), nodes = node_count(request);
    double batch = (double)request->workload.global_batch;
    struct arena arena = {0};
    double *columns = ARENA_NEW(&arena, double, ranks), *merged = ARENA_NEW(&arena, double, ranks);
    double *held = ARENA_NEW(&arena, double, ranks), all = 0, all_merged = 0;
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        if (piece->rank == PIECE_EVERY_RANK) continue;
        double width = (double)piece->column_count;
        int node = piece->rank / inside;
        columns[piece->rank] += width;
        held[node] += width;
        all += width;
        if (!is_first_of_node(placement, i, inside)) continue;
        merged[node] += width;
        all_merged += width;
    }
    struct exchanged most = {0};
    for (int r = 0; r < ranks; r++) {
        double own = columns[r], of_node = held[r / inside], of_merged = merged[r / inside];
        most.flat =
            fmax(most.flat, fmax(batch * (1 - 1.0 / ranks) * own, batch / ranks * (all - own)));
        most.inside = fmax(
            most.inside, fmax(batch * (1 - 1.0 / inside) * own, batch / inside * (of_node - own)));
        most.between = fmax(most.between, fmax(batch / inside * (1 - 1.0 / nodes) * of_merged,
                                               batch / ranks * (all_merged - of_merged)));
    }
    arena_free(&arena);
    return most;
}

// Hierarchical: sums of a node's ranks are merged inside before they cross the network.
static void price_sums(const struct table_request *request, struct table_span *span)
{
    const struct exchanged most = exchanged_sums(request);
    double wide = table_exchange_bytes(request->workload.precision);
    if (!exchange_is_hierarchical(request)) {
        span->bytes = most.flat * wide;
        span->s = all_to_all_s(request, span->bytes);
        return;
    }
    span->bytes = (most.inside + most.between) * wide;
    span->s = exchange_s(request, REACH_INSIDE, COLLECTIVE_ALL_TO_ALL, most.inside * wide) +
              exchange_s(request, REACH_BETWEEN, COLLECTIVE_ALL_TO_ALL, most.between * wide);
}

// Hierarchical: a node's ids come over the network once, to each of its ranks those of an equal
// share of samples, and go round inside.
static void price_ids(const struct table_request *request, struct table_span *span)
{
    span->s = all_to_all_s(request, span->bytes);
    if (!exchange_is_hierarchical(request)) return;
    const struct table_placement *placement = request->placement;
    int inside = node_ranks(request), nodes = node_count(request);
    struct arena arena = {0};
    double *of_node = ARENA_NEW(&arena, double, nodes), most = 0;
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        if (piece->rank == PIECE_EVERY_RANK || is_again(placement, i, inside)) continue;
        of_node[piece->rank / inside] += (double)placement->model->tables[piece->table].id_count *
                                         piece_row_share(placement->model, piece);
    }
    for (int node = 0; node < nodes; node++)
        most = fmax(most, of_node[node]);
    arena_free(&arena);
    double between = (double)request->workload.global_batch / inside * (1 - 1.0 / nodes) * most *
                     table_id_bytes(placement->model);
    span->s = exchange_s(request, REACH_INSIDE, COLLECTIVE_ALL_TO_ALL, span->bytes) +
              exchange_s(request, REACH_BETWEEN, COLLECTIVE_ALL_TO_ALL, between);
}

void exchanges_price(const struct table_request *request, struct table_span *spans)
{
    assert(request->workload.global_batch > 0);
    const struct table_placement *placement = request->placement;
    double ids = 0, norms = 0, wide = table_exchange_bytes(request->workload.precision);
    for (int rank = 0; rank < placement->rank_count; rank++) {
        const struct table_traffic traffic = placement_traffic(placement, &request->workload, rank);
        ids = fmax(ids, traffic.ids);
        norms = fmax(norms, traffic.norms);
    }
    spans[TABLE_TASK_IDS].bytes = ids * table_id_bytes(placement->model);
    spans[TABLE_TASK_NORMS].bytes = norms * GRADIENT_SUM_BYTES;
    price_sums(request, &spans[TABLE_TASK_SUMS]);
    spans[TABLE_TASK_GRADIENTS] = spans[TABLE_TASK_SUMS];
    price_ids(request, &spans[TABLE_TASK_IDS]);
    spans[TABLE_TASK_NORMS].s = all_to_all_s(request, spans[TABLE_TASK_NORMS].bytes);
    if (placement->rank_count < 2) return;
    struct table_span *reduce = &spans[TABLE_TASK_REDUCE];
    reduce->bytes = (double)placement_dense_elements(placement) * wide;
    reduce->s = exchange_s(request, REACH_ALL, COLLECTIVE_ALL_REDUCE, reduce->bytes);
}

double host_fetch_s(const struct table_request *request, const struct host *host,
                    double fetch_bytes, double host_fetch_bytes, double host_nvme_bytes)
{
    assert(request->stack->copy_ratio > 0);
    double ratio = request->stack->copy_ratio;
    double pcie_s = fetch_bytes > 0 ? fetch_bytes / (host->pcie_bytes_per_s * ratio) : 0;
    double memory_s =
        host_fetch_bytes > 0 ? host_fetch_bytes / (host->memory_bandwidth_bytes_per_s * ratio) : 0;
    double nvme_s = host_nvme_bytes > 0 ? host_nvme_bytes / host->nvme_bytes_per_s : 0;
    return fmax(pcie_s, fmax(memory_s, nvme_s));
}
