#include "tests/support/run_case.h"

#include "executor/half.h"

#include <math.h>
#include <string.h>

// How far a run in 16 bits is from one in more.

static const struct run_tensor *find(const struct run_outcome *outcome, const char *key)
{
    for (int i = 0; i < outcome->tensor_count; i++) {
        if (strcmp(outcome->tensors[i].key, key) == 0) return &outcome->tensors[i];
    }
    return NULL;
}

static int64_t elements_of(const struct run_tensor *tensor)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->sizes[i];
    return elements;
}

// Where an element of one is in the other: they are padded to other sizes.
static int64_t place_in(const struct run_tensor *other, const struct run_tensor *tensor,
                        int64_t element)
{
    int64_t at = 0, index[TENSOR_RANK_MAX];
    for (int i = tensor->rank - 1; i >= 0; i--) {
        index[i] = element % tensor->sizes[i];
        element /= tensor->sizes[i];
    }
    for (int i = 0; i < tensor->rank; i++)
        at = at * other->sizes[i] + index[i];
    return at;
}

double run_outcome_error(const struct run_outcome *expected, const struct run_outcome *found,
                         const char **worst)
{
    double most = 0, least = 0.01 * expected->norm[expected->step_count - 1];
    *worst = "nothing";
    for (int t = 0; t < expected->tensor_count; t++) {
        const struct run_tensor *tensor = &expected->tensors[t], *other = find(found, tensor->key);
        if (strncmp(tensor->key, "gradient ", 9) != 0) continue;
        double size = 0, differs = other ? 0 : HUGE_VAL;
        for (int64_t e = 0; other && e < elements_of(tensor); e++) {
            double a = tensor->values[e], b = other->values[place_in(other, tensor, e)];
            size += a * a;
            differs += (a - b) * (a - b);
        }
        double error = sqrt(differs) / fmax(sqrt(size), least);
        if (isnan(error)) error = HUGE_VAL;
        if (error > most) *worst = tensor->key;
        most = fmax(most, error);
    }
    return most;
}

const char *run_outcome_rounding(struct arena *arena, const struct run_outcome *found,
                                 enum precision precision)
{
    for (int t = 0; t < found->tensor_count; t++) {
        const struct run_tensor *rounded = &found->tensors[t];
        if (strncmp(rounded->key, "rounded ", 8) != 0) continue;
        const struct run_tensor *weight =
            find(found, arena_print(arena, "weight %s", rounded->key + 8));
        if (!weight) return arena_print(arena, "%s: nobody updates it", rounded->key);
        for (int64_t e = 0; e < elements_of(weight); e++) {
            float value = (float)weight->values[e];
            float wanted = precision == PRECISION_FP16 ? fp16_widen(fp16_round(value))
                                                       : bf16_widen(bf16_round(value));
            if (rounded->values[e] == (double)wanted) continue;
            return arena_print(arena, "%s, element %lld: %.9g of %.9g", rounded->key, (long long)e,
                               rounded->values[e], weight->values[e]);
        }
    }
    return NULL;
}
