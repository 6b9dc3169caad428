#pragma once
#include "cost_models/step.h"

// The step in closed form: the schedule's duration formula, the part of the gradient reduction and
// parameter gathering that no compute hides, the update. Reads the same priced program as the event
// engine and agrees with it to 1 % mean, 2 % worst (tests/simulator/test_closed_form.c).
struct cost closed_form(const struct step_price *price);
