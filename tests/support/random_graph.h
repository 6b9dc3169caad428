#pragma once
#include "models/graph.h"
#include "tests/support/draw.h"

struct arena;

// Random blocks that no model has, for what must hold of every block: products with random dims,
// sums, norms, attention of both forms, experts, parallel branches, shared inputs. Every parameter
// and every activation has its part in the output, so that all of them have a gradient.

struct random_sizes {
    int64_t kv_heads, heads_per_kv_head, head_dim, hidden, ffn, vocab;
    int64_t experts;  // 0: none
    bool flash;       // attention as one op, else as a chain
};

struct block *random_block(struct arena *arena, struct draw *draw, const struct random_sizes *sizes,
                           enum block_role role);
