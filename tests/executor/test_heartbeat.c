#include "executor/launcher/launch.h"
#include "executor/launcher/shared_memory.h"

#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// What ranks and their launcher tell each other through one page: the first reason stays, events
// are numbered over all ranks, and what another process opens by its name is the same page.

static struct heartbeat_page *open_page(int rank_count)
{
    struct err err = {0};
    struct heartbeat_page *page = heartbeat_page_create(rank_count, &err);
    assert_string_equal(err.text, "");
    return page;
}

static void a_page_is_one_for_all_who_know_its_name(void **state)
{
    struct err err = {0};
    char name[64];
    (void)state;
    struct heartbeat_page *mine = open_page(3);
    snprintf(name, sizeof name, "%s", heartbeat_page_name(mine));
    struct heartbeat_page *theirs = heartbeat_page_open(name, 3, &err);
    assert_non_null(theirs);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(heartbeat_of(mine, rank)->beat, 0);
        atomic_store(&heartbeat_of(mine, rank)->step, 10 + rank);
    }
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(heartbeat_of(theirs, rank)->step, 10 + rank);
    heartbeat_page_close(theirs);
    assert_int_equal(heartbeat_of(mine, 2)->step, 12);
    // Its memory goes with the one that made it.
    assert_int_equal(access(name, F_OK), 0);
    heartbeat_page_close(mine);
    assert_int_equal(access(name, F_OK), -1);
    heartbeat_page_close(NULL);
    assert_null(heartbeat_page_open(name, 3, &err));
    assert_int_equal(err.kind, ERR_SYSTEM);
    assert_non_null(strstr(err.text, "shared memory of the ranks ("));
    assert_non_null(strstr(err.text, strerror(ENOENT)));
}

static void the_first_reason_stays_and_events_are_in_order(void **state)
{
    struct heartbeat_page *page = open_page(4);
    (void)state;
    heartbeat_fail(page, 2, "it burns");
    heartbeat_fail(page, 2, "it is cold");
    heartbeat_fail(page, 1, "no water");
    const struct heartbeat *first = heartbeat_of(page, 2), *second = heartbeat_of(page, 1);
    assert_string_equal(first->reason, "it burns");
    assert_int_equal(first->state, HEARTBEAT_FAILED);
    assert_int_equal(first->fail_event, 1);
    assert_string_equal(second->reason, "no water");
    assert_int_equal(second->fail_event, 2);
    // Who has ended well, or because it was told to, is no event; who has not is one.
    atomic_store(&heartbeat_of(page, 0)->state, HEARTBEAT_DONE);
    heartbeat_end(page, 0, 3 << 8, false);
    heartbeat_end(page, 1, 9, true);
    heartbeat_end(page, 3, 0, false);
    heartbeat_end(page, 2, 11, false);
    static const int STATUS[] = {3 << 8, 9, 11, 0}, EVENT[] = {0, 0, 4, 3};
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(heartbeat_of(page, rank)->has_ended, 1);
        assert_int_equal(heartbeat_of(page, rank)->end_status, STATUS[rank]);
        assert_int_equal(heartbeat_of(page, rank)->end_event, EVENT[rank]);
    }
    heartbeat_page_close(page);
    // Done, but ended by a signal all the same.
    page = open_page(1);
    atomic_store(&heartbeat_of(page, 0)->state, HEARTBEAT_DONE);
    heartbeat_end(page, 0, 9, false);
    assert_int_equal(heartbeat_of(page, 0)->end_event, 1);
    heartbeat_page_close(page);
}

static void the_last_of_a_slow_rank_is_read_once(void **state)
{
    struct heartbeat_page *page = open_page(1);
    struct launch_slow slow = {.rank = 9};
    int known = 0;
    (void)state;
    assert_false(heartbeat_slow(page, &known, &slow));
    assert_int_equal(slow.rank, 9);
    heartbeat_tell_slow(page, &(struct launch_slow){.rank = 4, .ratio = 1.5, .step = 31});
    heartbeat_tell_slow(page, &(struct launch_slow){.rank = 5, .ratio = 2.5, .step = 37});
    assert_true(heartbeat_slow(page, &known, &slow));
    assert_true(slow.rank == 5 && slow.ratio == 2.5 && slow.step == 37);
    assert_false(heartbeat_slow(page, &known, &slow));
    heartbeat_tell_slow(page, &slow);
    assert_true(heartbeat_slow(page, &known, &slow));
    heartbeat_page_close(page);
}

static void a_job_ends_or_moves(void **state)
{
    struct heartbeat_page *page = open_page(1);
    (void)state;
    assert_false(heartbeat_page_is_ending(page) || heartbeat_page_is_moving(page));
    heartbeat_page_move(page, true);
    assert_true(heartbeat_page_is_moving(page) && !heartbeat_page_is_ending(page));
    heartbeat_page_move(page, false);
    assert_false(heartbeat_page_is_moving(page));
    heartbeat_page_end_job(page);
    assert_true(heartbeat_page_is_ending(page) && !heartbeat_page_is_moving(page));
    heartbeat_page_close(page);
}

// Regions that several map lie where they say; a file grows to the end of the last and never back.
static void regions_of_shared_memory_lie_apart(void **state)
{
    struct err err = {0};
    struct shared_memory memory;
    int64_t page = sysconf(_SC_PAGESIZE);
    (void)state;
    assert_true(shared_memory_create(&memory, &err));
    char *behind = shared_memory_map(memory.name, 2 * page, 100, &err);
    char *front = shared_memory_map(memory.name, 0, page, &err);
    char *all = shared_memory_map(memory.name, 0, 2 * page + 100, &err);
    assert_true(behind && front && all);
    assert_int_equal(lseek(memory.file, 0, SEEK_END), 2 * page + 100);
    front[page - 1] = 3;
    behind[99] = 5;
    assert_true(all[page - 1] == 3 && all[2 * page + 99] == 5 && all[page] == 0);
    shared_memory_unmap(front, page);
    shared_memory_unmap(behind, 100);
    assert_int_equal(all[2 * page + 99], 5);
    shared_memory_unmap(all, 2 * page + 100);
    shared_memory_unmap(NULL, 1);
    int file = memory.file;
    shared_memory_close(&memory);
    assert_int_equal(memory.file, -1);
    assert_int_equal(fcntl(file, F_GETFD), -1);
    shared_memory_close(&memory);
}

static void ranks_work_where_places_are_left(void **state)
{
    static const int LEFT_OUT[] = {0, 2, 3};
    static const int HOMES[] = {1, 4, 5, 6};
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        assert_int_equal(launch_home(LEFT_OUT, 3, rank), HOMES[rank]);
        assert_int_equal(launch_home(LEFT_OUT, 0, rank), rank);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_one_for_all_who_know_its_name),
        cmocka_unit_test(the_first_reason_stays_and_events_are_in_order),
        cmocka_unit_test(the_last_of_a_slow_rank_is_read_once),
        cmocka_unit_test(a_job_ends_or_moves),
        cmocka_unit_test(regions_of_shared_memory_lie_apart),
        cmocka_unit_test(ranks_work_where_places_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
