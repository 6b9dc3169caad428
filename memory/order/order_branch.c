#include "memory/order/order_branch.h"

#include <assert.h>

// Sets of the branch's operators are bit masks.
struct branch_buffer {
    int64_t bytes;
    unsigned users;  // operators of the branch that touch it, its producer among them
    int producer;    // of the branch; -1: from outside
    bool stays;      // alive when the branch is done
};

struct branch {
    const struct memory_problem *problem;
    const int *operators;
    int count;
    struct branch_buffer *buffers;
    int buffer_count;
    unsigned needs[ORDER_BRANCH_MAX];  // operators of the branch that come before
};

static int position_of(const struct branch *branch, int operator)
{
    for (int i = 0; i < branch->count; i++) {
        if (branch->operators[i] == operator) return i;
    }
    return -1;
}

static bool is_used_outside(const struct branch *branch, const struct memory_buffer *buffer)
{
    if (buffer->kept) return true;
    for (int i = 0; i < buffer->user_count; i++) {
        int user = branch->problem->users[buffer->first_user + i];
        if (position_of(branch, user) < 0) return true;
    }
    return false;
}

// Each once, with a bit for every operator of the branch that touches it.
static void add_buffer(struct branch *branch, int *ids, int id, int position)
{
    int at = 0;
    while (at < branch->buffer_count && ids[at] != id)
        at++;
    struct branch_buffer *buffer = &branch->buffers[at];
    if (at == branch->buffer_count) {
        const struct memory_buffer *from = &branch->problem->buffers[id];
        int producer = from->producer < 0 ? -1 : position_of(branch, from->producer);
        bool stays = producer >= 0 ? is_used_outside(branch, from) : from->kept;
        *buffer = (struct branch_buffer){from->bytes, 0, producer, stays};
        ids[branch->buffer_count++] = id;
    }
    assert(position >= 0 && position < branch->count);
    buffer->users |= 1u << position;
}

static struct branch branch_make(struct arena *scratch, const struct memory_problem *problem,
                                 const int *operators, int count)
{
    assert(count > 0 && count <= ORDER_BRANCH_MAX);
    assert(count <= ORDER_BRANCH_MAX);
    struct branch branch = {.problem = problem, .operators = operators, .count = count};
    int touch_count = 0;
    for (int i = 0; i < count; i++) {
        int op = operators[i];
        touch_count += problem->first_touched[op + 1] - problem->first_touched[op];
    }
    branch.buffers = ARENA_NEW(scratch, struct branch_buffer, touch_count);
    int *ids = ARENA_NEW(scratch, int, touch_count);
    for (int i = 0; i < count; i++) {
        int op = operators[i];
        for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
            add_buffer(&branch, ids, problem->touched[t], i);
        }
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int at = position_of(&branch, problem->predecessors[p]);
            if (at >= 0) branch.needs[i] |= 1u << at;
        }
    }
    return branch;
}

// What the branch itself has made and still needs, or leaves.
static int64_t own_bytes(const struct branch *branch, unsigned done)
{
    int64_t sum_bytes = 0;
    for (int b = 0; b < branch->buffer_count; b++) {
        const struct branch_buffer *buffer = &branch->buffers[b];
        bool is_made = buffer->producer >= 0 && done >> buffer->producer & 1;
        if (is_made && (buffer->stays || buffer->users & ~done)) sum_bytes += buffer->bytes;
    }
    return sum_bytes;
}

// Of what `block` reads from outside, the bytes no longer needed by it.
static int64_t freed_bytes(const struct branch *branch, unsigned block, unsigned done)
{
    int64_t sum_bytes = 0;
    for (int b = 0; b < branch->buffer_count; b++) {
        const struct branch_buffer *buffer = &branch->buffers[b];
        bool is_read = buffer->producer < 0 && !buffer->stays && buffer->users & block;
        if (is_read && !(buffer->users & block & ~done)) sum_bytes += buffer->bytes;
    }
    return sum_bytes;
}

static int64_t made_bytes(const struct branch *branch, int position)
{
    int64_t sum_bytes = 0;
    for (int b = 0; b < branch->buffer_count; b++) {
        if (branch->buffers[b].producer == position) sum_bytes += branch->buffers[b].bytes;
    }
    return sum_bytes;
}

// Least peaks on the way to each set: of own bytes, and of own bytes and what is still needed.
struct peaks {
    int64_t own_bytes, all_bytes;
    int last;  // operator that the second peak's order runs last
    bool is_reached;
};

static struct peaks *find_peaks(struct arena *scratch, const struct branch *branch, unsigned block)
{
    struct peaks *peaks = ARENA_NEW(scratch, struct peaks, 1u << branch->count);
    int64_t outside_bytes = freed_bytes(branch, block, block);
    peaks[0].is_reached = true;
    for (unsigned done = 0; done < block; done++) {
        if (!peaks[done].is_reached) continue;
        int64_t level_bytes = own_bytes(branch, done);
        int64_t needed_bytes = outside_bytes - freed_bytes(branch, block, done);
        for (int i = 0; i < branch->count; i++) {
            unsigned next = done | 1u << i;
            if (next == done || !(block >> i & 1) || branch->needs[i] & ~done) continue;
            int64_t step_bytes = level_bytes + made_bytes(branch, i);
            int64_t own = step_bytes > peaks[done].own_bytes ? step_bytes : peaks[done].own_bytes;
            int64_t all = step_bytes + needed_bytes;
            if (peaks[done].all_bytes > all) all = peaks[done].all_bytes;
            struct peaks *at = &peaks[next];
            if (!at->is_reached || own < at->own_bytes) at->own_bytes = own;
            if (!at->is_reached || all < at->all_bytes) at->all_bytes = all, at->last = i;
            at->is_reached = true;
        }
    }
    return peaks;
}

// The smallest set that leaves nothing alive; 0: none.
static unsigned find_block(struct arena *scratch, const struct branch *branch)
{
    assert(branch->count < 31 && "sets are bit masks of an unsigned");
    unsigned all = (1u << branch->count) - 1, best = 0;
    const struct peaks *peaks = find_peaks(scratch, branch, all);
    for (unsigned done = 1; done <= all; done++) {
        if (!peaks[done].is_reached || own_bytes(branch, done) > 0) continue;
        int size = __builtin_popcount(done);
        if (!best || size < __builtin_popcount(best)) best = done;
    }
    return best;
}

static bool follows(const struct memory_problem *problem, int operator, int before)
{
    for (int p = problem->first_predecessor[operator];
         p < problem->first_predecessor[operator + 1]; p++) {
        if (problem->predecessors[p] == before) return true;
    }
    return false;
}

// One operator starts the block, and the others wait for nothing outside that it has not awaited.
static bool can_run_at_once(const struct branch *branch, unsigned block)
{
    assert(block != 0);
    const struct memory_problem *problem = branch->problem;
    int start = __builtin_ctz(block);
    for (int i = start + 1; i < branch->count; i++) {
        if (!(block >> i & 1)) continue;
        if (!branch->needs[i]) return false;
        int op = branch->operators[i];
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int before = problem->predecessors[p];
            if (position_of(branch, before) >= 0) continue;
            if (!follows(problem, branch->operators[start], before)) return false;
        }
    }
    return true;
}

// What follows in the branch waits for all of the block. Operators that make nothing are as good as
// awaited: no order loses by running them as soon as they can.
static bool is_awaited(const struct branch *branch, unsigned block)
{
    unsigned awaited = 0, before[ORDER_BRANCH_MAX];
    for (int i = 0; i < branch->count; i++) {
        if (block >> i & 1 && made_bytes(branch, i) > 0) awaited |= 1u << i;
    }
    for (int i = 0; i < branch->count; i++) {
        before[i] = branch->needs[i];
        for (int k = 0; k < i; k++) {
            if (branch->needs[i] >> k & 1) before[i] |= before[k];
        }
        if (!(block >> i & 1) && (awaited & ~before[i])) return false;
    }
    return true;
}

int order_branch_block(struct arena *scratch, const struct memory_problem *problem,
                       const int *operators, int count, int *sequence)
{
    if (count > ORDER_BRANCH_MAX) return 0;
    assert(count > 0);
    struct arena_mark mark = arena_mark(scratch);
    struct branch branch = branch_make(scratch, problem, operators, count);
    unsigned block = find_block(scratch, &branch);
    int size = 0;
    if (block) {
        const struct peaks *peaks = find_peaks(scratch, &branch, block);
        bool is_proven = can_run_at_once(&branch, block) && is_awaited(&branch, block) &&
                         peaks[block].all_bytes <= peaks[block].own_bytes;
        for (unsigned done = 1; is_proven && done < block; done++) {
            if (!peaks[done].is_reached) continue;
            is_proven = own_bytes(&branch, done) >= freed_bytes(&branch, block, done);
        }
        if (is_proven) size = __builtin_popcount(block);
        for (unsigned done = block, i = (unsigned)size; is_proven && done; i--) {
            sequence[i - 1] = operators[peaks[done].last];
            done &= ~(1u << peaks[done].last);
        }
    }
    assert(size >= 0 && size <= count);
    arena_reset(scratch, mark);
    return size;
}
