#include "planner/fewer.h"

#include "planner/choice.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <string.h>

// What says how memory is used, whatever the degrees are.
static const enum choice MEMORY_CHOICES[] = {CHOICE_ZERO, CHOICE_RECOMPUTE, CHOICE_OFFLOAD,
                                             CHOICE_ATTENTION};

static bool is_of_memory(enum choice choice)
{
    for (size_t i = 0; i < sizeof MEMORY_CHOICES / sizeof *MEMORY_CHOICES; i++) {
        if (MEMORY_CHOICES[i] == choice) return true;
    }
    return false;
}

static bool is_kept(enum choice choice, enum fewer_kept kept)
{
    // Copies make up the number of ranks, and a part of the copies is one of so many.
    if (choice == CHOICE_DP || choice == CHOICE_ZERO_GROUP || choice == CHOICE_ZERO_GRADIENTS ||
        choice == CHOICE_ZERO_PARAMETERS)
        return false;
    if (kept == FEWER_KEPT_ALL || !choice_is_searched(choice)) return true;
    return kept == FEWER_KEPT_MEMORY && is_of_memory(choice);
}

const char *fewer_kept_text(enum fewer_kept kept)
{
    static const char *const TEXTS[FEWER_KEPT_COUNT] = {"all but its copies", "how memory is used",
                                                        "what is not searched"};
    return TEXTS[kept];
}

struct pins fewer_pins(const struct parallel *was, enum fewer_kept kept)
{
    struct pins pins = pins_none();
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        int64_t value = choice_value(was, choice);
        if (is_kept(choice, kept)) pins_set(&pins, choice, value, value);
    }
    // What is left to the software is no pin.
    if (was->bucket_bytes == 0) pins_clear(&pins, CHOICE_BUCKET_BYTES);
    if (kept == FEWER_KEPT_ALL) {
        pins.stage_layers = was->stage_layers;
        pins.stage_layers_count = was->stage_layers_count;
    }
    return pins;
}

// The first ranks; the others are not rented any more.
static const struct cluster *first_ranks(struct arena *arena, const struct cluster *cluster,
                                         int ranks)
{
    struct err err = {0};
    struct cluster *copy = cluster_copy_nodes(arena, cluster);
    bool taken = cluster_take_gpus(copy, ranks, &err);
    assert(taken && "fewer ranks than there are");
    (void)taken;
    return copy;
}

bool fewer_search(struct arena *arena, const struct search_request *request,
                  const struct parallel *was, int ranks, struct fewer_answer *answer,
                  struct err *err)
{
    assert(ranks >= 1 && ranks <= request->cluster->rank_count);
    for (int count = ranks; count > 0; count--) {
        const struct cluster *cluster = first_ranks(arena, request->cluster, count);
        for (enum fewer_kept kept = 0; kept < FEWER_KEPT_COUNT; kept++) {
            // Pins that contradict a number of ranks are one way of having no plan there.
            struct err refused = {0};
            *answer = (struct fewer_answer){.request = *request, .kept = kept};
            answer->request.cluster = cluster;
            answer->request.pins = fewer_pins(was, kept);
            answer->request.nothing = SEARCH_FITS_ONLY;
            bool done = search_plans(arena, &answer->request, &answer->result, &refused);
            if (!done && refused.kind != ERR_USAGE)
                return err_set(err, refused.kind, "%s", refused.text);
            if (done && answer->result.best_count > 0) return true;
        }
    }
    return err_set(err, ERR_USAGE, "no plan fits on %d rank%s of %s or on fewer", ranks,
                   ranks == 1 ? "" : "s", request->cluster->name);
}
