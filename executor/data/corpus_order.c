#include "executor/data/corpus.h"

#include "executor/random.h"

#include <assert.h>
#include <string.h>

// Which sample comes when.

// Keys of a run's random numbers begin with what they are for: 1 to 3 are taken.
enum { KEY_OF_ORDER = 4 };

// A Feistel network of four rounds over the smallest power of four that has room (Luby and Rackoff
// 1988), walked until it falls among them (Black and Rogaway 2002): less than four steps a time.
int64_t corpus_shuffled(uint64_t key, int64_t count, int64_t index)
{
    enum { ROUNDS = 4 };
    assert(index >= 0 && index < count);
    int half_bits = 1;
    while (half_bits < 31 && (int64_t)1 << (2 * half_bits) < count)
        half_bits++;
    uint64_t mask = ((uint64_t)1 << half_bits) - 1, at = (uint64_t)index;
    do {
        uint64_t left = at >> half_bits, right = at & mask;
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t bits = random_at(key, right << 3 | (uint64_t)round).word[0];
            uint64_t next = left ^ (bits & mask);
            left = right;
            right = next;
        }
        at = left << half_bits | right;
    } while (at >= (uint64_t)count);
    return (int64_t)at;
}

struct corpus_walk corpus_walk_start(struct arena *arena, const struct corpus *corpus,
                                     enum corpus_part part)
{
    return (struct corpus_walk){.part = part,
                                .taken = ARENA_NEW(arena, int64_t, corpus->source_count)};
}

// The source that is furthest behind; of equals the first.
static int next_source(const struct corpus *corpus, const struct corpus_walk *walk)
{
    int best = -1;
    double most = 0;
    for (int s = 0; s < corpus->source_count; s++) {
        if (corpus->sources[s].sample_count[walk->part] == 0) continue;
        double behind =
            corpus->sources[s].weight * (double)(walk->number + 1) - (double)walk->taken[s];
        if (best < 0 || behind > most) best = s, most = behind;
    }
    assert(best >= 0);
    return best;
}

struct corpus_place corpus_walk_to(const struct corpus *corpus, struct corpus_walk *walk,
                                   int64_t number)
{
    assert(number >= 0);
    if (number < walk->number) {
        memset(walk->taken, 0, (size_t)corpus->source_count * sizeof *walk->taken);
        walk->number = 0;
    }
    // One source alone need not be walked.
    if (corpus->source_count == 1) walk->number = walk->taken[0] = number;
    for (; walk->number < number; walk->number++)
        walk->taken[next_source(corpus, walk)]++;
    int s = next_source(corpus, walk);
    const struct corpus_source *source = &corpus->sources[s];
    int64_t count = source->sample_count[walk->part], taken = walk->taken[s]++;
    walk->number++;
    struct corpus_place place = {.source = s, .epoch = taken / count};
    int64_t sample = taken % count;
    if (walk->part == CORPUS_TRAIN) {
        uint64_t key = random_key(random_key(corpus->seed, KEY_OF_ORDER), (uint64_t)s);
        sample = corpus_shuffled(random_key(key, (uint64_t)place.epoch), count, sample);
    }
    place.first = source->first[walk->part] + sample * corpus->seq_len;
    return place;
}

// Of the places of a row that begins at id `first`, by what the file says.
static void find_begins(const struct tokens *tokens, int64_t first, int64_t count, int64_t *begins)
{
    int64_t document = 0, past = tokens->document_count, begin;
    while (past - document > 1) {
        int64_t middle = document + (past - document) / 2;
        (void)tokens_document(tokens, middle, &begin);
        *(begin <= first ? &document : &past) = middle;
    }
    int64_t end = tokens_document(tokens, document, &begin);
    for (int64_t i = 0; i < count; i++) {
        while (first + i >= end && document + 1 < tokens->document_count)
            end = tokens_document(tokens, ++document, &begin);
        begins[i] = begin > first ? begin - first : 0;
    }
}

// A document begins behind each such token.
static void find_ends(const int64_t *row, int64_t count, int64_t token, int64_t *begins)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < count; i++) {
        begins[i] = begin;
        if (row[i] == token) begin = i + 1;
    }
}

bool corpus_read(const struct corpus *corpus, const struct corpus_place *place, int64_t *row,
                 struct err *err)
{
    assert(place->source >= 0 && place->source < corpus->source_count);
    const struct tokens *tokens = &corpus->sources[place->source].tokens;
    if (!tokens_read(tokens, place->first, corpus->row_length, corpus->vocab, row, err))
        return false;
    int64_t *begins = row + corpus->row_length;
    if (corpus->document_end == DOCUMENTS_OF_FILES)
        find_begins(tokens, place->first, corpus->seq_len, begins);
    else if (corpus->document_end != DOCUMENTS_JOINED)
        find_ends(row, corpus->seq_len, corpus->document_end, begins);
    return true;
}
