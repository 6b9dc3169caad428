#include "tests/support/rank_bench.h"

#include <math.h>

// Which values of the arena die where, and what is found of memory that holds nothing: on scripts
// of a few tasks, worked by hand.

enum { GUARD = 4096, GUARD_BYTE = 0xA5, TASKS_MOST = 16 };

// Buffers of the block: scratch, a plain value, packed rows, a plain one of reals, one in 8 bits,
// one of which rows are missing, ids.
enum { SCRATCH, PLAIN, PACKED, REALS, CAST, RAGGED, IDS, BUFFERS };
enum { DENSE_TENSOR, REAL_TENSOR, RAGGED_TENSOR, IDS_TENSOR };
static const struct tensor TENSORS[] = {[DENSE_TENSOR] = {.element = ELEMENT_COMPUTE},
                                        [REAL_TENSOR] = {.element = ELEMENT_FP32},
                                        [RAGGED_TENSOR] = {.element = ELEMENT_FP32, .density = 0.5},
                                        [IDS_TENSOR] = {.element = ELEMENT_INT64}};

static struct op ops[4] = {{.name = "one"}, {.name = "two"}, {.name = "three"}, {.name = "four"}};

struct poison_bench {
    struct rank_bench of;
    struct buffer buffers[BUFFERS];
    struct instr instrs[4];
    struct block block;
    struct block_program block_program;
    struct block_program *blocks[1];
    struct script_task tasks[TASKS_MOST];
    struct prepared prepared[TASKS_MOST];
};

static struct engine *open(struct arena *arena, struct poison_bench *bench, int task_count)
{
    *bench = (struct poison_bench){.buffers = {[SCRATCH] = {.tensor = -1},
                                               [PLAIN] = {.tensor = DENSE_TENSOR},
                                               [PACKED] = {.tensor = DENSE_TENSOR, .packed = true},
                                               [REALS] = {.tensor = REAL_TENSOR},
                                               [CAST] = {.tensor = DENSE_TENSOR, .cast = true},
                                               [RAGGED] = {.tensor = RAGGED_TENSOR},
                                               [IDS] = {.tensor = IDS_TENSOR}},
                                   .block = {.tensors = (struct tensor *)(uintptr_t)TENSORS,
                                             .tensor_count = 4,
                                             .ops = ops,
                                             .op_count = 4,
                                             .name = "layer"}};
    struct engine *engine = rank_bench_open(arena, &bench->of, 0, 1);
    bench->block_program = (struct block_program){.block = &bench->block,
                                                  .buffers = bench->buffers,
                                                  .buffer_count = BUFFERS,
                                                  .instrs = bench->instrs,
                                                  .instr_count = 4};
    bench->blocks[0] = &bench->block_program;
    bench->of.program.blocks = (void *)bench->blocks;
    bench->of.program.parallel.micro_batch = 1;
    bench->of.program.parallel.degree[AXIS_DP] = 1;
    bench->of.script.program = &bench->of.program;
    bench->of.script.tasks = bench->tasks;
    bench->of.script.task_count = task_count;
    for (int t = 0; t < TASKS_MOST; t++) {
        bench->prepared[t] = (struct prepared){.owner = -1, .source = -1, .rows = -1};
        bench->tasks[t].kind = TASK_INSTR;
    }
    engine->prepared = bench->prepared;
    engine->widen = 1;
    return engine;
}

static struct script_operand *operand_of(struct arena *arena, int64_t offset, int64_t bytes,
                                         int buffer)
{
    struct script_operand *operand = ARENA_NEW(arena, struct script_operand, 1);
    *operand = (struct script_operand){
        .place = PLACE_ARENA, .offset = offset, .bytes = bytes, .buffer = buffer};
    return operand;
}

static void reads(struct arena *arena, struct script_task *task, int64_t offset, int64_t bytes)
{
    task->inputs = operand_of(arena, offset, bytes, PLAIN);
    task->input_count = 1;
}

static void writes(struct arena *arena, struct script_task *task, int64_t offset, int64_t bytes,
                   int buffer)
{
    task->outputs = operand_of(arena, offset, bytes, buffer);
    task->output_count = 1;
}

static void check_ends(const struct engine *engine, const struct value_end *wanted, int count)
{
    assert_int_equal(engine->end_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(engine->ends[i].first, wanted[i].first);
        assert_int_equal(engine->ends[i].task, wanted[i].task);
        assert_int_equal(engine->ends[i].offset, wanted[i].offset);
        assert_int_equal(engine->ends[i].bytes, wanted[i].bytes);
    }
}

static void values_die_behind_who_touches_them_last(void **state)
{
    struct arena *arena = *state;
    struct poison_bench bench;
    struct engine *engine = open(arena, &bench, 9);
    struct script_task *tasks = bench.tasks;
    writes(arena, &tasks[0], 0, 16, SCRATCH);
    reads(arena, &tasks[1], 0, 16);
    writes(arena, &tasks[1], 16, 8, PLAIN);
    // Over the first, which nobody reads any more; then in place, what it reads itself.
    reads(arena, &tasks[2], 20, 4);
    writes(arena, &tasks[2], 0, 16, PLAIN);
    reads(arena, &tasks[3], 8, 1);
    writes(arena, &tasks[3], 0, 16, PLAIN);
    // Added to a part of the second.
    writes(arena, &tasks[4], 18, 4, PLAIN);
    tasks[4].outputs->adds = true;
    // Over the end of one and the beginning of the other.
    writes(arena, &tasks[5], 12, 8, PLAIN);
    // An exchange inside that goes on with what it wrote.
    bench.prepared[6].owner = 5;
    // Neither the state nor nothing at all is a value; nor are neighbours touched.
    writes(arena, &tasks[7], 12, 8, PLAIN);
    tasks[7].outputs->place = PLACE_WEIGHT;
    reads(arena, &tasks[7], 20, 5);
    writes(arena, &tasks[8], 12, 0, PLAIN);
    reads(arena, &tasks[8], 4, 8);
    poison_prepare(engine);
    check_ends(engine,
               (struct value_end[]){{0, 1, 0, 16}, {2, 3, 0, 16}, {1, 4, 16, 8}, {5, 6, 12, 8}}, 4);
}

// What the owner reads is read as well by an exchange inside it.
static void of_one_task_ends_are_in_the_order_of_addresses(void **state)
{
    struct arena *arena = *state;
    struct poison_bench bench;
    struct engine *engine = open(arena, &bench, 4);
    writes(arena, &bench.tasks[0], 64, 16, PLAIN);
    writes(arena, &bench.tasks[1], 32, 16, PLAIN);
    reads(arena, &bench.tasks[2], 70, 1);
    writes(arena, &bench.tasks[2], 0, 16, PLAIN);
    bench.prepared[3].owner = 2;
    reads(arena, &bench.tasks[3], 40, 1);
    poison_prepare(engine);
    check_ends(engine, (struct value_end[]){{2, 3, 0, 16}, {1, 3, 32, 16}, {0, 3, 64, 16}}, 3);
}

// Rows that come one by one, or one behind another, are one value as long as all is of one block of
// one micro-batch.
static void parts_of_rows_are_one_value(void **state)
{
    static const struct {
        int buffer, other_buffer, chunk, position, micro_batch;
        bool rows, is_seed, is_one;
    } CASES[] = {
        {PACKED, PACKED, 2, 3, 5, false, false, true},
        {PLAIN, PLAIN, 2, 3, 5, false, false, false},
        {PLAIN, PLAIN, 2, 3, 5, true, false, true},
        {PACKED, PLAIN, 2, 3, 5, true, false, false},
        {SCRATCH - 1, SCRATCH - 1, 2, 3, 5, true, false, false},
        {PACKED, PACKED, 1, 3, 5, false, false, false},
        {PACKED, PACKED, 2, 4, 5, false, false, false},
        {PACKED, PACKED, 2, 3, 6, false, false, false},
        {PACKED, PACKED, 2, 3, 5, false, true, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena *arena = *state;
        struct poison_bench bench;
        struct engine *engine = open(arena, &bench, 2);
        bench.instrs[0].rows = CASES[i].rows;
        bench.tasks[0].chunk = 2, bench.tasks[0].position = 3, bench.tasks[0].micro_batch = 5;
        writes(arena, &bench.tasks[0], 32, 32, CASES[i].buffer);
        bench.tasks[1].chunk = CASES[i].chunk;
        bench.tasks[1].position = CASES[i].position;
        bench.tasks[1].micro_batch = CASES[i].micro_batch;
        if (CASES[i].is_seed) bench.tasks[1].kind = TASK_SEED;
        writes(arena, &bench.tasks[1], 48, 16, CASES[i].other_buffer);
        poison_prepare(engine);
        if (CASES[i].is_one)
            check_ends(engine, (struct value_end[]){{0, 1, 32, 32}}, 1);
        else
            check_ends(engine, (struct value_end[]){{0, 0, 32, 32}, {1, 1, 48, 16}}, 2);
    }
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    memset(memory, byte, (size_t)bytes);
    return NULL;
}

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    (void)stream;
    assert_int_equal(kind, COPY_TO_HOST);
    memcpy(to, from, (size_t)bytes);
    return NULL;
}

static const char *settle(struct device *device, enum stream stream)
{
    (void)device;
    (void)stream;
    return NULL;
}

static const char *sum_floats(struct device *device, enum stream stream, const void *reals,
                              int64_t count, double *sum)
{
    (void)device;
    (void)stream;
    const float *values = reals;
    for (int64_t i = 0; i < count; i++)
        *sum += (double)values[i] * (double)values[i];
    return NULL;
}

static char room[GUARD + 64 + GUARD + 1];

static struct engine *open_poisoned(struct arena *arena, struct poison_bench *bench, int task_count)
{
    struct engine *engine = open(arena, bench, task_count);
    bench->of.backend = (struct backend){.fill = fill,
                                         .copy = copy,
                                         .synchronize = settle,
                                         .sum_squares = sum_floats,
                                         .real_bytes = 4,
                                         .compute_bytes = 2,
                                         .compute = PRECISION_BF16};
    bench->of.options.poison = true;
    bench->of.script.arena_bytes = 32;
    engine->real_bytes = 4;
    engine->compute_bytes = 2;
    engine->widen = 2;
    engine->memory = room + GUARD;
    memset(room, 3, sizeof room);
    return engine;
}

static void guards_are_whole_or_told(void **state)
{
    struct poison_bench bench;
    struct engine *engine = open_poisoned(*state, &bench, 1);
    assert_int_equal(poison_guard_bytes(engine), GUARD);
    assert_true(poison_start(engine));
    for (size_t i = 0; i < sizeof room; i++) {
        bool is_inside = i >= GUARD && i < GUARD + 64, is_behind = i + 1 == sizeof room;
        assert_int_equal((unsigned char)room[i], is_behind ? 3 : is_inside ? 0xFF : GUARD_BYTE);
    }
    assert_true(poison_check(engine, 1));
    room[GUARD - 1] = 0;
    assert_false(poison_check(engine, 1));
    assert_string_equal(bench.of.err.text,
                        "something wrote outside the arena, before it: byte 4095 of its guard");
    bench.of.err = (struct err){0};
    assert_true(poison_start(engine));
    room[GUARD + 64] = 0;
    assert_false(poison_check(engine, 1));
    assert_string_equal(bench.of.err.text,
                        "something wrote outside the arena, behind it: byte 0 of its guard");
    bench.of.err = (struct err){0};
    assert_true(poison_start(engine));
    engine->step = 4;
    assert_false(poison_check(engine, NAN));
    assert_non_null(strstr(bench.of.err.text, "rank 0, step 5: loss"));
    bench.of.err = (struct err){0};
    engine->norm = NAN;
    assert_false(poison_check(engine, 1));
    bench.of.options.poison = false;
    assert_true(poison_check(engine, NAN));
    assert_int_equal(poison_guard_bytes(engine), 0);
    memset(room, 3, sizeof room);
    assert_true(poison_start(engine) && room[GUARD] == 3 && room[0] == 3);
}

// A task whose result is NaN; what changes it so that its result may be incomplete.
static void whole_task(struct poison_bench *bench)
{
    (void)bench;
}
static void of_reals(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = REALS;
}
static void no_instruction(struct poison_bench *bench)
{
    bench->tasks[0].kind = TASK_SEED;
}
static void in_a_ring(struct poison_bench *bench)
{
    bench->prepared[0].source = 0;
}
static void first_of_several(struct poison_bench *bench)
{
    bench->prepared[0].joined = 2;
}
static void joined(struct poison_bench *bench)
{
    bench->prepared[0].is_joined = true;
}
static void inside(struct poison_bench *bench)
{
    bench->instrs[0].inner = 1;
}
static void passing(struct poison_bench *bench)
{
    bench->instrs[0].streamed = true;
}
static void by_rows(struct poison_bench *bench)
{
    bench->instrs[0].rows = 1;
}
static void loss(struct poison_bench *bench)
{
    bench->instrs[0].kind = OP_LOSS;
}
static void reduced_loss(struct poison_bench *bench)
{
    bench->instrs[0].kind = OP_LOSS;
    bench->instrs[0].collective = COLLECTIVE_ALL_REDUCE;
}
static void exchanging(struct poison_bench *bench)
{
    bench->instrs[0].op = bench->instrs[1].op = 3;
    bench->instrs[1].inner = 1;
}
static void others_exchange(struct poison_bench *bench)
{
    bench->instrs[0].op = 3;
    bench->instrs[1].inner = 1;
}
static void last_of_the_block(struct poison_bench *bench)
{
    exchanging(bench);
    bench->block_program.instr_count = 1;
}
static void of_a_view(struct poison_bench *bench)
{
    bench->instrs[0].output_views[0] = 1;
}
static void of_no_tensor(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = SCRATCH;
}
static void of_no_buffer(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = -1;
}
static void of_missing_rows(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = RAGGED;
}
static void of_a_cast(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = CAST;
}
static void of_ids(struct poison_bench *bench)
{
    bench->tasks[0].outputs->buffer = IDS;
}
static void of_the_state(struct poison_bench *bench)
{
    bench->tasks[0].outputs->place = PLACE_IDS;
}

static void results_that_are_no_numbers_are_told_where_all_is_there(void **state)
{
    static const struct {
        void (*change)(struct poison_bench *bench);
        bool is_told;
    } CASES[] = {
        {whole_task, true},      {of_reals, true},          {no_instruction, false},
        {in_a_ring, false},      {first_of_several, false}, {joined, false},
        {inside, false},         {passing, false},          {by_rows, false},
        {loss, false},           {reduced_loss, true},      {exchanging, false},
        {others_exchange, true}, {last_of_the_block, true}, {of_a_view, false},
        {of_no_tensor, false},   {of_no_buffer, false},     {of_missing_rows, false},
        {of_a_cast, false},      {of_ids, false},           {of_the_state, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct poison_bench bench;
        struct engine *engine = open_poisoned(*state, &bench, 1);
        writes(*state, &bench.tasks[0], 8, 4, PLAIN);
        CASES[i].change(&bench);
        assert_true(poison_start(engine));
        assert_int_equal(poison_after(engine, 0), !CASES[i].is_told);
        if (CASES[i].is_told)
            assert_non_null(strstr(bench.of.err.text, "its result is no number: it read memory"));
        // A number is one wherever it is.
        memset(room + GUARD, 0, 64);
        bench.of.err = (struct err){0};
        assert_true(poison_after(engine, 0));
    }
}

// Behind the task that touches it last a value is full of what is no number.
static void what_is_dead_is_no_number(void **state)
{
    static struct value_end ends[] = {{0, 1, 2, 3}, {0, 1, 10, 4}, {1, 2, 20, 5}, {1, 2, 30, 1}};
    struct poison_bench bench;
    struct engine *engine = open_poisoned(*state, &bench, 3);
    for (int t = 0; t < 3; t++)
        bench.tasks[t].kind = TASK_SEED;
    engine->ends = ends;
    engine->end_count = 3;
    assert_true(poison_start(engine));
    memset(room + GUARD, 0, 64);
    for (int t = 0; t < 3; t++) {
        assert_true(poison_after(engine, t));
        for (int i = 0; i < 64; i++) {
            int of = i / 2;
            bool is_first = t > 0 && ((of >= 2 && of < 5) || (of >= 10 && of < 14));
            bool is_dead = is_first || (t > 1 && of >= 20 && of < 25);
            assert_int_equal((unsigned char)room[GUARD + i], is_dead ? 0xFF : 0);
        }
    }
    assert_int_equal(engine->next_end, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_die_behind_who_touches_them_last),
        cmocka_unit_test(of_one_task_ends_are_in_the_order_of_addresses),
        cmocka_unit_test(parts_of_rows_are_one_value),
        cmocka_unit_test(guards_are_whole_or_told),
        cmocka_unit_test(results_that_are_no_numbers_are_told_where_all_is_there),
        cmocka_unit_test(what_is_dead_is_no_number),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
