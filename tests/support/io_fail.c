// io_fail CALL NUMBER COMMAND...: runs a command whose NUMBER-th CALL (read, map, write, flush,
// fsync or rename), counted from 1 over all its processes, fails: reads, maps, flushes, fsyncs and
// renames with EIO, writes with ENOSPC. Of kill-write, kill-fsync and kill-rename it does not fail:
// before it is made the process that makes it is killed. Of slow-read, slow-write and slow-flush
// none fails: each begins NUMBER milliseconds late. IO_FAIL_UNDER: calls of files below that folder
// alone count, which may have been removed.
// Calls are caught in the kernel (seccomp's user notifications, Linux 5.5), so that those inside
// libraries count as well. Reads and maps count where they are of plain files that are not shared
// libraries, writes where they are of plain files but the standard error's. Ends with the command's
// status, or 128 and its signal; where the kernel has no notifications, with 77. Descriptor 3 gets
// the path that the call was of, or how many calls there are: "N calls".
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_NOTIFICATIONS = 77, CALLS_MOST = 4, PATH_BYTES = 4096 };

struct kind {
    const char *name;
    int numbers[CALLS_MOST];
    int count, error;
};

static const struct kind KINDS[] = {
    {"read", {SYS_read, SYS_pread64, SYS_readv}, 3, EIO},
    {"map", {SYS_mmap}, 1, EIO},
    {"write", {SYS_write, SYS_pwrite64, SYS_writev}, 3, ENOSPC},
    {"flush", {SYS_sync_file_range}, 1, EIO},
    {"fsync", {SYS_fsync, SYS_fdatasync}, 2, EIO},
    {"rename", {SYS_rename, SYS_renameat, SYS_renameat2}, 3, EIO},
};
// What is done with calls in place of failing one.
enum way { FAILS, KILLS, SLOWS, WAY_COUNT };
static const char *const WAYS[WAY_COUNT] = {"", "kill-", "slow-"};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(KINDS[i].name, name) == 0) return &KINDS[i];
    return NULL;
}

static int install_filter(const struct kind *kind)
{
    struct sock_filter code[CALLS_MOST + 3];
    int length = 0;
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < kind->count; i++)
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kind->numbers[i],
                                         (unsigned char)(kind->count - i), 0);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {(unsigned short)length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static struct msghdr message_of(union control *control, struct iovec *part)
{
    return (struct msghdr){.msg_iov = part,
                           .msg_iovlen = 1,
                           .msg_control = control->bytes,
                           .msg_controllen = sizeof control->bytes};
}

// Hands a descriptor, or that there is none, to the other end. sendmsg is no call that is caught.
static void send_listener(int channel, int listener)
{
    char byte = listener >= 0;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&control, &part);
    if (listener < 0) message.msg_controllen = 0, message.msg_control = NULL;
    struct cmsghdr *header = listener >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof listener);
        memcpy(CMSG_DATA(header), &listener, sizeof listener);
    }
    if (sendmsg(channel, &message, 0) != 1) _exit(NO_NOTIFICATIONS);
}

static int receive_listener(int channel)
{
    char byte = 0;
    int listener = -1;
    union control control = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&control, &part);
    if (recvmsg(channel, &message, 0) != 1 || !byte) return -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header) memcpy(&listener, CMSG_DATA(header), sizeof listener);
    return listener;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

// Whether a call is one of those that count.
static bool counts(const struct kind *kind, const struct seccomp_notif *call, char path[PATH_BYTES])
{
    char link[64];
    struct stat stat_of;
    path[0] = '\0';
    if (strcmp(kind->name, "rename") == 0) return true;
    int place = strcmp(kind->name, "map") == 0 ? 4 : 0;
    snprintf(link, sizeof link, "/proc/%u/fd/%d", call->pid, (int)call->data.args[place]);
    ssize_t length = readlink(link, path, PATH_BYTES - 1);
    if (length < 0 || stat(link, &stat_of) != 0) return false;
    path[length] = '\0';
    const char *under = getenv("IO_FAIL_UNDER");
    if (under && strncmp(path, under, strlen(under)) != 0) return false;
    bool is_plain = S_ISREG(stat_of.st_mode);
    if (strcmp(kind->name, "fsync") == 0) return true;
    if (strcmp(kind->name, "write") == 0) return is_plain && call->data.args[0] != STDERR_FILENO;
    bool is_system = strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
                     strncmp(path, "/etc/", 5) == 0 || strncmp(path, "/usr/", 5) == 0;
    return is_plain && !is_system && !ends_with(path, ".so") && !strstr(path, ".so.");
}

// The device is as slow for all: one call is begun behind the other.
static void wait_ms(long milliseconds)
{
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void answer(int listener, const struct kind *kind, enum way way, long number, long *seen)
{
    struct seccomp_notif call = {0};
    struct seccomp_notif_resp response = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;
    response.id = call.id;
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    char path[PATH_BYTES];
    bool counted = counts(kind, &call, path), is_it = counted && ++*seen == number;
    if (counted && way == SLOWS) wait_ms(number);
    if (is_it && way != SLOWS) {
        if (way == KILLS)
            kill((pid_t)call.pid, SIGKILL);
        else
            response.flags = 0;
        response.error = way == KILLS ? 0 : -kind->error;
        dprintf(3, "%s: %s of %s\n", way == KILLS ? "killed" : "failed", kind->name, path);
        if (way == KILLS) return;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

// Answers calls until the command has ended and nobody it started makes any.
static int watch(pid_t child, int listener, const struct kind *kind, enum way way, long number)
{
    long seen = 0;
    int status = 0;
    for (bool is_over = false; !is_over;) {
        struct pollfd waiting = {listener, POLLIN, 0};
        int ready = poll(&waiting, 1, 20);
        if (ready > 0 && (waiting.revents & POLLIN))
            answer(listener, kind, way, number, &seen);
        else
            is_over = waitpid(child, &status, WNOHANG) == child;
    }
    if (seen < number || way == SLOWS) dprintf(3, "%ld calls\n", seen);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int channel[2];
    enum way way = FAILS;
    for (int w = 0; w < WAY_COUNT && argc > 3; w++)
        if (strncmp(argv[1], WAYS[w], strlen(WAYS[w])) == 0) way = (enum way)w;
    const struct kind *kind = argc > 3 ? find_kind(argv[1] + strlen(WAYS[way])) : NULL;
    if (!kind || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) return 2;
    pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
        int listener = install_filter(kind);
        send_listener(channel[1], listener);
        if (listener < 0) _exit(NO_NOTIFICATIONS);
        close(listener);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    close(channel[1]);
    int listener = receive_listener(channel[0]);
    if (listener < 0) {
        waitpid(child, NULL, 0);
        return NO_NOTIFICATIONS;
    }
    return watch(child, listener, kind, way, strtol(argv[2], NULL, 10));
}
