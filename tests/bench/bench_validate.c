#include "core/progress.h"
#include "validation/trial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

// What `validate` and `fit` pay for a published run: reading it, asking and searching what it
// leaves open, and pricing its plan again at other constants, by events and in closed form.

enum { ROWS = 200, REPEAT = 20 };

struct trial_costs {
    double read_s, answer_s, events_s, closed_form_s;  // a row
    int count;
};

static struct trials answer(struct arena *arena, struct trial_costs *costs)
{
    struct err err = {0};
    struct rows rows;
    struct trials trials;
    double start_s = clock_s();
    bool is_read = rows_read(arena, "tests/validation/published.jsonl", &rows, &err);
    if (is_read) costs->read_s = (clock_s() - start_s) / rows.count;
    if (is_read && rows.count > ROWS) rows.count = ROWS;
    start_s = clock_s();
    if (is_read) trials_ask(arena, &rows, QUESTION_STATED, &trials);
    if (!is_read || !trials_answer(arena, &trials, NULL, NULL, &err)) {
        fprintf(stderr, "bench_validate: %s\n", err.text);
        exit(1);
    }
    costs->answer_s = (clock_s() - start_s) / trials.count;
    return trials;
}

static void price_again(struct arena *arena, const struct trials *trials,
                        const struct fabrics *fabrics, struct trial_costs *costs)
{
    struct arena scratch = {0};
    double sum_s = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        if (!trial->answered) continue;
        struct trial_program *program = trial_program_new(arena, trial);
        const struct device *device = trial->cluster->nodes[0].device;
        double start_s = clock_s();
        for (int k = 0; k < REPEAT; k++) {
            sum_s += trial_program_step_s(program, &scratch, device, trial->stack, fabrics);
        }
        double middle_s = clock_s();
        for (int k = 0; k < REPEAT; k++) {
            sum_s += trial_program_closed_form_s(program, device, trial->stack, fabrics);
        }
        costs->events_s += (middle_s - start_s) / REPEAT;
        costs->closed_form_s += (clock_s() - middle_s) / REPEAT;
        costs->count++;
    }
    assert(sum_s > 0 && costs->count > 0);
    costs->events_s /= costs->count;
    costs->closed_form_s /= costs->count;
    arena_free(&scratch);
}

int main(void)
{
    struct arena arena = {0};
    struct err err = {0};
    struct trial_costs costs = {0};
    const struct fabrics *fabrics = fabrics_load(&arena, &err);
    assert(fabrics);
    struct trials trials = answer(&arena, &costs);
    price_again(&arena, &trials, fabrics, &costs);
    printf("published runs: read %.1f us, asked and answered %.2f ms, %d priced again: events "
           "%.0f us, closed form %.0f us\n",
           costs.read_s * 1e6, costs.answer_s * 1e3, costs.count, costs.events_s * 1e6,
           costs.closed_form_s * 1e6);
    printf("  an answer costs %.1f x the events of its plan, those %.1f x the closed form\n",
           costs.answer_s / costs.events_s, costs.events_s / costs.closed_form_s);
    arena_free(&arena);
    return 0;
}
