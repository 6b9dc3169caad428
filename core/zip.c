#include "core/zip.h"

#include <assert.h>
#include <string.h>

bool zip_is(const char *bytes, size_t count)
{
    return count > 4 && memcmp(bytes, "PK\003\004", 4) == 0;
}

static uint64_t number_at(const char *at, int count)
{
    uint64_t number = 0;
    for (int i = 0; i < count; i++)
        number |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return number;
}

bool zip_has(const struct zip *zip, uint64_t at, uint64_t count)
{
    return at <= (uint64_t)zip->size && count <= (uint64_t)zip->size - at;
}

// PKWARE's APPNOTE.TXT, sections 4.3.7 to 4.3.16: the directory stands at the end.
static bool find_directory(const struct zip *zip, uint64_t *at, uint64_t *count)
{
    enum { END_BYTES = 22, LOCATOR_BYTES = 20, WIDE_BYTES = 56 };
    enum { END = 0x06054b50, LOCATOR = 0x07064b50, WIDE = 0x06064b50 };
    if (zip->size < END_BYTES) return false;
    const char *end = zip->bytes + zip->size - END_BYTES;
    if (number_at(end, 4) != END) return false;
    *count = number_at(end + 10, 2);
    *at = number_at(end + 16, 4);
    if (zip->size < END_BYTES + LOCATOR_BYTES) return true;
    const char *locator = end - LOCATOR_BYTES;
    if (number_at(locator, 4) != LOCATOR) return true;
    uint64_t wide_at = number_at(locator + 8, 8);
    if (!zip_has(zip, wide_at, WIDE_BYTES)) return false;
    const char *wide = zip->bytes + wide_at;
    if (number_at(wide, 4) != WIDE) return false;
    *count = number_at(wide + 32, 8);
    *at = number_at(wide + 48, 8);
    return true;
}

// A number of the directory that has no room there stands among the extra fields, those of them
// that have none one behind another.
static uint64_t wide_number(const char *extra, uint64_t extra_bytes, uint64_t narrow, int *place)
{
    enum { FULL = 1 };
    if (narrow != UINT32_MAX) return narrow;
    for (uint64_t at = 0; at + 4 <= extra_bytes;) {
        uint64_t id = number_at(extra + at, 2), bytes = number_at(extra + at + 2, 2);
        uint64_t from = 8 * (uint64_t)(*place)++;
        if (id == FULL && from + 8 <= bytes && at + 4 + from + 8 <= extra_bytes)
            return number_at(extra + at + 4 + from, 8);
        --*place;
        at += 4 + bytes;
    }
    return UINT64_MAX;
}

// The entry of the directory at `at`, which moves on behind it. False: it is damaged.
struct entry {
    const char *head, *name, *extra;
    uint64_t name_bytes, extra_bytes;
};

enum { HEAD_BYTES = 46, LOCAL_BYTES = 30 };

static bool next_entry(const struct zip *zip, uint64_t *at, struct entry *entry)
{
    enum { HEAD = 0x02014b50 };
    if (!zip_has(zip, *at, HEAD_BYTES) || number_at(zip->bytes + *at, 4) != HEAD) return false;
    const char *head = zip->bytes + *at;
    uint64_t name_bytes = number_at(head + 28, 2), extra_bytes = number_at(head + 30, 2);
    uint64_t all = HEAD_BYTES + name_bytes + extra_bytes + number_at(head + 32, 2);
    if (!zip_has(zip, *at, all)) return false;
    *at += all;
    const char *name = head + HEAD_BYTES;
    *entry = (struct entry){head, name, name + name_bytes, name_bytes, extra_bytes};
    return true;
}

static bool open_entry(const struct zip *zip, const struct entry *entry, struct zip *member)
{
    enum { ENCRYPTED = 1 };
    int place = 0;
    const char *head = entry->head, *extra = entry->extra;
    uint64_t bytes = wide_number(extra, entry->extra_bytes, number_at(head + 24, 4), &place);
    uint64_t packed = wide_number(extra, entry->extra_bytes, number_at(head + 20, 4), &place);
    uint64_t local = wide_number(extra, entry->extra_bytes, number_at(head + 42, 4), &place);
    int method = (int)number_at(head + 10, 2);
    bool is_stored = method == ZIP_STORED;
    if ((number_at(head + 8, 2) & ENCRYPTED) || (is_stored && packed != bytes)) return false;
    if (!zip_has(zip, local, LOCAL_BYTES) || bytes > INT64_MAX) return false;
    const char *from = zip->bytes + local;
    local += LOCAL_BYTES + number_at(from + 26, 2) + number_at(from + 28, 2);
    if (!zip_has(zip, local, packed)) return false;
    *member = (struct zip){zip->bytes + local, (int64_t)packed, method, (int64_t)bytes};
    return true;
}

static bool ends_so(const char *name, uint64_t name_bytes, const char *end)
{
    uint64_t end_bytes = strlen(end);
    return name_bytes >= end_bytes && memcmp(name + name_bytes - end_bytes, end, end_bytes) == 0;
}

bool zip_find_in(const struct zip *zip, const char *folder, const char *end, struct zip *member)
{
    assert(folder && end && member);
    uint64_t at, count;
    struct entry entry;
    if (!find_directory(zip, &at, &count)) return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!next_entry(zip, &at, &entry)) return false;
        if (!ends_so(entry.name, entry.name_bytes, end)) continue;
        uint64_t stem = entry.name_bytes;
        while (*folder && stem > 0 && entry.name[stem - 1] != '/')
            stem--;
        if (ends_so(entry.name, stem, folder)) return open_entry(zip, &entry, member);
    }
    return false;
}

bool zip_find(const struct zip *zip, const char *end, struct zip *member)
{
    assert(zip->bytes && end && member);
    return zip_find_in(zip, "", end, member);
}
