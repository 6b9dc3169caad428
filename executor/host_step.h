#pragma once
#include "executor/number.h"

// An optimizer's step by the host's processor, for back ends whose own kernels do not run there:
// SGD, Adam and AdamW, of floats in the host's memory. `rounded` of the call holds `number`s. NULL,
// or why not.
const char *host_step(const struct update_call *call, enum number number);
