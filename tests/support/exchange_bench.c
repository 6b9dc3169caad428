#include "tests/support/exchange_bench.h"

struct exchange_said said;

static int64_t sum_of(const int64_t *counts)
{
    return counts[0] + counts[1] + counts[2];
}

static void say(double *to, const int64_t *counts)
{
    for (int j = 0; j < EXCHANGE_RANKS; j++)
        for (int i = 0; i < counts[j]; i++)
            *to++ = 100 * (j + 1) + i;
}

static const char *make_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    (void)communicator, (void)ranks, (void)purpose;
    assert_int_equal(count, EXCHANGE_RANKS);
    *group = NULL;
    return NULL;
}

static void note(char what, enum element element, const void *from, const int64_t *counts)
{
    said.called = what;
    said.element_of = element;
    said.from_of = from;
    memcpy(said.counts_of, counts, sizeof said.counts_of);
}

static const char *all_gather(struct group *group, enum stream stream, enum element element,
                              const void *mine, void *all, const int64_t *counts)
{
    (void)group, (void)stream;
    note('g', element, mine, counts);
    said.to_of = all;
    say(all, counts);
    return said.fault;
}

static const char *reduce_scatter(struct group *group, enum stream stream, enum element element,
                                  const void *all, void *mine, const int64_t *counts)
{
    (void)group;
    assert_int_equal(stream, STREAM_TP);
    note('s', element, all, counts);
    said.to_of = mine;
    memcpy(said.handed, all, (size_t)sum_of(counts) * sizeof *said.handed);
    for (int i = 0; i < counts[1]; i++)  // of rank 1
        ((double *)mine)[i] = 1000 + i;
    return said.fault;
}

static const char *all_to_all(struct group *group, enum stream stream, enum element element,
                              const void *from, const int64_t *sent, void *to,
                              const int64_t *received)
{
    (void)group, (void)stream;
    note('a', element, from, sent);
    memcpy(said.received_of, received, sizeof said.received_of);
    memcpy(said.handed, from, (size_t)sum_of(sent) * sizeof *said.handed);
    say(to, received);
    return said.fault;
}

static const char *all_reduce(struct group *group, enum stream stream, enum element element,
                              void *data, int64_t count, enum combine combine)
{
    (void)group, (void)stream;
    said.called = 'r';
    said.element_of = element;
    said.to_of = data;
    said.count_of = count;
    said.combined = combine;
    return said.fault;
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    assert_int_equal(stream, STREAM_TP);
    said.copied = kind;
    memcpy(to, from, (size_t)bytes);
    said.copies++;
    said.copied_bytes += (int)bytes;
    return NULL;
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    (void)device;
    assert_int_equal(stream, STREAM_TP);
    memset(memory, byte, (size_t)bytes);
    said.filled_bytes += (int)bytes;
    return NULL;
}

static const char *widen(struct device *device, enum stream stream, void *reals,
                         const void *rounded, int64_t count)
{
    (void)device;
    assert_int_equal(stream, STREAM_TP);
    for (int64_t i = 0; i < count; i++)
        ((double *)reals)[i] = (double)((const float *)rounded)[i];
    said.widened_count += (int)count;
    return NULL;
}

static const char *box(struct device *device, enum stream stream, const struct box_copy *of)
{
    (void)device;
    assert_int_equal(stream, STREAM_TP);
    assert_in_range(of->rank, 1, 2);
    int64_t rows = of->rank == 2 ? of->sizes[0] : 1, columns = of->sizes[of->rank - 1];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t to_at = of->rank == 2 ? r * of->to_strides[0] + c * of->to_strides[1] : c;
            int64_t from_at = of->rank == 2 ? r * of->from_strides[0] + c * of->from_strides[1] : c;
            double *to = (double *)of->to + to_at;
            double from = ((const double *)of->from)[from_at];
            *to = of->combine == BOX_ADD ? *to + from : from;
        }
    }
    return NULL;
}

static const char *send(struct communicator *communicator, enum stream stream, enum element element,
                        int rank, int channel, const void *data, int64_t count)
{
    (void)communicator, (void)element;
    assert_int_equal(stream, STREAM_TP);
    said.sent_to = rank;
    said.channels[0] = channel;
    said.sent_count = count;
    said.from_of = data;
    return said.fault;
}

static const char *receive(struct communicator *communicator, enum stream stream,
                           enum element element, int rank, int channel, void *data, int64_t count)
{
    (void)communicator, (void)stream, (void)element;
    said.received_from = rank;
    said.channels[1] = channel;
    said.received_count = count;
    said.to_of = data;
    return NULL;
}

// Three ranks of tp.
static struct parallel three_ranks(void)
{
    struct parallel parallel = {.vpp = 1, .micro_batch = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_TP] = EXCHANGE_RANKS;
    parallel_default_order(&parallel);
    return parallel;
}

static void fill_block(struct exchange_bench *bench, int rows, int columns)
{
    *bench = (struct exchange_bench){
        .tensor = {.name = "x", .element = ELEMENT_COMPUTE, .rank = 2, .gradient_of = -1},
        .instr = {.collective = COLLECTIVE_ALL_GATHER,
                  .axes = 1,
                  .parent = AXIS_TP,
                  .op = -1,
                  .inputs = {0},
                  .outputs = {1},
                  .input_count = 1,
                  .output_count = 1},
        .inputs = {{.parameter = -1}, {.parameter = -1}},
        .outputs = {{.buffer = 1, .parameter = -1, .offset = EXCHANGE_ROOM * 8}, {.parameter = -1}},
        .task = {.kind = TASK_INSTR,
                 .stream = STREAM_TP,
                 .input_count = 1,
                 .output_count = 1,
                 .unit = -1,
                 .unit_count = 1,
                 .bucket = -1}};
    bench->tensor.extents[0] = (struct extent){DIM_HEIGHT, rows};
    bench->tensor.extents[1] = (struct extent){DIM_WIDTH, columns};
    bench->block = (struct block){.tensors = &bench->tensor, .tensor_count = 1, .name = "layer"};
    bench->program = (struct block_program){.block = &bench->block,
                                            .buffers = bench->buffers,
                                            .buffer_count = 3,
                                            .instrs = &bench->instr,
                                            .instr_count = 1,
                                            .parameters = bench->known};
    bench->blocks[0] = &bench->program;
    bench->task.inputs = bench->inputs;
    bench->task.outputs = bench->outputs;
}

struct engine *exchange_open(struct arena *arena, struct exchange_bench *bench, int rows,
                             int columns)
{
    struct parallel parallel = three_ranks();
    fill_block(bench, rows, columns);
    struct engine *engine = bench->engine = rank_bench_open(arena, &bench->rank, 1, EXCHANGE_RANKS);
    struct rank_bench *rank = &bench->rank;
    rank->transport.group = make_group;
    rank->transport.all_gather = all_gather;
    rank->transport.reduce_scatter = reduce_scatter;
    rank->transport.all_to_all = all_to_all;
    rank->transport.all_reduce = all_reduce;
    rank->backend = (struct backend){.copy = copy, .fill = fill, .box = box, .widen = widen};
    rank->options.steps = 1;
    rank->program.parallel = parallel;
    rank->program.mesh = mesh_make(&parallel, 0);
    rank->program.blocks = bench->blocks;
    rank->script.program = &rank->program;
    rank->script.tasks = &bench->task;
    rank->script.task_count = 1;
    rank->script.parameters = bench->parameters;
    rank->script.units = bench->units;
    engine->real_bytes = engine->compute_bytes = 8;
    engine->widen = 1;
    engine->memory = (char *)bench->from;  // the output behind the input
    engine->staging[STREAM_COMPUTE][0] = (char *)bench->staged[0];
    engine->staging[STREAM_COMPUTE][1] = (char *)bench->staged[1];
    assert_int_equal(mesh_axes_of(&rank->program.mesh, AXIS_TP), 1);
    rank->script.graph = &bench->graph;
    bench->graph.number_count = 1;
    engine->prepared = bench->prepared;
    bench->prepared[0] = (struct prepared){.owner = -1, .source = -1, .rows = -1};
    assert_true(measure_open(engine));
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            bench->from[r * columns + c] = 10 * r + c;
    rank->transport.send = send;
    rank->transport.receive = receive;
    said = (struct exchange_said){0};
    return engine;
}

static void fill_bucket(struct exchange_bench *bench, enum task_kind kind)
{
    static const int64_t ELEMENTS[] = {7, 4};
    bench->task.kind = kind;
    bench->task.unit = bench->task.bucket = 0;
    bench->task.bucket_count = 1;
    bench->task.axes = 1;
    bench->bucket = (struct script_bucket){.units = bench->bucket_units,
                                           .unit_count = 2,
                                           .elements = 11,
                                           .reduce_axes = 1,
                                           .room = -1};
    for (int u = 0; u < 2; u++) {
        bench->bucket_units[u] = u;
        bench->units[u] = (struct script_unit){.first_parameter = u,
                                               .parameter_count = 1,
                                               .elements = ELEMENTS[u],
                                               .same_as = -1,
                                               .bucket_first = 7 * u};
        bench->parameters[u] = (struct script_parameter){
            .unit = u, .index = u, .elements = ELEMENTS[u], .same_as = -1};
    }
}

struct engine *exchange_open_bucket(struct arena *arena, struct exchange_bench *bench,
                                    enum task_kind kind)
{
    struct engine *engine = exchange_open(arena, bench, 1, 1);
    struct state *state = &engine->state;
    struct script *script = &bench->rank.script;
    fill_bucket(bench, kind);
    script->buckets = &bench->bucket;
    script->bucket_count = 1;
    script->parameter_count = script->unit_count = 2;
    state->weights = state->gradients = state->first_moments = (char *)bench->from;
    state->weight_at = ARENA_NEW(arena, int64_t, 2);
    state->gradient_at = ARENA_NEW(arena, int64_t, 2);
    state->moment_at = ARENA_NEW(arena, int64_t, 2);
    state->trust = ARENA_NEW(arena, double, 2);
    for (int u = 0; u < 2; u++) {
        state->gradient_at[u] = 3 + 7 * u;
        state->weight_at[u] = 20 + 7 * u;
        state->moment_at[u] = 60 + 7 * u;
    }
    for (int i = 0; i < EXCHANGE_ROOM; i++)
        bench->from[i] = i;
    return engine;
}

void exchange_set_storage(struct exchange_bench *bench, struct storage storage)
{
    bench->bucket.storage = storage;
    bench->units[0].storage = bench->units[1].storage = storage;
}

void exchange_check_sent(struct exchange_bench *bench, double measured, double to_0, double to_2)
{
    struct run_result result = {0};
    struct group *world = &bench->rank.world;
    static const int64_t SAID[EXCHANGE_RANKS * EXCHANGE_RANKS];
    struct engine *engine = bench->engine;
    assert_true(measure_step(engine, 1) && engine->sums[1] == measured);
    *world = (struct group){.rank = 1,
                            .rank_count = EXCHANGE_RANKS,
                            .said = {SAID},
                            .counts = {EXCHANGE_RANKS},
                            .turn = 0};
    engine->world = world;
    assert_true(traffic_finish(engine, &result));
    assert_true((double)result.traffic_bytes[3] == to_0);
    assert_true((double)result.traffic_bytes[5] == to_2);
    assert_int_equal(result.traffic_bytes[4], 0);
}

void exchange_check_counts(const int64_t *counts, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(counts[0], a);
    assert_int_equal(counts[1], b);
    assert_int_equal(counts[2], c);
}

void exchange_check_numbers(const double *is, const double *wanted, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(is[i] == wanted[i]);
}
