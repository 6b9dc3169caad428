#include "plan/stages.h"

#include "plan/branches.h"

#include <assert.h>

// A multi-token prediction module, which is a layer by its work, cannot be parted from the head.
static int module_count(const struct graph *graph)
{
    return graph->blocks[graph->sequence[graph->sequence_count - 2]].mtp;
}

// Other software sums tied parameters over the first stage and the last one: what three places of a
// model read, or every layer, two stages may share there, or none but one.
static bool check_ties(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    int stages = parallel->degree[AXIS_PP], most = graph->stage_count_max;
    if (!graph->ties_are_wide || stages == 1) return true;
    if (most > 0 && stages > most)
        return err_set(
            err, ERR_USAGE,
            "--pp %d: so many stages cannot share the parameters that several blocks of %s read; "
            "the most is %d, but any number with --stack meshwright",
            stages, graph->name, most);
    return parallel->vpp == 1 ||
           err_set(
               err, ERR_USAGE,
               "--vpp %d: stages of %s that share parameters have one chunk each; the most is 1",
               parallel->vpp, graph->name);
}

static bool check_layers(const struct graph *graph, const struct parallel *parallel,
                         struct err *err)
{
    int stages = parallel->degree[AXIS_PP], chunks = parallel->vpp, layers = graph->layer_count;
    assert(stages >= 1 && chunks >= 1 && layers >= 1);
    // Embedding and head count as a layer each: the first and the last chunk may hold nothing else.
    layers += 2 - module_count(graph);
    if (stages > layers) {
        return err_set(
            err, ERR_USAGE,
            "--pp %d: %d layers, embedding and head included, cannot fill %d stages; the "
            "most is %d",
            stages, layers, stages, layers);
    }
    if ((int64_t)stages * chunks > layers) {
        return err_set(err, ERR_USAGE,
                       "--vpp %d: %d layers, embedding and head included, cannot fill %d chunks on "
                       "%s%d stage%s; the most is %d",
                       chunks, layers, chunks, stages == 1 ? "" : "each of ", stages,
                       stages == 1 ? "" : "s", layers / stages);
    }
    return check_ties(graph, parallel, err);
}

// Layers of one virtual stage when nothing is pinned. What is left over goes to the middle, from
// the back: the first stages hold the most micro-batches, the last one the logits.
static int free_layers(int layers, int modules, int virtual_count, int virtual_stage)
{
    bool is_first = virtual_stage == 0, is_last = virtual_stage == virtual_count - 1;
    if (layers % virtual_count == 0) return layers / virtual_count;
    int first_units = modules ? 0 : 1, last_units = 1 + modules;
    int units = layers + first_units + last_units;
    int each = units / virtual_count, left = units % virtual_count;
    // Where that is more than a share, the last stage is the head with its module.
    if (modules && each < last_units + modules) {
        int others = free_layers(layers - modules, 0, virtual_count, virtual_stage);
        return others + (is_last ? modules : 0);
    }
    int place = is_last ? virtual_count - 1 : virtual_count - 2 - virtual_stage;
    return each + (place < left) - is_first * first_units - is_last * last_units;
}

static struct schedule_shape shape_of(const struct parallel *parallel)
{
    return (struct schedule_shape){parallel->degree[AXIS_PP], parallel->vpp, 1, 0, NULL};
}

// The stage that the embedding's chunk is on, and the head's; a chunk may hold nothing else, but
// for the head's with a module.
struct ends {
    int first_stage, first_chunk, last_stage, last_chunk;
    bool head_alone;
};

static struct ends ends_of(const struct graph *graph, const struct parallel *parallel)
{
    const struct schedule_row *row = schedule_row(parallel->schedule);
    struct schedule_shape shape = shape_of(parallel);
    int last = shape.stage_count * shape.chunk_count - 1;
    return (struct ends){row->stage_of(&shape, 0), row->chunk_of(&shape, 0),
                         row->stage_of(&shape, last), row->chunk_of(&shape, last),
                         module_count(graph) == 0};
}

// The fewest layers that fill the chunks of a stage.
static int least_layers(const struct ends *ends, const struct parallel *parallel, int stage)
{
    bool is_last = stage == ends->last_stage && ends->head_alone;
    return parallel->vpp - (stage == ends->first_stage) - is_last;
}

static bool check_pinned(const struct graph *graph, const struct parallel *parallel,
                         struct err *err)
{
    int count = parallel->stage_layers_count, stages = parallel->degree[AXIS_PP];
    if (count == 0) return true;
    if (count != stages) {
        return err_set(err, ERR_USAGE, "--stages: %d numbers for --pp %d; one a stage is wanted",
                       count, stages);
    }
    struct ends ends = ends_of(graph, parallel);
    int64_t sum = 0;
    for (int stage = 0; stage < count; stage++) {
        int least = least_layers(&ends, parallel, stage);
        if (parallel->stage_layers[stage] < least) {
            return err_set(err, ERR_USAGE,
                           "--stages: %d layers for stage %d; its chunks need %d at least",
                           parallel->stage_layers[stage], stage, least);
        }
        sum += parallel->stage_layers[stage];
    }
    if (sum == graph->layer_count) return true;
    return err_set(err, ERR_USAGE, "--stages: the numbers add up to %lld; the model has %d layers",
                   (long long)sum, graph->layer_count);
}

// Whether branches have stages of their own, which then have so many layers, each of one chunk.
static bool split_by_branch(const struct graph *graph, const struct parallel *parallel,
                            int layers[STAGE_MAX])
{
    bool may_be = parallel->branches && parallel->vpp == 1;
    return may_be && branches_split(graph, parallel->degree[AXIS_PP], layers);
}

bool stages_are_free(const struct graph *graph, const struct parallel *parallel)
{
    const struct schedule_row *row = schedule_row(parallel->schedule);
    struct schedule_shape shape = shape_of(parallel);
    int virtual_count = shape.stage_count * shape.chunk_count;
    int left[STAGE_MAX], of_branches[STAGE_MAX];
    if (parallel->stage_layers_count == 0) return true;
    for (int stage = 0; stage < shape.stage_count; stage++)
        left[stage] = parallel->stage_layers[stage];
    bool is_branched = split_by_branch(graph, parallel, of_branches);
    for (int v = 0; v < virtual_count; v++)
        left[row->stage_of(&shape, v)] -=
            is_branched ? of_branches[v]
                        : free_layers(graph->layer_count, module_count(graph), virtual_count, v);
    for (int stage = 0; stage < shape.stage_count; stage++)
        if (left[stage] != 0) return false;
    return true;
}

// Evenly, but where there are fewer layers than chunks embedding and head fill theirs alone.
static int pinned_layers(const struct ends *ends, const struct parallel *parallel, int stage,
                         int chunk)
{
    int layers = parallel->stage_layers[stage], short_of = parallel->vpp - layers;
    if (short_of <= 0) return layers / parallel->vpp + (chunk < layers % parallel->vpp);
    if (stage == ends->first_stage && short_of-- > 0 && chunk == ends->first_chunk) return 0;
    return !(stage == ends->last_stage && short_of > 0 && chunk == ends->last_chunk);
}

bool stages_split(const struct graph *graph, const struct parallel *parallel,
                  struct chunk_span *spans, struct err *err)
{
    if (!check_layers(graph, parallel, err) || !check_pinned(graph, parallel, err)) return false;
    if (!spans) return true;
    const struct schedule_row *row = schedule_row(parallel->schedule);
    struct schedule_shape shape = shape_of(parallel);
    struct ends ends = ends_of(graph, parallel);
    bool is_free = stages_are_free(graph, parallel);
    int of_branches[STAGE_MAX];
    bool is_branched = is_free && split_by_branch(graph, parallel, of_branches);
    int virtual_count = shape.stage_count * shape.chunk_count, first = 0;
    int before = 0;  // blocks in front of the layers go with the first of them
    while (graph->blocks[graph->sequence[before]].role != BLOCK_LAYER)
        before++;
    for (int v = 0; v < virtual_count; v++) {
        int stage = row->stage_of(&shape, v), chunk = row->chunk_of(&shape, v);
        int count = is_branched ? of_branches[v]
                    : is_free
                        ? free_layers(graph->layer_count, module_count(graph), virtual_count, v)
                        : pinned_layers(&ends, parallel, stage, chunk);
        if (v == 0) count += before;
        if (v == virtual_count - 1) count = graph->sequence_count - first;
        assert(count >= 1 && first + count <= graph->sequence_count);
        spans[stage * shape.chunk_count + chunk] = (struct chunk_span){first, count};
        first += count;
    }
    assert(first == graph->sequence_count);
    return true;
}
