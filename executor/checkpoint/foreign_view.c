#include "executor/checkpoint/foreign.h"

#include <stdlib.h>
#include <string.h>

// Where elements stand in arrays of Hugging Face: the matrix as it is or transposed, and of latent
// attention (DeepSeek-V2, section 2.1) rows of two of ours in turn, head by head, and what is
// rotated in pairs of neighbours (`rope_interleave`), where ours are in halves.

#define LATENT " deepseek_v2 deepseek_v3 kimi_k2 "

// One row or column of theirs for each of ours, in groups: `group_dims` of ours count groups, what
// is behind them is a group.
struct fold {
    const char *families, *ours;
    const char *beside;  // of each group the first rows, or the last, are of this; NULL: none
    bool is_behind;      // after those of `beside`
    int group_dims;
    bool is_columns;  // of ours
    bool is_rotated;  // the last dims of a group, as many as the shared key has
    bool swaps;       // the two halves
};

static const struct fold FOLDS[] = {
    {LATENT, "attention.q.weight", NULL, false, 1, true, true, false},
    {LATENT, "attention.q_b.weight", NULL, false, 1, true, true, false},
    {LATENT, "attention.kv_a.weight", "attention.k_shared.weight", false, 0, false, false, false},
    {LATENT, "attention.kv_a.bias", "attention.k_shared.bias", false, 0, false, false, false},
    {LATENT, "attention.k_shared.weight", "attention.kv_a.weight", true, 0, false, true, false},
    {LATENT, "attention.k_shared.bias", "attention.kv_a.bias", true, 0, false, true, false},
    {LATENT, "attention.k_b.weight", "attention.v_b.weight", false, 1, false, false, false},
    {LATENT, "attention.v_b.weight", "attention.k_b.weight", true, 1, false, false, false},
    // Theirs is of the embedding and the hidden state, ours of the hidden state and the embedding.
    {LATENT, "mtp.project.weight", NULL, false, 0, false, false, true},
};

static const struct fold *find_fold(const struct foreign_row *row)
{
    for (size_t i = 0; i < sizeof FOLDS / sizeof *FOLDS; i++) {
        bool is_ours = strcmp(FOLDS[i].ours, row->ours) == 0;
        if (is_ours && strstr(FOLDS[i].families, row->families)) return &FOLDS[i];
    }
    return NULL;
}

// Of the same place in the model.
static const struct checkpoint_piece *find_beside(const struct checkpoint_pieces *all,
                                                  const struct checkpoint_piece *piece,
                                                  const char *name)
{
    const char *place = strrchr(piece->name, '.');
    size_t length = strlen(name);
    for (int i = 0; i < all->count; i++) {
        const char *other = all->items[i].name;
        if (strncmp(other, name, length) == 0 && strcmp(other + length, place) == 0)
            return &all->items[i];
    }
    return NULL;
}

static int64_t product(const struct checkpoint_piece *piece, int first, int end)
{
    int64_t elements = 1;
    for (int i = first; i < end; i++)
        elements *= piece->whole[i];
    return elements;
}

static bool fold_view(const struct fold *fold, const struct checkpoint_piece *piece, int split,
                      const struct checkpoint_pieces *all, struct foreign_view *view)
{
    int first = fold->is_columns ? split : 0, end = fold->is_columns ? piece->rank : split;
    const struct checkpoint_piece *key = find_beside(all, piece, "attention.k_shared.weight");
    const struct checkpoint_piece *beside =
        fold->beside ? find_beside(all, piece, fold->beside) : NULL;
    if ((fold->is_rotated && !key) || (fold->beside && !beside)) return false;
    int64_t others = beside ? product(beside, fold->group_dims, end) : 0;
    view->folds_columns = fold->is_columns;
    view->swaps = fold->swaps;
    view->each = product(piece, first + fold->group_dims, end);
    if (fold->swaps) view->each /= 2;
    view->each_there = view->each + others;
    view->rotary_dims = fold->is_rotated ? key->whole[0] : 0;
    view->base = fold->is_behind ? others * view->row_stride : 0;
    return view->rotary_dims <= view->each;
}

// Of those that stand in turn in one array, by groups: one for each head of keys.
static bool group_view(const struct foreign_row *row, const struct checkpoint_piece *piece,
                       const struct checkpoint_pieces *all, struct foreign_view *view)
{
    static const char *const WEIGHTS[] = {"attention.q.weight", "attention.k.weight",
                                          "attention.v.weight"};
    const struct checkpoint_piece *keys = find_beside(all, piece, WEIGHTS[1]);
    int64_t groups = keys ? keys->whole[0] : 0;
    for (int i = 0; i < 3; i++) {
        const struct checkpoint_piece *one = find_beside(all, piece, WEIGHTS[i]);
        int64_t rows = one ? product(one, 0, 2) : 0;
        if (rows == 0 || groups == 0 || rows % groups != 0) return false;
        if (i < row->slot) view->base += rows / groups * view->row_stride;
        if (i == row->slot) view->each = rows / groups;
        view->each_there += rows / groups;
    }
    return true;
}

bool foreign_view_of(const struct foreign_row *row, const struct checkpoint_piece *piece,
                     const struct checkpoint_pieces *all, struct foreign_view *view)
{
    int begin = foreign_has_experts(row) ? 1 : 0;
    int split = row->row_dims < 0 ? piece->rank : begin + row->row_dims;
    int64_t rows = 1, columns = 1;
    for (int i = begin; i < piece->rank; i++)
        *(i < split ? &rows : &columns) *= piece->count[i];
    *view = (struct foreign_view){.columns = columns};
    int64_t there = row->by == SLOTS_ROWS ? row->slots * rows : rows;
    int64_t wide = row->by == SLOTS_COLUMNS ? row->slots * columns : columns;
    view->row_stride = row->is_transposed ? 1 : wide;
    const struct fold *fold = find_fold(row);
    if (fold && !fold_view(fold, piece, split, all, view)) return false;
    if (row->by == SLOTS_GROUPS && !group_view(row, piece, all, view)) return false;
    if (view->each) there = there / view->each * view->each_there;
    if (view->folds_columns || view->swaps) there = rows;
    view->column_stride = row->is_transposed ? there : 1;
    if (row->by == SLOTS_ROWS) view->base += row->slot * rows * view->row_stride;
    if (row->by == SLOTS_COLUMNS) view->base += row->slot * columns * view->column_stride;
    view->rank = row->row_dims < 0 ? 1 : 2;
    view->shape[0] = row->is_transposed ? wide : there;
    view->shape[1] = row->is_transposed ? there : wide;
    return true;
}

static int64_t folded(const struct foreign_view *view, int64_t at)
{
    int64_t group = at / view->each, inner = at % view->each;
    int64_t first = view->each - view->rotary_dims, half = view->rotary_dims / 2;
    if (inner >= first) {
        int64_t k = inner - first;
        inner = first + (k < half ? 2 * k : 2 * (k - half) + 1);
    }
    if (view->swaps) group = 1 - group;
    return group * view->each_there + inner;
}

int64_t foreign_view_place(const struct foreign_view *view, int64_t element)
{
    if (!view->columns) return element;
    int64_t row = element / view->columns, column = element % view->columns;
    int64_t *at = view->folds_columns ? &column : &row;
    if (view->each) *at = folded(view, *at);
    return view->base + row * view->row_stride + column * view->column_stride;
}
