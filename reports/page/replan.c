#include "reports/page/replan.h"
#include "reports/page/replan_words.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <string.h>

static const struct bands *read_bands(struct arena *arena, const struct json *base, struct err *err)
{
    // Bands keep what they were read from.
    struct json *bands = ARENA_NEW(arena, struct json, 1);
    *bands = json_get(base, "bands", err);
    return err->kind ? NULL : bands_read(arena, bands, err);
}

// One layout alone is a question about that plan, which is answered also where it does not fit.
static bool is_pinned(const struct pins *pins)
{
    const enum axis axes[] = {AXIS_TP, AXIS_PP, AXIS_DP};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const struct int_range *range = &pins->degree[axes[i]];
        if (!range->set || range->low != range->high) return false;
    }
    return true;
}

static struct replan_answer answer(struct arena *arena, const struct json *base,
                                   const struct json *change, struct err *err)
{
    struct replan_answer none = {0};
    struct search_request request = {0};
    struct search_result result = {0};
    const struct bands *bands = read_bands(arena, base, err);
    if (!bands || !replan_request(arena, base, change, &request, err)) return none;
    if (!search_plans(arena, &request, &result, err)) return none;
    if (result.status != SEARCH_NOTHING_FITS) {
        return (struct replan_answer){
            .plan =
                plan_found_text(arena, &request, &result, &result.best[0].parallel, bands, err)};
    }
    struct replan_answer no = {.status = 1, .reason = plan_nothing_text(arena, &request, &result)};
    if (is_pinned(&request.pins))
        no.plan = plan_found_text(arena, &request, &result, &result.closest.parallel, bands, err);
    return no;
}

// Both as plan files: what is compared is what anybody can read there.
static const char *words_of(struct arena *arena, const struct json *base, const char *plan,
                            struct err *err)
{
    struct json_document document;
    struct json before = json_get(base, "plan", err);
    if (!json_parse(arena, "answer", plan, strlen(plan), &document, err)) return NULL;
    struct json now = json_root(&document);
    return replan_words(arena, &before, &now);
}

struct replan_answer replan(struct arena *arena, const char *base, const char *change)
{
    struct err err = {0};
    struct json_document *documents = ARENA_NEW(arena, struct json_document, 2);
    struct replan_answer given = {0};
    if (json_parse(arena, "page", base, strlen(base), &documents[0], &err) &&
        json_parse(arena, "change", change, strlen(change), &documents[1], &err)) {
        struct json *roots = ARENA_NEW(arena, struct json, 2);
        roots[0] = json_root(&documents[0]);
        roots[1] = json_root(&documents[1]);
        given = answer(arena, &roots[0], &roots[1], &err);
        if (given.plan) given.words = words_of(arena, &roots[0], given.plan, &err);
    }
    assert(err.kind || given.plan || given.reason);
    if (!err.kind) return given;
    return (struct replan_answer){.status = (int)err.kind, .reason = arena_copy(arena, err.text)};
}
