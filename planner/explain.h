#pragma once
#include "planner/choice.h"

// Why a choice lost: the best plan that has it, and where its time goes beside the winner's.

enum { EXPLANATION_TERM_MAX = 12 };

struct explanation_term {
    const char *name;          // "compute", "tensor parallel", "bubble", ...
    double winner_s, other_s;  // the terms of a plan sum to its step_s
};

struct explanation {
    bool possible;           // a legal plan has this choice
    bool fits;               // and it fits; else `other` is the one that misses by least
    bool is_winner;          // the winner itself has it
    const char *reason;      // impossible, or does not fit: why, one line
    struct candidate other;  // the best plan under that extra pin
    struct explanation_term terms[EXPLANATION_TERM_MAX];
    int term_count;
    const char *largest;  // the term that makes most of the difference; NULL: none does
    const char *text;     // the sentence: "tp 8 is 12.5 % slower, most of it update: +0.3 s"
};

// The explanation lives in `arena`. A choice that cannot be made is an answer, too (possible =
// false), and so is one where nothing fits: whether that does, with no winner beside it.
struct explanation explain_why(struct arena *arena, const struct search_request *request,
                               const struct search_result *result, enum choice choice,
                               int64_t wanted);

// The terms of one cost, in a fixed order, summing to step_s. Fills winner_s or other_s.
int explain_terms(const struct cost *winner, const struct cost *other,
                  struct explanation_term terms[EXPLANATION_TERM_MAX]);
