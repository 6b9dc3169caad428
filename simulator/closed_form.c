#include "simulator/closed_form.h"

#include "simulator/tied.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The search's hot path: the work is in the runs of equal stages and their chunks, not in stages or
// micro-batches. Rules as in simulator/walk.h and simulator/reduce.c.

enum { CHUNKS = 256 };  // a slot's chunk is a byte

struct round {
    double sum_s, most_s;
    bool up;  // placed from the first stage to the last
};

// The reduction of a chunk's gradients, in equal pieces that become ready one by one in a window of
// compute.
struct reduction {
    double window_s;
    double first_s,
        rest_s;  // what is reduced in the window until the first piece, and from then on
    double piece_s;
};

struct form {
    const struct step_price *price;
    const struct schedule_row *row;
    const struct stage_runs *runs;
    const struct chunk_times *times;     // [class]
    const struct reduction *reductions;  // [class]
    bool known;                          // the ends, from a question before
    double *end_s, *idle_s;  // [run * chunk_count + chunk], behind them of the last stage
    double hop_s, gap_s;
    struct round rounds[CHUNKS];
};

static void fill_times(const struct step_price *price, struct chunk_times *times)
{
    for (int i = 0; i < price->class_count; i++) {
        const struct chunk_price *class = &price->classes[i];
        times[i] = (struct chunk_times){parts_s(class->phase_s[TASK_FORWARD]),
                                        parts_s(class->phase_s[TASK_BACKWARD]),
                                        parts_s(class->phase_s[TASK_WEIGHT])};
    }
}

static int class_at(const struct form *form, int stage, int chunk)
{
    assert(stage >= 0 && stage < form->price->shape.stage_count);
    assert(chunk >= 0 && chunk < form->price->shape.chunk_count);
    return form->price->class_of[stage * form->price->shape.chunk_count + chunk];
}

// The sum over all stages of a chunk's forwards with their hops, and the longest of them.
static void fill_rounds(struct form *form)
{
    for (int chunk = 0; chunk < form->price->shape.chunk_count; chunk++) {
        struct round round = {0};
        for (int i = 0; i < form->runs->run_count; i++) {
            struct stage_run run = form->runs->runs[i];
            double own_s = form->times[class_at(form, run.first, chunk)].forward_s;
            round.sum_s += run.count * (own_s + form->hop_s);
            if (own_s > round.most_s) round.most_s = own_s;
        }
        const struct schedule_shape *shape = &form->price->shape;
        round.up = form->row->stage_of(shape, chunk * shape->stage_count) == 0;
        form->rounds[chunk] = round;
    }
}

// The virtual stage of a chunk, counted from the chunk's first: chunks are placed up or down.
static int place_of(const struct form *form, int stage, int chunk)
{
    return form->rounds[chunk].up ? stage : form->price->shape.stage_count - 1 - stage;
}

// How far the dp stream gets between the first forwards of a chunk and of the next one on the
// stage: meanwhile the first micro-batch passes the virtual stages between them, and the stage runs
// as many others of this chunk.
static double gathered_s(const struct form *form, int stage, int chunk)
{
    const struct schedule_shape *shape = &form->price->shape;
    if (chunk + 1 == shape->chunk_count) return 0;
    int p = shape->stage_count;
    int steps = p + place_of(form, stage, chunk + 1) - place_of(form, stage, chunk);
    int others = steps < shape->micro_batch_count ? steps : shape->micro_batch_count;
    double busy_s = others * form->times[class_at(form, stage, chunk)].forward_s;
    double way_s = form->rounds[chunk].sum_s * steps / p;
    double queue_s = form->rounds[chunk].most_s * others;
    double passed_s = way_s > queue_s ? way_s : queue_s;
    return passed_s - busy_s + form->price->overlap_ratio * busy_s;
}

static int buckets_of(const struct chunk_price *class)
{
    return class->bucket_count > 1 ? class->bucket_count : 1;
}

// What is left of n equal pieces of `work_s`, needed one by one through `window_s` of compute,
// outside of it: one piece, or what does not fit into the rest of the window.
static double outside_s(double work_s, double window_s, int buckets, double speed)
{
    assert(buckets >= 1 && work_s >= 0);
    double left_s = work_s - (speed * window_s - speed * window_s / buckets);
    return left_s > work_s / buckets ? left_s : work_s / buckets;
}

// What the gradients of a chunk become ready in is its last backward, or the last W alone where
// that is a task of its own.
static void fill_reductions(const struct form *form, struct reduction *reductions)
{
    for (int i = 0; i < form->price->class_count; i++) {
        const struct chunk_price *class = &form->price->classes[i];
        const struct chunk_times *times = &form->times[i];
        struct reduction *own = &reductions[i];
        own->window_s = times->weight_s + (form->row->backward_fused ? times->backward_s : 0);
        double done_s = form->price->overlap_ratio * own->window_s;
        assert(own->window_s >= 0 && form->price->overlap_ratio >= 0);
        own->first_s = done_s / buckets_of(class);
        own->rest_s = done_s - own->first_s;
        own->piece_s = class->gradient_reduce_s / buckets_of(class);
    }
}

// The last backwards of the chunks of one stage, and how long it had waited by then.
struct ends {
    const double *end_s, *idle_s;  // [chunk]; idle_s is NULL where W follows B
};

static struct ends ends_at(const struct form *form, int run)
{
    int at = run * form->price->shape.chunk_count;
    return (struct ends){form->end_s + at, form->idle_s ? form->idle_s + at : NULL};
}

// How much of a reduction goes on between the last backwards of two chunks. Where W follows B, p -
// 1 other backwards of the second chunk run there.
static double between_s(const struct form *form, struct ends ends, const int *chunks,
                        double window_s)
{
    double speed = form->price->overlap_ratio;
    double gap_s = ends.end_s[chunks[1]] - ends.end_s[chunks[0]] - window_s;
    double busy_s = (form->price->shape.stage_count - 1) * window_s;
    double idle_s = gap_s - busy_s;
    if (ends.idle_s) {
        idle_s = ends.idle_s[chunks[1]] - ends.idle_s[chunks[0]];
        busy_s = gap_s > idle_s ? gap_s - idle_s : 0;
    }
    return speed * busy_s + (idle_s > 0 ? idle_s : 0);
}

// Gradient reduction of one stage behind its last backward: of each chunk a piece, or what does not
// fit into its window behind what is left from before. Chunks end from the last to the first,
// but for some of a V. What is not done by the end of one waits for the next chunk's.
static double reduce_outside_s(const struct form *form, int stage, struct ends ends)
{
    const struct step_price *price = form->price;
    double left_s = 0;
    int v = price->shape.chunk_count;
    bool upwards = v > 1 && ends.end_s[0] < ends.end_s[1];
    for (int i = 0; i < v; i++) {
        int chunk = upwards ? i : v - 1 - i, at = class_at(form, stage, chunk);
        const struct chunk_price *class = &price->classes[at];
        if (!price->reduce_overlapped) {
            left_s += class->gradient_reduce_s;
            continue;
        }
        if (left_s <= 0 && class->gradient_reduce_s <= 0) continue;
        const struct reduction *own = &form->reductions[at];
        if (left_s > 0) {
            const int chunks[] = {upwards ? chunk - 1 : chunk + 1, chunk};
            left_s -= between_s(form, ends, chunks, own->window_s);
        }
        left_s = left_s > own->first_s ? left_s - own->first_s : 0;
        left_s += class->gradient_reduce_s - own->rest_s;
        if (left_s < own->piece_s) left_s = own->piece_s;
    }
    return left_s;
}

// How much later the first forward of any chunk on any stage of a run can go through than without
// parameters to wait for; `rise_s` is when the first micro-batch reaches the run.
static double gather_delay_s(const struct form *form, int stage, double rise_s)
{
    const struct step_price *price = form->price;
    double done_s = rise_s, before_s = 0, delay_s = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        int at = class_at(form, stage, chunk);
        const struct chunk_price *class = &price->classes[at];
        double gather_s = class->parameter_gather_s;
        if (gather_s > 0) {
            double needed_s = before_s + outside_s(gather_s, form->times[at].forward_s,
                                                   buckets_of(class), price->overlap_ratio);
            if (needed_s - done_s > delay_s) delay_s = needed_s - done_s;
        }
        before_s += gather_s;
        done_s += gathered_s(form, stage, chunk);
    }
    return delay_s;
}

static bool gathers(const struct step_price *price)
{
    for (int i = 0; i < price->class_count; i++) {
        if (price->classes[i].parameter_gather_s > 0) return true;
    }
    return false;
}

// Of a tree, by how much the first forward of each stage is longer for what it waits for, which a
// stage with a short way may have time for; returns the sum.
static double fill_late(struct form *form, double *late_s)
{
    const struct step_price *price = form->price;
    double start_s[STAGE_MAX], sum_s = 0;
    bool waits = price->gather_overlapped && gathers(price);
    for (int stage = 0; stage < price->shape.stage_count; stage++)
        start_s[stage] = late_s[stage] = 0;
    if (waits) fill_rounds(form);
    for (int stage = 0; waits && stage < price->shape.stage_count; stage++) {
        int next = schedule_next(&price->shape, stage);
        late_s[stage] = gather_delay_s(form, stage, start_s[stage]);
        sum_s += late_s[stage];
        double end_s =
            start_s[stage] + late_s[stage] + form->times[class_at(form, stage, 0)].forward_s;
        if (next >= 0) start_s[next] = fmax(start_s[next], end_s + form->hop_s);
    }
    return sum_s;
}

static double gather_wait_s(struct form *form)
{
    double rise_s = 0, wait_s = 0;
    if (!form->price->gather_overlapped || !gathers(form->price)) return 0;
    fill_rounds(form);
    for (int i = 0; i < form->runs->run_count; i++) {
        struct stage_run run = form->runs->runs[i];
        double delay_s = gather_delay_s(form, run.first, rise_s);
        if (delay_s > wait_s) wait_s = delay_s;
        int class = class_at(form, run.first, 0);
        rise_s += run.count * (form->times[class].forward_s + form->hop_s);
    }
    return wait_s;
}

struct tail {
    double reduce_s, small_s, update_s;  // of one stage; update with what is gathered behind it
    double beside_s;  // of the update what may run beside the reduction of the last bucket
};

static struct tail tail_of(const struct form *form, int stage, struct ends ends)
{
    const struct step_price *price = form->price;
    struct tail tail = {.reduce_s = reduce_outside_s(form, stage, ends)};
    double buckets = 0;
    for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
        const struct chunk_price *class = &price->classes[class_at(form, stage, chunk)];
        tail.small_s += class->small_reduce_s;
        tail.update_s += class->update_s;
        tail.beside_s += class->update_s;
        buckets += buckets_of(class);
        if (!price->gather_overlapped) tail.update_s += class->parameter_gather_s;
    }
    tail.beside_s *= price->streams && price->reduce_overlapped ? 1 - 1 / buckets : 0;
    return tail;
}

// From the ends of the stages' compute to the step's end.
struct finish {
    double norm_at_s;  // all gradients are reduced
    double update_s;   // the slowest
    double reduce_s;   // exposed, summed over stages
    double period_s;   // where steps run into each other: the most that a stage needs from its
                       // first forward to its update
};

static double latest_s(const struct form *form, struct ends ends)
{
    bool upwards = form->price->shape.chunk_count > 1 && ends.end_s[0] < ends.end_s[1];
    return ends.end_s[upwards];
}

// Gradients that a stage sends when its last backward is done, one after the other.
static int sends_of(const struct form *form, int stage)
{
    int count = 0;
    if (!form->price->shape.tree) return stage > 0;
    while (schedule_before(&form->price->shape, stage, count) >= 0)
        count++;
    return count;
}

static struct finish finish_of(const struct form *form, double wait_s)
{
    const struct step_price *price = form->price;
    int last = price->shape.stage_count - 1, run_count = form->runs->run_count;
    struct finish finish = {0};
    bool has_ties = price->tie_count > 0;
    struct stage_finish stages[STAGE_MAX];
    double rise_s = 0;
    for (int i = 0; i < run_count; i++) {
        struct stage_run run = form->runs->runs[i];
        struct ends ends = ends_at(form, i);
        struct tail tail = tail_of(form, run.first, ends);
        // Where W is parted the last slot is one, which sends nothing.
        double send_s = form->row->backward_fused ? form->gap_s * sends_of(form, run.first) : 0;
        double exposed_s = tail.reduce_s > send_s ? tail.reduce_s - send_s : 0;
        // Where buckets are updated as they come, all but the last are meanwhile.
        exposed_s -= fmin(exposed_s, tail.beside_s);
        double after_s = wait_s + send_s + exposed_s + tail.small_s;
        if (price->streams) after_s += tail.update_s;
        finish.reduce_s += run.count * exposed_s;
        if (price->streams) tail.update_s = 0;
        if (tail.update_s > finish.update_s) finish.update_s = tail.update_s;
        double reduced_s = latest_s(form, ends) + after_s;
        double begin_s = price->post_validated ? step_begin_s(price, run.first, rise_s) : 0;
        for (int s = run.first; has_ties && s < run.first + run.count; s++)
            stages[s] = (struct stage_finish){reduced_s, tail.update_s - begin_s};
        if (reduced_s > finish.norm_at_s) finish.norm_at_s = reduced_s;
        if (price->post_validated) {
            finish.period_s = fmax(finish.period_s, reduced_s + tail.update_s - begin_s);
            rise_s += run.count * step_rise_s(price, run.first);
        }
        if (has_ties && i == run_count - 1)
            stages[last].reduced_s = latest_s(form, ends_at(form, run_count)) + after_s;
    }
    if (has_ties) tied_finish(price, stages, &finish.norm_at_s, &finish.period_s);
    return finish;
}

// Sums over all chunks of what tasks consist of, and of what comes once a step.
static void add_parts(const struct form *form, struct cost *cost)
{
    const struct step_price *price = form->price;
    double rounds = price->shape.micro_batch_count;
    for (int i = 0; i < price->class_count; i++) {
        const struct chunk_price *class = &price->classes[i];
        double uses = form->runs->class_uses[i], times = uses * rounds;
        for (int kind = 0; kind < SLOT_KIND_COUNT; kind++) {
            const double *part_s = class->phase_s[kind];
            cost->compute_s += times * part_s[PART_COMPUTE];
            cost->recompute_s += times * part_s[PART_RECOMPUTE];
            for (int part = PART_TP; part < PART_COUNT; part++)
                cost->exposed_s[part] += times * part_s[part];
        }
        cost->exposed_s[PART_TP] += uses * class->small_reduce_s;
        cost->update_s += uses * class->update_s;
        if (!price->gather_overlapped) cost->exposed_s[PART_DP] += uses * class->parameter_gather_s;
    }
}

// Blocking hops stop every stage twice a micro-batch and chunk; in 1F1B the end stages once. Where
// W is a task of its own, behind a B that sends, it is three times but for where the first and the
// last stage, or in a V the turn, have nothing to send or to receive.
static double blocked_s(const struct form *form)
{
    const struct schedule_shape *shape = &form->price->shape;
    double p = shape->stage_count, v = shape->chunk_count, m = shape->micro_batch_count;
    if (!form->row->backward_fused)
        return m * form->gap_s * (SLOT_KIND_COUNT * v * p - (v > 1 ? 5 : 3));
    bool ends_once = form->price->schedule == SCHEDULE_1F1B && p > 1;
    double ends = 2;  // stages with neighbours on one side
    for (int s = 0; shape->tree && s + 1 < shape->stage_count; s++)
        ends += schedule_before(shape, s, 0) < 0 && s > 0;
    return 2 * v * m * form->gap_s * (p - (ends_once ? ends / 2 : 0));
}

static struct cost cost_of(struct form *form)
{
    const struct step_price *price = form->price;
    struct pipeline_times times = {
        .shape = price->shape,
        .classes = form->times,
        .class_count = price->class_count,
        .class_of = price->class_of,
        .runs = form->runs,
        .hop_s = form->hop_s,
        .hop_overlapped = price->hop_overlapped,
        .idle_s = form->idle_s,
    };
    double stages = price->shape.stage_count, late_s[STAGE_MAX], late_sum_s = 0;
    if (price->shape.tree) late_sum_s = fill_late(form, late_s), times.late_s = late_s;
    if (!form->known) form->row->ends(&times, form->end_s);
    double wait_s = price->shape.tree ? 0 : gather_wait_s(form);
    struct finish finish = finish_of(form, wait_s);

    struct cost cost = {.overhead_s = price->overhead_s};
    add_parts(form, &cost);
    cost.exposed_s[PART_DP] += finish.reduce_s + wait_s + late_sum_s;
    if (!price->post_validated) cost.exposed_s[PART_DP] += stages * price->norm_s;
    cost.compute_s /= stages;
    cost.recompute_s /= stages;
    cost.update_s /= stages;
    cost.exposed_pp_s = (blocked_s(form) + tied_sum_s(price)) / stages;
    for (int part = PART_TP; part < PART_COUNT; part++) {
        cost.exposed_s[part] /= stages;
        cost.exposed_comm_s += cost.exposed_s[part];
    }
    cost.step_s = finish.norm_at_s + price->norm_s + finish.update_s + price->overhead_s;
    if (price->post_validated) cost.step_s = finish.period_s + price->overhead_s;
    cost.bubble_s = cost.step_s - cost.compute_s - cost.recompute_s - cost.exposed_comm_s -
                    cost.update_s - cost.overhead_s - cost.exposed_pp_s;
    // Waiting is what remains; where the sum of small estimates leaves less than none, hops give.
    if (cost.bubble_s < 0) {
        cost.exposed_pp_s += cost.bubble_s;
        cost.bubble_s = 0;
    }
    cost.exposed_comm_s += cost.exposed_pp_s;
    cost_part_waiting(&cost, price, form->runs);
    return cost;
}

// Where W is a task of its own, or branches join, equal stages do not end alike: each is a run.
static const struct stage_runs *runs_of(struct arena *spare, const struct step_price *price,
                                        bool fused)
{
    const struct stage_runs *runs = price->runs;
    if (!runs) runs = stage_runs_make(spare, &price->shape, price->class_of, price->class_count);
    if (fused && !price->shape.tree) return runs;
    int stage_count = price->shape.stage_count;
    struct stage_run *each = ARENA_NEW(spare, struct stage_run, stage_count);
    for (int stage = 0; stage < stage_count; stage++)
        each[stage] = (struct stage_run){stage, 1};
    struct stage_runs *all = ARENA_NEW(spare, struct stage_runs, 1);
    *all = (struct stage_runs){each, stage_count, runs->class_uses};
    return all;
}

// Whether the paths are those of this price, whose chunks take `times`.
static bool are_known(const struct closed_form_paths *paths, const struct step_price *price,
                      const struct chunk_times *times)
{
    return paths->known && paths->schedule == price->schedule && paths->runs == price->runs &&
           paths->class_of == price->class_of && paths->class_count == price->class_count &&
           paths->hop_s == price->hop_s && paths->hop_overlapped == price->hop_overlapped &&
           memcmp(&paths->shape, &price->shape, sizeof price->shape) == 0 &&
           memcmp(paths->times, times, (size_t)price->class_count * sizeof *times) == 0;
}

// Those of a price without runs of its own are not found again.
static void keep_paths(struct closed_form_paths *paths, const struct step_price *price,
                       const struct chunk_times *times)
{
    paths->known = price->runs != NULL && !price->shape.tree;
    paths->schedule = price->schedule;
    paths->shape = price->shape;
    paths->hop_s = price->hop_s;
    paths->hop_overlapped = price->hop_overlapped;
    paths->class_of = price->class_of;
    paths->runs = price->runs;
    paths->class_count = price->class_count;
    memcpy(paths->times, times, (size_t)price->class_count * sizeof *times);
}

struct cost closed_form_after(struct closed_form_paths *paths, const struct step_price *price)
{
    struct arena spare = {0};
    struct chunk_times few[CLOSED_FORM_CLASSES], *times = few;
    struct reduction few_reductions[CLOSED_FORM_CLASSES], *reductions = few_reductions;
    bool has_room = price->class_count <= CLOSED_FORM_CLASSES;
    if (!has_room) {
        times = ARENA_NEW(&spare, struct chunk_times, price->class_count);
        reductions = ARENA_NEW(&spare, struct reduction, price->class_count);
    }
    fill_times(price, times);
    struct form form;
    form.price = price;
    form.row = schedule_row(price->schedule);
    form.times = times;
    fill_reductions(&form, reductions);
    form.reductions = reductions;
    form.runs = runs_of(&spare, price, form.row->backward_fused);
    form.hop_s = price->shape.stage_count > 1 ? price->hop_s : 0;
    form.gap_s = price->hop_overlapped ? 0 : form.hop_s;
    assert(price->shape.chunk_count <= CHUNKS);
    int end_count = (form.runs->run_count + 1) * price->shape.chunk_count;
    has_room = has_room && end_count <= CLOSED_FORM_ENDS;
    form.known = has_room && are_known(paths, price, times);
    form.end_s = has_room ? paths->end_s : ARENA_NEW(&spare, double, 2 * end_count);
    form.idle_s = form.row->backward_fused ? NULL : form.end_s + end_count;
    if (has_room && !form.known) keep_paths(paths, price, times);
    struct cost cost = cost_of(&form);
    if (spare.last) arena_free(&spare);
    return cost;
}

struct cost closed_form(const struct step_price *price)
{
    struct closed_form_paths paths;  // large, used only as far as there are stages
    paths.known = false;
    return closed_form_after(&paths, price);
}
