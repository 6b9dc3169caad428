#include "executor/tables/lookups.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// What all ranks hold of others: pieces in the order of the placement, rank by rank.
static bool is_on(const struct table_placement *placement, int at, int rank)
{
    return placement->pieces[at].rank == rank;
}

// Weights by their place in the whole table: any placement begins with the same model.
void lookups_make(struct table_rank *rank)
{
    const struct table_placement *placement = rank->request->placement;
    const enum table_optimizer optimizer = rank->request->workload->optimizer;
    struct table_run_result *result = rank->result;
    rank->held = ARENA_NEW(rank->arena, struct held_piece, placement->piece_count);
    result->pieces = ARENA_NEW(rank->arena, struct table_run_piece, placement->piece_count);
    const struct recommender *model = placement->model;
    rank->ids = ARENA_NEW(rank->arena, int64_t *, model->table_count);
    for (int t = 0; t < model->table_count; t++)
        rank->ids[t] =
            ARENA_NEW(rank->arena, int64_t, rank->towers.samples * model->tables[t].id_count);
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        if (!piece_is_on(piece, rank->request->rank)) continue;
        struct table_run_piece *run = &result->pieces[result->piece_count++];
        struct held_piece *held = &rank->held[rank->held_count++];
        int64_t columns = piece->column_count;
        *held = (struct held_piece){.piece = piece, .run = run};
        // Row-wise the state is one number a row, also where columns are cut: each part keeps it.
        held->state_columns = optimizer == TABLE_SGD ? 0 : optimizer == TABLE_ROWWISE ? 1 : columns;
        run->piece = i;
        run->weights = ARENA_NEW(rank->arena, double, piece->row_count *columns);
        run->state = ARENA_NEW(rank->arena, double, piece->row_count * held->state_columns + 1);
        for (int64_t r = 0; r < piece->row_count; r++) {
            for (int64_t c = 0; c < columns; c++)
                run->weights[r * columns + c] = table_data_weight(
                    &rank->data, piece->table, piece->first_row + r, piece->first_column + c);
        }
    }
}

// Ahead of the step, whose time is not to contain it.
void lookups_draw(struct table_rank *rank, int step)
{
    const struct recommender *model = rank->data.model;
    int64_t samples = rank->towers.samples;
    for (int t = 0; t < model->table_count; t++) {
        int64_t ids = model->tables[t].id_count;
        for (int64_t s = 0; s < samples; s++) {
            int64_t sample = rank->request->rank * samples + s;
            for (int64_t i = 0; i < ids; i++)
                rank->ids[t][s * ids + i] = table_data_id(&rank->data, step, sample, t, i);
        }
    }
}

// Of the samples of this rank the ids that fall into a piece, as sample * rows + row: one number
// says both.
static int64_t put_ids(const struct table_rank *rank, const struct table_piece *piece, double *into)
{
    int64_t samples = rank->towers.samples, count = 0;
    int64_t ids = rank->data.model->tables[piece->table].id_count;
    for (int64_t s = 0; s < samples; s++) {
        for (int64_t i = 0; i < ids; i++) {
            int64_t row = rank->ids[piece->table][s * ids + i] - piece->first_row;
            if (row < 0 || row >= piece->row_count) continue;
            // Exact below 2^53: samples and rows are far fewer.
            if (into) into[count] = (double)(s * piece->row_count + row);
            count++;
        }
    }
    return count;
}

// By sample within a row, so that gradients are added in one order.
static int compare_lookups(const void *a, const void *b)
{
    const struct table_lookup *left = a, *right = b;
    if (left->row != right->row) return left->row < right->row ? -1 : 1;
    return left->sample < right->sample ? -1 : left->sample > right->sample;
}

static void take_ids(struct table_rank *rank, struct held_piece *held, const double *ids,
                     int64_t count, int from)
{
    int64_t rows = held->piece->row_count, samples = rank->towers.samples;
    for (int64_t i = 0; i < count; i++) {
        int64_t word = (int64_t)ids[i];
        assert(word >= 0 && word / rows < samples && "a place of another piece or rank");
        held->lookups[held->lookup_count++] =
            (struct table_lookup){word % rows, from * samples + word / rows};
    }
}

// What the planner prices: what a rank has itself does not go over a link.
static void count_received(struct table_rank *rank, enum table_task task, const int64_t *received)
{
    for (int r = 0; r < rank->request->placement->rank_count; r++) {
        if (r != rank->request->rank) rank->result->received[task] += (double)received[r];
    }
}

static void sort_lookups(const struct table_rank *rank)
{
    for (int h = 0; h < rank->held_count; h++)
        qsort(rank->held[h].lookups, (size_t)rank->held[h].lookup_count,
              sizeof(struct table_lookup), compare_lookups);
}

// Counts first, piece by piece; then the ids, to each rank those of its pieces in their order.
const char *lookups_exchange_ids(struct table_rank *rank)
{
    const struct table_placement *placement = rank->request->placement;
    const struct transport *transport = rank->request->transport;
    int ranks = placement->rank_count, pieces = placement->piece_count, me = rank->request->rank;
    int64_t *mine = ARENA_NEW(rank->arena, int64_t, pieces);
    int64_t *all = ARENA_NEW(rank->arena, int64_t, (size_t)pieces * (size_t)ranks);
    int64_t *sent = ARENA_NEW(rank->arena, int64_t, ranks), total = 0, coming = 0;
    int64_t *received = ARENA_NEW(rank->arena, int64_t, ranks);
    for (int i = 0; i < pieces; i++)
        total += mine[i] = put_ids(rank, &placement->pieces[i], NULL);
    const char *failure = transport->host_gather(rank->group, mine, all, pieces);
    if (failure) return failure;
    double *from = ARENA_NEW(rank->arena, double, total + 1);
    int64_t at = 0;
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < pieces; i++) {
            if (is_on(placement, i, r)) {
                at += put_ids(rank, &placement->pieces[i], from + at);
                sent[r] += mine[i];
            }
            if (is_on(placement, i, me)) received[r] += all[(int64_t)r * pieces + i];
        }
        coming += received[r];
    }
    assert(at <= total && "pieces on every rank are counted, and not sent");
    double *to = ARENA_NEW(rank->arena, double, coming + 1);
    failure = transport->all_to_all(rank->group, STREAM_EP, ELEMENT_FP32, from, sent, to, received);
    if (failure) return failure;
    count_received(rank, TABLE_TASK_IDS, received);
    for (int h = 0; h < rank->held_count; h++) {
        struct held_piece *held = &rank->held[h];
        bool is_every = held->piece->rank == PIECE_EVERY_RANK;
        int64_t count = 0;
        for (int r = 0; r < ranks; r++)
            count += is_every ? (r == me) * mine[held->run->piece]
                              : all[(int64_t)r * pieces + held->run->piece];
        held->lookups = ARENA_NEW(rank->arena, struct table_lookup, count);
        held->lookup_count = 0;
        if (!is_every) continue;
        double *own = ARENA_NEW(rank->arena, double, count + 1);
        take_ids(rank, held, own, put_ids(rank, held->piece, own), 0);
    }
    for (int r = 0; r < ranks; r++) {
        for (int h = 0; h < rank->held_count; h++) {
            struct held_piece *held = &rank->held[h];
            if (held->piece->rank == PIECE_EVERY_RANK) continue;
            int64_t count = all[(int64_t)r * pieces + held->run->piece];
            take_ids(rank, held, to, count, r);
            to += count;
        }
    }
    sort_lookups(rank);
    return NULL;
}

static int64_t held_samples(const struct table_rank *rank, const struct held_piece *held)
{
    return held->piece->rank == PIECE_EVERY_RANK ? rank->towers.samples
                                                 : rank->request->workload->global_batch;
}

void lookups_read(struct table_rank *rank)
{
    for (int h = 0; h < rank->held_count; h++) {
        struct held_piece *held = &rank->held[h];
        int64_t columns = held->piece->column_count;
        held->sums = ARENA_NEW(rank->arena, double, held_samples(rank, held) * columns);
        for (int64_t i = 0; i < held->lookup_count; i++) {
            const struct table_lookup *lookup = &held->lookups[i];
            for (int64_t c = 0; c < columns; c++)
                held->sums[lookup->sample * columns + c] +=
                    held->run->weights[lookup->row * columns + c];
        }
    }
}

// Numbers that go between this rank's pieces and one rank's samples.
static int64_t piece_numbers(const struct table_rank *rank, int holder)
{
    const struct table_placement *placement = rank->request->placement;
    int64_t columns = 0;
    for (int i = 0; i < placement->piece_count; i++)
        columns += is_on(placement, i, holder) ? placement->pieces[i].column_count : 0;
    return columns * rank->towers.samples;
}

// Where a piece's columns are in the sums (or their gradients) of this rank's samples.
static double *place_of(const struct table_rank *rank, double *all, const struct table_piece *piece,
                        int64_t sample)
{
    int64_t width = recommender_row_width(rank->data.model);
    assert(piece->first_column + piece->column_count <= width);
    return all + (sample * rank->data.model->table_count + piece->table) * width +
           piece->first_column;
}

// Added, not put: of a table that is cut by rows each piece has a part of the sum.
static void add_columns(const struct table_rank *rank, const struct table_piece *piece,
                        const double *sums)
{
    for (int64_t s = 0; s < rank->towers.samples; s++) {
        double *into = place_of(rank, rank->towers.sums, piece, s);
        for (int64_t c = 0; c < piece->column_count; c++)
            into[c] += sums[s * piece->column_count + c];
    }
}

const char *lookups_exchange_sums(struct table_rank *rank)
{
    const struct table_placement *placement = rank->request->placement;
    int ranks = placement->rank_count;
    int64_t samples = rank->towers.samples, own = piece_numbers(rank, rank->request->rank), all = 0;
    int64_t *sent = ARENA_NEW(rank->arena, int64_t, ranks);
    int64_t *received = ARENA_NEW(rank->arena, int64_t, ranks);
    for (int r = 0; r < ranks; r++) {
        sent[r] = own;
        all += received[r] = piece_numbers(rank, r);
    }
    double *from = ARENA_NEW(rank->arena, double, own *ranks + 1), *at = from;
    double *to = ARENA_NEW(rank->arena, double, all + 1);
    for (int r = 0; r < ranks; r++) {
        for (int h = 0; h < rank->held_count; h++) {
            const struct held_piece *held = &rank->held[h];
            if (held->piece->rank == PIECE_EVERY_RANK) continue;
            int64_t count = samples * held->piece->column_count;
            memcpy(at, held->sums + r * count, (size_t)count * sizeof *at);
            at += count;
        }
    }
    const char *failure = rank->request->transport->all_to_all(rank->group, STREAM_EP, ELEMENT_FP32,
                                                               from, sent, to, received);
    if (failure) return failure;
    assert(at == from + own * ranks && "as many numbers as were counted");
    count_received(rank, TABLE_TASK_SUMS, received);
    int64_t numbers =
        samples * rank->data.model->table_count * recommender_row_width(rank->data.model);
    memset(rank->towers.sums, 0, (size_t)numbers * sizeof(double));
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < placement->piece_count; i++) {
            if (!is_on(placement, i, r)) continue;
            add_columns(rank, &placement->pieces[i], to);
            to += samples * placement->pieces[i].column_count;
        }
    }
    for (int h = 0; h < rank->held_count; h++) {
        if (rank->held[h].piece->rank == PIECE_EVERY_RANK)
            add_columns(rank, rank->held[h].piece, rank->held[h].sums);
    }
    return NULL;
}

const char *lookups_exchange_gradients(struct table_rank *rank)
{
    const struct table_placement *placement = rank->request->placement;
    int ranks = placement->rank_count;
    int64_t samples = rank->towers.samples, own = piece_numbers(rank, rank->request->rank), all = 0;
    int64_t *sent = ARENA_NEW(rank->arena, int64_t, ranks);
    int64_t *received = ARENA_NEW(rank->arena, int64_t, ranks);
    for (int r = 0; r < ranks; r++) {
        received[r] = own;
        all += sent[r] = piece_numbers(rank, r);
    }
    double *from = ARENA_NEW(rank->arena, double, all + 1), *at = from;
    double *to = ARENA_NEW(rank->arena, double, own *ranks + 1);
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < placement->piece_count; i++) {
            const struct table_piece *piece = &placement->pieces[i];
            for (int64_t s = 0; is_on(placement, i, r) && s < samples; s++) {
                memcpy(at, place_of(rank, rank->towers.d_sums, piece, s),
                       (size_t)piece->column_count * sizeof *at);
                at += piece->column_count;
            }
        }
    }
    const char *failure = rank->request->transport->all_to_all(rank->group, STREAM_EP, ELEMENT_FP32,
                                                               from, sent, to, received);
    if (failure) return failure;
    assert(at == from + all && "as many numbers as were counted");
    count_received(rank, TABLE_TASK_GRADIENTS, received);
    // Sums are of no more use: their gradients take their place.
    for (int r = 0; r < ranks; r++) {
        for (int h = 0; h < rank->held_count; h++) {
            const struct held_piece *held = &rank->held[h];
            if (held->piece->rank == PIECE_EVERY_RANK) continue;
            int64_t count = samples * held->piece->column_count;
            memcpy(held->sums + r * count, to, (size_t)count * sizeof *to);
            to += count;
        }
    }
    return NULL;
}
