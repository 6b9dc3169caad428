#include "tests/support/rank_bench.h"

#include "executor/random.h"

#include <math.h>

// What the weights of one parameter begin with: which operators take ones, zeros or random numbers,
// of what deviation, and by which index in the whole they are drawn, whoever has which part.

enum { ROWS = 4, COLUMNS = 5, ROOM = 32, SEED = 77 };

struct initial_case {
    struct rank_bench bench;
    struct tensor tensors[6];
    struct op op;
    struct block block;
    struct buffer buffers[1];
    struct parameter known;
    struct block_program program, *blocks[1];
    struct script_parameter parameters[2];
    struct script_unit unit;
    struct graph graph;
    double weights[ROOM];
};

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device, (void)stream;
    assert_int_equal(kind, COPY_FROM_HOST);
    memcpy(to, from, (size_t)bytes);
    return NULL;
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device, (void)stream;
    return NULL;
}

// Tensor 0 is the operator's first input; the parameter is tensor 1, of ROWS hidden by COLUMNS of
// an MLP, which the operator reads as its input `at`; tensor 2 is its result, tensor 3 all else.
static struct engine *open_case(struct arena *arena, struct initial_case *of, enum op_kind kind,
                                int at, int rank, int rank_count)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_TP] = rank_count;
    parallel_default_order(&parallel);
    *of = (struct initial_case){.op = {.kind = kind, .input_count = OP_INPUT_MAX, .outputs = {2}},
                                .graph = {.vocab = 3, .layer_count = 3}};
    struct engine *engine = rank_bench_open(arena, &of->bench, rank, rank_count);
    struct rank_bench *bench = &of->bench;
    for (int i = 0; i < OP_INPUT_MAX; i++)
        of->op.inputs[i] = i == at ? 1 : i == 0 ? 0 : 3;
    for (int t = 0; t < 4; t++)
        of->tensors[t] = (struct tensor){.name = "x", .rank = 1, .gradient_of = -1};
    of->tensors[0].extents[0] = (struct extent){DIM_HIDDEN, ROWS};
    of->tensors[2].extents[0] = (struct extent){DIM_FFN, COLUMNS};
    of->tensors[1] = (struct tensor){.name = "weight",
                                     .rank = 2,
                                     .gradient_of = -1,
                                     .extents = {{DIM_HIDDEN, ROWS}, {DIM_FFN, COLUMNS}}};
    of->block = (struct block){
        .tensors = of->tensors, .tensor_count = 4, .ops = &of->op, .op_count = 1, .name = "layer"};
    of->known.tensor = 1;
    of->program = (struct block_program){.block = &of->block, .parameters = &of->known};
    of->blocks[0] = &of->program;
    of->parameters[0] =
        (struct script_parameter){.elements = ROWS * COLUMNS, .same_as = -1, .sequence = 2};
    of->unit = (struct script_unit){.elements = ROWS * COLUMNS, .same_as = -1};
    bench->backend = (struct backend){
        .copy = copy, .synchronize = synchronize, .real_bytes = 8, .compute_bytes = 8};
    bench->program.parallel = parallel;
    bench->program.mesh = mesh_make(&parallel, 0);
    bench->program.blocks = of->blocks;
    bench->script.parameters = of->parameters;
    bench->script.parameter_count = 1;
    bench->script.units = &of->unit;
    bench->script.unit_count = 1;
    static struct script_bucket BUCKET;
    bench->script.buckets = &BUCKET;
    bench->request.graph = &of->graph;
    bench->options.seed = SEED;
    engine->real_bytes = engine->compute_bytes = 8;
    engine->state.weights = (char *)of->weights;
    engine->state.weight_at = ARENA_NEW(arena, int64_t, 1);
    engine->state.moment_at = ARENA_NEW(arena, int64_t, 1);
    return engine;
}

static double drawn(uint64_t index, double deviation)
{
    uint64_t key = random_key(random_key_text(random_key(SEED, 1), "weight"), 2);
    return deviation * random_normal(random_at(key, index));
}

static void each_operator_has_its_start(void **state)
{
    enum { ZERO, ONE, NORMAL };
    static const struct {
        enum op_kind kind;
        int at, start;
    } CASES[] = {{OP_NORM, 1, ONE},       {OP_NORM, 2, ZERO},         {OP_CONTRACT, 1, NORMAL},
                 {OP_GATHER, 1, NORMAL},  {OP_ADD, 1, ZERO},          {OP_CONV, 1, NORMAL},
                 {OP_CONV, 2, ZERO},      {OP_SCAN, 5, ONE},          {OP_SCAN, 3, ZERO},
                 {OP_OPERATOR, 1, ONE},   {OP_OPERATOR, 2, ZERO},     {OP_ELEMENTWISE, 1, ZERO},
                 {OP_ATTENTION, 3, ZERO}, {OP_LINEAR_LOSS, 1, NORMAL}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct initial_case of;
        struct engine *engine = open_case(*state, &of, CASES[i].kind, CASES[i].at, 0, 1);
        assert_true(initial_weights(engine));
        for (int e = 0; e < ROWS * COLUMNS; e++) {
            double wanted =
                CASES[i].start == NORMAL ? drawn((uint64_t)e, 0.02) : CASES[i].start == ONE;
            assert_true(of.weights[e] == wanted);
        }
        assert_true(of.weights[ROWS * COLUMNS] == 0);
    }
}

// What is multiplied begins with ones, what is added with zeros, where strides say which.
static void imported_operators_say_whether_they_multiply(void **state)
{
    for (int multiplies = 0; multiplies < 2; multiplies++) {
        struct initial_case of;
        struct engine *engine = open_case(*state, &of, OP_OPERATOR, 1, 0, 1);
        static const struct strided STRIDED;
        of.op.work.strided = &STRIDED;
        of.op.work.type = multiplies ? IMPORTED_MULTIPLY : IMPORTED_ADD;
        assert_true(initial_weights(engine));
        assert_true(of.weights[0] == multiplies && of.weights[19] == multiplies);
    }
    struct initial_case of;
    struct engine *engine = open_case(*state, &of, OP_PRODUCT, 1, 0, 1);
    of.op.work.depth = 8;
    assert_true(initial_weights(engine));
    for (int e = 0; e < ROWS * COLUMNS; e++)
        assert_true(of.weights[e] == drawn((uint64_t)e, 0.5));  // sqrt(2 / 8)
}

// The dim that is summed over stands outermost in the index, wherever it is stored: of columns that
// the input has and the result has not.
static void the_index_does_not_depend_on_the_storage(void **state)
{
    struct initial_case of;
    struct engine *engine = open_case(*state, &of, OP_CONTRACT, 1, 0, 1);
    of.tensors[0].extents[0].dim = DIM_FFN;
    of.tensors[2].extents[0].dim = DIM_HIDDEN;
    assert_true(initial_weights(engine));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            assert_true(of.weights[r * COLUMNS + c] == drawn((uint64_t)(c * ROWS + r), 0.02));
}

// Ranks of a split have the numbers of their places; what the last of five columns over two leaves
// over is zero.
static void parts_are_those_of_the_whole(void **state)
{
    for (int rank = 0; rank < 2; rank++) {
        struct initial_case of;
        struct engine *engine = open_case(*state, &of, OP_CONTRACT, 1, rank, 2);
        of.known.layout.of[0] = DIM_FFN;
        of.parameters[0].elements = of.unit.elements = ROWS * 3;
        assert_true(initial_weights(engine));
        int columns = rank ? 2 : 3;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < columns; c++)
                assert_true(of.weights[r * columns + c] ==
                            drawn((uint64_t)(r * COLUMNS + 3 * rank + c), 0.02));
        for (int e = ROWS * columns; e < ROOM; e++)
            assert_true(of.weights[e] == 0);
    }
}

// The rows of a padded vocabulary past the third are zero, and their number stands outermost.
static void rows_past_the_vocabulary_are_zero(void **state)
{
    for (int is_last = 0; is_last < 2; is_last++) {
        struct initial_case of;
        struct engine *engine = open_case(*state, &of, OP_GATHER, 1, 0, 1);
        int v = is_last ? 1 : 0;
        of.tensors[1].extents[v].dim = DIM_VOCAB;
        of.tensors[1].extents[1 - v].dim = DIM_HIDDEN;
        assert_true(initial_weights(engine));
        for (int r = 0; r < ROWS; r++) {
            for (int c = 0; c < COLUMNS; c++) {
                int row = is_last ? c : r, width = is_last ? ROWS : COLUMNS;
                int column = is_last ? r : c;
                double wanted = row < 3 ? drawn((uint64_t)(row * width + column), 0.02) : 0;
                assert_true(of.weights[r * COLUMNS + c] == wanted);
            }
        }
    }
}

// A tie has one name for all that it ties, whatever layer they are of; what is the same as another
// is left alone.
static void tied_weights_are_drawn_by_their_tie(void **state)
{
    struct initial_case of;
    struct engine *engine = open_case(*state, &of, OP_CONTRACT, 1, 0, 1);
    of.known.tie = "table";
    assert_true(initial_weights(engine));
    uint64_t key = random_key_text(random_key(SEED, 1), "table");
    assert_true(of.weights[7] == 0.02 * random_normal(random_at(key, 7)));
    engine = open_case(*state, &of, OP_CONTRACT, 1, 0, 1);
    of.parameters[0].same_as = 0;
    assert_true(initial_weights(engine));
    assert_true(of.weights[7] == 0);
}

// Rates of a scan that has none of its own: of head h of 4 in layer 1 of three, 2^(-8 (h + 1) / 4)
// times 1 - 1 / (2 + 1e-5) + 1e-5.
static void steady_rates_fall_by_head_and_layer(void **state)
{
    struct initial_case of;
    struct engine *engine = open_case(*state, &of, OP_SCAN, 3, 0, 1);
    of.op.input_count = 4;
    of.tensors[1].rank = 1;
    of.parameters[0].elements = of.unit.elements = ROWS;
    assert_true(initial_weights(engine));
    static const double SLOPES[] = {0.25, 0.0625, 0.015625, 0.00390625};
    for (int h = 0; h < ROWS; h++) {
        double wanted = SLOPES[h] * (1 - 1 / 2.00001 + 1e-5);
        assert_true(fabs(of.weights[h] / wanted - 1) < 1e-15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operator_has_its_start),
        cmocka_unit_test(imported_operators_say_whether_they_multiply),
        cmocka_unit_test(the_index_does_not_depend_on_the_storage),
        cmocka_unit_test(parts_are_those_of_the_whole),
        cmocka_unit_test(rows_past_the_vocabulary_are_zero),
        cmocka_unit_test(tied_weights_are_drawn_by_their_tie),
        cmocka_unit_test(steady_rates_fall_by_head_and_layer),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
