#include "tests/support/draw.h"
#include "tests/support/test.h"

#include "memory/pack/allocator.h"

static const int64_t KIB = 1 << 10, MIB = 1 << 20;

// A positive number allocates the next buffer, -1 - b frees buffer b.
static struct allocator_result run(struct arena *arena, const int64_t *steps, int count,
                                   int64_t device_bytes)
{
    struct allocator_event *events = ARENA_NEW(arena, struct allocator_event, count);
    int buffer_count = 0;
    for (int i = 0; i < count; i++) {
        bool is_free = steps[i] < 0;
        events[i] = (struct allocator_event){
            .buffer = is_free ? (int)(-1 - steps[i]) : buffer_count++,
            .is_free = is_free,
            .bytes = is_free ? 0 : steps[i],
        };
    }
    return allocator_run(arena, events, count, buffer_count, device_bytes, NULL);
}

#define RUN(arena, device_bytes, ...)            \
    run((arena), (const int64_t[]){__VA_ARGS__}, \
        (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (device_bytes))

static void sizes_round_up_to_512_bytes(void **state)
{
    struct allocator_result result = RUN(*state, 0, 1, 513, 512);
    assert_int_equal(result.allocated_bytes, 512 + 1024 + 512);
    assert_int_equal(result.addresses_high, 2048);
    assert_int_equal(result.reserved_bytes, 2 * MIB);
    result = RUN(*state, 0, 0);
    assert_int_equal(result.reserved_bytes, 0);
    assert_int_equal(RUN(*state, 0, 0, -1, 5).allocated_bytes, 512);
}

static void a_segment_is_of_2_or_20_mib_or_rounds_up_to_2_mib(void **state)
{
    assert_int_equal(RUN(*state, 0, MIB).reserved_bytes, 2 * MIB);
    assert_int_equal(RUN(*state, 0, MIB + 1).reserved_bytes, 20 * MIB);
    assert_int_equal(RUN(*state, 0, 10 * MIB - 512).reserved_bytes, 20 * MIB);
    assert_int_equal(RUN(*state, 0, 10 * MIB).reserved_bytes, 10 * MIB);
    assert_int_equal(RUN(*state, 0, 10 * MIB + 1).reserved_bytes, 12 * MIB);
    assert_int_equal(RUN(*state, 0, 30 * MIB + 513).reserved_bytes, 32 * MIB);
}

static void the_pools_are_apart(void **state)
{
    // 18 MiB are free in the large pool, but a small request opens a segment of its own.
    assert_int_equal(RUN(*state, 0, 2 * MIB, 4 * KIB).reserved_bytes, 22 * MIB);
    // What a request rounds up to decides: 1 MiB exactly is small.
    assert_int_equal(RUN(*state, 0, MIB, MIB).reserved_bytes, 2 * MIB);
    assert_int_equal(RUN(*state, 0, MIB, MIB, MIB).reserved_bytes, 4 * MIB);
}

static void a_small_block_is_split_down_to_512_bytes(void **state)
{
    // 1 MiB - 512 and 1 MiB leave exactly 512 bytes, which are split off and serve the third.
    struct allocator_result result = RUN(*state, 0, MIB - 512, MIB, 1);
    assert_int_equal(result.reserved_bytes, 2 * MIB);
    assert_int_equal(result.allocated_bytes, 2 * MIB);
}

static void a_large_block_is_split_when_more_than_1_mib_is_left(void **state)
{
    // 12 MiB of which 11 are asked: 1 MiB is left and stays with the block, as the sum with two
    // blocks of 2 MiB shows.
    struct allocator_result result = RUN(*state, 0, 12 * MIB, 2 * MIB, -1, 11 * MIB, 2 * MIB);
    assert_int_equal(result.reserved_bytes, 32 * MIB);
    assert_int_equal(result.allocated_bytes, 16 * MIB);
    // 512 bytes less: the rest of 1 MiB + 512 bytes is split off, and serves a request.
    result = RUN(*state, 0, 12 * MIB, -1, 11 * MIB - 512, MIB + 512);
    assert_int_equal(result.reserved_bytes, 12 * MIB);
    result = RUN(*state, 0, 12 * MIB, -1, 11 * MIB, MIB + 512);
    assert_int_equal(result.reserved_bytes, 32 * MIB);
}

static void the_best_fit_is_taken_and_the_lowest_of_equals(void **state)
{
    // Three segments of 16, 12 and 12 MiB, all free: 12 MiB go to one of 12, so that 16 find room.
    struct allocator_result result =
        RUN(*state, 0, 16 * MIB, 12 * MIB, 12 * MIB, -1, -2, -3, 12 * MIB, 16 * MIB, 12 * MIB);
    assert_int_equal(result.reserved_bytes, 40 * MIB);
    // Of two free blocks of 2 MiB in one segment the lower is taken: what follows it is then in
    // use, so the upper one merges with the free end of the segment (16 MiB in one piece).
    result = RUN(*state, 0, 2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB, -1, -3, 2 * MIB, -4, 16 * MIB);
    assert_int_equal(result.reserved_bytes, 20 * MIB);
}

static void free_neighbours_merge_within_their_segment(void **state)
{
    // 8 + 8 + 4 fill a segment; the first two freed in either order serve 16.
    assert_int_equal(RUN(*state, 0, 8 * MIB, 8 * MIB, 4 * MIB, -1, -2, 16 * MIB).reserved_bytes,
                     20 * MIB);
    assert_int_equal(RUN(*state, 0, 8 * MIB, 8 * MIB, 4 * MIB, -2, -1, 16 * MIB).reserved_bytes,
                     20 * MIB);
    // The first and the third do not touch.
    assert_int_equal(RUN(*state, 0, 8 * MIB, 4 * MIB, 8 * MIB, -1, -3, 16 * MIB).reserved_bytes,
                     36 * MIB);
    // Two segments never merge, however they lie: 12 + 12 do not serve 24.
    assert_int_equal(RUN(*state, 0, 12 * MIB, 12 * MIB, -1, -2, 24 * MIB).reserved_bytes, 48 * MIB);
}

static void cached_segments_go_back_when_the_device_is_full(void **state)
{
    // 24 do not fit beside two free segments of 12 in a device of 40: both go back, not one.
    struct allocator_result result =
        RUN(*state, 40 * MIB, 12 * MIB, 12 * MIB, -1, -2, 24 * MIB, 12 * MIB);
    assert_false(result.failed);
    assert_int_equal(result.reserved_bytes, 36 * MIB);
    assert_int_equal(result.allocated_bytes, 36 * MIB);
    // A segment that is in use in part (2 of 20; the 12 lay in it) stays, and then it is too much.
    result = RUN(*state, 40 * MIB, 2 * MIB, 12 * MIB, -2, 24 * MIB);
    assert_true(result.failed);
    assert_int_equal(result.reserved_bytes, 20 * MIB);
    assert_true(RUN(*state, MIB, 1).failed);
    assert_false(RUN(*state, 2 * MIB, 1).failed);
}

static void assert_apart(const struct allocator_event *events, int event_count,
                         const int64_t *bytes_of, const int64_t *addresses)
{
    int live[512], live_count = 0;
    for (int i = 0; i < event_count; i++) {
        int b = events[i].buffer, place = 0;
        while (place < live_count && live[place] != b)
            place++;
        if (events[i].is_free) {
            live[place] = live[--live_count];
            continue;
        }
        assert_int_equal(addresses[b] % 512, 0);
        for (int k = 0; k < live_count; k++) {
            int other = live[k];
            assert_true(addresses[b] + bytes_of[b] <= addresses[other] ||
                        addresses[other] + bytes_of[other] <= addresses[b]);
        }
        live[live_count++] = b;
    }
}

// Of random traces: no two live buffers overlap, live blocks never pass what is reserved, nothing
// is below the sum of the live requests, and a device of exactly the peak suffices.
static void random_traces_keep_their_sums(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("allocator", 23);
    for (int round = 0; round < 200; round++) {
        struct arena_mark mark = arena_mark(arena);
        enum { BUFFERS = 300 };
        struct allocator_event events[2 * BUFFERS];
        int64_t addresses[BUFFERS];
        int live[BUFFERS], live_count = 0, event_count = 0, made = 0;
        int64_t live_bytes = 0, peak_bytes = 0, bytes_of[BUFFERS];
        while (made < BUFFERS) {
            if (live_count && draw_int(&draw, 0, 9) < 5) {
                int which = draw_int(&draw, 0, live_count - 1), b = live[which];
                live[which] = live[--live_count];
                live_bytes -= bytes_of[b];
                events[event_count++] = (struct allocator_event){.buffer = b, .is_free = true};
                continue;
            }
            int64_t bytes = (int64_t)1 << draw_int(&draw, 0, 25);
            bytes += draw_int(&draw, 0, (int)bytes);
            events[event_count++] = (struct allocator_event){.buffer = made, .bytes = bytes};
            bytes_of[made] = bytes;
            live[live_count++] = made++;
            live_bytes += bytes;
            if (peak_bytes < live_bytes) peak_bytes = live_bytes;
        }
        struct allocator_result result =
            allocator_run(arena, events, event_count, BUFFERS, 0, addresses);
        assert_true(peak_bytes <= result.allocated_bytes);
        assert_true(result.allocated_bytes <= result.reserved_bytes);
        assert_true(result.addresses_high <= result.reserved_bytes);
        assert_apart(events, event_count, bytes_of, addresses);
        struct allocator_result same =
            allocator_run(arena, events, event_count, BUFFERS, result.reserved_bytes, NULL);
        assert_false(same.failed);
        assert_int_equal(same.reserved_bytes, result.reserved_bytes);
        assert_true(
            allocator_run(arena, events, event_count, BUFFERS, peak_bytes - 1, NULL).failed);
        arena_reset(arena, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_round_up_to_512_bytes),
        cmocka_unit_test(a_segment_is_of_2_or_20_mib_or_rounds_up_to_2_mib),
        cmocka_unit_test(the_pools_are_apart),
        cmocka_unit_test(a_small_block_is_split_down_to_512_bytes),
        cmocka_unit_test(a_large_block_is_split_when_more_than_1_mib_is_left),
        cmocka_unit_test(the_best_fit_is_taken_and_the_lowest_of_equals),
        cmocka_unit_test(free_neighbours_merge_within_their_segment),
        cmocka_unit_test(cached_segments_go_back_when_the_device_is_full),
        cmocka_unit_test(random_traces_keep_their_sums),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
