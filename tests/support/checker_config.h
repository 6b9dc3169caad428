#pragma once
#include "tests/support/checker.h"

#include <cjson/cJSON.h>

// Inside of tests/checker*.c: reading plain cJSON, and what the checker knows of a model, from its
// Hugging Face config alone.

void checker_violate(struct checker_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

const cJSON *checker_get(const cJSON *object, const char *key);
double checker_number(const cJSON *object, const char *key, double otherwise);
const char *checker_word(const cJSON *object, const char *key);  // "" when it is no text
bool checker_divides(double part, double whole);

struct checker_shape {
    double layers, modules;  // modules: of multi-token prediction, placed like layers
    double hidden, heads, kv_heads, ffn, vocab, head_dim;
    double experts, expert_ffn, sparse_layers;  // 0: a dense model
    bool gated, latent;                         // latent: attention through a low rank
};
struct checker_shape checker_shape_of(const cJSON *config);

// See checker_least_bytes.
double checker_plan_least_bytes(const cJSON *plan);

// tests/support/checker_choices.c: what is chosen beside degrees.
void checker_choices(const cJSON *plan, struct checker_result *result);
