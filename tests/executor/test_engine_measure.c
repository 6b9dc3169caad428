#include "tests/support/test.h"

#include "executor/engine/engine.h"

#include <math.h>

// What a step took, by kind, by task and as a trace, on an engine that has a script and nothing
// else: its back end has events whose seconds are given, so that every figure is worked by hand.
//
// Three slots and what is behind them, in milliseconds of the second step; the third takes half as
// long, the fourth twice. The second is the fine one, in which every operator is timed.

enum { FORWARD, REDUCE, OUT, LINEAR, LOSS, SEND, SEED, SCATTER, INSIDE, LAST, WEIGHTS, RING, NORM };
enum { TASKS = NORM + 1, NUMBERS = 13, STEPS = 4, FINE = 1, RANKS = 2 };

static const double TIMES[TASKS][2] = {
    [FORWARD] = {0, 2},                          // a norm
    [REDUCE] = {2, 5},                           // over tp
    [OUT] = {5, 12},                             // to the host
    [LINEAR] = {5, 16},                          // ends the slot
    [LOSS] = {16, 17},                           // taken out
    [SEND] = {17, 30},                           // to another stage
    [SEED] = {20, 21},                           // begins the second slot
    [SCATTER] = {21, 38},                        // over cp, on the stream of compute
    [INSIDE] = {38, 57},                         // an update
    [LAST] = {57, 80},                           // runs as one with another
    [WEIGHTS] = {80, 109}, [RING] = {109, 140},  // keys go round, beside it
    [NORM] = {141, 178},
};
static const double FACTORS[STEPS] = {100, 1, 0.5, 2};

struct event {
    int task, side;
};
static struct event events[64];
static int made_count, given_count, recorded[TASKS][2];
static double factor;

static struct event *event_new(struct device *device)
{
    (void)device;
    return &events[made_count++];
}

static void event_free(struct device *device, struct event *event)
{
    (void)device;
    assert_true(event >= events && event < events + made_count);
    given_count++;
}

static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    (void)device;
    if (event->task < 0) return NULL;
    recorded[event->task][event->side]++;
    enum stream wanted = event->task == REDUCE ? STREAM_TP
                         : event->task == OUT  ? STREAM_D2H
                         : event->task == SEND ? STREAM_PP
                         : event->task == RING ? STREAM_CP
                         : event->task == NORM ? STREAM_DP
                                               : STREAM_COMPUTE;
    assert_int_equal(stream, wanted);
    return NULL;
}

static double event_seconds(struct device *device, struct event *from, struct event *to)
{
    (void)device;
    assert_true(from->task == -1 && to->task >= 0);
    return 1e-3 * factor * TIMES[to->task][to->side];
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device;
    (void)stream;
    return NULL;
}

// The other rank says as much again of sums. Of its step that it began `apart_ns` before this one,
// of its spans those below.
static int64_t apart_ns;
static int asked;
static const int64_t SAID[5][4] = {
    {7, STREAM_TP, 8500900, 9000000}, {7, STREAM_TP, 8500900, 8900000}, {8, STREAM_DP, 20, 30},
    {9, STREAM_CP, 20, 30},           {11, STREAM_COMPUTE, 20, 30},
};

static const char *host_sum(struct group *group, double *values, int count)
{
    (void)group;
    for (int i = 0; i < count; i++)
        values[i] *= 2;
    return NULL;
}

enum { MOVED_ASKED, BEGAN_ASKED, COUNTS_ASKED, SPANS_ASKED, TRAFFIC_ASKED };

// This is rank 1.
static const char *host_gather(struct group *group, const int64_t *mine, int64_t *all, int count)
{
    (void)group;
    memcpy(all + count, mine, (size_t)count * sizeof *all);
    memset(all, 0, (size_t)count * sizeof *all);
    switch (asked++) {
    case BEGAN_ASKED:
        assert_int_equal(count, 1);
        all[0] = mine[0] - apart_ns;
        break;
    case COUNTS_ASKED:
        assert_int_equal(count, 1);
        all[0] = 5;
        break;
    case SPANS_ASKED:
        assert_true(count >= 5 * 4);
        memcpy(all, SAID, sizeof SAID);
        break;
    default:
        break;
    }
    return NULL;
}

struct measure_bench {
    struct backend backend;
    struct transport transport;
    struct run_options options;
    struct run_request request;
    struct block block;
    struct op ops[8];
    struct instr instrs[8];
    struct block_program block_program;
    const struct block_program *blocks[1];
    struct program program;
    struct step_graph graph;
    struct script_task tasks[TASKS];
    struct script script;
    struct prepared prepared[TASKS];
    struct err err;
    struct engine engine;
};

// Instructions of the block, by the tasks that are some.
static const struct {
    int task;
    enum op_kind kind;
    enum collective collective;
    enum axis parent;
    bool streamed;
    enum task_kind slot_kind;
    enum stream stream;
} INSTRS[] = {
    {FORWARD, OP_NORM, COLLECTIVE_NONE, AXIS_DP, false, TASK_FORWARD, STREAM_COMPUTE},
    {REDUCE, OP_NORM, COLLECTIVE_ALL_REDUCE, AXIS_TP, false, TASK_FORWARD, STREAM_TP},
    {LINEAR, OP_ADD, COLLECTIVE_NONE, AXIS_DP, false, TASK_FORWARD, STREAM_COMPUTE},
    {SCATTER, OP_NORM, COLLECTIVE_REDUCE_SCATTER, AXIS_CP, false, TASK_WEIGHT, STREAM_COMPUTE},
    {LAST, OP_ADD, COLLECTIVE_NONE, AXIS_DP, false, TASK_BACKWARD, STREAM_COMPUTE},
    {WEIGHTS, OP_SOFTMAX, COLLECTIVE_NONE, AXIS_DP, false, TASK_WEIGHT, STREAM_COMPUTE},
    {RING, OP_NORM, COLLECTIVE_ALL_GATHER, AXIS_CP, true, TASK_WEIGHT, STREAM_CP},
};
enum { INSTR_COUNT = sizeof INSTRS / sizeof *INSTRS };

static void write_script(struct measure_bench *bench)
{
    static const int SLOTS[TASKS] = {[SEED] = 1,    [SCATTER] = 1, [INSIDE] = 1, [LAST] = 1,
                                     [WEIGHTS] = 2, [RING] = 2,    [NORM] = -1};
    static const struct {
        int task;
        enum task_kind kind, slot_kind;
        enum stream stream;
    } OTHERS[] = {
        {OUT, TASK_COPY_OUT, TASK_FORWARD, STREAM_D2H},
        {LOSS, TASK_LOSS, TASK_FORWARD, STREAM_COMPUTE},
        {SEND, TASK_SEND, TASK_FORWARD, STREAM_PP},
        {SEED, TASK_SEED, TASK_WEIGHT, STREAM_COMPUTE},
        {INSIDE, TASK_UPDATE, TASK_BACKWARD, STREAM_COMPUTE},
        {NORM, TASK_NORM, TASK_FORWARD, STREAM_DP},
    };
    for (int t = 0; t < TASKS; t++) {
        bench->prepared[t] = (struct prepared){.source = -1, .rows = -1, .owner = -1};
        bench->tasks[t] = (struct script_task){.slot = SLOTS[t],
                                               .micro_batch = 3,
                                               .chunk = 1,
                                               .in_graph = NUMBERS - 1 - t,
                                               .instr = -1};
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        struct script_task *task = &bench->tasks[OTHERS[i].task];
        task->kind = OTHERS[i].kind;
        task->slot_kind = OTHERS[i].slot_kind;
        task->stream = OTHERS[i].stream;
    }
    for (int i = 0; i < INSTR_COUNT; i++) {
        struct script_task *task = &bench->tasks[INSTRS[i].task];
        task->kind = TASK_INSTR;
        task->slot_kind = INSTRS[i].slot_kind;
        task->stream = INSTRS[i].stream;
        task->instr = i;
        bench->instrs[i] = (struct instr){.kind = INSTRS[i].kind,
                                          .collective = INSTRS[i].collective,
                                          .parent = INSTRS[i].parent,
                                          .streamed = INSTRS[i].streamed};
    }
    bench->prepared[LAST].is_joined = true;
    bench->tasks[NORM].in_graph = NUMBERS - 1;  // once more that of the first
}

static struct engine *open(struct arena *arena, struct measure_bench *bench,
                           enum schedule_kind schedule)
{
    *bench = (struct measure_bench){.backend = {.is_asynchronous = true,
                                                .event_new = event_new,
                                                .event_free = event_free,
                                                .event_record = event_record,
                                                .event_seconds = event_seconds,
                                                .synchronize = synchronize},
                                    .transport = {.host_sum = host_sum, .host_gather = host_gather},
                                    .options.steps = STEPS};
    write_script(bench);
    bench->request.options = &bench->options;
    bench->block_program = (struct block_program){
        .block = &bench->block, .instrs = bench->instrs, .instr_count = INSTR_COUNT};
    bench->blocks[0] = &bench->block_program;
    bench->program.blocks = (void *)bench->blocks;
    bench->program.parallel.schedule = schedule;
    bench->program.shape.chunk_count = 2;
    bench->program.mesh.rank_count = RANKS;
    bench->graph.number_count = NUMBERS;
    bench->script = (struct script){.program = &bench->program,
                                    .graph = &bench->graph,
                                    .tasks = bench->tasks,
                                    .task_count = TASKS};
    bench->engine = (struct engine){.request = &bench->request,
                                    .backend = &bench->backend,
                                    .transport = &bench->transport,
                                    .script = &bench->script,
                                    .program = &bench->program,
                                    .prepared = bench->prepared,
                                    .arena = arena,
                                    .rank = 1,
                                    .err = &bench->err};
    made_count = given_count = asked = 0;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        events[i].task = -2;
    assert_true(streams_open(&bench->engine));
    int before = made_count;
    assert_true(measure_open(&bench->engine));
    assert_int_equal(made_count, before + 1 + 2 * TASKS);
    events[before].task = -1;
    for (int t = 0; t < TASKS; t++)
        for (int side = 0; side < 2; side++)
            events[before + 1 + 2 * t + side] = (struct event){t, side};
    return &bench->engine;
}

// Two bytes for each task in the second step, three in the others; the linear one runs twice.
static void take_steps(struct engine *engine)
{
    static const double WORK_MS = 16 + 60 + 60 - 17;
    for (engine->step = 0; engine->step < STEPS; engine->step++) {
        factor = FACTORS[engine->step];
        memset(recorded, 0, sizeof recorded);
        engine->scale.skips = engine->step == 3;
        assert_true(measure_start_step(engine));
        for (int t = 0; t < TASKS; t++) {
            assert_true(measure_begin(engine, t) && measure_end(engine, t));
            measure_bytes(engine, t, engine->step == FINE ? 1 : 2);
            measure_bytes(engine, t, 1);
        }
        tasks_ran(engine, 0, TASKS);
        tasks_ran(engine, LINEAR, 1);
        traffic_to(engine, 0, 100 * engine->step);
        engine->moved_s = 1e-3 * engine->step;
        engine->work_ns = -1;
        assert_true(measure_step(engine, 0.2 * factor));
        double work_ns = engine->step == 0 ? -1 : 1e6 * WORK_MS * factor;
        assert_true(fabs((double)engine->work_ns - work_ns) < 2);
        bool is_fine = engine->step == FINE;
        assert_int_equal(measure_is_fine(engine), is_fine);
        for (int t = 0; t < TASKS; t++) {
            // Ends of slots, exchanges, copies, messages and what is once a step.
            for (int side = 0; side < 2; side++)
                assert_int_equal(recorded[t][side], is_fine || t != LOSS);
        }
    }
}

struct wanted_kind {
    enum run_group group;
    int index;
    enum axis axis;
    double count, ms, bytes;
};

static const struct run_kind *kind_of(const struct run_result *result,
                                      const struct wanted_kind *wanted)
{
    for (int i = 0; i < result->kind_count; i++) {
        const struct run_kind *kind = &result->kinds[i];
        if (kind->group == wanted->group && kind->index == wanted->index &&
            kind->axis == wanted->axis)
            return kind;
    }
    fail_msg("no kind %d %d %d", (int)wanted->group, wanted->index, (int)wanted->axis);
    return NULL;
}

static bool is_near(double found, double wanted)
{
    return fabs(found - wanted) <= 1e-9 * (1 + fabs(wanted));
}

// Means of three steps, which took 1, 1/2 and 2 times as long and moved 2, 3 and 3 bytes; of
// operators those of the fine one; and both ranks'.
static void check_kinds(const struct run_result *result, bool has_weights)
{
    static const double MEAN = 3.5 / 3, BYTES = 8. / 3;
    const struct wanted_kind WANTED[] = {
        {RUN_TASK, TASK_FORWARD, (enum axis)0, 1, 16 * MEAN, 0},
        {RUN_TASK, TASK_BACKWARD, (enum axis)0, has_weights ? 1 : 2,
         (has_weights ? 60 : 120) * MEAN, 0},
        {RUN_TASK, TASK_SEND, (enum axis)0, 1, 13 * MEAN, BYTES},
        {RUN_TASK, TASK_UPDATE, (enum axis)0, 1, 19 * MEAN, BYTES},
        {RUN_TASK, TASK_NORM, (enum axis)0, 1, 37 * MEAN, BYTES},
        {RUN_OPERATOR, OP_NORM, (enum axis)0, 1, 2, 2},
        {RUN_OPERATOR, OP_ADD, (enum axis)0, 1, 11, 2},
        {RUN_OPERATOR, OP_SOFTMAX, (enum axis)0, 1, 29, 2},
        {RUN_COLLECTIVE, COLLECTIVE_ALL_REDUCE, AXIS_TP, 1, 3 * MEAN, BYTES},
        {RUN_COLLECTIVE, COLLECTIVE_REDUCE_SCATTER, AXIS_CP, 1, 17 * MEAN, BYTES},
        {RUN_COLLECTIVE, COLLECTIVE_SEND_RECV, AXIS_CP, 1, 31 * MEAN, BYTES},
        {RUN_TASK, TASK_WEIGHT, (enum axis)0, 1, 60 * MEAN, 0},
    };
    int count = (int)(sizeof WANTED / sizeof *WANTED) - !has_weights;
    assert_int_equal(result->kind_count, count);
    for (int i = 0; i < count; i++) {
        const struct run_kind *kind = kind_of(result, &WANTED[i]);
        assert_true(is_near(kind->count, 2 * WANTED[i].count));
        assert_true(is_near(kind->measured_s, 2e-3 * WANTED[i].ms));
        assert_true(is_near(kind->bytes, 2 * WANTED[i].bytes));
    }
}

// Over the two steps in which weights changed. Operators that may be replayed move what they did in
// the first of them.
static void check_tasks(const struct run_result *result)
{
    assert_int_equal(result->task_count, NUMBERS);
    const struct run_task *tasks = result->tasks;
    const struct run_task *reduce = &tasks[NUMBERS - 1 - REDUCE];
    assert_true(is_near(reduce->count, 2) && is_near(reduce->bytes, 2 * 2.5));
    assert_true(is_near(reduce->s, 2e-3 * 3 * 0.75));
    const struct run_task *linear = &tasks[NUMBERS - 1 - LINEAR];
    assert_true(is_near(linear->count, 4) && is_near(linear->bytes, 2 * 2));
    assert_true(is_near(linear->s, 2e-3 * 11 * 2));
    const struct run_task *loss = &tasks[NUMBERS - 1 - LOSS];
    assert_true(is_near(loss->count, 2) && is_near(loss->bytes, 2 * 2.5));
    assert_true(is_near(loss->s, 2e-3));
    // The first task in the second step, and the norm in both: three times timed, four run.
    const struct run_task *both = &tasks[NUMBERS - 1];
    assert_true(is_near(both->count, 4) && is_near(both->bytes, 2 * 4.5));
    assert_true(is_near(both->s, 1e-3 * (2 + 37 * 1.5) / 3 * 4));
    assert_true(tasks[0].count == 0 && tasks[0].bytes == 0 && tasks[0].s == 0);
}

struct wanted_span {
    int rank;
    enum stream stream;
    struct task_id id;
    double start_ms, end_ms;
};

// The third step was the fastest: halves. The other rank began 900 ns before.
static void check_trace(const struct run_result *result, const struct program *program,
                        enum task_kind weights, int64_t shift_ns)
{
    const struct wanted_span MINE[] = {
        {1, STREAM_COMPUTE, {TASK_FORWARD, 1, 3}, 0, 8},
        {1, STREAM_TP, {TASK_FORWARD, 1, 3}, 1, 2.5},
        {1, STREAM_D2H, {TASK_FORWARD, 1, 3}, 2.5, 6},
        {1, STREAM_PP, {TASK_SEND, 1, 6}, 8.5, 15},
        {1, STREAM_COMPUTE, {TASK_BACKWARD, 1, 3}, 10, 40},
        {1, STREAM_COMPUTE, {TASK_WEIGHT, 1, 3}, 10.5, 19},
        {1, STREAM_COMPUTE, {TASK_UPDATE, 0, 0}, 19, 28.5},
        {1, STREAM_COMPUTE, {(int)weights, 1, 3}, 40, 70},
        {1, STREAM_CP, {TASK_WEIGHT, 1, 3}, 54.5, 70},
        {1, STREAM_DP, {TASK_NORM, 0, 0}, 70.5, 89},
    };
    enum { OWN = sizeof MINE / sizeof *MINE };
    // At one moment by rank, then by stream, then by their ends; below 0: the other rank's.
    static const int ORDERS[2][OWN + 5] = {{-5, -4, -3, 0, 1, 2, -2, -1, 3, 4, 5, 6, 7, 8, 9},
                                           {0, -5, -4, -3, 1, 2, 3, -2, -1, 4, 5, 6, 7, 8, 9}};
    const int *order = ORDERS[shift_ns == 0];
    const struct trace *trace = &result->trace;
    assert_int_equal(trace->rank_count, RANKS);
    assert_int_equal(trace->span_count, OWN + 5);
    for (int i = 0; i < OWN + 5; i++) {
        const struct span *span = &trace->spans[i];
        if (order[i] >= 0) {
            const struct wanted_span *wanted = &MINE[order[i]];
            assert_int_equal(span->rank, 1);
            assert_int_equal(span->stream, wanted->stream);
            assert_int_equal(span->task, task_number(&program->shape, &wanted->id));
            assert_int_equal(span->start_ns, shift_ns + (int64_t)(1e6 * wanted->start_ms));
            assert_int_equal(span->end_ns, shift_ns + (int64_t)(1e6 * wanted->end_ms));
            continue;
        }
        int which = -1 - order[i];
        assert_int_equal(span->rank, 0);
        assert_int_equal(span->task, SAID[which][0]);
        assert_int_equal(span->stream, SAID[which][1]);
        assert_int_equal(span->start_ns, SAID[which][2]);
        assert_int_equal(span->end_ns, SAID[which][3]);
    }
}

static void check_steps(struct arena *arena, enum schedule_kind schedule, int64_t apart,
                        int64_t shift_ns)
{
    struct measure_bench bench;
    struct run_result result = {0};
    struct engine *engine = open(arena, &bench, schedule);
    bool has_weights = schedule != SCHEDULE_1F1B;
    take_steps(engine);
    apart_ns = apart;
    assert_true(measure_finish(engine, &result));
    check_kinds(&result, has_weights);
    check_tasks(&result);
    check_trace(&result, &bench.program, has_weights ? TASK_WEIGHT : TASK_BACKWARD, shift_ns);
    // Traffic and moves of the steps that count: 100, 200 and 300 bytes, 1, 2 and 3 ms.
    assert_int_equal(result.traffic_bytes[RANKS], 200);
    assert_true(is_near(result.moved_s, 2e-3));
    int used = made_count;
    measure_close(engine);
    streams_close(engine);
    assert_int_equal(given_count, used);
}

static void steps_are_measured_as_by_hand(void **state)
{
    check_steps(*state, SCHEDULE_1F1B, 900, 900);
}

// Clocks that are as far apart as the step of 0.1 s is long are not those of one host. Weights have
// slots of their own.
static void clocks_of_other_hosts_are_not_compared(void **state)
{
    check_steps(*state, SCHEDULE_ZB_H1, 100000000, 0);
}

static const char *cut_off(struct group *group, double *values, int count)
{
    (void)group;
    (void)values;
    (void)count;
    return "cut off";
}

static int fault_at;
static const char *gather_to_fault(struct group *group, const int64_t *mine, int64_t *all,
                                   int count)
{
    return asked == fault_at ? "cut off" : host_gather(group, mine, all, count);
}

static void a_question_that_fails_ends_the_measurement(void **state)
{
    for (fault_at = -1; fault_at <= TRAFFIC_ASKED + 1; fault_at++) {
        struct measure_bench bench;
        struct run_result result = {0};
        struct engine *engine = open(*state, &bench, SCHEDULE_1F1B);
        take_steps(engine);
        bench.transport.host_gather = gather_to_fault;
        if (fault_at < 0) bench.transport.host_sum = cut_off;
        assert_int_equal(measure_finish(engine, &result), fault_at > TRAFFIC_ASKED);
        assert_int_equal(bench.err.kind, fault_at > TRAFFIC_ASKED ? ERR_NONE : ERR_SYSTEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_measured_as_by_hand),
        cmocka_unit_test(a_question_that_fails_ends_the_measurement),
        cmocka_unit_test(clocks_of_other_hosts_are_not_compared),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
