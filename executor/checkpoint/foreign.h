#pragma once
#include "executor/checkpoint/source.h"

// Weights as `transformers` keeps them: files of safetensors whose arrays have names of their own
// and other shapes. A table says how an array of ours is found there: its dims are taken as rows
// and columns; there the matrix stands as it is or transposed, sometimes one of several that are
// one array, one behind another or their rows in turn. Families without rows are refused.

// Where those stand that are one array there.
enum foreign_slots {
    SLOTS_ROWS,     // one behind another by our rows
    SLOTS_COLUMNS,  // by our columns
    SLOTS_GROUPS  // Megatron-Core's linear_qkv: in turn the queries that share a head of keys, its
                  // keys and its values
};

struct foreign_row {
    const char *families;  // " llama qwen2 "
    const char *ours;      // without the place in the model
    const char *theirs;    // "{layer}" and "{expert}" are numbers
    int row_dims;          // dims that are rows, behind that of experts; 0: one; -1: a vector
    bool is_transposed;
    int slot, slots;  // which one of those that are one array there
    enum foreign_slots by;
};

// Whose names: those of `transformers`, or those of Megatron-Core.
enum foreign_names { NAMES_HUGGINGFACE, NAMES_MEGATRON };

bool foreign_knows(const char *family);
// The first row behind `after` (NULL: of all) that says where it is; NULL: none does. *layer:
// counted as they do.
const struct foreign_row *foreign_find(enum foreign_names names, const char *family,
                                       const char *name, const struct foreign_row *after,
                                       int *layer);
char *foreign_name(struct arena *arena, const struct foreign_row *row, int layer, int expert);
bool foreign_has_experts(const struct foreign_row *row);
// Where elements of a whole array, or of one expert's, stand in theirs; its shape. `all`: the
// model's arrays, of which some stand in one of theirs; false where one that is needed is missing.
bool foreign_view_of(const struct foreign_row *row, const struct checkpoint_piece *piece,
                     const struct checkpoint_pieces *all, struct foreign_view *view);

// Whether a folder holds files of safetensors and no checkpoint of ours.
bool foreign_is(const struct disk *disk, const char *path);
// Opens such a folder as a source of the weights that `arrays` names, whose whole sizes are those
// of a plan. ERR_INPUT naming what is missing or of another shape.
MUST_CHECK bool foreign_open(struct arena *arena, const struct disk *disk, const char *path,
                             const char *family, const struct checkpoint_pieces *arrays,
                             int64_t vocab, struct checkpoint_source *source, struct err *err);
// The whole of the array of a piece, as wide as its model has it.
struct checkpoint_piece foreign_whole(const struct checkpoint_piece *piece, int64_t vocab);
bool foreign_fail_beside(const struct checkpoint_piece *piece, struct err *err);

struct foreign_format {
    enum checkpoint_number numbers;  // CHECKPOINT_NUMBER_COUNT: as in the checkpoint
    int bits;                        // 8 or 4: matrices of layers as whole numbers; 0: none are
};
struct foreign_written {
    int count;                     // arrays
    int64_t bytes;                 // of them
    struct quantized_error error;  // of the matrices that are whole numbers now
    const char *worst;             // whose relative error is the largest, and that, as a root of
    double worst_ratio;            // mean squares
};
// Writes the weights of a checkpoint as FOLDER/model.safetensors, an array at a time, and where
// some are whole numbers quantization.json, which says so to who reads them. `written` lives in
// `arena`. ERR_USAGE for a family whose matrices are none of Linear's.
MUST_CHECK bool foreign_write(struct arena *arena, struct checkpoint_source *source,
                              const char *folder, const struct foreign_format *format,
                              struct foreign_written *written, struct err *err);
