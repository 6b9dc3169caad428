#include "exchange/facts.h"
#include "exchange/model_facts.h"
#include "plan/passes.h"
#include "plan/stages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Plans to facts and back. Choices whose words are those of a plan file walk the table of choices;
// what other programs say in other pieces (layers, recompute, what is moved, what overlaps) is
// taken apart here.

// Choices that facts have in the words of a plan.
static const enum choice PLAIN[] = {CHOICE_TP,
                                    CHOICE_CP,
                                    CHOICE_CP_KIND,
                                    CHOICE_PP,
                                    CHOICE_EP,
                                    CHOICE_ETP,
                                    CHOICE_DP,
                                    CHOICE_SP,
                                    CHOICE_VPP,
                                    CHOICE_MICRO_BATCH,
                                    CHOICE_ZERO,
                                    CHOICE_ZERO_GROUP,
                                    CHOICE_ZERO_GRADIENTS,
                                    CHOICE_ZERO_PARAMETERS,
                                    CHOICE_SCHEDULE,
                                    CHOICE_IN_FLIGHT,
                                    CHOICE_ATTENTION,
                                    CHOICE_BUCKET_BYTES,
                                    CHOICE_LORA};
enum { PLAIN_COUNT = sizeof PLAIN / sizeof *PLAIN, OVERLAP_BITS = 6 };

// The orders that have names of their own; of axes of one rank nothing is told.
static const enum axis ORDERS[][4] = {
    {AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP},
    {AXIS_TP, AXIS_CP, AXIS_PP, AXIS_DP},
    {AXIS_CP, AXIS_TP, AXIS_DP, AXIS_PP},
    {AXIS_CP, AXIS_TP, AXIS_PP, AXIS_DP},
};
enum { ORDER_COUNT = sizeof ORDERS / sizeof *ORDERS };

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

static const char *order_text(struct arena *arena, const struct parallel *parallel,
                              const enum axis *order, int count, bool all)
{
    assert(count >= 0 && count <= AXIS_COUNT);
    const char *text = "";
    for (int i = 0; i < count; i++) {
        if (!all && parallel->degree[order[i]] == 1) continue;
        text = arena_print(arena, "%s%s%s", text, *text ? "," : "", axis_name(order[i]));
    }
    return text;
}

static void put_order(struct facts *facts, const struct parallel *parallel)
{
    struct arena *arena = facts->arena;
    const char *own = order_text(arena, parallel, parallel->order, parallel->order_count, false);
    for (int i = 0; i < ORDER_COUNT; i++) {
        if (parallel->order_count &&
            strcmp(own, order_text(arena, parallel, ORDERS[i], 4, false)) != 0)
            continue;
        facts_put(facts, "order", order_text(arena, parallel, ORDERS[i], 4, true));
        return;
    }
    facts_put(facts, "order",
              order_text(arena, parallel, parallel->order, parallel->order_count, true));
}

static bool put_pieces(struct facts *facts, const struct graph *graph,
                       const struct parallel *parallel, struct err *err)
{
    assert(parallel->degree[AXIS_PP] > 0 && parallel->vpp > 0);
    int stage_count = parallel->degree[AXIS_PP], chunk_count = parallel->vpp;
    struct chunk_span *spans =
        ARENA_NEW(facts->arena, struct chunk_span, stage_count * chunk_count);
    if (!stages_split(graph, parallel, spans, err)) return false;
    const struct schedule_row *row = schedule_row(parallel->schedule);
    const struct schedule_shape shape = {.stage_count = stage_count, .chunk_count = chunk_count};
    const char *text = "";
    for (int virtual = 0; virtual < stage_count * chunk_count; virtual ++) {
        const struct chunk_span *span =
            &spans[row->stage_of(&shape, virtual) * chunk_count + row->chunk_of(&shape, virtual)];
        assert(span->first >= 0 && span->count >= 0);
        int layers = 0;
        for (int i = span->first; i < span->first + span->count; i++)
            layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
        text = arena_print(facts->arena, "%s%s%d", text, *text ? "," : "", layers);
    }
    facts_put(facts, "pieces", text);
    return true;
}

static void put_recompute(struct facts *facts, const struct parallel *parallel)
{
    int64_t value = choice_value(parallel, CHOICE_RECOMPUTE);
    const char *words = choice_text(facts->arena, CHOICE_RECOMPUTE, value);
    // The class of attention alone has a name of its own.
    if (strcmp(words, op_class_name(OP_CLASS_ATTENTION)) == 0)
        words = recompute_name(RECOMPUTE_SELECTIVE);
    if (parallel->recompute_layers >= 0 && parallel->recompute != RECOMPUTE_NONE)
        words = arena_print(facts->arena, "%s:%d", words, parallel->recompute_layers);
    facts_put(facts, "recompute", words);
}

// With a count of layers no other software has it.
static const char *tier_fact(struct arena *arena, enum tier tier, int layers)
{
    assert(layers >= 0);
    if (tier == TIER_DEVICE) return "none";
    return layers > 0 ? arena_print(arena, "%s:%d", tier_name(tier), layers) : tier_name(tier);
}

static void put_offload(struct facts *facts, const struct parallel *parallel)
{
    struct offload moved = parallel->offload;
    facts_put(facts, "offload.optimizer",
              tier_fact(facts->arena, moved.optimizer, moved.optimizer_layers));
    const char *away = tier_fact(facts->arena, moved.parameters, moved.parameter_layers);
    if (offload_keeps_some(&moved))
        away = arena_print(facts->arena, "%s, some of them between uses alone", away);
    facts_put(facts, "offload.parameters", away);
    enum tier gradients = offload_moves_gradients(&moved) ? TIER_HOST : TIER_DEVICE;
    facts_put(facts, "offload.gradients",
              tier_fact(facts->arena, gradients, moved.gradient_layers));
    moved.optimizer = moved.parameters = TIER_DEVICE;
    moved.optimizer_layers = moved.parameter_layers = moved.gradient_layers = 0;
    moved.turn_blocks = moved.between_layers = 0;
    moved.gradients = false;
    facts_put(facts, "offload.activations", offload_words(facts->arena, &moved));
}

static const char *overlap_fact(struct arena *arena, int bit)
{
    assert(bit >= 0 && bit < OVERLAP_BITS);
    return arena_print(arena, "overlap.%s", overlap_text(arena, 1U << bit));
}

static void put_workload(struct facts *facts, const struct workload *workload)
{
    assert(workload->global_batch > 0 && workload->seq_len > 0);
    facts_put(facts, "global_batch", number(facts->arena, workload->global_batch));
    facts_put(facts, "seq_len", number(facts->arena, workload->seq_len));
    facts_put(facts, "precision", precision_name(workload->precision));
    facts_put(facts, "optimizer", optimizer_name(workload->optimizer));
    facts_put(facts, "capacity", arena_print(facts->arena, "%g", workload->capacity_factor));
}

// Programs refuse a sequence with fewer positions than tokens: it is trained with as many.
static void cover_sequence(struct facts *facts, int64_t seq_len)
{
    if (facts_number(facts, "model.positions", seq_len) < seq_len)
        facts_put(facts, "model.positions", number(facts->arena, seq_len));
}

// "build.NAME" "NAME" of each: what a stack may be built otherwise is a fact of its own.
static void put_builds(struct facts *facts, const char *builds)
{
    for (const char *at = builds; at && *at; at += *at == '+') {
        int length = (int)strcspn(at, "+");
        const char *name = arena_print(facts->arena, "%.*s", length, at);
        facts_put(facts, arena_print(facts->arena, "build.%s", name), name);
        at += length;
    }
}

struct facts *facts_make(struct arena *arena, const struct facts_request *request, struct err *err)
{
    assert(parallel_rank_count(request->parallel) > 0);
    const struct parallel *parallel = request->parallel;
    struct facts *facts = ARENA_NEW(arena, struct facts, 1);
    facts->arena = arena;
    facts_put(facts, "world", number(arena, parallel_rank_count(parallel)));
    for (int i = 0; i < PLAIN_COUNT; i++) {
        enum choice choice = PLAIN[i];
        facts_put(facts, choice_name(choice),
                  choice_text(arena, choice, choice_value(parallel, choice)));
    }
    const struct import_options options = {.flash = true};
    const struct graph *graph = model_graph(arena, request->model, &options);
    if (parallel->replica_count > 0) {
        err_set(err, ERR_USAGE,
                "replicas with numbers of micro-batches of their own cannot be expressed: other "
                "software gives all replicas the same; --stack meshwright runs them");
        return NULL;
    }
    if (parallel_has_meshes(parallel)) {
        err_set(
            err, ERR_USAGE,
            "stages with meshes of their own cannot be expressed: other software gives all stages "
            "the same; --stack meshwright runs them");
        return NULL;
    }
    if (parallel->branches) {
        err_set(err, ERR_USAGE,
                "branches side by side cannot be expressed: other software has every stage hand on "
                "to the next; --stack meshwright runs them");
        return NULL;
    }
    if (!put_pieces(facts, graph, parallel, err)) return NULL;
    put_recompute(facts, parallel);
    put_offload(facts, parallel);
    for (int bit = 0; bit < OVERLAP_BITS; bit++)
        facts_put(facts, overlap_fact(arena, bit), parallel->overlap >> bit & 1 ? "on" : "off");
    if (parallel->passes != request->stack->passes)
        facts_put(facts, "passes", pass_text(arena, parallel->passes));
    put_order(facts, parallel);
    facts_put(facts, "layouts", number(arena, parallel->layout_count));
    put_builds(facts, request->builds);
    put_workload(facts, request->workload);
    if (!model_facts_put(facts, request->model, graph, err)) return NULL;
    cover_sequence(facts, request->workload->seq_len);
    facts_clean(facts);
    return facts;
}

// Whether the fact is there and the choice takes its words.
static bool take(const struct facts *facts, const char *name, enum choice choice, const char *words,
                 struct said *said, const char **odd)
{
    struct err unread = {0};
    int64_t value;
    if (!words) return false;
    if (!choice_parse(choice, words, &value, &unread)) {
        if (odd) *odd = name;
        return false;
    }
    (void)facts;
    choice_put(&said->parallel, choice, value);
    said->choices[choice] = true;
    return true;
}

// Words with an optional count of layers behind ':'.
static void take_recompute(struct arena *arena, const struct facts *facts, struct said *said,
                           const char **odd)
{
    const char *words = facts_get(facts, "recompute");
    const char *colon = words ? strchr(words, ':') : NULL;
    said->parallel.recompute_layers = colon ? atoi(colon + 1) : -1;
    if (colon) words = arena_print(arena, "%.*s", (int)(colon - words), words);
    if (take(facts, "recompute", CHOICE_RECOMPUTE, words, said, odd))
        said->choices[CHOICE_RECOMPUTE_LAYERS] = said->parallel.recompute != RECOMPUTE_NONE;
}

static void take_offload(struct arena *arena, const struct facts *facts, struct said *said,
                         const char **odd)
{
    const char *states = facts_get(facts, "offload.optimizer");
    const char *moved = facts_get(facts, "offload.activations");
    const char *weights = facts_get(facts, "offload.parameters");
    if (!states || !moved || !weights) return;
    bool has_states = strcmp(states, "none") != 0, has_moved = strcmp(moved, "none") != 0;
    const char *tier = strcmp(states, "nvme") == 0 ? "@nvme" : "";
    const char *first = has_states ? arena_print(arena, "optimizer%s", tier) : "";
    if (strcmp(weights, "none") != 0)
        first = arena_print(arena, "%s%sparameters@%s", first, *first ? "," : "", weights);
    const char *words = has_moved ? arena_print(arena, "%s%s%s", first, *first ? "," : "", moved)
                        : *first  ? first
                                  : "none";
    take(facts, "offload.optimizer", CHOICE_OFFLOAD, words, said, odd);
}

static void take_overlap(struct arena *arena, const struct facts *facts, const struct stack *stack,
                         struct said *said)
{
    unsigned overlap = stack->overlap_default;
    for (int bit = 0; bit < OVERLAP_BITS; bit++) {
        const char *value = facts_get(facts, overlap_fact(arena, bit));
        if (!value) continue;
        overlap &= ~(1U << bit);
        if (strcmp(value, "on") == 0) overlap |= 1U << bit;
    }
    said->parallel.overlap = overlap;
    said->choices[CHOICE_OVERLAP] = facts_get(facts, "overlap.grad-reduce") != NULL;
}

// Pieces in the order of the model to layers a stage; said only if they are what the planner would
// make of those.
static void take_pieces(struct arena *arena, const struct facts *facts, struct said *said)
{
    const char *text = facts_get(facts, "pieces");
    int64_t stage_count = said->parallel.degree[AXIS_PP];
    if (!text || !said->choices[CHOICE_PP]) return;
    int *layers = ARENA_NEW(arena, int, stage_count);
    const struct schedule_row *row = schedule_row(said->parallel.schedule);
    const struct schedule_shape shape = {.stage_count = (int)stage_count,
                                         .chunk_count = said->parallel.vpp};
    int virtual = 0, all = (int)stage_count * said->parallel.vpp;
    for (const char *at = text; *at && virtual < all; virtual ++) {
        layers[row->stage_of(&shape, virtual)] += atoi(at);
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (virtual != all) return;
    said->parallel.stage_layers = layers;
    said->parallel.stage_layers_count = (int)stage_count;
    said->stages = true;
}

// Axes that the order leaves out are of one rank, and stand where they do by default.
static void take_order(const struct facts *facts, struct said *said)
{
    const char *text = facts_get(facts, "order");
    parallel_default_order(&said->parallel);
    if (!text) return;
    int count = 0;
    for (const char *at = text; *at && count < AXIS_COUNT; at += *at == ',') {
        size_t length = strcspn(at, ",");
        for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
            const char *name = axis_name(axis);
            if (strlen(name) == length && strncmp(name, at, length) == 0)
                said->parallel.order[count++] = axis;
        }
        at += length;
    }
    said->parallel.order_count = count;
    parallel_complete_order(&said->parallel);
    said->order = true;
}

static void take_workload(const struct facts *facts, struct said *said)
{
    struct workload *workload = &said->workload;
    const char *precision = facts_get(facts, "precision");
    const char *optimizer = facts_get(facts, "optimizer");
    const char *capacity = facts_get(facts, "capacity");
    *workload = (struct workload){.expert_imbalance = 1, .precision = PRECISION_BF16};
    workload->seq_len = facts_number(facts, "seq_len", 0);
    workload->global_batch = facts_number(facts, "global_batch", 0);
    said->seq_len = workload->seq_len > 0;
    said->global_batch = workload->global_batch > 0;
    said->precision = precision && precision_from_name(precision, &workload->precision);
    said->optimizer = optimizer && optimizer_from_name(optimizer, &workload->optimizer);
    said->capacity = capacity != NULL;
    workload->capacity_factor = capacity ? strtod(capacity, NULL) : 0;
}

void facts_said(struct arena *arena, const struct facts *facts, const struct stack *stack,
                struct said *said, const char **odd)
{
    *said = (struct said){0};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        said->parallel.degree[axis] = 1;
    said->parallel.vpp = said->parallel.micro_batch = 1;
    said->parallel.schedule = SCHEDULE_1F1B;
    said->parallel.recompute_layers = -1;
    said->parallel.passes = stack->passes;
    for (int i = 0; i < PLAIN_COUNT; i++) {
        const char *name = choice_name(PLAIN[i]);
        take(facts, name, PLAIN[i], facts_get(facts, name), said, odd);
    }
    take_recompute(arena, facts, said, odd);
    take_offload(arena, facts, said, odd);
    take_overlap(arena, facts, stack, said);
    take_order(facts, said);
    take_workload(facts, said);
    take_pieces(arena, facts, said);
}
