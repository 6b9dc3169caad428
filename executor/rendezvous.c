#include "executor/rendezvous.h"
#include "core/version.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    const struct outside *outside;
    const struct rendezvous_request *request;
    struct rendezvous *met;
    struct hello mine;
    struct verdict *verdict;
    size_t verdict_bytes;
    double until_s;
};

static const struct outside *outside_of(const struct rendezvous_request *request)
{
    return request->outside ? request->outside : &OUTSIDE_REAL;
}

// A file in the folder where nodes meet.
static bool put(const struct meeting *meeting, const char *name, const void *data, size_t bytes,
                struct err *err)
{
    const struct outside *outside = meeting->outside;
    return outside->put(outside->context, meeting->request->folder, name, data, bytes, err);
}

static bool get(const struct meeting *meeting, const char *name, void *data, size_t room,
                size_t *bytes)
{
    const struct outside *outside = meeting->outside;
    return outside->get(outside->context, meeting->request->folder, name, data, room, bytes);
}

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
    return put(meeting, file_name(name, meeting, meeting->mine.node), &meeting->mine,
               sizeof meeting->mine, err);
}

// What the node says now, as far as it is of a version that can be read.
static bool get_hello(const struct meeting *meeting, int node, struct hello *hello)
{
    char name[FILE_NAME_BYTES];
    size_t bytes = 0;
    memset(hello, 0, sizeof *hello);
    bool is_there = get(meeting, file_name(name, meeting, node), hello, sizeof *hello, &bytes);
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
    const struct outside *outside = meeting->outside;
    if (outside->is_ended(outside->context))
        return err_set(err, ERR_SYSTEM, "ended by a signal before all nodes had come");
    if (outside->now_s(outside->context) < meeting->until_s) return true;
    return err_set(err, ERR_SYSTEM, "node %d did not come to %.300s within %.0f s (job %s)",
                   missing, meeting->request->folder, meeting->request->timeout_s,
                   meeting->request->job);
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

// The number of node 0 is in its name, so that no two are alike.
static void name_folder(const struct meeting *meeting, const struct nonce *host)
{
    char digits[2 * NONCE_BYTES + 1];
    for (int i = 0; i < NONCE_BYTES; i++)
        snprintf(digits + (ptrdiff_t)2 * i, 3, "%02x", host->bytes[i]);
    snprintf(meeting->met->folder, PATH_MAX, "%.*s/%.*s-%s", PATH_MAX - 256,
             meeting->request->folder, JOB_NAME_MAX, meeting->request->job, digits);
}

// One look of node 0. When all have come, or it is in vain, it says so to all.
static enum meeting_state be_host(struct meeting *meeting, struct err *err)
{
    char name[FILE_NAME_BYTES];
    struct verdict *verdict = meeting->verdict;
    const struct outside *outside = meeting->outside;
    int missing = look_for_guests(meeting, err);
    bool waits = !err->kind && missing > 0;
    if (waits && check_place(meeting, err) && check_time(meeting, missing, err))
        return MEETING_WAITS;
    name_folder(meeting, &meeting->mine.own);
    bool is_well = !err->kind && outside->make_folder(outside->context, meeting->met->folder, err);
    memcpy(verdict->magic, MAGIC, sizeof MAGIC);
    verdict->version = RENDEZVOUS_VERSION;
    verdict->node_count = meeting->request->node_count;
    verdict->host = meeting->mine.own;
    snprintf(verdict->refusal, REFUSAL_BYTES, "%.*s", REFUSAL_BYTES - 1, err->text);
    bool is_said = put(meeting, file_name(name, meeting, -1), verdict, meeting->verdict_bytes, err);
    return is_said && is_well ? MEETING_MET : MEETING_FAILED;
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
    bool is_there =
        get(meeting, file_name(name, meeting, -1), verdict, meeting->verdict_bytes, &bytes) &&
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

// One look of another node.
static enum meeting_state be_guest(struct meeting *meeting, struct err *err)
{
    char name[FILE_NAME_BYTES];
    const struct outside *outside = meeting->outside;
    bool is_met = false;
    bool is_well = answer_host(meeting, err) && read_verdict(meeting, &is_met, err);
    if (is_well && !is_met && check_place(meeting, err) && check_time(meeting, 0, err))
        return MEETING_WAITS;
    struct hello found;
    int node = meeting->request->node;
    bool is_mine = get_hello(meeting, node, &found) && is_same(&found.own, &meeting->mine.own);
    if (is_mine)
        outside->remove(outside->context, meeting->request->folder, file_name(name, meeting, node));
    if (is_met) name_folder(meeting, &meeting->mine.echo);
    return is_met ? MEETING_MET : MEETING_FAILED;
}

struct meeting *rendezvous_begin(const struct rendezvous_request *request, struct rendezvous *met,
                                 struct err *err)
{
    assert(request->node >= 0 && request->node < request->node_count && request->rank_count > 0);
    assert(rendezvous_job_is_valid(request->job));
    const struct outside *outside = outside_of(request);
    size_t nodes = (size_t)request->node_count, names = nodes * NODE_NAME_BYTES;
    int first = rendezvous_first_rank(request->rank_count, request->node_count, request->node);
    int end = rendezvous_first_rank(request->rank_count, request->node_count, request->node + 1);
    *met = (struct rendezvous){.request = request, .first_rank = first, .own_count = end - first};
    met->node = request->node;
    met->names = memory_get(names);
    memset(met->names, 0, names);
    // A guest may have been given fewer nodes than node 0.
    size_t room = request->node == 0 ? nodes : NODE_COUNT_MAX;
    struct meeting *meeting = memory_get(sizeof *meeting);
    *meeting = (struct meeting){
        .outside = outside,
        .request = request,
        .met = met,
        .mine = {.version = RENDEZVOUS_VERSION,
                 .node = request->node,
                 .node_count = request->node_count,
                 .rank_count = request->rank_count,
                 .plan_key = request->plan_key,
                 .options_key = request->options_key,
                 .program = MESHWRIGHT_VERSION},
        .verdict_bytes = sizeof *meeting->verdict + room * sizeof(struct nonce),
        // The others may come as late as node 0 allows.
        .until_s = outside->now_s(outside->context) + request->timeout_s +
                   (request->node > 0 ? LEAVE_S : 0),
    };
    memcpy(meeting->mine.magic, MAGIC, sizeof MAGIC);
    gethostname(meeting->mine.name, NODE_NAME_BYTES - 1);
    meeting->verdict = memory_get(meeting->verdict_bytes);
    memset(meeting->verdict, 0, meeting->verdict_bytes);
    if (!outside->draw(outside->context, &meeting->mine.own, NONCE_BYTES))
        err_set(err, ERR_SYSTEM, "the system has no random numbers");
    else if (put_hello(meeting, err))
        return meeting;
    rendezvous_end(meeting);
    return NULL;
}

enum meeting_state rendezvous_look(struct meeting *meeting, struct err *err)
{
    enum meeting_state state =
        meeting->request->node == 0 ? be_host(meeting, err) : be_guest(meeting, err);
    if (state == MEETING_MET) meeting->met->node_count = meeting->request->node_count;
    return state;
}

void rendezvous_end(struct meeting *meeting)
{
    if (meeting) free(meeting->verdict);
    free(meeting);
}

bool rendezvous_meet(const struct rendezvous_request *request, struct rendezvous *met,
                     struct err *err)
{
    const struct outside *outside = outside_of(request);
    struct meeting *meeting = rendezvous_begin(request, met, err);
    enum meeting_state state = meeting ? MEETING_WAITS : MEETING_FAILED;
    while (meeting && (state = rendezvous_look(meeting, err)) == MEETING_WAITS)
        outside->pause(outside->context, LOOK_EVERY_S);
    rendezvous_end(meeting);
    return state == MEETING_MET;
}

// Nodes that have read how the job ended; those that have not find the files.
static bool all_have_left(const struct rendezvous *met)
{
    const struct outside *outside = outside_of(met->request);
    for (int node = 1; node < met->node_count; node++) {
        char name[32], byte;
        size_t bytes;
        snprintf(name, sizeof name, "left-%d", node);
        if (!outside->get(outside->context, met->folder, name, &byte, 1, &bytes)) return false;
    }
    return true;
}

bool rendezvous_leave(struct rendezvous *met)
{
    char name[FILE_NAME_BYTES];
    struct err ignored = {0};
    const struct outside *outside = outside_of(met->request);
    const struct meeting meeting = {.request = met->request};
    double now_s = outside->now_s(outside->context);
    if (met->leaves_s == 0) met->leaves_s = now_s;
    if (met->node_count > 0 && met->node > 0) {
        snprintf(name, sizeof name, "left-%d", met->node);
        (void)!outside->put(outside->context, met->folder, name, "", 0, &ignored);
    } else if (met->node_count > 0 && all_have_left(met)) {
        const char *folder = met->request->folder;
        outside->remove(outside->context, folder, file_name(name, &meeting, -1));
        outside->remove(outside->context, folder, file_name(name, &meeting, 0));
        outside->remove_all(outside->context, met->folder);
    } else if (met->node_count > 0 && now_s - met->leaves_s <= LEAVE_S) {
        return false;
    }
    free(met->names);
    *met = (struct rendezvous){0};
    return true;
}

void rendezvous_close(struct rendezvous *met)
{
    const struct outside *outside = outside_of(met->request);
    while (!rendezvous_leave(met))
        outside->pause(outside->context, LOOK_EVERY_S);
}
