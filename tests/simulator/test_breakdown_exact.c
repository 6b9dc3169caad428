#include "simulator/breakdown.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// The breakdown of a ledger written by hand: three stages of two chunks, five micro-batches. Stage
// 1 runs block 0 twice and block 1 ten times a micro-batch, in a chunk of either class; stage 2
// block 1 fourteen times, in two chunks of class 1.

enum { LINES = 12, BLOCKS = 2, STAGES = 3, CHUNKS = 2 };

static const struct instr KERNEL;

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-12) return;
    print_error("found %.15g, wanted %.15g\n", found, wanted);
    fail();
}

struct hand {
    struct step_price price;
    struct program program;
    struct ledger ledger;
    struct simulation simulation;
    struct stage_waits waits[STAGES];
    struct ledger_line lines[LINES + 2];
    int class_of[STAGES * CHUNKS];
    struct program_chunk chunks[2];
    struct block_use uses[3];
    struct tied_price ties[1];
};

static void write_line(struct hand *hand, int block, int chunk, struct ledger_line line)
{
    line.block = block;
    line.chunk = chunk;
    hand->lines[hand->ledger.count++] = line;
}

static void start(struct hand *hand)
{
    static const int CLASS_OF[] = {0, 0, 0, 1, 1, 1};
    *hand = (struct hand){
        .uses = {{.block_program = 0, .count = 2},
                 {.block_program = 1, .count = 3},
                 {.block_program = 1, .count = 7}},
        .price = {.schedule = SCHEDULE_INTERLEAVED,
                  .shape = {.stage_count = STAGES, .chunk_count = CHUNKS, .micro_batch_count = 5},
                  .overhead_s = 0.041},
        .program = {.block_count = BLOCKS, .chunk_class_count = 2},
    };
    memcpy(hand->class_of, CLASS_OF, sizeof CLASS_OF);
    hand->chunks[0] = (struct program_chunk){.uses = hand->uses, .use_count = 2};
    hand->chunks[1] = (struct program_chunk){.uses = hand->uses + 2, .use_count = 1};
    static const int TIED_STAGES[] = {0, 2};
    hand->ties[0] = (struct tied_price){.stages = TIED_STAGES, .stage_count = 2, .s = 0.029};
    hand->price.ties = hand->ties;
    hand->price.tie_count = 1;
    hand->program.shape = hand->price.shape;
    hand->program.mesh.rank_count = 7;
    hand->program.class_of = hand->class_of;
    hand->program.chunks = hand->chunks;
    hand->ledger.lines = hand->lines;
    hand->simulation.cost.step_s = 2;
    hand->simulation.stage_waits = hand->waits;
}

static struct ledger_line operator_line(double s)
{
    return (struct ledger_line){.entry = ENTRY_OPERATOR,
                                .what = "operator",
                                .count = 3,
                                .s = s,
                                .exposed_s = s,
                                .flop = 11,
                                .bytes = 13,
                                .joined = 1,
                                .instr = &KERNEL};
}

static struct ledger_line message(enum entry entry, const char *what, double s)
{
    return (struct ledger_line){.entry = entry,
                                .what = what,
                                .count = 2,
                                .s = s,
                                .exposed_s = s,
                                .bytes = 17,
                                .collective = COLLECTIVE_ALL_REDUCE};
}

static void write_all(struct hand *hand)
{
    write_line(hand, 0, -1, operator_line(0.002));
    write_line(hand, 1, -1, operator_line(0.002));
    struct ledger_line exchange = message(ENTRY_EXCHANGE, "activations", 0.003);
    exchange.exposed_s = 0.001;
    write_line(hand, 1, -1, exchange);
    write_line(
        hand, -1, 0,
        (struct ledger_line){
            .entry = ENTRY_TASK, .what = "task", .count = 1, .s = 0.007, .exposed_s = 0.007});
    write_line(hand, -1, 1,
               (struct ledger_line){.entry = ENTRY_COPY,
                                    .what = "copy",
                                    .count = 1,
                                    .s = 0.0011,
                                    .exposed_s = 0.0009,
                                    .bytes = 19});
    write_line(hand, -1, 0, message(ENTRY_REDUCE, "gradients", 0.019));
    write_line(hand, -1, 1, message(ENTRY_REDUCE, "more gradients", 0.001));
    write_line(hand, -1, 1, message(ENTRY_GATHER, "parameters", 0.023));
    write_line(hand, -1, -1, message(ENTRY_HOP, "hop", 0.0001));
    write_line(hand, -1, -1, message(ENTRY_TIED, "tied", 0.029));
    write_line(hand, -1, -1, message(ENTRY_NORM, "norm", 0.031));
    write_line(hand, -1, 0,
               (struct ledger_line){.entry = ENTRY_UPDATE,
                                    .what = "update",
                                    .count = 1,
                                    .s = 0.031,
                                    .exposed_s = 0.031,
                                    .bytes = 23});
}

struct wanted {
    const char *what;
    double count, flop, bytes, alone_s, s;
};

static void check(const struct breakdown *breakdown, const struct wanted *wanted, int count)
{
    assert_int_equal(breakdown->count, count);
    for (int i = 0; i < count; i++) {
        const struct breakdown_line *line = &breakdown->lines[i];
        assert_string_equal(line->price->what, wanted[i].what);
        is_near(line->count, wanted[i].count);
        is_near(line->flop, wanted[i].flop);
        is_near(line->bytes, wanted[i].bytes);
        is_near(line->alone_s, wanted[i].alone_s);
        is_near(line->s, wanted[i].s);
    }
}

// Stage 1: the kernel runs 5 x 12 times, the exchange 5 x 10. Half of what its reductions take
// alone is waited for, three times what its 4 x 2 x 5 hops take (0 to 1 and 1 to 2, twice); a tied
// gradient is that of the first stage and the last. Norm and update take as long: as they were
// written.
static void every_line_is_counted_and_booked(void **state)
{
    struct hand hand;
    start(&hand);
    write_all(&hand);
    hand.waits[1] = (struct stage_waits){.reduce_s = 0.01, .gather_s = 0.005, .blocked_s = 0.012};
    struct breakdown found =
        breakdown_of_stage(*state, &hand.ledger, &hand.program, &hand.price, &hand.simulation, 1);
    static const struct wanted WANTED[] = {
        {"operator", 180, 660, 780, 0.12, 0.12}, {"activations", 100, 0, 0, 0.15, 0.05},
        {"task", 5, 0, 0, 0.035, 0.035},         {"norm", 2, 0, 0, 0.031, 0.031},
        {"update", 1, 0, 23, 0.031, 0.031},      {"parameters", 2, 0, 0, 0.023, 0.023},
        {"hop", 80, 0, 0, 0.004, 0.012},         {"gradients", 2, 0, 0, 0.019, 0.0095},
        {"copy", 5, 0, 0, 0.0055, 0.0045},       {"more gradients", 2, 0, 0, 0.001, 0.0005},
    };
    check(&found, WANTED, sizeof WANTED / sizeof *WANTED);
    assert_int_equal(found.stage, 1);
    assert_int_equal(found.stage_count, 3);
    assert_int_equal(found.mesh->rank_count, 7);
    is_near(found.step_s, 2);
    is_near(found.overhead_s, 0.041);
    is_near(found.operators_s, 0.12 + 0.035 + 0.031);
    is_near(found.communication_s, 0.05 + 0.031 + 0.023 + 0.012 + 0.01 + 0.0045);
    is_near(found.waiting_s, 2 - 0.041 - 0.186 - 0.1305);
    for (int i = 0; i < found.count; i++) {
        const char *what = found.lines[i].price->what;
        bool computes = strcmp(what, "operator") == 0 || strcmp(what, "task") == 0 ||
                        strcmp(what, "update") == 0;
        assert_true(breakdown_is_communication(&found.lines[i]) == !computes);
    }
}

// Stage 2 has two chunks of class 1, so two of its reductions and gathers, and 3 x 2 x 5 hops. What
// is gathered beside forward is waited for as the events say; where updates are validated
// afterwards nobody waits for the norm.
static void the_last_stage_and_steps_that_run_into_each_other(void **state)
{
    struct hand hand;
    start(&hand);
    write_all(&hand);
    hand.price.gather_overlapped = hand.price.post_validated = true;
    hand.waits[2] = (struct stage_waits){
        .reduce_s = 0.001, .gather_s = 0.0069, .blocked_s = 0.0003, .tied_s = 0.058};
    struct breakdown found =
        breakdown_of_stage(*state, &hand.ledger, &hand.program, &hand.price, &hand.simulation, 2);
    static const struct wanted WANTED[] = {
        {"operator", 210, 770, 910, 0.14, 0.14}, {"activations", 140, 0, 0, 0.21, 0.07},
        {"tied", 2, 0, 0, 0.029, 0.058},         {"copy", 10, 0, 0, 0.011, 0.009},
        {"parameters", 4, 0, 0, 0.046, 0.0069},  {"more gradients", 4, 0, 0, 0.002, 0.001},
        {"hop", 60, 0, 0, 0.003, 0.0003},        {"norm", 2, 0, 0, 0.031, 0},
    };
    check(&found, WANTED, sizeof WANTED / sizeof *WANTED);
    is_near(found.waiting_s, 2 - 0.041 - 0.14 - 0.07 - 0.058 - 0.009 - 0.0069 - 0.0013);
}

static int lines_of_two(struct arena *arena, const struct ledger_line *first,
                        const struct ledger_line *second)
{
    struct hand hand;
    start(&hand);
    hand.simulation.cost.step_s = 1000;
    write_line(&hand, 0, -1, *first);
    write_line(&hand, 1, -1, *second);
    return breakdown_of_stage(arena, &hand.ledger, &hand.program, &hand.price, &hand.simulation, 1)
        .count;
}

// Kernels and messages are put together where everything that shows is the same; what has no shape
// by its name alone.
static void only_what_is_alike_is_one_line(void **state)
{
    const struct ledger_line base = operator_line(0.002), sent = message(ENTRY_EXCHANGE, "sent", 1);
    assert_int_equal(lines_of_two(*state, &base, &base), 1);
    assert_int_equal(lines_of_two(*state, &sent, &sent), 1);
    struct ledger_line others[17];
    for (int i = 0; i < 17; i++)
        others[i] = base;
    others[0].entry = ENTRY_LOSS;
    others[1].what = "another";
    others[2].phase = PHASE_BACKWARD;
    others[3].recompute = true;
    others[4].collective = COLLECTIVE_ALL_GATHER;
    others[5].s = 0.004;
    others[6].bytes = 14;
    others[7].flop = 12;
    others[8].joined = 2;
    others[9].exchange = EXCHANGE_GATHER;
    others[10].axes = 1;
    others[11].rank_count = 1;
    others[12].count = 4;
    others[13].gemm.m = 1;
    others[14].gemm.n = 1;
    others[15].gemm.k = 1;
    others[16].gemm.batch = 1;
    for (int i = 0; i < 17; i++) {
        assert_int_equal(lines_of_two(*state, &base, &others[i]), 2);
        // Without a kernel, and no message, the first five tell.
        struct ledger_line bare = base, other = others[i];
        bare.instr = other.instr = NULL;
        assert_int_equal(lines_of_two(*state, &bare, &other), i < 5 ? 2 : 1);
        bare.collective = COLLECTIVE_ALL_REDUCE;
        if (i != 4) other.collective = COLLECTIVE_ALL_REDUCE;
        assert_int_equal(lines_of_two(*state, &bare, &other), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_counted_and_booked),
        cmocka_unit_test(the_last_stage_and_steps_that_run_into_each_other),
        cmocka_unit_test(only_what_is_alike_is_one_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
