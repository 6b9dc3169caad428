#include "cost_models/tables/rows.h"

#include <assert.h>
#include <math.h>

// Different rows of so many requests that are not among the `kept` hottest, or that LRU has
// dropped; of a batch each is fetched once.
static double missed(const struct zipf *zipf, const struct table_workload *workload,
                     double requests, double unique, double kept)
{
    assert(requests >= 0 && unique >= 0 && kept >= 0);
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

// Neighbouring tables are often alike, and a law takes sums over all rows.
const struct table_law *table_laws_make(struct arena *arena, const struct table_request *request)
{
    const struct recommender *model = request->placement->model;
    struct table_law *laws = ARENA_NEW(arena, struct table_law, model->table_count);
    for (int t = 0; t < model->table_count; t++) {
        const struct table_shape *table = &model->tables[t], *before = t > 0 ? table - 1 : table;
        bool is_alike =
            t > 0 && table->row_count == before->row_count && table->id_count == before->id_count;
        if (is_alike) {
            laws[t] = laws[t - 1];
            continue;
        }
        double requests = (double)request->workload.global_batch * (double)table->id_count;
        laws[t].zipf = zipf_make(table->row_count, model->zipf_exponent);
        laws[t].unique = zipf_unique(&laws[t].zipf, requests);
    }
    return laws;
}

// Gradients are read sorted by row, each different row is read and written once.
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
    struct table_law own;
    const struct table_law *law = request->laws ? &request->laws[piece->table] : &own;
    if (!request->laws) own.zipf = zipf_make(table->row_count, model->zipf_exponent);
    const struct zipf *zipf = &law->zipf;
    bool is_known = request->laws && !is_every;
    double unique = is_known ? law->unique : zipf_unique(zipf, requests);
    struct piece_work work = {.lookups = requests * share, .unique = unique * share};
    assert(share > 0 && share < 1 + 1e-9 && requests >= 0);
    work.hits = work.lookups;
    if (piece->tier != TIER_DEVICE) {
        double kept = (double)piece->cached_rows / share,
               row_bytes = (double)table_row_bytes(workload->optimizer, piece->column_count);
        work.hits *= hit_share(zipf, workload, kept);
        work.fetched = share * missed(zipf, workload, requests, unique, kept);
        if (piece->tier == TIER_NVME)
            work.from_nvme =
                share * missed(zipf, workload, requests, unique, (double)piece->host_rows / share);
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
