#include "executor/rendezvous.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Launchers that meet, or find out why not. Guests are forked; what they say comes back in a pipe.

enum { TEXT_BYTES = 1024 };

static int free_port(void)
{
    struct err err = {0};
    int listener = socket_listen("127.0.0.1", 0, &err), port = socket_port(listener);
    assert_string_equal(err.text, "");
    close(listener);
    return port;
}

static struct rendezvous_request request_of(int port, int node, int node_count)
{
    return (struct rendezvous_request){.host = "127.0.0.1",
                                       .port = port,
                                       .node = node,
                                       .node_count = node_count,
                                       .rank_count = 7,
                                       .plan_key = 3,
                                       .options_key = 4,
                                       .timeout_s = 20};
}

struct guest {
    pid_t process;
    int answer;
};

// What comes of it: the error, or the table as text.
static void describe(const struct rendezvous *met, const struct err *err, char *text)
{
    int length = snprintf(text, TEXT_BYTES, "%s", err->text);
    for (int rank = 0; !err->kind && rank < met->rank_count; rank++) {
        const struct rendezvous_seat *seat = &met->table->seats[rank];
        length +=
            snprintf(text + length, (size_t)(TEXT_BYTES - length), "%d %s:%d %llx;", seat->node,
                     seat->address, seat->port, (unsigned long long)met->table->key);
    }
}

static struct guest guest_start(const struct rendezvous_request *request)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    struct guest guest = {.process = fork(), .answer = ends[0]};
    assert_true(guest.process >= 0);
    if (guest.process == 0) {
        struct err err = {0};
        struct rendezvous met;
        char text[TEXT_BYTES] = "";
        alarm(60);
        bool is_well = rendezvous_meet(request, &met, &err);
        describe(&met, &err, text);
        rendezvous_close(&met);
        _exit(write(ends[1], text, sizeof text) == sizeof text && is_well ? 0 : 1);
    }
    close(ends[1]);
    return guest;
}

static bool guest_end(struct guest *guest, char *text)
{
    int status = 0;
    text[0] = '\0';
    for (ssize_t length = 0, got; length < TEXT_BYTES; length += got) {
        got = read(guest->answer, text + length, (size_t)(TEXT_BYTES - length));
        if (got <= 0) break;
    }
    close(guest->answer);
    waitpid(guest->process, &status, 0);
    return status == 0;
}

static void all_nodes_get_one_table(void **state)
{
    (void)state;
    struct rendezvous met;
    struct err err = {0};
    int port = free_port();
    char expected[TEXT_BYTES], found[TEXT_BYTES];
    struct guest guests[2];
    for (int node = 1; node < 3; node++) {
        struct rendezvous_request request = request_of(port, node, 3);
        guests[node - 1] = guest_start(&request);
    }
    struct rendezvous_request request = request_of(port, 0, 3);
    bool is_well = rendezvous_meet(&request, &met, &err);
    assert_string_equal(err.text, "");
    assert_true(is_well);
    describe(&met, &err, expected);
    for (int i = 0; i < 2; i++) {
        assert_true(guest_end(&guests[i], found));
        assert_string_equal(found, expected);
    }
    // Of seven ranks two, two and three, each at a port of its own.
    static const int NODES[] = {0, 0, 1, 1, 2, 2, 2};
    for (int rank = 0; rank < 7; rank++) {
        assert_int_equal(met.table->seats[rank].node, NODES[rank]);
        for (int other = 0; other < rank; other++)
            assert_int_not_equal(met.table->seats[rank].port, met.table->seats[other].port);
    }
    rendezvous_close(&met);
}

static void ranks_are_divided_as_evenly_as_can_be(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= 9; nodes++) {
        for (int ranks = nodes; ranks < 40; ranks++) {
            assert_int_equal(rendezvous_first_rank(ranks, nodes, 0), 0);
            assert_int_equal(rendezvous_first_rank(ranks, nodes, nodes), ranks);
            for (int node = 0; node < nodes; node++) {
                int own = rendezvous_first_rank(ranks, nodes, node + 1) -
                          rendezvous_first_rank(ranks, nodes, node);
                assert_in_range(own, ranks / nodes, (ranks + nodes - 1) / nodes);
            }
        }
    }
}

static void check_alone(const struct rendezvous_request *request, const char *line)
{
    struct rendezvous met;
    struct err err = {0};
    assert_false(rendezvous_meet(request, &met, &err));
    rendezvous_close(&met);
    assert_string_equal(err.text, line);
    assert_int_equal(err.kind, ERR_SYSTEM);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    int port = free_port();
    char line[160];
    struct rendezvous_request request = request_of(port, 0, 2);
    request.timeout_s = 0.2;
    snprintf(line, sizeof line, "node 1 did not come to 127.0.0.1:%d within 0 s", port);
    check_alone(&request, line);
    request.node = 1;
    snprintf(line, sizeof line, "nobody answers at 127.0.0.1:%d: Connection refused", port);
    check_alone(&request, line);
    struct err err = {0};
    int taken = socket_listen("127.0.0.1", 0, &err);
    request.node = 0;
    request.port = socket_port(taken);
    snprintf(line, sizeof line, "cannot listen at 127.0.0.1:%d: Address already in use",
             request.port);
    check_alone(&request, line);
    close(taken);
}

// One that comes with something else; it and node 0 are told the same.
static void check_refused(struct rendezvous_request odd, const char *line)
{
    char text[TEXT_BYTES];
    struct rendezvous met;
    struct err err = {0};
    odd.port = free_port();
    struct rendezvous_request host = request_of(odd.port, 0, 3);
    struct guest guest = guest_start(&odd);
    assert_false(rendezvous_meet(&host, &met, &err));
    rendezvous_close(&met);
    if (!strstr(err.text, line)) fail_msg("'%s', wanted '%s'", err.text, line);
    assert_false(guest_end(&guest, text));
    assert_string_equal(text, err.text);
}

static void nodes_with_something_else_are_named(void **state)
{
    (void)state;
    char name[64] = "", line[160];
    gethostname(name, sizeof name - 1);
    struct rendezvous_request odd = request_of(0, 2, 3);
    odd.plan_key = 9;
    snprintf(line, sizeof line, "node 2 (%s) has another plan than node 0", name);
    check_refused(odd, line);
    odd = request_of(0, 2, 3);
    odd.options_key = 9;
    check_refused(odd, "was started with other options than node 0");
    odd = request_of(0, 2, 4);
    check_refused(odd, "was started with --node-count 4, node 0 with 3");
}

static void a_node_that_is_there_twice_is_named(void **state)
{
    (void)state;
    struct rendezvous_request odd = request_of(0, 1, 3);
    char text[TEXT_BYTES];
    struct rendezvous met;
    struct err err = {0};
    odd.port = free_port();
    struct rendezvous_request host = request_of(odd.port, 0, 3);
    struct guest guests[2] = {guest_start(&odd), guest_start(&odd)};
    assert_false(rendezvous_meet(&host, &met, &err));
    rendezvous_close(&met);
    assert_non_null(strstr(err.text, "--node-rank 1 is there twice: "));
    for (int i = 0; i < 2; i++) {
        assert_false(guest_end(&guests[i], text));
        assert_string_equal(text, err.text);
    }
}

// Connects until somebody listens and says these bytes; in a process of its own, which then waits.
static struct guest say(int port, const void *bytes, size_t count)
{
    struct guest guest = {.answer = -1};
    fflush(NULL);
    guest.process = fork();
    if (guest.process > 0) return guest;
    struct err err = {0};
    alarm(60);
    int link = socket_connect("127.0.0.1", port, socket_now_s() + 20, &err);
    if (link < 0) _exit(1);
    bool is_well = socket_write(link, bytes, count, socket_now_s() + 5, "host", &err);
    // Until the other end has closed.
    char byte;
    while (socket_read(link, &byte, 1, socket_now_s() + 20, "host", &err)) {
    }
    _exit(is_well ? 0 : 1);
}

static void another_version_is_told_apart(void **state)
{
    (void)state;
    struct frame frame = {0x6d657368, RENDEZVOUS_VERSION + 1, FRAME_HELLO, 0};
    struct rendezvous_request host = request_of(free_port(), 0, 2);
    struct rendezvous met;
    struct err err = {0};
    char line[160];
    struct guest guest = say(host.port, &frame, sizeof frame);
    assert_false(rendezvous_meet(&host, &met, &err));
    rendezvous_close(&met);
    snprintf(line, sizeof line,
             "a node (127.0.0.1) speaks version %d of the rendezvous, this program version %d",
             RENDEZVOUS_VERSION + 1, RENDEZVOUS_VERSION);
    assert_string_equal(err.text, line);
    waitpid(guest.process, NULL, 0);
}

static void strangers_are_sent_away(void **state)
{
    (void)state;
    static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    struct rendezvous met;
    struct err err = {0};
    char text[TEXT_BYTES];
    struct rendezvous_request host = request_of(free_port(), 0, 2), late = host;
    struct guest stranger = say(host.port, REQUEST, sizeof REQUEST);
    late.node = 1;
    struct guest guest = guest_start(&late);
    bool is_well = rendezvous_meet(&host, &met, &err);
    assert_string_equal(err.text, "");
    assert_true(is_well);
    assert_true(guest_end(&guest, text));
    rendezvous_close(&met);
    waitpid(stranger.process, NULL, 0);
}

static void check_split(const char *text, const char *host, int port)
{
    char found[32] = "";
    int found_port = 0;
    struct err err = {0};
    bool is_well = socket_split(text, found, sizeof found, &found_port, &err);
    assert_int_equal(is_well, host != NULL);
    if (!host) assert_int_equal(err.kind, ERR_USAGE);
    if (host) assert_string_equal(found, host);
    if (host) assert_int_equal(found_port, port);
}

static void addresses_are_a_host_and_a_port(void **state)
{
    (void)state;
    check_split("node0:29500", "node0", 29500);
    check_split("10.0.0.1:1", "10.0.0.1", 1);
    check_split("[fe80::1]:65535", "fe80::1", 65535);
    static const char *const WRONG[] = {
        "",         "node0",
        ":29500",   "node0:",
        "node0:0",  "node0:65536",
        "node0:x",  "fe80::1:29500",
        "node0:-1", "a-name-that-is-longer-than-the-room-there-is:1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        check_split(WRONG[i], NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_get_one_table),
        cmocka_unit_test(ranks_are_divided_as_evenly_as_can_be),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(nodes_with_something_else_are_named),
        cmocka_unit_test(a_node_that_is_there_twice_is_named),
        cmocka_unit_test(another_version_is_told_apart),
        cmocka_unit_test(strangers_are_sent_away),
        cmocka_unit_test(addresses_are_a_host_and_a_port),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
