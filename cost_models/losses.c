#include "cost_models/losses.h"

#include "cost_models/ledger.h"
#include "cost_models/offload.h"

// A link that the cluster file says nothing of is taken for as fast as the device's memory.
static double link_s(const struct price_context *context, double bytes)
{
    double rate = offload_bytes_per_s(context, TIER_HOST);
    double moved_s = rate > 0 ? bytes / rate : stream_s(&context->compute, bytes);
    return moved_s + context->compute.device->launch_latency_s;
}

struct loss_price loss_price(const struct price_context *context,
                             const struct block_program *program)
{
    struct loss_price price = {0};
    bool has_losses = program->block->role == BLOCK_HEAD;
    if (!has_losses || !stack_is_executed(context->compute.stack)) return price;
    for (int i = 0; i < BLOCK_EDGES; i++) {
        int seeded = program->output_gradients[i];
        if (seeded >= 0) price.seed_bytes += (double)program->buffers[seeded].bytes;
    }
    if (program->outputs[0] >= 0)
        price.loss_bytes = (double)program->buffers[program->outputs[0]].bytes;
    if (price.seed_bytes > 0) price.seed_s = link_s(context, price.seed_bytes);
    if (price.loss_bytes > 0) price.loss_s = link_s(context, price.loss_bytes);
    ledger_add_time(context->ledger, ENTRY_LOSS, PHASE_FORWARD, "losses to host", price.loss_s,
                    price.loss_bytes);
    ledger_add_time(context->ledger, ENTRY_SEED, PHASE_BACKWARD, "gradients of losses",
                    price.seed_s, price.seed_bytes);
    return price;
}
