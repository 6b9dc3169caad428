#include "core/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Parts of the text may come from a file or the command line: whatever they hold, an error stays
// one printable line. A text that is cut says so.
static void make_one_line(char *text, size_t size, bool is_cut)
{
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    }
    if (!is_cut) return;
    size_t end = size - sizeof "...";
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof "...");
}

bool err_set(struct err *err, enum err_kind kind, const char *format, ...)
{
    assert(kind != ERR_NONE);
    if (err->kind) return false;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    assert(length >= 0);
    make_one_line(err->text, sizeof err->text, (size_t)length >= sizeof err->text);
    err->kind = kind;
    return false;
}
