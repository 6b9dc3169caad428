#include "tests/support/exchange_bench.h"

// Operators in a row that are recorded and replayed as one: which, when, and what happens where
// they cannot be recorded, or have to be again. Five slices of 2 by 7 numbers, three in one slot
// and two in the next, on the stream of compute.

enum { TASKS = 5, SLOT = 3 };

struct event {
    int number;
};
struct capture {
    int number, boxes;
};

static struct event events[64];
static struct capture captures[16];
static int event_count, capture_count, freed, recording, box_count, replays, begun;
static int stale_left;  // replays that find that memory has moved
static const char *begin_fault, *end_fault;

static struct event *event_new(struct device *device)
{
    (void)device;
    return &events[event_count++];
}

static void event_free(struct device *device, struct event *event)
{
    (void)device, (void)event;
}

static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    (void)device, (void)stream, (void)event;
    assert_int_equal(recording, 0);
    return NULL;
}

static const char *event_wait(struct device *device, enum stream stream, struct event *event)
{
    (void)device, (void)stream, (void)event;
    return NULL;
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device, (void)stream;
    return NULL;
}

static const char *box(struct device *device, enum stream stream, const struct box_copy *of)
{
    (void)device, (void)of;
    assert_int_equal(stream, STREAM_COMPUTE);
    box_count++;
    return NULL;
}

static const char *capture_begin(struct device *device, enum stream stream)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    begun++;
    if (begin_fault) return begin_fault;
    recording = 1;
    box_count = 0;
    return NULL;
}

static const char *capture_end(struct device *device, enum stream stream, struct capture **capture)
{
    (void)device, (void)stream;
    recording = 0;
    captures[capture_count] = (struct capture){capture_count, box_count};
    *capture = &captures[capture_count++];
    return end_fault;
}

static const char *replay(struct device *device, enum stream stream, struct capture *capture,
                          bool *is_stale)
{
    (void)device, (void)stream;
    assert_int_equal(recording, 0);
    *is_stale = stale_left > 0;
    if (*is_stale)
        stale_left--;
    else
        replays += capture->boxes;
    return NULL;
}

static void capture_free(struct device *device, struct capture *capture)
{
    (void)device, (void)capture;
    freed++;
}

static const char *allocate(struct device *device, int64_t bytes, void **memory)
{
    static double room[32];
    (void)device;
    assert_in_range(bytes, 1, sizeof room);
    *memory = room;
    return NULL;
}

static void release(struct device *device, void *memory)
{
    (void)device, (void)memory;
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    assert_true(stream == STREAM_COMPUTE && kind == COPY_FROM_HOST);
    memcpy(to, from, (size_t)bytes);
    return NULL;
}

struct segments_case {
    struct exchange_bench bench;
    struct script_task tasks[TASKS];
    struct prepared prepared[TASKS];
    struct op ops[2];
};

static struct engine *open_case(struct arena *arena, struct segments_case *of)
{
    struct engine *engine = exchange_open(arena, &of->bench, 2, 7);
    struct rank_bench *rank = &of->bench.rank;
    of->bench.instr.collective = COLLECTIVE_SLICE;
    of->bench.buffers[1].layout.of[0] = DIM_WIDTH;
    of->bench.task.stream = STREAM_COMPUTE;
    // In front of the block's operators stands what nobody may look at.
    of->ops[0] = (struct op){.forward_op = 1 << 30};
    of->ops[1] = (struct op){.name = "one"};
    of->bench.block.ops = &of->ops[1];
    of->bench.block.op_count = 1;
    for (int t = 0; t < TASKS; t++) {
        of->tasks[t] = of->bench.task;
        of->tasks[t].slot = t >= SLOT;
        of->prepared[t] = (struct prepared){.owner = -1, .source = -1, .rows = -1};
    }
    rank->script.tasks = of->tasks;
    rank->script.task_count = TASKS;
    engine->prepared = of->prepared;
    rank->options.steps = 20;
    rank->backend = (struct backend){.is_asynchronous = true,
                                     .box = box,
                                     .copy = copy,
                                     .allocate = allocate,
                                     .release = release,
                                     .synchronize = synchronize,
                                     .event_new = event_new,
                                     .event_free = event_free,
                                     .event_record = event_record,
                                     .event_wait = event_wait,
                                     .capture_begin = capture_begin,
                                     .capture_end = capture_end,
                                     .replay = replay,
                                     .capture_free = capture_free};
    event_count = capture_count = freed = recording = box_count = replays = begun = stale_left = 0;
    begin_fault = end_fault = NULL;
    assert_true(streams_open(engine) && measure_open(engine) && segments_open(engine));
    return engine;
}

// What is run of a step as segments: tasks from the first on; 0: by themselves.
static void check_step(struct engine *engine, int step, int first, int second)
{
    engine->step = step;
    assert_true(segments_start(engine));
    assert_int_equal(segments_run(engine, 0), first);
    assert_int_equal(segments_run(engine, 1), 0);
    assert_int_equal(segments_run(engine, SLOT), second);
}

// The first two steps run everything by itself; then each slot is recorded once.
static void slots_are_recorded_once_and_replayed(void **state)
{
    struct segments_case of;
    struct engine *engine = open_case(*state, &of);
    check_step(engine, 0, 0, 0);
    check_step(engine, 1, 0, 0);
    assert_true(begun == 0 && box_count == 0 && segments_replayed(engine) == 0);
    check_step(engine, 2, SLOT, TASKS - SLOT);
    assert_true(begun == 2 && replays == TASKS);
    check_step(engine, 3, SLOT, TASKS - SLOT);
    assert_true(begun == 2 && replays == 2 * TASKS);
    assert_int_equal(segments_replayed(engine), 4);
    segments_close(engine);
    assert_int_equal(freed, 2);
}

static void what_moved_is_recorded_again(void **state)
{
    struct segments_case of;
    struct engine *engine = open_case(*state, &of);
    stale_left = 1;
    check_step(engine, 2, SLOT, TASKS - SLOT);
    assert_true(begun == 3 && freed == 1 && replays == TASKS);
    assert_int_equal(segments_replayed(engine), 2);
    // Twice in one step: it runs by itself then.
    stale_left = 2;
    box_count = 0;
    check_step(engine, 3, SLOT, TASKS - SLOT);
    assert_true(freed == 3 && segments_replayed(engine) == 3);
    assert_true(of.bench.rank.err.kind == ERR_NONE);
}

// A back end that cannot record a segment is not asked again, and no fault is left of it.
static void what_cannot_be_recorded_runs_by_itself(void **state)
{
    for (int at_end = 0; at_end < 2; at_end++) {
        struct segments_case of;
        struct engine *engine = open_case(*state, &of);
        if (at_end)
            end_fault = "no";
        else
            begin_fault = "no";
        check_step(engine, 2, SLOT, TASKS - SLOT);
        assert_int_equal(begun, 2);
        check_step(engine, 3, SLOT, TASKS - SLOT);
        assert_true(begun == 2 && replays == 0 && segments_replayed(engine) == 0);
        assert_int_equal(freed, at_end ? 2 : 0);
        assert_int_equal(of.bench.rank.err.kind, ERR_NONE);
    }
}

// The segments that are run of a step: first task and how many, as digits; 0: no more.
static int run_all(struct engine *engine)
{
    int found = 0;
    engine->step = 2;
    assert_true(segments_start(engine));
    for (int t = 0; t < TASKS;) {
        int count = segments_run(engine, t);
        assert_in_range(count, 0, TASKS);
        if (count > 0) found = 100 * found + 10 * t + count;
        t += count > 0 ? count : 1;
    }
    return found;
}

// What waits for another stream begins anew, what works on one is in none, and one task alone is
// none.
static void segments_end_where_others_wait(void **state)
{
    static const struct {
        int waits, other, found;
    } CASES[] = {{-1, -1, 332}, {1, -1, 1232}, {2, -1, 232}, {4, -1, 3},
                 {-1, 0, 1232}, {-1, 1, 32},   {-1, 2, 232}, {-1, 4, 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct segments_case of;
        struct engine *engine = open_case(*state, &of);
        static int waited[] = {0};
        int waits = CASES[i].waits, other = CASES[i].other;
        if (waits >= 0) {
            of.tasks[waits].waits = waited;
            of.tasks[waits].wait_count = 1;
        }
        if (other >= 0) of.tasks[other].stream = STREAM_TP;
        assert_true(segments_open(engine));
        assert_int_equal(run_all(engine), CASES[i].found);
    }
    struct segments_case of;
    struct engine *engine = open_case(*state, &of);
    of.bench.rank.options.launches_each = true;
    assert_true(segments_open(engine));
    assert_int_equal(run_all(engine), 0);
    of.bench.rank.options.launches_each = false;
    of.bench.rank.options.poison = true;
    assert_true(segments_open(engine));
    assert_int_equal(run_all(engine), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_recorded_once_and_replayed),
        cmocka_unit_test(what_moved_is_recorded_again),
        cmocka_unit_test(what_cannot_be_recorded_runs_by_itself),
        cmocka_unit_test(segments_end_where_others_wait),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
