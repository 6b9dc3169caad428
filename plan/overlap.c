#include "plan/parallel.h"

#include <string.h>

static const struct {
    enum overlap bit;
    const char *name;
} OVERLAPS[] = {
    {OVERLAP_GRAD_REDUCE, "grad-reduce"},
    {OVERLAP_PARAM_GATHER, "param-gather"},
    {OVERLAP_TP, "tp"},
    {OVERLAP_PP, "pp"},
    {OVERLAP_CP, "cp"},
    {OVERLAP_EP, "ep"},
};

enum { OVERLAP_COUNT = sizeof OVERLAPS / sizeof *OVERLAPS };

const char *overlap_text(struct arena *arena, unsigned overlap)
{
    const char *text = "";
    for (int i = 0; i < OVERLAP_COUNT; i++) {
        if (!(overlap & (unsigned)OVERLAPS[i].bit)) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "," : "", OVERLAPS[i].name);
    }
    return *text ? text : "none";
}

static bool overlap_bit(const char *word, size_t length, unsigned *overlap)
{
    for (int i = 0; i < OVERLAP_COUNT; i++) {
        const char *name = OVERLAPS[i].name;
        if (strlen(name) != length || strncmp(name, word, length) != 0) continue;
        *overlap |= (unsigned)OVERLAPS[i].bit;
        return true;
    }
    return false;
}

bool overlap_parse(const char *text, unsigned *overlap)
{
    *overlap = 0;
    if (strcmp(text, "none") == 0) return true;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        if (!overlap_bit(word, length, overlap)) return false;
        word += length;
        if (!*word) return true;
    }
}
