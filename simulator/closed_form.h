#pragma once
#include "cost_models/step.h"

// The step in closed form: the schedule's duration formula, the part of the gradient reduction and
// parameter gathering that no compute hides, the update. Reads the same priced program as the event
// engine and agrees with it to 1 % mean, 2 % worst (tests/simulator/test_closed_form.c).
struct cost closed_form(const struct step_price *price);

// The paths through a pipeline that were asked for last: a search asks of many plans that differ
// only in what comes once a step. `known` is false at first; the arrays `class_of` and `runs` of
// prices are told apart by their addresses. More classes and ends than have room are not kept.
enum { CLOSED_FORM_CLASSES = 32, CLOSED_FORM_ENDS = 1024 };
struct closed_form_paths {
    bool known;
    enum schedule_kind schedule;
    struct schedule_shape shape;
    double hop_s;
    bool hop_overlapped;
    const int *class_of;
    const struct stage_runs *runs;
    int class_count;
    struct chunk_times times[CLOSED_FORM_CLASSES];
    double end_s[2 * CLOSED_FORM_ENDS];  // and behind them how long stages waited
};
struct cost closed_form_after(struct closed_form_paths *paths, const struct step_price *price);
