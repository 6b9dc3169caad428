#include "exchange/nearest.h"

#include "planner/choice.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool target_judge(struct arena *arena, const struct exchange_target *target,
                  const struct facts_request *request, const struct facts **facts,
                  struct settings *settings, struct refusals *refusals, struct err *err)
{
    struct facts *found = facts_make(arena, request, err);
    if (!found) return false;
    target_clean(target, found);
    *settings = (struct settings){.arena = arena};
    *refusals = (struct refusals){0};
    target_export(target, found, settings, refusals);
    *facts = found;
    return true;
}

// Whether what it means nothing without is refused as well: chunks of stages beside the stages.
static bool is_derived(const struct refusals *refusals, const char *fact)
{
    for (const char *needs = fact_needs(fact); needs; needs = fact_needs(needs)) {
        for (int i = 0; i < refusals->count; i++) {
            if (strcmp(refusals->items[i].fact, needs) == 0) return true;
        }
    }
    return false;
}

// What follows from another refusal is not told beside it: who mends that one mends both.
const char *refusals_text(struct arena *arena, const struct refusals *refusals)
{
    const char *text = "";
    int last = 0;
    for (int i = 0; i < refusals->count; i++)
        last = is_derived(refusals, refusals->items[i].fact) ? last : i;
    for (int i = 0; i <= last && refusals->count > 0; i++) {
        const struct refusal *item = &refusals->items[i];
        if (is_derived(refusals, item->fact)) continue;
        const char *between = !*text ? "" : i == last ? " and " : ", ";
        text = arena_print(arena, "%s%s%s %s", text, between, fact_words(item->fact), item->value);
    }
    return text;
}

// The choice that a fact is a part of.
static bool choice_of(const char *fact, enum choice *choice)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(fact, "."), fact);
    return choice_find(name, choice);
}

static void keep(const struct stack *stack, const struct parallel *near, struct pins *pins)
{
    // What means nothing in this plan is not refused, and may be more than the software can do.
    struct parallel able = *near;
    able.overlap &= stack->overlap;
    able.passes = stack->passes;
    near = &able;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        int64_t value = choice_value(near, choice);
        if (pins_get(pins, choice).set) continue;
        pins_set(pins, choice, value, value);
    }
    pins->stage_layers = near->stage_layers;
    pins->stage_layers_count = near->stage_layers_count;
}

// Takes the pin away, but forgets nothing that is forbidden.
static void reopen(struct pins *pins, enum choice choice)
{
    const struct pins before = *pins;
    pins_clear(pins, choice);
    memcpy(pins->forbidden, before.forbidden, sizeof pins->forbidden);
    pins->forbidden_count = before.forbidden_count;
}

static bool forbid(struct pins *pins, enum choice choice, const struct parallel *parallel)
{
    assert(choice < CHOICE_COUNT && pins->forbidden_count >= 0);
    if (pins->forbidden_count == sizeof pins->forbidden / sizeof *pins->forbidden) return false;
    reopen(pins, choice);
    pins->forbidden[pins->forbidden_count].key = choice_name(choice);
    pins->forbidden[pins->forbidden_count++].value = choice_value(parallel, choice);
    return true;
}

bool refusals_hold(const struct refusals *refusals, const char *fact)
{
    for (int i = 0; i < refusals->count; i++) {
        if (strcmp(refusals->items[i].fact, fact) == 0) return true;
    }
    return false;
}

// What the stages hold is refused though nobody asked for it: whole stages are tried instead of
// chunks, then other numbers of stages.
static bool give_up_pieces(struct pins *pins, const struct parallel *parallel)
{
    if (parallel->vpp == 1) return forbid(pins, CHOICE_PP, parallel);
    reopen(pins, CHOICE_SCHEDULE);
    pins_set(pins, CHOICE_VPP, 1, 1);
    return true;
}

// What is refused is open, its value forbidden. False: no choice of a plan is the reason.
static bool give_up(struct pins *pins, const struct refusals *refusals,
                    const struct parallel *parallel)
{
    bool has_pieces = refusals_hold(refusals, "pieces");
    if (has_pieces && !pins->stage_layers_count && !give_up_pieces(pins, parallel)) return false;
    bool is_blamed = has_pieces && !pins->stage_layers_count;
    for (int i = 0; i < refusals->count; i++) {
        const char *fact = refusals->items[i].fact;
        enum choice choice;
        if (strcmp(fact, "pieces") == 0 || strcmp(fact, "order") == 0) continue;
        bool is_root = !is_derived(refusals, fact), is_choice = choice_of(fact, &choice);
        if (is_root && !is_choice) return false;
        if (is_choice && choice == CHOICE_LORA) return false;  // what is trained is not given up
        if (!is_choice || (is_blamed && choice == CHOICE_VPP)) continue;
        if (!is_root || !choice_is_searched(choice)) {
            reopen(pins, choice);
        } else if (!forbid(pins, choice, parallel)) {
            return false;
        }
        if (choice == CHOICE_RECOMPUTE) reopen(pins, CHOICE_RECOMPUTE_LAYERS);
        if (choice == CHOICE_SCHEDULE) reopen(pins, CHOICE_VPP);
        if (choice == CHOICE_VPP) reopen(pins, CHOICE_SCHEDULE);
    }
    if (has_pieces) pins->stage_layers_count = 0;
    return true;
}

// Keeps of the best those that the target can run. Where none is, `refusals` are those of the last.
static bool filter(struct arena *arena, const struct exchange_target *target,
                   const struct search_request *search, struct search_result *result,
                   struct refusals *refusals, struct err *err)
{
    assert(result->best_count >= 0);
    int kept = 0;
    for (int i = 0; i < result->best_count; i++) {
        const struct facts_request asked = {search->model, search->stack, &search->workload,
                                            &result->best[i].parallel, NULL};
        const struct facts *facts;
        struct settings settings;
        if (!target_judge(arena, target, &asked, &facts, &settings, refusals, err)) return false;
        if (refusals->count == 0) result->best[kept++] = result->best[i];
    }
    // The last is kept as it is where there is nothing else, to see what to forbid.
    if (kept > 0) result->best_count = kept;
    if (kept > 0) refusals->count = 0;
    return true;
}

// Whether what misses by least is no plan of the target, so that another is looked for; of plans
// that miss, and of what would help, those that it can run are wanted alone.
static bool is_closest_beyond(struct arena *arena, const struct exchange_target *target,
                              const struct search_request *search,
                              const struct search_result *result, struct refusals *refusals)
{
    const struct facts_request asked = {search->model, search->stack, &search->workload,
                                        &result->closest.parallel, NULL};
    const struct facts *facts;
    struct settings settings;
    struct err unread = {0};
    bool has_closest = result->status == SEARCH_NOTHING_FITS && search->nothing != SEARCH_FITS_ONLY;
    return has_closest &&
           target_judge(arena, target, &asked, &facts, &settings, refusals, &unread) &&
           refusals->count > 0;
}

// Why a search that was narrowed found no plan: what the target cannot do is a part of it.
static bool nothing_left(struct arena *arena, const struct exchange_target *target,
                         const char *left_out, const struct refusals *forbidden, struct err *err)
{
    const char *why = arena_copy(arena, err->text);
    const char *words = forbidden->count ? refusals_text(arena, forbidden) : "";
    if (!*left_out && !*words) return false;
    const char *split = *left_out ? arena_print(arena, "split this model over %s", left_out) : "";
    *err = (struct err){0};
    return err_set(
        err, ERR_USAGE, "no plan is left that %s can express: it cannot %s%s%s%s; %s",
        target->program, split, *split && *words ? ", nor " : "", *words ? "express " : "", words,
        forbidden->count ? "without that no plan has all GPUs and the whole batch" : why);
}

// Each turn forbids what was refused of the last, so that no plan comes twice; a bound ends it all
// the same.
bool nearest_search(struct arena *arena, const struct exchange_target *target,
                    const struct search_request *request, struct search_result *result,
                    struct err *err)
{
    assert(target && request->stack);
    enum { SEARCH_MOST = 24 };
    struct search_request search = *request;
    struct refusals last_refused = {0};
    const char *left_out;
    if (!target_narrow(arena, target, &search, &left_out, err)) return false;
    for (int i = 0; i < SEARCH_MOST; i++) {
        struct refusals refusals = {0};
        if (!search_plans(arena, &search, result, err)) {
            if (err->kind != ERR_USAGE) return false;
            return nothing_left(arena, target, left_out, &last_refused, err);
        }
        if (!filter(arena, target, &search, result, &refusals, err)) return false;
        bool has_best = result->best_count > 0;
        if (!has_best && !is_closest_beyond(arena, target, &search, result, &refusals)) return true;
        if (refusals.count == 0) return true;
        const struct candidate *last =
            has_best ? &result->best[result->best_count - 1] : &result->closest;
        result->best_count = 0;
        last_refused = refusals;
        if (!give_up(&search.pins, &refusals, &last->parallel))
            return err_set(err, ERR_USAGE, "%s cannot express %s, whatever the plan",
                           target->program, refusals_text(arena, &refusals));
    }
    return err_set(err, ERR_USAGE,
                   "no plan was found that %s can express: of the last of %d it cannot express %s",
                   target->program, SEARCH_MOST, refusals_text(arena, &last_refused));
}

// Whether what misses by least is a plan of the target at all.
static bool can_run_closest(struct arena *arena, const struct nearest_request *request,
                            const struct candidate *closest)
{
    const struct facts_request asked = {request->search.model, request->search.stack,
                                        &request->search.workload, &closest->parallel, NULL};
    const struct facts *facts;
    struct settings settings;
    struct refusals refusals;
    struct err unread = {0};
    return target_judge(arena, request->target, &asked, &facts, &settings, &refusals, &unread) &&
           refusals.count == 0;
}

// Searches as often as it takes. That no plan is left is an answer.
static bool look(struct arena *arena, const struct nearest_request *request,
                 const struct pins *pins, enum search_nothing nothing,
                 struct nearest_answer *answer, struct err *err)
{
    assert(!answer->best && !answer->closest);
    struct search_request search = request->search;
    struct err refused = {0};
    search.pins = *pins;
    search.nothing = nothing;
    bool done = nearest_search(arena, request->target, &search, &answer->result, &refused);
    if (!done && refused.kind != ERR_USAGE) return err_set(err, refused.kind, "%s", refused.text);
    if (done && answer->result.best_count > 0) answer->best = &answer->result.best[0];
    bool has_closest = done && !answer->best && nothing != SEARCH_FITS_ONLY &&
                       answer->result.status == SEARCH_NOTHING_FITS;
    if (has_closest && can_run_closest(arena, request, &answer->result.closest))
        answer->closest = &answer->result.closest;
    return true;
}

bool nearest_find(struct arena *arena, const struct nearest_request *request,
                  struct nearest_answer *answer, struct err *err)
{
    *answer = (struct nearest_answer){0};
    struct pins pins = request->search.pins;
    if (request->near) {
        const struct facts_request asked = {request->search.model, request->search.stack,
                                            &request->search.workload, request->near, NULL};
        const struct facts *facts;
        struct settings settings;
        struct refusals refusals;
        if (!target_judge(arena, request->target, &asked, &facts, &settings, &refusals, err))
            return false;
        keep(request->search.stack, request->near, &pins);
        if (!give_up(&pins, &refusals, request->near)) return true;
        if (!look(arena, request, &pins, SEARCH_FITS_ONLY, answer, err)) return false;
        if (answer->best) return true;
        pins = request->search.pins;
    }
    return look(arena, request, &pins, SEARCH_REMEDIES, answer, err);
}
