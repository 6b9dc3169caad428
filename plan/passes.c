#include "plan/passes.h"

#include <string.h>

const char *pass_text(struct arena *arena, unsigned passes)
{
    const char *text = "";
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        if (!(passes >> pass & 1)) continue;
        text =
            arena_print(arena, "%s%s%s", text, *text ? "," : "", pass_name((enum pass)pass));
    }
    return *text ? text : "none";
}

static bool add_pass(const char *word, size_t length, unsigned *passes)
{
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        const char *name = pass_name((enum pass)pass);
        if (strlen(name) != length || strncmp(name, word, length) != 0) continue;
        *passes |= 1u << pass;
        return true;
    }
    return false;
}

bool pass_parse(const char *text, unsigned *passes)
{
    *passes = 0;
    if (strcmp(text, "none") == 0) return true;
    if (strcmp(text, "all") == 0) return *passes = (1u << PASS_COUNT) - 1, true;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        if (!add_pass(word, length, passes)) return false;
        word += length;
        if (!*word) return true;
    }
}
