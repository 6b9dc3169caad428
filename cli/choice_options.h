#pragma once
#include "cli/options.h"
#include "planner/choice.h"

// The pins of a command line: an option for each choice of a plan (plan/choices.inc).

// What an option was given, and the texts of its row, which must outlive the table of options.
struct choice_argument {
    struct int_range range;  // of a number that may be a range
    int number;              // of one that may not; 0: not given
    const char *word;        // of any other; NULL: not given
    char option[24];
    char values[128];
};

// The rows, CHOICE_COUNT of them. Returns how many were written.
int choice_options(struct choice_argument arguments[CHOICE_COUNT], struct option *options);

// The pins of what was given; the others of `pins` stay as they are.
MUST_CHECK bool choice_pins(const struct choice_argument arguments[CHOICE_COUNT], struct pins *pins,
                            struct err *err);
