#include "tests/support/test.h"

#include "plan/lower/lower.h"
#include "tests/support/tiny_models.h"

// Grids of tp: their sizes, and what a rank of 64 holds and moves of a layer, against the sums of
// the layouts by hand: H hidden, F ffn, M tokens of a micro-batch, multi-head attention, q = 8 in
// 2D, q = 4 and d = 4 in 2.5D, q = 4 in 3D.

enum { SEQ = 128, BATCH = 64, RANKS = 64, HIDDEN = 256, FFN = 1024, HEADS = 64, BYTES = 2 };

static const char MODEL[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 1024, \"hidden_size\": 256, "
    "\"intermediate_size\": 1024, \"num_hidden_layers\": 1, \"num_attention_heads\": 64, "
    "\"num_key_value_heads\": 64, \"head_dim\": 4, \"tie_word_embeddings\": false}";

static struct tp_grid grid(enum tp_kind kind, int size)
{
    struct parallel parallel = {.tp_kind = kind};
    parallel.degree[AXIS_TP] = size;
    return grid_of(&parallel);
}

static void check(struct tp_grid found, int x, int y, int z)
{
    assert_int_equal(found.x, x);
    assert_int_equal(found.y, y);
    assert_int_equal(found.z, z);
}

static void grids_are_as_near_to_squares_and_cubes_as_they_can_be(void **state)
{
    (void)state;
    check(grid(TP_1D, 6), 1, 6, 1);
    check(grid(TP_2D, 16), 4, 4, 1);
    check(grid(TP_2D, 8), 2, 4, 1);
    check(grid(TP_2_5D, 8), 2, 2, 2);
    check(grid(TP_2_5D, 64), 4, 4, 4);
    check(grid(TP_2_5D, 6), 2, 3, 1);
    check(grid(TP_2_5D, 12), 2, 3, 2);
    check(grid(TP_2_5D, 32), 4, 4, 2);
    check(grid(TP_2_5D, 48), 4, 4, 3);
    check(grid(TP_2_5D, 60), 4, 5, 3);
    check(grid(TP_2D_SUMMA, 8), 2, 4, 1);
    check(grid(TP_2_5D_SUMMA, 64), 4, 4, 4);
    check(grid(TP_3D, 8), 2, 2, 2);
    check(grid(TP_3D, 64), 4, 4, 4);
    check(grid(TP_3D, 16), 2, 4, 2);
}

static const struct block_program *layer_of(struct arena *arena, enum tp_kind kind, int64_t seq_len,
                                            struct mesh *mesh)
{
    struct import_options options = {.flash = true};
    struct graph *graph = tiny_graph(arena, MODEL, &options);
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    *parallel =
        (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = BATCH};
    parallel->degree[AXIS_TP] = RANKS;
    parallel->tp_kind = kind;
    *mesh = mesh_make(parallel, graph->kv_head_count);
    struct lower_request request = {.block = &graph->blocks[graph->sequence[1]],
                                    .mesh = mesh,
                                    .parallel = parallel,
                                    .seq_len = seq_len,
                                    .precision = PRECISION_BF16};
    return lower_block(arena, &request);
}

static const struct block_program *layer(struct arena *arena, enum tp_kind kind, struct mesh *mesh)
{
    return layer_of(arena, kind, SEQ, mesh);
}

// Bytes that a rank receives: of parameters and their gradients, or of all else but exchanges
// inside operators.
static double moved(const struct block_program *program, const struct mesh *mesh, bool parameters)
{
    double bytes = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!instr->collective || instr->inner || instr->collective == COLLECTIVE_SLICE) continue;
        enum tensor_role role =
            program->block->tensors[program->buffers[instr->inputs[0]].tensor].role;
        bool is_parameter = role == TENSOR_PARAMETER || role == TENSOR_PARAMETER_GRADIENT;
        if (is_parameter != parameters) continue;
        double size = mesh_size(mesh, instr->axes);
        double times = instr->collective == COLLECTIVE_ALL_REDUCE ? 2 : 1;
        bytes += times * (size - 1) / size * (double)instr->bytes;
    }
    return bytes;
}

// Weights of a gated layer: 4 H^2 and 3 H F. Of 2D and 2.5D each is gathered twice over q and its
// gradient scattered once: 3 (q - 1) / q^2 of them; of 3D 3 (q - 1) / q^3.
static void weights_move_as_the_layouts_say(void **state)
{
    double weights = BYTES * (4.0 * HIDDEN * HIDDEN + 3.0 * HIDDEN * FFN);
    static const struct {
        enum tp_kind kind;
        double share;
    } CASES[] = {{TP_2D, 3.0 * 7 / 64},
                 {TP_2_5D, 3.0 * 3 / 16},
                 {TP_3D, 3.0 * 3 / 64},
                 {TP_2D_SUMMA, 3.0 * 7 / 64},
                 {TP_2_5D_SUMMA, 3.0 * 3 / 16}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mesh mesh;
        const struct block_program *program = layer(*state, CASES[i].kind, &mesh);
        assert_int_equal(moved(program, &mesh, true), CASES[i].share * weights);
    }
}

// With M H elements of a tensor between layers, n ranks of an axis and g = (n - 1) / n. In a line
// two products begin and two end with an all-reduce, forward and backward: 8 g M H. In 2D and 2.5D
// four gathers or scatters over ty forward, as many backward, and two gathers again for gradients
// of weights, each of M H of the q (q d) that have the same tokens. In 3D, of F = 4 H and a gate,
// forward gathers x twice and the attention's result and scatters q, k, v and the two sums, 1 + 3 +
// 1 + 1 + 1 + 1, and of the ffn scatters two and gathers one, 3 * 4; backward the same; and again
// 1 + 1 + 1 + 4. SUMMA gathers what each product reads, 1 + 1 + 1 + 4 forward, scatters its
// gradient as often, and gathers it again for gradients of weights: 21.
static void activations_move_as_the_layouts_say(void **state)
{
    double between = (double)BYTES * BATCH * SEQ * HIDDEN;
    static const struct {
        enum tp_kind kind;
        double share;
    } CASES[] = {{TP_1D, 8.0 * 63 / 64},          {TP_2D, 10.0 * 7 / 8 / 8},
                 {TP_2_5D, 10.0 * 3 / 4 / 16},    {TP_3D, (20.0 + 20 + 7) * 3 / 4 / 16},
                 {TP_2D_SUMMA, 21.0 * 7 / 8 / 8}, {TP_2_5D_SUMMA, 21.0 * 3 / 4 / 16}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mesh mesh;
        const struct block_program *program = layer(*state, CASES[i].kind, &mesh);
        assert_int_equal(moved(program, &mesh, false), CASES[i].share * between);
    }
}

static double all_moved(struct arena *arena, enum tp_kind kind, int64_t seq_len)
{
    struct mesh mesh;
    const struct block_program *program = layer_of(arena, kind, seq_len, &mesh);
    return moved(program, &mesh, true) + moved(program, &mesh, false);
}

// Of many tokens grids move less than a line, of few more: then the weights are most of it.
static void grids_move_less_than_a_line_where_there_are_many_tokens(void **state)
{
    for (enum tp_kind kind = TP_2D; kind < TP_KIND_COUNT; kind++) {
        assert_true(all_moved(*state, kind, SEQ) < all_moved(*state, TP_1D, SEQ));
        assert_true(all_moved(*state, kind, 1) > all_moved(*state, TP_1D, 1) || kind == TP_3D);
    }
}

// Every matrix 1 / q^2 of it in 2D and 2.5D, 1 / 64 in 3D; activations that are kept 1 / 64.
static void matrices_and_activations_are_split_over_all(void **state)
{
    static const struct {
        enum tp_kind kind;
        int64_t parts;
    } CASES[] = {{TP_2D, 64}, {TP_2_5D, 16}, {TP_3D, 64}, {TP_2D_SUMMA, 64}, {TP_2_5D_SUMMA, 16}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct mesh mesh;
        const struct block_program *program = layer(*state, CASES[i].kind, &mesh);
        for (int p = 0; p < program->parameter_count; p++) {
            const struct parameter *parameter = &program->parameters[p];
            const struct tensor *tensor = &program->block->tensors[parameter->tensor];
            int64_t whole = 1;
            for (int e = 0; e < tensor->rank; e++)
                whole *= tensor->extents[e].size;
            if (tensor->rank > 1) assert_int_equal(parameter->elements, whole / CASES[i].parts);
        }
        int64_t input = (int64_t)BYTES * BATCH * SEQ * HIDDEN / RANKS;
        assert_int_equal(program->output_bytes, input);
        assert_int_equal(program->buffers[program->inputs[0]].bytes, input);
        for (int b = 0; b < program->buffer_count; b++) {
            const struct buffer *buffer = &program->buffers[b];
            if (!buffer->saved) continue;
            const struct tensor *tensor = &program->block->tensors[buffer->tensor];
            int64_t whole = tensor->element == ELEMENT_FP32 ? 4 : BYTES;
            for (int e = 0; e < tensor->rank; e++)
                whole *= extent_size(&tensor->extents[e], BATCH, SEQ);
            assert_int_equal(buffer->bytes, whole / RANKS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_as_near_to_squares_and_cubes_as_they_can_be),
        cmocka_unit_test(weights_move_as_the_layouts_say),
        cmocka_unit_test(activations_move_as_the_layouts_say),
        cmocka_unit_test(grids_move_less_than_a_line_where_there_are_many_tokens),
        cmocka_unit_test(matrices_and_activations_are_split_over_all),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
