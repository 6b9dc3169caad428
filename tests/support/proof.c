#include "tests/support/proof.h"

#include "core/progress.h"

#include <math.h>
#include <string.h>

struct proof_trial {
    struct arena *arena;
    struct draw *draw;
    const struct proof_question *question;
    const struct proof_report *report;
    struct search_result answer;
};

bool proof_ask(struct arena *arena, const struct proof_question *question, const struct pins *pins,
               bool exhaustive, struct search_result *result)
{
    struct search_request request = question->request;
    struct err err = {0};
    request.pins = *pins;
    request.exhaustive = exhaustive;
    return search_plans(arena, &request, result, &err);
}

double proof_plan_value(const struct search_request *request, const struct candidate *plan)
{
    bool by_memory = request->objective == OBJECTIVE_MEMORY;
    return by_memory ? (double)plan->memory.reserved_bytes : plan->closed_form_s;
}

double proof_value(const struct search_request *request, const struct search_result *result)
{
    double best = INFINITY;
    for (int i = 0; i < result->best_count; i++)
        best = fmin(best, proof_plan_value(request, &result->best[i]));
    return best;
}

double proof_claim(const struct search_request *request, const struct search_result *result)
{
    if (result->status == SEARCH_NOTHING_FITS) return INFINITY;
    bool is_best = result->status == SEARCH_OPTIMAL || result->status == SEARCH_BEST_OF;
    if (is_best) return proof_plan_value(request, &result->best[0]);
    return request->objective == OBJECTIVE_MEMORY ? (double)result->bound_bytes : result->bound_s;
}

// Whether `name` is among those in "vpp 2>4; stages".
static bool differs_in(const char *differs, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = differs; *at;) {
        if (strncmp(at, name, length) == 0 && strchr(" ;", at[length])) return true;
        at += strcspn(at, ";");
        at += strspn(at, "; ");
    }
    return false;
}

bool proof_is_excused(const struct search_result *result, const char *differs, double value)
{
    for (int i = 0; i < result->cut_count; i++) {
        const struct open_cut *open = &result->cuts[i];
        if (value >= open->bound_s && differs_in(differs, cut_name(open->cut))) return true;
    }
    return false;
}

double proof_slack(const struct search_request *request)
{
    return request->objective == OBJECTIVE_MEMORY ? 0.5 : 1e-9;
}

static bool same_stages(struct arena *arena, const struct proof_question *question,
                        const struct parallel *a, const struct parallel *b)
{
    const int *one = winner_stages(arena, question, a), *other = winner_stages(arena, question, b);
    if (!one || !other || a->degree[AXIS_PP] != b->degree[AXIS_PP]) return false;
    return memcmp(one, other, (size_t)a->degree[AXIS_PP] * sizeof *one) == 0;
}

// What was pinned that the winner has otherwise: to that the violation belongs.
static const char *beaten_by(struct arena *arena, const struct pins *pins,
                             const struct parallel *winner, bool stages_differ)
{
    const char *text = "";
    for (int i = 0; i < CHOICE_COUNT && winner; i++) {
        enum choice choice = (enum choice)i;
        struct int_range range = pins_get(pins, choice);
        int64_t value = choice_value(winner, choice);
        if (!range.set || (value >= range.low && value <= range.high)) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "+" : "", choice_name(choice));
    }
    if (stages_differ) text = arena_print(arena, "%s%sstages", text, *text ? "+" : "");
    return text;
}

const char *proof_differences(struct arena *arena, const struct proof_question *question,
                              const struct parallel *a, const struct parallel *b)
{
    const char *text = "";
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        int64_t one = choice_value(a, choice), other = choice_value(b, choice);
        if (one == other) continue;
        text = arena_print(arena, "%s%s%s %s>%s", text, *text ? "; " : "", choice_name(choice),
                           choice_text(arena, choice, one), choice_text(arena, choice, other));
    }
    if (!same_stages(arena, question, a, b))
        text = arena_print(arena, "%s%sstages", text, *text ? "; " : "");
    return text;
}

// Of a plan where nothing is said to fit: what of it no search goes through by itself.
static const char *unsearched(struct arena *arena, const struct proof_question *question,
                              const struct parallel *plan, const struct pins *narrow)
{
    static const enum choice CHOICES[] = {CHOICE_OFFLOAD,      CHOICE_OVERLAP,   CHOICE_PASSES,
                                          CHOICE_BUCKET_BYTES, CHOICE_RECOMPUTE, CHOICE_ATTENTION,
                                          CHOICE_IN_FLIGHT,    CHOICE_ZERO_GROUP};
    const struct pins *own = &question->request.pins;
    const char *text = "";
    for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
        struct int_range pin = pins_get(narrow, CHOICES[i]);
        if (!pin.set || pins_get(own, CHOICES[i]).set || choice_value(plan, CHOICES[i]) == 0)
            continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "; " : "", choice_name(CHOICES[i]));
    }
    bool split = narrow->stage_layers_count > 0 && own->stage_layers_count == 0;
    return split ? arena_print(arena, "%s%sstages", text, *text ? "; " : "") : text;
}

const char *proof_beside(struct arena *arena, const struct proof_question *question,
                         const char *differs, const struct parallel *plan)
{
    const struct pins *pins = &question->request.pins;
    bool split = plan->stage_layers_count > 0 && pins->stage_layers_count == 0;
    // Groups at a stage of ZeRO at which the stack's users have none.
    bool grouped = plan->zero_group > 0 && !pins_get(pins, CHOICE_ZERO_GROUP).set &&
                   !(question->request.stack->zero_stages_grouped >> plan->zero & 1);
    if (split && !differs_in(differs, "stages"))
        differs = arena_print(arena, "%s%sstages", differs, *differs ? "; " : "");
    if (grouped && !differs_in(differs, "zero_group"))
        differs = arena_print(arena, "%s%szero_group", differs, *differs ? "; " : "");
    return differs;
}

// The names in "vpp 2>4; stages", where they are few.
static const char *names_of(struct arena *arena, const char *differs)
{
    enum { FEW = 3 };
    const char *names = "";
    int count = 0;
    for (const char *at = differs; *at; count++) {
        names = arena_print(arena, "%s%s%.*s", names, count ? "+" : "", (int)strcspn(at, " ;"), at);
        at += strcspn(at, ";");
        at += strspn(at, "; ");
    }
    return count == 0 ? "same" : count <= FEW ? names : "far";
}

const char *proof_class(struct arena *arena, const struct proof_question *question,
                        const struct parallel *a, const struct parallel *b)
{
    return names_of(arena, proof_differences(arena, question, a, b));
}

static void count_class(struct proof_counts *counts, const char *class)
{
    counts->violations++;
    for (int i = 0; i < counts->class_count; i++) {
        if (strcmp(counts->classes[i].name, class) == 0) {
            counts->classes[i].count++;
            return;
        }
    }
    if (counts->class_count == PROOF_CLASSES_MOST) return;
    snprintf(counts->classes[counts->class_count].name, sizeof counts->classes->name, "%s", class);
    counts->classes[counts->class_count++].count = 1;
}

void proof_violation(struct arena *arena, const struct proof_report *report, const char *class,
                     const char *text)
{
    count_class(report->counts, class);
    report->line(report->context,
                 arena_print(arena, "VIOLATION %s: %s | %s", class, text, report->place));
}

// How far `less` is below `more`, as people read it.
static const char *gap_text(struct arena *arena, const struct search_request *request, double more,
                            double less)
{
    const char *unit = request->objective == OBJECTIVE_MEMORY ? "bytes" : "s";
    if (isinf(more)) return arena_print(arena, "nothing fits, but %.9g %s", less, unit);
    return arena_print(arena, "%+.3f %%, %.9g > %.9g %s", 100 * (less / more - 1), more, less,
                       unit);
}

// The answer of the narrower of two questions must not be below what the wider one claims.
static void compare(const struct proof_trial *trial, const char *class, const struct pins *wide,
                    const struct search_result *wide_answer, const struct pins *narrow,
                    const struct search_result *narrow_answer, bool exhaustive)
{
    struct arena *arena = trial->arena;
    const struct search_request *request = &trial->question->request;
    double claim = proof_claim(request, wide_answer), value = proof_value(request, narrow_answer);
    if (!(value < claim - proof_slack(request))) return;
    const struct candidate *winner = wide_answer->best_count ? &wide_answer->best[0] : NULL;
    const struct candidate *better = &narrow_answer->best[0];
    for (int i = 0; i < narrow_answer->best_count; i++) {
        if (proof_plan_value(request, &narrow_answer->best[i]) <= value)
            better = &narrow_answer->best[i];
    }
    const char *differs =
        winner ? proof_differences(arena, trial->question, &winner->parallel, &better->parallel)
               : unsearched(arena, trial->question, &better->parallel, narrow);
    differs = proof_beside(arena, trial->question, differs, &better->parallel);
    if (proof_is_excused(wide_answer, differs, value)) {
        trial->report->counts->excused++;
        return;
    }
    bool stages_differ = winner && narrow->stage_layers_count > 0 &&
                         !same_stages(arena, trial->question, &winner->parallel, &better->parallel);
    const char *by = beaten_by(arena, narrow, winner ? &winner->parallel : NULL, stages_differ);
    if (!*by && winner)
        by = proof_class(arena, trial->question, &winner->parallel, &better->parallel);
    if (*by) class = arena_print(arena, "%.*s:%s", (int)strcspn(class, ":"), class, by);
    bool proven = wide_answer->status != SEARCH_FEASIBLE;
    const char *text = arena_print(arena, "%s%s | differs: %s | %s | %s",
                                   gap_text(arena, request, claim, value), proven ? "" : " (bound)",
                                   differs, question_command(arena, trial->question, wide, false),
                                   question_command(arena, trial->question, narrow, exhaustive));
    proof_violation(arena, trial->report, proven ? class : arena_print(arena, "bound:%s", class),
                    text);
}

// A plan that is shown, pinned back, is itself.
static void check_back(const struct proof_trial *trial, const struct candidate *winner,
                       const struct pins *pins, bool accepted, const struct search_result *back)
{
    struct arena *arena = trial->arena;
    const char *own =
        question_command(arena, trial->question, &trial->question->request.pins, false);
    const char *command = question_command(arena, trial->question, pins, false);
    const char *class = NULL, *text = "";
    if (!accepted || back->best_count == 0) {
        class = accepted ? "back:unfit" : "back:refused";
    } else {
        const struct candidate *found = &back->best[0];
        const char *differs =
            proof_differences(arena, trial->question, &winner->parallel, &found->parallel);
        double closed = found->closed_form_s / winner->closed_form_s - 1;
        double step = found->cost.step_s / winner->cost.step_s - 1;
        if (*differs)
            class = "back:other";
        else if (fabs(closed) > 1e-12)
            class = "back:closed-form";
        else if (fabs(step) > 1e-12)
            class = "back:events";
        text = arena_print(arena, "closed form %+.3g %%, events %+.3g %%, differs: %s",
                           100 * closed, 100 * step, differs);
    }
    if (class)
        proof_violation(arena, trial->report, class,
                        arena_print(arena, "%s | %s | %s", text, own, command));
}

// One pin of this kind, drawn until one is accepted.
static void check_pins(const struct proof_trial *trial, enum pins_kind kind)
{
    enum { TRIES = 8 };
    const struct search_result *answer = &trial->answer;
    int shown = kind == PINS_SHOWN && answer->best_count > 1
                    ? draw_int(trial->draw, 1, answer->best_count - 1)
                    : 0;
    const struct candidate *plan = answer->best_count ? &answer->best[shown] : NULL;
    const struct parallel *winner = plan ? &plan->parallel : NULL;
    bool is_back = kind == PINS_BACK || kind == PINS_SHOWN;
    struct arena *arena = trial->arena;
    const struct pins *own = &trial->question->request.pins;
    for (int i = 0; i < TRIES; i++) {
        struct pins pins;
        const char *keys;
        struct search_result found = {0};
        if (!pins_draw(arena, trial->draw, kind, trial->question, winner, &pins, &keys)) continue;
        pins.supposed = !is_back && draw_int(trial->draw, 0, 3) == 0;
        bool accepted = proof_ask(arena, trial->question, &pins, false, &found);
        if (!accepted && !is_back) continue;
        trial->report->counts->checks++;
        if (is_back) check_back(trial, plan, &pins, accepted, &found);
        if (!accepted) return;
        const char *class = arena_print(arena, "%s:%s", pins_kind_name(kind), keys);
        if (kind == PINS_LIFT) compare(trial, class, &pins, &found, own, answer, false);
        if (kind != PINS_LIFT) compare(trial, class, own, answer, &pins, &found, false);
        return;
    }
}

// Pruned and exhaustive answers are one.
static void check_exhaustive(const struct proof_trial *trial)
{
    const struct search_request *request = &trial->question->request;
    struct search_result found = {0};
    const struct pins *own = &request->pins;
    trial->report->counts->checks++;
    if (!proof_ask(trial->arena, trial->question, own, true, &found)) return;
    compare(trial, "exhaustive", own, &trial->answer, own, &found, true);
    compare(trial, "exhaustive:misses", own, &found, own, &trial->answer, false);
}

static bool are_any(const struct pins *pins)
{
    for (int i = 0; i < CHOICE_COUNT; i++)
        if (pins_get(pins, (enum choice)i).set) return true;
    return false;
}

static void try_pins(const struct proof_trial *trial)
{
    static const enum pins_kind KINDS[] = {PINS_BACK,  PINS_SHOWN, PINS_MOVE,   PINS_NEAR,
                                           PINS_NEAR,  PINS_ONE,   PINS_STAGES, PINS_TWO,
                                           PINS_RANGE, PINS_FORBID};
    bool small = trial->answer.considered_count < trial->report->exhaustive_most;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        check_pins(trial, KINDS[i]);
    if (small) check_exhaustive(trial);
    check_pins(trial, are_any(&trial->question->request.pins) ? PINS_LIFT : PINS_ONE);
}

void proof_try(struct arena *arena, struct draw *draw, const struct proof_question *question,
               const struct proof_report *report)
{
    struct proof_trial trial = {arena, draw, question, report, {0}};
    struct proof_counts *counts = report->counts;
    double start_s = clock_s();
    int violations = counts->violations;
    counts->questions++;
    if (!proof_ask(arena, question, &question->request.pins, false, &trial.answer)) {
        counts->refused++;
        return;
    }
    bool fits = trial.answer.status != SEARCH_NOTHING_FITS;
    counts->answered += fits;
    counts->empty += !fits;
    counts->proven += trial.answer.status == SEARCH_OPTIMAL;
    counts->certain += trial.answer.status != SEARCH_FEASIBLE;
    double taken_s = clock_s() - start_s;
    if (taken_s > counts->slowest_s) counts->slowest_s = taken_s;
    try_pins(&trial);
    proof_try_oracle(arena, draw, question, &trial.answer, report);
    counts->beaten += counts->violations > violations;
    counts->seconds += clock_s() - start_s;
}
