#include "planner/uneven_split.h"
#include "tests/support/pair_search.h"
#include "tests/support/test.h"

#include "planner/question.h"
#include "simulator/unlike.h"

#include <math.h>

// What one plan is split into, number by number: each rule by plain loops over the seconds and the
// bytes that the plan has when it is played whole. gpt2, of 12 layers, on H100s and A100s.

enum { LAYERS = 12, STAGES_MOST = 3, REPLICAS_MOST = 3 };

static struct search_request request_of(struct arena *arena, int fast, int slow, int64_t batch)
{
    struct err err = {0};
    struct search_request request = pair_search(arena);
    struct cluster *cluster = cluster_load(arena, slow ? "h100-a100-mixed" : "dgx-h100", &err);
    assert_string_equal(err.text, "");
    if (slow == 0) assert_true(cluster_take_gpus(cluster, fast, &err));
    for (int n = 0; n < 2 && slow > 0; n++)
        cluster->nodes[n].gpus = cluster->nodes[n].gpus_per_host = n ? slow : fast;
    cluster->rank_count = fast + slow;
    request.cluster = cluster;
    request.workload.global_batch = batch;
    return request;
}

static struct parallel plan_of(int dp, int pp)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 1, .zero = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_DP] = dp;
    parallel.degree[AXIS_PP] = pp;
    parallel.attention = ATTENTION_FLASH;
    parallel_default_order(&parallel);
    return parallel;
}

// Seconds of a micro-batch where the plan is even, [replica * stages + stage], and the layers that
// its stages have then.
static double *seconds_of(struct arena *arena, const struct search_request *request,
                          struct parallel parallel, int *layers)
{
    struct search_request even = *request;
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    int each = parallel.degree[AXIS_DP] * parallel.micro_batch;
    even.workload.global_batch = (request->workload.global_batch + each - 1) / each * each;
    parallel.replica_count = 0;
    const struct evaluation_request question = search_question(&even, &parallel);
    if (!evaluate(arena, &scratch, &question, &evaluation, &err)) fail_msg("%s", err.text);
    double *s = unlike_replica_s(arena, &scratch, &question, evaluation.program, evaluation.price);
    for (int stage = 0; stage < parallel.degree[AXIS_PP]; stage++) {
        const struct chunk_span *span = &evaluation.program->spans[stage];
        const struct graph *graph = evaluation.graph;
        layers[stage] = 0;
        for (int b = span->first; b < span->first + span->count; b++)
            layers[stage] += graph->blocks[graph->sequence[b]].role == BLOCK_LAYER;
    }
    arena_free(&scratch);
    return s;
}

// One each, and every other one to whom it ends first: the way through all stages once, and what
// the slowest of them takes for each behind it.
static void check_batches(struct arena *arena, const struct search_request *request, int pp)
{
    int replicas = request->cluster->rank_count / pp, counts[REPLICAS_MOST] = {0};
    struct parallel parallel = plan_of(replicas, pp);
    // Stages of a replica side by side, so that one replica is on the fast node.
    for (int i = 0; i < parallel.order_count; i++)
        if (parallel.order[i] == AXIS_DP || parallel.order[i] == AXIS_PP)
            parallel.order[i] = AXIS_DP + AXIS_PP - parallel.order[i];
    int even[STAGES_MOST];
    double *s = seconds_of(arena, request, parallel, even), ends[REPLICAS_MOST],
           each[REPLICAS_MOST];
    for (int r = 0; r < replicas; r++) {
        ends[r] = each[r] = 0;
        for (int stage = 0; stage < pp; stage++) {
            ends[r] += s[r * pp + stage];
            each[r] = fmax(each[r], s[r * pp + stage]);
        }
        counts[r] = 1;
    }
    bool differ = false;
    for (int64_t m = replicas; m < request->workload.global_batch; m++) {
        int to = 0;
        for (int r = 1; r < replicas; r++)
            if (ends[r] + each[r] < ends[to] + each[to]) to = r;
        counts[to]++, ends[to] += each[to];
    }
    for (int r = 1; r < replicas; r++)
        differ |= counts[r] != counts[0];
    struct uneven_split split = {.arena = arena, .request = request};
    assert_int_equal(uneven_batches(&split, &parallel), differ);
    assert_int_equal(parallel.replica_count, differ ? replicas : 0);
    for (int r = 0; r < replicas && differ; r++)
        assert_int_equal(parallel.replica_micro_batches[r], counts[r]);
    assert_int_equal(split.played_count, 0);
}

static void micro_batches_go_where_they_end_first(void **state)
{
    for (int batch = 3; batch < 20; batch += 4) {
        const struct search_request three = request_of(*state, 1, 2, batch),
                                    two = request_of(*state, 2, 2, batch);
        check_batches(*state, &three, 1);
        check_batches(*state, &two, 2);
    }
    // Of two that are alike one has more where the number is odd.
    for (int batch = 6; batch < 8; batch++) {
        const struct search_request alike = request_of(*state, 2, 0, batch);
        check_batches(*state, &alike, 1);
    }
}

static void numbers_differ_where_they_can(void **state)
{
    static const int PINNED[] = {5, 3};
    struct search_request request = request_of(*state, 1, 1, 8);
    struct uneven_split split = {.arena = *state, .request = &request};
    struct parallel parallel = plan_of(2, 1);
    assert_true(uneven_batches(&split, &parallel));
    struct parallel other = plan_of(1, 2);  // one replica
    assert_false(uneven_batches(&split, &other));
    other = plan_of(2, 1), other.micro_batch = 3;  // does not divide 8
    assert_false(uneven_batches(&split, &other));
    other.micro_batch = 8;  // one for two
    assert_false(uneven_batches(&split, &other));
    other.micro_batch = 4;  // one each
    assert_false(uneven_batches(&split, &other));
    request.pins.replica_micro_batches = PINNED;
    request.pins.replica_count = 3;
    other = plan_of(2, 1);
    assert_false(uneven_batches(&split, &other));
    request.pins.replica_count = 2;
    other = plan_of(2, 1);
    assert_true(uneven_batches(&split, &other));
    assert_ptr_equal(other.replica_micro_batches, PINNED);
    assert_int_equal(other.replica_count, 2);
    request.pins.replica_count = 0;
    struct err err = {0};
    request.stack = stack_load(*state, "megatron-core", &err);
    other = plan_of(2, 1);
    assert_false(uneven_batches(&split, &other));
}

// Every layer to the stage that ends it first: at either end of the pipeline there is one more,
// the embedding's or the head's; those between have one from the start for each chunk.
static void check_layers(struct arena *arena, const struct search_request *request, int dp, int pp)
{
    struct parallel parallel = plan_of(dp, pp);
    int layers[STAGES_MOST], even[STAGES_MOST], left = LAYERS;
    double *s = seconds_of(arena, request, parallel, even), layer_s[STAGES_MOST] = {0};
    for (int stage = 0; stage < pp; stage++) {
        bool is_end = stage == 0 || stage == pp - 1;
        for (int r = 0; r < dp; r++)
            layer_s[stage] = fmax(layer_s[stage], s[r * pp + stage] / (even[stage] + is_end));
        layers[stage] = is_end ? 0 : 1;
        left -= layers[stage];
    }
    for (; left > 0; left--) {
        int to = -1;
        double least_s = INFINITY;
        for (int stage = 0; stage < pp; stage++) {
            bool is_end = stage == 0 || stage == pp - 1;
            double end_s = (layers[stage] + 1 + is_end) * layer_s[stage];
            if (end_s < least_s) least_s = end_s, to = stage;
        }
        layers[to]++;
    }
    bool differ = memcmp(layers, even, (size_t)pp * sizeof *layers) != 0;
    struct uneven_split split = {.arena = arena, .request = request};
    assert_int_equal(uneven_layers(&split, &parallel), differ);
    assert_int_equal(parallel.stage_layers_count, differ ? pp : 0);
    for (int stage = 0; stage < pp && differ; stage++)
        assert_int_equal(parallel.stage_layers[stage], layers[stage]);
}

static void layers_go_where_they_end_first(void **state)
{
    static const int SHAPES[][4] = {{1, 1, 1, 2}, {1, 2, 1, 3}, {2, 1, 1, 3},
                                    {2, 0, 1, 2}, {2, 2, 2, 2}, {3, 0, 1, 3}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        struct search_request request = request_of(*state, SHAPES[i][0], SHAPES[i][1], 8);
        check_layers(*state, &request, SHAPES[i][2], SHAPES[i][3]);
        struct uneven_split split = {.arena = *state, .request = &request};
        request.pins.stage_layers_count = 2;
        struct parallel pinned = plan_of(SHAPES[i][2], SHAPES[i][3]), one = plan_of(2, 1);
        assert_false(uneven_layers(&split, &pinned));
        request.pins.stage_layers_count = 0;
        assert_false(uneven_layers(&split, &one));
    }
}

// A way through the rounds of making room, by the bytes of the plan played whole.
static bool fit_by_hand(struct arena *arena, const struct search_request *request, int *layers,
                        int *rounds)
{
    for (*rounds = 1; *rounds <= 16; (*rounds)++) {
        struct arena scratch = {0};
        struct err err = {0};
        struct evaluation evaluation = {0};
        struct parallel parallel = plan_of(1, 2);
        parallel.stage_layers = layers, parallel.stage_layers_count = 2;
        const struct evaluation_request question = search_question(request, &parallel);
        if (!evaluate(arena, &scratch, &question, &evaluation, &err)) fail_msg("%s", err.text);
        int64_t held[2], room[2];
        for (int i = 0; i < 2; i++) {
            held[i] = evaluation.stage_memory[i].reserved_bytes;
            room[i] = request->cluster->nodes[i].device->memory_bytes - held[i];
        }
        arena_free(&scratch);
        if (room[0] >= 0 && room[1] >= 0) return true;
        int from = room[1]<room[0], to = room[1]> room[0];
        int64_t each = held[from] / layers[from];
        // As many as the stage lacks bytes for, or the other has: one is left at least.
        int64_t count = -room[from] / each + 1, takes = room[to] / each;
        if (takes < count) count = takes;
        if (layers[from] < 2) return false;
        if (count >= layers[from]) count = layers[from] - 1;
        if (count < 1) return false;
        layers[from] -= (int)count, layers[to] += (int)count;
    }
    *rounds = 16;
    return false;
}

static void what_does_not_fit_gives_layers_away(void **state)
{
    // Megabytes of the devices of either stage.
    static const int MEGABYTES[][2] = {{12000, 12000}, {12000, 5000}, {12000, 4000}, {3500, 12000},
                                       {12000, 3700},  {5000, 5000},  {5600, 6600},  {5500, 6600},
                                       {5400, 8000},   {12000, 6500}, {7000, 5200},  {7000, 6000},
                                       {2000, 12000},  {6100, 6500}};
    int fitting = 0, moved = 0;
    for (size_t i = 0; i < sizeof MEGABYTES / sizeof *MEGABYTES; i++) {
        struct search_request request = request_of(*state, 1, 1, 8);
        struct cluster *cluster = cluster_copy_nodes(*state, request.cluster);
        for (int n = 0; n < 2; n++) {
            struct device *device = ARENA_NEW((struct arena *)*state, struct device, 1);
            *device = *cluster->nodes[n].device;
            device->memory_bytes = MEGABYTES[i][n] * (int64_t)1000000;
            cluster->nodes[n].device = device;
        }
        request.cluster = cluster;
        struct uneven_split split = {.arena = *state, .request = &request};
        struct candidate played = {0};
        struct parallel parallel = plan_of(1, 2);
        int layers[] = {6, 6}, rounds = 0;
        bool fits = uneven_fit(&split, &parallel, &played);
        assert_int_equal(fits, fit_by_hand(*state, &request, layers, &rounds));
        assert_int_equal(split.played_count, rounds);
        if (fits && rounds > 1)
            for (int n = 0; n < 2; n++)
                assert_int_equal(played.parallel.stage_layers[n], layers[n]);
        fitting += fits, moved += fits && rounds > 1;
        // What is pinned stays, and so do chunks.
        request.pins.stage_layers_count = 2;
        assert_int_equal(uneven_fit(&split, &parallel, &played), fits && rounds == 1);
    }
    assert_true(fitting >= 7 && moved >= 5 && fitting <= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_go_where_they_end_first),
        cmocka_unit_test(numbers_differ_where_they_can),
        cmocka_unit_test(layers_go_where_they_end_first),
        cmocka_unit_test(what_does_not_fit_gives_layers_away),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
