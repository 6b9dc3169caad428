#pragma once
#include "cost_models/ledger.h"
#include "cost_models/step.h"

// What is priced as messages beside the operators: of gradients and parameters once a step, and
// between stages (cost_models/between.c).

// `count` messages alike over one group.
struct step_message {
    enum entry entry;
    enum collective collective;
    unsigned axes;
    double bytes;  // of all
    int count;
};

// Seconds of all of them over a communicator, and over that of these axes of a mesh; written down
// where the context has a ledger.
double message_group_s(const struct price_context *context, const struct group_shape *group,
                       const struct step_message *message);
double messages_s(const struct price_context *context, const struct mesh *mesh,
                  const struct step_message *message);

// What stages hand to each other. Every hop is as long as the longest of them.
double between_hop_s(const struct price_context *context, const struct program *program);
// All stages of a tie add up their parts of a gradient.
double between_tied_s(const struct price_context *context, const struct program *of,
                      const struct tied *tied);
// What all ranks wait for before they update.
double between_norm_s(const struct price_context *context, const struct program *program);
