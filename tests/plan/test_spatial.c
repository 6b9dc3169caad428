#include "models/import.h"
#include "plan/layout/spatial.h"
#include "tests/support/machine.h"
#include "tests/support/test.h"

#include <string.h>

// Images split by height and width: the lowered blocks of a small convolutional network compute on
// all ranks what one rank does, and what they send, keep and leave partial is what the sizes of
// tests/data/small_convolutions.json say.

// Scores over 4 classes of each place of an image, and their losses.
static const char SEGMENTS[] = "tests/data/small_segments.json";
static const char MODEL[] = "tests/data/small_convolutions.json";

static struct graph *graph_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct import_options options = {.flash = true};
    return model_graph(arena, config, &options);
}

static struct parallel split_by(int rows, int columns, int dp)
{
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 2};
    parallel.degree[AXIS_SP_H] = rows;
    parallel.degree[AXIS_SP_W] = columns;
    parallel.degree[AXIS_DP] = dp;
    return parallel;
}

static void parts_of_images_compute_what_whole_images_do(void **state)
{
    static const struct {
        int rows, columns, dp;
        enum recompute recompute;
    } CASES[] = {
        {1, 1, 1, RECOMPUTE_NONE}, {2, 2, 1, RECOMPUTE_NONE}, {4, 1, 1, RECOMPUTE_NONE},
        {1, 4, 1, RECOMPUTE_FULL}, {2, 4, 1, RECOMPUTE_NONE}, {2, 2, 1, RECOMPUTE_FULL},
        {4, 4, 1, RECOMPUTE_NONE}, {2, 2, 2, RECOMPUTE_NONE}, {3, 2, 1, RECOMPUTE_NONE},
    };
    struct graph *graph = graph_of(*state, MODEL);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena_mark mark = arena_mark(*state);
        struct parallel parallel = split_by(CASES[i].rows, CASES[i].columns, CASES[i].dp);
        struct mesh mesh = mesh_make(&parallel, 1);
        for (int b = 0; b < graph->block_count; b++) {
            // Replicas have statistics of their own.
            if (CASES[i].dp > 1 && strcmp(graph->blocks[b].name, "body") == 0) continue;
            // 4 rows, or columns, are no 3 parts.
            if (CASES[i].rows == 3 && strcmp(graph->blocks[b].name, "head") == 0) continue;
            machine_check(*state, &graph->blocks[b], &mesh, &parallel, CASES[i].recompute);
        }
        arena_reset(*state, mark);
    }
}

static void losses_of_places_are_split_with_them(void **state)
{
    struct graph *graph = graph_of(*state, SEGMENTS);
    for (int rows = 1; rows <= 3; rows++) {
        struct parallel parallel = split_by(rows, 2, rows == 1 ? 2 : 1);
        struct mesh mesh = mesh_make(&parallel, 1);
        for (int b = 0; b < graph->block_count; b++)
            machine_check(*state, &graph->blocks[b], &mesh, &parallel, RECOMPUTE_NONE);
    }
}

static struct block_program *lowered(struct arena *arena, const struct parallel *parallel,
                                     const struct mesh *mesh, const struct graph *graph, int block)
{
    const struct lower_request request = {.block = &graph->blocks[block],
                                          .mesh = mesh,
                                          .parallel = parallel,
                                          .seq_len = 1,
                                          .precision = PRECISION_FP32};
    return lower_block(arena, &request);
}

struct sent {
    enum phase phase;
    enum dim dim;
    int64_t places;  // of a channel of a sample
    bool adds;
};

static void expect_sent(const struct block_program *program, const struct sent *wanted, int count)
{
    int found = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_SEND_RECV) continue;
        assert_true(found < count);
        assert_int_equal(instr->phase, wanted[found].phase);
        assert_int_equal(instr->dim, wanted[found].dim);
        assert_int_equal(instr->bytes, 4 * 2 * 8 * wanted[found].places);
        assert_int_equal(instr->combine != 0, wanted[found].adds);
        found++;
    }
    assert_int_equal(found, count);
}

// On 2 x 2 ranks. stem: the loader hands out its image with the halo, of which no gradient is
// wanted. body: b, 16 x 16, is read by windows of 3 at stride 2: of 8 x 8 places a rank needs one
// row above it and then one column, of 9 rows. Its gradient comes from 4 x 4 places of the result
// and a row and a column behind these (4 and 5: way A, for 8 channels either way), that of the
// weight from x as forward read it.
static void halos_are_radius_times_edge_times_channels(void **state)
{
    struct graph *graph = graph_of(*state, MODEL);
    struct parallel parallel = split_by(2, 2, 1);
    struct mesh mesh = mesh_make(&parallel, 1);
    expect_sent(lowered(*state, &parallel, &mesh, graph, 0), NULL, 0);
    const struct sent body[] = {
        {PHASE_FORWARD, DIM_HEIGHT, 8, false},  {PHASE_FORWARD, DIM_WIDTH, 9, false},
        {PHASE_BACKWARD, DIM_HEIGHT, 4, false}, {PHASE_BACKWARD, DIM_WIDTH, 5, false},
        {PHASE_WEIGHT, DIM_HEIGHT, 8, false},   {PHASE_WEIGHT, DIM_WIDTH, 9, false},
    };
    expect_sent(lowered(*state, &parallel, &mesh, graph, 1), body, 6);
    // The pool reads 4 x 4 of 8 x 8 places and a row and a column more; what it hands back are
    // strips that are added, columns first. The turned convolution overlaps nowhere.
    const struct sent head[] = {
        {PHASE_FORWARD, DIM_HEIGHT, 4, false},
        {PHASE_FORWARD, DIM_WIDTH, 5, false},
        {PHASE_BACKWARD, DIM_WIDTH, 5, true},
        {PHASE_BACKWARD, DIM_HEIGHT, 4, true},
    };
    expect_sent(lowered(*state, &parallel, &mesh, graph, 2), head, 4);
}

static void activations_and_work_are_a_share_and_gradients_partial(void **state)
{
    struct graph *graph = graph_of(*state, MODEL);
    struct parallel alone = split_by(1, 1, 1), parallel = split_by(2, 4, 1);
    struct mesh one = mesh_make(&alone, 1), mesh = mesh_make(&parallel, 1);
    struct block_program *whole = lowered(*state, &alone, &one, graph, 1);
    struct block_program *part = lowered(*state, &parallel, &mesh, graph, 1);
    // All of it but mean and variance of 8 channels.
    const int64_t statistics = 2 * 8 * 4;
    assert_int_equal(part->saved_bytes - statistics, (whole->saved_bytes - statistics) / 8);
    double flop[2] = {0, 0};
    const struct block_program *programs[] = {whole, part};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < programs[p]->instr_count; i++)
            flop[p] += programs[p]->instrs[i].flop;
    assert_true(flop[1] == flop[0] / 8);
    // Those of what is normalised, too: a rank adds up its own places.
    for (int i = 0; i < part->parameter_count; i++)
        assert_int_equal(part->parameters[i].gradient_partial_axes, 3);
}

static int64_t reduced_inside(const struct block_program *program, enum phase phase)
{
    int64_t bytes = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool counts = instr->inner > 0 && instr->phase == phase;
        if (counts) assert_int_equal(instr->collective, COLLECTIVE_ALL_REDUCE);
        bytes += counts ? instr->bytes : 0;
    }
    return bytes;
}

static void statistics_are_reduced_once_each_way(void **state)
{
    struct graph *graph = graph_of(*state, MODEL);
    struct parallel parallel = split_by(2, 2, 1), replicas = split_by(1, 1, 4);
    struct mesh mesh = mesh_make(&parallel, 1), data = mesh_make(&replicas, 1);
    struct block_program *program = lowered(*state, &parallel, &mesh, graph, 1);
    assert_int_equal(reduced_inside(program, PHASE_FORWARD), 2 * 8 * 4);
    assert_int_equal(reduced_inside(program, PHASE_BACKWARD), 2 * 8 * 4);
    program = lowered(*state, &replicas, &data, graph, 1);
    assert_int_equal(reduced_inside(program, PHASE_FORWARD), 0);
    // Nobody asks for the statistics of other replicas: nothing but gradients is exchanged.
    for (int i = 0; i < program->instr_count; i++)
        assert_true(!program->instrs[i].collective || program->instrs[i].parameter);
}

static const char *refusal(struct arena *arena, const struct parallel *parallel)
{
    struct err err = {0};
    return spatial_check(graph_of(arena, MODEL), parallel, &err) ? "" : arena_copy(arena, err.text);
}

static void images_that_cannot_be_shared_are_refused(void **state)
{
    struct parallel parallel = split_by(4, 4, 1);
    assert_string_equal(refusal(*state, &parallel), "");
    parallel = split_by(5, 1, 1);
    assert_string_equal(refusal(*state, &parallel),
                        "--sp-h 5: image of small_convolutions has 16 rows, "
                        "which so many ranks cannot share");
    parallel = split_by(1, 8, 1);
    assert_string_equal(refusal(*state, &parallel),
                        "--sp-w 8: h of small_convolutions has 4 columns, which so many ranks "
                        "cannot share");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_images_compute_what_whole_images_do),
        cmocka_unit_test(losses_of_places_are_split_with_them),
        cmocka_unit_test(halos_are_radius_times_edge_times_channels),
        cmocka_unit_test(activations_and_work_are_a_share_and_gradients_partial),
        cmocka_unit_test(statistics_are_reduced_once_each_way),
        cmocka_unit_test(images_that_cannot_be_shared_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
