#include "reports/training/metrics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Messages are so few and small that they are written by hand: of protobuf there are fields of a
// varint, of four and eight bytes, and of a length with that many bytes.

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };
// Fields of Event, of Summary and of Summary.Value.
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2 };

struct bytes {
    struct arena *arena;
    char *at;
    size_t length, capacity;
};

static void put(struct bytes *bytes, const void *from, size_t count)
{
    if (count == 0) return;
    assert(from);
    bytes->at = arena_text_room(bytes->arena, bytes->at, bytes->length, count, &bytes->capacity);
    memcpy(bytes->at + bytes->length, from, count);
    bytes->length += count;
}

static void put_varint(struct bytes *bytes, uint64_t value)
{
    for (;; value >>= 7) {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(bytes, &byte, 1);
        if (value <= 0x7f) return;
    }
}

static void put_key(struct bytes *bytes, int field, int kind)
{
    assert(field > 0 && kind >= VARINT && kind <= FOUR_BYTES);
    put_varint(bytes, (uint64_t)(field << 3 | kind));
}

static void put_counted(struct bytes *bytes, int field, const void *from, size_t count)
{
    put_key(bytes, field, LENGTH);
    put_varint(bytes, count);
    put(bytes, from, count);
}

// CRC-32C (Castagnoli, reflected), bit by bit: a step has a few hundred bytes.
static uint32_t crc32c(const void *from, size_t count)
{
    const unsigned char *at = from;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < count; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

// As TFRecord masks them (tensorflow/core/lib/hash/crc32c.h), so that a sum of sums is none.
static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_record(struct bytes *bytes, const struct bytes *event)
{
    uint64_t length = event->length;
    uint32_t sum = masked(crc32c(&length, sizeof length));
    put(bytes, &length, sizeof length);
    put(bytes, &sum, sizeof sum);
    put(bytes, event->at, event->length);
    sum = masked(crc32c(event->at, event->length));
    put(bytes, &sum, sizeof sum);
}

static struct bytes event_start(struct arena *arena, double time_s)
{
    struct bytes event = {.arena = arena};
    put_key(&event, EVENT_TIME, EIGHT_BYTES);
    put(&event, &time_s, sizeof time_s);
    return event;
}

char *tensorboard_head(struct arena *arena, double time_s, size_t *bytes)
{
    static const char VERSION[] = "brain.Event:2";
    struct bytes event = event_start(arena, time_s), record = {.arena = arena};
    put_counted(&event, EVENT_VERSION, VERSION, sizeof VERSION - 1);
    put_record(&record, &event);
    *bytes = record.length;
    return record.at;
}

static void put_scalar(struct bytes *summary, const char *tag, double number)
{
    struct bytes value = {.arena = summary->arena};
    float narrow = (float)number;
    if (isnan(number)) return;
    put_counted(&value, VALUE_TAG, tag, strlen(tag));
    put_key(&value, VALUE_NUMBER, FOUR_BYTES);
    put(&value, &narrow, sizeof narrow);
    put_counted(summary, SUMMARY_VALUE, value.at, value.length);
}

char *tensorboard_step(struct arena *arena, const struct step_metrics *metrics, double time_s,
                       size_t *bytes)
{
    struct bytes summary = {.arena = arena}, record = {.arena = arena};
    put_scalar(&summary, "loss", metrics->loss);
    put_scalar(&summary, "validation_loss", metrics->validation_loss);
    put_scalar(&summary, "learning_rate", metrics->learning_rate);
    put_scalar(&summary, "gradient_norm", metrics->gradient_norm);
    put_scalar(&summary, "tokens_per_s", metrics->tokens_per_s);
    struct bytes event = event_start(arena, time_s);
    put_key(&event, EVENT_STEP, VARINT);
    put_varint(&event, (uint64_t)metrics->step);
    put_counted(&event, EVENT_SUMMARY, summary.at, summary.length);
    put_record(&record, &event);
    *bytes = record.length;
    return record.at;
}
