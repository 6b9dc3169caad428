#include "executor/engine/readers.h"

#include "core/progress.h"

#include <assert.h>
#include <string.h>

// One way down the tree: a group whose member 0 has the rows.
struct hand_on {
    struct group *group;
    const bool *is_carried;  // [batch]
    bool gives;
};

enum { HANDS_MAX = 34 };  // one a level of the tree of hosts, which are fewer than 2^32, and one

struct rows_readers {
    int64_t batch, stride;  // of sequences; of numbers of a row
    bool *of_all, *of_host;
    struct hand_on hands[HANDS_MAX];
    int hand_count;
    int64_t *packed, *rows;  // what is on its way; what came, where nothing is read here
    int64_t received_bytes;  // and the seconds of the last sharing
    double took_s;
    // Over the steps that count.
    int step_count;
    int64_t read_bytes, step_received_bytes;
    double read_s, share_s;
};

enum { WORD_BITS = 63 };  // numbers of the host are signed

// What every rank looks at, as it says itself: [rank][words] of bits.
static const int64_t *gather_wants(struct engine *engine, const bool *is_wanted, int64_t batch,
                                   int words)
{
    int ranks = engine->program->mesh.rank_count;
    int64_t *mine = ARENA_NEW(engine->arena, int64_t, words);
    int64_t *all = ARENA_NEW(engine->arena, int64_t, (int64_t)words * ranks);
    for (int64_t i = 0; i < batch; i++)
        mine[i / WORD_BITS] |= (int64_t)is_wanted[i] << i % WORD_BITS;
    const char *fault = engine->transport->host_gather(engine->world, mine, all, words);
    return engine_ok(engine, -1, fault) ? all : NULL;
}

// What ranks first .. end - 1 look at together.
static bool *wants_of(struct engine *engine, const int64_t *wants, int64_t batch, int first,
                      int end)
{
    int64_t words = (batch + WORD_BITS - 1) / WORD_BITS;
    bool *together = ARENA_NEW(engine->arena, bool, batch);
    for (int rank = first; rank < end; rank++) {
        for (int64_t i = 0; i < batch; i++)
            together[i] |= wants[rank * words + i / WORD_BITS] >> i % WORD_BITS & 1;
    }
    return together;
}

static bool add_hand(struct engine *engine, struct rows_readers *readers, const int *ranks,
                     int count, const bool *is_carried)
{
    assert(readers->hand_count < HANDS_MAX);
    struct hand_on *hand = &readers->hands[readers->hand_count++];
    *hand = (struct hand_on){.is_carried = is_carried, .gives = ranks[0] == engine->rank};
    return engine_ok(engine, -1,
                     engine_rank_group(engine, ranks, count, GROUP_OF_NUMBERS, &hand->group));
}

// A binomial tree: in round k each of the first 2^k hosts hands on to the one 2^k behind it. Every
// rank walks all of it, so that groups are made in one order.
static bool add_tree(struct engine *engine, struct rows_readers *readers)
{
    const struct program *program = engine->program;
    int ranks = program->mesh.rank_count, host_count = 0;
    int *leaders = ARENA_NEW(engine->scratch, int, ranks);
    for (int rank = 0; rank < ranks;) {
        leaders[host_count++] = rank;
        rank = readers_host(program->cluster, ranks, rank).end;
    }
    for (int reach = 1; reach < host_count; reach *= 2) {
        for (int host = 0; host < reach && host + reach < host_count; host++) {
            const int pair[] = {leaders[host], leaders[host + reach]};
            bool is_mine = pair[0] == engine->rank || pair[1] == engine->rank;
            if (is_mine && !add_hand(engine, readers, pair, 2, readers->of_all)) return false;
        }
    }
    return true;
}

static bool add_host(struct engine *engine, struct rows_readers *readers, struct host_ranks host)
{
    int count = host.end - host.first;
    int *ranks = ARENA_NEW(engine->scratch, int, count);
    for (int i = 0; i < count; i++)
        ranks[i] = host.first + i;
    return count == 1 || add_hand(engine, readers, ranks, count, readers->of_host);
}

struct rows_readers *readers_open(struct engine *engine, bool *is_wanted)
{
    const struct program *program = engine->program;
    enum readers kind = engine->request->options->readers;
    struct rows_readers *readers = ARENA_NEW(engine->arena, struct rows_readers, 1);
    int64_t batch = program->workload.global_batch;
    int words = (int)((batch + WORD_BITS - 1) / WORD_BITS), ranks = program->mesh.rank_count;
    readers->batch = batch;
    readers->stride = engine->request->options->corpus->row_stride;
    if (kind == READERS_RANK) return readers;
    const int64_t *wants = gather_wants(engine, is_wanted, batch, words);
    if (!wants) return NULL;
    struct host_ranks host = readers_host(program->cluster, ranks, engine->rank);
    readers->of_host = wants_of(engine, wants, batch, host.first, host.end);
    readers->of_all = wants_of(engine, wants, batch, 0, ranks);
    memcpy(is_wanted, kind == READERS_ONE ? readers->of_all : readers->of_host,
           (size_t)batch * sizeof *is_wanted);
    readers->packed = ARENA_NEW(engine->arena, int64_t, batch * readers->stride);
    if (!readers_reads(program->cluster, kind, engine->rank))
        readers->rows = ARENA_NEW(engine->arena, int64_t, batch * readers->stride);
    struct arena_mark mark = arena_mark(engine->scratch);
    bool done =
        (kind != READERS_ONE || add_tree(engine, readers)) && add_host(engine, readers, host);
    arena_reset(engine->scratch, mark);
    return done ? readers : NULL;
}

// Returns how many numbers are on their way; where `rows` is NULL they are to come.
static int64_t pack(struct rows_readers *readers, const struct hand_on *hand, const int64_t *rows)
{
    int64_t at = 0;
    for (int64_t i = 0; i < readers->batch; i++) {
        if (!hand->is_carried[i]) continue;
        if (rows)
            memcpy(readers->packed + at, rows + i * readers->stride,
                   (size_t)readers->stride * sizeof *rows);
        at += readers->stride;
    }
    return at;
}

static void unpack(struct rows_readers *readers, const struct hand_on *hand)
{
    int64_t at = 0;
    for (int64_t i = 0; i < readers->batch; i++) {
        if (!hand->is_carried[i]) continue;
        memcpy(readers->rows + i * readers->stride, readers->packed + at,
               (size_t)readers->stride * sizeof *readers->rows);
        at += readers->stride;
    }
}

// In pieces whose bytes fit the counts of every transport.
static bool hand_on(struct engine *engine, struct rows_readers *readers, const struct hand_on *hand,
                    const int64_t *rows)
{
    enum { PIECE = 1 << 24 };
    int64_t count = pack(readers, hand, hand->gives ? rows : NULL);
    for (int64_t first = 0; first < count; first += PIECE) {
        int64_t length = count - first < PIECE ? count - first : PIECE;
        const char *fault =
            engine->transport->host_broadcast(hand->group, readers->packed + first, length, 0);
        if (!engine_ok(engine, -1, fault)) return false;
    }
    if (hand->gives) return true;
    unpack(readers, hand);
    readers->received_bytes += count * (int64_t)sizeof *readers->packed;
    return true;
}

const int64_t *readers_share(struct engine *engine, struct rows_readers *readers,
                             const int64_t *rows)
{
    double began_s = clock_s();
    readers->received_bytes = 0;
    if (!rows) rows = readers->rows;
    assert(rows);
    for (int i = 0; i < readers->hand_count; i++) {
        if (!hand_on(engine, readers, &readers->hands[i], rows)) return NULL;
    }
    readers->took_s = clock_s() - began_s;
    return rows;
}

void readers_count(const struct engine *engine, struct rows_readers *readers, int64_t read_bytes,
                   double read_s)
{
    // The first step touches memory and files for the first time.
    bool counts = engine->step > engine->first_step ||
                  engine->request->options->steps == engine->first_step + 1;
    if (!counts) return;
    readers->step_count++;
    readers->read_bytes += read_bytes;
    readers->read_s += read_s;
    readers->step_received_bytes += readers->received_bytes;
    readers->share_s += readers->took_s;
}

bool readers_finish(struct engine *engine, const struct rows_readers *readers,
                    struct run_input *input)
{
    enum { READ, READ_NS, RECEIVED, SHARE_NS, COUNT };
    const struct cluster *cluster = engine->program->cluster;
    int ranks = engine->program->mesh.rank_count;
    double steps = readers->step_count > 0 ? readers->step_count : 1;
    const int64_t mine[COUNT] = {readers->read_bytes, (int64_t)(readers->read_s * 1e9),
                                 readers->step_received_bytes, (int64_t)(readers->share_s * 1e9)};
    int64_t *all = ARENA_NEW(engine->arena, int64_t, COUNT * ranks);
    const char *fault = engine->transport->host_gather(engine->world, mine, all, COUNT);
    if (!engine_ok(engine, -1, fault)) return false;
    *input = (struct run_input){0};
    double of_host = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t *of = all + (int64_t)rank * COUNT;
        if (readers_host(cluster, ranks, rank).first == rank) of_host = 0;
        of_host += (double)of[READ] / steps;
        if (of_host > input->host_read_bytes) input->host_read_bytes = of_host;
        input->read_bytes += (double)of[READ] / steps;
        input->broadcast_bytes += (double)of[RECEIVED] / steps;
        if (!readers_reads(cluster, engine->request->options->readers, rank)) continue;
        double read_s = (double)of[READ_NS] * 1e-9 / steps;
        double share_s = (double)of[SHARE_NS] * 1e-9 / steps;
        input->reader_count++;
        if (read_s > input->read_s) input->read_s = read_s;
        if (share_s > input->broadcast_s) input->broadcast_s = share_s;
    }
    return true;
}
