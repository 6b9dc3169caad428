#include "plan/choice_form.h"

#include "models/graph.h"
#include "plan/passes.h"

#include <assert.h>

static const char *list_add(struct arena *arena, const char *list, const char *word)
{
    return arena_print(arena, "%s|%s", list, word);
}

int recompute_value(enum recompute recompute, unsigned classes)
{
    assert(classes == 0 || recompute == RECOMPUTE_SELECTIVE);
    return (int)recompute + RECOMPUTE_COUNT * (int)classes;
}

enum recompute recompute_of_value(int value, unsigned *classes)
{
    assert(value >= 0);
    *classes = (unsigned)value / RECOMPUTE_COUNT;
    return (enum recompute)(value % RECOMPUTE_COUNT);
}

static const char *recompute_form_text(struct arena *arena, int64_t value)
{
    unsigned classes;
    enum recompute recompute = recompute_of_value((int)value, &classes);
    return recompute_words(arena, recompute, classes);
}

static bool recompute_form_parse(const char *text, int64_t *value)
{
    enum recompute recompute;
    unsigned classes;
    if (!recompute_parse(text, &recompute, &classes)) return false;
    *value = recompute_value(recompute, classes);
    return true;
}

static const char *recompute_form_words(struct arena *arena)
{
    const char *list = recompute_name(RECOMPUTE_NONE);
    for (int i = RECOMPUTE_NONE + 1; i < RECOMPUTE_COUNT; i++)
        list = list_add(arena, list, recompute_name((enum recompute)i));
    for (int i = OP_CLASS_NONE + 1; i < OP_CLASS_COUNT; i++)
        list = list_add(arena, list, op_class_name((enum op_class)i));
    return list;
}

static int64_t recompute_form_get(const struct parallel *parallel)
{
    return recompute_value(parallel->recompute, parallel->recompute_classes);
}

static void recompute_form_put(struct parallel *parallel, int64_t value)
{
    parallel->recompute = recompute_of_value((int)value, &parallel->recompute_classes);
}

const struct choice_form RECOMPUTE_FORM = {
    .text = recompute_form_text,
    .parse = recompute_form_parse,
    .words = recompute_form_words,
    .get = recompute_form_get,
    .put = recompute_form_put,
    .alone_count = RECOMPUTE_COUNT,
    .open_word = "auto",
    .fault = "\"none\", \"selective\", \"full\", \"per-op\" and \"auto\" stand alone",
    .wanted = "no recompute (none, selective, full, per-op, or classes of operators)",
};

static const char *offload_form_text(struct arena *arena, int64_t value)
{
    struct offload offload = offload_of_value(value);
    return offload_words(arena, &offload);
}

static bool offload_form_parse(const char *text, int64_t *value)
{
    struct offload offload;
    if (!offload_parse(text, &offload)) return false;
    *value = offload_value(&offload);
    return true;
}

static int64_t offload_form_get(const struct parallel *parallel)
{
    return offload_value(&parallel->offload);
}

static void offload_form_put(struct parallel *parallel, int64_t value)
{
    parallel->offload = offload_of_value(value);
}

const struct choice_form OFFLOAD_FORM = {
    .text = offload_form_text,
    .parse = offload_form_parse,
    .get = offload_form_get,
    .put = offload_form_put,
    .open_word = "auto",
    .fault =
        "is neither none nor auto nor a list of optimizer, parameters, gradients, activations and "
        "classes of operators, each with :N or @nvme",
    .wanted = "no offload (none, or optimizer, parameters, turn, between, gradients, activations, "
              "classes of operators)",
};

static const char *lora_form_text(struct arena *arena, int64_t value)
{
    return adapters_words(arena, adapters_of_value(value));
}

static bool lora_form_parse(const char *text, int64_t *value)
{
    struct adapters adapters;
    if (!adapters_parse(text, &adapters)) return false;
    *value = adapters_value(adapters);
    return true;
}

static int64_t lora_form_get(const struct parallel *parallel)
{
    return adapters_value(parallel->lora);
}

static void lora_form_put(struct parallel *parallel, int64_t value)
{
    parallel->lora = adapters_of_value(value);
}

const struct choice_form LORA_FORM = {
    .text = lora_form_text,
    .parse = lora_form_parse,
    .get = lora_form_get,
    .put = lora_form_put,
    .written = "none|RANK[:TARGETS]",
    .fault = "is neither none nor a rank of 1 to 4096, with or without projections behind it "
             "(16:q,k,v,o)",
    .wanted = "no rank of adapters (none, 16, 16:q,v)",
};

static const char *overlap_form_text(struct arena *arena, int64_t value)
{
    return overlap_text(arena, (unsigned)value);
}

static bool overlap_form_parse(const char *text, int64_t *value)
{
    unsigned overlap;
    if (!overlap_parse(text, &overlap)) return false;
    *value = overlap;
    return true;
}

static const char *overlap_form_words(struct arena *arena)
{
    const char *list = overlap_text(arena, 0);
    for (unsigned bit = 1; bit < OVERLAP_END; bit *= 2)
        list = list_add(arena, list, overlap_text(arena, bit));
    return list;
}

static int64_t overlap_form_get(const struct parallel *parallel)
{
    return parallel->overlap;
}

static void overlap_form_put(struct parallel *parallel, int64_t value)
{
    parallel->overlap = (unsigned)value;
}

const struct choice_form OVERLAP_FORM = {
    .text = overlap_form_text,
    .parse = overlap_form_parse,
    .words = overlap_form_words,
    .get = overlap_form_get,
    .put = overlap_form_put,
    .alone_count = 1,
    .fault = "\"none\" stands alone",
    .wanted = "neither none nor a list of overlaps",
};

static const char *passes_form_text(struct arena *arena, int64_t value)
{
    return pass_text(arena, (unsigned)value);
}

static bool passes_form_parse(const char *text, int64_t *value)
{
    unsigned passes;
    if (!pass_parse(text, &passes)) return false;
    *value = passes;
    return true;
}

static const char *passes_form_words(struct arena *arena)
{
    const char *list = list_add(arena, pass_text(arena, 0), pass_text(arena, PASS_ALL));
    for (int i = 0; i < PASS_COUNT; i++)
        list = list_add(arena, list, pass_name((enum pass)i));
    return list;
}

static int64_t passes_form_get(const struct parallel *parallel)
{
    return parallel->passes;
}

static void passes_form_put(struct parallel *parallel, int64_t value)
{
    parallel->passes = (unsigned)value;
}

const struct choice_form PASSES_FORM = {
    .text = passes_form_text,
    .parse = passes_form_parse,
    .words = passes_form_words,
    .get = passes_form_get,
    .put = passes_form_put,
    .alone_count = 2,
    .open_word = "all",
    .fault = "\"none\" and \"all\" stand alone",
    .wanted = "neither none nor a list of passes",
};
