#pragma once
#include "core/json_write.h"
#include "simulator/kernels_account.h"

// What `simulate --kernels-account` prints: the kernels of each kind of layer, one micro-batch of
// it, beside what the device's sheet allows.
char *kernels_account_text(struct arena *arena, const struct kernels_account *account);
// "kernels_account": {"device", "peak_flop_per_s", "layers"}.
void kernels_account_write(struct json_writer *writer, const struct kernels_account *account);
