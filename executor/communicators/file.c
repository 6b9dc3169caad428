#include "core/hash.h"
#include "core/progress.h"
#include "executor/communicators/sum.h"
#include "executor/launcher/launch.h"
#include "executor/rendezvous_folder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Ranks that meet by files in a folder of their job alone: what is told once, before NCCL knows the
// way. Each file is written once, under a name that only this telling has.

enum { TEXT_BYTES = 512, FILE_NAME_BYTES = 64, PAUSE_NS = 5000000 };
static const double MEET_S = 300, ABORT_EVERY_S = 0.25;

// Messages to or from a rank so far.
struct file_link {
    struct file_link *next;
    int rank, channel;
    bool sends;
    int count;
};

struct group {
    struct communicator *communicator;
    struct group *next;
    uint64_t base_key, key;  // of ranks and purpose alone, and of which of several
    int count, me, gather_count;
    char *purpose;
};

struct communicator {
    const char *folder;
    const struct backend *backend;
    struct device *device;
    struct heartbeat *heartbeat;
    int rank, rank_count;
    double meet_s, looked_s;
    struct group *groups;
    struct file_link *links;
    bool has_failed, was_told;
    char text[TEXT_BYTES];
};

__attribute__((returns_nonnull)) static const char *file_fail(struct communicator *communicator,
                                                              const char *format, ...)
    PRINTF_LIKE(2, 3);

static const char *file_fail(struct communicator *communicator, const char *format, ...)
{
    if (!communicator->has_failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(communicator->text, TEXT_BYTES, format, args);
        va_end(args);
    }
    communicator->has_failed = true;
    return communicator->text;
}

static void look_for_abort(struct communicator *communicator)
{
    char text[TEXT_BYTES];
    size_t bytes = 0;
    double now_s = clock_s();
    if (communicator->has_failed || now_s - communicator->looked_s < ABORT_EVERY_S) return;
    communicator->looked_s = now_s;
    if (!folder_get(communicator->folder, "abort", text, sizeof text, &bytes)) return;
    communicator->was_told = true;
    file_fail(communicator, "%.*s", (int)bytes, text);
}

static const char *put(struct communicator *communicator, const char *name, const void *data,
                       size_t bytes)
{
    struct err err = {0};
    if (communicator->has_failed) return communicator->text;
    if (folder_put(communicator->folder, name, data, bytes, &err)) return NULL;
    return file_fail(communicator, "rank %d: %s", communicator->rank, err.text);
}

// Waits for the file of `rank`.
static const char *get(struct communicator *communicator, const char *name, int rank, void *data,
                       size_t bytes)
{
    const struct timespec pause = {0, PAUSE_NS};
    double until_s = clock_s() + communicator->meet_s;
    size_t came = 0;
    while (!communicator->has_failed &&
           !folder_get(communicator->folder, name, data, bytes, &came)) {
        if (clock_s() > until_s)
            return file_fail(communicator, "rank %d did not come to %.200s within %.0f s", rank,
                             communicator->folder, communicator->meet_s);
        look_for_abort(communicator);
        // Who waits here stands not still: it has its own limit.
        if (communicator->heartbeat) atomic_fetch_add(&communicator->heartbeat->beat, 1);
        nanosleep(&pause, NULL);
    }
    if (communicator->has_failed) return communicator->text;
    if (came == bytes) return NULL;
    return file_fail(communicator, "rank %d told %zu bytes where rank %d expects %zu", rank, came,
                     communicator->rank, bytes);
}

static const char *file_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **made)
{
    struct group *group = memory_get(sizeof *group);
    size_t length = strlen(purpose) + 1;
    *group = (struct group){.communicator = communicator,
                            .next = communicator->groups,
                            .count = count,
                            .purpose = memory_get(length)};
    memcpy(group->purpose, purpose, length);
    uint64_t named = hash_bytes(HASH_START, purpose, length);
    group->me = -1;
    group->base_key = hash_bytes(named, ranks, (size_t)count * sizeof *ranks);
    for (int i = 0; i < count; i++) {
        if (ranks[i] == communicator->rank) group->me = i;
        assert(ranks[i] >= 0 && ranks[i] < communicator->rank_count);
        assert(i == 0 || ranks[i - 1] != ranks[i]);
    }
    assert(group->me >= 0);  // member 0 is the one that waits for all others
    // The same group once more is another one: all its members make them in one order.
    int32_t earlier = 0;
    for (const struct group *other = communicator->groups; other; other = other->next)
        earlier += other->base_key == group->base_key;
    group->key = hash_bytes(group->base_key, &earlier, sizeof earlier);
    communicator->groups = group;
    *made = group;
    return NULL;
}

static const char *gather_name(char name[FILE_NAME_BYTES], const struct group *group, int member)
{
    snprintf(name, FILE_NAME_BYTES, "group-%016llx-%d-%d", (unsigned long long)group->key,
             group->gather_count, member);
    return name;
}

// The first member reads what all say and says it to all: files read grow with the members, not
// with their square.
static const char *file_gather(struct group *group, const int64_t *mine, int64_t *all, int count)
{
    struct communicator *communicator = group->communicator;
    size_t bytes = (size_t)count * sizeof *mine, whole = bytes * (size_t)group->count;
    char name[FILE_NAME_BYTES];
    const char *failure = NULL;
    memmove(all + (int64_t)group->me * count, mine, bytes);
    if (group->me > 0) {
        failure = put(communicator, gather_name(name, group, group->me), mine, bytes);
        if (!failure) failure = get(communicator, gather_name(name, group, 0), 0, all, whole);
    } else {
        for (int member = 1; member < group->count && !failure; member++)
            failure = get(communicator, gather_name(name, group, member), member,
                          all + (int64_t)member * count, bytes);
        if (!failure) failure = put(communicator, gather_name(name, group, 0), all, whole);
    }
    group->gather_count++;
    return failure;
}

static const char *message_name(char name[FILE_NAME_BYTES], struct communicator *communicator,
                                int rank, int channel, bool sends)
{
    struct file_link *link = communicator->links;
    while (link && (link->rank != rank || link->channel != channel || link->sends != sends))
        link = link->next;
    if (!link) {
        link = memory_get(sizeof *link);
        *link = (struct file_link){communicator->links, rank, channel, sends, 0};
        communicator->links = link;
    }
    int from = sends ? communicator->rank : rank, to = sends ? rank : communicator->rank;
    snprintf(name, FILE_NAME_BYTES, "message-%d-%d-%d-%d", from, to, channel, link->count++);
    return name;
}

static const char *copy_host(struct communicator *communicator, enum stream stream,
                             enum copy_kind kind, void *to, const void *from, int64_t bytes)
{
    const struct backend *backend = communicator->backend;
    const char *failure = backend->copy(communicator->device, stream, kind, to, from, bytes);
    if (!failure) failure = backend->synchronize(communicator->device, stream);
    return failure ? file_fail(communicator, "%s", failure) : NULL;
}

static const char *file_send(struct communicator *communicator, enum stream stream,
                             enum element element, int rank, int channel, const void *data,
                             int64_t count)
{
    char name[FILE_NAME_BYTES];
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element));
    void *room = memory_get((size_t)bytes + 1);
    const char *failure = copy_host(communicator, stream, COPY_TO_HOST, room, data, bytes);
    if (!failure)
        failure = put(communicator, message_name(name, communicator, rank, channel, true), room,
                      (size_t)bytes);
    free(room);
    return failure;
}

static const char *file_receive(struct communicator *communicator, enum stream stream,
                                enum element element, int rank, int channel, void *data,
                                int64_t count)
{
    char name[FILE_NAME_BYTES];
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element));
    void *room = memory_get((size_t)bytes + 1);
    const char *failure = get(communicator, message_name(name, communicator, rank, channel, false),
                              rank, room, (size_t)bytes);
    if (!failure) {
        folder_remove(communicator->folder, name);
        failure = copy_host(communicator, stream, COPY_FROM_HOST, data, room, bytes);
    }
    free(room);
    return failure;
}

static void file_abort(struct communicator *communicator, const char *reason)
{
    struct err ignored = {0};
    size_t length = strnlen(reason, TEXT_BYTES - 1);
    // Where it cannot be written the launchers say it (executor/launcher/nodes.c).
    if (!communicator->was_told)
        (void)!folder_put_first(communicator->folder, "abort", reason, length, &ignored);
    file_fail(communicator, "%s", reason);
}

static bool file_was_told(const struct communicator *communicator)
{
    return communicator->was_told;
}

static void file_close(struct communicator *communicator)
{
    for (struct group *group = communicator->groups; group;) {
        struct group *next = group->next;
        free(group->purpose);
        free(group);
        group = next;
    }
    for (struct file_link *link = communicator->links; link;) {
        struct file_link *next = link->next;
        free(link);
        link = next;
    }
    free(communicator);
}

static const struct transport FILE_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "file",
    .only_meets = true,
    .close = file_close,
    .group = file_group,
    .host_gather = file_gather,
    .send = file_send,
    .receive = file_receive,
    .progress = look_for_abort,
    .abort = file_abort,
    .was_told = file_was_told,
};

const struct transport *communicator_file(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    (void)err;
    struct communicator *communicator = memory_get(sizeof *communicator);
    *communicator = (struct communicator){
        .folder = request->meeting,
        .backend = request->backend,
        .device = request->device,
        .heartbeat = request->heartbeat,
        .rank = request->rank,
        .rank_count = request->rank_count,
        .meet_s = request->meet_s > 0 ? request->meet_s : MEET_S,
    };
    *opened = communicator;
    return &FILE_TRANSPORT;
}
