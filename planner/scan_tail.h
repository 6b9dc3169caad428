#pragma once
#include "planner/scan_group.h"

// The plans of one tail: ways to recompute beside what is moved off the device. Families of them
// are bounded before their members are priced:
//
// - Beside states in one place nothing is faster than keeping all else on the device, but for ways
//   to recompute that are so by a little. Where that has room, or is too slow already, nothing else
//   with the states there or behind it is asked; but those ways, where it comes near to winning.
// - NVMe is no faster than the host, and spares the device no more: it is asked of only where the
//   host lacks room for the most that a place behind it could take.
// - Where that has no room, what it takes to make room is bounded (composer_pressed): nothing else
//   with the states there is asked of where that is too slow. Longer tasks may end a replayed
//   schedule earlier, but no stage before its own work.
// - Where the least that an update on hosts takes makes the least work of the tail too slow nothing
//   with the states there or behind is asked.
// - What cannot be faster than the best of the tail so far is not priced further.
//
// An exhaustive scan asks for all of them.

// Offers the best plan of the tail to the ranking. `even` and `balanced` are plans of it with the
// two ways to divide its stages; NULL where there is no second. None takes less than `work_s`
// before its update.
void tail_scan(struct scan *scan, const struct space_tail *ways, const struct parallel *even,
               const struct parallel *balanced, double work_s);
// planner/scan_twin.c: the move of these places, where the stack does it beside what it does
// `move`; else -1.
int tail_twin(const struct scan *scan, const struct space_tail *ways, int move,
              enum tier activations, enum tier optimizer);
// The move that has on the host what this one has on NVMe, where no plan of this one can be faster
// than one of that; -1 where there is none. `parallel` is any plan with the stages at hand.
int tail_host_twin(struct scan *scan, const struct space_tail *ways,
                   const struct parallel *parallel, int move);
// The first number of layers that hosts have no room for, whatever is recomputed: fewer on NVMe are
// no faster than on the host.
int tail_past_host(struct scan *scan, const struct parallel *parallel,
                   const struct space_move *move);
// Seconds that no plan of the tail goes below which has states where `kept` has them, and room that
// `kept` has not. `lowers`: the commonest layers are taken as they are, in each way to recompute;
// else none is lowered for it. `enough_s`: see struct composer_ways.
double tail_pressed_s(struct scan *scan, const struct space_tail *tail,
                      const struct candidate *kept, bool lowers, double enough_s);
// Plans of the tail that have the move: ways to recompute, with each number of layers.
double tail_recompute_count(const struct space_tail *tail, int move);
// Whether the pins allow what the plan moves.
bool tail_allows(const struct scan *scan, const struct parallel *parallel);
