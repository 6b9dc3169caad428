#include "tests/support/rank_bench.h"

#include "executor/random.h"

#include <math.h>

// What a kernel is called with, of the second of two replicas, which each have two sequences of
// three tokens: where arrays lie in memory and in the whole, views, parts of a relay, what a
// product is of, and the keys of random numbers.

enum { X, W, Y, PACKED, BUFFERS, SEED = 5 };

struct call_case {
    struct rank_bench bench;
    struct tensor tensors[3];
    struct op ops[1];
    struct block block;
    struct buffer buffers[BUFFERS];
    struct packed_view views[1];
    struct instr instr;
    struct block_program program, *blocks[1];
    struct script_operand inputs[2], outputs[1];
    struct script_task task;
    struct prepared prepared[1];
    struct step_graph numbers;
    struct graph graph;
    struct chunk_span span;
    double memory[256];
};

enum { RUNS_MOST = 8 };
static struct kernel_call ran[RUNS_MOST];
static int run_count;
static const char *fault;

static const char *run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    (void)device;
    assert_int_equal(stream, STREAM_TP);
    assert_in_range(run_count, 0, RUNS_MOST - 1);
    ran[run_count++] = *call;
    return fault;
}

// x (batch, seq, hidden 4) by w (hidden 4, ffn 5) is y (batch, seq, ffn 5).
static void fill_block(struct call_case *of)
{
    static const struct tensor TENSORS[] = {
        {.name = "x",
         .role = TENSOR_ACTIVATION,
         .element = ELEMENT_COMPUTE,
         .rank = 3,
         .extents = {{DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HIDDEN, 4}}},
        {.name = "w",
         .role = TENSOR_PARAMETER,
         .element = ELEMENT_COMPUTE,
         .rank = 2,
         .extents = {{DIM_HIDDEN, 4}, {DIM_FFN, 5}}},
        {.name = "y",
         .role = TENSOR_ACTIVATION,
         .element = ELEMENT_COMPUTE,
         .rank = 3,
         .extents = {{DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_FFN, 5}}},
    };
    memcpy(of->tensors, TENSORS, sizeof TENSORS);
    of->ops[0] = (struct op){.name = "mlp.up",
                             .kind = OP_CONTRACT,
                             .input_count = 2,
                             .output_count = 1,
                             .inputs = {0, 1},
                             .outputs = {2}};
    of->block = (struct block){.tensors = of->tensors,
                               .tensor_count = 3,
                               .ops = of->ops,
                               .op_count = 1,
                               .role = BLOCK_LAYER};
    for (int b = 0; b < BUFFERS; b++)
        of->buffers[b] = (struct buffer){.tensor = b % 3};
    of->buffers[X].layout.of[0] = of->buffers[Y].layout.of[0] = DIM_BATCH;
    of->buffers[PACKED].layout.of[0] = DIM_BATCH;
    of->instr = (struct instr){
        .kind = OP_CONTRACT, .inputs = {X, W}, .outputs = {Y}, .input_count = 2, .output_count = 1};
    of->program = (struct block_program){.block = &of->block,
                                         .buffers = of->buffers,
                                         .buffer_count = BUFFERS,
                                         .views = of->views,
                                         .instrs = &of->instr,
                                         .instr_count = 1};
    of->inputs[0] = (struct script_operand){.buffer = X, .parameter = -1};
    of->inputs[1] = (struct script_operand){.buffer = W, .parameter = -1, .offset = 8 * 40};
    of->outputs[0] = (struct script_operand){.buffer = Y, .parameter = -1, .offset = 8 * 70};
    of->task = (struct script_task){.kind = TASK_INSTR,
                                    .stream = STREAM_TP,
                                    .micro_batch = 3,
                                    .position = 1,
                                    .unit = -1,
                                    .inputs = of->inputs,
                                    .outputs = of->outputs,
                                    .input_count = 2,
                                    .output_count = 1};
}

static struct engine *open_call(struct arena *arena, struct call_case *of)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 2};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_DP] = 2;
    parallel_default_order(&parallel);
    *of = (struct call_case){.numbers = {.number_count = 1},
                             .graph = {.vocab = 90, .head_count = 6},
                             .span = {.first = 2}};
    fill_block(of);
    of->blocks[0] = &of->program;
    struct engine *engine = rank_bench_open(arena, &of->bench, 1, 2);
    struct rank_bench *bench = &of->bench;
    bench->backend = (struct backend){.run = run};
    bench->options.steps = 1;
    bench->options.seed = SEED;
    bench->request.graph = &of->graph;
    bench->program.parallel = parallel;
    bench->program.workload = (struct workload){.seq_len = 3, .global_batch = 16};
    bench->program.mesh = mesh_make(&parallel, 0);
    bench->program.blocks = of->blocks;
    bench->program.spans = &of->span;
    bench->script.program = &bench->program;
    bench->script.graph = &of->numbers;
    bench->script.tasks = &of->task;
    bench->script.task_count = 1;
    engine->prepared = of->prepared;
    engine->real_bytes = engine->compute_bytes = 8;
    engine->widen = 1;
    engine->memory = (char *)of->memory;
    engine->step = 4;
    engine->first_step = 4;
    bench->options.steps = 5;
    of->prepared[0].source = -1;
    assert_true(measure_open(engine));
    run_count = 0;
    fault = NULL;
    return engine;
}

static void check_array(const struct kernel_array *array, const double *data, const int64_t *sizes,
                        const int64_t *first, const int64_t *whole)
{
    assert_ptr_equal(array->data, data);
    for (int i = 0; i < array->rank; i++) {
        assert_int_equal(array->sizes[i], sizes[i]);
        assert_int_equal(array->first[i], first[i]);
        assert_int_equal(array->whole[i], whole[i]);
    }
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

// Micro-batch 3 begins at sequence 3 * 4 of the step, and the second replica at 2 in it.
static void arrays_know_their_place_in_the_whole(void **state)
{
    struct call_case of;
    struct engine *engine = open_call(*state, &of);
    assert_true(call_run(engine, 0));
    assert_int_equal(run_count, 1);
    const struct kernel_call *call = &ran[0];
    assert_true(call->op == of.ops && call->input_count == 2 && call->output_count == 1);
    assert_true(call->vocab == 90 && call->head_count == 6 && call->adds == 0);
    check_array(&call->inputs[0], of.memory, LIST(2, 3, 4), LIST(14, 0, 0), LIST(4, 3, 4));
    check_array(&call->inputs[1], of.memory + 40, LIST(4, 5), LIST(0, 0), LIST(4, 5));
    check_array(&call->outputs[0], of.memory + 70, LIST(2, 3, 5), LIST(14, 0, 0), LIST(4, 3, 5));
    assert_true(call->inputs[0].dims[2] == DIM_HIDDEN && call->inputs[0].row_stride == 0);
    assert_true(!call->documents && !call->cast_to && !call->key_at && call->part == 0);
    // 24 numbers, 20 and 30 of eight bytes.
    assert_true(measure_step(engine, 1));
    assert_true(engine->sums[1] == 8 * (24 + 20 + 30));
    // What adds, and what passes, is said by bits.
    of.outputs[0].adds = true;
    of.instr.passing = 1;
    assert_true(call_run(engine, 0));
    assert_true(ran[1].adds == 1 && ran[1].passing == 1);
    fault = "it burns";
    assert_false(call_run(engine, 0));
    assert_non_null(strstr(of.bench.err.text, "it burns"));
}

// Rows of ten numbers, of which the input sees four from the third on.
static void views_of_packed_rows_lie_apart(void **state)
{
    struct call_case of;
    struct engine *engine = open_call(*state, &of);
    of.instr.input_views[0] = 1;
    of.views[0] = (struct packed_view){.buffer = PACKED, .whole = X, .first = 3, .row = 10};
    assert_true(call_run(engine, 0));
    check_array(&ran[0].inputs[0], of.memory + 3, LIST(2, 3, 4), LIST(14, 0, 0), LIST(4, 3, 4));
    assert_int_equal(ran[0].inputs[0].row_stride, 10);
    assert_int_equal(ran[0].outputs[0].row_stride, 0);
}

// A product in 8 bits casts what it reads for others behind its own result: of a view all of each
// row.
static void what_is_cast_for_others_is_the_last_output(void **state)
{
    for (int is_view = 0; is_view < 2; is_view++) {
        struct call_case of;
        struct script_operand outputs[2];
        struct engine *engine = open_call(*state, &of);
        outputs[0] = of.outputs[0];
        outputs[1] = (struct script_operand){.buffer = PACKED, .parameter = -1, .offset = 8 * 120};
        of.buffers[PACKED].cast = true;
        of.task.outputs = outputs;
        of.task.output_count = of.instr.output_count = 2;
        of.instr.outputs[1] = PACKED;
        of.instr.cast = 1;
        if (is_view) {
            of.instr.input_views[0] = 1;
            of.views[0] = (struct packed_view){.buffer = X, .whole = X, .first = 3, .row = 10};
        }
        assert_true(call_run(engine, 0));
        assert_int_equal(ran[0].output_count, 1);
        assert_int_equal(ran[0].cast_input, 0);
        assert_ptr_equal(ran[0].cast_to, of.memory + 120);
        assert_ptr_equal(ran[0].cast_from.data, of.memory);
        assert_int_equal(ran[0].cast_from.sizes[2], is_view ? 10 : 4);
        assert_int_equal(ran[0].cast_from.dims[2], is_view ? DIM_FLAT : DIM_HIDDEN);
    }
}

// An input that is a cast has its factor in front, and its numbers behind the head.
static void casts_are_read_behind_their_factor(void **state)
{
    for (int is_view = 0; is_view < 2; is_view++) {
        struct call_case of;
        struct engine *engine = open_call(*state, &of);
        of.buffers[X].cast = true;
        if (is_view) {
            of.instr.input_views[0] = 1;
            of.views[0] = (struct packed_view){.buffer = PACKED, .whole = X, .first = 3, .row = 10};
        }
        assert_true(call_run(engine, 0));
        assert_ptr_equal(ran[0].factors[0], of.memory);
        assert_null(ran[0].factors[1]);
        // Lines of a view stand behind those in front of it, of six rows each.
        assert_ptr_equal(ran[0].inputs[0].data,
                         (char *)of.memory + CAST_HEAD_BYTES + (is_view ? 3 * 6 : 0));
        assert_int_equal(ran[0].inputs[0].row_stride, is_view ? 10 : 0);
        assert_int_equal(ran[0].inputs[0].element, ELEMENT_BYTE);
    }
}

static void products_of_layers_know_what_they_are_of(void **state)
{
    struct call_case of;
    struct engine *engine = open_call(*state, &of);
    assert_true(call_run(engine, 0));
    assert_true(ran[0].is_linear && ran[0].gradients == 0);
    run_count = 0;
    of.tensors[0].role = TENSOR_GRADIENT;
    assert_true(call_run(engine, 0));
    assert_true(ran[0].is_linear && ran[0].gradients == 1);
    of.tensors[1].role = TENSOR_GRADIENT;
    assert_true(call_run(engine, 0));
    assert_true(!ran[1].is_linear && ran[1].gradients == 3);
    of.tensors[2].role = TENSOR_PARAMETER_GRADIENT;
    assert_true(call_run(engine, 0));
    assert_true(ran[2].is_linear);
    // Routers, single numbers, heads and what is no product are none.
    of.tensors[2].extents[2].dim = DIM_GATE;
    assert_true(call_run(engine, 0));
    assert_false(ran[3].is_linear);
    of.tensors[1].role = TENSOR_PARAMETER;
    of.block.role = BLOCK_HEAD;
    assert_true(call_run(engine, 0));
    assert_true(!ran[4].is_linear && ran[4].gradients == 0);
    of.block.role = BLOCK_LAYER;
    of.ops[0].kind = OP_NORM;
    assert_true(call_run(engine, 0));
    assert_false(ran[5].is_linear);
}

// By seed, step, place in the sequence and name: the fifth step, behind two blocks in front.
static void keys_are_of_seed_step_place_and_name(void **state)
{
    struct call_case of;
    struct engine *engine = open_call(*state, &of);
    uint64_t key = random_key(random_key(random_key(SEED, 2), 4), 3);
    assert_true(call_key(engine, 0) == random_key_text(key, "mlp.up"));
    of.ops[0].name = "attention.core";
    assert_true(call_key(engine, 0) == random_key_text(key, "attention.core"));
    of.ops[0].kind = OP_ATTENTION;
    assert_true(call_key(engine, 0) == random_key_text(key, "attention.softmax_dropout"));
    of.ops[0].name = "attention";
    assert_true(call_key(engine, 0) == random_key_text(key, "attention.softmax_dropout"));
    struct kernel_call call;
    of.ops[0].dropout_ratio = 0.1;
    assert_true(call_make(engine, 0, &call));
    assert_true(call.key == call_key(engine, 0) && call.op->dropout_ratio == 0.1);
    // Dropout is for training.
    engine->is_validating = true;
    assert_true(call_make(engine, 0, &call));
    assert_true(call.op->dropout_ratio == 0 && call.op->kind == OP_ATTENTION);
    assert_true(of.ops[0].dropout_ratio == 0.1);
}

// A part of a relay has the tokens of a rank: here the second of two ranks' over the axis, the
// third token of each sequence. Its rows are not one behind another in what has all tokens.
static void parts_of_a_relay_are_run_sequence_by_sequence(void **state)
{
    struct call_case of;
    struct engine *engine = open_call(*state, &of);
    of.buffers[X].layout.of[0] = DIM_SEQ;  // the part: one token of all four sequences
    of.buffers[Y].layout.of[0] = LAYOUT_WHOLE;
    of.instr.rows = 1;
    of.instr.relay = 1;
    of.instr.dim = DIM_SEQ;
    assert_true(call_run(engine, 0));
    assert_int_equal(run_count, 4);
    for (int s = 0; s < 4; s++) {
        const struct kernel_call *call = &ran[s];
        check_array(&call->inputs[0], of.memory + 4 * s, LIST(1, 1, 4), LIST(12 + s, 2, 0),
                    LIST(4, 3, 4));
        check_array(&call->outputs[0], of.memory + 70 + 15 * s + 10, LIST(1, 1, 5),
                    LIST(12 + s, 2, 0), LIST(4, 3, 5));
        assert_true(call->inputs[1].data == of.memory + 40 && call->adds == 0);
    }
}

// A gradient of a weight is summed over sequences, and over parts from the second on.
static void sums_of_parts_add_up(void **state)
{
    for (int behind = 0; behind < 2; behind++) {
        struct call_case of;
        struct engine *engine = open_call(*state, &of);
        // y takes the place of the second input, w that of the result.
        of.ops[0].inputs[1] = 2;
        of.ops[0].outputs[0] = 1;
        of.instr.inputs[1] = Y;
        of.instr.outputs[0] = W;
        of.inputs[1] = (struct script_operand){.buffer = Y, .parameter = -1, .offset = 8 * 70};
        of.outputs[0] = (struct script_operand){.buffer = W, .parameter = -1, .offset = 8 * 40};
        of.buffers[X].layout.of[0] = DIM_SEQ;
        of.buffers[Y].layout.of[0] = LAYOUT_WHOLE;
        of.buffers[X].behind = behind;
        of.instr.rows = 1;
        of.instr.dim = DIM_SEQ;
        assert_true(call_run(engine, 0));
        assert_int_equal(run_count, 4);
        for (int s = 0; s < 4; s++) {
            assert_int_equal(ran[s].adds, s > 0 || behind);
            assert_ptr_equal(ran[s].outputs[0].data, of.memory + 40);
            assert_ptr_equal(ran[s].inputs[1].data, of.memory + 70 + 15 * s + 10);
        }
        // Who tells by its operand adds to nothing of itself.
        of.buffers[W].external = true;
        run_count = 0;
        assert_true(call_run(engine, 0));
        assert_true(ran[0].adds == 0 && ran[1].adds == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_know_their_place_in_the_whole),
        cmocka_unit_test(views_of_packed_rows_lie_apart),
        cmocka_unit_test(what_is_cast_for_others_is_the_last_output),
        cmocka_unit_test(casts_are_read_behind_their_factor),
        cmocka_unit_test(products_of_layers_know_what_they_are_of),
        cmocka_unit_test(keys_are_of_seed_step_place_and_name),
        cmocka_unit_test(parts_of_a_relay_are_run_sequence_by_sequence),
        cmocka_unit_test(sums_of_parts_add_up),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
