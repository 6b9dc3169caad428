#include "planner/uneven_split.h"

#include "plan/choice.h"
#include "plan/stages.h"
#include "planner/question.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void count_layers(const struct program *program, const struct graph *graph, int *layers)
{
    assert(program->shape.stage_count <= STAGE_MAX);
    int chunks = program->shape.chunk_count;
    memset(layers, 0, (size_t)program->shape.stage_count * sizeof *layers);
    for (int c = 0; c < program->shape.stage_count * chunks; c++) {
        const struct chunk_span *span = &program->spans[c];
        for (int b = span->first; b < span->first + span->count; b++)
            layers[c / chunks] += graph->blocks[graph->sequence[b]].role == BLOCK_LAYER;
    }
}

// What each stage has and what it holds.
struct stage_room {
    int layers[STAGE_MAX];
    int64_t held_bytes[STAGE_MAX], left_bytes[STAGE_MAX];
};

static void find_room(const struct search_request *request, const struct evaluation *evaluation,
                      struct stage_room *room)
{
    const struct program *program = evaluation->program;
    count_layers(program, evaluation->graph, room->layers);
    for (int stage = 0; stage < program->shape.stage_count; stage++) {
        room->held_bytes[stage] = evaluation->stage_memory[stage].reserved_bytes;
        room->left_bytes[stage] =
            unlike_stage_bytes(request->cluster, &program->mesh, stage) - room->held_bytes[stage];
    }
}

static bool play(struct uneven_split *split, const struct parallel *parallel,
                 struct candidate *played, struct stage_room *room)
{
    const struct evaluation_request question = search_question(split->request, parallel);
    struct arena work = {0}, scratch = {0};
    struct evaluation evaluation = {0};
    struct err refused = {0};
    bool fits = evaluate(&work, &scratch, &question, &evaluation, &refused);
    if (fits) {
        const struct prediction *prediction = &evaluation.prediction;
        int64_t lacks = prediction->reserved_bytes - prediction->device_bytes;
        int64_t host_lacks = hosts_shortfall(&evaluation.hosts);
        *played = (struct candidate){
            .parallel = *parallel,
            .cost = evaluation.simulation->cost,
            .closed_form_s = evaluation.simulation->cost.step_s,
            .memory = evaluation.stage_memory[evaluation.worst_stage],
            .worst_stage = evaluation.worst_stage,
            .host_short_bytes = host_lacks,
            .host_lack = hosts_lack(&evaluation.hosts),
            .simulated = true,
        };
        fits = lacks <= 0 && host_lacks <= 0;
        if (room) find_room(split->request, &evaluation, room);
    }
    split->played_count++;
    arena_free(&scratch);
    arena_free(&work);
    return fits;
}

// What a plan without lists but that of its layers is known by; those of more stages are not kept.
enum { KEPT_STAGES_MOST = 64 };
struct played_key {
    int64_t choices[CHOICE_COUNT];
    uint32_t order[AXIS_COUNT], order_count, branches, layers_count, layers[KEPT_STAGES_MOST];
};

struct played_plan {
    struct played_key key;
    bool fits;
    struct candidate played;
};

static bool may_keep(const struct parallel *parallel)
{
    return parallel->stage_layers_count <= KEPT_STAGES_MOST && parallel->replica_count == 0 &&
           parallel->stage_tp_count == 0 && parallel->stage_ranks_count == 0 &&
           parallel->layout_count == 0;
}

static struct played_plan *find_kept(struct uneven_split *split, const struct parallel *parallel)
{
    struct played_key key;
    memset(&key, 0, sizeof key);
    for (int c = 0; c < CHOICE_COUNT; c++)
        key.choices[c] = choice_value(parallel, (enum choice)c);
    for (int i = 0; i < parallel->order_count; i++)
        key.order[i] = parallel->order[i];
    key.order_count = (uint32_t)parallel->order_count;
    key.branches = parallel->branches;
    key.layers_count = (uint32_t)parallel->stage_layers_count;
    for (int s = 0; s < parallel->stage_layers_count; s++)
        key.layers[s] = (uint32_t)parallel->stage_layers[s];
    split->played.key_bytes = sizeof key;
    struct played_plan *kept = index_find(&split->played, &key);
    if (kept) return kept;
    kept = ARENA_NEW(split->arena, struct played_plan, 1);
    memcpy(&kept->key, &key, sizeof key);
    kept->fits = play(split, parallel, &kept->played, NULL);
    index_put(split->arena, &split->played, kept);
    return kept;
}

bool uneven_play(struct uneven_split *split, const struct parallel *parallel,
                 struct candidate *played)
{
    if (!may_keep(parallel)) return play(split, parallel, played, NULL);
    const struct played_plan *kept = find_kept(split, parallel);
    *played = kept->played;
    played->parallel = *parallel;
    return kept->fits;
}

// Layers from the stage that lacks most to the one with most left, as many as one lacks or the
// other has room for. False: none has.
static bool shift(struct arena *arena, const struct stage_room *room, struct parallel *parallel)
{
    int stages = parallel->degree[AXIS_PP], from = 0, to = 0;
    for (int stage = 1; stage < stages; stage++) {
        if (room->left_bytes[stage] < room->left_bytes[from]) from = stage;
        if (room->left_bytes[stage] > room->left_bytes[to]) to = stage;
    }
    if (room->layers[from] < 2 || room->left_bytes[from] >= 0) return false;
    int64_t each_bytes = room->held_bytes[from] / room->layers[from];
    assert(each_bytes > 0 && "a stage without room holds something");
    int64_t lacks = -room->left_bytes[from] / each_bytes + 1;
    int64_t takes = room->left_bytes[to] / each_bytes;
    int count = (int)(lacks < takes ? lacks : takes);
    if (count >= room->layers[from]) count = room->layers[from] - 1;
    if (count < 1) return false;
    int *layers = ARENA_COPY(arena, int, room->layers, stages);
    layers[from] -= count;
    layers[to] += count;
    parallel->stage_layers = layers;
    parallel->stage_layers_count = stages;
    return true;
}

bool uneven_fit(struct uneven_split *split, const struct parallel *parallel,
                struct candidate *played)
{
    enum { ROUNDS_MOST = 16 };
    struct parallel shifted = *parallel;
    bool may_shift = parallel->degree[AXIS_PP] > 1 && parallel->vpp == 1 &&
                     split->request->pins.stage_layers_count == 0;
    for (int i = 0; i < ROUNDS_MOST; i++) {
        struct stage_room room = {0};
        if (play(split, &shifted, played, &room)) return true;
        if (!may_shift || !shift(split->arena, &room, &shifted)) return false;
    }
    return false;
}

// What the stages of each replica take for a micro-batch, and the layers of each stage; NULL where
// the plan is not legal. [replica * stages + stage].
static double *replica_s(struct uneven_split *split, const struct parallel *parallel, int *layers)
{
    const struct search_request *request = split->request;
    const struct evaluation_request question = search_question(split->request, parallel);
    struct arena work = {0}, scratch = {0};
    struct graph *graph = evaluation_graph(&work, request->model, request->stack, parallel);
    struct err refused = {0};
    double *s = NULL;
    if (program_check(graph, request->cluster, &request->workload, parallel, &refused)) {
        const struct price_context context = evaluation_context(&question);
        const struct program *program =
            program_lower(&work, graph, request->cluster, &request->workload, parallel,
                          stack_joins(request->stack));
        const struct step_price *price = step_price(&work, &context, program);
        s = unlike_replica_s(split->arena, &scratch, &question, program, price);
        count_layers(program, graph, layers);
    }
    arena_free(&scratch);
    arena_free(&work);
    return s;
}

// The plan with as many micro-batches everywhere that it is legal, whatever the batch is.
static struct uneven_split even_request(const struct uneven_split *split,
                                        struct search_request *request, struct parallel *parallel)
{
    int64_t each = (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch;
    int64_t batch = split->request->workload.global_batch;
    *request = *split->request;
    request->workload.global_batch = (batch + each - 1) / each * each;
    parallel->replica_count = 0;
    parallel->replica_micro_batches = NULL;
    return (struct uneven_split){.arena = split->arena, .request = request};
}

// Every micro-batch to the replica that would be done with it first.
static int *share_batches(struct arena *arena, const double *s, int replicas, int stages,
                          int64_t micro_batches)
{
    assert(micro_batches >= replicas && "each has one at least");
    int *counts = ARENA_NEW(arena, int, replicas);
    double *each_s = ARENA_NEW(arena, double, replicas),
           *end_s = ARENA_NEW(arena, double, replicas);
    for (int r = 0; r < replicas; r++) {
        double sum_s = 0;
        for (int stage = 0; stage < stages; stage++) {
            sum_s += s[r * stages + stage];
            each_s[r] = fmax(each_s[r], s[r * stages + stage]);
        }
        counts[r] = 1;
        end_s[r] = sum_s;
    }
    for (int64_t m = replicas; m < micro_batches; m++) {
        int soonest = 0;
        for (int r = 1; r < replicas; r++) {
            if (end_s[r] + each_s[r] < end_s[soonest] + each_s[soonest]) soonest = r;
        }
        counts[soonest]++;
        end_s[soonest] += each_s[soonest];
    }
    return counts;
}

static bool may_differ(const struct search_request *request, const struct parallel *parallel)
{
    struct err refused = {0};
    return parallel->degree[AXIS_DP] > 1 && program_check_replicas(parallel, &refused) &&
           stack_is_executed(request->stack) &&
           request->workload.global_batch % parallel->micro_batch == 0 &&
           request->workload.global_batch / parallel->micro_batch >= parallel->degree[AXIS_DP];
}

bool uneven_batches(struct uneven_split *split, struct parallel *parallel)
{
    const struct search_request *request = split->request;
    const struct pins *pins = &request->pins;
    int replicas = parallel->degree[AXIS_DP], stages = parallel->degree[AXIS_PP];
    int layers[STAGE_MAX];
    if (!may_differ(request, parallel)) return false;
    if (pins->replica_count > 0) {
        parallel->replica_count = pins->replica_count;
        parallel->replica_micro_batches = pins->replica_micro_batches;
        return pins->replica_count == replicas;
    }
    struct parallel even = *parallel;
    struct search_request other;
    struct uneven_split asked = even_request(split, &other, &even);
    double *s = replica_s(&asked, &even, layers);
    if (!s) return false;
    int64_t micro_batches = request->workload.global_batch / parallel->micro_batch;
    int *counts = share_batches(split->arena, s, replicas, stages, micro_batches);
    bool differ = false;
    for (int r = 1; r < replicas; r++)
        differ |= counts[r] != counts[0];
    if (!differ) return false;
    parallel->replica_micro_batches = counts;
    parallel->replica_count = replicas;
    return true;
}

// Every layer to the stage that would then be done with its own first; the embedding and the head
// stay, whose seconds are those of a layer here.
bool uneven_layers(struct uneven_split *split, struct parallel *parallel)
{
    const struct search_request *request = split->request;
    int replicas = parallel->degree[AXIS_DP], stages = parallel->degree[AXIS_PP];
    int layers[STAGE_MAX];
    if (stages == 1 || request->pins.stage_layers_count > 0) return false;
    struct parallel even = *parallel;
    struct search_request other;
    struct uneven_split asked = even_request(split, &other, &even);
    double *s = replica_s(&asked, &even, layers);
    if (!s) return false;
    int *shared = ARENA_NEW(split->arena, int, stages), all = 0;
    double *layer_s = ARENA_NEW(split->arena, double, stages);
    for (int stage = 0; stage < stages; stage++) {
        bool is_end = stage == 0 || stage == stages - 1;
        for (int r = 0; r < replicas; r++)
            layer_s[stage] = fmax(layer_s[stage], s[r * stages + stage] / (layers[stage] + is_end));
        shared[stage] = is_end ? 0 : parallel->vpp;
        all += layers[stage] - shared[stage];
    }
    for (; all > 0; all--) {
        int soonest = 0;
        double least_s = INFINITY;
        for (int stage = 0; stage < stages; stage++) {
            bool is_end = stage == 0 || stage == stages - 1;
            double end_s = (shared[stage] + 1 + is_end) * layer_s[stage];
            if (end_s < least_s) least_s = end_s, soonest = stage;
        }
        shared[soonest]++;
    }
    bool differ = memcmp(shared, layers, (size_t)stages * sizeof *layers) != 0;
    if (!differ || all < 0) return false;
    parallel->stage_layers = shared;
    parallel->stage_layers_count = stages;
    return true;
}

// One of the numbers moved from one place to another.
static int *moved(struct arena *arena, const int *numbers, int count, int from, int to)
{
    assert(from != to && from < count && to < count && numbers[from] > 0);
    int *copy = ARENA_NEW(arena, int, count);
    memcpy(copy, numbers, (size_t)count * sizeof *copy);
    copy[from]--;
    copy[to]++;
    return copy;
}

static bool take_better(struct uneven_split *split, const struct parallel *parallel,
                        struct candidate *best)
{
    struct candidate played;
    bool is_better = uneven_play(split, parallel, &played) &&
                     played.cost.step_s < best->cost.step_s * (1 - 1e-9);
    if (is_better) *best = played;
    return is_better;
}

// The stage whose ranks have most to do, leaving one out.
static int busiest_but(const double *s, int stages, int replicas, int but)
{
    int busiest = -1;
    double most_s = -1;
    for (int at = 0; at < stages * replicas; at++) {
        if (at % stages == but || s[at] <= most_s) continue;
        most_s = s[at];
        busiest = at % stages;
    }
    return busiest;
}

// The stage with most to do gives a layer to each other in turn; where that helps nobody, the next
// one: a way through all stages, or a hop, may be what takes long.
static bool climb_layers(struct uneven_split *split, const double *s, const int *layers,
                         struct candidate *best)
{
    const struct parallel from = best->parallel;
    int stages = from.degree[AXIS_PP], replicas = from.degree[AXIS_DP], give = -1;
    bool is_better = false;
    for (int i = 0; i < 2 && stages > 1 && !is_better; i++) {
        give = busiest_but(s, stages, replicas, give);
        assert(give >= 0 && "of two stages one is another");
        for (int to = 0; to < stages && layers[give] > 0; to++) {
            struct parallel other = from;
            if (to == give) continue;
            other.stage_layers = moved(split->arena, layers, stages, give, to);
            other.stage_layers_count = stages;
            is_better |= take_better(split, &other, best);
        }
    }
    return is_better;
}

// Whether a replica before this one is as fast and takes as many.
static bool is_seen(const double *s, const int *counts, int stages, int replica)
{
    for (int r = 0; r < replica; r++) {
        size_t bytes = (size_t)stages * sizeof *s;
        bool is_like = counts[r] == counts[replica] &&
                       memcmp(s + r * stages, s + replica * stages, bytes) == 0;
        if (is_like) return true;
    }
    return false;
}

// A replica of each kind gives a micro-batch to one of each other kind in turn.
static bool climb_batches(struct uneven_split *split, const double *s, struct candidate *best)
{
    const struct parallel from = best->parallel;
    const int *counts = from.replica_micro_batches;
    int stages = from.degree[AXIS_PP], replicas = from.replica_count;
    bool is_better = false;
    for (int give = 0; give < replicas; give++) {
        if (counts[give] == 1 || is_seen(s, counts, stages, give)) continue;
        for (int take = 0; take < replicas; take++) {
            struct parallel other = from;
            if (take == give || is_seen(s, counts, stages, take)) continue;
            other.replica_micro_batches = moved(split->arena, counts, replicas, give, take);
            is_better |= take_better(split, &other, best);
        }
    }
    return is_better;
}

static bool climb_once(struct uneven_split *split, struct candidate *best)
{
    const struct parallel from = best->parallel;
    const struct pins *pins = &split->request->pins;
    int layers[STAGE_MAX];
    const double *s = replica_s(split, &from, layers);
    bool is_better = false;
    if (s && pins->stage_layers_count == 0) is_better = climb_layers(split, s, layers, best);
    if (is_better || !s || from.replica_count == 0 || pins->replica_count > 0) return is_better;
    return climb_batches(split, s, best);
}

void uneven_climb(struct uneven_split *split, struct candidate *best)
{
    enum { MOVES_MOST = 64 };
    for (int i = 0; i < MOVES_MOST; i++) {
        if (search_should_stop(split->request) || !climb_once(split, best)) return;
    }
}
