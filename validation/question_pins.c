#include "models/graph.h"
#include "planner/choice.h"
#include "validation/question.h"

#include <assert.h>
#include <string.h>

// No row says its optimizer: AdamW is what models of these kinds are trained with.
struct workload question_workload(const struct row *row)
{
    assert(row->facts.seq_len > 0 && row->facts.global_batch > 0);
    return (struct workload){
        .seq_len = row->facts.seq_len,
        .global_batch = row->facts.global_batch,
        .precision = row->precision,
        .optimizer = OPTIMIZER_ADAMW,
        .expert_imbalance = 1,
    };
}

// A row says nothing of a degree (0) or says 1 where nothing is split.
static bool is_split(int degree)
{
    return degree > 1;
}

static void pin(struct pins *pins, enum choice choice, int64_t value)
{
    assert(choice >= 0);
    pins_set(pins, choice, value, value);
}

// Zero bubble of one and of two times the memory of 1F1B are the hand-made schedules H1 and H2.
// Chunks without their number are none.
static enum schedule_kind schedule_of(const struct row_facts *facts)
{
    const char *words = facts->schedule ? facts->schedule : "";
    if (strcasestr(words, "zb-1p")) return SCHEDULE_ZB_H1;
    if (strcasestr(words, "zb-2p")) return SCHEDULE_ZB_H2;
    return strcasestr(words, "interleaved") && is_split(facts->vpp) ? SCHEDULE_INTERLEAVED
                                                                    : SCHEDULE_1F1B;
}

// What sources call the classes of operators that they recompute.
static const struct {
    const char *word;
    enum op_class class;
} CLASS_WORDS[] = {
    {"norm", OP_CLASS_NORM},
    {"layernorm", OP_CLASS_NORM},
    {"rmsnorm", OP_CLASS_NORM},
    {"act", OP_CLASS_ACTIVATION},
    {"moe_act", OP_CLASS_ACTIVATION},
    {"mlp", OP_CLASS_MLP},
    {"moe", OP_CLASS_EXPERTS},
    {"mla_up_proj", OP_CLASS_UP},
    {"mla up-projection", OP_CLASS_UP},
    {"core_attn", OP_CLASS_ATTENTION},
    {"attention core", OP_CLASS_ATTENTION},
};

static bool add_class(const char *word, size_t length, unsigned *classes)
{
    for (size_t i = 0; i < sizeof CLASS_WORDS / sizeof *CLASS_WORDS; i++) {
        const char *known = CLASS_WORDS[i].word;
        if (strlen(known) != length || strncasecmp(known, word, length) != 0) continue;
        *classes |= 1u << CLASS_WORDS[i].class;
        return true;
    }
    return false;
}

// "selective (norm, act)": the classes between the brackets; 0 where one of them is not known.
static unsigned stated_classes(const char *words)
{
    const char *at = strchr(words, '(');
    unsigned classes = 0;
    while (at && *at && *at != ')') {
        at += 1 + strspn(at + 1, " ");
        size_t length = strcspn(at, ",+)");
        const char *next = at + length;
        while (length > 0 && at[length - 1] == ' ') {
            length--;
        }
        if (!add_class(at, length, &classes)) return 0;
        at = next;
    }
    return classes;
}

// "full on 5 of 32 layers" is neither full nor none: the search chooses. So it does where the row
// says nothing.
static void pin_recompute(struct pins *pins, const struct row_facts *facts,
                          const struct stack *stack, enum question_detail detail)
{
    const char *words = facts->recompute ? facts->recompute : "";
    enum recompute recompute = RECOMPUTE_COUNT;
    unsigned classes = 0;
    if (strncasecmp(words, "none", 4) == 0) recompute = RECOMPUTE_NONE;
    if (strncasecmp(words, "full", 4) == 0 && !strstr(words, " of ")) recompute = RECOMPUTE_FULL;
    bool is_per_op = strncasecmp(words, "selective (per-op", 17) == 0;
    if (is_per_op && stack->recompute >> RECOMPUTE_PER_OP & 1) {
        recompute = RECOMPUTE_PER_OP;
    } else if (strncasecmp(words, "selective", 9) == 0) {
        recompute = RECOMPUTE_SELECTIVE;
        if (detail == QUESTION_STATED) classes = stated_classes(words);
        if (classes & ~stack->recompute_classes) classes = 0;
        if (classes == 1u << OP_CLASS_ATTENTION) classes = 0;
    }
    if (recompute == RECOMPUTE_COUNT) return;
    pin(pins, CHOICE_RECOMPUTE, recompute_value(recompute, classes));
    pin(pins, CHOICE_RECOMPUTE_LAYERS, -1);
}

// What is said replaces the software's default, as far as it can do so.
static void pin_overlap(struct pins *pins, const struct row_facts *facts, const struct stack *stack)
{
    if (!facts->overlap_on && !facts->overlap_off) return;
    unsigned wanted = (stack->overlap_default | facts->overlap_on) & ~facts->overlap_off;
    pin(pins, CHOICE_OVERLAP, wanted & stack->overlap);
}

// One that the stack does not have is not asked of it.
static void pin_context(struct pins *pins, const struct row_facts *facts, const struct stack *stack)
{
    for (int kind = 0; kind < CP_KIND_COUNT && facts->cp_kind; kind++) {
        bool is_stated = strcmp(cp_kind_name((enum cp_kind)kind), facts->cp_kind) == 0;
        if (is_stated && stack->cp_kinds >> kind & 1) pin(pins, CHOICE_CP_KIND, kind);
    }
}

// What a row does not say is not split.
static void pin_degrees(struct pins *pins, const struct row_facts *facts)
{
    const struct {
        enum choice choice;
        int value;
    } degrees[] = {
        {CHOICE_TP, facts->tp}, {CHOICE_PP, facts->pp}, {CHOICE_CP, facts->cp},
        {CHOICE_EP, facts->ep}, {CHOICE_DP, facts->dp},
    };
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        pin(pins, degrees[i].choice, is_split(degrees[i].value) ? degrees[i].value : 1);
    }
}

// A coarse question leaves to the search what sources often leave out.
struct pins question_pins(const struct row *row, const struct stack *stack,
                          enum question_detail detail)
{
    const struct row_facts *facts = &row->facts;
    struct pins pins = pins_none();
    pin_degrees(&pins, facts);
    if (facts->micro_batch) pin(&pins, CHOICE_MICRO_BATCH, facts->micro_batch);
    if (is_split(facts->vpp)) pin(&pins, CHOICE_VPP, facts->vpp);
    if (is_split(facts->pp)) pin(&pins, CHOICE_SCHEDULE, schedule_of(facts));
    if (facts->zero_stage >= 0) pin(&pins, CHOICE_ZERO, facts->zero_stage);
    if (facts->sp && is_split(facts->tp)) pin(&pins, CHOICE_SP, facts->sp == ROW_YES);
    pin_recompute(&pins, facts, stack, detail);
    if (facts->flash_attention) {
        bool flash = facts->flash_attention == ROW_YES;
        pin(&pins, CHOICE_ATTENTION, flash ? ATTENTION_FLASH : ATTENTION_UNFUSED);
    }
    const struct adapters adapters = {facts->lora.rank, facts->lora.targets};
    if (adapters.rank > 0) pin(&pins, CHOICE_LORA, adapters_value(adapters));
    if (detail == QUESTION_COARSE) return pins;
    pin_overlap(&pins, facts, stack);
    pin_context(&pins, facts, stack);
    if (facts->zero_group >= 0) pin(&pins, CHOICE_ZERO_GROUP, facts->zero_group);
    return pins;
}
