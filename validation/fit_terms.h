#pragma once
#include "cost_models/constants.h"
#include "validation/fit_solve.h"

// What `fit` moves: few constants a device, a stack and a kind of fabric, as rows of a table, and
// the parameters of fit_solve.h that they become. Constants that measured steps cannot part (both
// directions of attention, fp16 and bf16) move together.

struct fit_term {
    enum constant_owner owner;
    const char *keys[6];  // move together
    double spread;        // how far an estimated value is trusted to be off: standard deviation of
                          // its log. Published and measured ones are trusted more.
    bool of_network;      // of the links between nodes: runs on a network that their source does
                          // not state teach nothing about it
};

// Copies whose constants are moved.
struct fit_machines {
    struct device **devices;
    struct stack **stacks;
    struct fabrics *fabrics;
    int device_count, stack_count;
};

struct fit_member {
    const char *key;
    double *value;
    double prior, spread;  // of its log
    double low, high;
    bool is_share;  // of something: stays below 1
    enum provenance_kind prior_kind;
};

// One term of one owner.
struct fit_parameter {
    enum constant_owner owner;
    int owner_index;  // of the device, the stack, or the fabric's row
    const char *owner_name;
    const struct fit_term *term;
    struct fit_member *members;
    int member_count;
};

struct fit_parameters {
    struct fit_parameter *items;
    int count;
    struct fit_tie *ties;  // devices of one silicon are expected to deviate alike
    int tie_count;
};

// Every term of every owner; constants that are 0 and shares that are 1 (what is switched off or
// ideal) are left out. The prior of a constant is its value, of a fitted one that of its
// provenance, unless they start `from_values`. Lives in `arena`; members point at the constants of
// the machines.
struct fit_parameters fit_parameters_make(struct arena *arena, struct fit_machines *machines,
                                          bool from_values);
// Those at `kept`, in their order.
struct fit_parameters
fit_parameters_keep(struct arena *arena, const struct fit_parameters *parameters, const bool *kept);

// The value at z spreads from the prior. Shares of something (at most 1) move in the log of
// x / (1 - x), so that they stay shares; others in their log.
double fit_member_value(const struct fit_member *member, double z);
void fit_parameters_set(const struct fit_parameters *parameters, const double *z);
