#pragma once
#include "cost_models/ledger.h"

// What the collectives of a block are to who prices it: their kind, what hides them, and how much
// they move. Included by cost_models/block.c.

// `instr` communicates and is not streamed.
struct exchange exchange_of(const struct price_context *context,
                            const struct block_program *program, const struct instr *instr);
// Parameters that come from the host, over the link that every other copy takes, or from NVMe, as
// fast as the slower of both is.
struct collective_cost exchange_fetch_cost(const struct price_context *context,
                                           const struct exchange *exchange);
