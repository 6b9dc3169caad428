#pragma once
#include "planner/strategy/problem.h"

// The reader of a problem's text: straight through, as files have millions of numbers and more
// bytes than core/json takes.
struct strategy_scan {
    struct arena *arena;
    const char *path, *text;
    size_t at, bytes;
    struct err *err;
};

// Sets ERR_INPUT at the line and column of `at`. Returns false.
bool strategy_scan_fail(struct strategy_scan *scan, const char *format, ...) PRINTF_LIKE(2, 3);
// Fills the lists, the name and the limit; that they fit each other is the caller's to check.
MUST_CHECK bool strategy_scan_problem(struct strategy_scan *scan, struct strategy_problem *problem);
