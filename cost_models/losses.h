#pragma once
#include "cost_models/step.h"

// What the host has to do with the losses of a micro-batch, which are on the block that ends the
// model: it reads them, and writes the gradients that backward begins with. Of our executor, whose
// tasks these are (TASK_LOSS, TASK_SEED); of other software they are in its fitted rates.

struct loss_price {
    double loss_bytes, seed_bytes;  // on the fullest rank; of ranks with the same tokens one reads
    double loss_s, seed_s;          // of copies over the link to the host, one launch each
};

// 0 of a block that has no losses, and of the stacks of others. The ledger gets a line of each.
struct loss_price loss_price(const struct price_context *context,
                             const struct block_program *program);
