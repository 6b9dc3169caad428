#include "cli/anchor.h"
#include "cli/plan_question.h"
#include "core/plain.h"
#include "exchange/compare_plan.h"
#include "planner/choice.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), ending = strlen(end);
    return length >= ending && strcmp(text + length - ending, end) == 0;
}

// The plan that a run.json is of: that which is named beside it, else the one whose path it holds.
static const char *plan_of(struct arena *arena, const char *path, const char *given,
                           struct err *err)
{
    enum side_kind kind;
    if (given) return given;
    if (!side_kind_of(arena, path, &kind, err)) return NULL;
    struct json_document document;
    if (kind != SIDE_RUN) {
        err_set(err, ERR_USAGE, "--anchor %s: give the plan that it ran: --anchor-plan PLAN",
                plain_copy(arena, path));
        return NULL;
    }
    if (!json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document), plan = json_get(&root, "plan", err);
    struct json at = json_get(&plan, "path", err);
    return json_text(&at, err);
}

// Devices and the stack as the request has them where their names are the same, so that both move
// by the same constants.
static void take_machines(struct arena *arena, const struct search_request *request,
                          struct trial *trial)
{
    const char *name = trial->cluster->nodes[0].device->name;
    for (int i = 0; i < request->cluster->node_group_count; i++) {
        const struct device *device = request->cluster->nodes[i].device;
        if (strcmp(device->name, name) != 0) continue;
        trial->cluster = cluster_with_device(arena, trial->cluster, device);
        break;
    }
    if (strcmp(trial->stack->name, request->stack->name) == 0) trial->stack = request->stack;
}

// A log or a run.json of a plan, as a trial whose plan is given.
static bool read_run(struct arena *arena, const char *path, const char *given,
                     const struct search_request *request, struct trial *trial, struct err *err)
{
    struct evaluation_request question;
    struct measurement measured;
    const char *plan = plan_of(arena, path, given, err);
    if (!plan || !plan_question(arena, plan, NULL, &question, err)) return false;
    if (!measurement_read(arena, path, 0, &question, &measured, err)) return false;
    struct row *row = ARENA_NEW(arena, struct row, 1);
    *row = (struct row){
        .id = plain_copy(arena, path),
        .family = plain_copy(arena, path),
        .tier = 'A',
        .device = question.cluster->nodes[0].device->name,
        .stack = question.stack->name,
        .network_stated = true,
        .step_s = measured.median_s,
    };
    *trial = (struct trial){
        .row = row,
        .model = question.model,
        .cluster = question.cluster,
        .stack = question.stack,
        .workload = question.workload,
        .pins = pins_none(),
        .is_given = true,
        .parallel = question.parallel,
    };
    const struct import_options options = {.flash = true};
    trial->has_experts = model_graph(arena, trial->model, &options)->expert_count > 0;
    take_machines(arena, request, trial);
    return true;
}

static bool read_rows(struct arena *arena, const char *path, const struct search_request *request,
                      struct trials *trials, struct err *err)
{
    struct rows *rows = ARENA_NEW(arena, struct rows, 1);
    if (!rows_read(arena, path, rows, err)) return false;
    trials_ask(arena, rows, QUESTION_STATED, trials);
    if (trials->fault.kind) return err_set(err, trials->fault.kind, "%s", trials->fault.text);
    for (int i = 0; i < trials->count; i++)
        if (trials->items[i].stack) take_machines(arena, request, &trials->items[i]);
    return true;
}

static void add(struct arena *arena, const struct trials *more, struct trials *all)
{
    struct trial *items = ARENA_NEW(arena, struct trial, all->count + more->count);
    if (all->count > 0) memcpy(items, all->items, (size_t)all->count * sizeof *items);
    memcpy(items + all->count, more->items, (size_t)more->count * sizeof *items);
    all->items = items;
    all->count += more->count;
}

bool anchor_take(struct arena *arena, const struct anchor_arguments *arguments,
                 struct search_request *request, struct anchor *anchor, struct err *err)
{
    struct trials all = {0};
    const char *words = "";
    for (int i = 0; i < arguments->files.count; i++) {
        const char *path = arguments->files.items[i];
        struct trials more = {.items = ARENA_NEW(arena, struct trial, 1), .count = 1};
        bool is_read = ends_with(path, ".jsonl")
                           ? read_rows(arena, path, request, &more, err)
                           : read_run(arena, path, arguments->plan, request, &more.items[0], err);
        if (!is_read) return false;
        add(arena, &more, &all);
        words = arena_print(arena, "%s%s%s", words, i > 0 ? ", " : "", plain_copy(arena, path));
    }
    return anchor_make(arena, &all, anchor, err) &&
           anchor_apply(arena, anchor, words, &request->cluster, &request->stack, err);
}
