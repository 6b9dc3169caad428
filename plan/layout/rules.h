#pragma once
#include "core/json_write.h"
#include "models/op.h"
#include "plan/parallel.h"

// Layouts of single operators: what a plan says in place of the table of techniques
// (plan/layout/strategy.h). A rule names an operator of a kind of blocks, an axis, and the dim that
// the axis splits there; strategy_of reads it, and all else follows as it does from the table:
// layouts, collectives, gradients, prices, memory, tasks. Blocks of a kind share their rules; where
// stages have numbers of ranks (struct parallel, stage_ranks) a rule may be one of a stage alone,
// and goes before what is said of all. What blocks hand on lies as the table says. Rules
// come from annotations (plan/layout/annotations.h) or from a search (planner/per_operator.h).
//
// tp is the one axis that can be ruled: dp splits the batch that a rank is given, cp the sequence,
// and what cp and tp both split is laid out in an order of digits (layout_slice) that holds for
// the dims of the table alone. Experts follow ep and etp.

struct layout_rule {
    const char *operator;  // "layer.mlp.up": the kind of block and the operator
    enum axis axis;
    enum dim dim;  // DIM_NONE: none, all of the axis does the same
    bool follows;  // what the axis splits where an operator has none of the dims that it prefers:
                   // seq with sequence parallelism, else none; `dim` is DIM_NONE
    bool is_of_stage;
    int stage;  // the one that it holds on
};

// "ffn", "whole", "otherwise": the word of files.
const char *layout_rule_word(const struct layout_rule *rule);
bool layout_rule_parse(const char *word, struct layout_rule *rule);

// "layer.mlp.up"
const char *layout_rule_name(struct arena *arena, const struct block *block, const struct op *op);

// The rule of a forward operator, or of a sum of gradients: that of who made what it is the
// gradient of, where the dim is one of it. NULL: the table holds.
const struct layout_rule *layout_rule_of(const struct parallel *parallel, enum axis axis,
                                         const struct block *block, const struct op *op);

// Whether stages have rules of their own.
bool layout_rules_are_staged(const struct parallel *parallel);

// Whether a rule can be: what is wrong with it goes on "layer.mlp.up ". NULL: nothing is. Sizes
// are asked by layout_rules_check.
const char *layout_rule_fault(struct arena *arena, const struct block *block, const struct op *op,
                              const struct layout_rule *rule);

// Whether operators and axes are such that the rules of a plan can be carried out: every split is
// even, a parameter lies the same for all who read it, tied ones in both of their blocks, and no
// change of layout takes an outer digit of a dim away from an inner one; those of a stage are of
// operators that it has, none of which reads a tied parameter. ERR_USAGE where not.
MUST_CHECK bool layout_rules_check(const struct graph *graph, const struct workload *workload,
                                   const struct parallel *parallel, struct err *err);
// The same of a graph of some of the blocks, whether or not the plan has rules for them; or alone
// whether parameters that they tie together can lie so.
MUST_CHECK bool layout_rules_hold(const struct graph *graph, const struct workload *workload,
                                  const struct parallel *parallel, bool ties_alone,
                                  struct err *err);
// The same for the ranks of one stage, where stages have numbers of ranks.
MUST_CHECK bool layout_rules_hold_at(const struct graph *graph, const struct workload *workload,
                                     const struct parallel *parallel, int stage, bool ties_alone,
                                     struct err *err);

void layout_rules_write(struct json_writer *writer, const char *key,
                        const struct parallel *parallel);
MUST_CHECK bool layout_rules_read(struct arena *arena, const struct json *list,
                                  struct parallel *parallel, struct err *err);
