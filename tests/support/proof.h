#pragma once
#include "tests/support/proof_pins.h"

// A question asked, its answer tried with pins: what the search says is proven must not be beaten
// by a search that is allowed less, or by one that leaves out no plan; and the winner with all its
// own values pinned is itself.

enum { PROOF_CHECKS = 12, PROOF_CLASSES_MOST = 512 };

// Counts, in memory that may be shared between processes.
struct proof_counts {
    int questions, refused, answered, proven, certain, empty, beaten, checks, samples, violations,
        excused, abandoned, crashed;
    struct {
        char name[80];
        int count;
    } classes[PROOF_CLASSES_MOST];
    int class_count;
    double seconds, slowest_s;
};

// One line a violation: its class, by how much, the two command lines.
struct proof_report {
    struct proof_counts *counts;
    void (*line)(void *context, const char *text);
    void *context;
    const char *place;       // "seed 1 question 17"
    double exhaustive_most;  // plans of a space that is still searched exhaustively
    int samples;             // plans drawn without the search
};

// Asks and tries PROOF_CHECKS pins.
void proof_try(struct arena *arena, struct draw *draw, const struct proof_question *question,
               const struct proof_report *report);

// The answer to a question with these pins. False where they are refused.
bool proof_ask(struct arena *arena, const struct proof_question *question, const struct pins *pins,
               bool exhaustive, struct search_result *result);
// What the answer's plan is compared by: seconds of the closed form, or bytes; the best of those
// shown. Infinity where nothing fits.
double proof_value(const struct search_request *request, const struct search_result *result);
// What it is said that no plan is below, but for those that proof_is_excused() names.
double proof_claim(const struct search_request *request, const struct search_result *result);
// Whether the answer says that a plan of this value may be better which differs from its best in
// these choices (proof_differences): one of them is cut from what was searched, and the plan is not
// below the bound of that cut.
bool proof_is_excused(const struct search_result *result, const char *differs, double value);
// More than this much less is a violation: a nanosecond, or a byte.
double proof_slack(const struct search_request *request);
// The choices in which two plans differ, "vpp 2>4; stages"; "" where they are the same.
const char *proof_differences(struct arena *arena, const struct proof_question *question,
                              const struct parallel *a, const struct parallel *b);
// The same with "stages" where the layers of the plan are not split as a search splits them, though
// those of the other may be split alike: neither is among the plans that were searched. And with
// "zero_group" where it shards in groups at a stage of ZeRO that the space has none for.
const char *proof_beside(struct arena *arena, const struct proof_question *question,
                         const char *differs, const struct parallel *plan);
// Their names, where they are few: "vpp+stages"; else "far", "same".
const char *proof_class(struct arena *arena, const struct proof_question *question,
                        const struct parallel *a, const struct parallel *b);
// The value of one plan.
double proof_plan_value(const struct search_request *request, const struct candidate *plan);
// tests/support/proof_oracle.c: the answer against bounds and draws that know nothing of the
// search.
void proof_try_oracle(struct arena *arena, struct draw *draw, const struct proof_question *question,
                      const struct search_result *answer, const struct proof_report *report);
void proof_violation(struct arena *arena, const struct proof_report *report, const char *class,
                     const char *text);
