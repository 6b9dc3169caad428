#include "plan/branches.h"

#include <assert.h>
#include <string.h>

enum { BEGINS_MAX = BLOCK_EDGES };

static const struct block *block_at(const struct graph *graph, int position)
{
    return &graph->blocks[graph->sequence[position]];
}

// Inputs that a block only hands on.
static int handed_on(const struct graph *graph, int position)
{
    int kind = graph->sequence[position], alone = graph->alone[kind];
    return alone < 0 ? 0 : graph->blocks[kind].input_count - graph->blocks[alone].input_count;
}

int branches_begin(const struct graph *graph, int *positions, int room)
{
    int count = 0;
    for (int i = 1; graph->alone && i < graph->sequence_count && count < room; i++)
        if (handed_on(graph, i) == block_at(graph, i)->input_count) positions[count++] = i;
    return count;
}

// An output of the stages so far that nobody has read: whose it is.
struct open_edges {
    int stage[BLOCK_EDGES], count;
};

// How many of its inputs a stage can do without; 0: it gets all that there is.
static int left_out(const struct graph *graph, struct chunk_span span,
                    const struct open_edges *open)
{
    int count = handed_on(graph, span.first), own = open->count - count;
    for (int i = span.first; i < span.first + span.count; i++)
        if (handed_on(graph, i) != count) return 0;
    for (int i = 0; i < own; i++)
        for (int k = own; k < open->count; k++)
            if (open->stage[i] == open->stage[k]) return 0;
    return count;
}

static void close_edges(struct open_edges *open, int stage, int taken, int made, int *next,
                        int *first_edge)
{
    assert(taken >= 0 && taken <= open->count && made + open->count - taken <= BLOCK_EDGES);
    struct open_edges left = {.count = 0};
    for (int i = taken - 1; i >= 0; i--) {
        next[open->stage[i]] = stage;
        first_edge[open->stage[i]] = i;
    }
    for (int i = 0; i < made; i++)
        left.stage[left.count++] = stage;
    for (int i = taken; i < open->count; i++)
        left.stage[left.count++] = open->stage[i];
    *open = left;
}

const struct stage_tree *branches_tree(struct arena *arena, const struct graph *graph,
                                       const struct chunk_span *spans, int stage_count)
{
    assert(stage_count >= 1);
    int *next = ARENA_NEW(arena, int, stage_count), *behind = ARENA_NEW(arena, int, stage_count);
    int *first_edge = ARENA_NEW(arena, int, stage_count);
    bool *is_alone = ARENA_NEW(arena, bool, stage_count), branches = false;
    struct open_edges open = {.count = 0};
    for (int stage = 0; graph->alone && stage < stage_count; stage++) {
        int end = spans[stage].first + spans[stage].count - 1;
        int out = left_out(graph, spans[stage], &open);
        int made = stage + 1 < stage_count ? block_at(graph, end)->output_count - out : 0;
        is_alone[stage] = out > 0;
        branches = branches || out > 0;
        close_edges(&open, stage, open.count - out, made, next, first_edge);
    }
    if (!branches) return NULL;
    assert(open.count == 0 && "the last stage reads what is left");
    next[stage_count - 1] = -1;
    for (int stage = stage_count - 2; stage >= 0; stage--)
        behind[stage] = behind[next[stage]] + 1;
    struct stage_tree *tree = ARENA_NEW(arena, struct stage_tree, 1);
    *tree = (struct stage_tree){next, first_edge, behind, is_alone};
    return tree;
}

static int layers_before(const struct graph *graph, int position)
{
    int count = 0;
    for (int i = 0; i < position; i++)
        count += block_at(graph, i)->role == BLOCK_LAYER;
    return count;
}

bool branches_split(const struct graph *graph, int stage_count, int *stage_layers)
{
    int begins[BEGINS_MAX] = {0}, first[BEGINS_MAX + 2] = {0}, stages[BEGINS_MAX + 1];
    int count = branches_begin(graph, begins, BEGINS_MAX), left = stage_count - count - 1;
    if (count < 1 || left < 0) return false;
    for (int b = 0; b < count; b++)
        first[b + 1] = layers_before(graph, begins[b]);
    first[count + 1] = graph->layer_count;
    for (int b = 0; b <= count; b++)
        stages[b] = 1;
    for (; left > 0; left--) {  // to where a stage has most layers
        int most = 0;
        for (int b = 1; b <= count; b++)
            if ((first[b + 1] - first[b]) * stages[most] >
                (first[most + 1] - first[most]) * stages[b])
                most = b;
        stages[most]++;
    }
    for (int b = 0; b <= count; b++)
        for (int s = 0; s < stages[b]; s++)
            *stage_layers++ = (first[b + 1] - first[b]) * (s + 1) / stages[b] -
                              (first[b + 1] - first[b]) * s / stages[b];
    return true;
}

static const char *hindrance(const struct parallel *parallel)
{
    if (!schedule_row(parallel->schedule)->runs_trees) return "schedules of several chunks a stage";
    return parallel->replica_count > 0 ? "--replica-batches" : NULL;
}

// What follows an encoder reads ids of its own (models/graph.h).
static bool decodes(const struct graph *graph)
{
    for (int i = 0; i < graph->block_count; i++)
        for (int t = 0; t < graph->blocks[i].tensor_count; t++)
            if (strcmp(graph->blocks[i].tensors[t].name, "decoder_token_ids") == 0) return true;
    return false;
}

bool branches_refuse_chain(const struct graph *graph, const char *name, struct err *err)
{
    assert(!graph->alone && "it has branches");
    if (decodes(graph))
        return err_set(
            err, ERR_USAGE,
            "--branches: %s is a chain of blocks, without branches: its decoder reads all "
            "that its encoder makes; --pp gives both stages of their own, --stage-ranks "
            "these as many ranks as it says",
            name);
    return err_set(err, ERR_USAGE, "--branches: %s is a chain of blocks, without branches", name);
}

bool branches_check(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    if (!parallel->branches) return true;
    if (!graph->alone) return branches_refuse_chain(graph, graph->name, err);
    const char *why = hindrance(parallel);
    if (why) return err_set(err, ERR_USAGE, "--branches: not with %s", why);
    int stage_count = parallel->degree[AXIS_PP], begins[BEGINS_MAX] = {0};
    if (stage_count < BRANCHES_STAGES)
        return err_set(
            err, ERR_USAGE,
            "--branches: takes %d stages at least, for what is in front of a branch, the "
            "branch and what joins it; --pp is %d",
            BRANCHES_STAGES, stage_count);
    struct arena scratch = {0};
    struct chunk_span *spans = ARENA_NEW(&scratch, struct chunk_span, stage_count);
    bool is_split = stages_split(graph, parallel, spans, err);
    bool has_tree = is_split && branches_tree(&scratch, graph, spans, stage_count) != NULL;
    arena_free(&scratch);
    if (!is_split || has_tree) return is_split;
    (void)branches_begin(graph, begins, BEGINS_MAX);
    return err_set(
        err, ERR_USAGE,
        "--branches: with --pp %d no stage has a branch for itself; the first one begins "
        "behind layer %d, where a stage has to begin",
        stage_count, layers_before(graph, begins[0]));
}
