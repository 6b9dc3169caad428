#include "planner/division.h"
#include "tests/support/lowered.h"
#include "tests/support/test.h"

// Layers over stages, counted by hand. gpt2 has an embedding, 12 layers and a head.

enum { EMBEDDING, LAYER, HEAD, OTHER };

struct world {
    struct divisions divisions;
    struct graph graph;
    struct parallel parallel;
};

static struct world *world_of(struct arena *arena)
{
    struct world *world = ARENA_NEW(arena, struct world, 1);
    struct lowered l = lowered_make(arena, (struct setup){.model = "gpt2"}, 1);
    world->divisions.arena = arena;
    world->graph = *l.graph;
    world->parallel = l.parallel;
    world->parallel.degree[AXIS_PP] = 4;
    world->parallel.schedule = SCHEDULE_1F1B;
    assert_int_equal(world->graph.block_count, 3);
    assert_int_equal(world->graph.sequence_count, 14);
    assert_int_equal(world->graph.sequence[0], EMBEDDING);
    assert_int_equal(world->graph.sequence[1], LAYER);
    assert_int_equal(world->graph.sequence[13], HEAD);
    return world;
}

// Every second layer is of another kind.
static void take_turns(struct arena *arena, struct world *world)
{
    struct graph *graph = &world->graph;
    struct block *blocks = ARENA_NEW(arena, struct block, 4);
    int *sequence = ARENA_NEW(arena, int, 14);
    memcpy(blocks, graph->blocks, 3 * sizeof *blocks);
    blocks[OTHER] = blocks[LAYER];
    for (int i = 0; i < 14; i++)
        sequence[i] = graph->sequence[i] == LAYER && i % 2 == 0 ? OTHER : graph->sequence[i];
    graph->blocks = blocks;
    graph->block_count = 4;
    graph->sequence = sequence;
}

static const struct division *divide(struct world *world, int layers)
{
    return division_get(&world->divisions, &world->graph, &world->parallel, layers);
}

static void are(const int *found, const int *wanted, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(found[i], wanted[i]);
}

struct use {
    int kind, count;
    bool recomputed;
    enum stays stays;
    unsigned moved;
    unsigned away;
};

static void has_uses(const struct program_chunk *chunk, const struct use *uses, int count)
{
    assert_int_equal(chunk->use_count, count);
    for (int i = 0; i < count; i++) {
        const struct block_use *use = &chunk->uses[i];
        assert_int_equal(division_kind(use->block_program), uses[i].kind);
        assert_int_equal(use->count, uses[i].count);
        assert_int_equal(division_recomputes(use->block_program), uses[i].recomputed);
        assert_int_equal(division_stays(use->block_program), uses[i].stays);
        assert_int_equal(use->moved, uses[i].moved);
        assert_int_equal(use->away, uses[i].away);
    }
}

static void equal_chunks_are_one_class(void **state)
{
    struct world *world = world_of(*state);
    const struct division *division = divide(world, 0);
    assert_int_equal(division->class_count, 3);
    are(division->class_of, (const int[]){0, 1, 1, 2}, 4);
    are(division->stage_layers, (const int[]){3, 3, 3, 3}, 4);
    assert_int_equal(division->layers_most, 3);
    assert_int_equal(division->head_count, 3);
    are(division->heads, (const int[]){0, 1, 3}, 3);
    assert_ptr_equal(division->base, division);
    are(division->base_class, (const int[]){0, 1, 2}, 3);
    has_uses(&division->chunks[0],
             (const struct use[]){{.kind = EMBEDDING, .count = 1}, {.kind = LAYER, .count = 3}}, 2);
    has_uses(&division->chunks[1], (const struct use[]){{.kind = LAYER, .count = 3}}, 1);
    has_uses(&division->chunks[2],
             (const struct use[]){{.kind = LAYER, .count = 3}, {.kind = HEAD, .count = 1}}, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(division->chunks[i].first, i == 0);
        assert_int_equal(division->chunks[i].last, i == 2);
    }
    assert_ptr_equal(divide(world, 0), division);
}

// Of 2, 4, 4 and 2 layers the third repeats the second; of 2, 3, 5 and 2 none does.
static void uneven_stages_are_what_is_pinned(void **state)
{
    struct world *world = world_of(*state);
    world->parallel.stage_layers = (const int[]){2, 4, 4, 2};
    world->parallel.stage_layers_count = 4;
    const struct division *division = divide(world, 0);
    are(division->stage_layers, (const int[]){2, 4, 4, 2}, 4);
    assert_int_equal(division->layers_most, 4);
    are(division->heads, (const int[]){0, 1, 3}, division->head_count);
    world->parallel.stage_layers = (const int[]){2, 3, 5, 2};
    division = divide(world, 0);
    assert_int_equal(division->class_count, 4);
    assert_int_equal(division->head_count, 4);
    are(division->stage_layers, (const int[]){2, 3, 5, 2}, 4);
}

// The first 2 of a stage are recomputed, in whichever chunk they are: of two chunks of 1 or 2
// layers the second's first is the stage's second or third.
static void the_first_layers_of_a_stage_are_recomputed(void **state)
{
    struct world *world = world_of(*state);
    const struct division *division = divide(world, 2);
    has_uses(&division->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 2, .recomputed = true}},
             2);
    assert_ptr_equal(division->base, divide(world, 0));
    are(division->base_class, (const int[]){0, 1, 2}, 3);
    has_uses(&divide(world, -1)->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 3, .recomputed = true}}, 1);
    world->parallel.degree[AXIS_PP] = 2;
    world->parallel.vpp = 2;
    world->parallel.schedule = SCHEDULE_INTERLEAVED;
    division = divide(world, 4);
    are(division->stage_layers, (const int[]){6, 6}, 2);
    assert_int_equal(division->class_count, 4);
    const struct use first[] = {{.kind = EMBEDDING, .count = 1},
                                {.kind = LAYER, .count = 3, .recomputed = true}};
    const struct use second[] = {{.kind = LAYER, .count = 2},
                                 {.kind = LAYER, .count = 1, .recomputed = true}};
    has_uses(&division->chunks[division->class_of[0]], first, 2);
    has_uses(&division->chunks[division->class_of[1]], second, 2);
    has_uses(&division->chunks[division->class_of[2]], &first[1], 1);
    // Without: the middle chunks are one class.
    division = divide(world, 0);
    are(division->class_of, (const int[]){0, 1, 1, 2}, 4);
}

// Activations of one class of operators leave of the first two layers; of all classes of the first,
// beside states of the first two; parameters of the first: each mixture is a use of its own.
static void what_leaves_is_said_of_each_layer(void **state)
{
    struct world *world = world_of(*state);
    struct offload *offload = &world->parallel.offload;
    offload->activations = TIER_HOST;
    offload->layers[1] = 2;
    const struct division *division = divide(world, 1);
    has_uses(&division->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 1, .recomputed = true, .moved = 2},
                                  {.kind = LAYER, .count = 1, .moved = 2}},
             3);
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        offload->layers[class] = 1;
    offload->optimizer = TIER_HOST;
    offload->optimizer_layers = 2;
    const unsigned moved = (1u << OP_CLASS_COUNT) - 1;
    division = divide(world, 0);
    has_uses(&division->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 1, .moved = moved, .away = AWAY_STATES},
                                  {.kind = LAYER, .count = 1, .away = AWAY_STATES}},
             3);
    // Only activations may differ from the base.
    assert_ptr_not_equal(division->base, division);
    has_uses(&division->base->chunks[division->base_class[1]],
             (const struct use[]){{.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 2, .away = AWAY_STATES}},
             2);
    *offload =
        (struct offload){.parameters = TIER_HOST, .optimizer = TIER_HOST, .parameter_layers = 1};
    division = divide(world, 0);
    has_uses(&division->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 2, .stays = STAYS_ALWAYS}},
             2);
    has_uses(&division->chunks[0],
             (const struct use[]){{.kind = EMBEDDING, .count = 1, .stays = STAYS_ALWAYS},
                                  {.kind = LAYER, .count = 1},
                                  {.kind = LAYER, .count = 2, .stays = STAYS_ALWAYS}},
             3);
}

// Of 12 layers the first 8 fetch: those of the last three stay at the turn, of the first six
// between micro-batches, of layer 5 both. Where all fetch the head is the last block.
static void what_stays_is_said_of_each_block_in_order(void **state)
{
    struct world *world = world_of(*state);
    world->parallel.degree[AXIS_PP] = 1;
    world->parallel.offload = (struct offload){.parameters = TIER_HOST,
                                               .optimizer = TIER_HOST,
                                               .parameter_layers = 8,
                                               .turn_blocks = 3,
                                               .between_layers = 6};
    const enum stays both = (enum stays)(STAYS_TURN | STAYS_BETWEEN);
    has_uses(&divide(world, 0)->chunks[0],
             (const struct use[]){{.kind = EMBEDDING, .count = 1, .stays = STAYS_ALWAYS},
                                  {.kind = LAYER, .count = 5, .stays = STAYS_BETWEEN},
                                  {.kind = LAYER, .count = 1, .stays = both},
                                  {.kind = LAYER, .count = 2, .stays = STAYS_TURN},
                                  {.kind = LAYER, .count = 4, .stays = STAYS_ALWAYS},
                                  {.kind = HEAD, .count = 1, .stays = STAYS_ALWAYS}},
             6);
    world->parallel.offload.parameter_layers = 0;
    world->parallel.offload.between_layers = 1;
    has_uses(&divide(world, 0)->chunks[0],
             (const struct use[]){{.kind = EMBEDDING, .count = 1},
                                  {.kind = LAYER, .count = 1, .stays = STAYS_BETWEEN},
                                  {.kind = LAYER, .count = 9},
                                  {.kind = LAYER, .count = 2, .stays = STAYS_TURN},
                                  {.kind = HEAD, .count = 1, .stays = STAYS_TURN}},
             5);
}

// Two kinds that take turns on stages of 3 layers: a, b, a and b, a, b. Counts tell them apart; on
// 6 stages of a, b and b, a only the order does, which counts where buckets of gradients do.
static void order_counts_where_kinds_take_turns(void **state)
{
    struct world *world = world_of(*state);
    take_turns(*state, world);
    const struct division *division = divide(world, 0);
    are(division->class_of, (const int[]){0, 1, 2, 3}, 4);
    has_uses(&division->chunks[1],
             (const struct use[]){{.kind = LAYER, .count = 1}, {.kind = OTHER, .count = 2}}, 2);
    world->parallel.degree[AXIS_PP] = 3;
    world->parallel.stage_layers = (const int[]){3, 4, 5};
    world->parallel.stage_layers_count = 3;
    struct divisions streaming = {.arena = *state, .streams = true};
    world->divisions = streaming;
    division = divide(world, 1);
    const struct use ordered[] = {{.kind = OTHER, .count = 1, .recomputed = true},
                                  {.kind = LAYER, .count = 1},
                                  {.kind = OTHER, .count = 1},
                                  {.kind = LAYER, .count = 1}};
    has_uses(&division->chunks[division->class_of[1]], ordered, 4);
    // Without turns what stands in a row is one use.
    struct world *plain = world_of(*state);
    plain->divisions = (struct divisions){.arena = *state, .streams = true};
    has_uses(&divide(plain, 0)->chunks[1], (const struct use[]){{.kind = LAYER, .count = 3}}, 1);
    // Stages of 2 layers are alike but for their order.
    struct world *pairs = world_of(*state);
    take_turns(*state, pairs);
    pairs->parallel.degree[AXIS_PP] = 4;
    pairs->parallel.stage_layers = (const int[]){3, 2, 3, 4};
    pairs->parallel.stage_layers_count = 4;
    pairs->divisions.streams = true;
    assert_int_equal(divide(pairs, 0)->class_count, 4);
    // Of 2, 2, 1, 2 and 5 the second has a, b and the fourth b, a: one class where only counts tell
    // classes apart.
    for (int streams = 0; streams < 2; streams++) {
        struct world *turned = world_of(*state);
        take_turns(*state, turned);
        turned->parallel.degree[AXIS_PP] = 5;
        turned->parallel.stage_layers = (const int[]){2, 2, 1, 2, 5};
        turned->parallel.stage_layers_count = 5;
        turned->divisions.streams = streams;
        are(divide(turned, 0)->class_of,
            streams ? (const int[]){0, 1, 2, 3, 4} : (const int[]){0, 1, 2, 1, 3}, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_chunks_are_one_class),
        cmocka_unit_test(uneven_stages_are_what_is_pinned),
        cmocka_unit_test(the_first_layers_of_a_stage_are_recomputed),
        cmocka_unit_test(what_leaves_is_said_of_each_layer),
        cmocka_unit_test(what_stays_is_said_of_each_block_in_order),
        cmocka_unit_test(order_counts_where_kinds_take_turns),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
