#include "cost_models/tables/exchanges.h"
#include "cost_models/tables/rows.h"
#include "cost_models/tables/towers.h"

#include <assert.h>
#include <math.h>

// Sums there and gradients back, of one piece.
static struct piece_seconds sums_s(const struct table_request *request,
                                   const struct table_piece *piece, int parts)
{
    double ranks = request->placement->rank_count, inside = request->cluster->nodes[0].gpus;
    double nodes = ranks / inside, batch = (double)request->workload.global_batch;
    double bytes =
        2 * batch * (double)piece->column_count * table_exchange_bytes(request->workload.precision);
    if (!exchange_is_hierarchical(request))
        return (struct piece_seconds){flat_rate_s(request, bytes * (1 - 1 / ranks)), 0};
    double own_s = inside_rate_s(request, bytes * (1 - 1 / inside));
    double node_s = between_rate_s(request, bytes / inside * (1 - 1 / nodes));
    // Rows of a table on all ranks of nodes: its columns leave each node once.
    bool is_cut_by_rows =
        piece->row_count < request->placement->model->tables[piece->table].row_count;
    bool is_spread = is_cut_by_rows && parts >= (int)inside;
    return (struct piece_seconds){own_s, is_spread ? node_s / inside : node_s};
}

// In rates, without latencies, which belong to the exchange of all pieces.
struct piece_seconds table_piece_s(const struct table_request *request,
                                   const struct table_piece *piece, int parts)
{
    assert(parts >= 1 && piece->column_count > 0 && piece->row_count > 0);
    const struct piece_work work = piece_work(request, piece);
    const struct recommender *model = request->placement->model;
    double others = 1 - 1.0 / request->placement->rank_count;
    double ids_bytes = work.lookups * others * table_id_bytes(model);
    bool has_norms = request->workload.optimizer == TABLE_ROWWISE &&
                     piece->column_count < recommender_row_width(model);
    double norm_bytes = has_norms ? work.unique * (parts - 1) * GRADIENT_SUM_BYTES : 0;
    const struct host *host = &request->cluster->nodes[0].host;
    double devices = fmin(request->cluster->nodes[0].gpus_per_host, request->placement->rank_count);
    double moved_s = 2 * host_fetch_s(request, host, work.fetch_bytes, work.fetch_bytes * devices,
                                      work.nvme_bytes * devices);
    struct piece_seconds seconds = sums_s(request, piece, parts);
    seconds.own_s += table_stream_s(request, work.read_bytes + work.update_bytes) + moved_s +
                     flat_rate_s(request, ids_bytes + norm_bytes);
    return seconds;
}

// No sums travel: each rank looks up for its own samples, and a dense gradient is reduced.
double table_everywhere_s(const struct table_request *request, int table)
{
    assert(table >= 0 && table < request->placement->model->table_count);
    const struct recommender *model = request->placement->model;
    const struct table_piece piece = {.table = table,
                                      .row_count = model->tables[table].row_count,
                                      .column_count = recommender_row_width(model),
                                      .rank = PIECE_EVERY_RANK};
    const struct piece_work work = piece_work(request, &piece);
    double bytes = (double)(piece.row_count * piece.column_count) *
                   table_exchange_bytes(request->workload.precision);
    return table_stream_s(request, work.read_bytes + work.update_bytes) +
           reduce_rate_s(request, bytes);
}
