#pragma once
#include "core/err.h"
#include "executor/checkpoint/piece.h"
#include "executor/checkpoint/quantized.h"
#include "executor/spikes.h"

// The files of a checkpoint. Every rank writes one in the format of safetensors (8 bytes: the
// length of a header in JSON, then the header, then the arrays), which any reader of that format
// opens. A piece is an array called "NAME", "NAME.first_moment" or "NAME.second_moment", of the
// shape of its box, or flat where it is a part of one. "__metadata__" says of each which slice it
// is and its checksum: "0:2/4 0:8/8 0:32/32 | 0:512 | 0123456789abcdef", that is first:count/whole
// by dim, then the elements of that box, row by row. The index, checkpoint.json
// (executor/checkpoint.schema.json), says all of it of all files at once, and of what run and step
// they are. Its last member is the checksum of the text before it.

// Where elements of an array taken as rows and columns stand in an array of another's.
struct foreign_view {
    int64_t columns;  // 0: it is ours
    int64_t base, row_stride, column_stride;
    int rank;
    int64_t shape[2];
    // Rows, or columns, in groups of `each`, which stand `each_there` apart; 0: they do not.
    int64_t each, each_there;
    int64_t rotary_dims;  // the last of a group: in pairs there, in halves here
    bool folds_columns;
    bool swaps;  // two groups, the second of which is the first there
};
int64_t foreign_view_place(const struct foreign_view *view, int64_t element);

// A part of an array of another's, which lies in a file of its own: rows and columns from `first`
// on, elements `stride` apart.
struct foreign_chunk {
    int file;
    int64_t at_bytes;
    int64_t first[2], count[2], stride[2];
};

struct checkpoint_entry {
    struct checkpoint_piece piece;
    enum checkpoint_kind kind;
    enum checkpoint_number number;
    int file;
    int64_t at_bytes;  // from the beginning of the arrays
    int64_t bytes;
    uint64_t checksum;
    struct foreign_view view;
    struct quantized codes;              // of an array of another's
    const struct foreign_chunk *chunks;  // NULL: it is all in one place
    int chunk_count;
};

struct checkpoint_facts {
    int64_t step;       // steps done
    int64_t updates;    // of them, those that changed weights
    int64_t sequences;  // of the data that were read
    uint64_t seed;
    double loss_scale;
    int good_steps;         // since the scale changed
    struct spikes norms;    // of gradients so far, where steps out of line are left out
    const char *model;      // its name
    const char *family;     // "llama": model_type of its config
    const char *optimizer;  // whose moments there are; "none": weights alone
    const char *plan_hash;  // of the plan's text
    int64_t vocab;          // rows of the vocabulary that are the model's
};

struct checkpoint_file {
    const char *name;
    int64_t bytes, header_bytes;  // header_bytes: where the arrays begin
    uint64_t checksum;            // of the header, its length included
};

struct checkpoint_index {
    struct checkpoint_facts facts;
    struct checkpoint_file *files;
    int file_count;
    struct checkpoint_entry *entries;  // sorted by checkpoint_index_sort
    int entry_count, entry_capacity;
};

// Of so many bytes; any change of one shows.
uint64_t checkpoint_checksum(const void *bytes, int64_t count);

// Gives the entries of one file their places, one after another, and returns where they end.
int64_t checkpoint_place(struct checkpoint_entry *entries, int count);
// The first part of a file, in the arena: as long whatever the checksums.
char *checkpoint_header(struct arena *arena, const struct checkpoint_entry *entries, int count,
                        int64_t *bytes);
// Reads the entries of file number `file` of an index; false and ERR_INPUT, naming `path`, when it
// is not such a file. The entries are added to those of `index`, and the file to its files.
MUST_CHECK bool checkpoint_header_read(struct arena *arena, const char *path, const char *bytes,
                                       int64_t count, struct checkpoint_index *index,
                                       struct err *err);

char *checkpoint_index_text(struct arena *arena, const struct checkpoint_index *index);
MUST_CHECK bool checkpoint_index_read(struct arena *arena, const char *path, const char *text,
                                      int64_t bytes, struct checkpoint_index *index,
                                      struct err *err);
// By name and kind, then by file and place.
void checkpoint_index_sort(struct checkpoint_index *index);
// The entries of an array: the first, and how many; NULL: it has none.
const struct checkpoint_entry *checkpoint_index_find(const struct checkpoint_index *index,
                                                     const char *name, enum checkpoint_kind kind,
                                                     int *count);
