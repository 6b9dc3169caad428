#include "memory/stage_draft.h"

#include <assert.h>

// Places for what lives while other micro-batches work. Micro-batches pass through a stage in
// order, so that those of one kind of tensor that live at once are neighbours: micro-batch k can
// have the place k modulo as many as that are, whichever k.

struct lifetime {
    int first, last;  // slots
};

// Tensors of one value of one block, by micro-batch.
struct group {
    int chunk, position, value;
    int *tensors;  // roots; -1
    bool is_held;
};

struct holding {
    struct draft *draft;
    int *root;                   // by tensor: the first of those that share its memory
    int *newest;                 // by root: the last of them
    struct lifetime *lifetimes;  // by root
    struct group *groups;
    int group_count;
};

static void touch(struct holding *holding, int tensor, int slot)
{
    struct lifetime *of = &holding->lifetimes[holding->root[tensor]];
    if (slot < 0) return;
    if (of->first < 0 || slot < of->first) of->first = slot;
    if (slot > of->last) of->last = slot;
}

static void find_lifetimes(struct holding *holding)
{
    struct draft *draft = holding->draft;
    for (int t = 0; t < draft->tensor_count; t++) {
        int shares = draft->tensors[t].shares;
        assert(shares < t);
        holding->root[t] = shares < 0 ? t : holding->root[shares];
        holding->newest[holding->root[t]] = t;
        holding->lifetimes[t] = (struct lifetime){-1, -1};
    }
    for (int o = 0; o < draft->operator_count; o++) {
        const struct draft_operator *operator= & draft->operators[o];
        for (int i = 0; i < operator->inputs.count; i++)
            touch(holding, operator->inputs.items[i], operator->slot);
        for (int i = 0; i < operator->outputs.count; i++)
            touch(holding, operator->outputs.items[i], operator->slot);
    }
}

static bool is_foreign(const struct holding *holding, int tensor)
{
    const struct lifetime *of = &holding->lifetimes[tensor];
    for (int slot = of->first; slot >= 0 && slot <= of->last; slot++) {
        int other = holding->draft->slots->slots[slot].micro_batch;
        if (other != holding->draft->tensors[tensor].micro_batch) return true;
    }
    return false;
}

// Groups by (chunk, position, value), found through a table: values of one block are numbered from
// 0, and the widest block says how many there may be.
static void find_groups(struct holding *holding)
{
    struct draft *draft = holding->draft;
    int chunks = 0, positions = 0, values = 0;
    for (int t = 0; t < draft->tensor_count; t++) {
        const struct draft_tensor *tensor = &draft->tensors[t];
        if (tensor->chunk >= chunks) chunks = tensor->chunk + 1;
        if (tensor->position >= positions) positions = tensor->position + 1;
        if (tensor->value >= values) values = tensor->value + 1;
    }
    int *found = ARENA_NEW(draft->arena, int, chunks *positions *values);
    holding->groups = ARENA_NEW(draft->arena, struct group, draft->tensor_count);
    for (int t = 0; t < draft->tensor_count; t++) {
        const struct draft_tensor *tensor = &draft->tensors[t];
        if (holding->root[t] != t || tensor->value < 0) continue;
        int key = (tensor->chunk * positions + tensor->position) * values + tensor->value;
        if (!found[key]) {
            struct group *made = &holding->groups[holding->group_count++];
            *made = (struct group){tensor->chunk, tensor->position, tensor->value, NULL, false};
            made->tensors = ARENA_NEW(draft->arena, int, draft->slots->micro_batches);
            for (int k = 0; k < draft->slots->micro_batches; k++)
                made->tensors[k] = -1;
            found[key] = holding->group_count;
        }
        struct group *group = &holding->groups[found[key] - 1];
        group->tensors[tensor->micro_batch] = t;
        group->is_held = group->is_held || is_foreign(holding, t);
    }
}

// The fewest places with which none is taken before it is free.
static int depth_of(const struct holding *holding, const struct group *group)
{
    int count = holding->draft->slots->micro_batches;
    for (int depth = 1; depth < count; depth++) {
        bool is_free = true;
        for (int k = 0; k + depth < count && is_free; k++) {
            int before = group->tensors[k], next = group->tensors[k + depth];
            if (before < 0 || next < 0) continue;
            is_free = holding->lifetimes[next].first > holding->lifetimes[before].last;
        }
        if (is_free) return depth;
    }
    return count;
}

static int make_place(struct holding *holding, int like, int residue)
{
    struct draft *draft = holding->draft;
    struct draft_tensor place = draft->tensors[like];
    place.name = arena_print(draft->arena, "held %d %s", residue, place.name);
    place.producer = place.shares = place.value = place.buffer = -1;
    place.kept = true;
    int tensor = draft_tensor_add(draft, &place);
    draft_makes(draft, 0, tensor);
    return tensor;
}

// Each is written over the one that had the place before.
static void hold(struct holding *holding, const struct group *group)
{
    struct draft *draft = holding->draft;
    int depth = depth_of(holding, group);
    for (int residue = 0; residue < depth; residue++) {
        int place = -1;
        for (int k = residue; k < draft->slots->micro_batches; k += depth) {
            int tensor = group->tensors[k];
            if (tensor < 0) continue;
            if (place < 0) place = make_place(holding, tensor, residue);
            draft->tensors[tensor].shares = place;
            draft->tensors[tensor].overwrites = true;
            draft->tensors[tensor].turns = depth;
            draft_reads(draft, draft->tensors[tensor].producer, place);
            place = holding->newest[tensor];
        }
    }
}

void draft_hold_places(struct draft *draft)
{
    struct holding holding = {
        .draft = draft,
        .root = ARENA_NEW(draft->arena, int, draft->tensor_count),
        .newest = ARENA_NEW(draft->arena, int, draft->tensor_count),
        .lifetimes = ARENA_NEW(draft->arena, struct lifetime, draft->tensor_count),
    };
    int tensor_count = draft->tensor_count;
    find_lifetimes(&holding);
    find_groups(&holding);
    for (int i = 0; i < holding.group_count; i++) {
        if (holding.groups[i].is_held) hold(&holding, &holding.groups[i]);
    }
    for (int t = 0; t < tensor_count; t++)
        draft->tensors[t].turns = draft->tensors[holding.root[t]].turns;
}
