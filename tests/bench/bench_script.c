#include "plan/script/check.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <time.h>

// What it takes to write out and to verify a step of GPT-2 124M, 8 micro-batches on 4 stages, and
// of one 16 times as long: the work must grow with the tasks.

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct timing {
    double write_s, check_s, tasks;
};

static struct timing time_step(int micro_batches)
{
    enum { STAGES = 4, TIMES = 5 };
    struct timing best = {1e9, 1e9, 0};
    for (int i = 0; i < TIMES; i++) {
        struct arena arena = {0}, scratch = {0};
        struct script_case of;
        struct err err = {0};
        script_case_gpt2(&arena, STAGES, micro_batches, &of);
        double start_s = cpu_s();
        script_case_write(&of);
        double written_s = cpu_s();
        bool is_right =
            script_check(&scratch, (const struct script *const *)of.scripts, STAGES, &err);
        double checked_s = cpu_s();
        if (!is_right) fprintf(stderr, "%s\n", err.text), exit(1);
        if (written_s - start_s < best.write_s) best.write_s = written_s - start_s;
        if (checked_s - written_s < best.check_s) best.check_s = checked_s - written_s;
        best.tasks = 0;
        for (int s = 0; s < STAGES; s++)
            best.tasks += of.scripts[s]->task_count;
        arena_free(&arena);
        arena_free(&scratch);
    }
    return best;
}

int main(void)
{
    enum { SHORT = 8, LONG = 128 };
    struct timing one = time_step(SHORT), many = time_step(LONG);
    printf("script: %.0f tasks written in %.1f ms with their graphs, verified in %.2f ms\n",
           one.tasks, 1e3 * one.write_s, 1e3 * one.check_s);
    printf("script: verifying a task of a step %d times as long takes %.2f times as long\n",
           LONG / SHORT, many.check_s / many.tasks / (one.check_s / one.tasks));
    return 0;
}
