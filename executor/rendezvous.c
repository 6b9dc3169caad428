#include "executor/rendezvous.h"
#include "core/progress.h"
#include "core/version.h"
#include "executor/rendezvous_folder.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NONCE_BYTES = 16, REFUSAL_BYTES = 512, FILE_NAME_BYTES = JOB_NAME_MAX + 64 };
static const double LOOK_EVERY_S = 0.05, LEAVE_S = 5;
static const char MAGIC[8] = "meshwri";

struct nonce {
    unsigned char bytes[NONCE_BYTES];
};

// "JOB.K": what node K says. Up to `echo` alike in all versions.
struct hello {
    char magic[8];
    int32_t version, node;
    struct nonce own, echo;  // drawn; of node 0, as it was read
    int32_t node_count, rank_count;
    uint64_t plan_key, options_key;
    char name[NODE_NAME_BYTES], program[32];
};

// "JOB.go": what node 0 says when all have come, or why not. Up to `offender` alike in all
// versions.
struct verdict {
    char magic[8];
    int32_t version, node_count;
    struct nonce host, offender;  // of node 0; of who is refused, or zeros
    char refusal[REFUSAL_BYTES];  // "": all have come
    struct nonce guests[];        // [node], zeros of who has not come
};

struct meeting {
    const struct rendezvous_request *request;
    struct rendezvous *met;
    struct hello mine;
    struct verdict *verdict;
    size_t verdict_bytes;
    double until_s;
};

bool rendezvous_job_is_valid(const char *job)
{
    size_t length = strlen(job);
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)job[i]) && !strchr("._-", job[i])) return false;
    }
    return length > 0 && length <= JOB_NAME_MAX && job[0] != '.';
}

int rendezvous_first_rank(int rank_count, int node_count, int node)
{
    return (int)((int64_t)rank_count * node / node_count);
}

static bool is_same(const struct nonce *a, const struct nonce *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_none(const struct nonce *nonce)
{
    static const struct nonce NONE = {{0}};
    return is_same(nonce, &NONE);
}

static const char *file_name(char name[FILE_NAME_BYTES], const struct meeting *meeting, int node)
{
    const char *job = meeting->request->job;
    if (node < 0)
        snprintf(name, FILE_NAME_BYTES, "%.*s.go", JOB_NAME_MAX, job);
    else
        snprintf(name, FILE_NAME_BYTES, "%.*s.%d", JOB_NAME_MAX, job, node);
    return name;
}

static bool put_hello(const struct meeting *meeting, struct err *err)
{
    char name[FILE_NAME_BYTES];
    return folder_put(meeting->request->folder, file_name(name, meeting, meeting->mine.node),
                      &meeting->mine, sizeof meeting->mine, err);
}

// What the node says now, as far as it is of a version that can be read.
static bool get_hello(const struct meeting *meeting, int node, struct hello *hello)
{
    char name[FILE_NAME_BYTES];
    size_t bytes = 0;
    memset(hello, 0, sizeof *hello);
    bool is_there = folder_get(meeting->request->folder, file_name(name, meeting, node), hello,
                               sizeof *hello, &bytes);
    hello->name[NODE_NAME_BYTES - 1] = hello->program[sizeof hello->program - 1] = '\0';
    return is_there && bytes >= offsetof(struct hello, node_count) &&
           memcmp(hello->magic, MAGIC, sizeof MAGIC) == 0 && hello->node == node;
}

// Two that are given one place overwrite each other.
static bool check_place(const struct meeting *meeting, struct err *err)
{
    struct hello found;
    int node = meeting->mine.node;
    if (!get_hello(meeting, node, &found) || is_same(&found.own, &meeting->mine.own)) return true;
    return err_set(err, ERR_SYSTEM,
                   "node %d is there twice in %.300s: on %s and %s; --job keeps jobs apart that "
                   "meet in one folder",
                   node, meeting->request->folder, meeting->mine.name, found.name);
}

static bool check_time(const struct meeting *meeting, int missing, struct err *err)
{
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
        sigismember(&pending, SIGHUP))
        return err_set(err, ERR_SYSTEM, "ended by a signal before all nodes had come");
    if (clock_s() < meeting->until_s) return true;
    return err_set(err, ERR_SYSTEM, "node %d did not come to %.300s within %.0f s (job %s)",
                   missing, meeting->request->folder, meeting->request->timeout_s,
                   meeting->request->job);
}

static void pause_look(void)
{
    const struct timespec pause = {0, (long)(LOOK_EVERY_S * 1e9)};
    nanosleep(&pause, NULL);
}

// What a node that has come was given, against what node 0 was.
static bool check_hello(const struct hello *mine, const struct hello *other, struct err *err)
{
    int node = other->node;
    if (other->version != mine->version)
        return err_set(err, ERR_SYSTEM, "node %d is of another version of this program than node 0",
                       node);
    if (strcmp(other->program, mine->program) != 0)
        return err_set(err, ERR_SYSTEM, "node %d (%s) runs version %s, node 0 version %s", node,
                       other->name, other->program, mine->program);
    if (other->node_count != mine->node_count)
        return err_set(err, ERR_SYSTEM,
                       "node %d (%s) was started with --node-count %d, node 0 with %d", node,
                       other->name, other->node_count, mine->node_count);
    if (other->plan_key != mine->plan_key || other->rank_count != mine->rank_count)
        return err_set(err, ERR_SYSTEM, "node %d (%s) has another plan than node 0", node,
                       other->name);
    if (other->options_key != mine->options_key)
        return err_set(err, ERR_SYSTEM, "node %d (%s) was started with other options than node 0",
                       node, other->name);
    return true;
}

// Takes in who has answered to this node 0 since the last look.
static int look_for_guests(struct meeting *meeting, struct err *err)
{
    int missing = 0;
    for (int node = meeting->request->node_count - 1; node > 0 && !err->kind; node--) {
        struct hello hello;
        struct nonce *guest = &meeting->verdict->guests[node];
        bool has_come =
            get_hello(meeting, node, &hello) && is_same(&hello.echo, &meeting->mine.own);
        if (!has_come && is_none(guest)) missing = node;
        if (!has_come || is_same(guest, &hello.own)) continue;
        *guest = hello.own;
        if (!check_hello(&meeting->mine, &hello, err)) meeting->verdict->offender = hello.own;
        memcpy(meeting->met->names[node], hello.name, NODE_NAME_BYTES);
    }
    return missing;
}

static bool make_folder(const struct meeting *meeting, struct err *err)
{
    if (mkdir(meeting->met->folder, 0700) == 0) return true;
    return err_set(err, ERR_SYSTEM, "cannot make %.300s: %s", meeting->met->folder,
                   strerror(errno));
}

// The number of node 0 is in its name, so that no two are alike.
static void name_folder(const struct meeting *meeting, const struct nonce *host)
{
    char digits[2 * NONCE_BYTES + 1];
    for (int i = 0; i < NONCE_BYTES; i++)
        snprintf(digits + (ptrdiff_t)2 * i, 3, "%02x", host->bytes[i]);
    snprintf(meeting->met->folder, PATH_MAX, "%.*s/%.*s-%s", PATH_MAX - 256,
             meeting->request->folder, JOB_NAME_MAX, meeting->request->job, digits);
}

static bool be_host(struct meeting *meeting, struct err *err)
{
    char name[FILE_NAME_BYTES];
    struct verdict *verdict = meeting->verdict;
    bool is_well = put_hello(meeting, err);
    for (int missing = 1; is_well;) {
        missing = look_for_guests(meeting, err);
        if (err->kind || missing == 0) break;
        is_well = check_place(meeting, err) && check_time(meeting, missing, err);
        if (is_well) pause_look();
    }
    name_folder(meeting, &meeting->mine.own);
    is_well = !err->kind && make_folder(meeting, err);
    memcpy(verdict->magic, MAGIC, sizeof MAGIC);
    verdict->version = RENDEZVOUS_VERSION;
    verdict->node_count = meeting->request->node_count;
    verdict->host = meeting->mine.own;
    snprintf(verdict->refusal, REFUSAL_BYTES, "%.*s", REFUSAL_BYTES - 1, err->text);
    return folder_put(meeting->request->folder, file_name(name, meeting, -1), verdict,
                      meeting->verdict_bytes, err) &&
           is_well;
}

// Answers whatever node 0 is to be read now: it may be that of an earlier job, until this one's
// comes.
static bool answer_host(struct meeting *meeting, struct err *err)
{
    struct hello host;
    if (!get_hello(meeting, 0, &host) || is_same(&host.own, &meeting->mine.echo)) return true;
    meeting->mine.echo = host.own;
    return put_hello(meeting, err);
}

// *is_met once node 0 has said that all are there; false where it refuses.
static bool read_verdict(struct meeting *meeting, bool *is_met, struct err *err)
{
    char name[FILE_NAME_BYTES];
    const struct nonce *own = &meeting->mine.own;
    struct verdict *verdict = meeting->verdict;
    size_t bytes = 0, head = offsetof(struct verdict, refusal);
    int node = meeting->request->node;
    bool is_there = folder_get(meeting->request->folder, file_name(name, meeting, -1), verdict,
                               meeting->verdict_bytes, &bytes) &&
                    bytes >= head && is_same(&verdict->host, &meeting->mine.echo);
    if (!is_there) return true;
    bool is_readable =
        verdict->version == RENDEZVOUS_VERSION &&
        bytes == sizeof *verdict + (size_t)verdict->node_count * sizeof(struct nonce);
    if (!is_readable && is_same(&verdict->offender, own))
        return err_set(err, ERR_SYSTEM, "node %d is of another version of this program than node 0",
                       node);
    if (!is_readable || node >= verdict->node_count || !is_same(&verdict->guests[node], own))
        return true;
    verdict->refusal[REFUSAL_BYTES - 1] = '\0';
    if (verdict->refusal[0]) return err_set(err, ERR_SYSTEM, "%s", verdict->refusal);
    *is_met = true;
    return true;
}

static bool be_guest(struct meeting *meeting, struct err *err)
{
    char name[FILE_NAME_BYTES];
    bool is_met = false, is_well = put_hello(meeting, err);
    while (is_well) {
        is_well = answer_host(meeting, err) && read_verdict(meeting, &is_met, err);
        if (is_met || !is_well) break;
        is_well = check_place(meeting, err) && check_time(meeting, 0, err);
        if (is_well) pause_look();
    }
    struct hello found;
    int node = meeting->request->node;
    bool is_mine = get_hello(meeting, node, &found) && is_same(&found.own, &meeting->mine.own);
    if (is_mine) folder_remove(meeting->request->folder, file_name(name, meeting, node));
    if (is_met) name_folder(meeting, &meeting->mine.echo);
    return is_met;
}

bool rendezvous_meet(const struct rendezvous_request *request, struct rendezvous *met,
                     struct err *err)
{
    assert(request->node >= 0 && request->node < request->node_count && request->rank_count > 0);
    assert(rendezvous_job_is_valid(request->job));
    size_t nodes = (size_t)request->node_count, names = nodes * NODE_NAME_BYTES;
    int first = rendezvous_first_rank(request->rank_count, request->node_count, request->node);
    int end = rendezvous_first_rank(request->rank_count, request->node_count, request->node + 1);
    *met = (struct rendezvous){.request = request, .first_rank = first, .own_count = end - first};
    met->node = request->node;
    met->names = memory_get(names);
    memset(met->names, 0, names);
    // A guest may have been given fewer nodes than node 0.
    size_t room = request->node == 0 ? nodes : NODE_COUNT_MAX;
    struct meeting meeting = {
        .request = request,
        .met = met,
        .mine = {.version = RENDEZVOUS_VERSION,
                 .node = request->node,
                 .node_count = request->node_count,
                 .rank_count = request->rank_count,
                 .plan_key = request->plan_key,
                 .options_key = request->options_key,
                 .program = MESHWRIGHT_VERSION},
        .verdict_bytes = sizeof *meeting.verdict + room * sizeof(struct nonce),
        // The others may come as late as node 0 allows.
        .until_s = clock_s() + request->timeout_s + (request->node > 0 ? LEAVE_S : 0),
    };
    memcpy(meeting.mine.magic, MAGIC, sizeof MAGIC);
    gethostname(meeting.mine.name, NODE_NAME_BYTES - 1);
    if (getrandom(&meeting.mine.own, NONCE_BYTES, 0) != NONCE_BYTES)
        return err_set(err, ERR_SYSTEM, "the system has no random numbers: %s", strerror(errno));
    meeting.verdict = memory_get(meeting.verdict_bytes);
    memset(meeting.verdict, 0, meeting.verdict_bytes);
    bool is_well = request->node == 0 ? be_host(&meeting, err) : be_guest(&meeting, err);
    free(meeting.verdict);
    if (is_well) met->node_count = request->node_count;
    return is_well;
}

// Nodes that have read how the job ended; those that have not find the files.
static bool wait_for_guests(const struct rendezvous *met)
{
    double until_s = clock_s() + LEAVE_S;
    for (int node = 1; node < met->node_count;) {
        char name[32], byte;
        size_t bytes;
        snprintf(name, sizeof name, "left-%d", node);
        if (folder_get(met->folder, name, &byte, 1, &bytes)) {
            node++;
        } else {
            if (clock_s() > until_s) return false;
            pause_look();
        }
    }
    return true;
}

void rendezvous_close(struct rendezvous *met)
{
    char name[FILE_NAME_BYTES];
    struct err ignored = {0};
    const struct meeting meeting = {.request = met->request};
    if (met->node_count > 0 && met->node > 0) {
        snprintf(name, sizeof name, "left-%d", met->node);
        (void)!folder_put(met->folder, name, "", 0, &ignored);
    } else if (met->node_count > 0 && wait_for_guests(met)) {
        folder_remove(met->request->folder, file_name(name, &meeting, -1));
        folder_remove(met->request->folder, file_name(name, &meeting, 0));
        folder_remove_all(met->folder);
    }
    free(met->names);
    *met = (struct rendezvous){0};
}
