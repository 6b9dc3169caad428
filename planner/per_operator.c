#include "planner/per_operator.h"

#include "core/units.h"
#include "plan/layout/annotations.h"
#include "plan/layout/strategy.h"
#include "planner/per_operator_finding.h"
#include "planner/ranking.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROUND_MAX = 4 };

static bool has_matrix(const struct op *op)
{
    return op->kind == OP_CONTRACT || op->kind == OP_GATHER || op->kind == OP_ATTENTION;
}

static enum dim table_dim(const struct operator_finding *finding, const struct block *block,
                          const struct op *op)
{
    const struct parallel *parallel = &finding->request->parallel;
    struct mesh mesh = mesh_make(parallel, finding->graph->kv_head_count);
    struct strategy strategy = strategy_of(&mesh, parallel, block, op);
    for (int a = mesh.axis_count - 1; a >= 0; a--)
        if (mesh.axes[a].parent == AXIS_TP) return strategy.of[a];
    return DIM_NONE;
}

static void add_node(struct operator_finding *finding, int b, int o)
{
    const struct block *block = &finding->graph->blocks[b];
    const struct op *op = &block->ops[o];
    struct operator_node node = {.block = b, .op = o, .count = 1, .has_matrix = has_matrix(op)};
    const char *name = layout_rule_name(finding->arena, block, op);
    enum dim own = table_dim(finding, block, op);
    for (int d = DIM_NONE; d < DIM_COUNT && node.count < OPERATOR_CHOICES; d++) {
        struct layout_rule rule = {.operator= name, .axis = AXIS_TP, .dim = (enum dim)d};
        bool is_other = rule.dim != own && rule.dim != DIM_HEAD_DIM;
        if (is_other && !layout_rule_fault(finding->scratch, block, op, &rule))
            node.rules[node.count++] = rule;
    }
    if (node.count > 1 && finding->node_count < LAYOUT_SITES_MAX)
        finding->nodes[finding->node_count++] = node;
}

static void add_nodes(struct operator_finding *finding)
{
    for (int b = 0; b < finding->graph->block_count; b++) {
        for (int o = 0; o < finding->graph->blocks[b].op_count; o++)
            add_node(finding, b, o);
    }
}

// The plan with these choices: rules in the arena.
static struct parallel chosen_plan(const struct operator_finding *finding, struct arena *arena,
                                   const int *choice)
{
    struct parallel parallel = finding->request->parallel;
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, finding->node_count);
    int count = 0;
    for (int n = 0; n < finding->node_count; n++)
        if (choice[n] > 0) rules[count++] = finding->nodes[n].rules[choice[n]];
    const struct annotations given = {rules, count};
    struct annotations filled = annotations_fill(arena, finding->graph, &given);
    parallel.layouts = filled.rules;
    parallel.layout_count = filled.count;
    return parallel;
}

bool finding_is_open(const struct operator_finding *finding, int node)
{
    int block = finding->nodes[node].block;
    if (finding->stage < 0) return true;
    return layout_prices_is_on(finding->prices, finding->stage, block) &&
           !layout_prices_is_tied(finding->prices, block);
}

// What is said on one stage, or on all of them (-1).
static int say(const struct operator_finding *finding, int stage, const int *choice,
               struct layout_said *said)
{
    int count = 0;
    for (int n = 0; n < finding->node_count; n++) {
        const struct operator_node *node = &finding->nodes[n];
        bool is_tied = layout_prices_is_tied(finding->prices, node->block);
        // What is tied is said once, of all.
        if (choice[n] == 0 || (stage > 0 && is_tied)) continue;
        struct layout_rule rule = node->rules[choice[n]];
        rule.is_of_stage = stage >= 0 && !is_tied;
        rule.stage = rule.is_of_stage ? stage : 0;
        if (rule.is_of_stage && !layout_prices_is_on(finding->prices, stage, node->block)) continue;
        said[count++] = (struct layout_said){node->block, node->op, rule};
    }
    return count;
}

// What is said of all stages; in the scratch arena.
static struct layout_said *say_all(struct operator_finding *finding, const int *choice, int *count)
{
    assert(finding->stage < 0 || finding->stage < finding->request->parallel.stage_ranks_count);
    int nodes = finding->node_count;
    int stages = finding->stage < 0 ? 1 : finding->request->parallel.stage_ranks_count;
    struct layout_said *said = ARENA_NEW(finding->scratch, struct layout_said, nodes * stages);
    *count = 0;
    for (int s = 0; s < stages && finding->stage >= 0; s++)
        *count += say(finding, s, s == finding->stage ? choice : finding->staged + s * nodes,
                      said + *count);
    if (finding->stage < 0) *count = say(finding, -1, choice, said);
    return said;
}

const uint32_t *const *finding_traces(struct operator_finding *finding, const int *choice)
{
    int count = 0;
    const struct layout_said *said = say_all(finding, choice, &count);
    return layout_prices_traces(finding->prices, said, count);
}

struct layout_value finding_value(struct operator_finding *finding, const int *choice,
                                  double below_s)
{
    struct arena_mark mark = arena_mark(finding->scratch);
    int count = 0;
    const struct layout_said *said = say_all(finding, choice, &count);
    struct layout_value value = layout_prices_value(finding->prices, said, count, below_s);
    finding->priced_count += value.is_legal;
    arena_reset(finding->scratch, mark);
    return value;
}

bool finding_is_better(const struct operator_finding *finding, const struct layout_value *value,
                       const struct layout_value *than)
{
    int64_t limit = finding->limit_bytes;
    bool fits = value->is_legal &&
                (value->reserved_bytes <= limit || value->reserved_bytes <= than->reserved_bytes);
    return fits && step_ns(value->step_s) < step_ns(than->step_s);
}

// Followers among them.
static void descend(struct operator_finding *finding, int *choice, struct layout_value *best)
{
    bool is_moved = true;
    for (int round = 0; round < ROUND_MAX && is_moved; round++) {
        is_moved = false;
        for (int n = 0; n < finding->node_count; n++) {
            int kept = choice[n];
            if (!finding_is_open(finding, n)) continue;
            for (int c = 0; c < finding->nodes[n].count; c++) {
                if (c == kept) continue;
                choice[n] = c;
                struct layout_value value = finding_value(finding, choice, best->step_s);
                if (!finding_is_better(finding, &value, best)) continue;
                *best = value;
                kept = c;
                is_moved = true;
            }
            choice[n] = kept;
        }
    }
}

// What gains nothing goes back to the table.
static void simplify(struct operator_finding *finding, int *choice, struct layout_value *best)
{
    for (int n = 0; n < finding->node_count; n++) {
        int kept = choice[n];
        if (kept == 0 || !finding_is_open(finding, n)) continue;
        choice[n] = 0;
        struct layout_value without = finding_value(finding, choice, INFINITY);
        bool is_as_good = without.is_legal && step_ns(without.step_s) <= step_ns(best->step_s) &&
                          without.reserved_bytes <= best->reserved_bytes;
        if (is_as_good) *best = without;
        if (!is_as_good) choice[n] = kept;
    }
}

void finding_descend(struct operator_finding *finding, int *choice, struct layout_value *best)
{
    descend(finding, choice, best);
    simplify(finding, choice, best);
}

static void list_choice(struct operator_finding *finding, int *choice,
                        const struct layout_value *best, struct per_operator *found)
{
    for (int n = 0; n < finding->node_count; n++) {
        const struct operator_node *node = &finding->nodes[n];
        bool is_tied = finding->stage == 0 && layout_prices_is_tied(finding->prices, node->block);
        bool is_said = choice[n] > 0 && (is_tied || finding_is_open(finding, n));
        if (!is_said) continue;
        const struct block *block = &finding->graph->blocks[node->block];
        struct layout_rule was = {.dim = table_dim(finding, block, &block->ops[node->op])};
        const struct layout_rule *now = &node->rules[choice[n]];
        int kept = choice[n];
        choice[n] = 0;
        struct layout_value without = finding_value(finding, choice, 0);
        choice[n] = kept;
        found->changes[found->change_count++] = (struct operator_change){
            .operator= now->operator,
            .was = layout_rule_word(&was),
            .now = layout_rule_word(now),
            .stage = is_tied ? -1 : finding->stage,
            .gain_s = without.is_legal ? without.step_s - best->step_s : NAN,
        };
    }
}

// What is tied is asked about with the first stage, of all.
static void list_changes(struct operator_finding *finding, int *choice,
                         const struct layout_value *best, bool is_staged,
                         struct per_operator *found)
{
    int stages = is_staged ? finding->request->parallel.stage_ranks_count : 1;
    int nodes = finding->node_count;
    found->changes = ARENA_NEW(finding->arena, struct operator_change, nodes * stages);
    for (int s = 0; s < stages; s++) {
        if (is_staged) finding->stage = s;
        list_choice(finding, is_staged ? finding->staged + s * nodes : choice, best, found);
    }
}

// "all-gather 4 of 134 MB, reduce-scatter ..." of tp, in a layer's forward and backward.
static const char *collectives_text(const struct operator_finding *finding,
                                    const struct parallel *parallel)
{
    const struct evaluation_request *request = finding->request;
    struct arena_mark mark = arena_mark(finding->scratch);
    const struct program *program =
        program_lower(finding->scratch, finding->graph, request->cluster, &request->workload,
                      parallel, stack_joins(request->stack));
    int64_t bytes[COLLECTIVE_COUNT] = {0};
    int counts[COLLECTIVE_COUNT] = {0};
    for (int b = 0; b < program->block_count; b++) {
        const struct block_program *block = program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            const struct instr *instr = &block->instrs[i];
            if (!instr->collective || instr->collective == COLLECTIVE_SLICE) continue;
            if (instr->parent != AXIS_TP) continue;
            bytes[instr->collective] += instr->bytes;
            counts[instr->collective]++;
        }
    }
    const char *text = "";
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        if (counts[c] == 0) continue;
        text = arena_print(finding->arena, "%s%s%d %s of %s", text, *text ? ", " : "", counts[c],
                           collective_name((enum collective)c),
                           units_bytes(finding->arena, (double)bytes[c]));
    }
    arena_reset(finding->scratch, mark);
    return *text ? text : "none";
}

struct per_operator per_operator_find(struct arena *arena, struct arena *scratch,
                                      struct layout_memo *memo,
                                      const struct evaluation_request *request)
{
    struct per_operator found = {.parallel = request->parallel};
    struct arena_mark mark = arena_mark(scratch);
    struct operator_finding *finding = ARENA_NEW(arena, struct operator_finding, 1);
    *finding = (struct operator_finding){
        .arena = arena,
        .scratch = scratch,
        .request = request,
        .prices = layout_prices_new(memo, request),
        .limit_bytes = cluster_device_bytes(request->cluster),
        .stage = -1,
    };
    finding->graph = layout_prices_graph(finding->prices);
    assert(request->parallel.layout_count == 0);
    if (request->parallel.degree[AXIS_TP] > 1) add_nodes(finding);
    int *choice = ARENA_NEW(arena, int, finding->node_count + 1);
    struct layout_value table = finding_value(finding, choice, INFINITY), best = table;
    assert(table.is_legal);
    bool is_staged = false;
    found.table_s = found.found_s = table.step_s;
    if (finding->node_count > 0) {
        finding_solve(finding, &table, choice, &found);
        struct layout_value solved = finding_value(finding, choice, table.step_s);
        if (finding_is_better(finding, &solved, &table))
            best = solved;
        else
            memset(choice, 0, (size_t)finding->node_count * sizeof *choice);
        finding_descend(finding, choice, &best);
        is_staged = finding_refine(finding, choice, &best, &found);
        list_changes(finding, choice, &best, is_staged, &found);
    }
    found.found_s = best.step_s;
    assert(step_ns(best.step_s) <= step_ns(table.step_s) && "only what is faster is kept");
    if (found.change_count > 0) {
        found.before = collectives_text(finding, &request->parallel);
        found.parallel =
            is_staged ? finding_staged_plan(finding) : chosen_plan(finding, arena, choice);
        found.after = collectives_text(finding, &found.parallel);
    }
    found.priced_count = finding->priced_count;
    arena_reset(scratch, mark);
    return found;
}
