#include "tests/support/checker_config.h"

#include <string.h>

// What is chosen beside degrees: legal for the model, and offered by the stack that shall run it.

static bool names(const cJSON *list, const char *name, size_t length)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        bool same = cJSON_IsString(item) && strlen(item->valuestring) == length &&
                    strncmp(item->valuestring, name, length) == 0;
        if (same) return true;
    }
    return false;
}

static void check_in_list(const cJSON *stack, const char *key, const char *name, size_t length,
                          struct checker_result *result)
{
    if (names(checker_get(stack, key), name, length)) return;
    checker_violate(result, "%.*s is not among the %s of the stack", (int)length, name, key);
}

// Words joined by commas, each in a list of the stack.
static void check_words(const cJSON *stack, const char *key, const char *words,
                        struct checker_result *result)
{
    const char *const free_of_choice[] = {"none", "all", ""};
    for (int i = 0; i < 3; i++) {
        if (strcmp(words, free_of_choice[i]) == 0) return;
    }
    while (*words) {
        size_t length = strcspn(words, ",");
        check_in_list(stack, key, words, length, result);
        words += length + (words[length] == ',');
    }
}

static void check_number(const cJSON *stack, const char *key, double value,
                         struct checker_result *result)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, checker_get(stack, key))
    {
        if (cJSON_IsNumber(item) && item->valuedouble == value) return;
    }
    checker_violate(result, "%g is not among the %s of the stack", value, key);
}

static bool is_word(const cJSON *object, const char *key, const char *word)
{
    return strcmp(checker_word(object, key), word) == 0;
}

static void check_stack(const cJSON *plan, struct checker_result *result)
{
    static const char *const AXES[] = {"tp", "cp", "ep", "etp", "dp", "pp"};
    const cJSON *parallel = checker_get(plan, "parallel"), *stack = checker_get(plan, "stack");
    const char *recompute = checker_word(parallel, "recompute");
    double zero = checker_number(parallel, "zero", -1);
    check_words(stack, "schedules", checker_word(parallel, "schedule"), result);
    check_words(stack, "attention", checker_word(parallel, "attention"), result);
    check_words(stack, "passes", checker_word(parallel, "passes"), result);
    check_number(stack, "zero_stages", zero, result);
    if (checker_number(parallel, "pp", 1) > 1) {
        check_number(stack, "zero_stages_with_pipeline", zero, result);
    }
    bool is_plain = strcmp(recompute, "selective") == 0 || strcmp(recompute, "full") == 0 ||
                    strcmp(recompute, "per-op") == 0;
    check_words(stack, is_plain ? "recompute" : "recompute_classes", recompute, result);
    if (checker_number(parallel, "cp", 1) > 1) {
        check_words(stack, "cp_kinds", checker_word(parallel, "cp_kind"), result);
    }
    for (size_t i = 0; i < sizeof AXES / sizeof *AXES; i++) {
        if (checker_number(parallel, AXES[i], 1) > 1) {
            check_in_list(stack, "axes", AXES[i], strlen(AXES[i]), result);
        }
    }
    // The stack's overlaps are one text.
    const char *may = checker_word(stack, "overlap"), *words = checker_word(parallel, "overlap");
    while (*words && strcmp(words, "none") != 0) {
        size_t length = strcspn(words, ",");
        const char *at = may;
        while (*at && !(strcspn(at, ",") == length && strncmp(at, words, length) == 0)) {
            at += strcspn(at, ",");
            at += *at == ',';
        }
        if (!*at) checker_violate(result, "the stack cannot overlap %.*s", (int)length, words);
        words += length + (words[length] == ',');
    }
}

static void check_experts(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel");
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    double ep = checker_number(parallel, "ep", 1), etp = checker_number(parallel, "etp", 1);
    double ranks = checker_number(parallel, "tp", 1) * checker_number(parallel, "cp", 1) *
                   checker_number(parallel, "dp", 1);
    if (shape.experts == 0 && ep * etp != 1) {
        checker_violate(result, "ep %g, etp %g without experts", ep, etp);
        return;
    }
    if (!checker_divides(ep * etp, ranks)) {
        checker_violate(result, "ep * etp = %g does not divide %g ranks", ep * etp, ranks);
    }
    if (shape.experts == 0) return;
    if (!checker_divides(ep, shape.experts)) {
        checker_violate(result, "ep %g and %g experts", ep, shape.experts);
    }
    if (!checker_divides(etp, shape.expert_ffn)) {
        checker_violate(result, "etp %g and experts of %g", etp, shape.expert_ffn);
    }
}

static void check_context(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel");
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    double cp = checker_number(parallel, "cp", 1), tp = checker_number(parallel, "tp", 1);
    double seq_len = checker_number(checker_get(plan, "workload"), "seq_len", 0);
    double parts = cp * (cJSON_IsTrue(checker_get(parallel, "sp")) ? tp : 1);
    if (!checker_divides(parts, seq_len)) {
        checker_violate(result, "a sequence of %g over %g ranks", seq_len, parts);
    }
    bool moves_heads = cp > 1 && is_word(parallel, "cp_kind", "ulysses");
    if (moves_heads && !checker_divides(cp * tp, shape.heads)) {
        checker_violate(result, "%g heads over tp * cp = %g", shape.heads, cp * tp);
    }
}

static void check_groups(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel");
    double group = checker_number(parallel, "zero_group", 0);
    double cp = checker_number(parallel, "cp", 1), dp = checker_number(parallel, "dp", 1);
    bool fits = checker_divides(cp, group) && checker_divides(group / cp, dp);
    if (group > 0 && !fits)
        checker_violate(result, "zero_group %g over dp %g, cp %g", group, dp, cp);
    static const char *const PARTS[] = {"zero_gradients", "zero_parameters"};
    double outer = group > 0 ? group : dp * cp, zero = checker_number(parallel, "zero", 0);
    for (int i = 0; i < 2; i++) {
        double part = checker_number(parallel, PARTS[i], 0);
        if (part == 0) continue;
        if (zero < 2 + i || !checker_divides(cp, part) || !checker_divides(part, outer))
            checker_violate(result, "%s %g of %g, cp %g, zero %g", PARTS[i], part, outer, cp, zero);
        outer = part;
    }
}

static void check_schedule(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel");
    double vpp = checker_number(parallel, "vpp", 0), pp = checker_number(parallel, "pp", 0);
    double batch = checker_number(checker_get(plan, "workload"), "global_batch", 0);
    double samples = checker_number(parallel, "dp", 1) * checker_number(parallel, "micro_batch", 1);
    bool is_interleaved = is_word(parallel, "schedule", "interleaved");
    bool is_v = is_word(parallel, "schedule", "zb-v"),
         is_searched = is_word(parallel, "schedule", "zb-h2");
    double in_flight = checker_number(parallel, "in_flight", 0);
    bool takes_cap =
        is_word(parallel, "schedule", "zb-auto") || (is_searched && in_flight == 2 * pp);
    if (is_v ? vpp != 2 : is_interleaved ? vpp < 2 : vpp != 1) {
        checker_violate(result, "%s with %g chunks", checker_word(parallel, "schedule"), vpp);
    }
    if ((is_v || is_interleaved) && pp < 2) {
        checker_violate(result, "%s on one stage", checker_word(parallel, "schedule"));
    }
    // Interleaving goes round in groups of as many micro-batches as stages (Narayanan et al. 2021).
    if (is_interleaved && !checker_divides(pp, batch / samples)) {
        checker_violate(result, "interleaved: %g micro-batches on %g stages", batch / samples, pp);
    }
    if (!(checker_number(parallel, "bucket_bytes", -1) >= 0)) {
        checker_violate(result, "bucket_bytes is no size");
    }
    if (in_flight < 0 || (in_flight > 0 && !takes_cap)) {
        checker_violate(result, "in_flight %g of %s", in_flight,
                        checker_word(parallel, "schedule"));
    }
}

// Virtual stage n stands on stage n, n + pp, ...; with two chunks in a V, there and back.
static void check_spans(const cJSON *plan, struct checker_result *result)
{
    const cJSON *parallel = checker_get(plan, "parallel"), *stages = checker_get(plan, "stages");
    struct checker_shape shape =
        checker_shape_of(checker_get(checker_get(plan, "model"), "config"));
    int pp = (int)checker_number(parallel, "pp", 0), vpp = (int)checker_number(parallel, "vpp", 0);
    bool is_v = is_word(parallel, "schedule", "zb-v");
    double next = 0;
    for (int n = 0; n < pp * vpp; n++) {
        int chunk = n / pp, stage = is_v && chunk % 2 ? pp - 1 - n % pp : n % pp;
        const cJSON *chunks = checker_get(cJSON_GetArrayItem(stages, stage), "chunks");
        const cJSON *span = cJSON_GetArrayItem(chunks, chunk);
        double first = checker_number(span, "first", -1), count = checker_number(span, "count", 0);
        if (first != next || count < 1) {
            checker_violate(result, "chunk %d of stage %d: %g blocks from %g, not from %g", chunk,
                            stage, count, first, next);
            return;
        }
        next += count;
    }
    // Embedding and head stand before and behind the layers.
    double all = shape.layers + shape.modules + 2;
    if (next != all) checker_violate(result, "chunks hold %g of %g blocks", next, all);
}

void checker_choices(const cJSON *plan, struct checker_result *result)
{
    check_stack(plan, result);
    check_experts(plan, result);
    check_context(plan, result);
    check_groups(plan, result);
    check_schedule(plan, result);
    check_spans(plan, result);
}
