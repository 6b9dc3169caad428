#include "reports/page/constant_words.h"
#include "core/units.h"

#include <assert.h>
#include <string.h>

// Where a key goes on behind the last dot, what follows is a precision or a number of ranks.
struct wording {
    const char *key, *words;
};

static const struct wording ROWS[] = {
    {"peak_flop_per_s", "peak rate"},
    {"memory_bandwidth_bytes_per_s", "memory bandwidth"},
    {"exponential_per_s", "exponentials a second"},
    {"launch_latency_s", "launching a kernel"},
    {"efficiency.gemm_ratio", "share of the peak that matrix products reach"},
    {"efficiency.gemm_memory_ratio", "share of the bandwidth that matrix products reach"},
    {"efficiency.memory_ratio", "share of the bandwidth that other kernels reach"},
    {"efficiency.gemm_k_ramp", "depth at which matrix products reach half their rate"},
    {"efficiency.gemm_wave_smooth_ratio", "how far partial waves of tiles even out"},
    {"efficiency.attention_forward_ratio", "share of the peak that attention reaches, forward"},
    {"efficiency.attention_backward_ratio", "share of the peak that attention reaches, backward"},
    {"efficiency.attention_half_seq", "tokens at which attention reaches half its rate"},
    {"efficiency.attention_tail_ratio", "what the last blocks of attention cost"},
    {"efficiency.attention_clock_ratio", "clock of attention under a lower power limit"},
    {"gemm_scale", "speed factor of matrix products"},
    {"grouped_gemm_ratio", "rate of grouped matrix products beside plain ones"},
    {"attention_forward_scale", "speed factor of attention, forward"},
    {"attention_backward_scale", "speed factor of attention, backward"},
    {"element_wise_scale", "time factor of element-wise kernels"},
    {"network_scale", "speed factor of communication"},
    {"tp_overlap_ratio", "share of tensor-parallel communication hidden"},
    {"ep_overlap_ratio", "share of expert communication hidden"},
    {"overlap_ratio", "speed of gradient communication beside compute"},
    {"contention_ratio", "what compute loses to communication beside it"},
    {"expert_comm_units", "multiprocessors that expert communication takes"},
    {"expert_host_s", "host time of a layer of experts"},
    {"permute_passes", "passes over memory to sort tokens by expert"},
    {"route_kernels", "kernels to choose experts"},
    {"host_op_s", "host time of an operator"},
    {"pipeline_sync_s", "host time of an exchange of tensor parallelism in a pipeline over nodes"},
    {"host_norm", "how hard the slower of host and device decides"},
    {"loss_forward_bytes", "memory traffic of a logit in the loss"},
    {"loss_backward_bytes", "memory traffic of a logit's gradient"},
    {"accumulate_bytes", "memory traffic of adding a gradient up"},
    {"host_task_s", "host time between two tasks"},
    {"step_overhead_s", "once a step, outside the model"},
    {"gradient_bytes", "bytes of a gradient"},
    {"reduce_bytes", "bytes of a gradient on the wire"},
    {"moment_bytes", "bytes of an optimizer moment"},
    {"gradient_passes", "passes over the gradients in memory"},
    {"efficiency_ratio", "bandwidth share of collectives"},
    {"group_efficiency", "bandwidth share of groups, ranks:"},
    {"send_efficiency_ratio", "bandwidth share of messages"},
    {"latency_s", "latency"},
    {"protocols.ll.ring_step_latency_s", "step of a ring, protocol LL"},
    {"protocols.ll128.bandwidth_ratio", "bandwidth share of protocol LL128"},
    {"protocols.simple.bandwidth_ratio", "bandwidth share of protocol Simple"},
    {"protocols.simple.base_latency_s", "start of a collective, protocol Simple"},
    {"protocols.simple.ring_step_latency_s", "step of a ring, protocol Simple"},
};

// The longest key that fits: "efficiency" alone is none of "efficiency.gemm_ratio".
static const struct wording *row_of(const char *key, const char **rest)
{
    const struct wording *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        size_t length = strlen(ROWS[i].key);
        bool is_it = strncmp(key, ROWS[i].key, length) == 0 && strchr(".", key[length]) != NULL;
        if (is_it && length > longest) best = &ROWS[i], longest = length;
    }
    if (best) *rest = key[longest] ? key + longest + 1 : "";
    return best;
}

// What no row names yet: the key with blanks, which is near enough to words.
static const char *plain_key(struct arena *arena, const char *key)
{
    char *text = arena_copy(arena, key);
    for (char *at = text; *at; at++) {
        if (*at == '_' || *at == '.') *at = ' ';
    }
    return text;
}

const char *constant_words(struct arena *arena, const struct constant *constant)
{
    return arena_print(arena, "%s \xc2\xb7 %s", constant_short_words(arena, constant),
                       constant->owner_name);
}

const char *constant_short_words(struct arena *arena, const struct constant *constant)
{
    const char *rest = "";
    const struct wording *row = row_of(constant->key, &rest);
    const char *words = row ? row->words : plain_key(arena, constant->key);
    assert(*words);
    const char *before = !*rest ? "" : words[strlen(words) - 1] == ':' ? " " : ", ";
    if (constant->owner != CONSTANT_FABRIC)
        return arena_print(arena, "%s%s%s", words, before, rest);
    int length = (int)strcspn(constant->owner_name, " ");
    return arena_print(arena, "%s: %s%s%s",
                       arena_print(arena, "%.*s", length, constant->owner_name), words, before,
                       rest);
}

// Behind a unit may stand a precision, "peak_flop_per_s.bf16".
static bool ends(const char *key, const char *end)
{
    const char *found = strstr(key, end);
    return found && (found[strlen(end)] == '\0' || found[strlen(end)] == '.');
}

const char *constant_value_text(struct arena *arena, const struct constant *constant)
{
    const char *key = constant->key;
    double value = *constant->value;
    if (ends(key, "bytes_per_s")) return units_bytes_per_s(arena, value);
    if (ends(key, "flop_per_s")) return units_flop_per_s(arena, value);
    if (ends(key, "_per_s")) return arena_print(arena, "%s/s", units_count(arena, value));
    if (ends(key, "_s")) return units_seconds(arena, value);
    if (ends(key, "_ratio") || strncmp(key, "group_efficiency", 16) == 0)
        return units_ratio(arena, value);
    if (ends(key, "_scale")) return arena_print(arena, "\xc3\x97 %.3g", value);
    if (ends(key, "_bytes")) return arena_print(arena, "%.3g bytes", value);
    return arena_print(arena, "%.3g", value);
}
