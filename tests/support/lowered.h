#pragma once
#include "models/import.h"
#include "plan/lower/lower.h"

// Blocks of real models, lowered, and what the known answers of the design are counted in.

enum { LOWERED_SEQ = 2048, ANY_PHASE = PHASE_COUNT };

struct setup {
    const char *model;
    int tp, cp, dp, ep, etp;  // 0 = 1
    enum cp_kind cp_kind;
    bool sp, unfused, dropout;
    int zero, micro_batch;
    enum recompute recompute;
    unsigned recompute_classes;
    unsigned passes;  // beside combine
    int64_t seq_len;  // 0 = LOWERED_SEQ
    double expert_imbalance, capacity_factor;
    unsigned joins;
    bool zigzag;
};

struct lowered {
    struct graph *graph;
    struct mesh mesh;
    struct parallel parallel;
    struct block_program *program;
};

// The block at this position of the sequence: 0 the embedding, 1 a layer, -1 the head.
struct lowered lowered_make(struct arena *arena, struct setup setup, int position);
// How many collectives of a kind a phase has; each must have this payload unless it is 0.
// Recomputed ones, inner reductions and parameters apart.
int lowered_count(const struct lowered *l, int phase, enum collective collective, int64_t bytes);
int lowered_count_all(const struct lowered *l);  // slices apart
// Bytes of the hidden states of a micro-batch.
int64_t lowered_hidden_bytes(const struct lowered *l);
const struct parameter *lowered_parameter(const struct lowered *l, const char *name);
// Bytes of the buffers of this tensor that are kept for backward.
int64_t lowered_saved_bytes(const struct lowered *l, const char *name);
