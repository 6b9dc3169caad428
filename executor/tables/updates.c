#include "executor/tables/lookups.h"

#include <assert.h>
#include <string.h>

// Dense, as all ranks add them up; rows that no sample of this rank asked for are zeros.
void lookups_add_everywhere(struct table_rank *rank)
{
    double *at = rank->dense + rank->towers.parameter_count;
    int64_t width = recommender_row_width(rank->data.model);
    for (int h = 0; h < rank->held_count; h++) {
        struct held_piece *held = &rank->held[h];
        if (held->piece->rank != PIECE_EVERY_RANK) continue;
        assert(held->piece->column_count == width && "what every rank holds is whole");
        int64_t count = held->piece->row_count * width;
        memset(at, 0, (size_t)count * sizeof *at);
        for (int64_t i = 0; i < held->lookup_count; i++) {
            const struct table_lookup *lookup = &held->lookups[i];
            const double *d =
                rank->towers.d_sums +
                (lookup->sample * rank->data.model->table_count + held->piece->table) * width;
            for (int64_t c = 0; c < width; c++)
                at[lookup->row * width + c] += d[c];
        }
        assert(held->piece->column_count == width && "what every rank holds is whole");
        held->gradients = at;
        at += count;
    }
}

// In the order of columns, so that a table that is not cut sums as it would on one rank.
static double square_sum(const double *gradient, int64_t columns)
{
    double sum = 0;
    for (int64_t c = 0; c < columns; c++)
        sum += gradient[c] * gradient[c];
    return sum;
}

// Duplicates first: the square is of the sum.
void lookups_add(struct table_rank *rank)
{
    for (int h = 0; h < rank->held_count; h++) {
        struct held_piece *held = &rank->held[h];
        int64_t columns = held->piece->column_count;
        if (held->piece->rank == PIECE_EVERY_RANK) continue;
        held->unique_count = 0;
        // Look-ups are sorted by row: equal ones are neighbours.
        for (int64_t i = 0; i < held->lookup_count; i++)
            held->unique_count += i == 0 || held->lookups[i].row != held->lookups[i - 1].row;
        held->gradients = ARENA_NEW(rank->arena, double, held->unique_count *columns);
        held->squares = ARENA_NEW(rank->arena, double, held->unique_count);
        for (int64_t i = 0, u = -1; i < held->lookup_count; i++) {
            u += i == 0 || held->lookups[i].row != held->lookups[i - 1].row;
            for (int64_t c = 0; c < columns; c++)
                held->gradients[u * columns + c] +=
                    held->sums[held->lookups[i].sample * columns + c];
        }
        for (int64_t u = 0; u < held->unique_count; u++)
            held->squares[u] = square_sum(held->gradients + u * columns, columns);
    }
}

// Cuts by columns are of the same rows (placement_check): equal first rows say enough.
static bool holds_other_columns(const struct table_piece *a, const struct table_piece *b)
{
    return a->table == b->table && a->first_row == b->first_row &&
           a->first_column != b->first_column;
}

// Numbers that this piece's squares make for the pieces of a rank.
static int64_t squares_for(const struct table_rank *rank, const struct held_piece *held, int to)
{
    const struct table_placement *placement = rank->request->placement;
    int64_t count = 0;
    for (int i = 0; i < placement->piece_count; i++) {
        bool wants = placement->pieces[i].rank == to &&
                     holds_other_columns(held->piece, &placement->pieces[i]);
        count += wants ? held->unique_count : 0;
    }
    return count;
}

// Holders of other columns have seen the same ids: their rows are these, in this order. To each
// rank go, by its pieces and then by this rank's, the squares that it lacks.
const char *lookups_exchange_norms(struct table_rank *rank)
{
    const struct table_placement *placement = rank->request->placement;
    int ranks = placement->rank_count;
    if (rank->request->workload->optimizer != TABLE_ROWWISE) return NULL;
    int64_t *sent = ARENA_NEW(rank->arena, int64_t, ranks), all = 0;
    for (int r = 0; r < ranks; r++) {
        for (int h = 0; h < rank->held_count; h++)
            sent[r] += squares_for(rank, &rank->held[h], r);
        all += sent[r];
    }
    double *from = ARENA_NEW(rank->arena, double, all + 1), *at = from;
    double *to = ARENA_NEW(rank->arena, double, all + 1);
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < placement->piece_count; i++) {
            for (int h = 0; h < rank->held_count; h++) {
                const struct held_piece *held = &rank->held[h];
                if (placement->pieces[i].rank != r ||
                    !holds_other_columns(held->piece, &placement->pieces[i]))
                    continue;
                memcpy(at, held->squares, (size_t)held->unique_count * sizeof *at);
                at += held->unique_count;
            }
        }
    }
    assert(at == from + all && "as many numbers as were counted");
    // As many come from a rank as go there: both have the rows of both.
    const char *failure = rank->request->transport->all_to_all(rank->group, STREAM_EP, ELEMENT_FP32,
                                                               from, sent, to, sent);
    if (failure) return failure;
    for (int r = 0; r < ranks; r++) {
        if (r != rank->request->rank) rank->result->received[TABLE_TASK_NORMS] += (double)sent[r];
        for (int h = 0; h < rank->held_count; h++) {
            struct held_piece *held = &rank->held[h];
            for (int i = 0; i < placement->piece_count; i++) {
                if (placement->pieces[i].rank != r ||
                    !holds_other_columns(held->piece, &placement->pieces[i]))
                    continue;
                for (int64_t u = 0; u < held->unique_count; u++)
                    held->squares[u] += to[u];
                to += held->unique_count;
            }
        }
    }
    return NULL;
}

// The mean is over the whole row, also where this piece has some of its columns.
static void update_row(struct table_rank *rank, struct held_piece *held, int64_t row,
                       const double *gradient, double square)
{
    int64_t columns = held->piece->column_count;
    assert(row >= 0 && row < held->piece->row_count);
    const struct row_update update = {rank->request->workload->optimizer,
                                      rank->request->learning_rate, columns};
    double width = (double)recommender_row_width(rank->data.model);
    row_apply(&update, held->run->weights + row * columns,
              held->run->state + row * held->state_columns, gradient, square / width);
}

void lookups_update(struct table_rank *rank)
{
    for (int h = 0; h < rank->held_count; h++) {
        struct held_piece *held = &rank->held[h];
        int64_t columns = held->piece->column_count;
        if (held->piece->rank == PIECE_EVERY_RANK) {
            for (int64_t r = 0; r < held->piece->row_count; r++) {
                const double *gradient = held->gradients + r * columns;
                update_row(rank, held, r, gradient, square_sum(gradient, columns));
            }
            continue;
        }
        for (int64_t i = 0, u = -1; i < held->lookup_count; i++) {
            if (i > 0 && held->lookups[i].row == held->lookups[i - 1].row) continue;
            u++;
            update_row(rank, held, held->lookups[i].row, held->gradients + u * columns,
                       held->squares[u]);
        }
    }
}
