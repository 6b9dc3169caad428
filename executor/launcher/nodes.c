#include "executor/launcher/parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

// Every launcher writes how often it has looked into a file of its own: one that stays as it is
// means that the launcher is gone. Node 0 looks at all, the others at node 0. Clocks of hosts are
// not compared. Files of NFS may be seen seconds late.
static const double SILENT_S = 30, LOOKS_A_SILENCE = 15, LOOK_AT_MOST_S = 0.5;
// A rank that failed may have failed because another died: whose launcher has so long to say it.
static const double FAIL_GRACE_S = 1.5, FAIL_LOOK_S = 0.05;

// "node-K"
struct beat {
    int64_t count;
    int32_t is_done, exit_code;  // all ranks of the node have ended well; of rank 0
};

// "end": of the first who says how the job ended
struct end_news {
    int32_t exit_code, is_failure;
    char text[sizeof((struct err *)0)->text];
};

struct launch_heard {
    struct beat beat;
    double heard_s;
};

static const struct outside *outside_of(const struct launch_nodes *nodes)
{
    return nodes->request->outside ? nodes->request->outside : &OUTSIDE_REAL;
}

static double time_s(const struct launch_nodes *nodes)
{
    return outside_of(nodes)->now_s(outside_of(nodes)->context);
}

static bool get(const struct launch_nodes *nodes, const char *name, void *data, size_t room,
                size_t *bytes)
{
    const struct outside *outside = outside_of(nodes);
    return outside->get(outside->context, nodes->met.folder, name, data, room, bytes);
}

void launch_nodes_start(struct launch_nodes *nodes, const struct rendezvous_request *request,
                        double silent_s)
{
    size_t count = (size_t)request->node_count;
    *nodes = (struct launch_nodes){.request = request,
                                   .silent_s = silent_s > 0 ? silent_s : SILENT_S,
                                   .heard = memory_get(count * sizeof *nodes->heard)};
}

void launch_nodes_meet(struct launch_nodes *nodes)
{
    for (int i = 0; i < nodes->request->node_count; i++)
        nodes->heard[i] = (struct launch_heard){.heard_s = time_s(nodes)};
}

bool launch_nodes_open(struct launch_nodes *nodes, const struct launch_request *request,
                       struct err *err)
{
    launch_nodes_start(nodes, request->rendezvous, request->silent_s);
    if (!rendezvous_meet(request->rendezvous, &nodes->met, err)) return false;
    launch_nodes_meet(nodes);
    return true;
}

void launch_nodes_close(struct launch_nodes *nodes)
{
    rendezvous_close(&nodes->met);
    free(nodes->heard);
    *nodes = (struct launch_nodes){0};
}

// True when there is news of the end: then the job is over, or `err` is set.
static bool read_end(struct launch_nodes *nodes, struct err *err)
{
    struct end_news end;
    size_t bytes = 0;
    bool is_there = get(nodes, "end", &end, sizeof end, &bytes);
    if (!is_there || bytes != sizeof end) return false;
    end.text[sizeof end.text - 1] = '\0';
    if (end.is_failure) err_set(err, ERR_SYSTEM, "%s", end.text);
    nodes->is_over = !end.is_failure;
    nodes->exit_code = end.exit_code;
    return true;
}

static bool say_end(const struct launch_nodes *nodes, int exit_code, const char *failure,
                    struct err *err)
{
    struct end_news end = {.exit_code = exit_code, .is_failure = failure != NULL};
    snprintf(end.text, sizeof end.text, "%s", failure ? failure : "");
    const struct outside *outside = outside_of(nodes);
    return outside->put_first(outside->context, nodes->met.folder, "end", &end, sizeof end, err);
}

static bool listen_to(struct launch_nodes *nodes, int node, double now_s, struct err *err)
{
    struct launch_heard *heard = &nodes->heard[node];
    assert(node >= 0 && node < nodes->met.node_count && node != nodes->met.node);
    struct beat beat;
    size_t bytes = 0;
    char file[32];
    snprintf(file, sizeof file, "node-%d", node);
    bool is_there = get(nodes, file, &beat, sizeof beat, &bytes);
    // That the count has changed since this node looked last: no clock of another host is read.
    if (is_there && bytes == sizeof beat && beat.count != heard->beat.count)
        *heard = (struct launch_heard){beat, now_s};
    double silent_s = now_s - heard->heard_s;
    if (silent_s < nodes->silent_s) return true;
    const char *name = nodes->met.names[node];
    return err_set(err, ERR_SYSTEM, "node %d%s%s%s has said nothing for %.0f s", node,
                   *name ? " (" : "", name, *name ? ")" : "", silent_s);
}

static bool all_are_done(const struct launch_nodes *nodes)
{
    for (int node = 1; node < nodes->met.node_count; node++) {
        if (!nodes->heard[node].beat.is_done) return false;
    }
    return true;
}

bool launch_nodes_look(struct launch_nodes *nodes, double now_s, bool is_done, int exit_code,
                       struct err *err)
{
    double every_s = nodes->silent_s / LOOKS_A_SILENCE;
    if (every_s > LOOK_AT_MOST_S) every_s = LOOK_AT_MOST_S;
    if (now_s - nodes->looked_s < every_s) return true;
    nodes->looked_s = now_s;
    struct beat *mine = &nodes->heard[nodes->met.node].beat;
    *mine = (struct beat){mine->count + 1, is_done, exit_code};
    char file[32];
    snprintf(file, sizeof file, "node-%d", nodes->met.node);
    const struct outside *outside = outside_of(nodes);
    if (!outside->put(outside->context, nodes->met.folder, file, mine, sizeof *mine, err))
        return false;
    if (read_end(nodes, err)) return !err->kind;
    if (nodes->met.node > 0) return listen_to(nodes, 0, now_s, err);
    for (int node = 1; node < nodes->met.node_count; node++) {
        if (!listen_to(nodes, node, now_s, err)) return false;
    }
    // Only node 0 says that the job went well, once it has heard it of all: until then one of them
    // may still fail, and that is to be the answer on every node.
    if (!is_done || !all_are_done(nodes)) return true;
    if (!say_end(nodes, exit_code, NULL, err)) return false;
    return !read_end(nodes, err) || !err->kind;
}

bool launch_nodes_fail_look(struct launch_nodes *nodes, bool may_follow, struct err *err)
{
    struct err said = {0}, ignored = {0};
    double now_s = time_s(nodes);
    if (nodes->met.node_count == 0) return true;
    if (nodes->failed_s == 0) nodes->failed_s = now_s;
    bool waits = may_follow && now_s - nodes->failed_s < FAIL_GRACE_S;
    if (!read_end(nodes, &said) && waits) return false;
    assert(err->kind);
    (void)!say_end(nodes, ERR_SYSTEM, err->text, &ignored);
    // Whoever was first is right on all nodes, also where that was that all has ended well: this
    // node had said so of its own ranks.
    if (read_end(nodes, &said)) *err = said;
    return true;
}

void launch_nodes_fail(struct launch_nodes *nodes, bool may_follow, struct err *err)
{
    const struct outside *outside = outside_of(nodes);
    while (!launch_nodes_fail_look(nodes, may_follow, err))
        outside->pause(outside->context, FAIL_LOOK_S);
}
