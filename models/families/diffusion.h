#pragma once
#include "models/builder.h"

// What blocks of diffusion transformers are made of (Peebles and Xie 2023; Chen et al. 2023): norms
// without weights that what conditions all blocks alike scales and shifts, gated branches, products
// with a bias, waves of the step, and the mean square of what is said of the noise.

struct diffusion {
    struct builder builder;
    int64_t hidden, head_count, head_dim;
};

struct extent diffusion_hidden(const struct diffusion *d);
// The waves that a step, a frame rate or a guidance is read as.
enum { DIFFUSION_WAVES = 256 };

int diffusion_activation(struct diffusion *d, const char *name, struct shape shape);
int diffusion_data(struct diffusion *d, const char *name, struct shape shape);
// Appends an op whose output has this shape and the op's name.
int diffusion_append(struct diffusion *d, struct op op, struct shape shape);
int diffusion_add(struct diffusion *d, const char *name, int x, int y);

// A product with a new matrix, and a bias.
struct diffusion_linear {
    const char *name;
    struct shape weight, bias, output;
    enum op_class class;
};
int diffusion_project(struct diffusion *d, int x, struct diffusion_linear linear);

int diffusion_apply(struct diffusion *d, const char *name, int x, enum function function);
// (scalar + gate) * x
int diffusion_modulate(struct diffusion *d, const char *name, int gate, int x, double scalar);
// The same under another name: an einsum cannot name what it reads and what it makes alike.
int diffusion_rename_hidden(struct diffusion *d, const char *name, int x);
// norm(x) (1 + scale) + shift
int diffusion_adapt(struct diffusion *d, const char *prefix, int x, int shift, int scale);
// Two products with a function between, as steps and texts are embedded.
int diffusion_embed(struct diffusion *d, const char *name, int x, struct shape inner,
                    struct shape outer, enum function function);
int diffusion_embed_vector(struct diffusion *d, const char *name, int x);
int diffusion_embed_waves(struct diffusion *d, const char *name, const char *waves);
// To heads, whose number and width are the last two dims of `output`, and from them.
int diffusion_to_heads(struct diffusion *d, const char *name, int x, struct shape output);
int diffusion_from_heads(struct diffusion *d, const char *name, int x, struct shape output);
// The norm of each head of queries or keys.
int diffusion_head_norm(struct diffusion *d, const char *name, int x);
int diffusion_rotate(struct diffusion *d, const char *name, int x, struct op rotation);
// Two products with gelu between, inside every token: "PREFIX.up" and "PREFIX.down".
int diffusion_feed_forward(struct diffusion *d, const char *prefix, int x, int64_t ffn);
// From queries, keys and values to what heads make of them.
int diffusion_attend(struct diffusion *d, const char *prefix, int query, int key, int value);
// What a head ends in; `rows` are those that have a loss each. Of the data "target", of the same
// shape.
void diffusion_end(struct diffusion *d, int x, int target, struct shape rows);
