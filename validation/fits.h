#pragma once
#include "validation/trial.h"

// Whether "fits" is right: of runs that ran, how many were said to fit, and of those that failed,
// how many were said not to. A plan that nothing can run does not fit.
//
// Few sources say why a run failed. Not every failure is one of memory, and of those that were not
// "does not fit" is no answer. Two kinds are told apart by the rows alone, whatever is predicted:
// what the software refuses before it takes any memory ("refused" of the row), and what held no
// more on any rank than a run that ran and left a tenth of its device. Of the rest memory may be
// the reason, and need not be.
struct accuracy_fits {
    int ran_count, ran_fit_count;
    int failed_count, failed_unfit_count;
    int refused_count, refused_unfit_count;  // the second: refused or said not to fit here as well
    int outdone_count;
    int short_count, short_unfit_count;  // of the rest
    int other_count, other_fit_count;    // ran, of families that publish no failures
};

// Of all tiers of families some of whose runs failed; of others of tier A, whose rows leave nothing
// open that decides.
struct accuracy_fits fits_of(const struct trials *trials);

// Whether a run held as much on its fullest rank as `other` had to, or more: the same model with no
// wider split of tensors, no more stages, no smaller micro-batch, as many of them alive, and no
// narrower shards of the optimizer's state.
bool fits_holds_as_much(const struct row *row, const struct row *other);
