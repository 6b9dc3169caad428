#include "cost_models/tables/rows.h"
#include "core/zipf.h"

#include <math.h>

// Different rows of so many requests that are not among the `kept` hottest, or that LRU has
// dropped; of a batch each is fetched once.
static double missed(const struct zipf *zipf, const struct table_workload *workload,
                     double requests, double unique, double kept)
{
    if (kept >= (double)zipf->count) return 0;
    if (workload->cache == CACHE_LRU)
        return fmin(unique, requests * (1 - zipf_lru_share(zipf, kept)));
    if (kept < 1) return unique;
    // The hottest alone: requests for them, as many as their share, over a law of `kept` things.
    struct zipf hot = zipf_make((int64_t)kept, zipf->exponent);
    return fmax(0, unique - zipf_unique(&hot, requests * zipf_share(zipf, kept)));
}

static double hit_share(const struct zipf *zipf, const struct table_workload *workload, double kept)
{
    return workload->cache == CACHE_LRU ? zipf_lru_share(zipf, kept) : zipf_share(zipf, kept);
}

static double update_bytes(const struct table_request *request, const struct table_piece *piece,
                           const struct piece_work *work)
{
    double columns = (double)piece->column_count;
    double gradients = work->lookups * columns * table_exchange_bytes(request->workload.precision);
    double rows = 2 * work->unique *
                  (double)table_row_bytes(request->workload.optimizer, piece->column_count);
    return gradients + rows + work->lookups * request->stack->sort_bytes_per_id;
}

struct piece_work piece_work(const struct table_request *request, const struct table_piece *piece)
{
    const struct recommender *model = request->placement->model;
    const struct table_workload *workload = &request->workload;
    const struct table_shape *table = &model->tables[piece->table];
    bool is_every = piece->rank == PIECE_EVERY_RANK;
    double batch = (double)workload->global_batch / (is_every ? request->placement->rank_count : 1);
    double share = piece_row_share(model, piece), requests = batch * (double)table->id_count;
    double columns = (double)piece->column_count;
    struct zipf zipf = zipf_make(table->row_count, model->zipf_exponent);
    double unique = zipf_unique(&zipf, requests);
    struct piece_work work = {.lookups = requests * share, .unique = unique * share};
    work.hits = work.lookups;
    if (piece->tier != TIER_DEVICE) {
        double kept = (double)piece->cached_rows / share,
               row_bytes = (double)table_row_bytes(workload->optimizer, piece->column_count);
        work.hits *= hit_share(&zipf, workload, kept);
        work.fetched = share * missed(&zipf, workload, requests, unique, kept);
        if (piece->tier == TIER_NVME)
            work.from_nvme =
                share * missed(&zipf, workload, requests, unique, (double)piece->host_rows / share);
        work.fetch_bytes = work.fetched * row_bytes;
        work.nvme_bytes = work.from_nvme * fmax(row_bytes, NVME_BLOCK_BYTES);
    }
    work.read_bytes = work.lookups * columns * WEIGHT_BYTES +
                      batch * columns * table_exchange_bytes(workload->precision);
    work.update_bytes = update_bytes(request, piece, &work);
    // A dense gradient: what is added up is the whole table, and so is what is updated.
    if (is_every)
        work.update_bytes = work.lookups * columns * 2 * GRADIENT_SUM_BYTES +
                            2 * (double)piece->row_count *
                                (double)table_row_bytes(workload->optimizer, piece->column_count);
    return work;
}
