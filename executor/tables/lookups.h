#pragma once
#include "executor/tables/parts.h"

// The sparse part of a rank: what its pieces are asked for, give and learn.

struct table_lookup {
    int64_t row;     // in the piece
    int64_t sample;  // of the step
};

struct held_piece {
    const struct table_piece *piece;
    struct table_run_piece *run;
    int64_t state_columns;
    struct table_lookup *lookups;  // of a step, sorted by row and then sample
    int64_t lookup_count;
    double *sums;       // [samples of the step][columns]; of a table on every rank: of the rank's
    double *gradients;  // [different rows][columns] once added up; on every rank [rows][columns]
    double *squares;    // [different rows], of the whole row
    int64_t unique_count;
};

struct table_rank {
    struct arena *arena;
    const struct table_run_request *request;
    struct table_run_result *result;
    struct group *group;
    struct table_data data;
    struct towers towers;
    struct held_piece *held;
    int held_count;
    int64_t **ids;  // [table] of this rank's samples in this step, drawn ahead
    double *dense;  // gradients that all ranks add up: towers, then tables on every rank
};

void lookups_make(struct table_rank *rank);
void lookups_draw(struct table_rank *rank, int step);
const char *lookups_exchange_ids(struct table_rank *rank);
void lookups_read(struct table_rank *rank);
const char *lookups_exchange_sums(struct table_rank *rank);
const char *lookups_exchange_gradients(struct table_rank *rank);
// Dense gradients of tables on every rank, into rank->dense.
void lookups_add_everywhere(struct table_rank *rank);
// Gradients of different rows, those of equal ids added up.
void lookups_add(struct table_rank *rank);
const char *lookups_exchange_norms(struct table_rank *rank);
void lookups_update(struct table_rank *rank);
