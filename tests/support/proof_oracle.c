#include "tests/support/oracle_bound.h"
#include "tests/support/proof.h"

#include <math.h>
#include <string.h>

struct oracle_trial {
    struct arena *arena;
    const struct proof_question *question;
    const struct search_result *answer;
    const struct proof_report *report;
    struct oracle_question oracle;
};

// A question, and the plan whose values what is fixed has.
struct wish {
    const struct proof_question *question;
    const struct parallel *winner;
};

// What the question's pins leave, and what search does not choose as it is.
static bool is_asked_for(const void *context, const struct parallel *parallel)
{
    const struct wish *wish = context;
    const struct pins *pins = &wish->question->request.pins;
    for (int i = 0; i < CHOICE_COUNT && wish->winner; i++) {
        enum choice choice = (enum choice)i;
        bool same = choice_value(parallel, choice) == choice_value(wish->winner, choice);
        if (wish->question->fixed >> i & 1 && !same) return false;
    }
    int count = pins->stage_layers_count;
    if (!pins_allow_all(pins, parallel, NULL)) return false;
    if (count == 0) return true;
    return parallel->stage_layers_count == count &&
           memcmp(parallel->stage_layers, pins->stage_layers, (size_t)count * sizeof(int)) == 0;
}

static struct oracle_question oracle_of(const struct wish *wish)
{
    const struct proof_question *question = wish->question;
    const struct search_request *request = &question->request;
    const struct int_range offload = pins_get(&request->pins, CHOICE_OFFLOAD);
    return (struct oracle_question){
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = request->workload,
        .graph = question->graph,
        .offloads = request->pins.search_offload || (offload.set && offload.low != 0),
        .allows = is_asked_for,
        .context = wish,
    };
}

static const char *own_command(const struct oracle_trial *trial)
{
    const struct pins *own = &trial->question->request.pins;
    return question_command(trial->arena, trial->question, own, false);
}

static void fail(const struct oracle_trial *trial, const char *class, double found, double least,
                 const char *what)
{
    const char *text = arena_print(trial->arena, "%.9g is below %.9g %s | %s", found, least, what,
                                   own_command(trial));
    proof_violation(trial->arena, trial->report, class, text);
}

// Nothing of an answer is better than what the oracle knows to be the least.
static void check_plan(const struct oracle_trial *trial, const struct parallel *parallel,
                       double closed_form_s, double step_s, int64_t bytes)
{
    const struct oracle_question *oracle = &trial->oracle;
    double least_s = oracle_plan_s(oracle, parallel), least_bytes = oracle_bytes(oracle);
    if (closed_form_s < least_s) fail(trial, "oracle:closed-form", closed_form_s, least_s, "s");
    if (step_s < least_s) fail(trial, "oracle:events", step_s, least_s, "s");
    if ((double)bytes < least_bytes)
        fail(trial, "oracle:memory", (double)bytes, least_bytes, "bytes");
}

static void check_answer(const struct oracle_trial *trial)
{
    const struct search_result *answer = trial->answer;
    double least_s = INFINITY;
    for (int i = 0; i < answer->best_count; i++) {
        const struct candidate *plan = &answer->best[i];
        check_plan(trial, &plan->parallel, plan->closed_form_s, plan->cost.step_s,
                   plan->memory.reserved_bytes);
        least_s = fmin(least_s, plan->closed_form_s);
    }
    double mfu = oracle_mfu(&trial->oracle, least_s);
    if (answer->best_count > 0 && mfu > 1 + 1e-9)
        fail(trial, "oracle:mfu", 1, mfu, "model flop over peak flop");
    if (trial->question->request.objective == OBJECTIVE_MEMORY) return;
    bool bounded = !(answer->bound_s > least_s * (1 + 1e-12));
    if (answer->best_count > 0 && !bounded)
        fail(trial, "oracle:bound", least_s, answer->bound_s, "s, its own bound");
}

static void check_sample(const struct oracle_trial *trial, const struct parallel *drawn)
{
    const struct search_request *request = &trial->question->request;
    const struct search_result *answer = trial->answer;
    struct arena *arena = trial->arena;
    struct oracle_price price = oracle_price(&trial->oracle, drawn);
    double claim = proof_claim(request, answer);
    if (price.closed_form_s <= 0) return;
    check_plan(trial, drawn, price.closed_form_s, price.step_s, price.reserved_bytes);
    trial->report->counts->samples++;
    bool by_memory = request->objective == OBJECTIVE_MEMORY;
    double value = by_memory ? (double)price.reserved_bytes : price.closed_form_s;
    if (!price.fits || !(value < claim - proof_slack(request))) return;
    const char *differs = "all", *class = "all";
    if (answer->best_count > 0) {
        const struct parallel *winner = &answer->best[0].parallel;
        differs = proof_differences(arena, trial->question, winner, drawn);
        class = proof_class(arena, trial->question, winner, drawn);
    }
    differs = proof_beside(arena, trial->question, differs, drawn);
    if (proof_is_excused(answer, differs, value)) {
        trial->report->counts->excused++;
        return;
    }
    struct pins pins = request->pins;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        int64_t chosen = choice_value(drawn, (enum choice)i);
        pins_set(&pins, (enum choice)i, chosen, chosen);
    }
    pins.stage_layers = drawn->stage_layers;
    pins.stage_layers_count = drawn->stage_layers_count;
    const char *text =
        arena_print(arena, "%+.3f %%, %.9g > %.9g | differs: %s | %s", 100 * (value / claim - 1),
                    claim, value, differs, question_command(arena, trial->question, &pins, false));
    proof_violation(arena, trial->report, arena_print(arena, "sample:%s", class), text);
}

void proof_try_oracle(struct arena *arena, struct draw *draw, const struct proof_question *question,
                      const struct search_result *answer, const struct proof_report *report)
{
    const struct parallel *winner = answer->best_count ? &answer->best[0].parallel : NULL;
    const struct wish wish = {question, winner};
    const struct oracle_trial trial = {arena, question, answer, report, oracle_of(&wish)};
    check_answer(&trial);
    for (int i = 0; i < report->samples; i++) {
        struct parallel drawn;
        if (oracle_draw(arena, draw, &trial.oracle, winner, &drawn)) check_sample(&trial, &drawn);
    }
}
