#include "tests/support/drawn_export.h"

#include "tests/support/test.h"

static void give_way(struct draw *draw, const struct refusal *refusal, struct parallel *parallel,
                     struct workload *workload)
{
    static const struct {
        const char *fact;
        enum choice choice;
        const char *values[4];
    } OTHERS[] = {
        {"attention", CHOICE_ATTENTION, {"flash", "flash", "unfused", "flash"}},
        {"recompute", CHOICE_RECOMPUTE, {"none", "full", "selective", "none"}},
        {"zero", CHOICE_ZERO, {"0", "1", "2", "3"}},
        {"zero_group", CHOICE_ZERO_GROUP, {"0", "0", "0", "0"}},
        {"zero_gradients", CHOICE_ZERO_GRADIENTS, {"0", "0", "0", "0"}},
        {"zero_parameters", CHOICE_ZERO_PARAMETERS, {"0", "0", "0", "0"}},
        {"cp_kind", CHOICE_CP_KIND, {"ring", "allgather", "ulysses", "ring"}},
        {"offload.optimizer", CHOICE_OFFLOAD, {"none", "none", "optimizer", "none"}},
        {"offload.activations", CHOICE_OFFLOAD, {"none", "none", "optimizer", "none"}},
        {"bucket_bytes", CHOICE_BUCKET_BYTES, {"0", "0", "0", "0"}},
        {"sp", CHOICE_SP, {"on", "off", "on", "off"}},
        {"etp", CHOICE_ETP, {"1", "1", "1", "1"}},
    };
    struct err err = {0};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        int64_t value;
        if (strcmp(OTHERS[i].fact, refusal->fact) != 0) continue;
        const char *text = OTHERS[i].values[draw_int(draw, 0, 3)];
        assert_true(choice_parse(OTHERS[i].choice, text, &value, &err));
        choice_put(parallel, OTHERS[i].choice, value);
        if (OTHERS[i].choice == CHOICE_RECOMPUTE) parallel->recompute_layers = -1;
    }
    unsigned bit;
    if (strncmp(refusal->fact, "overlap.", 8) == 0 && overlap_parse(refusal->fact + 8, &bit))
        parallel->overlap ^= bit;
    if (strcmp(refusal->fact, "precision") == 0) workload->precision = PRECISION_BF16;
    if (strcmp(refusal->fact, "optimizer") == 0) workload->optimizer = OPTIMIZER_ADAMW;
    if (strcmp(refusal->fact, "order") == 0) parallel_default_order(parallel);
    if (strcmp(refusal->fact, "schedule") == 0)
        parallel->schedule = parallel->vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    if (strcmp(refusal->fact, "pp") == 0) {
        // The stages become copies, each with its part of a larger batch.
        workload->global_batch *= parallel->degree[AXIS_PP];
        parallel->degree[AXIS_DP] *= parallel->degree[AXIS_PP];
        parallel->degree[AXIS_PP] = 1;
        parallel->stage_layers_count = 0;
    }
    if (strcmp(refusal->fact, "vpp") == 0 || strcmp(refusal->fact, "pp") == 0) {
        parallel->schedule = SCHEDULE_1F1B;
        parallel->vpp = 1;
    }
}

bool drawn_export(struct arena *arena, struct draw *draw, const struct exchange_target *target,
                  const struct random_question *question, struct drawn_export *exported)
{
    enum { TRIES = 12 };
    struct err err = {0};
    struct refusals refusals = {.count = 1};
    const struct stack *stack = stack_load(arena, target->stack, &err);
    assert_non_null(stack);
    exported->parallel = question->request.parallel;
    exported->parallel.passes = stack->passes;
    exported->workload = question->request.workload;
    const struct facts_request asked = {question->request.model, stack, &exported->workload,
                                        &exported->parallel, false};
    for (int i = 0; i < TRIES && refusals.count > 0; i++) {
        bool done = target_judge(arena, target, &asked, &exported->facts, &exported->settings,
                                 &refusals, &err);
        assert_true(done);
        for (int k = 0; k < refusals.count; k++)
            give_way(draw, &refusals.items[k], &exported->parallel, &exported->workload);
    }
    return refusals.count == 0;
}
