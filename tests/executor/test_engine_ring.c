#include "tests/support/rank_bench.h"

#include <stdio.h>

// Ring attention of rank 1 of three, which have 3, 3 and 1 of seven tokens, two numbers each: what
// is run, sent and received, in which order, from where and to where, as one line for each. Places
// are numbers of the arena: keys wait at 30 and 36, values at 42 and 48, gradients of keys at 54,
// of values at 60.

enum { RANKS = 3, TASKS = 8, ROOM = 96 };
enum { Q, K, V, KEYS, VALUES, OUT, LSE, D_OUT, DQ, DK, DV, OWN_DK, OWN_DV, BUFFERS };
enum { GATHER_K, GATHER_V, FORWARD, AGAIN_K, AGAIN_V, BACKWARD, SCATTER_K, SCATTER_V };

static double memory[ROOM];
static char lines[4096];
static size_t used;
static const char *fault;

static int place(const void *data)
{
    return (int)((const double *)data - memory);
}

static const char *run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    (void)device;
    bool is_backward = call->op->kind == OP_ATTENTION_BACKWARD;
    const struct kernel_array *key = &call->inputs[is_backward ? 2 : 1], *value = key + 1;
    assert_int_equal(stream, STREAM_COMPUTE);
    assert_true(key->first[0] == value->first[0] && key->sizes[0] == value->sizes[0]);
    used += (size_t)snprintf(lines + used, sizeof lines - used, "run %d+%d at %d %d",
                             (int)key->first[0], (int)key->sizes[0], place(key->data),
                             place(value->data));
    if (is_backward)
        used += (size_t)snprintf(lines + used, sizeof lines - used, " to %d+%d at %d %d",
                                 (int)call->outputs[1].first[0], (int)call->outputs[2].sizes[0],
                                 place(call->outputs[1].data), place(call->outputs[2].data));
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%s adds %u\n",
                             call->merges ? " merges" : "", call->adds);
    return fault;
}

static const char *send(struct communicator *communicator, enum stream stream, enum element element,
                        int rank, int channel, const void *data, int64_t count)
{
    (void)communicator, (void)element;
    assert_int_equal(stream, STREAM_CP);
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%d: %d of %d to %d\n", channel,
                             (int)count, place(data), rank);
    return NULL;
}

static const char *receive(struct communicator *communicator, enum stream stream,
                           enum element element, int rank, int channel, void *data, int64_t count)
{
    (void)communicator, (void)stream, (void)element;
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%d: %d to %d from %d\n", channel,
                             (int)count, place(data), rank);
    return NULL;
}

static const char *fill(struct device *device, enum stream stream, void *data, int byte,
                        int64_t bytes)
{
    (void)device, (void)stream;
    assert_int_equal(byte, 0);
    used += (size_t)snprintf(lines + used, sizeof lines - used, "clear %d of %d\n", (int)bytes / 8,
                             place(data));
    return NULL;
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device, (void)stream;
    assert_int_equal(kind, COPY_DEVICE);
    used += (size_t)snprintf(lines + used, sizeof lines - used, "copy %d of %d to %d\n",
                             (int)bytes / 8, place(from), place(to));
    return NULL;
}

static const char *make_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    (void)communicator, (void)ranks, (void)count, (void)purpose;
    *group = NULL;
    return NULL;
}

struct ring_case {
    struct rank_bench bench;
    struct tensor tensor;
    struct op ops[2];
    struct block block;
    struct buffer buffers[BUFFERS];
    struct instr instrs[TASKS];
    struct block_program program, *blocks[1];
    struct script_operand inputs[TASKS][4], outputs[TASKS][3];
    struct script_task tasks[TASKS];
    struct prepared prepared[TASKS];
    struct step_graph numbers;
    struct graph graph;
    struct chunk_span span;
};

static const int PLACES[BUFFERS] = {
    [Q] = 0,      [K] = 6,   [V] = 12,  [KEYS] = 30, [VALUES] = 42, [OUT] = 66,   [LSE] = 72,
    [D_OUT] = 18, [DQ] = 24, [DK] = 54, [DV] = 60,   [OWN_DK] = 80, [OWN_DV] = 86};

static void set_task(struct ring_case *of, int t, struct instr instr)
{
    of->instrs[t] = instr;
    of->instrs[t].axes = 1;
    of->instrs[t].stream_steps = 2;
    for (int i = 0; i < instr.input_count; i++)
        of->inputs[t][i] = (struct script_operand){
            .buffer = instr.inputs[i], .parameter = -1, .offset = 8 * PLACES[instr.inputs[i]]};
    for (int i = 0; i < instr.output_count; i++)
        of->outputs[t][i] = (struct script_operand){
            .buffer = instr.outputs[i], .parameter = -1, .offset = 8 * PLACES[instr.outputs[i]]};
    of->tasks[t] = (struct script_task){.kind = TASK_INSTR,
                                        .instr = t,
                                        .in_graph = t,
                                        .unit = -1,
                                        .inputs = of->inputs[t],
                                        .outputs = of->outputs[t],
                                        .input_count = instr.input_count,
                                        .output_count = instr.output_count};
}

static void set_tasks(struct ring_case *of)
{
    enum collective gathers = COLLECTIVE_ALL_GATHER, scatters = COLLECTIVE_REDUCE_SCATTER;
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 2; i++)
            set_task(of, again * AGAIN_K + i,
                     (struct instr){.collective = gathers,
                                    .streamed = true,
                                    .inputs = {K + i},
                                    .outputs = {KEYS + i},
                                    .input_count = 1,
                                    .output_count = 1});
    }
    for (int i = 0; i < 2; i++)
        set_task(of, SCATTER_K + i,
                 (struct instr){.collective = scatters,
                                .streamed = true,
                                .inputs = {DK + i},
                                .outputs = {OWN_DK + i},
                                .input_count = 1,
                                .output_count = 1});
    set_task(of, FORWARD,
             (struct instr){.kind = OP_ATTENTION,
                            .causal = true,
                            .inputs = {Q, KEYS, VALUES},
                            .outputs = {OUT, LSE},
                            .input_count = 3,
                            .output_count = 2});
    set_task(of, BACKWARD,
             (struct instr){.kind = OP_ATTENTION_BACKWARD,
                            .op = 1,
                            .causal = true,
                            .inputs = {D_OUT, Q, KEYS, VALUES},
                            .outputs = {DQ, DK, DV},
                            .input_count = 4,
                            .output_count = 3});
}

static struct engine *open_ring(struct arena *arena, struct ring_case *of)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_CP] = RANKS;
    parallel_default_order(&parallel);
    *of = (struct ring_case){.ops = {{.name = "attention", .kind = OP_ATTENTION},
                                     {.name = "attention", .kind = OP_ATTENTION_BACKWARD}},
                             .numbers = {.number_count = TASKS}};
    of->tensor = (struct tensor){.name = "x",
                                 .element = ELEMENT_COMPUTE,
                                 .rank = 2,
                                 .gradient_of = -1,
                                 .extents = {{DIM_SEQ, 0}, {DIM_HEAD_DIM, 2}}};
    for (int b = 0; b < BUFFERS; b++)
        if (b != KEYS && b != VALUES && b != DK && b != DV) of->buffers[b].layout.of[0] = DIM_SEQ;
    of->block =
        (struct block){.tensors = &of->tensor, .tensor_count = 1, .ops = of->ops, .op_count = 2};
    set_tasks(of);
    of->program = (struct block_program){.block = &of->block,
                                         .buffers = of->buffers,
                                         .buffer_count = BUFFERS,
                                         .instrs = of->instrs,
                                         .instr_count = TASKS};
    of->blocks[0] = &of->program;
    struct engine *engine = rank_bench_open(arena, &of->bench, 1, RANKS);
    struct rank_bench *bench = &of->bench;
    bench->transport.group = make_group;
    bench->transport.send = send;
    bench->transport.receive = receive;
    bench->backend = (struct backend){.run = run, .fill = fill, .copy = copy};
    bench->options.steps = 1;
    bench->request.graph = &of->graph;
    bench->program.parallel = parallel;
    bench->program.workload.seq_len = 7;
    bench->program.mesh = mesh_make(&parallel, 0);
    bench->program.blocks = of->blocks;
    bench->program.spans = &of->span;
    bench->script.program = &bench->program;
    bench->script.graph = &of->numbers;
    bench->script.tasks = of->tasks;
    bench->script.task_count = TASKS;
    engine->prepared = of->prepared;
    engine->real_bytes = engine->compute_bytes = 8;
    engine->widen = 1;
    engine->memory = (char *)memory;
    assert_true(measure_open(engine));
    ring_prepare(engine);
    used = 0;
    lines[0] = 0;
    fault = NULL;
    return engine;
}

static void readers_know_who_brings_their_keys(void **state)
{
    struct ring_case of;
    struct engine *engine = open_ring(*state, &of);
    for (int t = 0; t < TASKS; t++) {
        assert_int_equal(ring_is(engine, t), t == FORWARD || t == BACKWARD);
        assert_int_equal(of.prepared[t].source, t == FORWARD    ? GATHER_K
                                                : t == BACKWARD ? AGAIN_K
                                                                : -1);
    }
    // Of another slot, of another block, or not streamed it is none.
    of.tasks[GATHER_K].slot = 1;
    of.tasks[AGAIN_K].position = 1;
    ring_prepare(engine);
    assert_true(of.prepared[FORWARD].source == -1 && of.prepared[BACKWARD].source == -1);
    of.tasks[GATHER_K].slot = 0;
    of.instrs[GATHER_K].streamed = false;
    ring_prepare(engine);
    assert_int_equal(of.prepared[FORWARD].source, -1);
}

// The last rank's token is behind all of rank 1's: it passes by unseen.
static void keys_pass_by_while_others_are_worked_on(void **state)
{
    struct ring_case of;
    struct engine *engine = open_ring(*state, &of);
    assert_true(ring_settle(engine, GATHER_K) && ring_settle(engine, GATHER_V));
    assert_true(ring_run(engine, FORWARD));
    assert_string_equal(lines, "copy 6 of 6 to 30\n"
                               "copy 6 of 12 to 42\n"
                               "run 3+3 at 30 42 adds 0\n"
                               "64: 6 of 30 to 2\n"
                               "64: 6 to 36 from 0\n"
                               "65: 6 of 42 to 2\n"
                               "65: 6 to 48 from 0\n"
                               "run 0+3 at 36 48 merges adds 0\n"
                               "64: 6 of 36 to 2\n"
                               "64: 2 to 30 from 0\n"
                               "65: 6 of 48 to 2\n"
                               "65: 2 to 42 from 0\n");
    // What a gather's keys are handed on is counted as its own, twice 6 numbers.
    assert_true(measure_step(engine, 1));
    assert_true(engine->sums[4 * GATHER_K + 1] == 96 && engine->sums[4 * GATHER_V + 1] == 96);
    assert_true(engine->sums[4 * SCATTER_K + 1] == 0);
}

// Of one token the first rank has it all: the room for what passes is as wide as its block, the
// largest, also on a rank that has none.
static void rooms_are_as_wide_as_the_largest_block(void **state)
{
    struct ring_case of;
    struct engine *engine = open_ring(*state, &of);
    of.bench.program.workload.seq_len = 1;
    of.instrs[FORWARD].causal = false;
    assert_true(ring_run(engine, FORWARD));
    assert_non_null(strstr(lines, "64: 0 of 30 to 2\n"
                                  "64: 2 to 32 from 0\n"
                                  "65: 0 of 42 to 2\n"
                                  "65: 2 to 44 from 0\n"
                                  "run 0+1 at 32 44 merges adds 0\n"));
}

static void all_keys_are_seen_where_nothing_hides_them(void **state)
{
    for (int has_prefix = 0; has_prefix < 2; has_prefix++) {
        struct ring_case of;
        struct engine *engine = open_ring(*state, &of);
        of.instrs[FORWARD].causal = has_prefix;
        of.ops[0].prefix = has_prefix ? 7 : 0;
        assert_true(ring_run(engine, FORWARD));
        assert_non_null(strstr(lines, "run 6+1 at 30 42 merges adds 0\n"));
        // A prefix that ends before the last token's block leaves it unseen.
        of.ops[0].prefix = has_prefix ? 6 : 0;
        used = 0;
        assert_true(ring_run(engine, FORWARD));
        assert_int_equal(strstr(lines, "run 6+1") == NULL, has_prefix);
    }
}

// The own block comes last, when its gradients are home; they travel a step behind their keys.
static void gradients_come_home(void **state)
{
    struct ring_case of;
    struct engine *engine = open_ring(*state, &of);
    of.instrs[BACKWARD].causal = false;
    assert_true(ring_run(engine, BACKWARD));
    assert_true(ring_settle(engine, SCATTER_K));
    assert_string_equal(lines, "clear 6 of 54\n"
                               "clear 6 of 60\n"
                               "64: 6 of 30 to 2\n"
                               "64: 6 to 36 from 0\n"
                               "65: 6 of 42 to 2\n"
                               "65: 6 to 48 from 0\n"
                               "run 0+3 at 36 48 to 0+3 at 54 60 adds 6\n"
                               "64: 6 of 36 to 2\n"
                               "64: 2 to 36 from 0\n"
                               "65: 6 of 48 to 2\n"
                               "65: 2 to 48 from 0\n"
                               "66: 6 of 54 to 2\n"
                               "66: 2 to 54 from 0\n"
                               "67: 6 of 60 to 2\n"
                               "67: 2 to 60 from 0\n"
                               "run 6+1 at 36 48 to 6+1 at 54 60 merges adds 7\n"
                               "66: 2 of 54 to 2\n"
                               "66: 6 to 54 from 0\n"
                               "67: 2 of 60 to 2\n"
                               "67: 6 to 60 from 0\n"
                               "run 3+3 at 30 42 to 3+3 at 54 60 merges adds 7\n"
                               "copy 6 of 54 to 80\n");
    assert_true(measure_step(engine, 1));
    assert_true(engine->sums[4 * AGAIN_K + 1] == 96);
    assert_true(engine->sums[4 * SCATTER_K + 1] == 64);  // 6 and 2 numbers
}

// With one exchange the gradients go back to where they came from.
static void gradients_of_one_step_go_back(void **state)
{
    struct ring_case of;
    struct engine *engine = open_ring(*state, &of);
    for (int t = 0; t < TASKS; t++)
        of.instrs[t].stream_steps = 1;
    assert_true(ring_run(engine, BACKWARD));
    assert_non_null(strstr(lines, "adds 6\n"
                                  "66: 6 of 54 to 0\n"
                                  "66: 6 to 54 from 2\n"
                                  "67: 6 of 60 to 0\n"
                                  "67: 6 to 60 from 2\n"
                                  "run 3+3 at 30 42 to 3+3 at 54 60 merges adds 7\n"));
    fault = "it burns";
    assert_false(ring_run(engine, BACKWARD));
    of.bench.err = (struct err){0};
    of.instrs[SCATTER_V].streamed = false;
    assert_false(ring_run(engine, BACKWARD));
    assert_string_equal(of.bench.err.text, "nothing takes the gradients of passing keys");
    of.bench.err = (struct err){0};
    of.instrs[GATHER_V].streamed = false;
    assert_false(ring_run(engine, FORWARD));
    assert_string_equal(of.bench.err.text, "a value does not pass with its key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_know_who_brings_their_keys),
        cmocka_unit_test(keys_pass_by_while_others_are_worked_on),
        cmocka_unit_test(rooms_are_as_wide_as_the_largest_block),
        cmocka_unit_test(all_keys_are_seen_where_nothing_hides_them),
        cmocka_unit_test(gradients_come_home),
        cmocka_unit_test(gradients_of_one_step_go_back),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
