#pragma once
#include "plan/choice.h"

// How a choice is written that is neither a number nor one name of an enum.
struct choice_form {
    const char *(*text)(struct arena *arena, int64_t value);
    bool (*parse)(const char *text, int64_t *value);
    const char *(*words)(struct arena *arena);  // "none|a|b"; NULL: words have parts of their own
    int64_t (*get)(const struct parallel *parallel);
    void (*put)(struct parallel *parallel, int64_t value);
    int alone_count;        // the first words, which stand alone; the others are joined by commas
    const char *written;    // how a command line may say it, where `words` is NULL; NULL: none, the
                            // open word, or words
    const char *open_word;  // leaves the choice to the search or to the stack; NULL: none does
    const char *fault;      // what a command line says of a list that is none
    const char *wanted;     // what a plan file says of it, behind "is "
};

extern const struct choice_form RECOMPUTE_FORM, OFFLOAD_FORM, LORA_FORM, OVERLAP_FORM, PASSES_FORM;
