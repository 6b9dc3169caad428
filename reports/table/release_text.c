#include "reports/table/release_text.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// A change of the step below this is none.
static const double GAIN_LEAST = 1e-4;

const char *release_changes_text(struct arena *arena, const struct stack_release *older)
{
    const char *text = "";
    for (int i = 0; i < older->change_count; i++) {
        text = arena_print(arena, "%s%s%s", text, i > 0 ? ", " : "", older->changes[i].key);
    }
    return text;
}

int release_index(const struct stack *newest, const char *name)
{
    size_t length = strcspn(name, "+");
    for (int i = 0; i < newest->release_count; i++) {
        const char *at = newest->releases[i].name;
        if (strlen(at) == length && strncmp(at, name, length) == 0) return i;
    }
    return -1;
}

double release_step_s(struct arena *arena, const struct evaluation_request *request,
                      const struct stack *stack, bool has_experts)
{
    struct evaluation_request other = *request;
    struct evaluation evaluation = {0};
    struct arena scratch = {0};
    struct err err = {0};
    other.stack = stack_for_model(arena, stack, has_experts);
    bool done = evaluate(arena, &scratch, &other, &evaluation, &err);
    arena_free(&scratch);
    return done ? evaluation.prediction.step_s : 0;
}

const char *release_text(struct arena *arena, const struct evaluation_request *request,
                         const struct evaluation *evaluation)
{
    assert(evaluation->prediction.step_s > 0);
    const struct stack *newest = request->stack->newest;
    const char *release = request->stack->release, *text = "";
    int last = newest && release ? release_index(newest, release) : -1;
    if (last < 0) return "";
    const char *builds = release + strcspn(release, "+");
    for (int i = 0; i <= last; i++) {
        const struct stack_release *older = &newest->releases[i];
        const char *name = i == 0 ? newest->release : newest->releases[i - 1].name;
        const char *as_built = arena_print(arena, "%s%s", name, builds);
        const struct stack *stack = stack_at_release(arena, newest, as_built);
        double step_s = 0;
        if (older->change_count > 0)
            step_s = release_step_s(arena, request, stack, evaluation->graph->expert_count > 0);
        double gain = step_s / evaluation->prediction.step_s - 1;
        if (step_s > 0 && fabs(gain) >= GAIN_LEAST) {
            text = arena_print(arena, "%s  from %s on: %s a step, %s (%s)\n", text, name,
                               units_seconds(arena, step_s), units_signed_percent(arena, gain),
                               release_changes_text(arena, older));
        }
    }
    if (!*text) {
        text = arena_print(arena, "  as long, up to %s: nothing that is told apart concerns it\n",
                           newest->release);
    }
    return arena_print(arena, "\nThe same plan on releases newer than %s %s:\n%s",
                       request->stack->name, release, text);
}
