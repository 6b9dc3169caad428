#pragma once
#include "planner/scan.h"

// The cuts of a space through which a plan could be faster than the best one found (smaller, when
// memory is the objective); `best` NULL: nothing fits, and one might. Fills `list` in the order of
// enum cut; returns how many.
int cuts_open(const struct space *space, const struct space_graphs *graphs,
              const struct scan_result *scanned, const struct candidate *best,
              struct open_cut list[CUT_COUNT]);
