#include "executor/data/document_length.h"

#include <assert.h>

double document_length(struct arena *scratch, const struct corpus *corpus, int64_t sequence_count)
{
    assert(corpus->document_end != DOCUMENTS_JOINED && corpus->source_count > 0);
    struct arena_mark mark = arena_mark(scratch);
    struct corpus_walk walk = corpus_walk_start(scratch, corpus, CORPUS_TRAIN);
    int64_t *row = ARENA_NEW(scratch, int64_t, corpus->row_stride);
    double seen = 0, places = 0;
    for (int64_t number = 0; number < sequence_count; number++) {
        struct err unread = {0};
        const struct corpus_place place = corpus_walk_to(corpus, &walk, number);
        if (!corpus_read(corpus, &place, row, &unread)) continue;
        const int64_t *begins = row + corpus->row_length;
        for (int64_t i = 0; i < corpus->seq_len; i++)
            seen += (double)(i - begins[i] + 1);
        places += (double)corpus->seq_len;
    }
    arena_reset(scratch, mark);
    return places > 0 ? 2 * seen / places - 1 : 0;
}
