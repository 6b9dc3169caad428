#include "memory/spill/spill_parts.h"
#include "tests/support/draw.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// What is run again and copied out so that a graph fits: by hand, against an oracle that plays the
// pebble game (every order, every repetition, every copy) to its cheapest end, and faults for the
// check to find.

enum { PEBBLE_TENSORS = 7, PEBBLE_STATES = 1 << 21 };

static const struct memory_options PLAIN = {.method = MEMORY_ROAM, .alignment = 1};

static struct spill_result solve(struct arena *arena, const struct memory_graph *graph,
                                 int64_t capacity, unsigned may, double *seconds)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct spill_result result;
    struct memory_options options = PLAIN;
    options.capacity = capacity;
    for (int i = 0; i < graph->operator_count; i++)
        seconds[i] = graph->operators[i].seconds;
    struct spill_request request = {.graph = graph,
                                    .options = &options,
                                    .may_recompute = may & 1,
                                    .may_move = may & 2,
                                    .operator_s = seconds,
                                    .move_bytes_per_s = 1,
                                    .move_start_s = may & 4 ? 0.5 : 0};
    bool ok = spill_graph(arena, &scratch, &request, &result, &err);
    assert_string_equal(err.text, "");
    assert_true(ok);
    arena_free(&scratch);
    return result;
}

static struct memory_graph *chain(struct arena *arena, const int64_t *bytes, int depth)
{
    // x0 -> f1 -> x1 .. xd, then backward bd .. b1, each of which reads its x and the gradient.
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    int tensors = 2 * depth + 2;
    graph->name = "chain";
    graph->tensor_count = tensors;
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, tensors);
    graph->operator_count = 2 * depth;
    graph->operators = ARENA_NEW(arena, struct memory_operator, 2 * depth);
    for (int i = 0; i < tensors; i++)
        graph->tensors[i] = (struct memory_tensor){
            .name = arena_print(arena, "t%d", i), .bytes = i <= depth ? bytes[i] : 1, .shares = -1};
    for (int i = 0; i < 2 * depth; i++) {
        bool is_forward = i < depth;
        int *inputs = ARENA_NEW(arena, int, 2), *outputs = ARENA_NEW(arena, int, 1);
        inputs[0] = is_forward ? i : 2 * depth - i;
        inputs[1] = is_forward ? 0 : i;
        if (i == depth) inputs[1] = 0;  // the first of backward has no gradient yet
        outputs[0] = i + 1;
        graph->operators[i] = (struct memory_operator){.name = arena_print(arena, "o%d", i),
                                                       .inputs = inputs,
                                                       .outputs = outputs,
                                                       .input_count = is_forward ? 1 : 2,
                                                       .output_count = 1,
                                                       .seconds = 1 + i};
        if (i == depth) graph->operators[i].input_count = 1;
    }
    graph->tensor_count = 2 * depth + 1;
    graph->tensors[0].kept = true;
    struct err err = {0};
    assert_true(memory_graph_finish(arena, graph, "chain", &err));
    return graph;
}

// x0 of 1 byte, activations of 10: f1 .. f3 (1, 2, 3 s), then b3 (reads x3), b2 (x2), b1 (x1). All
// kept: 1 + 30 while f3 runs, and b3 has 31 + 1. With 23 bytes x1 or x2 has to go while x3 is made
// (f3 reads x2, so x1): run again for 1 s before b1, out of x0, or copied for 20 s.
static void a_chain_is_as_by_hand(void **state)
{
    const int64_t bytes[] = {1, 10, 10, 10};
    struct memory_graph *graph = chain(*state, bytes, 3);
    double seconds[6];
    struct spill_result kept = solve(*state, graph, 32, 3, seconds);
    assert_true(kept.schedule.fits);
    assert_int_equal(kept.kept_bytes, 32);
    assert_int_equal(kept.repeated_count + kept.moved_count, 0);
    struct spill_result again = solve(*state, graph, 23, 3, seconds);
    assert_true(again.schedule.fits);
    assert_int_equal(again.repeated_count, 1);
    assert_int_equal(again.moved_count, 0);
    assert_float_equal(again.cost_s, 1, 1e-12);
    struct spill_result moved = solve(*state, graph, 23, 2, seconds);
    assert_true(moved.schedule.fits);
    assert_int_equal(moved.out_bytes, 10);
    assert_int_equal(moved.in_bytes, 10);
    assert_float_equal(moved.cost_s, 20, 1e-12);
    // Each copy begins half a second before its bytes flow.
    struct spill_result late = solve(*state, graph, 23, 2 | 4, seconds);
    assert_int_equal(late.copy_count, 2);
    assert_float_equal(late.cost_s, 21, 1e-12);
    assert_float_equal(late.bound_s, 21, 1e-4);
    // Two activations of 10 are there while any of f2, f3 runs.
    assert_false(solve(*state, graph, 20, 3, seconds).schedule.fits);
}

// Activations of equal size, one second each: a segment between two checkpoints is run again once.
static void segments_are_run_again_as_one(void **state)
{
    enum { DEPTH = 16 };
    int64_t bytes[DEPTH + 1];
    double seconds[2 * DEPTH];
    for (int i = 0; i <= DEPTH; i++)
        bytes[i] = 100;
    struct memory_graph *graph = chain(*state, bytes, DEPTH);
    for (int i = 0; i < 2 * DEPTH; i++)
        graph->operators[i].seconds = 1;
    struct spill_result result = solve(*state, graph, 1010, 1, seconds);
    assert_true(result.schedule.fits);
    // No operator more than once again.
    assert_true(result.repeated_count <= DEPTH - 1);
}

// The pebble game. A state is which operators have run, what is on the device, what on the host.
struct pebble {
    unsigned run, device, host;
    double cost_s;
};
struct game {
    const struct memory_graph *graph;
    int64_t capacity;
    unsigned may;
    struct pebble *heap;
    int count;
    double *best;  // [state]
};

static unsigned key_of(const struct pebble *state)
{
    return state->run | state->device << PEBBLE_TENSORS | state->host << (2 * PEBBLE_TENSORS);
}

static void push(struct game *game, struct pebble state)
{
    double *best = &game->best[key_of(&state)];
    if (*best > 0 && *best <= state.cost_s + 1) return;
    *best = state.cost_s + 1;
    assert_true(game->count < PEBBLE_STATES);
    int at = game->count++;
    for (; at > 0 && game->heap[(at - 1) / 2].cost_s > state.cost_s; at = (at - 1) / 2)
        game->heap[at] = game->heap[(at - 1) / 2];
    game->heap[at] = state;
}

static struct pebble pop(struct game *game)
{
    struct pebble first = game->heap[0], last = game->heap[--game->count];
    int at = 0;
    for (int child = 1; child < game->count; child = 2 * at + 1) {
        if (child + 1 < game->count && game->heap[child + 1].cost_s < game->heap[child].cost_s)
            child++;
        if (game->heap[child].cost_s >= last.cost_s) break;
        game->heap[at] = game->heap[child];
        at = child;
    }
    game->heap[at] = last;
    return first;
}

static int64_t bytes_of(const struct memory_graph *graph, unsigned tensors)
{
    int64_t bytes = 0;
    for (int i = 0; i < graph->tensor_count; i++)
        bytes += tensors >> i & 1 ? graph->tensors[i].bytes : 0;
    return bytes;
}

static void play(struct game *game, struct pebble state)
{
    const struct memory_graph *graph = game->graph;
    for (int i = 0; i < graph->tensor_count; i++) {
        unsigned bit = 1u << i;
        struct pebble next = state;
        if (state.device & bit) {
            next.device &= ~bit;
            push(game, next);
            next = state;
            next.host |= bit;
            next.cost_s += (double)graph->tensors[i].bytes;
            if (game->may & 2 && !(state.host & bit)) push(game, next);
        } else if (state.host & bit) {
            next.device |= bit;
            next.cost_s += (double)graph->tensors[i].bytes;
            if (bytes_of(graph, next.device) <= game->capacity) push(game, next);
        }
    }
    for (int o = 0; o < graph->operator_count; o++) {
        const struct memory_operator *of = &graph->operators[o];
        unsigned inputs = 0, outputs = 0;
        for (int i = 0; i < of->input_count; i++)
            inputs |= 1u << of->inputs[i];
        for (int i = 0; i < of->output_count; i++)
            outputs |= 1u << of->outputs[i];
        bool is_again = state.run >> o & 1;
        if ((inputs & state.device) != inputs || (is_again && !(game->may & 1))) continue;
        struct pebble next = state;
        next.run |= 1u << o;
        next.device |= outputs;
        next.cost_s += is_again ? of->seconds : 0;
        if (bytes_of(graph, next.device) + of->workspace_bytes <= game->capacity) push(game, next);
    }
}

// The cheapest end; INFINITY: there is none.
static double cheapest(struct arena *arena, const struct memory_graph *graph, int64_t capacity,
                       unsigned may)
{
    struct game game = {graph, capacity,
                        may,   ARENA_NEW(arena, struct pebble, PEBBLE_STATES),
                        0,     ARENA_NEW(arena, double, 1 << (3 * PEBBLE_TENSORS))};
    struct pebble begin = {0};
    for (int i = 0; i < graph->tensor_count; i++)
        begin.device |= graph->tensors[i].producer < 0 ? 1u << i : 0;
    push(&game, begin);
    while (game.count > 0) {
        struct pebble state = pop(&game);
        unsigned kept = 0;
        for (int i = 0; i < graph->tensor_count; i++)
            kept |= graph->tensors[i].kept ? 1u << i : 0;
        if (state.run == (1u << graph->operator_count) - 1 && (state.device & kept) == kept)
            return state.cost_s;
        play(&game, state);
    }
    return INFINITY;
}

static struct memory_graph *draw_small(struct arena *arena, struct draw *draw)
{
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    graph->name = "small";
    graph->operator_count = PEBBLE_TENSORS - 1;
    graph->tensor_count = PEBBLE_TENSORS;
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, PEBBLE_TENSORS);
    graph->operators = ARENA_NEW(arena, struct memory_operator, PEBBLE_TENSORS - 1);
    for (int i = 0; i < PEBBLE_TENSORS; i++)
        graph->tensors[i] = (struct memory_tensor){
            .name = arena_print(arena, "t%d", i), .bytes = draw_int(draw, 1, 6), .shares = -1};
    for (int o = 0; o < PEBBLE_TENSORS - 1; o++) {
        int *inputs = ARENA_NEW(arena, int, 3), *outputs = ARENA_NEW(arena, int, 1), count = 0;
        for (int i = o; i >= 0 && count < 3; i--) {
            if (i == o || draw_int(draw, 0, 3) == 0) inputs[count++] = i;
        }
        outputs[0] = o + 1;
        graph->operators[o] = (struct memory_operator){.name = arena_print(arena, "o%d", o),
                                                       .inputs = inputs,
                                                       .outputs = outputs,
                                                       .input_count = count,
                                                       .output_count = 1,
                                                       .workspace_bytes = draw_int(draw, 0, 1),
                                                       .seconds = draw_int(draw, 1, 12)};
    }
    struct err err = {0};
    assert_true(memory_graph_finish(arena, graph, "small", &err));
    return graph;
}

// Never cheaper than the cheapest that there is, never said to fit where nothing does.
static void no_choice_beats_the_pebble_game(void **state)
{
    (void)state;
    struct draw draw = draw_start("pebbles", 1);
    int feasible = 0, found = 0, optimal = 0;
    for (int i = 0; i < 60; i++) {
        struct arena arena = {0};
        double seconds[PEBBLE_TENSORS];
        struct memory_graph *graph = draw_small(&arena, &draw);
        unsigned may = (unsigned)draw_int(&draw, 1, 3);
        int64_t whole = solve(&arena, graph, 1000, may, seconds).kept_bytes;
        int64_t capacity = whole - draw_int(&draw, 1, 4);
        struct spill_result result = solve(&arena, graph, capacity, may, seconds);
        double least_s = cheapest(&arena, graph, capacity, may);
        feasible += isfinite(least_s);
        if (result.schedule.fits) {
            assert_true(result.cost_s >= least_s - 1e-9);
            found++;
            optimal += result.cost_s <= least_s + 1e-9;
        }
        arena_free(&arena);
    }
    print_message("# %d can be made to fit, %d were, %d at least cost\n", feasible, found, optimal);
    assert_true(found > 0 && 3 * found >= 2 * feasible && 3 * optimal >= 2 * found);
}

// Views, results in place, updates, what is kept or persistent: the checks of spill_graph find no
// fault, and the arena is what was asked for.
static void graphs_of_every_kind_are_right(void **state)
{
    (void)state;
    enum { MOST = 40 };
    struct draw draw = draw_start("every kind", 2);
    int fitted = 0, again = 0, moved = 0;
    for (int i = 0; i < 200; i++) {
        struct arena arena = {0};
        double seconds[MOST];
        struct memory_graph *graph = graph_random(&arena, &draw, draw_int(&draw, 6, MOST));
        for (int o = 0; o < graph->operator_count; o++)
            graph->operators[o].seconds = draw_int(&draw, 1, 100);
        unsigned may = (unsigned)draw_int(&draw, 1, 3);
        int64_t whole = solve(&arena, graph, INT64_MAX / 8, may, seconds).kept_bytes;
        struct spill_result result =
            solve(&arena, graph, 1 + whole * draw_int(&draw, 50, 99) / 100, may, seconds);
        fitted += result.schedule.fits;
        again += result.repeated_count > 0;
        moved += result.moved_count > 0;
        assert_true(may & 1 || result.repeated_count == 0);
        assert_true(may & 2 || result.moved_count == 0);
        arena_free(&arena);
    }
    print_message("# of 200 %d fit, %d repeat operators, %d copy out\n", fitted, again, moved);
    assert_true(fitted > 8 && again > 8 && moved > 8);
}

static const char *const FAULTS[] = {
    "reads something else", "is missing",         "is said to be another", "comes back smaller",
    "comes back kept",      "comes back as view", "is made by nobody",     "was not allowed",
};
enum { FAULT_COUNT = sizeof FAULTS / sizeof *FAULTS };

static void spoil(struct arena *arena, int fault, struct spill_result *result,
                  struct spill_request *request)
{
    int operators = result->graph->operator_count, tensors = result->graph->tensor_count;
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    int *origins = ARENA_NEW(arena, int, operators), *input = ARENA_NEW(arena, int, 1);
    *graph = *result->graph;
    graph->operators = ARENA_NEW(arena, struct memory_operator, operators);
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, tensors);
    memcpy(graph->operators, result->graph->operators,
           (size_t)operators * sizeof *graph->operators);
    memcpy(graph->tensors, result->graph->tensors, (size_t)tensors * sizeof *graph->tensors);
    memcpy(origins, result->operator_origin, (size_t)operators * sizeof *origins);
    *input = tensors - 1;
    struct memory_tensor *last = &graph->tensors[tensors - 1];
    if (fault == 0) graph->operators[0].inputs = input;
    if (fault == 1) graph->operator_count--;
    if (fault == 2) origins[0] = 1;
    if (fault == 3) last->bytes--;
    if (fault == 4) last->kept = true;
    if (fault == 5) last->shares = 1;
    if (fault == 6) last->producer = -1;
    if (fault == 7) request->may_recompute = request->may_move = false;
    result->graph = graph;
    result->operator_origin = origins;
}

// Every way to spoil a right answer is found.
static void what_is_computed_is_checked(void **state)
{
    const int64_t bytes[] = {1, 10, 10, 10};
    const struct memory_graph *graph = chain(*state, bytes, 3);
    for (unsigned may = 1; may < 3; may++) {
        double seconds[6];
        const struct spill_result right = solve(*state, graph, 23, may, seconds);
        const struct spill_request request = {.graph = graph,
                                              .options = &PLAIN,
                                              .may_recompute = may == 1,
                                              .may_move = may == 2,
                                              .operator_s = seconds,
                                              .move_bytes_per_s = 1};
        const char *why = NULL;
        assert_true(right.schedule.fits && check_spill(*state, &request, &right, &why));
        for (int fault = 0; fault < FAULT_COUNT; fault++) {
            struct spill_result wrong = right;
            struct spill_request asked = request;
            spoil(*state, fault, &wrong, &asked);
            if (check_spill(*state, &asked, &wrong, &why)) fail_msg("%s", FAULTS[fault]);
            assert_non_null(why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_as_by_hand),
        cmocka_unit_test(segments_are_run_again_as_one),
        cmocka_unit_test(no_choice_beats_the_pebble_game),
        cmocka_unit_test(graphs_of_every_kind_are_right),
        cmocka_unit_test(what_is_computed_is_checked),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
