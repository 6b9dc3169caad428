#include "core/file.h"
#include "exchange/log_read.h"
#include "tests/support/test.h"

#include <math.h>
#include <unistd.h>

// The lines in tests/data/logs are those that others published; each file names its source.
static void every_trainer_s_lines_are_read(void **state)
{
    static const struct {
        const char *file, *framework;
        enum log_measure measure;
        int count;
        double first, last, batch, tera_flop_per_s, allocated_gib, reserved_gib;
    } CASES[] = {
        {"megatron", "megatron-lm", LOG_STEP_MS, 2, 5444.9, 5533.8, 128, 236, 0, 0},
        {"megatron_llm", "megatron-lm", LOG_STEP_MS, 2, 86545.2, 87871.6, 1024, 0, 0, 0},
        {"bridge", "megatron-bridge", LOG_STEP_S, 1, 12.78, 12.78, 0, 528.1, 0, 0},
        {"nemo", "nemo", LOG_STEP_S, 2, 27.88, 26.63, 512, 85.8, 53930270720.0 / (1 << 30),
         57466159104.0 / (1 << 30)},
        {"deepspeed_0_7", "deepspeed", LOG_SAMPLES_PER_S, 2, 159.628891629629, 145.0889530760849, 0,
         0, 2.6, 0},
        // One line of each; the first of the table is taken.
        {"deepspeed", "gpt-neox", LOG_STEP_MS, 1, 4103.1, 4103.1, 0, 112.9, 0, 0},
        {"torchtitan", "torchtitan", LOG_TOKENS_PER_S_PER_GPU, 2, 5593, 10050, 0, 314.71, 0, 66.91},
        {"colossalai", "colossalai", LOG_STEP_S, 2, 22.885, 19.714, 0, 0, 0, 0},
        {"nanotron", "nanotron", LOG_STEP_MS, 2, 11500, 11500, 64, 38.3, 0, 0},
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct log_run run;
        const char *path = arena_print(arena, "tests/data/logs/%s.log", CASES[i].file);
        bool done = log_read(arena, path, &run, &err);
        assert_string_equal(err.text, "");
        assert_true(done);
        assert_string_equal(run.framework, CASES[i].framework);
        assert_int_equal(run.measure, CASES[i].measure);
        assert_int_equal(run.count, CASES[i].count);
        const double found[] = {run.values[0],
                                run.values[run.count - 1],
                                run.global_batch,
                                run.flop_per_s_per_gpu / 1e12,
                                run.allocated_bytes / (1 << 30),
                                run.reserved_bytes / (1 << 30)};
        const double wanted[] = {CASES[i].first,         CASES[i].last,
                                 CASES[i].batch,         CASES[i].tera_flop_per_s,
                                 CASES[i].allocated_gib, CASES[i].reserved_gib};
        for (size_t j = 0; j < sizeof found / sizeof *found; j++)
            if (!(fabs(found[j] - wanted[j]) <= 1e-9 * fabs(wanted[j])))
                fail_msg("%s, figure %zu: %.17g is not %.17g", path, j, found[j], wanted[j]);
    }
}

static bool read_text(struct arena *arena, const char *text, struct log_run *run, struct err *err)
{
    struct err ignored = {0};
    const char *path = arena_print(arena, "/tmp/meshwright-%d.log", (int)getpid());
    assert_true(file_write(path, text, strlen(text), &ignored));
    bool done = log_read(arena, path, run, err);
    unlink(path);
    return done;
}

static void lines_that_say_no_number_are_left_out(void **state)
{
    struct err err = {0};
    struct log_run run;
    assert_true(read_text(*state,
                          "iteration 1/2 | consumed samples: 4 | elapsed time per iteration (ms): "
                          "nan |\niteration 2/2 | consumed samples: 8 | elapsed time per iteration "
                          "(ms): 1.5e3 | global batch size: 4 |\niteration 3/2 | consumed samples: "
                          "8 | elapsed time per iteration (ms): -3 |\niteration 3/2 | consumed "
                          "samples: 8 | elapsed time per iteration (ms): 1e-300 |\n"
                          "[Rank 0] memory (MB) | allocated: 1.0 | max allocated: 1024.0 | "
                          "reserved: 9.0 | max reserved: 2048.0\n"
                          "[Rank 8] memory (MB) | allocated: 1.0 | max allocated: 512.0 | "
                          "reserved: 9.0 | max reserved: 4096.0",
                          &run, &err));
    assert_int_equal(run.count, 1);
    assert_true(run.values[0] == 1500 && run.global_batch == 4);
    assert_true(run.allocated_bytes == 1 << 30 && run.reserved_bytes == (double)((int64_t)4 << 30));
}

static void a_log_without_steps_is_refused(void **state)
{
    struct err err = {0};
    struct log_run run;
    assert_false(read_text(*state, "hello\n\033[\n\033", &run, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, ": no step line of megatron-lm, gpt-neox, nemo"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_trainer_s_lines_are_read),
        cmocka_unit_test(lines_that_say_no_number_are_left_out),
        cmocka_unit_test(a_log_without_steps_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
