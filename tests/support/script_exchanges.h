#pragma once
#include "plan/script/script.h"

// What a task moves over mesh axes, in the order in which it does, as the simulator counts it: the
// gathered result of an all-gather, the input of a reduction. Elements of the run's precision in
// instructions, of the state in work of the step; whole gradients that are scattered count as the
// former and are widened to the latter before. What is fetched from the host is over no axes. Of
// what is stored in shards those of the fullest rank. A message or a tied reduction is over no axes
// (COLLECTIVE_SEND_RECV, the latter both ways); a streamed collective is what a rank hands on to
// its neighbour in all of its steps.
enum { SCRIPT_EXCHANGE_MAX = 2 };
struct script_exchange {
    enum collective collective;
    unsigned axes;
    int64_t bytes;     // of instructions and messages
    int64_t elements;  // of step-level work, however wide they are reduced
};
int script_exchanges(const struct script *script, int task,
                     struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX]);
