#pragma once
#include "cost_models/stack.h"

// The device waits where the host launches more slowly. What both take together lies between the
// larger of the two and their sum, because a long kernel lets the host get ahead and a row of short
// ones behind it does not: (device^n + host^n)^(1/n), with the stack's host_norm n.
//
// n = 3, taken where a stack says nothing: fits 95 published runs of one node at micro-batches of 1
// to 8 (vTrain; left over are 5.8 % against 6.6 with a 6-norm, 90 % of them below 10.2 against
// 14.1, other constants fitted to both). Where the host is slow beside every kernel of a layer the
// two combine almost as a maximum: of 172 published runs of nanotron exponents 1, 2, 3, 5, 7, 10
// and 20 left 10.3, 7.2, 5.8, 4.9, 4.7, 4.8 and 4.9 %.

// Seconds that the device waits beside its own.
double host_wait_s(const struct stack *stack, double device_s, double host_s);

// The same of each phase of one micro-batch through a block. Where the stack states its norm the
// host runs ahead from one phase to the next, so that the seconds of all phases are combined, and
// each phase has its share of that wait; else each phase starts with nothing launched. Of
// nanotron's 204 published runs that leaves 6.6 and 9.5 % (1B and 8B, constants fitted to the
// other; 7.5 and 10.2 % phase by phase), of vTrain's 95, halves left out, 5.7 % either way.
void host_waits(const struct stack *stack, const double device_s[PHASE_COUNT],
                const double host_s[PHASE_COUNT], double wait_s[PHASE_COUNT]);
