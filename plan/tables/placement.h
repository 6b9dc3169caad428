#pragma once
#include "core/json_write.h"
#include "models/recommender.h"
#include "plan/offload.h"
#include "topologies/device.h"

// Who holds which part of which table. A table is cut into pieces: rectangles of rows and columns,
// one rank each. Whole tables, ranges of rows and ranges of columns are all pieces, and a small
// table may be whole on every rank (data parallel). Outside of the look-up ranks split the batch;
// so a step changes the layout three times, each time by an all-to-all over all ranks:
//
//   ids          batch -> pieces   to each piece the ids that fall into its rows
//   sums         pieces -> batch   of each piece the sum over a sample's ids, its columns wide;
//                                  sums of pieces of other rows of the table are added there
//   gradients    batch -> pieces   of each sample's sum, to all pieces of the table
//
// Gradients of rows are sparse: of the ids of a step only the different ones. Where a table is cut
// by columns and its optimizer keeps one number a row, ranks that hold the same rows exchange their
// part of the mean of the row's squares: a fourth all-to-all. Tables on every rank look up their
// own samples' ids and all-reduce a dense gradient.
//
// Rows lie in the tables in no order of popularity: a range of a q-th of the rows is asked for in a
// q-th of all look-ups.

enum table_optimizer {
    TABLE_SGD,
    TABLE_ADAGRAD,  // a sum of squares for each number
    TABLE_ROWWISE,  // one a row: the mean of the squares of its gradient (FBGEMM)
    TABLE_OPTIMIZER_COUNT
};
const char *table_optimizer_name(enum table_optimizer optimizer);

enum cache_policy { CACHE_STATIC, CACHE_LRU, CACHE_POLICY_COUNT };
const char *cache_policy_name(enum cache_policy policy);

struct table_workload {
    int64_t global_batch;            // samples a step
    enum precision precision;        // of the dense products and of what ranks exchange
    enum table_optimizer optimizer;  // of the dense parameters too, a number each
    enum cache_policy cache;
};

enum { PIECE_EVERY_RANK = -1 };

struct table_piece {
    int table;
    int64_t first_row, row_count;
    int64_t first_column, column_count;
    int rank;             // or PIECE_EVERY_RANK
    enum tier tier;       // where its rows live
    int64_t cached_rows;  // the hottest of them, copied to the device; 0 on TIER_DEVICE
    int64_t host_rows;    // the same in the host's memory, of TIER_NVME
};

struct table_placement {
    const struct recommender *model;
    int rank_count;
    struct table_piece *pieces;  // by table, then rows, then columns
    int piece_count;
};

enum { WEIGHT_BYTES = 4, GRADIENT_SUM_BYTES = 4 };

// Bytes of a row of so many columns and what its optimizer keeps of it.
int64_t table_row_bytes(enum table_optimizer optimizer, int64_t columns);
// Of an id as it is sent: 4 where all rows can be counted so, else 8.
int table_id_bytes(const struct recommender *model);
// Of a number that ranks exchange: 4, or 2 of runs of 16 bits and less.
int table_exchange_bytes(enum precision precision);
// Bytes that a piece takes of a tier on its rank; copies count where they are.
int64_t piece_bytes(const struct table_piece *piece, enum table_optimizer optimizer,
                    enum tier tier);
// Its share of the table's look-ups.
double piece_row_share(const struct recommender *model, const struct table_piece *piece);
bool piece_is_on(const struct table_piece *piece, int rank);
// Whether another rank holds other columns of the same rows.
bool piece_shares_rows(const struct table_placement *placement, const struct table_piece *piece);

// Every number of every table is in exactly one piece, ranks exist, the cuts of a table by columns
// are of the same rows, what is on every rank is whole and on the device, and ranks divide the
// batch. ERR_INPUT names the first piece that is wrong.
MUST_CHECK bool placement_check(const struct table_placement *placement,
                                const struct table_workload *workload, struct err *err);

// What one rank receives in a step of each exchange, in numbers (ids, elements); sums and gradients
// exactly, ids and norms as expected where rows are cut or ids repeat. What it sends to itself does
// not count.
struct table_traffic {
    double ids, sums, gradients, norms;
};
struct table_traffic placement_traffic(const struct table_placement *placement,
                                       const struct table_workload *workload, int rank);
// What ranks all-reduce of dense gradients: towers and tables that are on every rank.
int64_t placement_dense_elements(const struct table_placement *placement);

// The member "placement" of a plan.
void placement_write(struct json_writer *writer, const struct table_placement *placement);
MUST_CHECK struct table_placement *placement_read(struct arena *arena, const struct json *list,
                                                  const struct recommender *model, int rank_count,
                                                  struct err *err);
void table_workload_write(struct json_writer *writer, const char *key,
                          const struct table_workload *workload);
MUST_CHECK bool table_workload_read(const struct json *object, struct table_workload *workload,
                                    struct err *err);
