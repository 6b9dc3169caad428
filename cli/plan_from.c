#include "cli/plan_from.h"

#include "core/plain.h"
#include "reports/table/plan_table.h"

#include <stdio.h>
#include <string.h>

void plan_from_options(struct option *options, int *count)
{
    int kept = 0;
    for (int i = 0; i < *count; i++) {
        if (strcmp(options[i].name, "MODEL") != 0) options[kept++] = options[i];
    }
    *count = kept;
}

bool plan_from_is_asked(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--from") == 0 || strncmp(argv[i], "--from=", 7) == 0) return true;
    }
    return false;
}

static bool read_model(struct arena *arena, const struct imported *imported,
                       struct plan_arguments *arguments, struct err *err)
{
    arguments->model = imported->model;
    if (imported->model) return true;
    if (!imported->config)
        return err_set(
            err, ERR_INPUT,
            "%s: does not say all of its model: %s is missing; a config.json in the same "
            "folder says it",
            imported->path, imported->lacks);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, imported->path, imported->config, strlen(imported->config), document,
                    err))
        return false;
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    const char *slash = strrchr(imported->path, '/'), *name = slash ? slash + 1 : imported->path;
    name = arena_print(arena, "%.*s", (int)strcspn(name, "."), name);
    arguments->given = model_read(arena, name, root, NULL, NULL, err);
    return arguments->given != NULL;
}

bool plan_from_read(struct arena *arena, struct plan_from *from, struct plan_arguments *arguments,
                    struct err *err)
{
    from->imported = import_file(arena, from->path, NULL, err);
    if (!from->imported || !read_model(arena, from->imported, arguments, err)) return false;
    const struct said *said = &from->imported->said;
    if (!arguments->seq_len && said->seq_len) arguments->seq_len = said->workload.seq_len;
    if (!arguments->global_batch && said->global_batch)
        arguments->global_batch = said->workload.global_batch;
    if (!arguments->precision && said->precision)
        arguments->precision = precision_name(said->workload.precision);
    if (said->optimizer) arguments->optimizer = optimizer_name(said->workload.optimizer);
    if (said->capacity) arguments->capacity_factor = said->workload.capacity_factor;
    if (!arguments->stack) arguments->stack = from->imported->target->stack;
    return true;
}

// What the file says, but for copies: as many as the cluster's GPUs make.
static struct pins pins_of(const struct imported *imported, const struct parallel *priced)
{
    struct pins pins = pins_none();
    const struct said *said = &imported->said;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        int64_t value = choice_value(priced, choice);
        if (said->choices[choice] && choice != CHOICE_DP) pins_set(&pins, choice, value, value);
    }
    // What is left to the software is no pin.
    if (said->parallel.bucket_bytes == 0) pins_clear(&pins, CHOICE_BUCKET_BYTES);
    if (said->stages) {
        pins.stage_layers = said->parallel.stage_layers;
        pins.stage_layers_count = said->parallel.stage_layers_count;
    }
    return pins;
}

bool plan_from_search(struct arena *arena, struct plan_from *from,
                      const struct search_request *request, struct err *err)
{
    struct search_request pinned = *request;
    struct search_result *result = ARENA_NEW(arena, struct search_result, 1);
    struct err refused = {0};
    // What the stack has no price for runs beside nothing in it.
    struct parallel priced = from->imported->said.parallel;
    unsigned unpriced = priced.overlap & ~request->stack->overlap;
    priced.overlap &= request->stack->overlap;
    if (unpriced) from->unpriced = overlap_text(arena, unpriced);
    pinned.pins = pins_of(from->imported, &priced);
    pinned.top = 1;
    pinned.nothing = SEARCH_CLOSEST;
    if (!search_plans(arena, &pinned, result, &refused)) {
        if (refused.kind != ERR_USAGE) return err_set(err, refused.kind, "%s", refused.text);
        from->why = arena_copy(arena, refused.text);
        return true;
    }
    from->fits = result->best_count > 0;
    from->candidate = from->fits ? &result->best[0] : &result->closest;
    return true;
}

const char *plan_from_head(struct arena *arena, const struct plan_from *from)
{
    const struct imported *imported = from->imported;
    int unknown = 0;
    for (int i = 0; i < imported->settings.count; i++)
        unknown += !imported->settings.items[i].is_used;
    char *text = arena_print(arena, "%s (%s %s): ", imported->path, imported->target->program,
                             imported->target->version);
    if (from->why) {
        text = arena_print(arena, "%scannot run on this cluster: %s\n", text, from->why);
    } else {
        text = arena_print(arena, "%s%s: %.4g s a step, %.1f GiB%s\n", text,
                           parallel_text(arena, &from->candidate->parallel, imported->stack),
                           from->candidate->cost.step_s,
                           (double)from->candidate->memory.peak_bytes / (1 << 30),
                           from->fits ? "" : ", which does not fit");
    }
    if (from->unpriced)
        text =
            arena_print(arena, "%s      priced without its overlap of %s, which stack %s lacks\n",
                        text, from->unpriced, imported->stack->name);
    if (unknown == 0) return text;
    return arena_print(arena,
                       "%s      %d of its options %s nothing of a plan: meshwright import "
                       "%s lists them\n",
                       text, unknown, unknown == 1 ? "says" : "say",
                       plain_shell(arena, from->path));
}

const char *plan_from_foot(struct arena *arena, const struct plan_from *from,
                           const struct search_request *request, const struct search_result *result)
{
    (void)request;
    if (from->why || result->best_count == 0) return "";
    double was = from->candidate->cost.step_s, is = result->best[0].cost.step_s;
    const char *path = from->imported->path;
    if (!from->fits)
        return arena_print(arena, "Against %s: it does not fit, the best plan does.\n", path);
    if (is >= was) return arena_print(arena, "Against %s: nothing faster was found.\n", path);
    return arena_print(arena,
                       "Against %s: saves %.4g s of %.4g s a step: %.1f %% of time, GPU-hours and "
                       "money.\n",
                       path, was - is, was, 100 * (was - is) / was);
}
