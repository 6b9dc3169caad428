#pragma once
#include "core/arena.h"

#include <stdint.h>

// A zip archive in memory (PKWARE's APPNOTE.TXT), or a member of one. Nothing is copied: a member
// points into the archive. Archives with encryption or in several parts are none.
struct zip {
    const char *bytes;
    int64_t size;
    int method;           // of a member: how it is packed
    int64_t whole_bytes;  // of a member: unpacked; as `size` where it is stored
};

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

// Whether a file begins as a zip with members does.
bool zip_is(const char *bytes, size_t count);
// Whether `count` bytes from `at` on are inside.
bool zip_has(const struct zip *zip, uint64_t at, uint64_t count);
// The first member whose name ends so. False: there is none, or the archive is damaged.
bool zip_find(const struct zip *zip, const char *end, struct zip *member);
// The same of a folder: its name ends in `folder` (which ends in a slash) and a part without slash
// that ends in `end`.
bool zip_find_in(const struct zip *zip, const char *folder, const char *end, struct zip *member);
