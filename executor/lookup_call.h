#pragma once
#include "executor/array.h"

// A lookup of each pair (OP_GATHER whose table shares dims with its ids), alike for all back ends:
// what ids and table share are dims of the result, `rows`, in whose order one goes through it. Rows
// and table are (table, ...) and what ids have in front or behind.

struct looked_pairs {
    int rank;
    int64_t sizes[TENSOR_RANK_MAX];
    int64_t ids[TENSOR_RANK_MAX], table[TENSOR_RANK_MAX];  // strides
    bool is_column[TENSOR_RANK_MAX];                       // a dim of the table
    int64_t row;                                           // the stride of the table's rows
};

// NULL, or what is wrong with them.
static inline const char *call_read_pairs(const struct kernel_array *ids,
                                          const struct kernel_array *table,
                                          const struct kernel_array *rows,
                                          struct looked_pairs *pairs)
{
    *pairs = (struct looked_pairs){.rank = rows->rank, .row = array_stride(table, 0)};
    bool fits = ids->element == ELEMENT_INT64 && table->sizes[0] == table->whole[0];
    for (int i = 0; i < rows->rank; i++) {
        int in_ids = array_find(ids, rows->dims[i]), in_table = array_find(table, rows->dims[i]);
        pairs->sizes[i] = rows->sizes[i];
        pairs->is_column[i] = in_table >= 0;
        if (in_ids >= 0) pairs->ids[i] = array_stride(ids, in_ids);
        if (in_table >= 0) pairs->table[i] = array_stride(table, in_table);
        fits = fits && (in_ids < 0 || ids->sizes[in_ids] == rows->sizes[i]) &&
               (in_table < 0 || table->sizes[in_table] == rows->sizes[i]);
    }
    return fits ? NULL : "rows, ids and table of a lookup of pairs do not fit together";
}
