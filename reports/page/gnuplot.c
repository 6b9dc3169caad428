#include "reports/page/gnuplot.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool gnuplot_is_whole(const char *picture, size_t bytes)
{
    static const char PNG_END[] = "IEND\xae\x42\x60\x82", SVG_END[] = "</svg>";
    bool is_png = bytes > 4 && memcmp(picture, "\x89PNG", 4) == 0;
    while (!is_png && bytes > 0 && strchr("\r\n ", picture[bytes - 1]))
        bytes--;
    const char *end = is_png ? PNG_END : SVG_END;
    size_t length = strlen(end);
    return bytes >= length && memcmp(picture + bytes - length, end, length) == 0;
}

static char *read_back(struct arena *arena, FILE *file, size_t *length)
{
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = ARENA_NEW(arena, char, (size_t)(bytes > 0 ? bytes : 0) + 1);
    size_t got = fread(text, 1, (size_t)(bytes > 0 ? bytes : 0), file);
    text[got] = '\0';
    if (length) *length = got;
    return text;
}

// Files for both ends, because a pipe for each could fill up while nobody reads the other.
static bool spawn(FILE *const files[3], int *status, struct err *err)
{
    char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++) {
        posix_spawn_file_actions_adddup2(&actions, fileno(files[i]), i);
    }
    pid_t process = 0;
    int fault = posix_spawnp(&process, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (fault == ENOENT) {
        return err_set(err, ERR_SYSTEM, "a plot needs gnuplot, which is not installed");
    }
    if (fault) return err_set(err, ERR_SYSTEM, "cannot start gnuplot: %s", strerror(fault));
    while (waitpid(process, status, 0) < 0) {
        if (errno != EINTR) return err_set(err, ERR_SYSTEM, "gnuplot: %s", strerror(errno));
    }
    return true;
}

// The line that says what is wrong; before it gnuplot prints the script's line and a caret.
static const char *last_line(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && strchr("\n\r ", text[length - 1])) {
        text[--length] = '\0';
    }
    const char *newline = strrchr(text, '\n');
    const char *line = newline ? newline + 1 : text;
    return line + strspn(line, " ");
}

static char *run(struct arena *arena, FILE *const files[3], const char *script, size_t *bytes,
                 struct err *err)
{
    int status = 0;
    if (fputs(script, files[0]) < 0 || fflush(files[0]) != 0) {
        err_set(err, ERR_SYSTEM, "cannot write a temporary file: %s", strerror(errno));
        return NULL;
    }
    rewind(files[0]);
    if (!spawn(files, &status, err)) return NULL;
    char *answer = read_back(arena, files[1], bytes);
    if (status == 0 && *bytes > 0) return answer;
    err_set(err, ERR_SYSTEM, "gnuplot: %s", last_line(read_back(arena, files[2], NULL)));
    return NULL;
}

static char *answer_of(struct arena *arena, const char *script, size_t *bytes, struct err *err)
{
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    char *answer = NULL;
    if (files[0] && files[1] && files[2]) {
        answer = run(arena, files, script, bytes, err);
    } else {
        err_set(err, ERR_SYSTEM, "cannot make a temporary file: %s", strerror(errno));
    }
    for (int i = 0; i < 3; i++) {
        if (files[i]) fclose(files[i]);
    }
    return answer;
}

char *gnuplot_image(struct arena *arena, const char *script, size_t *bytes, struct err *err)
{
    char *picture = answer_of(arena, script, bytes, err);
    if (!picture || gnuplot_is_whole(picture, *bytes)) return picture;
    err_set(err, ERR_SYSTEM, "gnuplot wrote a part of the picture alone: is there room for it?");
    return NULL;
}

bool gnuplot_run(struct arena *arena, const char *script, struct err *err)
{
    size_t bytes = 0;
    return answer_of(arena, script, &bytes, err) != NULL;
}

bool gnuplot_is_installed(void)
{
    struct arena arena = {0};
    const char *paths = getenv("PATH");
    bool found = false;
    while (paths && *paths && !found) {
        int length = (int)strcspn(paths, ":");
        found = access(arena_print(&arena, "%.*s/gnuplot", length, paths), X_OK) == 0;
        paths += length + (paths[length] == ':');
    }
    arena_free(&arena);
    return found;
}
