#pragma once
#include <stdbool.h>
#include <stdint.h>

// How our CUDA back end computes a scan (models/op_scan.h) and its backward: in chunks of the
// sequence, whose products of matrices cuBLASLt runs, with kernels of our own between them
// (executor/cuda/chunks.c; Dao and Gu 2024, arXiv 2405.21060, section 6). For who runs it, and for
// who prices it and counts its memory (cost_models/chunked.h). C and C++.
//
// With a(t) = -exp(A_log) dt(t), summed within a chunk, a token leaves exp(a(t) - a(s)) of what
// token s brought. Heads of a group share products wherever B or C takes part: the channels of all
// of them are its rows, so that gradients of B and C are summed over heads by the product itself.
// Of a steady scan a(t) is minus the head's rate, and backward neither exponents nor steps have
// gradients: what is made for them alone is not.

// What is on the device for each chunk: (rows, columns), of a head or of a group.
enum chunk_room {
    CHUNK_X,         // dt x
    CHUNK_X_LEFT,    // what of it is left when the chunk ends
    CHUNK_D,         // d_y
    CHUNK_D_PAST,    // times what is left of the state in front of the chunk
    CHUNK_MATRIX,    // (query, key): scores times what is left; 0 above the diagonal
    CHUNK_D_MATRIX,  // gradient of the scores, of one head
    CHUNK_STATE,     // what the chunk brings to the state; then what its results say to it
    CHUNK_BEFORE,    // the state in front of the chunk
    CHUNK_D_STATE,   // gradient of the state behind the chunk
    CHUNK_PAST,      // C times the state in front
    CHUNK_OWN,       // results of the chunk's own tokens; backward gradients of dt x
    CHUNK_D_INPUT,   // gradients of what is left of dt x
    CHUNK_SCORES,    // C B^T
    CHUNK_D_SCORES,
    CHUNK_B,
    CHUNK_C,
    CHUNK_D_B,
    CHUNK_D_C,
    CHUNK_ROOMS
};
enum chunk_side { CHUNK_WIDTH, CHUNK_LENGTH, CHUNK_NUMBERS };
struct chunk_room_row {
    // Of all groups at once, the others of the heads that are worked on at a time.
    bool is_of_group, is_whole, is_wide;  // wide: fp32 whatever the arrays hold
    enum chunk_side rows, columns;
    // How often our own kernels read or write it; 0: there is none.
    int forward, backward, steady;  // steady: backward of one
};

// C = A B, one for each chunk and head, or group.
struct chunk_product {
    enum chunk_room a, b, c;
    bool is_a_turned, is_b_turned, is_of_heads, adds;
};
// Forward the first four; backward all but the fourth. Behind some of them kernels come: one that
// passes states on; its way back; what scores have as their gradient.
enum {
    CHUNK_STATES_MADE = 2,
    CHUNK_PAST_MADE = 2,
    CHUNK_FORWARD_ALONE = 3,
    CHUNK_FORWARD_PRODUCTS = 4,
    CHUNK_GRADIENTS_BEGUN = 5,
    CHUNK_SCORES_SAID = 10,
    CHUNK_PRODUCTS = 12
};

struct chunk_scan {
    int64_t batch, seq, heads, groups, width, state;
    int64_t heads_each, first_head, first_group;  // heads of a group; here of the whole
    int64_t bytes;                                // of a number in an array
    bool is_backward, is_steady;
    int64_t length;  // of a chunk: chunk_length
};

// Heads that are worked on at a time: of whole groups, or some of one group.
struct chunk_part {
    int64_t head, heads, group, groups;
};
struct chunk_gemm {
    int64_t batch, rows, columns, inner;
};

// Memory of the heads that are worked on at a time, unless one needs more; an emulation has less,
// so that small scans have several parts. And the alignment of a room.
#if defined(CUDA_EMULATED)
enum { CHUNK_PART_BYTES = 128 << 10 };
#else
enum { CHUNK_PART_BYTES = 512 << 20 };
#endif
enum { CHUNK_ALIGNMENT = 256 };
enum { CHUNK_LENGTH_MIN = 16, CHUNK_LENGTH_MAX = 256 };

static inline struct chunk_room_row chunk_row(enum chunk_room room)
{
    static const struct chunk_room_row ROWS[CHUNK_ROOMS] = {
        {false, false, false, CHUNK_WIDTH, CHUNK_LENGTH, 1, 2, 1},   // X
        {false, false, false, CHUNK_WIDTH, CHUNK_LENGTH, 1, 1, 1},   // X_LEFT
        {false, false, false, CHUNK_WIDTH, CHUNK_LENGTH, 0, 1, 1},   // D
        {false, false, false, CHUNK_WIDTH, CHUNK_LENGTH, 0, 1, 1},   // D_PAST
        {false, false, false, CHUNK_LENGTH, CHUNK_LENGTH, 1, 1, 1},  // MATRIX
        {false, false, true, CHUNK_LENGTH, CHUNK_LENGTH, 0, 1, 1},   // D_MATRIX
        {false, false, true, CHUNK_WIDTH, CHUNK_NUMBERS, 1, 2, 2},   // STATE
        {false, false, false, CHUNK_WIDTH, CHUNK_NUMBERS, 1, 2, 1},  // BEFORE
        {false, false, false, CHUNK_WIDTH, CHUNK_NUMBERS, 0, 2, 1},  // D_STATE
        {false, false, true, CHUNK_WIDTH, CHUNK_LENGTH, 1, 1, 0},    // PAST
        {false, false, true, CHUNK_WIDTH, CHUNK_LENGTH, 1, 1, 1},    // OWN
        {false, false, true, CHUNK_WIDTH, CHUNK_LENGTH, 0, 1, 1},    // D_INPUT
        {true, false, true, CHUNK_LENGTH, CHUNK_LENGTH, 1, 2, 1},    // SCORES
        {true, false, false, CHUNK_LENGTH, CHUNK_LENGTH, 0, 1, 1},   // D_SCORES
        {true, true, false, CHUNK_LENGTH, CHUNK_NUMBERS, 1, 1, 1},   // B
        {true, true, false, CHUNK_LENGTH, CHUNK_NUMBERS, 1, 1, 1},   // C
        {true, true, true, CHUNK_LENGTH, CHUNK_NUMBERS, 0, 1, 1},    // D_B
        {true, true, true, CHUNK_LENGTH, CHUNK_NUMBERS, 0, 1, 1},    // D_C
    };
    return ROWS[room];
}

static inline struct chunk_product chunk_product(int product)
{
    static const struct chunk_product PRODUCTS[CHUNK_PRODUCTS] = {
        {CHUNK_C, CHUNK_B, CHUNK_SCORES, false, true, false, false},
        {CHUNK_X_LEFT, CHUNK_B, CHUNK_STATE, false, false, false, false},
        {CHUNK_BEFORE, CHUNK_C, CHUNK_PAST, false, true, false, false},
        {CHUNK_X, CHUNK_MATRIX, CHUNK_OWN, false, true, true, false},
        {CHUNK_D_PAST, CHUNK_C, CHUNK_STATE, false, false, false, false},
        {CHUNK_D_STATE, CHUNK_B, CHUNK_D_INPUT, false, true, false, false},
        {CHUNK_D, CHUNK_X, CHUNK_D_MATRIX, true, false, true, false},
        {CHUNK_D, CHUNK_MATRIX, CHUNK_OWN, false, false, true, false},
        {CHUNK_D_PAST, CHUNK_BEFORE, CHUNK_D_C, true, false, false, false},
        {CHUNK_X_LEFT, CHUNK_D_STATE, CHUNK_D_B, true, false, false, false},
        {CHUNK_D_SCORES, CHUNK_B, CHUNK_D_C, false, false, false, true},
        {CHUNK_D_SCORES, CHUNK_C, CHUNK_D_B, true, false, false, true},
    };
    return PRODUCTS[product];
}
static inline bool chunk_has_product(const struct chunk_scan *of, int product)
{
    bool is_left = product == CHUNK_FORWARD_ALONE || (of->is_steady && product == CHUNK_PAST_MADE);
    return of->is_backward ? !is_left : product < CHUNK_FORWARD_PRODUCTS;
}

// How often our own kernels read or write a room in this direction.
static inline int chunk_passes(const struct chunk_scan *of, enum chunk_room room)
{
    struct chunk_room_row row = chunk_row(room);
    return !of->is_backward ? row.forward : of->is_steady ? row.steady : row.backward;
}

static inline int64_t chunk_chunks(const struct chunk_scan *of)
{
    return of->batch * ((of->seq + of->length - 1) / of->length);
}

static inline int64_t chunk_side_of(const struct chunk_scan *of, enum chunk_side side)
{
    return side == CHUNK_WIDTH ? of->width : side == CHUNK_LENGTH ? of->length : of->state;
}

// Numbers of one room for one chunk and head, or group.
static inline int64_t chunk_room_numbers(const struct chunk_scan *of, enum chunk_room room)
{
    struct chunk_room_row row = chunk_row(room);
    return chunk_side_of(of, row.rows) * chunk_side_of(of, row.columns);
}

// Of so many heads and groups; 0 where this direction has no such room.
static inline int64_t chunk_room_bytes(const struct chunk_scan *of, enum chunk_room room,
                                       int64_t heads, int64_t groups)
{
    struct chunk_room_row row = chunk_row(room);
    if (!chunk_passes(of, room)) return 0;
    int64_t count = row.is_whole ? of->groups : row.is_of_group ? groups : heads;
    int64_t numbers = count * chunk_chunks(of) * chunk_room_numbers(of, room);
    int64_t bytes = numbers * (row.is_wide ? 4 : of->bytes);
    return (bytes + CHUNK_ALIGNMENT - 1) / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
}

// Numbers in fp32 beside the rooms: exponents of each token and head, and backward what is said to
// them and to the steps; of each chunk and head what is said at its end, to A_log and to D.
static inline int64_t chunk_beside(const struct chunk_scan *of)
{
    int64_t heads = chunk_chunks(of) * of->heads;
    return of->is_backward && !of->is_steady ? heads * (3 * of->length + 3) : heads * of->length;
}

static inline int64_t chunk_heads_most(const struct chunk_scan *of)
{
    int64_t each = 0;
    for (int room = 0; room < CHUNK_ROOMS; room++)
        if (!chunk_row((enum chunk_room)room).is_whole)
            each += chunk_room_bytes(of, (enum chunk_room)room, 1, 1);
    int64_t most = CHUNK_PART_BYTES / each;
    return most < 1 ? 1 : most;
}

// What is worked on from this head on: whole groups, or what is left of one as far as it fits.
static inline struct chunk_part chunk_part_at(const struct chunk_scan *of, int64_t head)
{
    int64_t place = of->first_head + head, most = chunk_heads_most(of), left = of->heads - head;
    int64_t group = place / of->heads_each - of->first_group;
    int64_t share = of->heads_each - place % of->heads_each;
    int64_t fit = (most < left ? most : left) / of->heads_each;
    if (share > left) share = left;
    if (share > most) share = most;
    struct chunk_part some = {head, share, group, 1};
    struct chunk_part whole = {head, fit * of->heads_each, group, fit};
    return place % of->heads_each == 0 && fit > 0 ? whole : some;
}

static inline int64_t chunk_bytes(const struct chunk_scan *of)
{
    int64_t most = 0;
    for (int64_t head = 0; head < of->heads;) {
        struct chunk_part part = chunk_part_at(of, head);
        int64_t bytes = 0;
        for (int room = 0; room < CHUNK_ROOMS; room++)
            bytes += chunk_room_bytes(of, (enum chunk_room)room, part.heads, part.groups);
        most = bytes > most ? bytes : most;
        head += part.heads;
    }
    return most + 4 * chunk_beside(of);
}

// Rows of an operand: those of all heads of a group follow one another.
static inline int64_t chunk_rows(const struct chunk_scan *of, enum chunk_room room, int64_t share)
{
    struct chunk_room_row row = chunk_row(room);
    return chunk_side_of(of, row.rows) * (row.is_of_group ? 1 : share);
}

static inline struct chunk_gemm chunk_gemm_of(const struct chunk_scan *of,
                                              const struct chunk_part *part, int product)
{
    struct chunk_product row = chunk_product(product);
    int64_t share = row.is_of_heads ? 1 : part->heads / part->groups;
    int64_t columns = chunk_side_of(of, chunk_row(row.a).columns);
    int64_t rows = chunk_rows(of, row.a, share);
    struct chunk_gemm gemm = {
        chunk_chunks(of) * (row.is_of_heads ? part->heads : part->groups),
        row.is_a_turned ? columns : rows,
        chunk_side_of(of, chunk_row(row.c).columns),
        row.is_a_turned ? rows : columns,
    };
    return gemm;
}

// Our own kernels: two before the parts, backward two behind them, of which a steady scan has the
// second, and those of each part.
static inline int64_t chunk_kernels(const struct chunk_scan *of, int64_t parts)
{
    return of->is_backward ? (of->is_steady ? 3 : 4) + 6 * parts : 2 + 4 * parts;
}

// What they read and write of the rooms, and of what heads and tokens have beside them; x, and
// backward d_y, are read twice, but of a steady scan.
static inline double chunk_own_bytes(const struct chunk_scan *of)
{
    double bytes = 8.0 * (double)chunk_beside(of);
    for (int room = 0; room < CHUNK_ROOMS; room++) {
        bytes += (double)chunk_room_bytes(of, (enum chunk_room)room, of->heads, of->groups) *
                 chunk_passes(of, (enum chunk_room)room);
    }
    int again = of->is_steady ? 0 : of->is_backward ? 2 : 1;
    return bytes + (double)(of->batch * of->seq * of->heads * of->width * of->bytes) * again;
}

static inline double chunk_product_bytes(const struct chunk_scan *of)
{
    double bytes = 0;
    for (int i = 0; i < CHUNK_PRODUCTS; i++) {
        if (!chunk_has_product(of, i)) continue;
        struct chunk_product row = chunk_product(i);
        bytes += (double)chunk_room_bytes(of, row.a, of->heads, of->groups) +
                 (double)chunk_room_bytes(of, row.b, of->heads, of->groups) +
                 (double)chunk_room_bytes(of, row.c, of->heads, of->groups) * (row.adds ? 2 : 1);
    }
    return bytes;
}

// The length whose chunks move the fewest bytes: of short ones there are many states, of long ones
// the matrices among their tokens are large. The products are far below the flops a byte of GPUs.
static inline int64_t chunk_length(const struct chunk_scan *scan)
{
    struct chunk_scan of = *scan;
    int64_t best = CHUNK_LENGTH_MIN;
    double least = 0;
    for (of.length = CHUNK_LENGTH_MIN; of.length <= CHUNK_LENGTH_MAX; of.length *= 2) {
        double bytes = chunk_own_bytes(&of) + chunk_product_bytes(&of);
        if (of.length > CHUNK_LENGTH_MIN && bytes >= least) continue;
        least = bytes;
        best = of.length;
    }
    return best;
}
