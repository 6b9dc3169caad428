#include "executor/communicators/host.h"

#include "tests/support/test.h"

// What ranks of one host exchange of a device whose memory the host does not see goes through a
// staging area: what leaves in front, what comes behind it from the next multiple of 64 on.

struct copied {
    enum stream stream;
    enum copy_kind kind;
    int64_t bytes;
};
static struct copied copies[8];
static int copy_count, settled_count, reserved_count, released_count;
static int64_t reserved_bytes;
static const char *fails_at_copy, *fails_at_room;

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    if (fails_at_copy) return fails_at_copy;
    copies[copy_count++] = (struct copied){stream, kind, bytes};
    memcpy(to, from, (size_t)bytes);
    return NULL;
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device;
    assert_int_equal(stream, STREAM_DP);
    settled_count++;
    return NULL;
}

static const char *allocate_host(struct device *device, int64_t bytes, void **memory)
{
    (void)device;
    if (fails_at_room) return fails_at_room;
    reserved_count++;
    reserved_bytes = bytes;
    *memory = calloc(1, (size_t)bytes);
    return NULL;
}

static void release_host(struct device *device, void *memory)
{
    (void)device;
    released_count++;
    free(memory);
}

static void forget(void)
{
    copy_count = settled_count = reserved_count = released_count = 0;
    fails_at_copy = fails_at_room = NULL;
}

static void what_leaves_and_comes_lies_apart(void **state)
{
    const struct backend backend = {.copy = copy, .synchronize = synchronize};
    struct communicator communicator = {.backend = &backend};
    char from[128], to[64] = {0};
    (void)state;
    forget();
    for (int i = 0; i < 128; i++)
        from[i] = (char)(3 * i);
    struct host_view view = {
        .device_from = from, .device_to = to, .from_bytes = 65, .to_bytes = 30};
    assert_null(host_view_open(&communicator, STREAM_DP, &view));
    assert_int_equal(communicator.staging_bytes, 128 + 30);
    assert_ptr_equal(view.from, communicator.staging);
    assert_int_equal((char *)view.to - (const char *)view.from, 128);
    assert_memory_equal(view.from, from, 65);
    assert_true(copy_count == 1 && settled_count == 1 && copies[0].stream == STREAM_DP);
    assert_true(copies[0].kind == COPY_TO_HOST && copies[0].bytes == 65);
    memset(view.to, 7, 30);
    assert_null(host_view_close(&communicator, STREAM_DP, &view));
    assert_true(copies[1].kind == COPY_FROM_HOST && copies[1].bytes == 30 && settled_count == 2);
    assert_true(to[0] == 7 && to[29] == 7 && to[30] == 0);
    // What is as large finds the same room; exactly 64 bytes have none behind them to fill.
    void *staging = communicator.staging;
    view =
        (struct host_view){.device_from = from, .device_to = to, .from_bytes = 64, .to_bytes = 94};
    assert_null(host_view_open(&communicator, STREAM_DP, &view));
    assert_ptr_equal(view.from, staging);
    assert_int_equal((char *)view.to - (const char *)view.from, 64);
    assert_int_equal(communicator.staging_bytes, 158);
    host_view_free(&communicator);
    assert_null(communicator.staging);
    assert_int_equal(communicator.staging_bytes, 0);
}

static void what_stays_in_place_has_one_room(void **state)
{
    const struct backend backend = {.copy = copy,
                                    .synchronize = synchronize,
                                    .allocate_host = allocate_host,
                                    .release_host = release_host};
    struct communicator communicator = {.backend = &backend};
    char data[128] = {5};
    (void)state;
    forget();
    struct host_view view = {
        .device_from = data, .device_to = data, .from_bytes = 100, .to_bytes = 40};
    assert_null(host_view_open(&communicator, STREAM_DP, &view));
    assert_ptr_equal(view.from, view.to);
    assert_true(reserved_count == 1 && reserved_bytes == 100);
    // More comes than leaves: the old room goes first.
    view.from_bytes = 0;
    view.to_bytes = 101;
    assert_null(host_view_open(&communicator, STREAM_DP, &view));
    assert_true(reserved_count == 2 && released_count == 1 && reserved_bytes == 101);
    assert_int_equal(copy_count, 1);  // nothing leaves
    view.to_bytes = 0;
    assert_null(host_view_close(&communicator, STREAM_DP, &view));
    assert_int_equal(copy_count, 1);
    fails_at_room = "no room";
    view.to_bytes = 102;
    assert_string_equal(host_view_open(&communicator, STREAM_DP, &view), "no room");
    assert_null(communicator.staging);
    fails_at_room = NULL;
    fails_at_copy = "no copy";
    view.from_bytes = 1;
    assert_string_equal(host_view_open(&communicator, STREAM_DP, &view), "no copy");
    assert_string_equal(host_view_close(&communicator, STREAM_DP, &view), "no copy");
    host_view_free(&communicator);
    assert_int_equal(released_count, 3);
}

static void memory_of_the_host_is_seen_as_it_is(void **state)
{
    const struct backend backend = {.is_host = true};
    struct communicator communicator = {.backend = &backend};
    char from[8], to[8];
    struct host_view view = {.device_from = from, .device_to = to, .from_bytes = 8, .to_bytes = 8};
    (void)state;
    assert_null(host_view_open(&communicator, STREAM_DP, &view));
    assert_true(view.from == from && view.to == to && !communicator.staging);
    assert_null(host_view_close(&communicator, STREAM_DP, &view));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leaves_and_comes_lies_apart),
        cmocka_unit_test(what_stays_in_place_has_one_room),
        cmocka_unit_test(memory_of_the_host_is_seen_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
