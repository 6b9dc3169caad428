#include "validation/fit_terms.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct fit_term TERMS[] = {
    {CONSTANT_DEVICE, {"efficiency.gemm_ratio.bf16", "efficiency.gemm_ratio.fp16"}, 0.1, false},
    {CONSTANT_DEVICE, {"efficiency.gemm_ratio.fp8"}, 0.12, false},
    {CONSTANT_DEVICE, {"efficiency.gemm_ratio.fp4"}, 0.15, false},
    {CONSTANT_DEVICE,
     {"efficiency.attention_forward_ratio", "efficiency.attention_backward_ratio"},
     0.15,
     false},
    {CONSTANT_DEVICE, {"efficiency.memory_ratio", "efficiency.gemm_memory_ratio"}, 0.1, false},
    {CONSTANT_DEVICE, {"launch_latency_s"}, 0.2, false},
    {CONSTANT_STACK, {"gemm_scale"}, 0.05, false},
    {CONSTANT_STACK, {"attention_forward_scale", "attention_backward_scale"}, 0.15, false},
    {CONSTANT_STACK, {"attention_flop_per_s_most"}, 0.1, false},
    {CONSTANT_STACK, {"element_wise_scale"}, 0.15, false},
    {CONSTANT_STACK, {"host_op_s"}, 0.4, false},
    {CONSTANT_STACK, {"unaligned_gemm_ratio"}, 0.3, false},
    {CONSTANT_STACK, {"grouped_gemm_ratio"}, 0.15, false},
    {CONSTANT_STACK, {"permute_passes"}, 0.3, false},
    {CONSTANT_STACK, {"route_kernels"}, 0.4, false},
    {CONSTANT_STACK, {"expert_host_s"}, 0.4, false},
    {CONSTANT_STACK, {"expert_graph_host_ratio"}, 0.4, false},
    {CONSTANT_STACK, {"expert_stash_ratio"}, 0.4, false},
    {CONSTANT_STACK, {"cast_bytes"}, 0.3, false},
    {CONSTANT_STACK, {"loss_forward_bytes", "loss_backward_bytes"}, 0.3, false},
    {CONSTANT_STACK, {"accumulate_bytes"}, 0.3, false},
    {CONSTANT_STACK, {"gradient_passes"}, 0.4, false},
    {CONSTANT_STACK, {"overlap_ratio"}, 0.2, false},
    {CONSTANT_STACK, {"tp_overlap_ratio"}, 0.3, false},
    {CONSTANT_STACK, {"ep_overlap_ratio"}, 0.2, false},
    {CONSTANT_STACK, {"contention_ratio"}, 0.5, false},
    {CONSTANT_STACK, {"network_scale"}, 0.07, true},
    {CONSTANT_STACK, {"host_task_s"}, 0.7, false},
    {CONSTANT_STACK, {"step_overhead_s"}, 0.4, false},
    {CONSTANT_FABRIC, {"efficiency_ratio"}, 0.1, false},
    {CONSTANT_FABRIC, {"all_to_all_efficiency_ratio"}, 0.2, false},
};

enum { TERM_COUNT = sizeof TERMS / sizeof *TERMS };

// What remains of a term's spread by where the prior comes from: published figures were measured,
// but on other versions and outside training.
static const double KIND_SHARE[] = {
    [PROVENANCE_MEASURED] = 0.3, [PROVENANCE_PUBLISHED] = 0.6, [PROVENANCE_FITTED] = 1,
    [PROVENANCE_DATASHEET] = 1,  [PROVENANCE_ESTIMATED] = 1,   [PROVENANCE_ASSUMED] = 1,
};

// How far constants of one silicon under two names may deviate from each other, as a log: clocks,
// power limits and memories differ.
static const double SILICON_SPREAD = 0.05;

// Nearer than this to an end a share hardly moves: the log of x / (1 - x) is infinite there.
static const double SHARE_MARGIN = 0.02;

// Ratios that may not pass 1; some durations have 1 s as their limit.
static bool is_share(const struct constant *constant)
{
    size_t length = strlen(constant->key);
    bool is_duration = length > 2 && strcmp(constant->key + length - 2, "_s") == 0;
    return constant->high == 1 && !is_duration;
}

static struct fit_member member_of(const struct constant *constant, const struct fit_term *term,
                                   bool from_values)
{
    const struct provenance *from = constant->provenance;
    struct fit_member member = {
        .key = constant->key,
        .value = constant->value,
        .prior = *constant->value,
        .low = constant->low,
        .high = constant->high,
        .is_share = is_share(constant),
        .prior_kind = from ? from->kind : PROVENANCE_ESTIMATED,
    };
    assert(member.prior_kind < (int)(sizeof KIND_SHARE / sizeof *KIND_SHARE));
    member.spread = term->spread * KIND_SHARE[member.prior_kind];
    assert(member.low < member.high);
    if (member.prior_kind == PROVENANCE_FITTED) {
        member.spread = from->spread;
        bool has_prior = !from_values && strcmp(from->key, constant->key) == 0;
        if (has_prior) member.prior = from->prior;
    }
    return member;
}

// The parameter of `term` from the constants of one owner; without members if it has none.
static struct fit_parameter parameter_of(struct arena *arena, const struct fit_term *term,
                                         const struct constant *constants, int count,
                                         bool from_values)
{
    struct fit_parameter parameter = {
        .owner = constants->owner,
        .owner_name = constants->owner_name,
        .term = term,
        .members = ARENA_NEW(arena, struct fit_member, count),
    };
    int key_most = (int)(sizeof term->keys / sizeof *term->keys);
    for (int i = 0; i < count; i++) {
        bool is_in = false;
        for (int k = 0; k < key_most && term->keys[k] && !is_in; k++) {
            is_in = strcmp(term->keys[k], constants[i].key) == 0;
        }
        double value = *constants[i].value;
        if (!is_in || value == 0 || (value == 1 && is_share(&constants[i]))) continue;
        parameter.members[parameter.member_count++] = member_of(&constants[i], term, from_values);
    }
    return parameter;
}

// The constants of one owner after the other: a list holds them side by side.
static void add_list(struct arena *arena, struct fit_parameters *parameters, int owner_index,
                     const struct constant_list *list, bool from_values)
{
    for (int first = 0, last; first < list->count; first = last, owner_index++) {
        const struct constant *owner = &list->items[first];
        for (last = first + 1; last < list->count; last++) {
            if (strcmp(list->items[last].owner_name, owner->owner_name) != 0) break;
        }
        for (int i = 0; i < TERM_COUNT; i++) {
            if (TERMS[i].owner != owner->owner) continue;
            struct fit_parameter parameter =
                parameter_of(arena, &TERMS[i], owner, last - first, from_values);
            parameter.owner_index = owner_index;
            assert(parameter.member_count <= last - first);
            if (parameter.member_count) parameters->items[parameters->count++] = parameter;
        }
    }
}

// A cache as large and nearly as many multiprocessors: one chip under several names, with other
// clocks, memories and links, or with more of it switched off.
static bool is_one_silicon(const struct device *a, const struct device *b)
{
    double ratio = (double)a->multiprocessor_count / b->multiprocessor_count;
    return a->cache_bytes == b->cache_bytes && fabs(ratio - 1) < 0.05;
}

static void tie_silicon(struct arena *arena, struct fit_parameters *parameters,
                        const struct fit_machines *machines)
{
    parameters->ties = ARENA_NEW(arena, struct fit_tie, parameters->count * parameters->count);
    parameters->tie_count = 0;
    for (int a = 0; a < parameters->count; a++) {
        for (int b = 0; b < a; b++) {
            const struct fit_parameter *one = &parameters->items[a], *other = &parameters->items[b];
            if (one->owner != CONSTANT_DEVICE || one->term != other->term) continue;
            if (!is_one_silicon(machines->devices[one->owner_index],
                                machines->devices[other->owner_index])) {
                continue;
            }
            parameters->ties[parameters->tie_count++] = (struct fit_tie){
                .a = a,
                .b = b,
                .a_scale = one->members[0].spread,
                .b_scale = other->members[0].spread,
                .spread = SILICON_SPREAD,
            };
        }
    }
}

struct fit_parameters fit_parameters_make(struct arena *arena, struct fit_machines *machines,
                                          bool from_values)
{
    int owner_count = machines->device_count + machines->stack_count + machines->fabrics->count;
    struct fit_parameters parameters = {
        .items = ARENA_NEW(arena, struct fit_parameter, owner_count * TERM_COUNT),
    };
    for (int i = 0; i < machines->device_count; i++) {
        struct constant_list list = constants_list(arena, machines->devices[i], NULL, NULL);
        add_list(arena, &parameters, i, &list, from_values);
    }
    for (int i = 0; i < machines->stack_count; i++) {
        struct constant_list list = constants_list(arena, NULL, machines->stacks[i], NULL);
        add_list(arena, &parameters, i, &list, from_values);
    }
    struct constant_list list = constants_list(arena, NULL, NULL, machines->fabrics);
    add_list(arena, &parameters, 0, &list, from_values);
    tie_silicon(arena, &parameters, machines);
    return parameters;
}

// Ties go with both ends or not at all.
struct fit_parameters fit_parameters_keep(struct arena *arena,
                                          const struct fit_parameters *parameters, const bool *kept)
{
    struct fit_parameters out = {
        .items = ARENA_NEW(arena, struct fit_parameter, parameters->count),
        .ties = ARENA_NEW(arena, struct fit_tie, parameters->tie_count),
    };
    int *index = ARENA_NEW(arena, int, parameters->count);
    for (int i = 0; i < parameters->count; i++) {
        index[i] = out.count;
        if (kept[i]) out.items[out.count++] = parameters->items[i];
    }
    for (int i = 0; i < parameters->tie_count; i++) {
        struct fit_tie tie = parameters->ties[i];
        if (!kept[tie.a] || !kept[tie.b]) continue;
        tie.a = index[tie.a];
        tie.b = index[tie.b];
        assert(tie.b < tie.a && tie.a < out.count);  // those that are kept keep their order
        out.ties[out.tie_count++] = tie;
    }
    return out;
}

double fit_member_value(const struct fit_member *member, double z)
{
    assert(isfinite(z) && member->low < member->high);
    if (z == 0) return member->prior;
    double value = member->prior * exp(z * member->spread);
    if (member->is_share) {
        double share = fmin(fmax(member->prior, SHARE_MARGIN), 1 - SHARE_MARGIN);
        double slope = member->spread / fmax(1 - share, 10 * SHARE_MARGIN);
        // In log odds a share comes near its ends without passing them, and z still is in spreads.
        double odds = share / (1 - share) * exp(z * slope);
        value = odds / (1 + odds);
    }
    return fmin(fmax(value, member->low), member->high);
}

// Members of one parameter move together, each by its own spread.
void fit_parameters_set(const struct fit_parameters *parameters, const double *z)
{
    for (int i = 0; i < parameters->count; i++) {
        const struct fit_parameter *parameter = &parameters->items[i];
        for (int k = 0; k < parameter->member_count; k++) {
            *parameter->members[k].value = fit_member_value(&parameter->members[k], z[i]);
        }
    }
}
