#include "planner/explain.h"

#include "core/units.h"
#include "planner/uneven.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int explain_terms(const struct cost *winner, const struct cost *other,
                  struct explanation_term terms[EXPLANATION_TERM_MAX])
{
    assert(winner && other);
    const struct explanation_term all[] = {
        {"compute", winner->compute_s, other->compute_s},
        {"recompute", winner->recompute_s, other->recompute_s},
        {"tensor parallel", winner->exposed_s[PART_TP], other->exposed_s[PART_TP]},
        {"context parallel", winner->exposed_s[PART_CP], other->exposed_s[PART_CP]},
        {"expert parallel", winner->exposed_s[PART_EP], other->exposed_s[PART_EP]},
        {"data parallel", winner->exposed_s[PART_DP], other->exposed_s[PART_DP]},
        {"offload copies", winner->exposed_s[PART_OFFLOAD], other->exposed_s[PART_OFFLOAD]},
        {"pipeline transfers", winner->exposed_pp_s, other->exposed_pp_s},
        {"stage imbalance", winner->imbalance_s, other->imbalance_s},
        {"bubble", winner->bubble_s, other->bubble_s},
        {"update", winner->update_s, other->update_s},
        {"overhead", winner->overhead_s, other->overhead_s},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].winner_s == 0 && all[i].other_s == 0) continue;
        terms[count++] = all[i];
    }
    return count;
}

// The term that makes the other as slow, or as fast, as it is.
static const struct explanation_term *largest_term(const struct explanation *explanation)
{
    const struct explanation_term *largest = NULL;
    double winner_s = 0, other_s = 0, most_s = 0;
    for (int i = 0; i < explanation->term_count; i++) {
        winner_s += explanation->terms[i].winner_s;
        other_s += explanation->terms[i].other_s;
    }
    double sign = other_s < winner_s ? -1 : 1;
    for (int i = 0; i < explanation->term_count; i++) {
        const struct explanation_term *term = &explanation->terms[i];
        double more_s = sign * (term->other_s - term->winner_s);
        if (more_s <= most_s) continue;
        most_s = more_s;
        largest = term;
    }
    return largest;
}

// "tp 8 is 12.5 % slower (3.84 s against 3.41 s): tensor parallel +0.31 s; it needs 47 GiB ..."
static const char *sentence(struct arena *arena, const char *what, const struct candidate *winner,
                            const struct explanation *explanation)
{
    const struct candidate *other = &explanation->other;
    double ratio = other->cost.step_s / winner->cost.step_s - 1;
    const struct explanation_term *term = largest_term(explanation);
    const char *cause = "";
    if (term) {
        double more_s = term->other_s - term->winner_s;
        cause = arena_print(arena, ", most of it %s: %s%s", term->name, more_s < 0 ? "-" : "+",
                            units_seconds(arena, fabs(more_s)));
    }
    return arena_print(arena, "%s is %s %s (%s against %s)%s; %s against %s reserved", what,
                       units_ratio(arena, fabs(ratio)), ratio >= 0 ? "slower" : "faster",
                       units_seconds(arena, other->cost.step_s),
                       units_seconds(arena, winner->cost.step_s), cause,
                       units_bytes(arena, (double)other->memory.reserved_bytes),
                       units_bytes(arena, (double)winner->memory.reserved_bytes));
}

static void explain_other(struct arena *arena, const char *what, const struct search_result *result,
                          const struct search_result *forced, struct explanation *explanation)
{
    explanation->possible = true;
    explanation->fits = forced->status != SEARCH_NOTHING_FITS;
    explanation->other = explanation->fits ? forced->best[0] : forced->closest;
    if (!explanation->fits) {
        explanation->reason =
            arena_print(arena, "%s does not fit: it needs at least %s reserved, %s too much", what,
                        units_bytes(arena, (double)forced->closest.memory.reserved_bytes),
                        units_bytes(arena, (double)forced->shortfall_bytes));
        explanation->text = explanation->reason;
    }
    assert(result->best_count == 0 || result->best);
    if (result->best_count == 0) {
        if (explanation->fits) explanation->text = arena_print(arena, "%s fits", what);
        return;
    }
    explanation->term_count =
        explain_terms(&result->best[0].cost, &explanation->other.cost, explanation->terms);
    const struct explanation_term *largest = largest_term(explanation);
    explanation->largest = largest ? largest->name : NULL;
    if (explanation->fits) {
        explanation->text = sentence(arena, what, &result->best[0], explanation);
    }
}

struct explanation explain_why(struct arena *arena, const struct search_request *request,
                               const struct search_result *result, enum choice choice,
                               int64_t wanted)
{
    struct explanation explanation = {0};
    const char *what =
        arena_print(arena, "%s %s", choice_name(choice), choice_text(arena, choice, wanted));
    assert(result->best_count == 0 || result->best);
    if (result->best_count > 0 && choice_value(&result->best[0].parallel, choice) == wanted) {
        explanation.possible = explanation.fits = explanation.is_winner = true;
        explanation.other = result->best[0];
        explanation.term_count =
            explain_terms(&result->best[0].cost, &result->best[0].cost, explanation.terms);
        explanation.text = arena_print(arena, "%s is what the best plan has", what);
        return explanation;
    }
    struct search_request forced_request = *request;
    struct search_result forced = {0};
    struct err refused = {0};
    // The question overrules the pin of the same key: it asks what that would have cost.
    pins_clear(&forced_request.pins, choice);
    pins_set(&forced_request.pins, choice, wanted, wanted);
    // The winner's stages were balanced unless its own pins described a run.
    forced_request.pins.supposed = !pins_describe_pipeline(&request->pins);
    forced_request.progress = NULL;
    struct uneven_answer uneven;
    if (!uneven_search(arena, &forced_request, &forced, &uneven, &refused)) {
        explanation.reason = arena_copy(arena, refused.text);
        explanation.text = arena_print(arena, "%s is impossible: %s", what, refused.text);
        return explanation;
    }
    explain_other(arena, what, result, &forced, &explanation);
    return explanation;
}
