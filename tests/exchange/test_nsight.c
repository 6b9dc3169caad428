// Databases as Nsight Systems exports them, made here by the schema that its documentation gives
// and by the library of SQLite itself. Where the system has none, nothing is tried.
#include "exchange/compare_plan.h"
#include "exchange/trace_nsight.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char SCHEMA[] =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,"
    " gridX INTEGER NOT NULL DEFAULT 1);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,"
    " correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT"
    " NULL, returnValue INTEGER NOT NULL);"
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,"
    " rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,"
    " endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);"
    "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.11.0');"
    "INSERT INTO StringIds VALUES (1, "
    "'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64'),"
    " (2, 'void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)'),"
    " (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm *, unsigned long, ncclWork *)'),"
    " (4, 'sm90_xmma_gemm'), (5, 'iteration 7'), (6, 'cudaLaunchKernel'), (7, 'aten::mm');";

static void assert_near(double found, double wanted, double most)
{
    if (!(fabs(found - wanted) <= most)) fail_msg("%.17g is not %.17g", found, wanted);
}

static int (*database_exec)(void *, const char *, void *, void *, char **);
static int (*connection_open)(const char *, void **);
static int (*connection_close)(void *);

static bool has_library(void)
{
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
    if (!library) return false;
    *(void **)&database_exec = dlsym(library, "sqlite3_exec");
    *(void **)&connection_open = dlsym(library, "sqlite3_open");
    *(void **)&connection_close = dlsym(library, "sqlite3_close");
    return database_exec && connection_open && connection_close;
}

static const char *database_of(struct arena *arena, const char *schema, const char *rows)
{
    const char *path = arena_print(arena, "/tmp/meshwright-%d.sqlite", (int)getpid());
    void *connection = NULL;
    char *message = NULL;
    unlink(path);
    assert_int_equal(connection_open(path, &connection), 0);
    const char *sql = arena_print(arena, "BEGIN; %s %s; COMMIT", schema, rows);
    int result = database_exec(connection, sql, NULL, NULL, &message);
    if (message) fprintf(stderr, "# %s\n", message);
    assert_int_equal(result, 0);
    connection_close(connection);
    return path;
}

// A serialized process, as globalPid and as the globalTid of its thread 3.
#define PROCESS(number) "(" #number " << 24)"
#define THREAD(number) "((" #number " << 24) | 3)"

#define STEP(process, from, to, text, id)                                                     \
    "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, textId) VALUES (" #from \
    ", " #to ", 59, " THREAD(process) ", " text ", " id ");"
#define LAUNCH(process, number, at)                                 \
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" #at ", " #at \
    " + 5, 0, " THREAD(process) ", " #number ", 6, 0);"
#define KERNEL(process, device, stream, number, from, to, name)                          \
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" #from ", " #to ", " #device ", 1," \
    " NULL, " #stream ", " #number ", " PROCESS(process) ", " #name ", 4, NULL, 1);"

// Two ranks of two steps of 1000 ns. Of rank 11 a kernel that runs when its step is over counts to
// it; one that was launched before the first step does not count, and the range that lies in a step
// is no step. Numbers of launches are the process's own.
static const char ROWS[] = STEP(11, 1000, 2000, "'iteration 6'", "NULL")
    STEP(11, 2000, 3200, "NULL", "5") STEP(11, 1100, 1200, "'step'", "NULL") STEP(
        11, 1300, 1400, "'optimizer_step'", "NULL") STEP(12, 1010, 2010, "'iteration 6'", "NULL")
        STEP(12, 2010, 3010, "NULL",
             "5") "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text) VALUES "
                  "(900, NULL, 34, 0,"
                  " 'step');" LAUNCH(11, 1, 900) LAUNCH(11, 2, 1100) LAUNCH(11, 3, 1900) LAUNCH(
                      11, 4, 2100) LAUNCH(12, 1, 1100) LAUNCH(12, 2, 2100) LAUNCH(11, 9, 2200)
                      KERNEL(11, 0, 7, 1, 950, 1090, 1) KERNEL(11, 0, 7, 2, 1110, 1510, 1)
                          KERNEL(11, 0, 7, 3, 1950, 2150, 2) KERNEL(11, 0, 20, 4, 2200, 2900, 3)
                              KERNEL(12, 1, 7, 1, 1110, 1410, 1)
                                  KERNEL(12, 1, 20, 2, 2150, 2950,
                                         3) "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES "
                                            "(2300, 2340, 0, 1, 7, 9, " PROCESS(11) ", 4096,"
                                                                                    " 1);";

static const struct side_task *task_of(const struct side_file *file, const char *name)
{
    for (int i = 0; i < file->task_count; i++)
        if (strcmp(file->tasks[i].name, name) == 0) return &file->tasks[i];
    return NULL;
}

static void assert_task(const struct side_file *file, const char *name, double count, double s)
{
    const struct side_task *task = task_of(file, name);
    assert_non_null(task);
    assert_near(task->count, count, 1e-12);
    assert_near(task->s, s, 1e-15);
}

static void work_counts_to_the_step_that_launched_it(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *path = database_of(arena, SCHEMA, ROWS);
    struct side_file file;
    enum side_kind kind;
    assert_true(side_kind_of(arena, path, &kind, &err));
    assert_int_equal(kind, SIDE_TRACE);
    assert_true(side_read_kinds(arena, path, 0, &file, &err));
    assert_int_equal(file.step_count, 4);
    const struct samples steps = {file.step_s, file.step_count};
    assert_near(samples_median(arena, steps), 1e-6, 1e-15);
    // Of 4 steps: 400 and 300 ns of products, 200 of attention, 700 and 800 of exchanges, a copy.
    assert_int_equal(file.task_count, 4);
    assert_task(&file, "matmul", 2 / 4., 700e-9 / 4);
    assert_task(&file, "attention", 1 / 4., 200e-9 / 4);
    assert_task(&file, "all-reduce", 2 / 4., 1500e-9 / 4);
    assert_task(&file, "copy", 1 / 4., 40e-9 / 4);
    assert_near(task_of(&file, "copy")->bytes, 1024, 1e-9);
    // By name, as two profiles are compared.
    assert_true(side_read(arena, path, 0, &file, &err));
    assert_task(&file, "memcpy", 1 / 4., 40e-9 / 4);
    unlink(path);
}

static void each_device_of_a_process_is_a_rank(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *path = database_of(arena, SCHEMA,
                                   STEP(1, 0, 500, "'step'", "NULL") KERNEL(1, 0, 7, 1, 10, 110, 1)
                                       KERNEL(1, 1, 7, 2, 10, 310, 1));
    struct side_file file;
    assert_true(side_read_kinds(arena, path, 0, &file, &err));
    assert_int_equal(file.step_count, 2);
    assert_task(&file, "matmul", 1, 200e-9);
    unlink(path);
}

static void told_how_many_steps_there_are_all_work_counts(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *path = database_of(arena, SCHEMA, ROWS);
    struct side_file file;
    assert_true(side_read_kinds(arena, path, 5, &file, &err));
    assert_int_equal(file.step_count, 1);
    assert_near(file.step_s[0], 2000e-9 / 5, 1e-15);
    assert_task(&file, "matmul", 3 / 10., 840e-9 / 10);
    unlink(path);
}

static void graphs_that_hide_their_kernels_are_named(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *path = database_of(
        arena,
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, graphId "
        "INT, streamId INT, correlationId INT, globalPid INT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, globalTid INT, textId INT);",
        "INSERT INTO NVTX_EVENTS VALUES (0, 100, 'train_step', " THREAD(
            1) ", NULL);"
               "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (20, 90, 0, 1, 7, 1, " PROCESS(
                   1) ");");
    struct side_file file;
    assert_true(side_read_kinds(arena, path, 0, &file, &err));
    assert_int_equal(file.task_count, 1);
    assert_task(&file, "CUDA graph", 1, 70e-9);
    unlink(path);
}

static void what_a_range_is_called_tells_the_steps(void **state)
{
    static const struct {
        const char *name;
        bool is_step;
    } CASES[] = {
        {"step", true},
        {"Step 12", true},
        {"ITERATION#3", true},
        {"iter_00012", true},
        {"batch 4", true},
        {"training_step", true},
        {"train step 3", true},
        {"global_step=9", true},
        {"ProfilerStep#2", true},
        {"iteration[5]", true},
        {"optimizer_step", false},
        {"stepper", false},
        {"step 3 forward", false},
        {"batch_norm", false},
        {"", false},
        {"train", false},
        {"iterations", false},
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct side_file file;
        const char *rows = arena_print(
            arena,
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text) VALUES (0, 100, 59, "
            "0, '%s');" KERNEL(0, 0, 7, 1, 10, 20, 1),
            CASES[i].name);
        const char *path = database_of(arena, SCHEMA, rows);
        bool done = side_read_kinds(arena, path, 0, &file, &err);
        unlink(path);
        if (done != CASES[i].is_step) fprintf(stderr, "# \"%s\": %s\n", CASES[i].name, err.text);
        assert_int_equal(done, CASES[i].is_step);
    }
}

static void what_is_missing_is_said(void **state)
{
    static const struct {
        const char *schema, *rows, *wanted;
    } CASES[] = {
        {"CREATE TABLE other (id INT);", "",
         "no export of Nsight Systems: missing table StringIds"},
        {SCHEMA, KERNEL(1, 0, 7, 1, 10, 20, 1),
         "no NVTX range is called step, iteration or batch: say how many steps the profile holds "
         "by "
         "--trace-steps"},
        {SCHEMA, STEP(1, 50, 60, "'step'", "NULL") KERNEL(1, 0, 7, 1, 10, 20, 1),
         "the profile holds no work of a device that its steps launched"},
        {SCHEMA, "DROP TABLE NVTX_EVENTS; CREATE TABLE NVTX_EVENTS (start INT, end INT); SELECT 1",
         "no such column: n.globalTid"},
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct side_file file;
        const char *path = database_of(arena, CASES[i].schema, CASES[i].rows);
        assert_false(side_read_kinds(arena, path, 0, &file, &err));
        unlink(path);
        assert_int_equal(err.kind, ERR_INPUT);
        assert_string_equal(err.text, arena_print(arena, "%s: %s", path, CASES[i].wanted));
    }
}

// A whole database of drawn kernels beside the sums that were drawn.
static void sums_are_those_of_what_was_drawn(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("profiles", 5);
    for (int round = 0; round < 20; round++) {
        struct err err = {0};
        char *rows = arena_copy(arena, "");
        double matmul_ns = 0, exchange_ns = 0;
        int steps = draw_int(&draw, 1, 4), kernels = draw_int(&draw, 1, 30);
        for (int i = 0; i < steps; i++)
            rows = arena_print(arena,
                               "%sINSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text) "
                               "VALUES (%d, %d, 60, " THREAD(5) ", 'batch %d');",
                               rows, i * 10000, i * 10000 + 9000, i);
        for (int i = 0; i < kernels; i++) {
            int launch = draw_int(&draw, 0, steps * 10000 - 1), length = draw_int(&draw, 20, 400);
            bool is_matmul = draw_int(&draw, 0, 1), counts = launch % 10000 < 9000;
            rows = arena_print(
                arena,
                "%s INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%d, %d, 0, " THREAD(
                    5) ", %d, 6, 0); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%d, %d, 0, 1, "
                       "NULL, %d, %d, " PROCESS(5) ", %d, 4, NULL, 1);",
                rows, launch, launch + 3, i, launch + 700 * i, launch + 700 * i + length, i, i,
                is_matmul ? 1 : 3);
            if (counts) *(is_matmul ? &matmul_ns : &exchange_ns) += length;
        }
        struct side_file file;
        const char *path = database_of(arena, SCHEMA, rows);
        bool done = side_read_kinds(arena, path, 0, &file, &err);
        unlink(path);
        assert_int_equal(done, matmul_ns + exchange_ns > 0);
        if (!done) continue;
        assert_int_equal(file.step_count, steps);
        const struct side_task *matmul = task_of(&file, "matmul");
        const struct side_task *exchange = task_of(&file, "all-reduce");
        assert_near(matmul ? matmul->s : 0, matmul_ns * 1e-9 / steps, 1e-15);
        assert_near(exchange ? exchange->s : 0, exchange_ns * 1e-9 / steps, 1e-15);
    }
}

// Runs the command; what it prints stands in `text`.
static int answer_of(const char *command, char *text, size_t bytes)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(text, 1, bytes - 1, pipe);
    text[length] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_command_sets_a_profile_beside_a_plan(void **state)
{
    struct arena *arena = *state;
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    // Builds for other purposes have no binary.
    if (access(arena_print(arena, "%s/meshwright", build), X_OK) != 0) return;
    const char *path = database_of(arena, SCHEMA, ROWS),
               *folder = arena_copy(arena, "/tmp/mwXXXXXX");
    assert_non_null(mkdtemp((char *)folder));
    char text[8192];
    const char *plan = arena_print(
        arena,
        "%s/meshwright plan gpt2 dgx-a100-80g --seq-len 512 --global-batch 16 --tp 1 --pp 1 "
        "--micro-batch 2 --zero 1 --recompute none -o %s/plan.json 2>&1",
        build, folder);
    assert_int_equal(answer_of(plan, text, sizeof text), 0);
    const char *compare =
        arena_print(arena, "%s/meshwright compare %s/plan.json %s 2>&1", build, folder, path);
    assert_int_equal(answer_of(compare, text, sizeof text), 0);
    assert_non_null(strstr(text, "profile, 4 steps"));
    assert_non_null(strstr(text, "\nattention "));
    // A library that does not open is as none.
    const char *without = arena_print(
        arena,
        "cd %s && : >libsqlite3.so.0 && LD_LIBRARY_PATH=%s $OLDPWD/%s/meshwright compare "
        "plan.json %s 2>&1",
        folder, folder, build, path);
    assert_int_equal(answer_of(without, text, sizeof text), 4);
    assert_string_equal(text, arena_print(arena,
                                          "meshwright compare: %s: a database, which needs the "
                                          "library of SQLite (libsqlite3.so.0, Debian: "
                                          "libsqlite3-0)\n",
                                          path));
    unlink(path);
    assert_int_equal(answer_of(arena_print(arena, "rm -r %s", folder), text, sizeof text), 0);
}

int main(void)
{
    if (!has_library()) {
        puts("1..0 # SKIP no library of SQLite");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_counts_to_the_step_that_launched_it),
        cmocka_unit_test(each_device_of_a_process_is_a_rank),
        cmocka_unit_test(told_how_many_steps_there_are_all_work_counts),
        cmocka_unit_test(graphs_that_hide_their_kernels_are_named),
        cmocka_unit_test(what_a_range_is_called_tells_the_steps),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(sums_are_those_of_what_was_drawn),
        cmocka_unit_test(the_command_sets_a_profile_beside_a_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
