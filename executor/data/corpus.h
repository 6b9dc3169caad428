#pragma once
#include "executor/data/tokens.h"

// What a run trains on: files of tokens, each with a weight, cut into samples of a sequence each.
// The documents of a file stand one behind another in its samples: none is filled up, and attention
// looks across their ends, as GPT-2 and Megatron-LM have it, unless they are masked.
//
// Which sample a sequence of the run is follows from its number (step times global batch, and its
// place in the step) and the seed, and from nothing else: no plan changes it, and a run that goes
// on at a step goes on where it was. The file is the one whose share is furthest behind its weight
// (Megatron-LM, build_blending_indices), so that of any number of sequences each file has its share
// to less than one. In a file every sample comes once an epoch, in an order of the epoch's own.

// What a document ends at, unless a token says it.
enum { DOCUMENTS_JOINED = -2, DOCUMENTS_OF_FILES = -1 };

enum corpus_part { CORPUS_TRAIN, CORPUS_HELD_OUT, CORPUS_PART_COUNT };

struct corpus_source {
    struct tokens tokens;
    double weight;                     // of all, in shares of one
    int64_t first[CORPUS_PART_COUNT];  // id at which the part begins
    int64_t sample_count[CORPUS_PART_COUNT];
};

struct corpus {
    struct corpus_source *sources;
    int source_count;
    int64_t row_length, seq_len;  // a row is a sample and those behind it that labels look at,
    int64_t row_stride;           // then, unless they are joined, of each of its places where in
                                  // the row its document begins
    int64_t document_end;         // a token; DOCUMENTS_OF_FILES; DOCUMENTS_JOINED
    int64_t vocab;
    uint64_t seed;
    int64_t sample_count[CORPUS_PART_COUNT];
};

struct corpus_request {
    const char *const *words;  // FILE, FOLDER (all files of tokens in it), either with =WEIGHT
    int word_count;
    const char *held_out;    // NULL, or a file that is the held-out part
    double held_out_ratio;   // of every file, its end; 0: none
    int64_t seq_len, ahead;  // labels look so many ids ahead
    int64_t vocab;
    uint64_t seed;
    int64_t document_end;
};

// ERR_USAGE where weights are given for some alone; ERR_INPUT where a file is wrong or too short
// for one sample of a part that is asked for. Files without weights have those of their tokens.
MUST_CHECK bool corpus_open(struct arena *arena, const struct corpus_request *request,
                            struct corpus *corpus, struct err *err);
void corpus_close(struct corpus *corpus);
// The rows' shape alone, of a corpus that another rank reads: no file is opened.
struct corpus corpus_shape(const struct corpus_request *request);

// Where the sequences of a part lie, one after another from number 0. A walk that is asked for an
// earlier number begins anew.
struct corpus_walk {
    enum corpus_part part;
    int64_t number;  // of the next
    int64_t *taken;  // [source] of those before it
};
struct corpus_place {
    int source;
    int64_t first;  // id of its file
    int64_t epoch;  // of that file
};
struct corpus_walk corpus_walk_start(struct arena *arena, const struct corpus *corpus,
                                     enum corpus_part part);
struct corpus_place corpus_walk_to(const struct corpus *corpus, struct corpus_walk *walk,
                                   int64_t number);
// The row that begins there: row_stride numbers, row_length of them ids.
MUST_CHECK bool corpus_read(const struct corpus *corpus, const struct corpus_place *place,
                            int64_t *row, struct err *err);

// A permutation of 0 .. count - 1 by its key, computed where it is asked for: what stands at
// `index`.
int64_t corpus_shuffled(uint64_t key, int64_t count, int64_t index);
