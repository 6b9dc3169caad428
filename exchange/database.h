#pragma once
#include "core/err.h"

#include <stdint.h>

// Databases of SQLite, read alone, by its library where the system has one: it is opened at run
// time (libsqlite3.so.0, whose interface is fixed since 3.5.0: sqlite.org/capi3ref.html), so that
// nothing else needs it.

struct database;

// What the first 16 bytes of such a file are, the NUL behind them included (sqlite.org/fileformat2,
// 1.3).
#define DATABASE_MARK "SQLite format 3"

// NULL and ERR_SYSTEM where the library is not there, ERR_INPUT where the file is no database. To
// be closed; NULL may be.
MUST_CHECK struct database *database_open(struct arena *arena, const char *path, struct err *err);
void database_close(struct database *database);

// Asks for rows; the question before is over then. ERR_INPUT with what the library says, which
// names a table or column that is missing.
MUST_CHECK bool database_ask(struct database *database, const char *sql, struct err *err);
// The next row. False behind the last, and where reading fails: then `err` is set.
MUST_CHECK bool database_next(struct database *database, struct err *err);
// Columns of the row, from 0; of what is absent 0 and "". A text lives until the next row.
int64_t database_number(const struct database *database, int column);
const char *database_text(const struct database *database, int column);

// Whether there is a table of this name, which ends the question before.
MUST_CHECK bool database_has(struct database *database, const char *table, bool *is_there,
                             struct err *err);
