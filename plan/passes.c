#include "plan/passes.h"

#include <string.h>

const char *pass_text(struct arena *arena, unsigned passes)
{
    if ((passes & PASS_ALL) == PASS_ALL) return "all";
    const char *text = "";
    for (int i = 0; i < PASS_COUNT; i++) {
        if (!(passes >> i & 1)) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "," : "", pass_name((enum pass)i));
    }
    return *text ? text : "none";
}

static bool parse_word(const char *word, size_t length, unsigned *passes)
{
    for (int i = 0; i < PASS_COUNT; i++) {
        const char *name = pass_name((enum pass)i);
        if (strlen(name) != length || strncmp(name, word, length) != 0) continue;
        *passes |= 1u << i;
        return true;
    }
    return false;
}

bool pass_parse(const char *text, unsigned *passes)
{
    *passes = 0;
    if (strcmp(text, "none") == 0) return true;
    if (strcmp(text, "all") == 0) return *passes = PASS_ALL, true;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        if (!parse_word(word, length, passes)) return false;
        word += length;
        if (!*word) return true;
    }
}

bool pass_is_on(const struct parallel *parallel, enum pass pass)
{
    return parallel->passes >> pass & 1;
}

unsigned passes_overlap(const struct parallel *parallel)
{
    unsigned overlap = parallel->overlap;
    if (!pass_is_on(parallel, PASS_STREAMS)) return 0;
    if (!pass_is_on(parallel, PASS_LATENCY_HIDING)) overlap &= OVERLAP_GRAD_REDUCE | OVERLAP_PP;
    if (!pass_is_on(parallel, PASS_BUCKETS)) overlap &= ~(unsigned)OVERLAP_GRAD_REDUCE;
    return overlap;
}
