#include "executor/engine/apart.h"
#include "tests/support/rank_bench.h"

#include <math.h>

// Operators that run as one, and where gradients begin to use their room; and what follows from
// places alone: rows of distances and waves, at numbers whose logarithms are known.

enum { FIRST, MARK, SECOND, THIRD, ALONE, TASKS };
static const enum join RULE = JOIN_SUM, OTHER_RULE = JOIN_GROUPED;

struct joins_bench {
    struct rank_bench of;
    struct instr instrs[5];
    struct block block;
    struct block_program block_program;
    struct block_program *blocks[1];
    struct script_task tasks[TASKS];
    struct prepared prepared[TASKS];
};

static const char *run_joined(struct device *device, enum stream stream,
                              const struct kernel_call *calls, int count)
{
    (void)device;
    (void)stream;
    (void)calls;
    (void)count;
    return NULL;
}

// Three in a row of one slot, with a mark between the first two; all wait for something.
static struct engine *open(struct arena *arena, struct joins_bench *bench)
{
    *bench = (struct joins_bench){
        .instrs = {{.joined = 3}, {.join = RULE}, {.join = RULE}, {.join = OTHER_RULE}},
        .tasks = {[FIRST] = {.kind = TASK_INSTR, .instr = 0, .wait_count = 1},
                  [MARK] = {.kind = TASK_ROOM, .instr = 1, .wait_count = 16},
                  [SECOND] = {.kind = TASK_INSTR, .instr = 1, .wait_count = 2},
                  [THIRD] = {.kind = TASK_INSTR, .instr = 2, .wait_count = 4},
                  [ALONE] = {.kind = TASK_INSTR, .instr = 3, .wait_count = 8}}};
    struct engine *engine = rank_bench_open(arena, &bench->of, 0, 1);
    bench->block_program =
        (struct block_program){.block = &bench->block, .instrs = bench->instrs, .instr_count = 4};
    bench->blocks[0] = &bench->block_program;
    bench->of.program.blocks = (void *)bench->blocks;
    bench->of.script.tasks = bench->tasks;
    bench->of.script.task_count = TASKS;
    bench->of.backend.run_joined = run_joined;
    bench->of.backend.joins = 1u << RULE;
    for (int t = 0; t < TASKS; t++) {
        bench->tasks[t].slot = 7;
        bench->tasks[t].chunk = 1;
        bench->tasks[t].position = 3;
        bench->tasks[t].micro_batch = 5;
    }
    engine->prepared = bench->prepared;
    return engine;
}

static void as_it_is(struct joins_bench *bench)
{
    (void)bench;
}
static void no_calls(struct joins_bench *bench)
{
    bench->of.backend.run_joined = NULL;
}
static void apart(struct joins_bench *bench)
{
    bench->of.options.operators_apart = true;
}
static void poisoned(struct joins_bench *bench)
{
    bench->of.options.poison = true;
}
static void merged(struct joins_bench *bench)
{
    bench->of.options.poison = true;
    bench->instrs[1].join = bench->instrs[2].join = JOIN_MERGED;
    bench->of.backend.joins = 1u << JOIN_MERGED;
}
static void no_rule(struct joins_bench *bench)
{
    bench->instrs[2].join = OTHER_RULE;
}
static void others_rule(struct joins_bench *bench)
{
    bench->of.backend.joins = 1u << OTHER_RULE;
}
static void first_of_no_rule(struct joins_bench *bench)
{
    bench->instrs[0].join = OTHER_RULE;
}
static void other_slot(struct joins_bench *bench)
{
    bench->tasks[THIRD].slot = 8;
}
static void other_chunk(struct joins_bench *bench)
{
    bench->tasks[THIRD].chunk = 2;
}
static void other_position(struct joins_bench *bench)
{
    bench->tasks[SECOND].position = 2;
}
static void other_micro_batch(struct joins_bench *bench)
{
    bench->tasks[THIRD].micro_batch = 6;
}
static void in_a_room(struct joins_bench *bench)
{
    bench->prepared[THIRD].enters = 1;
}
static void first_in_a_room(struct joins_bench *bench)
{
    bench->prepared[FIRST].enters = 1;
}
static void no_group(struct joins_bench *bench)
{
    bench->instrs[0].joined = 0;
}

static void operators_run_as_one_where_the_first_stands(void **state)
{
    static const struct {
        void (*change)(struct joins_bench *bench);
        bool joins;
    } CASES[] = {{as_it_is, true},     {no_calls, false},        {apart, false},
                 {poisoned, false},    {merged, true},           {no_rule, false},
                 {others_rule, false}, {first_of_no_rule, true}, {other_slot, false},
                 {other_chunk, false}, {other_position, false},  {other_micro_batch, false},
                 {in_a_room, false},   {first_in_a_room, true},  {no_group, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct joins_bench bench;
        struct engine *engine = open(*state, &bench);
        bool joins = CASES[i].joins;
        CASES[i].change(&bench);
        joins_prepare(engine);
        assert_int_equal(bench.prepared[FIRST].joined, joins ? 3 : 0);
        for (int t = 0; t < TASKS; t++) {
            bool is_joined = joins && (t == SECOND || t == THIRD);
            assert_int_equal(bench.prepared[t].is_joined, is_joined);
            int waits = t == FIRST && joins ? 1 + 2 + 4 : bench.tasks[t].wait_count;
            assert_int_equal(joins_wait_count(engine, t), is_joined ? 0 : waits);
        }
        if (!joins) continue;
        const int members[] = {FIRST, SECOND, THIRD};
        assert_memory_equal(bench.prepared[FIRST].members, members, sizeof members);
    }
}

// Buckets 0 and 2 have rooms, 1 has none. The parameter 3 is stored by 1.
static void gradients_enter_a_room_once(void **state)
{
    struct script_operand of[] = {{.place = PLACE_GRADIENT, .parameter = 0},
                                  {.place = PLACE_GRADIENT, .parameter = 1},
                                  {.place = PLACE_GRADIENT, .parameter = 2},
                                  {.place = PLACE_GRADIENT, .parameter = 3},
                                  {.place = PLACE_WEIGHT, .parameter = 0}};
    struct script_parameter parameters[] = {{.unit = 2, .same_as = -1},
                                            {.unit = 1, .same_as = -1},
                                            {.unit = 0, .same_as = -1},
                                            {.unit = 2, .same_as = 1}};
    struct script_unit units[] = {{.bucket = 0}, {.bucket = 2}, {.bucket = 1}};
    struct script_bucket buckets[] = {{.room = 4}, {.room = -1}, {.room = 0}};
    struct script_task tasks[] = {
        {.outputs = &of[4], .output_count = 1}, {.outputs = &of[0], .output_count = 1},
        {.outputs = &of[3], .output_count = 1}, {.outputs = &of[1], .output_count = 1},
        {.outputs = &of[2], .output_count = 1}, {.outputs = &of[2], .output_count = 1}};
    struct prepared prepared[6] = {{0}};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.script = (struct script){.tasks = tasks,
                                   .task_count = 6,
                                   .parameters = parameters,
                                   .parameter_count = 4,
                                   .units = units,
                                   .unit_count = 3,
                                   .buckets = buckets,
                                   .bucket_count = 3};
    engine->prepared = prepared;
    gradients_prepare(engine);
    const int enters[] = {0, 0, 3, 0, 1, 0};
    for (int t = 0; t < 6; t++)
        assert_int_equal(prepared[t].enters, enters[t]);
}

struct rows_table {
    struct tensor tensors[3];
    struct op ops[2];
    struct block block;
};

static void open_table(struct rows_table *table, int rows, double distance, bool is_one_sided)
{
    *table = (struct rows_table){
        .tensors = {{.rank = 1},
                    {.rank = 2, .extents = {{.size = rows}, {.size = 4}}},
                    {.rank = 1}},
        .ops = {{.kind = OP_GATHER, .inputs = {2, 2}},
                {.kind = OP_GATHER, .inputs = {0, 1}, .scalar = distance, .causal = is_one_sided}}};
    table->block = (struct block){
        .tensors = table->tensors, .tensor_count = 3, .ops = table->ops, .op_count = 2};
}

static void distances_have_rows_of_their_own_or_in_ranges(void **state)
{
    // Ahead of the query, row. From 8 on each doubling is a quarter of 8 rows; from 16 of 16.
    static const int BOTH[][2] = {{0, 0},    {-1, 1},   {-7, 7},    {-8, 8},    {-16, 10},
                                  {-32, 12}, {-64, 14}, {-127, 15}, {-999, 15}, {1, 17},
                                  {7, 23},   {16, 26},  {999, 31}};
    static const int BEHIND[][2] = {{0, 0},    {5, 0},    {-1, 1},    {-15, 15}, {-16, 16},
                                    {-32, 20}, {-64, 24}, {-128, 28}, {-256, 31}};
    // Half of 32 rows ahead, the other way round; from 8 on each doubling is a quarter of 7 more.
    static const int EITHER[][2] = {{0, 16},   {-3, 19},   {-8, 24},   {-16, 26}, {-32, 28},
                                    {-64, 30}, {-128, 31}, {-256, 31}, {3, 13},   {8, 8},
                                    {16, 6},   {128, 1},   {256, 0}};
    static const int PLAIN[][2] = {{-15, 31}, {-16, 31}, {-9, 25}, {15, 1}, {16, 0}, {9, 7}};
    struct rows_table table;
    (void)state;
    open_table(&table, 32, 128, false);
    for (size_t i = 0; i < sizeof BOTH / sizeof *BOTH; i++)
        assert_int_equal(apart_bucket(&table.block, &table.tensors[0], BOTH[i][0]), BOTH[i][1]);
    open_table(&table, 32, 256, true);
    for (size_t i = 0; i < sizeof BEHIND / sizeof *BEHIND; i++)
        assert_int_equal(apart_bucket(&table.block, &table.tensors[0], BEHIND[i][0]), BEHIND[i][1]);
    open_table(&table, 32, 129, false);
    for (size_t i = 0; i < sizeof EITHER / sizeof *EITHER; i++)
        assert_int_equal(apart_distance(&table.block, &table.tensors[0], EITHER[i][0]),
                         EITHER[i][1]);
    open_table(&table, 32, 0, false);
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        assert_int_equal(apart_distance(&table.block, &table.tensors[0], PLAIN[i][0]), PLAIN[i][1]);
}

static void waves_have_their_lengths(void **state)
{
    (void)state;
    for (int pair = 0; pair < 4; pair++) {
        double angle = 3 * pow(10000, -pair / 4.), shifted = 3 * pow(10000, -pair / 3.);
        assert_true(fabs(apart_wave(3, pair, 8, false) - sin(angle)) < 1e-14);
        assert_true(fabs(apart_wave(3, 4 + pair, 8, false) - cos(angle)) < 1e-14);
        assert_true(fabs(apart_wave(3, pair, 8, true) - sin(shifted)) < 1e-14);
        assert_true(fabs(apart_wave(3, 4 + pair, 8, true) - cos(shifted)) < 1e-14);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_run_as_one_where_the_first_stands),
        cmocka_unit_test(gradients_enter_a_room_once),
        cmocka_unit_test(distances_have_rows_of_their_own_or_in_ranges),
        cmocka_unit_test(waves_have_their_lengths),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
