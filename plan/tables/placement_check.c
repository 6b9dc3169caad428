#include "plan/tables/placement.h"

#include <assert.h>

// Pieces stand by table, rows, columns: a table is a stack of bands of rows, each cut by columns.

static bool fail(const struct table_placement *placement, int at, const char *what, struct err *err)
{
    const struct table_piece *piece = &placement->pieces[at];
    bool is_known = piece->table >= 0 && piece->table < placement->model->table_count;
    return err_set(err, ERR_INPUT,
                   "placement[%d], %s, rows from %lld, columns from %lld, on rank %d: %s", at,
                   is_known ? placement->model->tables[piece->table].name : "no table",
                   (long long)piece->first_row, (long long)piece->first_column, piece->rank, what);
}

static bool check_piece(const struct table_placement *placement, int at, struct err *err)
{
    const struct table_piece *piece = &placement->pieces[at];
    const struct recommender *model = placement->model;
    bool is_every = piece->rank == PIECE_EVERY_RANK;
    if (!is_every && (piece->rank < 0 || piece->rank >= placement->rank_count))
        return fail(placement, at, "there is no such rank", err);
    bool is_whole = piece->row_count == model->tables[piece->table].row_count &&
                    piece->column_count == recommender_row_width(model);
    if (is_every && (!is_whole || piece->tier != TIER_DEVICE))
        return fail(placement, at, "what is on every rank is a whole table on the device", err);
    if (piece->cached_rows > piece->row_count || piece->host_rows > piece->row_count)
        return fail(placement, at, "more copies than rows", err);
    if (piece->tier == TIER_DEVICE && piece->cached_rows > 0)
        return fail(placement, at, "rows on the device need no copy there", err);
    if (piece->tier != TIER_NVME && piece->host_rows > 0)
        return fail(placement, at, "only rows on NVMe have copies on the host", err);
    return true;
}

// One band: the columns of the same rows, one behind the other. Returns the piece behind it, -1 and
// a set error where they are wrong.
static int check_band(const struct table_placement *placement, int at, struct err *err)
{
    assert(at >= 0 && at < placement->piece_count);
    const struct table_piece *first = &placement->pieces[at];
    int64_t column = 0, width = recommender_row_width(placement->model);
    while (column < width) {
        const struct table_piece *piece = &placement->pieces[at];
        bool is_next = at < placement->piece_count && piece->table == first->table &&
                       piece->first_row == first->first_row &&
                       piece->row_count == first->row_count && piece->first_column == column &&
                       piece->column_count > 0 && piece->column_count <= width - column;
        int shown = at < placement->piece_count ? at : at - 1;
        if (!is_next) {
            fail(placement, shown, "its columns do not follow those before it", err);
            return -1;
        }
        if (!check_piece(placement, at, err)) return -1;
        column += piece->column_count;
        at++;
    }
    return at;
}

bool placement_check(const struct table_placement *placement, const struct table_workload *workload,
                     struct err *err)
{
    const struct recommender *model = placement->model;
    int at = 0;
    for (int table = 0; table < model->table_count; table++) {
        int64_t row = 0, rows = model->tables[table].row_count;
        while (row < rows) {
            if (at >= placement->piece_count)
                return err_set(err, ERR_INPUT, "placement: %s has no piece from row %lld on",
                               model->tables[table].name, (long long)row);
            const struct table_piece *piece = &placement->pieces[at];
            bool is_next = piece->table == table && piece->first_row == row &&
                           piece->row_count > 0 && piece->row_count <= rows - row;
            if (!is_next) return fail(placement, at, "its rows do not follow those before it", err);
            row += piece->row_count;
            at = check_band(placement, at, err);
            if (at < 0) return false;
        }
    }
    if (at < placement->piece_count) return fail(placement, at, "there is no such table left", err);
    if (workload->global_batch % placement->rank_count == 0) return true;
    return err_set(err, ERR_USAGE, "--global-batch: %d ranks do not divide %lld samples",
                   placement->rank_count, (long long)workload->global_batch);
}
