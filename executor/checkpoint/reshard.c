#include "executor/checkpoint/reshard.h"

#include <inttypes.h>

static void count_run(void *context, const struct checkpoint_run *run)
{
    struct reshard_move *move = context;
    if (move->runs++ == 0) {
        move->from = run->from;
        move->to = run->to;
    }
    move->elements += run->count;
}

static bool map_piece(const struct reshard *reshard, int rank, const struct checkpoint_piece *piece,
                      enum checkpoint_kind kind,
                      void (*visit)(void *context, const struct reshard_move *move), void *context,
                      struct err *err)
{
    int count;
    int64_t found = 0;
    const struct checkpoint_index *index = &reshard->source->index;
    const struct checkpoint_entry *entries =
        checkpoint_index_find(index, piece->name, kind, &count);
    for (int e = 0; e < count; e++) {
        struct reshard_move move = {.entry = &entries[e], .rank = rank, .piece = piece};
        checkpoint_overlap(&entries[e].piece, piece, count_run, &move);
        int bits = entries[e].codes.bits;
        move.bytes = bits ? move.elements * bits / 8
                          : move.elements * checkpoint_number_bytes(entries[e].number);
        found += move.elements;
        if (move.elements > 0) visit(context, &move);
    }
    int64_t wanted = checkpoint_elements_wanted(piece, index->facts.vocab);
    if (found < wanted)
        return err_set(
            err, ERR_INPUT, "%s: %s of %.200s has %" PRId64 " of the %" PRId64 " elements wanted",
            reshard->source->path, checkpoint_kind_name(kind), piece->name, found, wanted);
    return true;
}

bool reshard_map(const struct reshard *reshard,
                 void (*visit)(void *context, const struct reshard_move *move), void *context,
                 struct err *err)
{
    struct arena arena = {0};
    for (int r = 0; r < reshard->rank_count && !err->kind; r++) {
        struct arena_mark mark = arena_mark(&arena);
        struct checkpoint_pieces pieces = checkpoint_pieces_written(&arena, reshard->scripts[r], r);
        for (int i = 0; i < pieces.count * reshard->kind_count && !err->kind; i++) {
            const struct checkpoint_piece *piece = &pieces.items[i / reshard->kind_count];
            enum checkpoint_kind kind = (enum checkpoint_kind)(i % reshard->kind_count);
            (void)map_piece(reshard, r, piece, kind, visit, context, err);
        }
        arena_reset(&arena, mark);
    }
    arena_free(&arena);
    return !err->kind;
}

struct cutting {
    const struct reshard *reshard;
    const struct checkpoint_entry *entries;
    double *values;
    char *bytes;
};

static const void *cut(void *context, int entry, struct err *err)
{
    const struct cutting *cutting = context;
    const struct checkpoint_entry *of = &cutting->entries[entry];
    struct checkpoint_source *source = cutting->reshard->source;
    if (!checkpoint_source_read(source, &of->piece, of->kind, cutting->values, err)) return NULL;
    for (int64_t i = 0; i < of->piece.elements; i++)
        checkpoint_number_put(of->number, cutting->bytes, i, cutting->values[i]);
    return cutting->bytes;
}

// As wide as in the source, so that nothing is lost.
static enum checkpoint_number number_of(const struct reshard *reshard, const char *name,
                                        enum checkpoint_kind kind)
{
    int count;
    const struct checkpoint_entry *entries =
        checkpoint_index_find(&reshard->source->index, name, kind, &count);
    bool is_asked = kind == CHECKPOINT_WEIGHT && reshard->numbers != CHECKPOINT_NUMBER_COUNT;
    return is_asked ? reshard->numbers : count > 0 ? entries[0].number : CHECKPOINT_F32;
}

static bool write_rank(const struct reshard *reshard, struct arena *arena,
                       const struct checkpoint_store *store, int rank, struct err *err)
{
    struct checkpoint_pieces pieces =
        checkpoint_pieces_written(arena, reshard->scripts[rank], rank);
    int count = pieces.count * reshard->kind_count;
    struct checkpoint_entry *entries = ARENA_NEW(arena, struct checkpoint_entry, count + 1);
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        entries[i].piece = pieces.items[i / reshard->kind_count];
        entries[i].kind = (enum checkpoint_kind)(i % reshard->kind_count);
        entries[i].number = number_of(reshard, entries[i].piece.name, entries[i].kind);
        if (entries[i].piece.elements > most) most = entries[i].piece.elements;
    }
    struct cutting cutting = {reshard, entries, ARENA_NEW(arena, double, most + 1),
                              ARENA_NEW(arena, char, (most + 1) * 8)};
    return checkpoint_store_write(store, reshard->source->index.facts.step, rank, entries, count,
                                  cut, &cutting, err);
}

bool reshard_write(const struct reshard *reshard, const struct checkpoint_store *store,
                   struct err *err)
{
    struct arena arena = {0};
    struct checkpoint_facts facts = reshard->source->index.facts;
    facts.plan_hash = reshard->plan_hash;
    if (reshard->kind_count == 1) facts.optimizer = "none";
    int ranks = 0;
    for (; ranks < reshard->rank_count && !err->kind; ranks++) {
        struct arena_mark mark = arena_mark(&arena);
        (void)write_rank(reshard, &arena, store, ranks, err);
        arena_reset(&arena, mark);
    }
    arena_free(&arena);
    if (!err->kind && checkpoint_store_commit(store, &facts, reshard->rank_count, err)) return true;
    for (int r = ranks - 1; r >= 0; r--)
        checkpoint_store_discard(store, facts.step, r);
    return false;
}
