#pragma once
#include "reports/whatif/whatif.h"

// The sentences around the table of `whatif`. All end in a newline but the first, and live in
// `arena`.

// What was asked: "llama-3-70b, seq 4096, batch 1024, bf16: 24 scenarios, 18 searched"
const char *whatif_head_text(struct arena *arena, const struct whatif *whatif);
// What all scenarios have in common: ", seq 4096, bf16".
const char *whatif_fixed_text(struct arena *arena, const struct whatif *whatif);
// How many do not fit or are impossible, and the reasons; "" where all fit.
const char *whatif_rejected_text(struct arena *arena, const struct whatif *whatif);
// How many sizes between those of the sweep were asked, and how many were left; "" where the sizes
// were listed one by one.
const char *whatif_between_text(struct arena *arena, const struct whatif *whatif);
// How many rows have a batch that is past what the optimizer is known to bear and that nobody
// named; "" where none has.
const char *whatif_past_text(struct arena *arena, const struct whatif *whatif);
// The answer to the question.
const char *whatif_answer_text(struct arena *arena, const struct whatif *whatif);
// "Next: meshwright plan ..." that makes the best row's plan; "" where there is none.
const char *whatif_next_text(struct arena *arena, const struct whatif *whatif,
                             const struct whatif_words *words);
// The least that a billion tokens cost on each kind of device; "" where there is one or no price.
const char *whatif_devices_text(struct arena *arena, const struct whatif *whatif);
// All times of a table, or of a plot, are in one unit, that of the longest.
struct whatif_unit {
    const char *name;
    double unit_s;
};
struct whatif_unit whatif_unit(const struct whatif *whatif);
