#include "planner/cuts.h"

#include "planner/choice.h"
#include "planner/memo.h"
#include "tests/support/test.h"

#include <math.h>

// Which cuts of a space could hide a faster plan, and what bounds each: from one question of which
// all cuts are open, everything that closes one is changed by itself.

#define NOT_LISTED (-1.)

// Bounds of the scan, in seconds, which are all different; the best plan takes 2.
enum { BEST_S = 2 };
static const struct scan_result SCANNED = {.piped_s = 1.01,
                                           .pressed_s = 1.03,
                                           .steady_s = 1.07,
                                           .silent_s = 1.09,
                                           .other_attention_s = 1.05};

struct cuts_bench {
    struct stack stack;
    struct cluster *cluster;
    struct search_request request;
    struct space_mesh mesh;
    struct space space;
    struct space_graphs graphs;
    struct scan_result scanned;
    struct candidate best;
    bool nothing_fits;
    struct arena scratch;
};

static void open_bench(struct arena *arena, struct cuts_bench *bench)
{
    struct err err = {0};
    *bench = (struct cuts_bench){.scanned = SCANNED};
    bench->stack = *stack_load(arena, "meshwright", &err);
    bench->cluster = cluster_copy_nodes(arena, cluster_load(arena, "dgx-a100-80g", &err));
    bench->stack.attention = 1 << ATTENTION_FLASH | 1 << ATTENTION_UNFUSED;
    bench->stack.stages_by_flop = false;
    bench->request = (struct search_request){
        .model = model_load(arena, "gpt2", NULL, NULL, &err),
        .cluster = bench->cluster,
        .stack = &bench->stack,
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 64, .global_batch = 8, .precision = PRECISION_BF16},
        .pins = pins_none(),
    };
    assert_string_equal(err.text, "");
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        bench->mesh.degree[axis] = 1;
    bench->mesh.degree[AXIS_DP] = 4;
    bench->mesh.degree[AXIS_TP] = 2;
    bench->mesh.degree[AXIS_PP] = 2;
    struct space *space = &bench->space;
    space->request = &bench->request;
    space->meshes = &bench->mesh;
    space->mesh_count = 1;
    space->cuts = 1u << CUT_CP | 1u << CUT_SP;
    space->fixed.passes = 1u << PASS_ATTENTION;
    space->zeros = (struct space_values){2, {0, 1}};
    space->schedules = (struct space_values){2, {SCHEDULE_1F1B, SCHEDULE_ZB_AUTO}};
    space->attentions = (struct space_values){1, {ATTENTION_FLASH}};
    space->recomputes = (struct space_values){1, {recompute_value(RECOMPUTE_NONE, 0)}};
    struct memo *memo = memo_new(arena, &bench->scratch, &bench->request);
    bench->graphs = (struct space_graphs){memo_graph_of, memo};
    bench->best.closed_form_s = BEST_S;
    bench->best.parallel.recompute = RECOMPUTE_NONE;
}

// What is open of the question as it stands.
static const double OPEN[CUT_COUNT] = {
    [CUT_TP] = NOT_LISTED,  [CUT_CP] = 0,           [CUT_MICRO_BATCH] = NOT_LISTED,
    [CUT_ETP] = NOT_LISTED, [CUT_SP] = 0,           [CUT_IMAGES] = NOT_LISTED,
    [CUT_RELAY] = 1.09,     [CUT_LOSS] = 1.03,      [CUT_STAGES] = 1.01,
    [CUT_RECOMPUTE] = 1.01, [CUT_IN_FLIGHT] = 1.01, [CUT_ZERO_GROUP] = 1.07,
    [CUT_BUCKET] = 1.03,    [CUT_ATTENTION] = 1.05, [CUT_OVERLAP] = 1.09,
    [CUT_PASSES] = 1.05,    [CUT_OFFLOAD] = 1.03,   [CUT_STATES] = NOT_LISTED,
};

static void check_cuts(const struct cuts_bench *bench, const double *wanted)
{
    struct open_cut list[CUT_COUNT];
    int at = 0, count = cuts_open(&bench->space, &bench->graphs, &bench->scanned,
                                  bench->nothing_fits ? NULL : &bench->best, list);
    for (int cut = 0; cut < CUT_COUNT; cut++) {
        if (wanted[cut] == NOT_LISTED) {
            if (at < count) assert_int_not_equal(list[at].cut, cut);
            continue;
        }
        assert_true(at < count);
        assert_int_equal(list[at].cut, cut);
        if (list[at].bound_s != wanted[cut])
            fail_msg("%s: %g", cut_text((enum cut)cut), list[at].bound_s);
        at++;
    }
    assert_int_equal(at, count);
}

static void pin(struct cuts_bench *bench, enum choice choice, int64_t value)
{
    pins_set(&bench->request.pins, choice, value, value);
}

static void pin_relay(struct cuts_bench *bench)
{
    pin(bench, CHOICE_TP_RELAY, 1);
}
static void pin_loss(struct cuts_bench *bench)
{
    pin(bench, CHOICE_LOSS_CHUNKS, 1);
}
static void pin_recompute(struct cuts_bench *bench)
{
    pin(bench, CHOICE_RECOMPUTE, 0);
}
static void pin_in_flight(struct cuts_bench *bench)
{
    pin(bench, CHOICE_IN_FLIGHT, 3);
}
static void pin_bucket(struct cuts_bench *bench)
{
    pin(bench, CHOICE_BUCKET_BYTES, 1 << 20);
}
static void pin_attention(struct cuts_bench *bench)
{
    pin(bench, CHOICE_ATTENTION, 0);
}
static void pin_overlap(struct cuts_bench *bench)
{
    pin(bench, CHOICE_OVERLAP, 0);
}
static void pin_passes(struct cuts_bench *bench)
{
    pin(bench, CHOICE_PASSES, 0);
}
static void pin_offload(struct cuts_bench *bench)
{
    pin(bench, CHOICE_OFFLOAD, 0);
}
static void pin_groups(struct cuts_bench *bench)
{
    pin(bench, CHOICE_ZERO_GROUP, 2);
    pin(bench, CHOICE_ZERO_GRADIENTS, 2);
    pin(bench, CHOICE_ZERO_PARAMETERS, 2);
}
static void pin_one_group(struct cuts_bench *bench)
{
    pin(bench, CHOICE_ZERO_GROUP, 2);
    pin(bench, CHOICE_ZERO_GRADIENTS, 2);
}
static void pin_stages(struct cuts_bench *bench)
{
    static const int LAYERS[] = {6, 6};
    bench->request.pins.stage_layers = LAYERS;
    bench->request.pins.stage_layers_count = 2;
}
static void no_tensor(struct cuts_bench *bench)
{
    bench->mesh.degree[AXIS_TP] = 1;
}
static void no_zero_bubble(struct cuts_bench *bench)
{
    bench->space.schedules.count = 1;
}
static void no_shards(struct cuts_bench *bench)
{
    bench->space.zeros.count = 1;
}
static void three_replicas(struct cuts_bench *bench)
{
    bench->mesh.degree[AXIS_DP] = 3;
}
static void replicas_of_context(struct cuts_bench *bench)
{
    bench->mesh.degree[AXIS_DP] = bench->mesh.degree[AXIS_CP] = 2;
}
static void one_attention(struct cuts_bench *bench)
{
    bench->stack.attention = 1 << ATTENTION_FLASH;
}
static void no_overlap(struct cuts_bench *bench)
{
    bench->stack.overlap = 0;
}
static void no_passes(struct cuts_bench *bench)
{
    bench->space.fixed.passes = 0;
}
static void other_pass(struct cuts_bench *bench)
{
    bench->space.fixed.passes = 1u << PASS_COMBINE;
}
static void no_offload(struct cuts_bench *bench)
{
    bench->stack.offload = 0;
}
static void all_sets(struct cuts_bench *bench)
{
    // As many ways as sets of classes, and in full.
    bench->stack.recompute_classes = 0;
    bench->space.recomputes.count = 2;
}
static void more_sets(struct cuts_bench *bench)
{
    bench->stack.recompute_classes = 0;
    bench->space.recomputes.count = 1;
}
static void no_pipeline(struct cuts_bench *bench)
{
    bench->mesh.degree[AXIS_PP] = 1;
}
static void one_rank(struct cuts_bench *bench)
{
    bench->cluster->rank_count = 1;
    bench->scanned.other_attention_s = 1.11;
}
static void search_moves(struct cuts_bench *bench)
{
    bench->request.pins.search_offload = true;
    bench->mesh.degree[AXIS_DP] = bench->mesh.degree[AXIS_TP] = 1;
}
static void search_host(struct cuts_bench *bench)
{
    bench->request.pins.search_offload = true;
    bench->request.pins.search_parameters = TIER_HOST;
}
static void others_stack(struct cuts_bench *bench)
{
    bench->stack.flags_of = NULL;
}
static void one_bucket(struct cuts_bench *bench)
{
    bench->mesh.degree[AXIS_DP] = bench->mesh.degree[AXIS_TP] = 1;
}

// What each changes: the cuts that it closes, or bounds otherwise.
static const struct {
    void (*change)(struct cuts_bench *bench);
    unsigned closed;
    int cut, cut2;  // 0: none
    double bound_s, bound2_s;
} CHANGES[] = {
    {pin_relay, 1u << CUT_RELAY, 0, 0, 0, 0},
    {pin_loss, 1u << CUT_LOSS, 0, 0, 0, 0},
    {pin_recompute, 1u << CUT_RECOMPUTE, 0, 0, 0, 0},
    {pin_in_flight, 1u << CUT_IN_FLIGHT, 0, 0, 0, 0},
    {pin_bucket, 1u << CUT_BUCKET, 0, 0, 0, 0},
    {pin_attention, 1u << CUT_ATTENTION, 0, 0, 0, 0},
    {pin_overlap, 1u << CUT_OVERLAP, 0, 0, 0, 0},
    {pin_passes, 1u << CUT_PASSES, 0, 0, 0, 0},
    {pin_offload, 1u << CUT_OFFLOAD, 0, 0, 0, 0},
    {pin_groups, 1u << CUT_ZERO_GROUP, 0, 0, 0, 0},
    {pin_one_group, 0, 0, 0, 0, 0},
    {pin_stages, 1u << CUT_STAGES, 0, 0, 0, 0},
    {no_tensor, 1u << CUT_RELAY, 0, 0, 0, 0},
    {no_zero_bubble, 1u << CUT_IN_FLIGHT, 0, 0, 0, 0},
    {no_shards, 1u << CUT_ZERO_GROUP, 0, 0, 0, 0},
    {three_replicas, 1u << CUT_ZERO_GROUP, 0, 0, 0, 0},
    {replicas_of_context, 0, 0, 0, 0, 0},
    {one_attention, 1u << CUT_ATTENTION, 0, 0, 0, 0},
    {no_overlap, 1u << CUT_OVERLAP, 0, 0, 0, 0},
    {no_passes, 1u << CUT_PASSES, 0, 0, 0, 0},
    {other_pass, 0, CUT_PASSES, 0, 1.09, 0},
    {no_offload, 1u << CUT_OFFLOAD, 0, 0, 0, 0},
    {all_sets, 1u << CUT_RECOMPUTE, 0, 0, 0, 0},
    {more_sets, 0, 0, 0, 0, 0},
    {no_pipeline, 1u << CUT_STAGES | 1u << CUT_IN_FLIGHT, 0, 0, 0, 0},
    {one_rank, 1u << CUT_OVERLAP, CUT_PASSES, CUT_ATTENTION, 1.11, 1.11},
    {search_moves, 1u << CUT_OFFLOAD | 1u << CUT_RELAY | 1u << CUT_ZERO_GROUP, CUT_STATES, 0, 1.03,
     0},
    {search_host, 1u << CUT_OFFLOAD, CUT_STATES, 0, 0, 0},
    {others_stack, 1u << CUT_RELAY | 1u << CUT_LOSS, 0, 0, 0, 0},
    {one_bucket, 1u << CUT_RELAY | 1u << CUT_ZERO_GROUP | 1u << CUT_BUCKET, 0, 0, 0, 0},
};

static void each_cut_is_closed_by_what_leaves_nothing_out(void **state)
{
    for (size_t i = 0; i < sizeof CHANGES / sizeof *CHANGES; i++) {
        struct cuts_bench bench;
        double wanted[CUT_COUNT];
        open_bench(*state, &bench);
        check_cuts(&bench, OPEN);
        memcpy(wanted, OPEN, sizeof wanted);
        CHANGES[i].change(&bench);
        for (int cut = 0; cut < CUT_COUNT; cut++)
            if (CHANGES[i].closed >> cut & 1) wanted[cut] = NOT_LISTED;
        if (CHANGES[i].cut) wanted[CHANGES[i].cut] = CHANGES[i].bound_s;
        if (CHANGES[i].cut2) wanted[CHANGES[i].cut2] = CHANGES[i].bound2_s;
        check_cuts(&bench, wanted);
        arena_free(&bench.scratch);
    }
}

// No bound is above this one but those of every plan, whatever its split and way to recompute.
static void bound_by(double *wanted, double most_s)
{
    memcpy(wanted, OPEN, sizeof OPEN);
    for (int cut = CUT_RELAY; cut < CUT_COUNT; cut++) {
        bool bounds_all = cut == CUT_ATTENTION || cut == CUT_OVERLAP || cut == CUT_PASSES;
        if (wanted[cut] != NOT_LISTED && !bounds_all) wanted[cut] = fmin(wanted[cut], most_s);
    }
}

static void set_all(double *wanted, double bound_s)
{
    memcpy(wanted, OPEN, sizeof OPEN);
    for (int cut = CUT_RELAY; cut < CUT_COUNT; cut++)
        if (wanted[cut] != NOT_LISTED) wanted[cut] = bound_s;
}

static void a_best_plan_beside_the_space_is_bounded_by_what_it_leaves_out(void **state)
{
    struct cuts_bench bench;
    double wanted[CUT_COUNT];
    open_bench(*state, &bench);
    struct parallel *best = &bench.best.parallel, plain = *best;
    best->stage_layers_count = 2;
    bound_by(wanted, 1.01);
    check_cuts(&bench, wanted);
    *best = plain;
    best->in_flight = 1;
    check_cuts(&bench, wanted);
    *best = plain;
    best->recompute = RECOMPUTE_FULL;
    bound_by(wanted, 1.03);
    check_cuts(&bench, wanted);
    *best = plain;
    best->offload.optimizer_layers = 1;
    check_cuts(&bench, wanted);
    *best = plain;
    best->zero_gradients = 2;
    bound_by(wanted, 1.07);
    check_cuts(&bench, wanted);
    // What is fetched less, returned less or stays a while has no bound at all.
    *best = plain;
    set_all(wanted, 0);
    best->offload.parameters = TIER_HOST;
    best->offload.optimizer = TIER_HOST;
    best->offload.turn_blocks = 1;
    check_cuts(&bench, wanted);
    best->offload.turn_blocks = 0;
    best->offload.parameter_layers = 1;
    check_cuts(&bench, OPEN);
    bench.request.pins.search_parameters = TIER_HOST;
    check_cuts(&bench, wanted);
    bench.request.pins.search_parameters = TIER_DEVICE;
    *best = plain;
    best->offload.gradient_layers = 1;
    check_cuts(&bench, OPEN);
    bench.request.pins.search_gradients = true;
    check_cuts(&bench, wanted);
    arena_free(&bench.scratch);
}

// A cut is no question where its bound is not a nanosecond below the best plan.
static void what_is_bounded_as_long_as_the_best_is_no_cut(void **state)
{
    static const double BOUNDS[] = {1.01, 1.03, 1.05, 1.07, 1.09};
    struct cuts_bench bench;
    double wanted[CUT_COUNT];
    open_bench(*state, &bench);
    for (int i = 0; i < 5; i++) {
        for (int longer = 0; longer < 2; longer++) {
            bench.best.closed_form_s = BOUNDS[i] + (longer ? 1e-9 : 0);
            memcpy(wanted, OPEN, sizeof wanted);
            for (int cut = CUT_RELAY; cut < CUT_COUNT; cut++)
                if (wanted[cut] > BOUNDS[i] || (wanted[cut] == BOUNDS[i] && !longer))
                    wanted[cut] = NOT_LISTED;
            check_cuts(&bench, wanted);
        }
    }
    bench.best.closed_form_s = BEST_S;
    bench.scanned = (struct scan_result){.piped_s = INFINITY,
                                         .pressed_s = INFINITY,
                                         .steady_s = INFINITY,
                                         .silent_s = INFINITY,
                                         .other_attention_s = INFINITY};
    set_all(wanted, NOT_LISTED);
    check_cuts(&bench, wanted);
    arena_free(&bench.scratch);
}

static void of_memory_nothing_is_bounded(void **state)
{
    struct cuts_bench bench;
    double wanted[CUT_COUNT];
    open_bench(*state, &bench);
    set_all(wanted, 0);
    bench.request.objective = OBJECTIVE_MEMORY;
    bench.best.closed_form_s = 1;
    check_cuts(&bench, wanted);
    // Where nothing fits, groups are no help.
    bench.request.objective = OBJECTIVE_TIME;
    bench.nothing_fits = true;
    wanted[CUT_ZERO_GROUP] = NOT_LISTED;
    check_cuts(&bench, wanted);
    arena_free(&bench.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cut_is_closed_by_what_leaves_nothing_out),
        cmocka_unit_test(a_best_plan_beside_the_space_is_bounded_by_what_it_leaves_out),
        cmocka_unit_test(what_is_bounded_as_long_as_the_best_is_no_cut),
        cmocka_unit_test(of_memory_nothing_is_bounded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
