#include "exchange/database.h"

#include "core/plain.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

// Numbers of sqlite3.h, which are part of its fixed interface.
enum { RESULT_OK = 0, RESULT_ROW = 100, RESULT_DONE = 101, OPEN_READONLY = 1 };

// Pointers to the functions that are used, as sqlite3.h declares them.
struct library {
    int (*open)(const char *path, void **connection, int flags, const char *vfs);
    int (*close)(void *connection);
    int (*prepare)(void *connection, const char *sql, int bytes, void **statement,
                   const char **tail);
    int (*step)(void *statement);
    int (*finalize)(void *statement);
    int64_t (*column_number)(void *statement, int column);
    const unsigned char *(*column_text)(void *statement, int column);
    const char *(*message)(void *connection);
};

struct database {
    struct library library;
    struct arena *arena;
    const char *path;  // plain
    void *connection, *statement;
};

static const struct {
    const char *name;
    size_t offset;
} SYMBOLS[] = {
    {"sqlite3_open_v2", offsetof(struct library, open)},
    {"sqlite3_close", offsetof(struct library, close)},
    {"sqlite3_prepare_v2", offsetof(struct library, prepare)},
    {"sqlite3_step", offsetof(struct library, step)},
    {"sqlite3_finalize", offsetof(struct library, finalize)},
    {"sqlite3_column_int64", offsetof(struct library, column_number)},
    {"sqlite3_column_text", offsetof(struct library, column_text)},
    {"sqlite3_errmsg", offsetof(struct library, message)},
};

// The library stays open until the process ends: it may have registered what runs then.
static bool open_library(struct library *library, const char *path, struct err *err)
{
    void *opened = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; opened && i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *address = dlsym(opened, SYMBOLS[i].name);
        if (!address) opened = NULL;
        memcpy((char *)library + SYMBOLS[i].offset, &address, sizeof address);
    }
    if (opened) return true;
    return err_set(err, ERR_SYSTEM,
                   "%s: a database, which needs the library of SQLite (libsqlite3.so.0, Debian: "
                   "libsqlite3-0)",
                   path);
}

static bool fail(const struct database *database, struct err *err)
{
    const char *said = database->library.message(database->connection);
    return err_set(err, ERR_INPUT, "%s: %s", database->path,
                   plain_copy(database->arena, said ? said : "no database"));
}

struct database *database_open(struct arena *arena, const char *path, struct err *err)
{
    struct database *database = ARENA_NEW(arena, struct database, 1);
    database->arena = arena;
    database->path = plain_copy(arena, path);
    if (!open_library(&database->library, database->path, err)) return NULL;
    if (database->library.open(path, &database->connection, OPEN_READONLY, NULL) == RESULT_OK)
        return database;
    fail(database, err);
    database_close(database);
    return NULL;
}

static void end_question(struct database *database)
{
    if (database->statement) database->library.finalize(database->statement);
    database->statement = NULL;
}

void database_close(struct database *database)
{
    if (!database) return;
    end_question(database);
    database->library.close(database->connection);
}

bool database_ask(struct database *database, const char *sql, struct err *err)
{
    end_question(database);
    int result =
        database->library.prepare(database->connection, sql, -1, &database->statement, NULL);
    return result == RESULT_OK ? true : fail(database, err);
}

bool database_next(struct database *database, struct err *err)
{
    assert(database->statement);
    int result = database->library.step(database->statement);
    if (result != RESULT_ROW && result != RESULT_DONE) return fail(database, err);
    return result == RESULT_ROW;
}

int64_t database_number(const struct database *database, int column)
{
    assert(database->statement && column >= 0);
    return database->library.column_number(database->statement, column);
}

const char *database_text(const struct database *database, int column)
{
    assert(database->statement && column >= 0);
    const void *text = database->library.column_text(database->statement, column);
    return text ? text : "";
}

bool database_has(struct database *database, const char *table, bool *is_there, struct err *err)
{
    assert(!strchr(table, '\'') && "names of tables are ours, and quoted so");
    const char *sql = arena_print(database->arena,
                                  "SELECT count(*) FROM sqlite_master WHERE type IN ('table', "
                                  "'view') AND name = '%s'",
                                  table);
    if (!database_ask(database, sql, err) || !database_next(database, err)) return false;
    *is_there = database_number(database, 0) > 0;
    return true;
}
