#include "reports/whatif/releases.h"
#include "models/import.h"
#include "reports/table/release_text.h"

#include <assert.h>
#include <string.h>

// The rows, each of the releases that have what its newest has.
static void group(struct arena *arena, const struct stack *stack, const struct stack *newest,
                  struct releases *found)
{
    assert(newest->release && "releases_find asks");
    const char *release = stack->release ? stack->release : "";
    const char *builds = release + strcspn(release, "+");
    int asked = release_index(newest, release);
    // A build alone is one of the newest.
    bool is_build = !*builds && asked < 0 && strcmp(release, newest->release) != 0;
    if (is_build) builds = arena_print(arena, "+%s", release);
    found->rows = ARENA_NEW(arena, struct release_row, newest->release_count + 1);
    found->rows[0] = (struct release_row){.newest = newest->release, .oldest = newest->release};
    found->count = 1;
    for (int i = 0; i < newest->release_count; i++) {
        const struct stack_release *at = &newest->releases[i];
        if (at->change_count > 0) {
            found->rows[found->count - 1].older = at;
            found->rows[found->count++].newest = at->name;
        }
        found->rows[found->count - 1].oldest = at->name;
        if (i == asked) found->asked = found->count - 1;
    }
    for (int i = 0; i < found->count; i++) {
        const char *name = arena_print(arena, "%s%s", found->rows[i].newest, builds);
        found->rows[i].stack = stack_at_release(arena, newest, name);
        assert(found->rows[i].stack && "a release of the stack, and builds that it had");
    }
}

static void price_same_plan(const struct scenario_request *request, const struct scenario *scenario,
                            bool has_experts, struct releases *found)
{
    const struct scenario_outcome *asked = &found->rows[found->asked].outcome;
    if (asked->status != SCENARIO_FITS) return;
    for (int i = 0; i < found->count; i++) {
        const struct evaluation_request question = {
            .model = scenario->model ? scenario->model : request->model,
            .cluster = scenario->cluster,
            .fabrics = request->fabrics,
            .workload = scenario->workload,
            .parallel = asked->best.parallel,
        };
        struct arena work = {0};
        found->rows[i].same_plan_s =
            release_step_s(&work, &question, found->rows[i].stack, has_experts);
        arena_free(&work);
    }
}

bool releases_find(struct arena *arena, const struct scenario_request *request,
                   const struct scenario *scenario, struct releases *found, struct err *err)
{
    const struct stack *stack = request->stack;
    *found = (struct releases){0};
    const struct stack *newest = stack->newest ? stack->newest : stack;
    if (newest->release_count == 0 || !newest->release) {
        return err_set(err, ERR_USAGE, "--releases: those of --stack %s are not told apart",
                       stack->name);
    }
    const struct model_config *model = scenario->model ? scenario->model : request->model;
    const struct import_options options = {.flash = true};
    bool has_experts = model_graph(arena, model, &options)->expert_count > 0;
    group(arena, stack, newest, found);
    for (int i = 0; i < found->count; i++) {
        struct scenario_request one = *request;
        one.may_idle = false;  // on the same GPUs
        one.stack = stack_for_model(arena, found->rows[i].stack, has_experts);
        if (!scenarios_run(arena, &one, scenario, 1, &found->rows[i].outcome, err)) return false;
    }
    price_same_plan(request, scenario, has_experts, found);
    return true;
}
