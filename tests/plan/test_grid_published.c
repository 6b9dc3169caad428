#include "tests/support/test.h"

#include "plan/lower/lower.h"
#include "tests/support/tiny_models.h"

#include <stdio.h>
#include <string.h>

// The product that ends the MLP of Llama 3 70B, Y (M x N) = X (M x K) W (K x N), on grids of 4 to
// 64 ranks, sequences of 4,096 tokens, against the published expressions: SUMMA (Xu and You, arXiv
// 2104.05343), Tesseract (Wang et al., arXiv 2105.14500) and 3D (Bian et al., arXiv 2105.14450).
// These are of n x n matrices: 6 (q - 1) / q, 3 (q - 1) (d + 1) / (d q) and 6 (q - 1) / q^3 of n^2
// for forward and backward, in 6 (q - 1) steps. Here they are written for M, N and K; of the last
// two X is of a layer, 1 / d. 2D and 2.5D count broadcasts that are not pipelined, q times what
// gathers bring; of 2.5D the sum over d of a matrix's gradient, once a step, is not in them. 3D
// counts with gathered operands kept, which are gathered again here. Of 27 ranks sizes are 9 / 8.

enum { SEQ = 4096, BYTES = 2 };

struct grid_product {
    enum tp_kind kind;
    int ranks, q, d;
};
static const struct grid_product CASES[] = {
    {TP_2D_SUMMA, 4, 2, 1},   {TP_2D_SUMMA, 16, 4, 1},   {TP_2D_SUMMA, 64, 8, 1},
    {TP_2_5D_SUMMA, 8, 2, 2}, {TP_2_5D_SUMMA, 27, 3, 3}, {TP_2_5D_SUMMA, 64, 4, 4},
    {TP_3D, 8, 2, 2},         {TP_3D, 27, 3, 3},         {TP_3D, 64, 4, 4},
};

static int64_t sized(int64_t size, int ranks)
{
    return ranks == 27 ? size * 9 / 8 : size;
}

static int64_t batch_of(int ranks)
{
    return ranks == 27 ? 27 : 16;
}

static const struct block_program *layer_of(struct arena *arena, enum tp_kind kind, int ranks,
                                            struct mesh *mesh)
{
    struct import_options options = {.flash = true};
    const char *config = arena_print(
        arena,
        "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": %d, "
        "\"intermediate_size\": %d, \"num_hidden_layers\": 1, \"num_attention_heads\": %d, "
        "\"num_key_value_heads\": %d, \"head_dim\": 128, \"tie_word_embeddings\": false}",
        (int)sized(8192, ranks), (int)sized(28672, ranks), (int)sized(64, ranks),
        (int)sized(8, ranks));
    struct graph *graph = tiny_graph(arena, config, &options);
    struct parallel *parallel = ARENA_NEW(arena, struct parallel, 1);
    *parallel = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                  .vpp = 1,
                                  .tp_kind = kind,
                                  .micro_batch = (int)batch_of(ranks)};
    parallel->degree[AXIS_TP] = ranks;
    *mesh = mesh_make(parallel, graph->kv_head_count);
    struct lower_request request = {.block = &graph->blocks[graph->sequence[1]],
                                    .mesh = mesh,
                                    .parallel = parallel,
                                    .seq_len = SEQ,
                                    .precision = PRECISION_BF16};
    return lower_block(arena, &request);
}

// The product and what its backward is made of: X, W, Y, and the gradients of them.
enum { X, W, Y, DY, DX, DW, OPERANDS };

static const struct instr *find(const struct block_program *program, int tensors[OPERANDS])
{
    const struct block *block = program->block;
    const struct instr *product = NULL;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective || instr->kind != OP_CONTRACT) continue;
        const struct op *op = &block->ops[instr->op];
        if (strcmp(block->ops[op->forward_op].name, "mlp.down") != 0) continue;
        if (instr->phase == PHASE_FORWARD) {
            product = instr;
            tensors[X] = op->inputs[0];
            tensors[W] = op->inputs[1];
            tensors[Y] = op->outputs[0];
        } else if (instr->phase == PHASE_BACKWARD) {
            tensors[DX] = op->outputs[0];
            tensors[DY] = op->inputs[0] == tensors[W] ? op->inputs[1] : op->inputs[0];
        } else {
            tensors[DW] = op->outputs[0];
        }
    }
    assert_non_null(product);
    return product;
}

// Bytes that a rank receives of these operands, and collectives that bring them, of q ranks each.
static double received(const struct block_program *program, const struct mesh *mesh,
                       const int tensors[OPERANDS], int q, int counts[OPERANDS])
{
    double bytes = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!instr->collective || instr->inner || instr->collective == COLLECTIVE_SLICE) continue;
        int tensor = program->buffers[instr->inputs[0]].tensor;
        for (int k = 0; k < OPERANDS; k++) {
            if (tensor != tensors[k]) continue;
            assert_true(instr->collective == COLLECTIVE_ALL_GATHER ||
                        instr->collective == COLLECTIVE_REDUCE_SCATTER);
            assert_int_equal(mesh_size(mesh, instr->axes), q);
            bytes += (q - 1.0) / q * (double)instr->bytes;
            counts[k]++;
        }
    }
    return bytes;
}

static void a_product_moves_what_is_published(void **state)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct grid_product *at = &CASES[i];
        struct arena_mark mark = arena_mark(*state);
        struct mesh mesh;
        const struct block_program *program = layer_of(*state, at->kind, at->ranks, &mesh);
        int tensors[OPERANDS], counts[OPERANDS] = {0};
        (void)find(program, tensors);
        double found = received(program, &mesh, tensors, at->q, counts) / BYTES;
        double q = at->q, d = at->d, m = (double)batch_of(at->ranks) * SEQ;
        double k = (double)sized(28672, at->ranks), n = (double)sized(8192, at->ranks);
        double published = at->kind == TP_3D ? 2 * (q - 1) / (q * q * q) * (m * k + k * n + m * n)
                                             : 3 * (q - 1) / q * (m * k / d + k * n);
        double again = at->kind == TP_3D ? (q - 1) / (q * q * q) * (m * k + k * n) : 0;
        double hops = at->kind == TP_3D ? 1 : q;
        printf("# %s of %d: %.0f elements, %.0f published\n", tp_kind_name(at->kind), at->ranks,
               found, published);
        assert_true(found == published / hops + again);
        int count = 0;
        for (int o = 0; o < OPERANDS; o++)
            count += counts[o];
        assert_int_equal(count, at->kind == TP_3D ? 6 + 2 : 6);
        arena_reset(*state, mark);
    }
}

static int64_t held(const struct block_program *program, int tensor)
{
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].tensor == tensor) return program->buffers[b].bytes;
    fail_msg("not held");
    return 0;
}

// Work and activations 1 / P, matrices 1 / q^2 or, of 3D, 1 / q^3; in a line what passes between
// layers is whole.
static void a_rank_holds_and_works_on_what_is_published(void **state)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct grid_product *at = &CASES[i];
        struct arena_mark mark = arena_mark(*state);
        struct mesh mesh;
        const struct block_program *program = layer_of(*state, at->kind, at->ranks, &mesh);
        int tensors[OPERANDS];
        const struct instr *product = find(program, tensors);
        int64_t m = batch_of(at->ranks) * SEQ, k = sized(28672, at->ranks);
        int64_t n = sized(8192, at->ranks);
        assert_true(product->flop * at->ranks == 2.0 * (double)m * (double)n * (double)k);
        int out = program->block->outputs[0], in = program->block->inputs[0];
        assert_int_equal(held(program, in) * at->ranks, m * n * BYTES);
        assert_int_equal(held(program, out) * at->ranks, m * n * BYTES);
        assert_int_equal(held(program, tensors[X]) * at->ranks, m * k * BYTES);
        int shares = at->kind == TP_3D ? at->q * at->q * at->q : at->q * at->q;
        assert_int_equal(held(program, tensors[W]) * shares, k * n * BYTES);
        if (at->ranks != 27) {  // ranks of a line share out heads, of which there are 72
            program = layer_of(*state, TP_1D, at->ranks, &mesh);
            assert_int_equal(held(program, program->block->inputs[0]), m * n * BYTES);
        }
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_moves_what_is_published),
        cmocka_unit_test(a_rank_holds_and_works_on_what_is_published),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
