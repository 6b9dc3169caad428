#include "simulator/engine.h"
#include "tests/support/random_plan.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

enum { PLANS = 200, SEED = 21 };

static const struct simulation *simulate(struct arena *arena, const struct step_price *price)
{
    struct arena scratch = {0};
    struct engine_options options = {0};
    const struct simulation *simulation = simulate_step(arena, &scratch, price, &options);
    arena_free(&scratch);
    return simulation;
}

static double step_s(struct arena *arena, const struct step_price *price)
{
    return simulate(arena, price)->cost.step_s;
}

static struct chunk_price *classes_of(struct arena *arena, struct step_price *price)
{
    struct chunk_price *classes = ARENA_NEW(arena, struct chunk_price, price->class_count);
    memcpy(classes, price->classes, (size_t)price->class_count * sizeof *classes);
    price->classes = classes;
    return classes;
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-6 * fabs(wanted) + 1e-9) {
        print_error("found %.12g, wanted %.12g\n", found, wanted);
        fail();
    }
}

static void one_micro_batch_takes_the_sum_of_its_way(void **state)
{
    struct arena *arena = *state;
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        struct schedule_shape shape = {4, 1, 1, 0, NULL};
        struct step_price *price = even_plan(arena, SCHEDULE_1F1B, shape, 1e-3, 2e-3);
        price->hop_s = 0.1e-3;
        price->hop_overlapped = overlapped;
        is_near(step_s(arena, price), 4 * 3e-3 + 6 * 0.1e-3);
    }
}

static void one_stage_has_no_bubble(void **state)
{
    struct arena *arena = *state;
    for (int schedule = SCHEDULE_GPIPE; schedule <= SCHEDULE_1F1B; schedule++) {
        struct schedule_shape shape = {1, 1, 7, 0, NULL};
        struct step_price *price =
            even_plan(arena, (enum schedule_kind)schedule, shape, 1e-3, 2e-3);
        const struct simulation *simulation = simulate(arena, price);
        is_near(simulation->cost.step_s, 7 * 3e-3);
        is_near(simulation->cost.bubble_s, 0);
    }
}

static void bubbles_are_those_of_the_papers(void **state)
{
    struct arena *arena = *state;
    for (int p = 2; p <= 16; p *= 2) {
        for (int v = 1; v <= 4; v++) {
            struct schedule_shape shape = {p, v, 4 * p, 0, NULL};
            enum schedule_kind first = v > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_GPIPE;
            enum schedule_kind last = v > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
            for (int schedule = (int)first; schedule <= (int)last; schedule++) {
                struct step_price *price =
                    even_plan(arena, (enum schedule_kind)schedule, shape, 1e-3, 2e-3);
                const struct simulation *simulation = simulate(arena, price);
                struct cost cost = simulation->cost;
                is_near(cost.bubble_s / cost.compute_s, (p - 1) / (4.0 * p * v));
                for (int stage = 0; stage < p; stage++)
                    is_near(simulation->stage_busy_s[stage], cost.compute_s);
            }
        }
    }
}

// The longest path through tasks and hops by relaxation until nothing moves: another algorithm than
// the engine's, for hops beside compute.
struct paths {
    const struct step_price *price;
    const struct schedule_row *row;
    struct slot *slots;  // [stage * slot_count + n]
    int slot_count;
    int *virtual_of;  // [stage * chunk_count + chunk]
    double *end_s;    // [(virtual stage * m + micro-batch) * SLOT_KIND_COUNT + kind]
};

static struct paths paths_of(struct arena *arena, const struct step_price *price)
{
    const struct schedule_shape *shape = &price->shape;
    struct paths paths = {.price = price, .row = schedule_row(price->schedule)};
    int p = shape->stage_count, v = shape->chunk_count, m = shape->micro_batch_count;
    paths.slot_count = SLOT_KIND_COUNT * v * m;
    paths.slots = ARENA_NEW(arena, struct slot, p * paths.slot_count);
    paths.virtual_of = ARENA_NEW(arena, int, p *v);
    paths.end_s = ARENA_NEW(arena, double, p *v *m *SLOT_KIND_COUNT);
    for (int stage = 0; stage < p; stage++)
        paths.row->order(shape, stage, paths.slots + stage * paths.slot_count);
    for (int at = 0; at < p * v; at++)
        paths.virtual_of[paths.row->stage_of(shape, at) * v + paths.row->chunk_of(shape, at)] = at;
    return paths;
}

static double *path_end(const struct paths *paths, int virtual_stage, int micro_batch, int kind)
{
    int m = paths->price->shape.micro_batch_count;
    return &paths->end_s[(virtual_stage * m + micro_batch) * SLOT_KIND_COUNT + kind];
}

// When the i-th slot can start.
static double path_start_s(const struct paths *paths, int i)
{
    const struct schedule_shape *shape = &paths->price->shape;
    const struct slot *slot = &paths->slots[i];
    int v = shape->chunk_count, stage = i / paths->slot_count;
    int at = paths->virtual_of[stage * v + slot->chunk];
    double start_s = 0;
    if (i % paths->slot_count > 0) {
        const struct slot *before = &paths->slots[i - 1];
        int other = paths->virtual_of[stage * v + before->chunk];
        start_s = *path_end(paths, other, before->micro_batch, before->kind);
    }
    int from = slot->kind == TASK_FORWARD ? at - 1 : at + 1;
    if (slot->kind == TASK_WEIGHT || from < 0 || from >= v * shape->stage_count) return start_s;
    int kind = slot->kind == TASK_FORWARD   ? TASK_FORWARD
               : paths->row->backward_fused ? TASK_WEIGHT
                                            : TASK_BACKWARD;
    bool here = paths->row->stage_of(shape, from) == stage;
    double hop_s = here ? 0 : paths->price->hop_s;
    return fmax(start_s, *path_end(paths, from, slot->micro_batch, kind) + hop_s);
}

static double longest_path_s(struct arena *arena, const struct step_price *price)
{
    struct paths paths = paths_of(arena, price);
    int v = price->shape.chunk_count;
    double longest_s = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < price->shape.stage_count * paths.slot_count; i++) {
            const struct slot *slot = &paths.slots[i];
            int at = i / paths.slot_count * v + slot->chunk;
            double ready_s = path_start_s(&paths, i);
            for (int part = 0; part < PART_COUNT; part++)
                ready_s += price->classes[price->class_of[at]].phase_s[slot->kind][part];
            double *end_s = path_end(&paths, paths.virtual_of[at], slot->micro_batch, slot->kind);
            if (ready_s <= *end_s) continue;
            *end_s = ready_s;
            longest_s = fmax(longest_s, ready_s);
            moved = true;
        }
    }
    return longest_s;
}

// Only the pipeline is left of a random plan that is small enough for the relaxation.
static struct step_price *small_pipeline(struct arena *arena, struct random *random, int index)
{
    struct step_price *price;
    do {
        price = random_plan(arena, random, (enum schedule_kind)(index % SCHEDULE_KIND_COUNT));
    } while (price->shape.stage_count * price->shape.chunk_count * price->shape.micro_batch_count >
                 600 ||
             price->shape.stage_count < 2);
    struct chunk_price *classes = classes_of(arena, price);
    for (int i = 0; i < price->class_count; i++) {
        classes[i].gradient_reduce_s = classes[i].parameter_gather_s = 0;
        classes[i].small_reduce_s = classes[i].update_s = 0;
    }
    price->norm_s = price->overhead_s = 0;
    price->tie_count = 0;
    price->hop_overlapped = true;
    price->post_validated = false;
    return price;
}

static void a_pipeline_takes_its_longest_path(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    printf("# seed %d\n", SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price = small_pipeline(arena, &random, i);
        double tasks = SLOT_KIND_COUNT * price->shape.stage_count * price->shape.chunk_count *
                       (double)price->shape.micro_batch_count;
        double path_s = longest_path_s(arena, price), found_s = step_s(arena, price);
        assert_true(fabs(found_s - path_s) <= tasks * 1e-9);
        arena_reset(arena, mark);
    }
}

static void no_step_is_shorter_than_its_bounds_and_its_parts_sum(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price =
            random_plan(arena, &random, (enum schedule_kind)(i % SCHEDULE_KIND_COUNT));
        const struct simulation *simulation = simulate(arena, price);
        struct cost cost = simulation->cost;
        for (int stage = 0; stage < price->shape.stage_count; stage++)
            assert_true(cost.step_s >= simulation->stage_busy_s[stage]);
        is_near(cost_parts_sum(&cost), cost.step_s);
        double exposed_s = cost.exposed_pp_s;
        for (int part = 0; part < PART_COUNT; part++)
            exposed_s += cost.exposed_s[part];
        is_near(exposed_s, cost.exposed_comm_s);
        assert_true(cost.bubble_s >= 0);
        arena_reset(arena, mark);
    }
}

// Every duration of a plan, one at a time.
static double *duration_at(struct step_price *price, struct chunk_price *classes, int index)
{
    double *of_step[] = {&price->hop_s, &price->norm_s, &price->overhead_s};
    if (index < 3) return of_step[index];
    index -= 3;
    if (index < price->tie_count) return &price->ties[index].s;
    index -= price->tie_count;
    int each = SLOT_KIND_COUNT * PART_COUNT + 4, class = index / each, i = index % each;
    if (class >= price->class_count) return NULL;
    struct chunk_price *at = &classes[class];
    double *once[] = {&at->gradient_reduce_s, &at->parameter_gather_s, &at->small_reduce_s,
                      &at->update_s};
    return i < 4 ? once[i] : &at->phase_s[(i - 4) / PART_COUNT][(i - 4) % PART_COUNT];
}

static void twice_every_duration_is_twice_the_step(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price =
            random_plan(arena, &random, (enum schedule_kind)(i % SCHEDULE_KIND_COUNT));
        struct chunk_price *classes = classes_of(arena, price);
        double once_s = step_s(arena, price), *duration_s;
        for (int n = 0; (duration_s = duration_at(price, classes, n)); n++)
            *duration_s *= 2;
        double tasks = 10.0 * price->shape.stage_count * price->shape.chunk_count *
                       (double)price->shape.micro_batch_count;
        assert_true(fabs(step_s(arena, price) - 2 * once_s) <= (tasks + 1000) * 1e-9);
        arena_reset(arena, mark);
    }
}

static void no_longer_duration_makes_a_shorter_step(void **state)
{
    struct arena *arena = *state;
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS / 10; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price = small_pipeline(arena, &random, i);
        struct chunk_price *classes = classes_of(arena, price);
        for (int n = 0; n < price->class_count; n++)
            classes[n].gradient_reduce_s = classes[n].phase_s[0][0] * 3;
        price->reduce_overlapped = i % 2;
        double before_s = step_s(arena, price), *duration_s;
        for (int n = 0; (duration_s = duration_at(price, classes, n)); n++) {
            double kept_s = *duration_s;
            *duration_s = kept_s * 1.3 + 1e-5;
            assert_true(step_s(arena, price) >= before_s - 1e-7);
            *duration_s = kept_s;
        }
        arena_reset(arena, mark);
    }
}

// F 10, B 20 ms; two buckets of 10 ms each. Ready after 20 and 30 ms, they run to 30 and 40 ms; at
// half speed beside compute to 35 and 45 ms; behind it from 30 to 50 ms.
static void gradient_buckets_run_beside_the_backward(void **state)
{
    struct arena *arena = *state;
    struct step_price *price =
        even_plan(arena, SCHEDULE_1F1B, (struct schedule_shape){1, 1, 1, 0, NULL}, 10e-3, 20e-3);
    struct chunk_price *classes = classes_of(arena, price);
    classes[0].gradient_reduce_s = 20e-3;
    classes[0].bucket_count = 2;
    is_near(step_s(arena, price), 50e-3);
    price->reduce_overlapped = true;
    is_near(step_s(arena, price), 40e-3);
    price->overlap_ratio = 0.5;
    is_near(step_s(arena, price), 45e-3);
    const struct simulation *half = simulate(arena, price);
    is_near(half->cost.exposed_s[PART_DP], 15e-3);
    is_near(half->stage_waits[0].reduce_s, 15e-3);
}

// W apart: its buckets are ready in the last W. Two stages of two micro-batches, F, B and W 10 ms:
// stage 0 runs F F . B W B W until 70 ms, and two buckets of 4 ms of the last W are ready at 65 and
// 70 ms; stage 1 runs its last W from 60 ms on.
static void where_w_is_apart_gradients_are_ready_behind_the_last_w(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct schedule_shape shape = {2, 1, 2, 0, NULL};
    struct step_price *price = even_plan(arena, SCHEDULE_ZB_H1, shape, 10e-3, 10e-3);
    struct chunk_price *classes = classes_of(arena, price);
    classes[0].phase_s[TASK_WEIGHT][PART_COMPUTE] = 10e-3;
    is_near(step_s(arena, price), 70e-3);
    classes[0].gradient_reduce_s = 8e-3;
    classes[0].bucket_count = 2;
    is_near(step_s(arena, price), 78e-3);
    price->reduce_overlapped = true;
    is_near(step_s(arena, price), 74e-3);

    struct engine_options options = {.want_trace = true};
    const struct simulation *simulation = simulate_step(arena, &scratch, price, &options);
    int counts[SLOT_KIND_COUNT] = {0};
    for (int64_t i = 0; i < simulation->trace.span_count; i++) {
        const struct span *span = &simulation->trace.spans[i];
        struct task_id id = task_id_of(&shape, span->task);
        if (id.kind < SLOT_KIND_COUNT && span->stream == STREAM_COMPUTE) counts[id.kind]++;
        bool reduces = id.kind == TASK_GRADIENT_REDUCE && span->rank == 0;
        if (reduces) assert_int_equal(span->start_ns, (65 + 5 * id.item) * 1000 * 1000);
    }
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        assert_int_equal(counts[kind], 4);
    arena_free(&scratch);
}

// The gradient goes on behind B: with a hop of 1 ms stage 0 has it after two forwards, a backward
// and two hops.
static void where_w_is_apart_the_gradient_does_not_wait_for_it(void **state)
{
    struct arena *arena = *state;
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        struct schedule_shape shape = {2, 1, 1, 0, NULL};
        struct step_price *price = even_plan(arena, SCHEDULE_ZB_H1, shape, 10e-3, 10e-3);
        classes_of(arena, price)[0].phase_s[TASK_WEIGHT][PART_COMPUTE] = 10e-3;
        price->hop_s = 1e-3;
        price->hop_overlapped = overlapped;
        is_near(step_s(arena, price), 52e-3);
    }
}

// F 10 ms behind two buckets of 10 ms each: starts at 10, waits at 15 for the second until 20.
static void the_first_forward_waits_for_its_parameters(void **state)
{
    struct arena *arena = *state;
    struct step_price *price =
        even_plan(arena, SCHEDULE_1F1B, (struct schedule_shape){1, 1, 1, 0, NULL}, 10e-3, 20e-3);
    struct chunk_price *classes = classes_of(arena, price);
    classes[0].parameter_gather_s = 20e-3;
    classes[0].bucket_count = 2;
    is_near(step_s(arena, price), 50e-3);
    price->gather_overlapped = true;
    struct cost cost = simulate(arena, price)->cost;
    is_near(cost.step_s, 45e-3);
    is_near(cost.exposed_s[PART_DP], 15e-3);
    is_near(cost.bubble_s, 0);
}

static struct engine_options all_ranks(struct arena *arena, int stage_count, int replicas)
{
    struct engine_options options = {.all_ranks = true, .rank_count = stage_count * replicas};
    options.stage_of_rank = ARENA_NEW(arena, int, options.rank_count);
    options.slowdown_of_rank = ARENA_NEW(arena, double, options.rank_count);
    for (int rank = 0; rank < options.rank_count; rank++) {
        options.stage_of_rank[rank] = rank / replicas;
        options.slowdown_of_rank[rank] = 1;
    }
    return options;
}

static void equal_ranks_are_one_rank_and_a_slow_one_holds_up_all(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS / 10; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price = small_pipeline(arena, &random, i);
        double folded_s = step_s(arena, price);
        struct engine_options options = all_ranks(arena, price->shape.stage_count, 3);
        double unfolded_s = simulate_step(arena, &scratch, price, &options)->cost.step_s;
        is_near(unfolded_s, folded_s);
        options.slowdown_of_rank[random_int(&random, 0, options.rank_count - 1)] = 1.5;
        struct cost slow = simulate_step(arena, &scratch, price, &options)->cost;
        assert_true(slow.step_s > folded_s);
        is_near(cost_parts_sum(&slow), slow.step_s);
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
}

static void gradients_wait_for_the_slowest_replica(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct step_price *price =
        even_plan(arena, SCHEDULE_1F1B, (struct schedule_shape){1, 1, 1, 0, NULL}, 10e-3, 20e-3);
    classes_of(arena, price)[0].gradient_reduce_s = 5e-3;
    struct engine_options options = all_ranks(arena, 1, 2);
    options.slowdown_of_rank[1] = 2;
    struct cost cost = simulate_step(arena, &scratch, price, &options)->cost;
    is_near(cost.step_s, 65e-3);
    is_near(cost.bubble_s, 15e-3);  // the mean of 30 and 0
    arena_free(&scratch);
}

static void traces_are_sorted_streams_in_order_and_equal_each_time(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct random random = random_start(SEED);
    for (int i = 0; i < PLANS / 5; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct step_price *price =
            random_plan(arena, &random, (enum schedule_kind)(i % SCHEDULE_KIND_COUNT));
        struct engine_options options = all_ranks(arena, price->shape.stage_count, 2);
        options.want_trace = true;
        const struct simulation *a = simulate_step(arena, &scratch, price, &options);
        const struct simulation *b = simulate_step(arena, &scratch, price, &options);
        const struct trace *trace = &a->trace;
        assert_int_equal(trace->rank_count, options.rank_count);
        assert_int_equal(trace->span_count, b->trace.span_count);
        int64_t *end_ns = ARENA_NEW(arena, int64_t, options.rank_count);
        for (int64_t n = 0; n < trace->span_count; n++) {
            const struct span *span = &trace->spans[n], *other = &b->trace.spans[n];
            assert_true(span->rank == other->rank && span->stream == other->stream &&
                        span->task == other->task && span->start_ns == other->start_ns &&
                        span->end_ns == other->end_ns);
            if (n > 0) assert_true(span->start_ns >= span[-1].start_ns);
            // Steps that run into each other are shorter than one seen from end to end.
            bool ends = (double)span->end_ns * 1e-9 <= a->cost.step_s + 1e-9;
            assert_true(ends || price->post_validated);
            if (span->stream != STREAM_COMPUTE) continue;
            assert_true(span->start_ns >= end_ns[span->rank]);
            end_ns[span->rank] = span->end_ns;
        }
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
}

static void tasks_have_names(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct step_price *price =
        even_plan(arena, SCHEDULE_1F1B, (struct schedule_shape){2, 1, 2, 0, NULL}, 1e-3, 2e-3);
    price->hop_s = 1e-6;
    struct engine_options options = {.want_trace = true};
    const struct trace *trace = &simulate_step(arena, &scratch, price, &options)->trace;
    assert_string_equal(trace->task_name(trace->context, &trace->spans[0], arena),
                        "forward, micro-batch 0");
    bool sends = false;
    for (int64_t n = 0; n < trace->span_count; n++) {
        const char *name = trace->task_name(trace->context, &trace->spans[n], arena);
        bool is_it = strcmp(name, "send backward, micro-batch 1") == 0;
        sends |= is_it && trace->spans[n].stream == STREAM_PP;
    }
    assert_true(sends);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_micro_batch_takes_the_sum_of_its_way),
        cmocka_unit_test(one_stage_has_no_bubble),
        cmocka_unit_test(bubbles_are_those_of_the_papers),
        cmocka_unit_test(a_pipeline_takes_its_longest_path),
        cmocka_unit_test(no_step_is_shorter_than_its_bounds_and_its_parts_sum),
        cmocka_unit_test(twice_every_duration_is_twice_the_step),
        cmocka_unit_test(no_longer_duration_makes_a_shorter_step),
        cmocka_unit_test(gradient_buckets_run_beside_the_backward),
        cmocka_unit_test(where_w_is_apart_gradients_are_ready_behind_the_last_w),
        cmocka_unit_test(where_w_is_apart_the_gradient_does_not_wait_for_it),
        cmocka_unit_test(the_first_forward_waits_for_its_parameters),
        cmocka_unit_test(equal_ranks_are_one_rank_and_a_slow_one_holds_up_all),
        cmocka_unit_test(gradients_wait_for_the_slowest_replica),
        cmocka_unit_test(traces_are_sorted_streams_in_order_and_equal_each_time),
        cmocka_unit_test(tasks_have_names),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
