#include "tests/support/boundary_places.h"

#include "tests/support/test.h"

#include <string.h>

enum { SEQ = BOUNDARY_SEQ };

static int coordinate(const struct parallel *parallel, enum axis wanted, int rank)
{
    for (int i = 0; i < parallel->order_count; i++) {
        enum axis axis = parallel->order[i];
        if (axis == wanted) return rank % parallel->degree[axis];
        rank /= parallel->degree[axis];
    }
    fail_msg("%s is in no order", axis_name(wanted));
    return 0;
}

// Where a rank of a stage is. Of a micro-batch of all ranks it
// has sequences and, split by cp and with sp by tp, tokens.
struct rank_place {
    int stage, sequence_first, sequence_count, token_first, token_count;
};

static void take_tokens(struct rank_place *place, int parts, int part)
{
    place->token_count = SEQ / parts;
    place->token_first = part * place->token_count;
}

// Stages behind each other, of any number of ranks: tp innermost, then cp, then dp.
static struct rank_place place_in_line(const struct parallel *parallel, int rank, bool is_of_seq)
{
    struct rank_place place = {.stage = 0};
    int cp = parallel->degree[AXIS_CP], all = parallel->degree[AXIS_DP] * parallel->micro_batch;
    for (; rank >= parallel->stage_ranks[place.stage]; place.stage++)
        rank -= parallel->stage_ranks[place.stage];
    int tp =
        parallel->stage_tp_count > 0 ? parallel->stage_tp[place.stage] : parallel->degree[AXIS_TP];
    int dp = parallel->stage_ranks[place.stage] / tp / cp;
    int t = rank % tp, c = rank / tp % cp, d = rank / tp / cp;
    place.sequence_count = all / dp;
    place.sequence_first = d * place.sequence_count;
    take_tokens(&place, cp * (is_of_seq ? tp : 1), is_of_seq ? c * tp + t : c);
    return place;
}

static struct rank_place place_of(const struct parallel *parallel, int rank, bool is_of_seq)
{
    int tp = parallel->degree[AXIS_TP], cp = parallel->degree[AXIS_CP];
    if (parallel->stage_ranks_count > 0) return place_in_line(parallel, rank, is_of_seq);
    struct rank_place place = {.stage = coordinate(parallel, AXIS_PP, rank)};
    int own = parallel->stage_tp[place.stage], rests = tp / own;
    int t = coordinate(parallel, AXIS_TP, rank), c = coordinate(parallel, AXIS_CP, rank);
    int d = coordinate(parallel, AXIS_DP, rank);
    place.sequence_count = parallel->micro_batch / rests;
    place.sequence_first = (d * rests + t / own) * place.sequence_count;
    int parts = cp * (is_of_seq ? own : 1), part = is_of_seq ? c * own + t % own : c;
    take_tokens(&place, parts, part);
    return place;
}

static bool holds(const struct rank_place *place, int64_t sequence, int64_t token)
{
    return sequence >= place->sequence_first &&
           sequence < place->sequence_first + place->sequence_count &&
           token >= place->token_first && token < place->token_first + place->token_count;
}

enum { GRAIN = 64 };  // tokens that nothing cuts apart

// What of a receiver's tokens does not come once, from a rank that has it; NULL: all does.
static const char *wrong_of(const struct parallel *parallel, int rank,
                            const struct boundary_piece *pieces, int count)
{
    struct rank_place own = place_of(parallel, rank, parallel->sp);
    for (int s = own.sequence_first; s < own.sequence_first + own.sequence_count; s++) {
        for (int t = own.token_first; t < own.token_first + own.token_count; t += GRAIN) {
            int came = 0;
            for (int p = 0; p < count; p++) {
                const struct held *part = &pieces[p].part;
                struct rank_place from = place_of(parallel, pieces[p].peer, parallel->sp);
                bool is_in = s >= part->first[0] && s < part->first[0] + part->count[0] &&
                             t >= part->first[1] && t < part->first[1] + part->count[1];
                if (is_in && !holds(&from, s, t)) return "comes from who has not got it";
                came += is_in;
            }
            if (came != 1) return came ? "comes more than once" : "does not come";
        }
    }
    return NULL;
}

// Every planted fault of the pieces has to be seen.
static void check_faults(const struct parallel *parallel, int rank, struct boundary_piece *pieces,
                         int count)
{
    struct boundary_piece whole[64];
    assert_in_range(count, 1, 63);
    memcpy(whole, pieces, (size_t)count * sizeof *pieces);
    assert_non_null(wrong_of(parallel, rank, whole, count - 1));
    whole[count] = whole[0];
    assert_non_null(wrong_of(parallel, rank, whole, count + 1));
    whole[0].part.first[0] += 1;
    assert_non_null(wrong_of(parallel, rank, whole, count));
}

static int64_t all_elements(const struct boundary_piece *pieces, int count)
{
    int64_t all = 0;
    for (int i = 0; i < count; i++)
        all += pieces[i].part.elements;
    return all;
}

// The n-th rank of a stage.
static int rank_at(const struct parallel *parallel, int stage, int n)
{
    int rank = 0;
    while (place_of(parallel, rank, false).stage != stage || n-- > 0)
        rank++;
    return rank;
}

static int stage_ranks(const struct program *program, int stage)
{
    const struct parallel *parallel = &program->parallel;
    if (parallel->stage_ranks_count > 0) return parallel->stage_ranks[stage];
    return program->mesh.rank_count / program->shape.stage_count;
}

static double box_elements(const struct program *program, const struct boundary *boundary, int rank)
{
    struct program room;
    const struct program *seen = program_of_block(program, boundary->from.block, &room);
    const struct block_program *block = seen->blocks[boundary->from.block];
    return (double)held_of_buffer(seen, block, boundary->from.buffer, rank).elements;
}

void boundary_places_check(struct arena *arena, const struct program *program,
                           const struct boundary_message *message)
{
    struct boundary boundary;
    const struct parallel *parallel = &program->parallel;
    assert_true(boundary_of(program, message, 0, &boundary));
    int64_t sent = 0, received = 0;
    int sent_count = 0, received_count = 0;
    bool are_alike = parallel->stage_ranks_count == 0;
    int senders = stage_ranks(program, message->from_stage);
    for (int i = 0; i < stage_ranks(program, message->to_stage); i++) {
        struct boundary_piece *in;
        int receiver = rank_at(parallel, message->to_stage, i);
        int in_count = boundary_pieces(arena, &boundary, receiver, false, &in);
        assert_int_equal(place_of(parallel, in[0].peer, false).stage, message->from_stage);
        const char *wrong = wrong_of(parallel, receiver, in, in_count);
        if (wrong) fail_msg("rank %d: a part %s", receiver, wrong);
        check_faults(parallel, receiver, in, in_count);
        received += all_elements(in, in_count);
        received_count += in_count;
    }
    for (int i = 0; i < senders; i++) {
        struct boundary_piece *out;
        int sender = rank_at(parallel, message->from_stage, i);
        int out_count = boundary_pieces(arena, &boundary, sender, true, &out);
        sent += all_elements(out, out_count);
        sent_count += out_count;
        // All ranks send alike, where stages have as many.
        if (are_alike) assert_int_equal(all_elements(out, out_count) * (i + 1), sent);
        for (int p = 0; p < out_count; p++) {
            struct boundary_piece *theirs;
            int count = boundary_pieces(arena, &boundary, out[p].peer, false, &theirs), at = 0;
            assert_true(p == 0 || out[p].peer > out[p - 1].peer);
            while (at < count && theirs[at].peer != sender)
                at++;
            assert_in_range(at, 0, count - 1);
            assert_true(held_equal(&theirs[at].part, &out[p].part));
        }
    }
    assert_int_equal(sent, received);
    assert_int_equal(sent_count, received_count);
    // What the graph tells of the mean rank.
    double held = box_elements(program, &boundary, rank_at(parallel, message->from_stage, 0));
    double mean = (double)sent / senders / held, told = boundary_sent_ratio(&boundary);
    assert_true(told - mean < 1e-12 && mean - told < 1e-12);
}
