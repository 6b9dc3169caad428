#include "cost_models/message.h"

#include "cost_models/collective.h"

#include <assert.h>

// Equal pieces: how often latency is paid counts, not how they differ.
double message_group_s(const struct price_context *context, const struct group_shape *group,
                       const struct step_message *message)
{
    assert(message->count > 0 && message->bytes >= 0);
    static const char *const WHAT[ENTRY_COUNT] = {
        [ENTRY_REDUCE] = "gradients",      [ENTRY_GATHER] = "parameters",
        [ENTRY_SMALL] = "small gradients", [ENTRY_HOP] = "to the next stage",
        [ENTRY_TIED] = "tied gradients",   [ENTRY_NORM] = "gradient norm",
        [ENTRY_TRUST] = "trust ratios",
    };
    double each_bytes = message->bytes / message->count;
    const struct stack *stack = context->compute.stack;
    double scale = stack->network_scale;
    struct collective_cost cost =
        message->entry == ENTRY_GATHER && stack->owned_tensors
            ? broadcast_price(context->fabrics, group, each_bytes, scale)
            : collective_price(context->fabrics, group, message->collective, each_bytes, scale);
    double all_s = message->count * cost.s;
    if (!context->ledger) return all_s;
    assert(WHAT[message->entry] && "an entry of messages");
    struct ledger_line line = {
        .entry = message->entry,
        .what = WHAT[message->entry],
        .count = message->count,
        .s = all_s,
        .exposed_s = all_s,
        .bytes = each_bytes,
        .collective = message->collective,
        .axes = message->axes,
        .rank_count = group->rank_count,
        .node_count = group->node_count,
        .cost = cost,
    };
    ledger_add(context->ledger, &line);
    return all_s;
}

// On unlike nodes the stage decides which links a group runs over.
struct group_shape price_group(const struct price_context *context, const struct mesh *mesh,
                               unsigned axes)
{
    if (context->at_stage == 0) return mesh_group(mesh, context->cluster, axes);
    return mesh_group_at(mesh, context->cluster, axes, context->at_stage - 1);
}

double messages_s(const struct price_context *context, const struct mesh *mesh,
                  const struct step_message *message)
{
    if (mesh_size(mesh, message->axes) == 1 || message->bytes <= 0) return 0;
    struct group_shape group = price_group(context, mesh, message->axes);
    return message_group_s(context, &group, message);
}
