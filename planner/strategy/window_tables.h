#pragma once
#include "planner/strategy/window.h"

// The numeric half of a window: eliminates its nodes in `order` and reads the choices back.
void window_tables_solve(struct choice_window *window, const int *choice);
