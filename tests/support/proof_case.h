#pragma once
#include "tests/support/proof.h"

// Questions of tests that name them, and their answers. What is wrong fails the test.

struct question_words proof_words(const char *model, const char *cluster, const char *stack,
                                  int64_t seq_len, int64_t global_batch);  // bf16, AdamW
struct proof_question proof_make(struct arena *arena, const struct question_words *words);
struct search_result proof_find(struct arena *arena, const struct proof_question *question,
                                const struct pins *pins, bool exhaustive);
// The narrower answer is not below what the wider one claims.
void assert_not_beaten(const struct proof_question *question, const struct search_result *wide,
                       const struct search_result *narrow);
