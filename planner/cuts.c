#include "planner/cuts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name, *text;
} ROWS[CUT_COUNT] = {
    [CUT_TP] = {"tp", "tp over more than two nodes"},
    [CUT_CP] = {"cp", "cp in pieces of less than 2,048 tokens"},
    [CUT_MICRO_BATCH] = {"micro_batch", "micro-batches of more than 32,768 tokens a rank"},
    [CUT_ETP] = {"etp", "etp between 1 and tp"},
    [CUT_SP] = {"sp", "sp off beside experts"},
    [CUT_IMAGES] = {"sp_h", "parts of images"},
    [CUT_RELAY] = {"tp_relay", "gathers of tp in parts"},
    [CUT_LOSS] = {"loss_chunks", "a loss in parts"},
    [CUT_STAGES] = {"stages", "other splits over stages"},
    [CUT_RECOMPUTE] = {"recompute", "other sets of classes to recompute"},
    [CUT_IN_FLIGHT] = {"in_flight", "other caps on micro-batches in flight"},
    [CUT_ZERO_GROUP] = {"zero_group", "other ZeRO groups"},
    [CUT_BUCKET] = {"bucket_bytes", "other bucket sizes"},
    [CUT_ATTENTION] = {"attention", "another attention kernel"},
    [CUT_OVERLAP] = {"overlap", "other overlap"},
    [CUT_PASSES] = {"passes", "fewer passes"},
    [CUT_OFFLOAD] = {"offload", "offload"},
    [CUT_STATES] = {"offload", "states, parameters or gradients of some layers off the device"},
};

const char *cut_name(enum cut cut)
{
    assert((unsigned)cut < CUT_COUNT);
    return ROWS[cut].name;
}

const char *cut_text(enum cut cut)
{
    assert((unsigned)cut < CUT_COUNT);
    return ROWS[cut].text;
}

static bool is_open(const struct space *space, enum choice choice)
{
    return !pins_get(&space->request->pins, choice).set;
}

static bool has_pipeline(const struct space *space)
{
    for (int i = 0; i < space->mesh_count; i++)
        if (space->meshes[i].degree[AXIS_PP] > 1) return true;
    return false;
}

static bool has_tensor(const struct space *space)
{
    for (int i = 0; i < space->mesh_count; i++)
        if (space->meshes[i].degree[AXIS_TP] > 1) return true;
    return false;
}

// More ranks than one that could share a parameter out among groups of them.
static bool has_groups(const struct space *space)
{
    for (int i = 0; i < space->mesh_count; i++) {
        const int *degree = space->meshes[i].degree;
        if (degree[AXIS_DP] * degree[AXIS_CP] > 3) return true;
    }
    return false;
}

// Gradients that are reduced go in buckets, over tp those of what it does not split.
static bool has_buckets(const struct space *space)
{
    for (int i = 0; i < space->mesh_count; i++) {
        const struct space_mesh *mesh = &space->meshes[i];
        if (mesh->degree[AXIS_DP] * space_sample_ranks(mesh) > 1) return true;
    }
    return false;
}

static bool shards(const struct space *space)
{
    for (int i = 0; i < space->zeros.count; i++)
        if (space->zeros.values[i] > 0) return true;
    return false;
}

static bool runs(const struct space *space, enum schedule_kind schedule)
{
    for (int i = 0; i < space->schedules.count; i++)
        if (space->schedules.values[i] == (int)schedule) return true;
    return false;
}

static bool has_other_sets(const struct space *space, const struct space_graphs *graphs)
{
    const struct graph *graph =
        graphs->of(graphs->context, (enum attention)space->attentions.values[0], 1);
    unsigned known = space_classes(space->request, graph);
    int sets = known ? 1 << __builtin_popcount(known) : 1;
    return sets + 1 > space->recomputes.count;
}

static bool has_open_groups(const struct space *space)
{
    return is_open(space, CHOICE_ZERO_GROUP) || is_open(space, CHOICE_ZERO_GRADIENTS) ||
           is_open(space, CHOICE_ZERO_PARAMETERS);
}

// Whether our executor can make the scores of this model's loss in parts, each of which does what
// the whole one does, and a product more.
static bool has_loss_parts(const struct space *space, const struct space_graphs *graphs)
{
    const struct parallel in_parts = {.loss_chunks = 2};
    const struct graph *graph =
        graphs->of(graphs->context, (enum attention)space->attentions.values[0], 1);
    struct err refused = {0};
    return is_open(space, CHOICE_LOSS_CHUNKS) && stack_is_executed(space->request->stack) &&
           parts_check(graph, &space->request->workload, &in_parts, &refused);
}

// Whether the space leaves values of the choice out that would be legal, and what bounds them.
struct question {
    enum cut cut;
    bool left_out;
    double bound_s;
};

static int ask(const struct space *space, const struct space_graphs *graphs,
               const struct scan_result *scanned, struct question questions[CUT_COUNT])
{
    const struct search_request *request = space->request;
    const struct pins *pins = &request->pins;
    const struct stack *stack = request->stack;
    bool pipelined = has_pipeline(space), fixed = search_fixes_stages(request);
    bool many = stack->attention & (stack->attention - 1);
    bool alone = request->cluster->rank_count == 1;
    // States on the host are copied and updated bucket by bucket.
    bool moves = pins->search_offload || pins_get(pins, CHOICE_OFFLOAD).high != 0;
    // Plans that fetch less in each micro-batch may be faster than what bounds all that fetch.
    double some_s = pins->search_parameters == TIER_DEVICE ? scanned->pressed_s : 0;
    double fewer_s = alone ? INFINITY : scanned->silent_s;
    if (space->fixed.passes >> PASS_ATTENTION & 1)
        fewer_s = fmin(fewer_s, scanned->other_attention_s);
    const struct question all[] = {
        {CUT_RELAY,
         is_open(space, CHOICE_TP_RELAY) && has_tensor(space) && stack_is_executed(stack),
         scanned->silent_s},
        {CUT_LOSS, has_loss_parts(space, graphs), scanned->pressed_s},
        {CUT_STAGES, pipelined && !fixed, scanned->piped_s},
        // What is recomputed need not be written in forward: a step is longer for it, but in a
        // pipeline what waits for the forwards may be shorter.
        {CUT_RECOMPUTE, is_open(space, CHOICE_RECOMPUTE) && has_other_sets(space, graphs),
         fmin(scanned->pressed_s, scanned->piped_s)},
        {CUT_IN_FLIGHT,
         pipelined && is_open(space, CHOICE_IN_FLIGHT) && runs(space, SCHEDULE_ZB_AUTO),
         scanned->piped_s},
        {CUT_ZERO_GROUP, has_open_groups(space) && shards(space) && has_groups(space),
         scanned->steady_s},
        // Reductions slow the compute that they run beside.
        {CUT_BUCKET, is_open(space, CHOICE_BUCKET_BYTES) && (has_buckets(space) || moves),
         fmin(scanned->silent_s, scanned->pressed_s)},
        {CUT_ATTENTION, is_open(space, CHOICE_ATTENTION) && many, scanned->other_attention_s},
        {CUT_OVERLAP, is_open(space, CHOICE_OVERLAP) && stack->overlap != 0 && !alone,
         scanned->silent_s},
        {CUT_PASSES, is_open(space, CHOICE_PASSES) && space->fixed.passes != 0, fewer_s},
        {CUT_OFFLOAD,
         is_open(space, CHOICE_OFFLOAD) && !pins->search_offload && stack->offload != 0,
         scanned->pressed_s},
        {CUT_STATES,
         is_open(space, CHOICE_OFFLOAD) && pins->search_offload && stack_is_executed(stack),
         some_s},
    };
    memcpy(questions, all, sizeof all);
    return sizeof all / sizeof *all;
}

// What hardly ever needs less memory than a plan of the space: where nothing fits it is no help.
// Buckets have rooms of their own.
static bool is_no_smaller(enum cut cut)
{
    return cut == CUT_ZERO_GROUP;
}

static bool is_searched_way(const struct space *space, const struct parallel *parallel)
{
    int value = recompute_value(parallel->recompute, parallel->recompute_classes);
    for (int i = 0; i < space->recomputes.count; i++)
        if (space->recomputes.values[i] == value) return true;
    return false;
}

// Whose bound is of every plan, in whatever split and way to recompute.
static bool bounds_all(enum cut cut)
{
    return cut == CUT_ATTENTION || cut == CUT_OVERLAP || cut == CUT_PASSES;
}

// The best plan may itself be one that the space does not hold, found beside one that it does.
// What differs from it in another cut is then left out twice, and bounded by either.
static double beside_s(const struct space *space, const struct scan_result *scanned,
                       const struct parallel *best)
{
    double least_s = INFINITY;
    bool split = best->stage_layers_count > 0 && !search_fixes_stages(space->request);
    if (split || best->in_flight > 0) least_s = fmin(least_s, scanned->piped_s);
    if (!is_searched_way(space, best) || best->offload.optimizer_layers > 0)
        least_s = fmin(least_s, scanned->pressed_s);
    if (parallel_groups_shards(best)) least_s = fmin(least_s, scanned->steady_s);
    return least_s;
}

int cuts_open(const struct space *space, const struct space_graphs *graphs,
              const struct scan_result *scanned, const struct candidate *best,
              struct open_cut list[CUT_COUNT])
{
    struct question questions[CUT_COUNT];
    int count = 0, asked = ask(space, graphs, scanned, questions);
    bool by_memory = !best || space->request->objective == OBJECTIVE_MEMORY;
    for (int cut = 0; cut < CUT_RELAY; cut++) {
        if (space->cuts >> cut & 1) list[count++] = (struct open_cut){(enum cut)cut, 0};
    }
    double least_s = best ? beside_s(space, scanned, &best->parallel) : INFINITY;
    for (int i = 0; i < asked; i++) {
        struct question *question = &questions[i];
        assert(question->bound_s >= 0 && "seconds, or 0 where nobody asked");
        if (!question->left_out) continue;
        const struct offload *offload = best ? &best->parallel.offload : NULL;
        const struct pins *pins = &space->request->pins;
        bool fetches_less =
            pins->search_parameters != TIER_DEVICE && offload && offload->parameter_layers > 0;
        bool returns_less = pins->search_gradients && offload && offload->gradient_layers > 0;
        if (!bounds_all(question->cut)) question->bound_s = fmin(question->bound_s, least_s);
        bool keeps_some = offload && offload_keeps_some(offload);
        if (fetches_less || returns_less || keeps_some) question->bound_s = 0;
        if (!best && is_no_smaller(question->cut)) continue;
        bool slower = !by_memory && (isinf(question->bound_s) ||
                                     step_ns(question->bound_s) >= step_ns(best->closed_form_s));
        if (slower) continue;
        double bound_s = by_memory ? 0 : question->bound_s;
        list[count++] = (struct open_cut){question->cut, bound_s};
    }
    return count;
}
