#include "planner/saturated.h"

#include "cost_models/memory.h"
#include "cost_models/offload.h"
#include "planner/choice.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// Kernels of one size may fall into whole waves a little better than the largest. A margin that
// drawn plans hold (tests/planner/test_bounds.c), not derived.
static const double SATURATED_RATIO = 0.98;

// So many layers more of a stage, each of which takes so much longer, since others make room for
// it: with n layers all treated one way the room is full, with a few more when all are treated the
// next way.
struct room_step {
    double layers, more_s;
};

// What a stage can hold: `kept` layers that are treated the fastest way, `most` in any. A layer
// takes `weight_bytes`, and in each of the micro-batches `held` its `kept_bytes`, but for what is
// spared, `slack` times.
struct stage_room {
    double kept, most, room_bytes, weight_bytes, held, kept_bytes, slack;
    struct room_step first;
};

// A rank's share of what low-precision GEMMs read. Not all elements are read, and which are not is
// unknown: as many as can be are where they are split most.
static double low_precision_elements(const struct saturated *saturated, const int *degree)
{
    double tp = degree[AXIS_TP], spread = (double)degree[AXIS_EP] * degree[AXIS_ETP];
    double dense = saturated->dense_elements + saturated->frozen_elements[0];
    double experts = saturated->expert_elements + saturated->frozen_elements[1];
    double all = saturated->linear_elements;
    double inside = spread > tp ? fmin(experts, all) : fmax(0, all - dense);
    return (all - inside) / tp + inside / spread;
}

// Weights, gradients and states of one layer, and its weights as low-precision GEMMs read them
// where they are kept so (cost_models/memory.c).
static double layer_bytes(const struct saturated_question *question)
{
    const struct search_request *request = question->request;
    const struct saturated *saturated = question->saturated;
    enum precision precision = request->workload.precision;
    double bytes =
        bound_kept_bytes(request, question->mesh, question->tails, saturated->dense_elements,
                         saturated->expert_elements) +
        bound_frozen_bytes(request, question->mesh, question->tails, saturated->frozen_elements);
    int zero = question->tails->zero_most;
    // Our own engine keeps fewer of them the more ranks share their sides (plan/lower/casts.h).
    if (zero >= 3 || stack_is_executed(request->stack)) return bytes;
    double elements = low_precision_elements(saturated, question->mesh->degree);
    return bytes + elements * stack_cast_bytes_kept(request->stack, precision, zero);
}

// The layer's share of one micro-batch that a rank has of what one sequence is.
static double sequence_share(const struct saturated_question *question)
{
    return question->group->micro_batch / space_sample_ranks(question->mesh);
}

static bool may_recompute(const struct saturated_layer *layer, int value)
{
    bool may = !layer->values;
    for (int i = 0; i < layer->value_count && !may; i++)
        may = layer->values[i] == value;
    return may;
}

static double more_s_of(const struct saturated_layer *layer, const struct saturated_way *way)
{
    double more_s = SATURATED_RATIO * layer->share * way->more_s;
    bool is_kept = way->value == recompute_value(RECOMPUTE_NONE, 0);
    return is_kept ? more_s : more_s - layer->hideable_s;
}

double saturated_more_s(const struct saturated_layer *layer, int value)
{
    const struct saturated *saturated = layer->saturated;
    for (int i = 0; i < saturated->way_count; i++) {
        if (saturated->ways[i].value == value) return more_s_of(layer, &saturated->ways[i]);
    }
    return -layer->hideable_s;
}

void saturated_spared(const struct saturated_layer *layer, struct spared_hull *hull)
{
    assert(layer->share > 0 && layer->saturated->way_count <= SPACE_VALUE_MAX + 1);
    const struct saturated *saturated = layer->saturated;
    const struct saturated_copies *copies = layer->copies;
    struct spared points[2 * (SPACE_VALUE_MAX + 1)];
    int count = 0, known = 0;
    for (int i = 0; i < saturated->way_count; i++) {
        const struct saturated_way *way = &saturated->ways[i];
        double saved_bytes = layer->share * way->saved_bytes;
        double more_s = more_s_of(layer, way);
        double window_s =
            copies ? copies->window.backward_s + layer->hideable_s + fmax(0, more_s) : 0;
        struct spared point = {layer->kept_bytes - saved_bytes, more_s};
        if (!may_recompute(layer, way->value)) continue;
        known++;
        points[count++] = point;
        if (!copies) continue;
        double moved_bytes = layer->share * fmin(way->moved_bytes, way->saved_bytes);
        double copy_s = moved_bytes / copies->bytes_per_s;
        point.seconds +=
            copy_exposed_s(copy_s, copies->window.forward_s) + copy_exposed_s(copy_s, window_s);
        point.bytes += moved_bytes;
        points[count++] = point;
    }
    // Nothing is known of a way that is none of the space's.
    if (known < layer->value_count || count == 0)
        points[0] = (struct spared){layer->kept_bytes, 0}, count = 1;
    spared_hull_make(hull, points, count);
}

// Where nothing is moved: bytes for as little as any way to recompute frees them.
static void recomputed(const struct saturated *saturated, double bytes, struct spared_hull *hull)
{
    hull->count = 2;
    hull->points[0] = (struct spared){0, 0};
    hull->points[1] = (struct spared){bytes, bytes * saturated->s_per_byte};
}

// Of what is moved a layer may be worked on in pieces; else the largest tensors of one backward are
// there beside all that is kept.
static double worked_share(const struct saturated_question *question, double slack)
{
    return question->tails->moves_activations ? 0 : sequence_share(question) * slack;
}

// The most layers that a stage has room for which holds so many micro-batches: each keeps its
// weights and what one way to recompute saves, beside the working memory of a layer recomputed so.
static double most_layers(const struct saturated_question *question, const struct stage_room *room,
                          double slack)
{
    double most = 0;
    for (int i = 0; i < question->saturated->way_count; i++) {
        const struct saturated_way *way = &question->saturated->ways[i];
        double kept_bytes = room->held * sequence_share(question) * slack * way->saved_bytes;
        double worked_bytes = worked_share(question, slack) * way->transient_bytes;
        most = fmax(most, (room->room_bytes - worked_bytes) / (room->weight_bytes + kept_bytes));
    }
    return most;
}

static double each_bytes(const struct stage_room *room, const struct spared *spared)
{
    return room->weight_bytes + room->held * (room->kept_bytes - room->slack * spared->bytes);
}

// Layers that the stage has room for when all are treated so.
static double layers_held(const struct stage_room *room, const struct spared *spared)
{
    return fmax(0, fmin(room->room_bytes / each_bytes(room, spared), room->most));
}

// What a copy leaves on the device is held by as many micro-batches as what is kept.
static double held_of(const struct saturated_question *question, int stages_left)
{
    struct space_tails tails = *question->tails;
    int micro_batches = (int)(question->request->workload.global_batch /
                              question->mesh->degree[AXIS_DP] / question->group->micro_batch);
    if (question->copies) tails.moves_activations = false;
    return bound_held(&tails, stages_left, micro_batches);
}

static struct room_step make_step(const struct stage_room *room, const struct spared_hull *all,
                                  int step)
{
    assert(step >= 0 && step + 1 < all->count);
    const struct spared *from = &all->points[step], *to = &all->points[step + 1];
    double from_bytes = each_bytes(room, from), to_bytes = each_bytes(room, to);
    double end = step + 2 == all->count ? room->most : layers_held(room, to);
    double freed_bytes = from_bytes - to_bytes;
    struct room_step found = {end - layers_held(room, from), 0};
    if (freed_bytes > 0)
        found.more_s = (to->seconds * from_bytes - from->seconds * to_bytes) / freed_bytes;
    return found;
}

static struct room_step step_of(const struct stage_room *room, const struct spared_hull *all,
                                int step)
{
    return step == 0 ? room->first : make_step(room, all, step);
}

static void find_rooms(const struct saturated_question *question, const struct spared_hull *all,
                       double slack, struct stage_room *rooms)
{
    const struct search_request *request = question->request;
    int stages = question->mesh->degree[AXIS_PP];
    double room_bytes = (double)(question->limit_bytes - request->stack->reserve_bytes);
    double worked_bytes =
        worked_share(question, slack) * question->saturated->transient_least_bytes;
    double weight_bytes = layer_bytes(question);
    double kept_bytes = slack * sequence_share(question) * question->saturated->saved_bytes;
    for (int stage = 0; stage < stages; stage++) {
        struct stage_room *room = &rooms[stage];
        *room = (struct stage_room){.room_bytes = room_bytes,
                                    .weight_bytes = weight_bytes,
                                    .held = held_of(question, stages - stage),
                                    .kept_bytes = kept_bytes,
                                    .slack = slack,
                                    .most = INFINITY};
        room->most = question->copies ? layers_held(room, &all->points[all->count - 1])
                                      : most_layers(question, room, slack);
        room->room_bytes -= worked_bytes;
        room->kept = layers_held(room, &all->points[0]);
        if (all->count > 1) room->first = make_step(room, all, 0);
    }
}

// The stage whose next step costs least; -1: none has one.
static int cheapest(const struct stage_room *rooms, int stages, const struct spared_hull *all,
                    const int *next)
{
    int found = -1;
    double least_s = INFINITY;
    for (int stage = 0; stage < stages; stage++) {
        if (next[stage] + 1 >= all->count) continue;
        struct room_step step = step_of(&rooms[stage], all, next[stage]);
        if (step.more_s >= least_s && found >= 0) continue;
        least_s = step.more_s;
        found = stage;
    }
    return found;
}

// What is left over goes first where room for it costs least.
static double made_s(const struct stage_room *rooms, int stages, const struct spared_hull *all,
                     double layers)
{
    int next[STAGE_MAX];
    double left = layers, sum_s = 0;
    for (int stage = 0; stage < stages; stage++)
        left -= rooms[stage].kept, next[stage] = 0;
    // Of one step a stage those in front, where most micro-batches are held, cost least.
    bool is_sorted = all->count == 2;
    for (int i = 0; left > 0; i++) {
        int stage = is_sorted ? i : cheapest(rooms, stages, all, next);
        if (stage < 0 || stage >= stages) break;
        struct room_step step = step_of(&rooms[stage], all, next[stage]++);
        double more = fmin(left, step.layers);
        sum_s += more * step.more_s;
        left -= more;
    }
    return left > 1e-9 * layers ? INFINITY : sum_s;
}

// Layers that all stages together get through when none takes longer than `stage_s` a micro-batch.
static double layers_within(const struct stage_room *rooms, int stages,
                            const struct spared_hull *all, double layer_s, double stage_s)
{
    double layers = 0;
    for (int stage = 0; stage < stages; stage++) {
        const struct stage_room *room = &rooms[stage];
        double kept = fmin(room->kept, stage_s / layer_s), left_s = stage_s - kept * layer_s;
        layers += kept;
        for (int i = 0; i + 1 < all->count && left_s > 0; i++) {
            struct room_step step = step_of(room, all, i);
            double more = fmin(step.layers, left_s / (layer_s + step.more_s));
            layers += more;
            left_s -= more * (layer_s + step.more_s);
        }
    }
    return layers;
}

static double most_more_s(const struct stage_room *room, const struct spared_hull *all)
{
    double most_s = 0;
    for (int i = 0; i + 1 < all->count; i++)
        most_s = fmax(most_s, step_of(room, all, i).more_s);
    return most_s;
}

// The slowest stage of the fastest split, by halving; a little less than it.
static double slowest_s(const struct stage_room *rooms, int stages, const struct spared_hull *all,
                        double layers, double layer_s)
{
    enum { HALVINGS = 12 };
    double low_s = layers / stages * layer_s, high_s = layers * layer_s;
    assert(layers > 0 && layer_s > 0 && "0 has no halves of its logarithm");
    for (int stage = 0; stage < stages; stage++)
        high_s += most_more_s(&rooms[stage], all) * layers;
    if (layers_within(rooms, stages, all, layer_s, low_s) >= layers) return low_s;
    for (int i = 0; i < HALVINGS; i++) {
        double middle_s = sqrt(low_s * high_s);
        bool ok = layers_within(rooms, stages, all, layer_s, middle_s) >= layers;
        *(ok ? &high_s : &low_s) = middle_s;
    }
    return low_s;
}

struct saturated_room saturated_room(const struct saturated_question *question, double layer_s)
{
    struct stage_room rooms[STAGE_MAX];
    int stages = question->mesh->degree[AXIS_PP];
    double layers = question->facts->probe_count;
    double slack = 1 + stack_reserve_ratio(question->request->stack, stages);
    double share = sequence_share(question);
    const struct saturated_layer layer = {.saturated = question->saturated,
                                          .share = share,
                                          .kept_bytes = share * question->saturated->saved_bytes,
                                          .hideable_s =
                                              question->copies ? question->copies->hideable_s : 0,
                                          .copies = question->copies};
    assert(stages >= 1 && stages <= STAGE_MAX);
    struct spared_hull all;
    if (question->copies) {
        saturated_spared(&layer, &all);
    } else {
        recomputed(question->saturated, layer.kept_bytes, &all);
    }
    find_rooms(question, &all, slack, rooms);
    struct saturated_room found = {.recompute_s = made_s(rooms, stages, &all, layers)};
    if (found.recompute_s > 0 && !isinf(found.recompute_s) && layer_s > 0)
        found.stage_s = slowest_s(rooms, stages, &all, layers, layer_s);
    return found;
}
