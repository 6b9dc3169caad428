#include "tests/support/proof_case.h"

#include "tests/support/test.h"

struct proof_question proof_make(struct arena *arena, const struct question_words *words)
{
    struct proof_question question;
    struct err err = {0};
    bool ok = question_make(arena, words, &question, &err);
    assert_string_equal(err.text, "");
    assert_true(ok);
    return question;
}

struct question_words proof_words(const char *model, const char *cluster, const char *stack,
                                  int64_t seq_len, int64_t global_batch)
{
    return (struct question_words){.model = model,
                                   .cluster = cluster,
                                   .stack = stack,
                                   .workload = {.seq_len = seq_len,
                                                .global_batch = global_batch,
                                                .precision = PRECISION_BF16,
                                                .optimizer = OPTIMIZER_ADAMW,
                                                .expert_imbalance = 1},
                                   .top = 5};
}

struct search_result proof_find(struct arena *arena, const struct proof_question *question,
                                const struct pins *pins, bool exhaustive)
{
    struct search_result result = {0};
    assert_true(proof_ask(arena, question, pins, exhaustive, &result));
    return result;
}

void assert_not_beaten(const struct proof_question *question, const struct search_result *wide,
                       const struct search_result *narrow)
{
    const struct search_request *request = &question->request;
    double claim = proof_claim(request, wide), value = proof_value(request, narrow);
    if (value < claim - proof_slack(request))
        fail_msg("%s: %.9g claimed, %.9g found", question->command, claim, value);
}
