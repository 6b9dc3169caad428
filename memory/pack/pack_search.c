#include "memory/pack/pack_branch.h"

#include <assert.h>

// Which member is quick changes from one problem to the next: on 120 siblings of MiniMalloc's A to
// F (tests/support/pack_problems.h: lives grown, pairs joined, buffers split) the first eleven
// solve 34 to 53 each when alone for 0.15 s. The last three take MiniMalloc's order (Moffitt,
// ASPLOS 2023): they solve A to F in 2.6 s without the others, and with them 14 of 24 joined pairs
// take less than a second, instead of 10.
const struct pack_member PACK_MEMBERS[] = {
    {"fewest area", CHOOSE_FEWEST, VALUE_AREA},
    {"weighted area", CHOOSE_WEIGHTED, VALUE_AREA},
    {"lowest area", CHOOSE_LOWEST, VALUE_AREA},
    {"fewest life", CHOOSE_FEWEST, VALUE_LIFE},
    {"weighted life", CHOOSE_WEIGHTED, VALUE_LIFE},
    {"lowest life", CHOOSE_LOWEST, VALUE_LIFE},
    {"fewest size", CHOOSE_FEWEST, VALUE_SIZE},
    {"weighted size", CHOOSE_WEIGHTED, VALUE_SIZE},
    {"lowest size", CHOOSE_LOWEST, VALUE_SIZE},
    {"heaviest area", CHOOSE_HEAVIEST, VALUE_AREA},
    {"heaviest life", CHOOSE_HEAVIEST, VALUE_LIFE},
    {"heaviest size", CHOOSE_HEAVIEST, VALUE_SIZE},
    {"lowest buffer WAT", CHOOSE_BUFFER, VALUE_WAT},
    {"lowest buffer TAW", CHOOSE_BUFFER, VALUE_TAW},
    {"lowest buffer TWA", CHOOSE_BUFFER, VALUE_TWA},
};

static const double NOISE = 0.3;
enum { NODE_CAP = 20000000, ATTEMPT_NODES = 500 };

int pack_member_count(void)
{
    return sizeof PACK_MEMBERS / sizeof *PACK_MEMBERS;
}

// In turns that grow, as which member is quick is not known before.
static enum pack_answer run_members(struct pack_branch *branch, const struct pack_options *options,
                                    unsigned members, struct pack_result *counts)
{
    assert(members & ((1u << pack_member_count()) - 1));
    assert(members != 0);
    int64_t cap = options->node_cap ? options->node_cap : NODE_CAP;
    int64_t limit = ATTEMPT_NODES + 2 * (int64_t)branch->state->buffer_count;
    uint64_t seed = options->seed;
    for (int round = 0;; round++) {
        for (int m = 0; m < pack_member_count(); m++) {
            if (!(members >> m & 1)) continue;
            bool is_fixed = PACK_MEMBERS[m].choice == CHOOSE_BUFFER;
            // So that MiniMalloc's order gets a third of the nodes; the siblings lose nothing by
            // it.
            int64_t nodes = is_fixed ? 2 * limit : limit;
            struct pack_attempt attempt = {.noise = round && !is_fixed ? NOISE : 0,
                                           .seed = seed++,
                                           .is_flush = round % 2 && !is_fixed,
                                           .node_limit = nodes < cap ? nodes : cap};
            enum pack_answer answer = pack_branch_attempt(branch, &PACK_MEMBERS[m], &attempt);
            counts->node_count += branch->node_count;
            counts->restart_count++;
            cap -= branch->node_count;
            if (answer != PACK_UNKNOWN || branch->is_late || cap <= 0) return answer;
        }
        limit += limit / 2;
    }
}

enum pack_answer pack_search_by(struct arena *scratch, const struct pack_problem *problem,
                                int64_t height, const struct pack_options *options,
                                unsigned members, int64_t *offsets, struct pack_result *counts)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_state *state = pack_state_make(scratch, problem, height);
    state->no_inference = options->every_rule_off;
    enum pack_answer answer = PACK_NO;
    if (pack_state_start(state)) {
        struct pack_branch *branch = pack_branch_make(scratch, state, options);
        answer = run_members(branch, options, members, counts);
    }
    if (answer == PACK_YES) {
        for (int i = 0; i < problem->count; i++)
            offsets[i] =
                problem->buffers[i].fixed_offset > 0 ? problem->buffers[i].fixed_offset : 0;
        for (int b = 0; b < state->buffer_count; b++) {
            assert(state->offsets[b] >= 0 && state->offsets[b] + state->buffers[b].size <= height);
            offsets[state->origin[b]] = state->offsets[b];
        }
    }
    arena_reset(scratch, mark);
    return answer;
}

enum pack_answer pack_search(struct arena *scratch, const struct pack_problem *problem,
                             int64_t height, const struct pack_options *options, int64_t *offsets,
                             struct pack_result *counts)
{
    return pack_search_by(scratch, problem, height, options, ~0u, offsets, counts);
}
