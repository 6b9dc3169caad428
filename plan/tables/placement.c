#include "plan/tables/placement.h"
#include "core/zipf.h"

#include <assert.h>

const char *table_optimizer_name(enum table_optimizer optimizer)
{
    assert((unsigned)optimizer < TABLE_OPTIMIZER_COUNT);
    static const char *const NAMES[TABLE_OPTIMIZER_COUNT] = {"sgd", "adagrad", "rowwise-adagrad"};
    return NAMES[optimizer];
}

const char *cache_policy_name(enum cache_policy policy)
{
    assert((unsigned)policy < CACHE_POLICY_COUNT);
    static const char *const NAMES[CACHE_POLICY_COUNT] = {"static", "lru"};
    return NAMES[policy];
}

int64_t table_row_bytes(enum table_optimizer optimizer, int64_t columns)
{
    assert(columns > 0);
    const int64_t state[TABLE_OPTIMIZER_COUNT] = {0, columns, 1};
    return WEIGHT_BYTES * columns + GRADIENT_SUM_BYTES * state[optimizer];
}

int table_id_bytes(const struct recommender *model)
{
    int64_t most = 0;
    for (int i = 0; i < model->table_count; i++)
        most = model->tables[i].row_count > most ? model->tables[i].row_count : most;
    return most <= INT32_MAX ? 4 : 8;
}

int table_exchange_bytes(enum precision precision)
{
    return precision == PRECISION_FP32 ? 4 : 2;
}

int64_t piece_bytes(const struct table_piece *piece, enum table_optimizer optimizer, enum tier tier)
{
    int64_t rows = tier == piece->tier   ? piece->row_count
                   : tier == TIER_DEVICE ? piece->cached_rows
                   : tier == TIER_HOST   ? piece->host_rows
                                         : 0;
    return rows * table_row_bytes(optimizer, piece->column_count);
}

double piece_row_share(const struct recommender *model, const struct table_piece *piece)
{
    assert(piece->table >= 0 && piece->table < model->table_count);
    return (double)piece->row_count / (double)model->tables[piece->table].row_count;
}

bool piece_is_on(const struct table_piece *piece, int rank)
{
    return piece->rank == rank || piece->rank == PIECE_EVERY_RANK;
}

bool piece_shares_rows(const struct table_placement *placement, const struct table_piece *piece)
{
    return piece->column_count < recommender_row_width(placement->model);
}

// Other ranks that hold other columns of the piece's rows: as many numbers of each row come in.
static int other_holders(const struct table_placement *placement, const struct table_piece *piece)
{
    int count = 0;
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *other = &placement->pieces[i];
        count += other->table == piece->table && other->first_row == piece->first_row &&
                 other->rank != piece->rank;
    }
    return count;
}

static double unique_rows(const struct recommender *model, const struct table_workload *workload,
                          const struct table_piece *piece)
{
    const struct table_shape *table = &model->tables[piece->table];
    struct zipf zipf = zipf_make(table->row_count, model->zipf_exponent);
    double requests = (double)workload->global_batch * (double)table->id_count;
    return zipf_unique(&zipf, requests) * piece_row_share(model, piece);
}

struct table_traffic placement_traffic(const struct table_placement *placement,
                                       const struct table_workload *workload, int rank)
{
    assert(rank >= 0 && rank < placement->rank_count);
    const struct recommender *model = placement->model;
    double batch = (double)workload->global_batch;
    double own = batch / placement->rank_count, others = batch - own;
    struct table_traffic traffic = {0};
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        double columns = (double)piece->column_count;
        if (piece->rank == PIECE_EVERY_RANK) continue;
        if (piece->rank != rank) {
            traffic.sums += own * columns;
            continue;
        }
        traffic.ids +=
            others * (double)model->tables[piece->table].id_count * piece_row_share(model, piece);
        traffic.gradients += others * columns;
        if (workload->optimizer == TABLE_ROWWISE && piece_shares_rows(placement, piece))
            traffic.norms += unique_rows(model, workload, piece) * other_holders(placement, piece);
    }
    return traffic;
}

int64_t placement_dense_elements(const struct table_placement *placement)
{
    int64_t elements = recommender_dense_parameters(placement->model);
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        if (piece->rank == PIECE_EVERY_RANK) elements += piece->row_count * piece->column_count;
    }
    return elements;
}
