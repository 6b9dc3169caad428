#pragma once
#include "tests/support/test.h"

#include "executor/engine/engine.h"

// An engine of one rank that has what its figures need and nothing else. What the other ranks say
// when all are asked stands in `world`, one question after the other; of this rank it is what it
// says itself.

enum { BENCH_TURNS = 2 };

struct group {
    int rank, rank_count, turn;
    const int64_t *said[BENCH_TURNS];  // [rank][count]
    int counts[BENCH_TURNS];
    const char *fault;  // of question `fault_turn`
    int fault_turn;
};

struct rank_bench {
    struct backend backend;
    struct transport transport;
    struct corpus corpus;
    struct run_options options;
    struct run_request request;
    struct node_group nodes;
    struct cluster cluster;
    struct program program;
    struct script script;
    struct group world;
    struct err err;
    struct engine engine;
};

// The engine lives in the bench, what it takes in `arena`. Its communicator is the rank's number.
struct engine *rank_bench_open(struct arena *arena, struct rank_bench *bench, int rank,
                               int rank_count);
