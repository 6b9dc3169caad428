#include "tests/support/rank_bench.h"

#include "core/progress.h"
#include "executor/engine/readers.h"

// Rows that some ranks read for others, and what that takes, rank by rank in one process.

// Nine ranks on five hosts of two GPUs, the last of which has one rank: 67 sequences, of which
// rank r looks at those that are r modulo 10, so that some are looked at by nobody, and rank 3 at
// number 64 as well. A row is three numbers.
enum { SEQUENCES = 67, STRIDE = 3, WORDS = 2, RANKS = 9 };

// The hands of a tree in the order of ranks: who gives comes before who takes.
struct sent {
    int from, to, count;
    int64_t numbers[256];
};
static struct sent mail[32];
static int mail_count;

struct hand {
    int ranks[RANKS], count, rank;
};
static struct hand hands[64];
static int hand_count;

static const char *hand_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    struct hand *hand = &hands[hand_count++];
    assert_string_equal(purpose, GROUP_OF_NUMBERS);
    memcpy(hand->ranks, ranks, (size_t)count * sizeof *ranks);
    hand->count = count;
    hand->rank = *(const int *)(const void *)communicator;
    *group = (struct group *)(void *)hand;
    return NULL;
}

static const char *hand_over(struct group *group, int64_t *numbers, int64_t count, int from)
{
    struct hand *hand = (struct hand *)(void *)group;
    assert_int_equal(from, 0);
    assert_in_range(count, 0, 256);
    for (int i = 1; i < hand->count && hand->ranks[0] == hand->rank; i++) {
        struct sent *sent = &mail[mail_count++];
        *sent = (struct sent){.from = hand->rank, .to = hand->ranks[i], .count = (int)count};
        memcpy(sent->numbers, numbers, (size_t)count * sizeof *numbers);
    }
    if (hand->ranks[0] == hand->rank) return NULL;
    for (int i = 0; i < mail_count; i++) {
        struct sent *sent = &mail[i];
        if (sent->from != hand->ranks[0] || sent->to != hand->rank) continue;
        assert_int_equal(sent->count, count);
        memcpy(numbers, sent->numbers, (size_t)count * sizeof *numbers);
        sent->to = -1;  // taken
        return NULL;
    }
    fail_msg("rank %d is handed nothing by %d", hand->rank, hand->ranks[0]);
    return NULL;
}

static bool wants(int rank, int sequence)
{
    return sequence % 10 == rank || (rank == 3 && sequence == 64);
}

static bool is_wanted_by(int first, int end, int sequence)
{
    for (int r = first; r < end; r++)
        if (wants(r, sequence)) return true;
    return false;
}

static void set_hosts(struct rank_bench *bench, enum readers kind)
{
    bench->nodes = (struct node_group){.count = 5, .gpus = 2, .gpus_per_host = 2};
    bench->cluster =
        (struct cluster){.nodes = &bench->nodes, .node_group_count = 1, .rank_count = 10};
    bench->options.readers = kind;
    bench->corpus.row_stride = STRIDE;
    bench->program.workload.global_batch = SEQUENCES;
}

static void check_shared(struct arena *arena, enum readers kind, int rank, const int64_t *words)
{
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(arena, &bench, rank, RANKS);
    int64_t rows[SEQUENCES * STRIDE];
    bool is_wanted[SEQUENCES];
    int first = rank / 2 * 2, end = first + 2 < RANKS ? first + 2 : RANKS;
    bool reads = kind == READERS_ONE ? rank == 0 : rank == first;
    set_hosts(&bench, kind);
    bench.transport.group = hand_group;
    bench.transport.host_broadcast = hand_over;
    bench.world.said[0] = words, bench.world.counts[0] = WORDS;
    for (int i = 0; i < SEQUENCES; i++) {
        is_wanted[i] = wants(rank, i);
        for (int k = 0; k < STRIDE; k++)
            rows[i * STRIDE + k] = 1 + 100 * i + k;
    }
    struct rows_readers *readers = readers_open(engine, is_wanted);
    assert_non_null(readers);
    bool of_all = kind == READERS_ONE;
    for (int i = 0; i < SEQUENCES; i++)
        assert_int_equal(is_wanted[i],
                         of_all ? is_wanted_by(0, RANKS, i) : is_wanted_by(first, end, i));
    const int64_t *got = readers_share(engine, readers, reads ? rows : NULL);
    assert_non_null(got);
    if (reads) assert_ptr_equal(got, rows);
    // The first of a host has been handed what all want, the others what their host does.
    bool has_all = of_all && rank == first;
    for (int i = 0; i < SEQUENCES && !reads; i++) {
        bool comes = has_all ? is_wanted_by(0, RANKS, i) : is_wanted_by(first, end, i);
        for (int k = 0; k < STRIDE; k++)
            assert_int_equal(got[i * STRIDE + k], comes ? 1 + 100 * i + k : 0);
    }
}

static void rows_go_down_the_tree_of_hosts(void **state)
{
    int64_t words[RANKS * WORDS] = {0};
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < SEQUENCES; i++)
            if (wants(r, i)) words[r * WORDS + i / 63] |= (int64_t)1 << i % 63;
    for (int kind = READERS_HOST; kind <= READERS_ONE; kind++) {
        mail_count = hand_count = 0;
        for (int rank = 0; rank < RANKS; rank++)
            check_shared(*state, (enum readers)kind, rank, words);
        // Hosts 1, 2, 3, 4 from 0, 0, 1, 0, and the second rank of four hosts from its first.
        static const int PAIRS[][2] = {{0, 2}, {0, 4}, {0, 8}, {0, 1},
                                       {2, 6}, {2, 3}, {4, 5}, {6, 7}};
        static const int BESIDE[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
        bool of_all = kind == READERS_ONE;
        assert_int_equal(mail_count, of_all ? 8 : 4);
        for (int i = 0; i < mail_count; i++) {
            assert_int_equal(mail[i].from, of_all ? PAIRS[i][0] : BESIDE[i][0]);
            assert_int_equal(mail[i].to, -1);
        }
    }
}

// What ranks read, for how long, what they received, for how long: of rank 0 it is told by itself.
static void what_reading_takes_is_told_of_readers(void **state)
{
    static const int64_t SAID[] = {-1,  -1,   -1, -1,  300, 9000, 80, 8000,
                                   100, 4000, 60, 600, 700, 9900, 40, 9999};
    // Bytes of a host and seconds of the slowest reader by kind: two hosts of two.
    static const struct {
        enum readers kind;
        int reader_count;
        double read_s, broadcast_s;
    } WANTED[] = {{READERS_RANK, 4, 4950e-9, 4999.5e-9},
                  {READERS_HOST, 2, 2500e-9, 300e-9},
                  {READERS_ONE, 1, 2500e-9, 0}};
    for (int i = 0; i < 3; i++) {
        struct rank_bench bench;
        struct run_input input;
        bool is_wanted[SEQUENCES] = {0};
        struct engine *engine = rank_bench_open(*state, &bench, 0, 4);
        set_hosts(&bench, READERS_RANK);
        struct rows_readers *readers = readers_open(engine, is_wanted);
        assert_non_null(readers);
        // The first step that is run does not count beside others.
        bench.options.steps = 6;
        engine->first_step = 3;
        for (engine->step = 3; engine->step < 6; engine->step++)
            readers_count(engine, readers, engine->step == 3 ? 100000 : 10 * engine->step, 2.5e-6);
        bench.world.said[0] = SAID, bench.world.counts[0] = 4;
        bench.options.readers = WANTED[i].kind;
        assert_true(readers_finish(engine, readers, &input));
        assert_int_equal(input.reader_count, WANTED[i].reader_count);
        // 40 and 50 bytes in two steps, and halves of what the others say.
        assert_true(input.read_bytes == 45 + 150 + 50 + 350);
        assert_true(input.host_read_bytes == 400);
        assert_true(input.broadcast_bytes == 40 + 30 + 20);
        assert_true(input.read_s > WANTED[i].read_s - 2e-9);
        assert_true(input.read_s < WANTED[i].read_s + 2e-9);
        assert_true(input.broadcast_s > WANTED[i].broadcast_s - 2e-9);
        assert_true(input.broadcast_s < WANTED[i].broadcast_s + 2e-9);
    }
}

// Rank 2, the first of host 1, has been handed all rows that anybody looks at: 7 of each 10 and the
// last ones, 3 numbers of 8 bytes. Who hands on is told with the time that it took.
static void what_was_received_is_counted(void **state)
{
    int64_t words[RANKS * WORDS] = {0};
    int rows = 0;
    for (int i = 0; i < SEQUENCES; i++)
        rows += is_wanted_by(0, RANKS, i);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < SEQUENCES; i++)
            if (wants(r, i)) words[r * WORDS + i / 63] |= (int64_t)1 << i % 63;
    static int64_t said[RANKS * 4];
    mail_count = hand_count = 0;
    for (int rank = 0; rank <= 2; rank += 2) {
        struct rank_bench bench;
        struct run_input input;
        bool is_wanted[SEQUENCES];
        static int64_t all[SEQUENCES * STRIDE];
        struct engine *engine = rank_bench_open(*state, &bench, rank, RANKS);
        set_hosts(&bench, READERS_ONE);
        bench.transport.group = hand_group;
        bench.transport.host_broadcast = hand_over;
        bench.world.said[0] = words, bench.world.counts[0] = WORDS;
        bench.world.said[1] = said, bench.world.counts[1] = 4;
        for (int i = 0; i < SEQUENCES; i++)
            is_wanted[i] = wants(rank, i);
        struct rows_readers *readers = readers_open(engine, is_wanted);
        assert_non_null(readers);
        assert_non_null(readers_share(engine, readers, rank == 0 ? all : NULL));
        bench.options.steps = 1;
        double began_s = clock_s();
        readers_count(engine, readers, 0, 0);
        readers_count(engine, readers, 0, 0);
        assert_true(readers_finish(engine, readers, &input));
        assert_true(input.broadcast_bytes == (rank == 0 ? 0 : 24 * rows));
        assert_true(input.broadcast_s >= 0 && input.broadcast_s < clock_s() - began_s + 10);
        assert_true((input.broadcast_s > 0) == (rank == 0));
    }
}

static void a_reader_that_cannot_ask_says_so(void **state)
{
    static const int64_t SAID[8];
    struct rank_bench bench;
    struct run_input input;
    bool is_wanted[SEQUENCES] = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 2);
    set_hosts(&bench, READERS_HOST);
    bench.world.fault = "cut off";
    assert_null(readers_open(engine, is_wanted));
    assert_string_equal(bench.err.text, "rank 0, step 1, at starting: cut off");
    engine = rank_bench_open(*state, &bench, 0, 2);
    set_hosts(&bench, READERS_RANK);
    struct rows_readers *readers = readers_open(engine, is_wanted);
    bench.world.said[0] = SAID, bench.world.counts[0] = 4;
    assert_true(readers_finish(engine, readers, &input));  // of no step
    assert_true(input.read_bytes == 0 && input.reader_count == 2);
    bench.world.turn = 0;
    bench.world.fault = "cut off";
    assert_false(readers_finish(engine, readers, &input));
    assert_string_equal(bench.err.text, "rank 0, step 1, at starting: cut off");
}

static void a_run_of_one_step_counts_it(void **state)
{
    struct rank_bench bench;
    struct run_input input;
    bool is_wanted[SEQUENCES] = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    set_hosts(&bench, READERS_RANK);
    struct rows_readers *readers = readers_open(engine, is_wanted);
    bench.world.counts[0] = 4;
    static const int64_t MINE[4];
    bench.world.said[0] = MINE;
    engine->first_step = engine->step = 3;
    bench.options.steps = 4;
    readers_count(engine, readers, 70, 1e-6);
    assert_true(readers_finish(engine, readers, &input));
    assert_true(input.read_bytes == 70 && input.host_read_bytes == 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_down_the_tree_of_hosts),
        cmocka_unit_test(what_reading_takes_is_told_of_readers),
        cmocka_unit_test(what_was_received_is_counted),
        cmocka_unit_test(a_reader_that_cannot_ask_says_so),
        cmocka_unit_test(a_run_of_one_step_counts_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
