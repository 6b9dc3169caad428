#include "models/pt2/rules.h"

#include <string.h>

// Recurrences and bags of rows, which ATen has as one operator each.

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

static const char *put_reshape(const struct pt2_node *node, const char *x, const int64_t *dims,
                               int rank, const char *output)
{
    const char *name = output ? output : draft_between(node->draft);
    const char *const inputs[] = {x, draft_list(node->draft, dims, rank)};
    draft_put(node->draft, "Reshape", name, 2, inputs);
    return name;
}

// One matrix of each direction behind the other, or both biases of each side by side: ONNX has
// these as one weight, of as many numbers.
static const char *put_directions(const struct pt2_node *node, const struct draft_value *first,
                                  int directions, int together)
{
    int64_t *dims = ARENA_NEW(node->program->arena, int64_t, 3);
    dims[0] = directions;
    dims[1] = first->dims[0] * together;
    dims[2] = first->rank > 1 ? first->dims[1] : 0;
    const struct draft_value joined = {.name = draft_between(node->draft),
                                       .element = first->element,
                                       .rank = first->rank + 1,
                                       .dims = dims};
    draft_constant(node->draft, &joined);
    return joined.name;
}

struct recurrence {
    const char *type;
    int64_t places, batch, hidden, directions;
    bool has_biases, is_turned;  // turned: samples stand in front of places
    int each;                    // weights of a direction
};

// One layer; returns what it makes at each place, as (places, batch, directions x hidden), or
// turned.
static const char *put_layer(const struct pt2_node *node, const struct recurrence *r, const char *x,
                             const struct draft_value *const *weights, const char *output,
                             const char *states[2])
{
    int directions = (int)r->directions;
    const char *inputs[4] = {x, put_directions(node, weights[0], directions, 1),
                             put_directions(node, weights[1], directions, 1)};
    if (r->has_biases) inputs[3] = put_directions(node, weights[2], directions, 2);
    const char *made = draft_between(node->draft), *turned = draft_between(node->draft);
    Onnx__NodeProto *proto = draft_put(node->draft, r->type, made, r->has_biases ? 4 : 3, inputs);
    draft_put_int(node->draft, proto, "hidden_size", r->hidden);
    draft_put_int(node->draft, proto, "layout", r->is_turned);
    if (directions == 2) draft_put_text(node->draft, proto, "direction", "bidirectional");
    const int64_t swapped[] = {1, 0, 2};
    for (int s = 0; s < (strcmp(r->type, "LSTM") == 0 ? 2 : 1); s++) {
        const char *state = states[s] = draft_between(node->draft);
        draft_put_output(node->draft, proto, state);
        if (!r->is_turned) continue;
        states[s] = draft_between(node->draft);
        draft_put_ints(node->draft, draft_put(node->draft, "Transpose", states[s], 1, &state),
                       "perm", swapped, 3);
    }
    const int64_t plain[] = {0, 2, 1, 3};
    const int64_t dims[] = {r->is_turned ? r->batch : r->places,
                            r->is_turned ? r->places : r->batch, r->directions * r->hidden};
    bool moves = !r->is_turned && directions == 2;
    if (moves)
        draft_put_ints(node->draft, draft_put(node->draft, "Transpose", turned, 1, &made), "perm",
                       plain, 4);
    return put_reshape(node, moves ? turned : made, dims, 3, output);
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first): states
// at the start are taken for zeros; those at the end stand by layers.
bool pt2_recurrent(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = node->outputs[0];
    int count = 0;
    const struct draft_value **weights = x && out ? pt2_tensors(node, "params", &count) : NULL;
    if (!weights) return false;
    struct recurrence r = {.type = type,
                           .directions = pt2_bool(node, "bidirectional", false) ? 2 : 1,
                           .has_biases = pt2_bool(node, "has_biases", true),
                           .is_turned = pt2_bool(node, "batch_first", false)};
    int64_t layers = pt2_int(node, "num_layers", 1);
    r.each = r.has_biases ? 4 : 2;
    bool is_right = x->rank == 3 && layers > 0 && count == layers * r.directions * r.each;
    for (int i = 0; i < count && is_right; i++)
        is_right = weights[i]->rank == (i % r.each < 2 ? 2 : 1);
    if (!is_right)
        return is_clean(node) ? pt2_fail(node, "a batch of sequences and the weights of each layer "
                                               "are wanted, without projections")
                              : false;
    r.places = x->dims[r.is_turned];
    r.batch = x->dims[!r.is_turned];
    r.hidden = weights[1]->dims[1];
    const char *name = x->name, **ends[2];
    for (int s = 0; s < 2; s++)
        ends[s] = ARENA_NEW(node->program->arena, const char *, layers);
    for (int l = 0; l < layers && is_clean(node); l++) {
        const char *output = l + 1 == layers ? out->name : NULL, *states[2] = {NULL, NULL};
        name = put_layer(node, &r, name, weights + l * r.directions * r.each, output, states);
        ends[0][l] = states[0];
        ends[1][l] = states[1];
    }
    for (int s = 0; s + 1 < node->output_count && s < 2 && is_clean(node); s++)
        if (node->outputs[s + 1] && ends[s][0])
            draft_put_int(
                node->draft,
                draft_put(node->draft, "Concat", node->outputs[s + 1]->name, (int)layers, ends[s]),
                "axis", 0);
    return is_clean(node);
}

bool pt2_embedding_bag(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *table = pt2_first(node), *out = node->outputs[0];
    const struct draft_value *indices = pt2_tensor(node, "indices");
    if (!table || !out || !indices || out->rank != 2)
        return is_clean(node) ? pt2_fail(node, "a table and indices are wanted") : false;
    const char *const inputs[] = {table->name, indices->name};
    draft_put_int(node->draft, draft_put(node->draft, "EmbeddingBag", out->name, 2, inputs), "bags",
                  out->dims[0]);
    for (int i = 1; i < node->output_count && is_clean(node); i++)
        if (node->outputs[i]) draft_unknown(node->draft, node->outputs[i]);
    return is_clean(node);
}
