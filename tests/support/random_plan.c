#include "tests/support/random_plan.h"

#include <math.h>

// splitmix64 (Steele, Lea, Flood 2014).
static uint64_t next(struct random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct random random_start(uint64_t seed)
{
    return (struct random){seed};
}

double random_ratio(struct random *random)
{
    return (double)(next(random) >> 11) * 0x1p-53;
}

int random_int(struct random *random, int low, int high)
{
    return low + (int)(next(random) % (uint64_t)(high - low + 1));
}

double random_log(struct random *random, double low, double high)
{
    return low * pow(high / low, random_ratio(random));
}

static struct schedule_shape random_shape(struct random *random, enum schedule_kind schedule)
{
    struct schedule_shape shape = {(int)random_log(random, 1, 65), 1,
                                   (int)random_log(random, 1, 513), 0, NULL};
    if (schedule == SCHEDULE_ZB_AUTO)
        shape.in_flight = (int)random_log(random, 1, 3 * shape.stage_count + 1);
    if (schedule == SCHEDULE_ZB_V) shape.chunk_count = 2;
    if (schedule != SCHEDULE_INTERLEAVED && schedule != SCHEDULE_ZB_V) return shape;
    if (shape.stage_count < 2) shape.stage_count = 2;
    if (schedule == SCHEDULE_ZB_V) return shape;
    shape.chunk_count = random_int(random, 2, 8);
    int groups = (int)random_log(random, 1, 512.0 / shape.stage_count + 1);
    shape.micro_batch_count = groups * shape.stage_count;
    return shape;
}

// Layers of each chunk in the three ways that stages_split (plan/stages.c) knows: even; what does
// not divide behind one another in the middle, from the back, the ends one short; or pinned stages,
// uneven by a layer, each spread over its chunks with the first ones longer.
static void random_layers(struct random *random, const struct schedule_shape *shape, double *layers)
{
    int stages = shape->stage_count, chunks = shape->chunk_count, all = stages * chunks;
    int each = random_int(random, 1, 6), way = random_int(random, 0, 2);
    for (int i = 0; i < all; i++)
        layers[i] = each;
    if (way == 1 && all > 1) {
        int units = all * each + random_int(random, 1, all - 1) + 2;
        int least = units / all, left = units % all;
        for (int i = 0; i < all; i++) {
            int place = i == all - 1 ? i : all - 2 - i;
            int stage = i % stages, chunk = i / stages;
            layers[stage * chunks + chunk] = least + (place < left) - (i == 0) - (i == all - 1);
        }
    }
    for (int stage = 0; way == 2 && stage < stages; stage++) {
        bool is_end = stage == 0 || stage == stages - 1;
        int total = each * chunks;
        if (random_int(random, 0, is_end ? 1 : 3) == 0) total += random_int(random, -1, 1);
        if (total < chunks) total = chunks;
        int least = total / chunks, longer = total % chunks;
        for (int chunk = 0; chunk < chunks; chunk++)
            layers[stage * chunks + chunk] = least + (chunk < longer);
    }
}

// What one layer costs.
struct layer {
    double forward_s, backward_s, weight_s, recompute_s, tp_s, cp_s, ep_s, reduce_s, update_s,
        small_s;
    bool gathers;
    int bucket_count;
};

static struct layer random_layer(struct random *random, int micro_batches)
{
    struct layer layer = {.forward_s = random_log(random, 0.2e-3, 50e-3) / 4};
    double forward_s = layer.forward_s;
    layer.backward_s = forward_s * (1 + 1.2 * random_ratio(random));
    if (random_int(random, 0, 1)) layer.weight_s = forward_s * (0.8 + 0.4 * random_ratio(random));
    if (random_int(random, 0, 2) == 0) layer.recompute_s = forward_s;
    layer.tp_s = random_int(random, 0, 1) ? 0.2 * forward_s * random_ratio(random) : 0;
    // Rings are mostly hidden; experts exchange rows before and after, in a few models.
    layer.cp_s = random_int(random, 0, 3) ? 0 : 0.05 * forward_s * random_ratio(random);
    layer.ep_s = random_int(random, 0, 3) ? 0 : 0.4 * forward_s * random_ratio(random);
    // Up to 1.5 times the backward of one micro-batch, or of the whole step.
    double all_s = layer.backward_s + layer.weight_s + layer.recompute_s;
    layer.reduce_s = 1.5 * all_s * random_ratio(random);
    if (random_int(random, 0, 1)) layer.reduce_s *= micro_batches;
    layer.update_s = forward_s * random_ratio(random);
    layer.small_s = 0.02 * forward_s * random_ratio(random);
    layer.gathers = random_int(random, 0, 1);
    layer.bucket_count = random_int(random, 1, 50);
    return layer;
}

static struct chunk_price chunk_of(const struct layer *layer, double layers, double parameters)
{
    struct chunk_price price = {
        .gradient_reduce_s = layer->reduce_s * parameters,
        .parameter_gather_s = layer->gathers ? layer->reduce_s * parameters / 2 : 0,
        .small_reduce_s = layer->small_s * parameters,
        .update_s = layer->update_s * parameters,
        .bucket_count = layer->bucket_count,
    };
    price.phase_s[TASK_FORWARD][PART_COMPUTE] = layer->forward_s * layers;
    for (int kind = TASK_FORWARD; kind <= TASK_BACKWARD; kind++) {
        price.phase_s[kind][PART_TP] = layer->tp_s * layers;
        price.phase_s[kind][PART_CP] = layer->cp_s * layers;
        price.phase_s[kind][PART_EP] = layer->ep_s * layers;
    }
    price.phase_s[TASK_BACKWARD][PART_COMPUTE] = layer->backward_s * layers;
    price.phase_s[TASK_BACKWARD][PART_RECOMPUTE] = layer->recompute_s * layers;
    price.phase_s[TASK_WEIGHT][PART_COMPUTE] = layer->weight_s * layers;
    return price;
}

static int class_find(struct step_price *price, struct chunk_price *classes,
                      const struct chunk_price *wanted)
{
    for (int i = 0; i < price->class_count; i++) {
        if (classes[i].phase_s[0][0] == wanted->phase_s[0][0]) return i;
    }
    classes[price->class_count] = *wanted;
    return price->class_count++;
}

static struct step_price *plan_of(struct arena *arena, enum schedule_kind schedule,
                                  struct schedule_shape shape, const struct layer *layer,
                                  const double *layers)
{
    int all = shape.stage_count * shape.chunk_count;
    struct step_price *price = ARENA_NEW(arena, struct step_price, 1);
    struct chunk_price *classes = ARENA_NEW(arena, struct chunk_price, all);
    int *class_of = ARENA_NEW(arena, int, all);
    price->shape = shape;
    price->schedule = schedule;
    price->classes = classes;
    price->class_of = class_of;
    for (int at = 0; at < all; at++) {
        struct chunk_price chunk = chunk_of(layer, layers[at], layers[at]);
        class_of[at] = class_find(price, classes, &chunk);
    }
    price->runs = stage_runs_make(arena, &shape, class_of, price->class_count);
    price->overlap_ratio = 1;
    return price;
}

// Up to two sets of stages that share a gradient.
static void random_ties(struct arena *arena, struct random *random, double layer_s,
                        struct step_price *price)
{
    int stages = price->shape.stage_count;
    if (stages < 2) return;
    price->ties = ARENA_NEW(arena, struct tied_price, 2);
    for (int i = 0; i < 2; i++) {
        double s = layer_s * random_ratio(random);
        if (random_int(random, 0, 3) || s <= 0) continue;
        int *at = ARENA_NEW(arena, int, stages), count = 0;
        for (int stage = 0; stage < stages; stage++) {
            bool is_needed = i == 0 && (stage == 0 || stage + 1 == stages);
            bool fills = count + stages - stage <= 2;
            if (is_needed || fills || random_int(random, 0, 3) == 0) at[count++] = stage;
        }
        price->ties[price->tie_count++] = (struct tied_price){at, count, s};
    }
}

struct step_price *random_plan(struct arena *arena, struct random *random,
                               enum schedule_kind schedule)
{
    struct schedule_shape shape = random_shape(random, schedule);
    int all = shape.stage_count * shape.chunk_count;
    double *layers = ARENA_NEW(arena, double, all);
    random_layers(random, &shape, layers);
    double each = layers[all / 2];
    // Embedding and head: often next to nothing, else up to one and a half layers.
    layers[0] += (random_int(random, 0, 1) ? 0.1 : 1.5) * random_ratio(random);
    const struct schedule_row *row = schedule_row(schedule);
    int last = row->stage_of(&shape, all - 1) * shape.chunk_count + row->chunk_of(&shape, all - 1);
    layers[last] += 1.5 * random_ratio(random);

    struct layer layer = random_layer(random, shape.micro_batch_count);
    struct step_price *price = plan_of(arena, schedule, shape, &layer, layers);
    price->hop_s = layer.forward_s * each * random_log(random, 0.001, 0.1);
    price->hop_overlapped = random_int(random, 0, 1);
    price->reduce_overlapped = random_int(random, 0, 3) > 0;
    price->gather_overlapped = random_int(random, 0, 1);
    price->overlap_ratio = 0.3 + 0.7 * random_ratio(random);
    random_ties(arena, random, layer.forward_s, price);
    price->norm_s = 20e-6;
    price->post_validated = !row->backward_fused && random_int(random, 0, 1);
    price->overhead_s = layer.forward_s * random_ratio(random);
    return price;
}

struct step_price *even_plan(struct arena *arena, enum schedule_kind schedule,
                             struct schedule_shape shape, double forward_s, double backward_s)
{
    struct layer layer = {.forward_s = forward_s, .backward_s = backward_s, .bucket_count = 1};
    int all = shape.stage_count * shape.chunk_count;
    double *layers = ARENA_NEW(arena, double, all);
    for (int i = 0; i < all; i++)
        layers[i] = 1;
    struct step_price *price = plan_of(arena, schedule, shape, &layer, layers);
    price->hop_overlapped = true;
    return price;
}
