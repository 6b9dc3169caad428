#pragma once
#include "cost_models/ledger.h"

// What the collectives of a block are to who prices it: their kind, what hides them, and how much
// they move. Included by cost_models/block.c.

// `instr` communicates and is not streamed.
struct exchange exchange_of(const struct price_context *context,
                            const struct block_program *program, const struct instr *instr);
// Seconds of the host that an exchange takes beside launching it.
double exchange_sync_s(const struct price_context *context, const struct mesh *mesh,
                       const struct exchange *exchange);
// Parameters that come from the host, over the link that every other copy takes, or from NVMe, as
// fast as the slower of both is.
struct collective_cost exchange_fetch_cost(const struct price_context *context,
                                           const struct exchange *exchange);
