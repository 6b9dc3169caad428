#pragma once
#include "reports/whatif/scenario.h"

// What scenarios share. The plan of one is that of another when they differ in nothing that a
// search reads: its price, the failures of its cluster and the length of its run are none of it.

// leader_of[i]: the first scenario of the list whose plan is that of scenario i (itself, where none
// is before it, and where `request->alone`).
void scenarios_share(struct arena *scratch, const struct scenario_request *request,
                     const struct scenario *scenarios, int count, int *leader_of);

// The outcome of `scenario` from that of its leader (which may be the same record): money and
// goodput are its own.
void scenario_finish(const struct scenario *scenario, const struct scenario_outcome *leader,
                     struct scenario_outcome *outcome);

// The run of a scenario that fits as a question of time and money: what its prediction answers, and
// what may be asked with other tokens.
struct money_request scenario_money(const struct scenario *scenario,
                                    const struct scenario_outcome *outcome);

// The same outcome at `ratio` times the speed: step, rates, money and goodput.
void scenario_rescale(const struct scenario *scenario, double ratio,
                      struct scenario_outcome *outcome);
