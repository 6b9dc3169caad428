#pragma once
#include "core/arena.h"
#include "core/err.h"

#include <stdint.h>

// Where state lives that compute does not need just now. Optimizer states (moments and master
// weights) may live on the host or on NVMe: gradients then go down, the host updates, parameters
// come up. What forward saves for backward may be moved out behind forward and fetched before
// backward, by class of the operator that made it. Parameters may live there beside the optimizer
// states, which they are made of: each block's are fetched into the arena before it works forward,
// and again before it works backward, and no more of them are on the device than of the blocks
// under way: one where nothing is gathered ahead, two with the overlap param-gather. Parameters
// of layers that do not leave are on the device for good. Those that leave may stay between two
// uses: of the last blocks from forward to backward, so that backward finds what forward fetched,
// and of the first layers from backward to the next micro-batch's forward, when no activations are
// there. That is a placement by the moment (planner/plan_stays.h finds one), and what is fetched
// less is all that it changes. Gradients may live on the host beside the optimizer states, which
// they are for: each bucket's pass through a room of the device, down when a micro-batch has added
// to them and up again before the next does (plan/step_end.h). Those of layers that do not leave
// stay from the first micro-batch to the update.
//
// As words: "none", or joined by commas: "optimizer", "optimizer:12" (states of the first 12 layers
// of each stage leave; all others stay, and are updated on the device), "parameters",
// "parameters:8" (of the first 8 layers of each stage, no more than leave with their states; none
// of an embedding or a head), "turn:2" (of the parameters that leave those of the last 2 blocks
// stay from forward to backward), "between:5" (those of the first 5 layers from backward to
// forward), both of all without a number, "gradients" (on the host alone, of what is updated
// there), "gradients:6" (of the first 6 layers of each stage, no more than leave with their states;
// none of an embedding or a head; two buckets are rooms, so that of fewer than three none leaves),
// "activations", "activations:12", a class of operators with or without a count ("attention:12",
// "mlp"), "other" for what no class made; each may end in "@nvme" ("optimizer@nvme"); default is
// "@host". All classes with one count on one tier are written "activations". All activations are on
// one tier. An embedding or a head moves no activations, and where states have a count, none
// either. Beside states, parameters or gradients with a count, or some that stay, all classes
// have one.

enum tier { TIER_DEVICE, TIER_HOST, TIER_NVME, TIER_COUNT };
const char *tier_name(enum tier tier);

// What of a parameter leaves the device: its states, so that the host updates it, and its gradient
// with them.
enum { AWAY_STATES = 1, AWAY_GRADIENTS = 2 };

enum { OFFLOAD_CLASS_MAX = 8 };        // of enum op_class (models/graph.h); 0 = made by no class
enum { OFFLOAD_LAYERS_MAX = 254 };     // that a count may name; more of them are "all"
enum { OFFLOAD_GRADIENTS_LEAST = 3 };  // buckets of gradients of which some leave

struct offload {
    enum tier optimizer;                // TIER_DEVICE: not moved
    enum tier activations;              // the tier of those that are moved
    enum tier parameters;               // TIER_DEVICE: not moved
    int16_t optimizer_layers;           // whose states are moved; 0 = of everything
    int16_t parameter_layers;           // the same of parameters
    int16_t gradient_layers;            // and of gradients
    int16_t turn_blocks;                // of those that are moved, from the last: stay from forward
                                        // to backward; -1 = all, 0 = none
    int16_t between_layers;             // from the first: from backward to forward; the same
    bool gradients;                     // moved to the host
    int16_t layers[OFFLOAD_CLASS_MAX];  // moved of the first N layers of each stage; -1 = of all, 0
                                        // = not
};

const char *offload_words(struct arena *arena, const struct offload *offload);
MUST_CHECK bool offload_parse(const char *text, struct offload *offload);
bool offload_moves_activations(const struct offload *offload);
bool offload_moves_parameters(const struct offload *offload);
bool offload_moves_gradients(const struct offload *offload);
bool offload_reaches_nvme(const struct offload *offload);
bool offload_is_none(const struct offload *offload);
// Whether states or gradients of the n-th layer of a stage leave though those of others stay: of
// AWAY_STATES and AWAY_GRADIENTS.
unsigned offload_away(const struct offload *offload, int layer);
// Whether the parameters of a block leave: of the n-th layer of a stage; -1: of
// what is no layer, which leave where all do.
bool offload_takes_parameters(const struct offload *offload, int layer);
// Whether as much of every class of operators is moved, that is, whole layers.
bool offload_moves_alike(const struct offload *offload);
// Whether parameters that leave stay between some of their uses.
bool offload_keeps_some(const struct offload *offload);
// What is moved of the n-th layer of a stage: a mask of 1 << enum op_class.
unsigned offload_classes(const struct offload *offload, int layer);

// The whole choice as one number, 0 = none, and back.
int64_t offload_value(const struct offload *offload);
struct offload offload_of_value(int64_t value);
