#include "exchange/targets/forms.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *number(struct arena *arena, int64_t value)
{
    return arena_print(arena, "%lld", (long long)value);
}

const char *form_itself(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena, (void)facts;
    return value;
}

const char *form_never(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena, (void)facts, (void)value;
    return NULL;
}

const struct exchange_form UNREAD_FORM = {form_never, form_never};
const struct exchange_form READ_FORM = {form_never, form_itself};

// The axes that multiply to all GPUs, but for dp.
static int64_t ranks_of_a_copy(const struct facts *facts)
{
    return facts_number(facts, "tp", 1) * facts_number(facts, "cp", 1) *
           facts_number(facts, "pp", 1);
}

static const char *copies(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t world = facts_number(facts, "world", 0), each = ranks_of_a_copy(facts);
    (void)value;
    return world > 0 && world % each == 0 ? number(arena, world / each) : NULL;
}
const struct exchange_form WORLD_FORM = {form_itself, copies};

static int piece_count(const char *pieces)
{
    int count = *pieces != '\0';
    for (; *pieces; pieces++)
        count += *pieces == ',';
    return count;
}

static bool is_even(const struct facts *facts, const char *pieces)
{
    if (facts_number(facts, "model.mtp", 0)) return false;
    int first = atoi(pieces);
    for (const char *at = pieces; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (atoi(at) != first) return false;
    }
    return true;
}

// The modules of multi-token prediction are among the last piece's layers.
static const char *any_layout(struct arena *arena, const struct facts *facts, const char *pieces)
{
    int64_t modules = facts_number(facts, "model.mtp", 0);
    const char *text = "E";
    for (const char *at = pieces; at; at = strchr(at, ',')) {
        at += *at == ',';
        bool is_last = !strchr(at, ',');
        int64_t layers = atoi(at) - (is_last ? modules : 0);
        if (layers < 0) return NULL;
        if (layers > 0) text = arena_print(arena, "%st*%lld", text, (long long)layers);
        for (int64_t i = 0; is_last && i < modules; i++)
            text = arena_print(arena, "%sm", text);
        text = arena_print(arena, "%s%s", text, is_last ? "L" : "|");
    }
    return text;
}

static const char *layout(struct arena *arena, const struct facts *facts, const char *pieces)
{
    return is_even(facts, pieces) ? NULL : any_layout(arena, facts, pieces);
}

// Letters with an optional count: "t*3" is "ttt". Commas are for the eye.
static const char *pieces_of(struct arena *arena, const struct facts *facts, const char *text)
{
    const char *pieces = "";
    int64_t layers = 0;
    (void)facts;
    for (const char *at = text;; at++) {
        if (*at == '|' || !*at) {
            pieces = arena_print(arena, "%s%s%lld", pieces, *pieces ? "," : "", (long long)layers);
            layers = 0;
            if (!*at) return pieces;
        } else if (*at == 't' || *at == 'm') {
            char *end = NULL;
            int64_t count = at[1] == '*' ? strtoll(at + 2, &end, 10) : 1;
            layers += count;
            if (end) at = end - 1;
        } else if (!strchr("EL, \"'", *at)) {
            return NULL;
        }
    }
}
const struct exchange_form LAYOUT_FORM = {layout, pieces_of};
const struct exchange_form PIECES_FORM = {any_layout, pieces_of};

static const char *layout_of_chunks(struct arena *arena, const struct facts *facts,
                                    const char *value)
{
    const char *pieces = facts_get(facts, "pieces");
    (void)value;
    return pieces ? layout(arena, facts, pieces) : NULL;
}

static const char *chunks_of_layout(struct arena *arena, const struct facts *facts,
                                    const char *text)
{
    const char *pieces = pieces_of(arena, facts, text);
    int64_t stages = facts_number(facts, "pp", 1);
    if (!pieces || piece_count(pieces) % stages) return NULL;
    return number(arena, piece_count(pieces) / stages);
}

static const char *any_of_chunks(struct arena *arena, const struct facts *facts, const char *value)
{
    const char *pieces = facts_get(facts, "pieces");
    (void)value;
    return pieces ? any_layout(arena, facts, pieces) : NULL;
}
const struct exchange_form PIECES_VPP_FORM = {any_of_chunks, chunks_of_layout};
const struct exchange_form LAYOUT_VPP_FORM = {layout_of_chunks, chunks_of_layout};

static const char *even(struct arena *arena, const struct facts *facts, const char *pieces)
{
    (void)arena;
    return is_even(facts, pieces) ? pieces : NULL;
}

// A stack of layers that says nothing of stages splits evenly, where it can.
static const char *even_pieces(struct arena *arena, const struct facts *facts, const char *text)
{
    int64_t layers = facts_number(facts, "model.layers", 0), chunks = facts_number(facts, "vpp", 0);
    int64_t count = facts_number(facts, "pp", 0) * chunks;
    const char *pieces = "";
    (void)text;
    if (layers == 0 || count == 0 || layers % count) return NULL;
    for (int64_t i = 0; i < count; i++)
        pieces = arena_print(arena, "%s%s%lld", pieces, i ? "," : "", (long long)(layers / count));
    return pieces;
}
const struct exchange_form EVEN_FORM = {even, even_pieces};

static const char *layers_of_chunk(struct arena *arena, const struct facts *facts,
                                   const char *value)
{
    const char *pieces = facts_get(facts, "pieces");
    if (!pieces || strcmp(value, "1") == 0 || !is_even(facts, pieces)) return NULL;
    return number(arena, atoi(pieces));
}

static const char *chunks_of_layers(struct arena *arena, const struct facts *facts,
                                    const char *text)
{
    int64_t layers = facts_number(facts, "model.layers", 0), each = atoi(text);
    int64_t stages = facts_number(facts, "pp", 1);
    if (each <= 0 || layers == 0 || layers % (each * stages)) return NULL;
    assert(layers / each / stages > 0);
    return number(arena, layers / each / stages);
}
const struct exchange_form EVEN_VPP_FORM = {layers_of_chunk, chunks_of_layers};

// The same product in both directions: ranks of a group, groups.
static const char *groups(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t ranks = facts_number(facts, "dp", 0) * facts_number(facts, "cp", 1), each = atoi(value);
    if (ranks == 0 || each <= 0 || ranks % each) return NULL;
    return number(arena, ranks / each);
}
const struct exchange_form GROUPS_FORM = {groups, groups};

static const struct {
    const char *ours, *theirs;
} CLASSES[] = {{"attention", "core_attn"}, {"norm", "layernorm"},
               {"activation", "moe_act"},  {"mlp", "mlp"},
               {"experts", "moe"},         {"mla-up", "mla_up_proj"}};

static const char *other_class(const char *word, size_t length, bool is_ours)
{
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        const char *from = is_ours ? CLASSES[i].ours : CLASSES[i].theirs;
        if (strlen(from) == length && strncmp(from, word, length) == 0)
            return is_ours ? CLASSES[i].theirs : CLASSES[i].ours;
    }
    return NULL;
}

static const char *translate(struct arena *arena, const char *text, bool is_ours)
{
    const char *words = "", *between = is_ours ? " " : ",";
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ", ");
        const char *word = other_class(at, length, is_ours);
        if (!word) return NULL;
        words = arena_print(arena, "%s%s%s", words, *words ? between : "", word);
        at += length + (at[length] != '\0');
    }
    return *words ? words : NULL;
}

static const char *modules(struct arena *arena, const struct facts *facts, const char *value)
{
    // What a model has none of is refused, the function of a dense mlp is no module of theirs, and
    // the first of many layers cannot be told.
    bool is_dense = !facts_get(facts, "model.experts") &&
                    (strstr(value, "activation") || strstr(value, "experts"));
    bool is_wide = !facts_is(facts, "model.latent", "on") && strstr(value, "mla-up");
    return is_dense || is_wide || strchr(value, ':') ? NULL : translate(arena, value, true);
}

// In the order of a plan.
static const char *classes(struct arena *arena, const struct facts *facts, const char *text)
{
    const char *words = translate(arena, text, false), *sorted = "";
    (void)facts;
    if (!words) return NULL;
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        const char *ours = CLASSES[i].ours;
        bool is_there = false;
        for (const char *at = words; *at && !is_there;) {
            size_t length = strcspn(at, ",");
            is_there = strlen(ours) == length && strncmp(at, ours, length) == 0;
            at += length + (at[length] != '\0');
        }
        if (is_there) sorted = arena_print(arena, "%s%s%s", sorted, *sorted ? "," : "", ours);
    }
    return strcmp(sorted, "attention") == 0 ? "selective" : sorted;
}
const struct exchange_form CLASSES_FORM = {modules, classes};

static const char *elements(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t bytes = strtoll(value, NULL, 10);
    (void)facts;
    return bytes > 0 && bytes % 4 == 0 ? number(arena, bytes / 4) : NULL;
}

static const char *bytes(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)facts;
    return number(arena, strtoll(text, NULL, 10) * 4);
}
const struct exchange_form BUCKET_FORM = {elements, bytes};

const char *form_one_chunk(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_number(facts, "vpp", 1) == 1 ? value : NULL;
}
const struct exchange_form ONE_CHUNK_FORM = {form_one_chunk, form_one_chunk};

static const char *more_chunks(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_number(facts, "vpp", 1) == 1 ? NULL : value;
}
const struct exchange_form MORE_CHUNKS_FORM = {more_chunks, more_chunks};

static const char *two_neighbours(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_number(facts, "pp", 1) > 2 ? value : NULL;
}
const struct exchange_form NEIGHBOURS_FORM = {two_neighbours, two_neighbours};

static const char *whole(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    bool is_whole = facts_is_neutral(facts, "tp") && facts_is_neutral(facts, "cp");
    return is_whole ? value : NULL;
}
const struct exchange_form WHOLE_FORM = {whole, form_itself};

static const char *fewer_queries(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "model.heads", value) ? NULL : value;
}
const struct exchange_form QUERIES_FORM = {fewer_queries, form_itself};

static const char *as_many(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "model.heads", value) ? value : NULL;
}

static const char *heads(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)text;
    return facts_is(facts, "model.latent", "on") ? NULL : facts_get(facts, "model.heads");
}
const struct exchange_form ALL_QUERIES_FORM = {as_many, heads};

static const char *four_hidden(struct arena *arena, const struct facts *facts, const char *text)
{
    int64_t hidden = facts_number(facts, "model.hidden", 0);
    (void)text;
    return hidden > 0 ? number(arena, 4 * hidden) : NULL;
}
const struct exchange_form FOUR_HIDDEN_FORM = {form_never, four_hidden};

static const char *dense_layers(struct arena *arena, const struct facts *facts, const char *value)
{
    int64_t dense = atoi(value), layers = facts_number(facts, "model.layers", 0);
    if (dense <= 0) return NULL;
    return arena_print(arena, "([0]*%lld+[1]*%lld)", (long long)dense, (long long)(layers - dense));
}

static const char *dense_count(struct arena *arena, const struct facts *facts, const char *text)
{
    int64_t layers = facts_number(facts, "model.layers", 0);
    const char *star = strchr(text, '*');
    if (strncmp(text, "([0]*", 5) != 0 || !star) return NULL;
    const char *value = number(arena, atoi(star + 1));
    const char *again = dense_layers(arena, facts, value);
    return layers > 0 && again && strcmp(again, text) == 0 ? value : NULL;
}
const struct exchange_form DENSE_FORM = {dense_layers, dense_count};

static const char *shared_width(struct arena *arena, const struct facts *facts, const char *value)
{
    return number(arena, atoi(value) * facts_number(facts, "model.expert_ffn", 0));
}

static const char *shared_count(struct arena *arena, const struct facts *facts, const char *text)
{
    int64_t each = facts_number(facts, "model.expert_ffn", 0), width = atoi(text);
    return each > 0 && width % each == 0 ? number(arena, width / each) : NULL;
}
const struct exchange_form SHARED_FORM = {shared_width, shared_count};

static const char *has_experts(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)text;
    return facts_get(facts, "model.experts") ? "on" : NULL;
}
const struct exchange_form EXPERTS_FORM = {form_itself, has_experts};

static const char *as_tp(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)text;
    const char *size = facts_get(facts, "tp");
    return size ? size : "1";
}
const struct exchange_form ETP_FORM = {form_never, as_tp};

static const char *selective(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)facts;
    return strcmp(text, "selective") == 0 ? "selective" : NULL;
}
const struct exchange_form SELECTIVE_FORM = {form_never, selective};

static const char *alone(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    bool is_alone = facts_is_neutral(facts, "pp") && facts_is(facts, "recompute", "none");
    return is_alone ? value : NULL;
}
const struct exchange_form ALONE_FORM = {alone, form_itself};

static const char *reduced(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "overlap.grad-reduce", "on") ? value : NULL;
}
const struct exchange_form REDUCED_FORM = {reduced, form_itself};

static const char *sharded(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "zero") ? NULL : value;
}
const struct exchange_form SHARDED_FORM = {sharded, form_itself};

const struct exchange_form WRITTEN_FORM = {form_itself, form_never};

static const char *ulysses(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is(facts, "cp_kind", "ulysses") ? value : NULL;
}
const struct exchange_form ULYSSES_FORM = {ulysses, form_itself};

static const char *steps(struct arena *arena, const struct facts *facts, const char *micro_batch)
{
    int64_t each = atoi(micro_batch) * facts_number(facts, "dp", 0);
    int64_t batch = facts_number(facts, "global_batch", 0);
    return each > 0 && batch % each == 0 ? number(arena, batch / each) : NULL;
}
const struct exchange_form STEPS_FORM = {steps, form_never};

// One switch for both, but parameters are whole between steps before stage 3: nothing is gathered
// beside compute there.
static const char *gathered(const struct facts *facts)
{
    return facts_is(facts, "zero", "3") ? facts_get(facts, "overlap.grad-reduce") : "off";
}
static const char *as_reduced(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    const char *other = gathered(facts);
    return other && strcmp(other, value) == 0 ? value : NULL;
}
static const char *of_reduced(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena, (void)text;
    return gathered(facts);
}
const struct exchange_form SAME_FORM = {as_reduced, of_reduced};

static const char *at_stage_3(struct arena *arena, const struct facts *facts, const char *text)
{
    (void)arena;
    return facts_is(facts, "zero", "3") ? text : NULL;
}
const struct exchange_form STAGE_3_FORM = {form_never, at_stage_3};

// The ranks of dp that shard; cp shards beside them.
static int64_t shards(const struct facts *facts)
{
    int64_t group = facts_number(facts, "zero_group", 0), all = facts_number(facts, "dp", 1);
    if (facts_is_neutral(facts, "zero")) return 1;
    return group > 0 ? group / facts_number(facts, "cp", 1) : all;
}

static const char *replicas(struct arena *arena, const struct facts *facts, const char *value)
{
    return number(arena, atoi(value) / shards(facts));
}
const struct exchange_form REPLICAS_FORM = {replicas, form_never};

static const char *shard_degree(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)value;
    return number(arena, shards(facts));
}
const struct exchange_form SHARDS_FORM = {shard_degree, form_never};

static const char *split(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    int64_t ranks = facts_number(facts, "dp", 1) * facts_number(facts, "cp", 1);
    return ranks > 1 ? value : NULL;
}
const struct exchange_form SPLIT_FORM = {split, form_itself};

static const char *by_stages(struct arena *arena, const struct facts *facts, const char *value)
{
    (void)arena;
    return facts_is_neutral(facts, "pp") ? NULL : value;
}
const struct exchange_form STAGES_FORM = {by_stages, by_stages};
