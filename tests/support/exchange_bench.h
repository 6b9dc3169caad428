#pragma once
#include "tests/support/rank_bench.h"

// An engine that is rank 1 of three ranks of tp and has a block of one instruction on a tensor of
// rows and columns, and what it said to its back end and its transport, which say the others'
// numbers: of the j-th member 100 (j + 1), 100 (j + 1) + 1 ...

enum { EXCHANGE_RANKS = 3, EXCHANGE_ROOM = 96 };

struct exchange_bench {
    struct rank_bench rank;
    struct engine *engine;
    struct tensor tensor;
    struct buffer buffers[3];
    struct instr instr;
    struct block block;
    struct block_program program, *blocks[1];
    struct script_operand inputs[3], outputs[2];
    struct script_task task;
    struct script_parameter parameters[2];
    struct script_unit units[2];
    struct parameter known[2];
    struct script_bucket bucket;
    int bucket_units[2];
    struct step_graph graph;
    struct prepared prepared[1];
    double from[EXCHANGE_ROOM], to[EXCHANGE_ROOM], staged[2][EXCHANGE_ROOM];
};

struct exchange_said {
    char called;  // the last: 'g'athered, 's'cattered, 'r'educed, 'a'll to all; 0: none
    enum element element_of;
    int64_t counts_of[EXCHANGE_RANKS], received_of[EXCHANGE_RANKS], count_of;
    enum combine combined;
    const void *from_of;
    void *to_of;
    double handed[EXCHANGE_ROOM];  // of what it left, all to all or to be scattered
    const char *fault;             // what the transport answers
    enum copy_kind copied;
    int copies, copied_bytes, widened_count, filled_bytes;
    int sent_to, received_from, channels[2];
    int64_t sent_count, received_count;
};
extern struct exchange_said said;

// Rank 1, whose input has 10 times the row and the column, as long as it has all of them: the
// numbers at `from`. The output begins at `to`. Everything is a double.
struct engine *exchange_open(struct arena *arena, struct exchange_bench *bench, int rows,
                             int columns);
// A task of this kind on one bucket of two units of a parameter each, 7 and 4 numbers: gradients
// from 3 on of the numbers at `from`, weights from 20, moments from 60, where each is its index.
struct engine *exchange_open_bucket(struct arena *arena, struct exchange_bench *bench,
                                    enum task_kind kind);
void exchange_set_storage(struct exchange_bench *bench, struct storage storage);
// Ends the step: bytes of its task, and what rank 1 has sent to the others.
void exchange_check_sent(struct exchange_bench *bench, double measured, double to_0, double to_2);
void exchange_check_counts(const int64_t *counts, int64_t a, int64_t b, int64_t c);
void exchange_check_numbers(const double *is, const double *wanted, int count);
