#include "tests/support/rank_sequence.h"
#include "executor/communicators/sum.h"
#include "tests/support/draw.h"

#include <math.h>
#include <string.h>

// Data is drawn by (operation, rank, index),
// so that every rank knows what the others hold and sums it up by itself, in rank order.

// Operations of whole numbers are counted from here.
#define WHOLE (UINT64_C(1) << 40)

static double value(uint64_t operation, int rank, int64_t i)
{
    struct draw draw = {operation * 1000003 + (uint64_t)rank * 7919 + (uint64_t)i * 31};
    if (operation >= WHOLE) return (double)(draw_bits(&draw) >> 40 & 31) - 16;
    return (double)(int64_t)(draw_bits(&draw) >> 40) / 3e5 - 20;
}

struct sequence_reals {
    enum number number;
    void *data;
};

static double get(struct sequence_reals reals, int64_t i)
{
    return number_get(reals.number, reals.data, i);
}

static void put(struct sequence_reals reals, int64_t i, double number)
{
    number_put(reals.number, reals.data, i, number);
}

// By its own way: multiples of the last place, ties to even. In the range of normal numbers.
static double rounded(enum number number, double x)
{
    int exponent, bits = number == NUMBER_BF16 ? 8 : number == NUMBER_FP16 ? 11 : 24;
    if (number == NUMBER_DOUBLE || x == 0) return x;
    frexp(x, &exponent);
    double last = ldexp(1, exponent - bits);
    return nearbyint((double)(float)x / last) * last;
}

static struct sequence_reals reals_new(struct arena *arena, enum number number, int64_t count)
{
    size_t bytes = (size_t)number_bytes(number);
    return (struct sequence_reals){number, arena_alloc(arena, (size_t)count + 1, bytes)};
}

static struct sequence_reals reals_drawn(struct arena *arena, enum number number, int64_t count,
                                         uint64_t operation, int rank)
{
    struct sequence_reals reals = reals_new(arena, number, count);
    for (int64_t i = 0; i < count; i++)
        put(reals, i, value(operation, rank, i));
    return reals;
}

static void *at(struct sequence_reals reals, int64_t i)
{
    return (char *)reals.data + i * number_bytes(reals.number);
}

struct members {
    struct group *group;
    int ranks[SEQUENCE_RANK_MAX], count, me;
};

// What all of `members` hold at i, combined in their order with the roundings of the numbers: those
// of 16 bits are added as floats, and the sum is rounded.
static double combined(const struct members *members, enum number number, enum combine combine,
                       uint64_t operation, int64_t i)
{
    double sum = 0;
    enum number wide = number == NUMBER_DOUBLE ? NUMBER_DOUBLE : NUMBER_FLOAT;
    for (int m = 0; m < members->count; m++) {
        double term = rounded(number, value(operation, members->ranks[m], i));
        if (m == 0 || combine == COMBINE_MAX)
            sum = m == 0 || term > sum ? term : sum;
        else
            sum = rounded(wide, sum + term);
    }
    return rounded(number, sum);
}

struct sequence_trial {
    const struct transport *transport;
    struct members members;
    struct arena *arena;
    enum element element;
    enum number number;
    int rank;
    uint64_t operation;
    int64_t counts[SEQUENCE_RANK_MAX], total, first;  // first: of this member's part
};

static void trial_counts(struct sequence_trial *trial, struct draw *draw, int longest)
{
    trial->total = trial->first = 0;
    for (int m = 0; m < trial->members.count; m++) {
        int64_t count = draw_int(draw, 0, 3) == 0 ? 0 : draw_int(draw, 0, longest);
        trial->counts[m] = count;
        if (m < trial->members.me) trial->first += count;
        trial->total += count;
    }
}

static bool check_all_reduce(struct sequence_trial *trial, enum combine combine)
{
    struct sequence_reals data =
        reals_drawn(trial->arena, trial->number, trial->total, trial->operation, trial->rank);
    RANK_OK(trial->transport->all_reduce(trial->members.group, STREAM_DP, trial->element, data.data,
                                         trial->total, combine));
    for (int64_t i = 0; i < trial->total; i++) {
        double wanted = combined(&trial->members, trial->number, combine, trial->operation, i);
        RANK_CHECK(get(data, i) == wanted, "element %lld of %lld is %g, not %g", (long long)i,
                   (long long)trial->total, get(data, i), wanted);
    }
    return true;
}

static bool check_all_gather(struct sequence_trial *trial, bool in_place)
{
    struct sequence_reals all = reals_new(trial->arena, trial->number, trial->total);
    struct sequence_reals mine =
        reals_drawn(trial->arena, trial->number, trial->counts[trial->members.me], trial->operation,
                    trial->rank);
    void *from = mine.data;
    if (in_place) {
        from = at(all, trial->first);
        memcpy(from, mine.data,
               (size_t)(trial->counts[trial->members.me] * number_bytes(trial->number)));
    }
    RANK_OK(trial->transport->all_gather(trial->members.group, STREAM_TP, trial->element, from,
                                         all.data, trial->counts));
    int64_t part = 0;
    for (int m = 0; m < trial->members.count; m++) {
        for (int64_t i = 0; i < trial->counts[m]; i++) {
            struct sequence_reals wanted = reals_new(trial->arena, trial->number, 1);
            put(wanted, 0, value(trial->operation, trial->members.ranks[m], i));
            RANK_CHECK(get(all, part + i) == get(wanted, 0), "element %lld of member %d is %g",
                       (long long)i, m, get(all, part + i));
        }
        part += trial->counts[m];
    }
    return true;
}

static bool check_reduce_scatter(struct sequence_trial *trial)
{
    int64_t count = trial->counts[trial->members.me];
    struct sequence_reals all =
        reals_drawn(trial->arena, trial->number, trial->total, trial->operation, trial->rank);
    struct sequence_reals mine = reals_new(trial->arena, trial->number, count);
    RANK_OK(trial->transport->reduce_scatter(trial->members.group, STREAM_DP, trial->element,
                                             all.data, mine.data, trial->counts));
    for (int64_t i = 0; i < count; i++) {
        double wanted = combined(&trial->members, trial->number, COMBINE_SUM, trial->operation,
                                 trial->first + i);
        RANK_CHECK(get(mine, i) == wanted, "element %lld is %g, not %g", (long long)i, get(mine, i),
                   wanted);
    }
    return true;
}

// An all-reduce has the bits of a reduce-scatter followed by an all-gather.
static bool check_two_ways(struct sequence_trial *trial)
{
    size_t bytes = (size_t)(trial->total * number_bytes(trial->number));
    struct sequence_reals data =
        reals_drawn(trial->arena, trial->number, trial->total, trial->operation, trial->rank);
    struct sequence_reals other = reals_new(trial->arena, trial->number, trial->total);
    struct group *group = trial->members.group;
    RANK_OK(trial->transport->reduce_scatter(group, STREAM_DP, trial->element, data.data,
                                             at(other, trial->first), trial->counts));
    RANK_OK(trial->transport->all_gather(group, STREAM_DP, trial->element, at(other, trial->first),
                                         other.data, trial->counts));
    RANK_OK(trial->transport->all_reduce(group, STREAM_DP, trial->element, data.data, trial->total,
                                         COMBINE_SUM));
    RANK_CHECK(memcmp(data.data, other.data, bytes) == 0, "the two ways differ");
    return true;
}

// What member a sends to member b in this operation; every rank can tell.
static int64_t exchanged(const struct sequence_trial *trial, int a, int b)
{
    struct draw draw = {trial->operation * 101 + (uint64_t)(a * SEQUENCE_RANK_MAX + b)};
    return draw_int(&draw, 0, 2) == 0 ? 0 : draw_int(&draw, 0, (int)trial->total);
}

static bool check_all_to_all(struct sequence_trial *trial)
{
    int64_t sent[SEQUENCE_RANK_MAX], received[SEQUENCE_RANK_MAX], sent_total = 0,
                                                                  received_total = 0;
    int me = trial->members.me;
    for (int m = 0; m < trial->members.count; m++) {
        sent_total += sent[m] = exchanged(trial, me, m);
        received_total += received[m] = exchanged(trial, m, me);
    }
    struct sequence_reals from =
        reals_drawn(trial->arena, trial->number, sent_total, trial->operation, trial->rank);
    struct sequence_reals to = reals_new(trial->arena, trial->number, received_total);
    RANK_OK(trial->transport->all_to_all(trial->members.group, STREAM_EP, trial->element, from.data,
                                         sent, to.data, received));
    int64_t part = 0;
    for (int m = 0; m < trial->members.count; m++) {
        int64_t theirs = 0;
        for (int i = 0; i < me; i++)
            theirs += exchanged(trial, m, i);
        struct sequence_reals wanted =
            reals_drawn(trial->arena, trial->number, theirs + received[m], trial->operation,
                        trial->members.ranks[m]);
        RANK_CHECK(memcmp(at(to, part), at(wanted, theirs),
                          (size_t)(received[m] * number_bytes(trial->number))) == 0,
                   "what member %d sent did not come", m);
        part += received[m];
    }
    return true;
}

static bool check_host_numbers(struct sequence_trial *trial)
{
    int64_t mine[3], all[3 * SEQUENCE_RANK_MAX];
    double sums[3];
    for (int i = 0; i < 3; i++) {
        mine[i] = (int64_t)trial->operation * 100 + trial->rank * 10 + i;
        sums[i] = value(trial->operation, trial->rank, i);
    }
    RANK_OK(trial->transport->host_gather(trial->members.group, mine, all, 3));
    RANK_OK(trial->transport->host_sum(trial->members.group, sums, 3));
    for (int i = 0; i < 3; i++) {
        for (int m = 0; m < trial->members.count; m++)
            RANK_CHECK(all[m * 3 + i] ==
                           (int64_t)trial->operation * 100 + trial->members.ranks[m] * 10 + i,
                       "number %d of member %d is %lld", i, m, (long long)all[m * 3 + i]);
        RANK_CHECK(sums[i] ==
                       combined(&trial->members, NUMBER_DOUBLE, COMBINE_SUM, trial->operation, i),
                   "sum %d is %g", i, sums[i]);
    }
    return true;
}

static bool check_broadcast(struct sequence_trial *trial)
{
    int from = (int)(trial->operation % (uint64_t)trial->members.count);
    int64_t *numbers = ARENA_NEW(trial->arena, int64_t, trial->total + 1);
    for (int64_t i = 0; i < trial->total; i++)
        numbers[i] = (int64_t)trial->operation * 1000 + trial->rank * 100000 + i;
    RANK_OK(trial->transport->host_broadcast(trial->members.group, numbers, trial->total, from));
    for (int64_t i = 0; i < trial->total; i++)
        RANK_CHECK(numbers[i] ==
                       (int64_t)trial->operation * 1000 + trial->members.ranks[from] * 100000 + i,
                   "number %lld of %lld from member %d is %lld", (long long)i,
                   (long long)trial->total, from, (long long)numbers[i]);
    return true;
}

static bool check_operation(struct sequence_trial *trial, int which)
{
    switch (which) {
    case 0:
        return check_all_reduce(trial, COMBINE_SUM);
    case 1:
        return check_all_reduce(trial, COMBINE_MAX);
    case 2:
        return check_all_gather(trial, false);
    case 3:
        return check_all_gather(trial, true);
    case 4:
        return check_reduce_scatter(trial);
    case 5:
        return check_two_ways(trial);
    case 6:
        return check_all_to_all(trial);
    case 7:
        return check_broadcast(trial);
    default:
        return check_host_numbers(trial);
    }
}
enum { OPERATION_COUNT = 9 };

static bool members_make(const struct transport *transport, struct communicator *communicator,
                         unsigned mask, int rank, const char *purpose, struct members *members)
{
    *members = (struct members){.me = -1};
    for (int i = 0; i < SEQUENCE_RANK_MAX; i++) {
        if (!(mask >> i & 1)) continue;
        if (i == rank) members->me = members->count;
        members->ranks[members->count++] = i;
    }
    if (members->me < 0) return true;
    RANK_OK(
        transport->group(communicator, members->ranks, members->count, purpose, &members->group));
    return true;
}

static bool exchange_message(struct sequence_trial *trial, struct communicator *communicator,
                             struct draw *draw, int rank_count)
{
    int from = draw_int(draw, 0, rank_count - 1), to = draw_int(draw, 0, rank_count - 1);
    int channel = draw_int(draw, 0, 3);
    int64_t count = draw_int(draw, 0, 400);
    struct sequence_reals sent =
        reals_drawn(trial->arena, trial->number, count, trial->operation, from);
    if (from == to) return true;
    if (trial->rank == from)
        RANK_OK(trial->transport->send(communicator, STREAM_PP, trial->element, to, channel,
                                       sent.data, count));
    if (trial->rank != to) return true;
    struct sequence_reals came = reals_new(trial->arena, trial->number, count);
    RANK_OK(trial->transport->receive(communicator, STREAM_PP, trial->element, from, channel,
                                      came.data, count));
    RANK_CHECK(memcmp(sent.data, came.data, (size_t)(count * number_bytes(trial->number))) == 0,
               "the message from rank %d is another", from);
    return true;
}

// All ranks draw one sequence of operations over groups that overlap, and take part where they are.
bool sequence_run(const struct transport *transport, struct communicator *communicator, int rank,
                  void *context)
{
    const struct sequence *sequence = context;
    const struct backend backend = rank_backend_at(sequence->real_bytes, sequence->compute, true);
    struct draw draw = {sequence->seed};
    struct members members[16];
    struct arena arena = {0};
    for (int g = 0; g < sequence->group_count; g++) {
        unsigned all = (1U << sequence->rank_count) - 1;
        unsigned mask = (unsigned)draw_int(&draw, 1, (int)all);
        if (g == 0 || draw_int(&draw, 0, 2) == 0) mask = all;
        if (!members_make(transport, communicator, mask, rank, "random", &members[g])) return false;
    }
    for (int o = 0; o < sequence->operation_count; o++) {
        struct sequence_trial trial = {
            .transport = transport,
            .members = members[draw_int(&draw, 0, sequence->group_count - 1)],
            .arena = &arena,
            .element = draw_int(&draw, 0, 1) ? ELEMENT_COMPUTE : ELEMENT_FP32,
            .rank = rank,
            .operation = (uint64_t)o + (sequence->is_whole ? WHOLE : 0),
        };
        trial.number = number_of(&backend, trial.element);
        trial_counts(&trial, &draw, sequence->longest);
        int which = draw_int(&draw, 0, OPERATION_COUNT + 1);
        struct arena_mark mark = arena_mark(&arena);
        bool is_well = which == OPERATION_COUNT + 1
                           ? exchange_message(&trial, communicator, &draw, sequence->rank_count)
                       : which == OPERATION_COUNT ? !transport->barrier(communicator)
                       : trial.members.me < 0     ? true
                                                  : check_operation(&trial, which);
        RANK_CHECK(is_well, "operation %d (kind %d), seed %llu", o, which,
                   (unsigned long long)sequence->seed);
        arena_reset(&arena, mark);
    }
    arena_free(&arena);
    return true;
}
