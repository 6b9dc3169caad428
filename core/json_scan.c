#include "core/json_scan.h"
#include "core/plain.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

static const char NOT_JSON[] = "not valid JSON from here on";
static const char HEX_DIGITS[] = "0123456789abcdefABCDEF";

// A walk over the text; `why` is set at the first fault, and `offset` stays there.
struct json_scan {
    const char *text;
    size_t offset;
    int depth_left;
    const char *why;
};

size_t json_skip_mark(const char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

size_t json_skip_blanks(const char *text, size_t offset)
{
    while (text[offset] == ' ' || text[offset] == '\n' || text[offset] == '\t' ||
           text[offset] == '\r')
        offset++;
    return offset;
}

static bool is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

static size_t skip_digits(const char *text, size_t offset)
{
    while (is_digit(text[offset]))
        offset++;
    return offset;
}

// RFC 8259: no leading zero, and a digit on both sides of the point. 0 if this is no number.
static size_t skip_number(const char *text, size_t offset)
{
    if (text[offset] == '-') offset++;
    if (!is_digit(text[offset])) return 0;
    offset = text[offset] == '0' ? offset + 1 : skip_digits(text, offset);
    if (text[offset] == '.') {
        if (!is_digit(text[++offset])) return 0;
        offset = skip_digits(text, offset);
    }
    if (text[offset] == 'e' || text[offset] == 'E') {
        offset++;
        if (text[offset] == '+' || text[offset] == '-') offset++;
        if (!is_digit(text[offset])) return 0;
        offset = skip_digits(text, offset);
    }
    return is_digit(text[offset]) || text[offset] == '.' ? 0 : offset;
}

static bool fail(struct json_scan *scan, const char *why)
{
    if (!scan->why) scan->why = why;
    return false;
}

// The byte after blanks; NUL at the end.
static char next(struct json_scan *scan)
{
    scan->offset = json_skip_blanks(scan->text, scan->offset);
    return scan->text[scan->offset];
}

static bool take(struct json_scan *scan, char wanted)
{
    if (next(scan) != wanted) return fail(scan, NOT_JSON);
    scan->offset++;
    return true;
}

static bool scan_string(struct json_scan *scan)
{
    if (!take(scan, '"')) return false;
    while (scan->text[scan->offset] != '"') {
        const char *at = scan->text + scan->offset;
        // Nearly all of any text: a character of one byte that stands for itself.
        if (*at >= ' ' && *at < 0x7f && *at != '\\') {
            scan->offset++;
            continue;
        }
        if (!*at) return fail(scan, NOT_JSON);
        if ((unsigned char)*at < ' ') return fail(scan, "a control character must be escaped");
        if (strncmp(at, "\\u0000", 6) == 0) return fail(scan, "a text cannot hold a NUL");
        size_t length = plain_utf8_length(at);
        if (length == 0) return fail(scan, "not valid UTF-8");
        if (*at == '\\' && (!at[1] || !strchr("\"\\/bfnrtu", at[1]))) return fail(scan, NOT_JSON);
        bool is_number = strncmp(at, "\\u", 2) == 0;
        if (is_number && strspn(at + 2, HEX_DIGITS) < 4) return fail(scan, NOT_JSON);
        scan->offset += *at == '\\' ? 2 : length;
    }
    scan->offset++;
    return true;
}

static bool scan_number(struct json_scan *scan)
{
    size_t end = skip_number(scan->text, scan->offset);
    if (!end) return fail(scan, "not a number");
    scan->offset = end;
    return true;
}

static bool scan_literal(struct json_scan *scan)
{
    static const char *const LITERALS[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(LITERALS[i]);
        if (strncmp(scan->text + scan->offset, LITERALS[i], length) != 0) continue;
        scan->offset += length;
        return true;
    }
    return fail(scan, NOT_JSON);
}

static bool scan_value(struct json_scan *scan);

// What stands between brackets; an object's members start with a key and a colon.
static bool scan_members(struct json_scan *scan, char close)
{
    if (scan->depth_left-- == 0) return fail(scan, "nested too deep");
    scan->offset++;
    bool is_empty = next(scan) == close;
    while (!is_empty) {
        if (close == '}' && !(next(scan) == '"' && scan_string(scan) && take(scan, ':'))) {
            return fail(scan, NOT_JSON);
        }
        if (!scan_value(scan)) return false;
        if (next(scan) == close) break;
        if (!take(scan, ',')) return false;
    }
    scan->depth_left++;
    return take(scan, close);
}

static bool scan_value(struct json_scan *scan)
{
    char letter = next(scan);
    if (letter == '{') return scan_members(scan, '}');
    if (letter == '[') return scan_members(scan, ']');
    if (letter == '"') return scan_string(scan);
    if (letter == '-' || is_digit(letter)) return scan_number(scan);
    return scan_literal(scan);
}

const char *json_scan(const char *text, size_t bytes, int depth_max, size_t *offset)
{
    const char *nul = memchr(text, '\0', bytes);
    if (nul) {
        *offset = (size_t)(nul - text);
        return "a NUL byte";
    }
    struct json_scan scan = {.text = text, .offset = json_skip_mark(text), .depth_left = depth_max};
    if (scan_value(&scan) && next(&scan) != '\0') fail(&scan, NOT_JSON);
    *offset = scan.offset;
    return scan.why;
}

size_t json_skip_value(const char *text, size_t offset)
{
    struct json_scan scan = {.text = text, .offset = offset, .depth_left = INT_MAX};
    scan_value(&scan);
    return scan.offset;
}
