#pragma once
#include "validation/fit_terms.h"
#include "validation/trial.h"

// Constants from measured runs. Few constants a device, a stack and a kind of fabric
// (fit_terms.h), each with a prior (its measured, published or estimated value, and how far that
// may be off); rows of all families weigh in; none a model or a row. The estimate is that of
// fit_solve.h. What the rows leave open is chosen by the search at the priors, and once more at the
// fitted constants.
//
// A family of n rows weighs as n^(1 - FIT_FAMILY_EXPONENT) rows, because its runs err alike.
// Whole families are left out in turn, and what is predicted then is the error that an unseen
// family may expect. Families of one source differ in no more than the model, so that sources (the
// first word of the family's name) are left out as well; and whole devices, which is what a device
// may expect that nobody has measured; and whole software, which then has the priors of its stack.

#define FIT_FAMILY_EXPONENT 0.5

enum fit_leave_out {
    FIT_LEAVE_FAMILY,
    FIT_LEAVE_SOURCE,
    FIT_LEAVE_DEVICE,
    FIT_LEAVE_SOFTWARE,
    FIT_LEAVE_COUNT
};
const char *fit_leave_out_name(enum fit_leave_out what);  // "family", "source", ...

struct fit_options {
    const char *tiers;   // rows of these are fitted, all are predicted
    const bool *fitted;  // or these, one a trial; NULL: by their tier
    // Constants start from the values that they have, not from what they were before any run;
    // fabrics stay as they are. What corrects shipped constants by a few runs (anchor.h).
    bool from_values;
    unsigned leave_out;  // bit per enum fit_leave_out
    enum question_detail detail;
    void (*progress)(void *context, const char *what, int done, int count);  // may be NULL
    void *progress_context;
};

struct fit_constant {
    enum constant_owner owner;
    const char *owner_name;
    const char *key;
    double prior, spread;  // of the log of the value
    enum provenance_kind prior_kind;
    double value;   // fitted
    double moved;   // from the prior, in spreads
    int row_count;  // rows whose step depends on it
    bool at_bound;
};

struct fit_prediction {
    const struct row *row;
    bool fitted;                         // its step was fitted; else only predicted
    double prior_s, step_s;              // predicted with the priors and with the fitted constants
    double left_out_s[FIT_LEAVE_COUNT];  // with constants fitted without its family, ...; 0: was
                                         // not asked
};

struct fit_result {
    struct fit_constant *constants;  // in the order of devices, stacks and fabrics
    int constant_count;
    struct fit_prediction *predictions;  // one an answered row with a measured step, in their order
    int prediction_count;
    int row_count, family_count;  // fitted ones
    int choice_count;             // rows that the search answered otherwise at the fitted constants
    bool converged;
};

// Of trials that were asked. False and ERR_INPUT when none to be fitted can be answered. Lives in
// `arena`.
MUST_CHECK bool fit_trials(struct arena *arena, const struct trials *trials,
                           const struct fit_options *options, struct fit_result *result,
                           struct err *err);

// The same of rows.
MUST_CHECK bool fit_run(struct arena *arena, const struct rows *rows,
                        const struct fit_options *options, struct fit_result *result,
                        struct err *err);
