#include "validation/trial.h"

#include "plan/layout/rules.h"
#include "plan/plan.h"

#include <assert.h>
#include <string.h>

// Stacks are read once each; their rows share them.
struct stacks {
    const struct stack **items;
    const char **names;
    int count;
};

static const struct stack *load_stack(struct arena *arena, struct stacks *stacks, const char *name,
                                      struct err *err)
{
    assert(stacks->count >= 0);
    for (int i = 0; i < stacks->count; i++) {
        if (strcmp(stacks->names[i], name) == 0) return stacks->items[i];
    }
    const struct stack *stack = stack_load(arena, name, err);
    if (!stack) return NULL;
    stacks->names[stacks->count] = name;
    return stacks->items[stacks->count++] = stack;
}

static bool parse(struct arena *arena, const char *path, const char *text,
                  struct json_document *document, struct err *err)
{
    return json_parse(arena, path, text, strlen(text), document, err);
}

// Operators that the row says are laid out otherwise than the table does.
static bool pin_layouts(struct arena *arena, const struct row *row, enum question_detail detail,
                        struct pins *pins, struct err *err)
{
    if (detail == QUESTION_COARSE || !row->document) return true;
    struct json root = json_root(row->document);
    if (!json_has(&root, "layouts")) return true;
    struct json list = json_get(&root, "layouts", err);
    struct parallel given = {0};
    if (!layout_rules_read(arena, &list, &given, err)) return false;
    pins->layouts = given.layouts;
    pins->layout_count = given.layout_count;
    return true;
}

// Layers of each stage, where the row says them.
static bool pin_stages(struct arena *arena, const struct row *row, enum question_detail detail,
                       struct pins *pins, struct err *err)
{
    if (detail == QUESTION_COARSE || !row->document) return true;
    struct json root = json_root(row->document);
    pins->stage_layers = plan_numbers(arena, &root, "stages", &pins->stage_layers_count, err);
    return !err->kind;
}

// The stack at the row's release, where its software is one that is told apart, as the row's build.
static bool as_it_ran(struct arena *arena, struct trial *trial, struct err *err)
{
    const char *build = trial->row->facts.build, *software = trial->row->facts.software;
    const struct stack *then = NULL;
    if (build && software)
        then = stack_at_release(arena, trial->stack, arena_print(arena, "%s+%s", software, build));
    const char *either = build ? build : software;
    if (!then && either) then = stack_at_release(arena, trial->stack, either);
    if (build && !then) {
        return err_set(err, ERR_INPUT, "build: stack %s has no build \"%s\"", trial->row->stack,
                       build);
    }
    if (then) trial->stack = then;
    return true;
}

// The stack depends on the model (experts) and on the schedule (forks), so that it is chosen last.
static bool ask(struct arena *arena, struct stacks *stacks, struct trial *trial,
                enum question_detail detail, struct err *err)
{
    const struct row *row = trial->row;
    if (row->has_narrow_base) {
        return err_set(err, ERR_INPUT,
                       "trains adapters beside weights of %d bits (QLoRA), which are not modelled",
                       row->facts.lora.base_bits);
    }
    struct json_document *documents = ARENA_NEW(arena, struct json_document, 2);
    const char *config_path = arena_print(arena, "%s (config)", row->id);
    const char *cluster_path = arena_print(arena, "%s (cluster)", row->id);
    bool parsed = parse(arena, config_path, question_config(arena, row), &documents[0], err) &&
                  parse(arena, cluster_path, question_cluster(arena, row), &documents[1], err);
    if (!parsed) return false;
    struct json config = json_root(&documents[0]), cluster = json_root(&documents[1]);
    trial->model = model_read(arena, row->model_name, &config, NULL, NULL, err);
    trial->cluster = err->kind ? NULL : cluster_read(arena, &cluster, err);
    trial->stack = err->kind ? NULL : load_stack(arena, stacks, row->stack, err);
    const struct stack *own =
        err->kind || !row->rules_of ? trial->stack : load_stack(arena, stacks, row->rules_of, err);
    if (err->kind || !as_it_ran(arena, trial, err)) return false;
    if (row->rules_of) trial->stack = stack_with_rules(arena, trial->stack, own);
    const struct import_options options = {.flash = true};
    trial->has_experts = model_graph(arena, trial->model, &options)->expert_count > 0;
    trial->stack = stack_for_model(arena, trial->stack, trial->has_experts);
    trial->workload = question_workload(row);
    trial->pins = question_pins(row, trial->stack, detail);
    const struct stack *fork = stack_for_schedule(arena, trial->stack, trial->pins.schedule, err);
    if (!fork) return false;
    if (fork != trial->stack) {
        trial->stack = stack_for_model(arena, fork, trial->has_experts);
        trial->pins = question_pins(row, trial->stack, detail);
    }
    return pin_stages(arena, row, detail, &trial->pins, err) &&
           pin_layouts(arena, row, detail, &trial->pins, err);
}

void trials_ask(struct arena *arena, const struct rows *rows, enum question_detail detail,
                struct trials *trials)
{
    *trials =
        (struct trials){.items = ARENA_NEW(arena, struct trial, rows->count), .count = rows->count};
    // That of a row and that whose rules hold.
    struct stacks stacks = {
        .items = ARENA_NEW(arena, const struct stack *, 2 * rows->count),
        .names = ARENA_NEW(arena, const char *, 2 * rows->count),
    };
    for (int i = 0; i < rows->count; i++) {
        struct trial *trial = &trials->items[i];
        struct err err = {0};
        trial->row = &rows->items[i];
        if (ask(arena, &stacks, trial, detail, &err)) continue;
        trial->stack = NULL;  // marks what cannot be answered either
        trial->why_not = arena_copy(arena, err.text);
        if (err.kind == ERR_SYSTEM && !trials->fault.kind) trials->fault = err;
    }
}

// Where nothing fits, the plan that comes closest is predicted.
static bool search(struct arena *arena, const struct trial *trial, const struct fabrics *fabrics,
                   struct parallel *parallel, struct err *err)
{
    struct search_request request = {
        .model = trial->model,
        .cluster = trial->cluster,
        .stack = trial->stack,
        .fabrics = fabrics,
        .workload = trial->workload,
        .pins = trial->pins,
        .objective = OBJECTIVE_TIME,
        .top = 1,
    };
    struct search_result result = {0};
    if (!fabrics_cover(fabrics, trial->cluster, err)) return false;
    if (!search_plans(arena, &request, &result, err)) return false;
    bool fits = result.status != SEARCH_NOTHING_FITS;
    *parallel = fits ? result.best[0].parallel : result.closest.parallel;
    return true;
}

// A given plan is evaluated as it is.
static bool answer(struct arena *work, const struct trial *trial, const struct fabrics *fabrics,
                   const struct bands *bands, struct evaluation_request *request,
                   struct evaluation *evaluation, struct err *err)
{
    *request = (struct evaluation_request){
        .model = trial->model,
        .cluster = trial->cluster,
        .stack = trial->stack,
        .fabrics = fabrics,
        .bands = bands,
        .workload = trial->workload,
    };
    request->parallel = trial->parallel;
    if (!trial->is_given && !search(work, trial, fabrics, &request->parallel, err)) return false;
    struct arena scratch = {0};
    bool done = evaluate(work, &scratch, request, evaluation, err);
    arena_free(&scratch);
    return done;
}

// Work is thrown away but for the plan and its prediction, which live as long as the trial.
void trial_answer(struct arena *arena, struct trial *trial, const struct fabrics *fabrics,
                  const struct bands *bands)
{
    trial->answered = false;
    if (!trial->stack) return;
    struct arena work = {0};
    struct evaluation_request request;
    struct evaluation evaluation = {0};
    struct err err = {0};
    if (answer(&work, trial, fabrics, bands, &request, &evaluation, &err)) {
        trial->answered = true;
        trial->why_not = NULL;
        trial->parallel = parallel_copy(arena, &request.parallel);
        trial->prediction = prediction_keep(arena, &evaluation.prediction);
    } else {
        trial->why_not = arena_copy(arena, err.text);
    }
    arena_free(&work);
}

bool trials_answer(struct arena *arena, struct trials *trials,
                   void (*progress)(void *context, int done, int count), void *context,
                   struct err *err)
{
    if (trials->fault.kind) return err_set(err, trials->fault.kind, "%s", trials->fault.text);
    const struct fabrics *fabrics = fabrics_load(arena, err);
    const struct bands *bands = fabrics ? bands_load(arena, err) : NULL;
    if (!bands) return false;
    for (int i = 0; i < trials->count; i++) {
        trial_answer(arena, &trials->items[i], fabrics, bands);
        if (progress) progress(context, i + 1, trials->count);
    }
    return true;
}
