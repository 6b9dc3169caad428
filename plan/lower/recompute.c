#include "models/graph.h"
#include "plan/parallel.h"

#include <string.h>

const char *recompute_words(struct arena *arena, enum recompute recompute, unsigned classes)
{
    if (recompute != RECOMPUTE_SELECTIVE || classes == 0) return recompute_name(recompute);
    const char *text = "";
    for (int class = OP_CLASS_NONE + 1; class < OP_CLASS_COUNT; class ++) {
        if (!(classes >> class & 1)) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "," : "",
                           op_class_name((enum op_class) class));
    }
    return text;
}

static bool add_class(const char *word, size_t length, unsigned *classes)
{
    for (int class = OP_CLASS_NONE + 1; class < OP_CLASS_COUNT; class ++) {
        const char *name = op_class_name((enum op_class) class);
        if (strlen(name) != length || strncmp(name, word, length) != 0) continue;
        *classes |= 1u << class;
        return true;
    }
    return false;
}

bool recompute_parse(const char *text, enum recompute *recompute, unsigned *classes)
{
    *classes = 0;
    if (recompute_from_name(text, recompute)) return true;
    *recompute = RECOMPUTE_SELECTIVE;
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        if (!add_class(word, length, classes)) return false;
        word += length;
        if (!*word) break;
    }
    // The attention core alone is what "selective" means.
    if (*classes == 1u << OP_CLASS_ATTENTION) *classes = 0;
    return true;
}
