#pragma once
#include "models/builder.h"
#include "tests/support/random_graph.h"

// Inside of tests/random_graph*.c: the pool of activations (batch, seq, inner dims) that random
// operators read and add to.

enum { POOL_MAX = 40, READERS_MAX = 3 };

struct growth {
    struct arena *arena;
    struct draw *draw;
    const struct random_sizes *sizes;
    struct builder builder;
    int pool[POOL_MAX], readers[POOL_MAX], pool_count;
    int name_count;
};

// tests/support/random_graph_pool.c: names, tensors, ops and who reads what.
const char *growth_fresh(struct growth *g, const char *stem);
const struct tensor *growth_tensor_at(const struct growth *g, int tensor);
int growth_parameter(struct growth *g, struct shape shape);
int growth_activation(struct growth *g, struct shape shape);
int growth_ids(struct growth *g, struct shape shape);
struct op growth_op_named(struct growth *g, enum op_kind kind);
// An op over one or two inputs (b -1) with one new output.
int growth_apply(struct growth *g, struct op op, int a, int b, struct shape shape);
// Joins the pool.
void growth_keep(struct growth *g, int tensor);
// A member of the pool that one more op may read; -1: none is left.
int growth_take(struct growth *g);
// Another member that looks the same; -1: none.
int growth_take_like(struct growth *g, int like);
// Reads more, or fewer, than the one that a take counted.
void growth_recount(struct growth *g, int tensor, int more);
int64_t growth_size_of(const struct growth *g, enum dim dim);
void growth_append(struct shape *shape, struct extent extent);
struct shape growth_tokens(void);
struct shape growth_hidden_shape(const struct growth *g);
bool growth_has_dim(const struct tensor *tensor, enum dim dim);

// tests/support/random_graph.c: single operators. growth_contract: see there.
int growth_contract(struct growth *g, int input, enum dim to);
int growth_to_hidden(struct growth *g, int input);
int growth_normalise(struct growth *g, int input);

// tests/support/random_graph_parts.c: what only makes sense together.
int growth_attend(struct growth *g, int input);
int growth_attend_latent(struct growth *g, int input);
int growth_mix(struct growth *g, int input);
int growth_lose(struct growth *g, int input);
