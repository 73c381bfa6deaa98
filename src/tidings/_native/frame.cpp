#include "frame.hpp"

#include <cstring>

#include "cursor.hpp"
#include "text.hpp"

namespace tidings {

namespace {

constexpr unsigned KINDS_OF_PARTS = 8;  // as in tidings.wire.Part

// A frame is an array of two; its message one of seven, or of five as clients wrote it before there were causes. Behind
// the tag are its fields; no cause, no session that it opens; then the hop of a client.
constexpr char FRAME = '\x92', FIVE = '\x95', SEVEN = '\x97';
constexpr char TAG[] = {'\xA7', 'P', 'u', 'b', 'l', 'i', 's', 'h'};
constexpr char CLOSING[] = {'\x90', '\xC0', '\x93', '\x00', '\xC0', '\xC0'};
constexpr size_t OPENING = 2 + sizeof TAG, SINCE_CAUSES = 2;

uint64_t big(const unsigned char* at, int size) {
    uint64_t value = 0;
    for (int n = 0; n < size; ++n) value = value << 8 | at[n];
    return value;
}

void put_big(std::string& into, uint64_t value, int size) {
    char bytes[8];
    for (int n = size - 1; n >= 0; --n, value >>= 8) bytes[n] = static_cast<char>(value & 0xFF);
    into.append(bytes, static_cast<size_t>(size));
}

bool take_number(const unsigned char*& at, const unsigned char* end, uint64_t& number) {
    if (at == end) return false;
    const unsigned tag = *at++;
    if (tag < 0x80) {
        number = tag;
        return true;
    }
    if (tag < 0xCC || tag > 0xCF) return false;
    const int size = 1 << (tag - 0xCC);
    if (end - at < size) return false;
    number = big(at, size);
    at += size;
    return true;
}

bool take_bytes(const unsigned char*& at, const unsigned char* end, View& bytes) {
    if (at == end) return false;
    const unsigned tag = *at++;
    if (tag < 0xC4 || tag > 0xC6) return false;
    const int width = 1 << (tag - 0xC4);
    if (end - at < width) return false;
    const uint64_t size = big(at, width);
    at += width;
    if (static_cast<uint64_t>(end - at) < size) return false;
    bytes = {reinterpret_cast<const char*>(at), static_cast<size_t>(size)};
    at += size;
    return true;
}

constexpr char DELIVER[] = {'\x92', '\x93', '\xA7', 'D', 'e', 'l', 'i', 'v', 'e', 'r', '\x94', '\x98'};
constexpr int DEEPEST = 4;  // in routes: each has a path and tags
constexpr char NOTIFY[] = {'\x92', '\x92', '\xA6', 'N', 'o', 't', 'i', 'f', 'y', '\x94', '\x98'};

// A number in its shortest form.
bool take_short(const unsigned char*& at, const unsigned char* end, uint64_t& number) {
    const unsigned char* const begun = at;
    if (!take_number(at, end, number) || number > MAX_NUMBER) return false;
    const long size = number < 0x80 ? 1 : number <= UINT8_MAX ? 2 : number <= UINT16_MAX ? 3 : number <= UINT32_MAX ? 5 : 9;
    return at - begun == size;
}

// A text of at most 255 bytes in its shortest form.
bool take_text(const unsigned char*& at, const unsigned char* end, View& text) {
    if (at == end) return false;
    const unsigned tag = *at++;
    size_t size = tag - 0xA0;
    if (tag == 0xD9) {
        if (at == end) return false;
        size = *at++;
        if (size < 32) return false;
    } else if (tag < 0xA0 || tag > 0xBF) {
        return false;
    }
    if (static_cast<size_t>(end - at) < size) return false;
    text = {reinterpret_cast<const char*>(at), size};
    at += size;
    return is_utf8(text);
}

View view(const std::string& text) { return {text.data(), text.size()}; }

// As `take_text`, and faster if it is a text that was read before.
bool take_known(const unsigned char*& at, const unsigned char* end, View known, View& text) {
    const size_t header = known.size < 32 ? 1 : 2, left = static_cast<size_t>(end - at);
    if (known.at != nullptr && left >= header + known.size && std::memcmp(at, known.at - header, header + known.size) == 0) {
        text = {reinterpret_cast<const char*>(at + header), known.size};
        at += header + known.size;
        return true;
    }
    return take_text(at, end, text);
}

bool take_just(const unsigned char*& at, const unsigned char* end, View bytes) {
    if (static_cast<size_t>(end - at) < bytes.size || std::memcmp(at, bytes.at, bytes.size) != 0) return false;
    at += bytes.size;
    return true;
}

}  // namespace

bool is_passing(View frame, View routes, const Scoped& scoped, View hop, Passing& into) {
    const auto* at = reinterpret_cast<const unsigned char*>(frame.at);
    const unsigned char* const end = at + frame.size;
    if (!take_just(at, end, {NOTIFY, sizeof NOTIFY})) return false;
    const unsigned char* const envelope = at - 2;
    uint64_t number;
    if (!take_text(at, end, into.origin) || !take_short(at, end, into.epoch) || !take_short(at, end, into.seq)) return false;
    if (!take_text(at, end, into.publisher)) return false;
    for (int n = 0; n < 2; ++n)  // the publisher's number, the time
        if (!take_short(at, end, number)) return false;
    const bool is_scoped = !scoped.before.empty();
    if (is_scoped ? !take_just(at, end, view(scoped.version)) : !take_short(at, end, number)) return false;
    if (at == end) return false;
    if (*at == 0xC0) ++at;
    else if (!take_short(at, end, number)) return false;
    const unsigned char* const route = at;
    if (routes.size == 0 || !take_just(at, end, routes)) {
        View source;
        if (!is_scoped || !take_just(at, end, view(scoped.before)) || !take_text(at, end, source)) return false;
        if (!take_just(at, end, view(scoped.after))) return false;
    }
    into.routes = {reinterpret_cast<const char*>(route), static_cast<size_t>(at - route)};
    const unsigned char* const begun = at;
    if (!take_bytes(at, end, into.body)) return false;
    const size_t header = into.body.size <= UINT8_MAX ? 2 : into.body.size <= UINT16_MAX ? 3 : 5;
    if (static_cast<size_t>(at - begun) != header + into.body.size) return false;
    if (at == end || *at++ > 3) return false;
    into.envelope = {reinterpret_cast<const char*>(envelope), static_cast<size_t>(at - envelope)};
    return take_just(at, end, hop) && at == end;
}

bool is_delivery(View frame, const Delivery* before, Delivery& into) {
    const auto* at = reinterpret_cast<const unsigned char*>(frame.at);
    const unsigned char* const end = at + frame.size;
    if (!take_just(at, end, {DELIVER, sizeof DELIVER})) return false;
    uint64_t number;
    constexpr View none{nullptr, 0};
    if (!take_known(at, end, before ? before->origin : none, into.origin)) return false;
    if (!take_short(at, end, into.epoch) || !take_short(at, end, into.seq)) return false;
    if (!take_known(at, end, before ? before->publisher : none, into.publisher)) return false;
    if (!take_short(at, end, into.publisher_seq)) return false;
    for (int n = 0; n < 2; ++n)  // the time, the version of the graph
        if (!take_short(at, end, number)) return false;
    if (at == end) return false;
    if (*at == 0xC0) ++at;
    else if (!take_short(at, end, number)) return false;
    const auto* const routes = reinterpret_cast<const char*>(at);
    if (before == nullptr || !take_just(at, end, before->routes)) {
        Cursor cursor({routes, static_cast<size_t>(end - at)});
        if (!skip(cursor, DEEPEST)) return false;
        at = reinterpret_cast<const unsigned char*>(cursor.here());
    }
    into.routes = {routes, static_cast<size_t>(reinterpret_cast<const char*>(at) - routes)};
    if (!take_bytes(at, end, into.body) || at == end || *at++ > 3) return false;
    into.closing = {reinterpret_cast<const char*>(at), static_cast<size_t>(end - at)};
    return true;
}

bool is_plain(View frame, Publication& into) {
    if (frame.size < OPENING || frame.at[0] != FRAME || (frame.at[1] != FIVE && frame.at[1] != SEVEN)) return false;
    if (std::memcmp(frame.at + 2, TAG, sizeof TAG) != 0) return false;
    const auto* at = reinterpret_cast<const unsigned char*>(frame.at);
    const unsigned char* const end = at + frame.size;
    at += OPENING;
    if (!take_number(at, end, into.seq) || into.seq > MAX_NUMBER || !take_bytes(at, end, into.body)) return false;
    if (at == end || *at > 3) return false;
    into.quality = *at++;
    into.ttl = 0;
    into.has_ttl = at != end && *at != 0xC0;
    if (into.has_ttl) {
        if (!take_number(at, end, into.ttl) || into.ttl > MAX_NUMBER) return false;
    } else if (at++ == end) {
        return false;
    }
    const size_t skipped = frame.at[1] == FIVE ? SINCE_CAUSES : 0, closing = sizeof CLOSING - skipped;
    return static_cast<size_t>(end - at) == closing && std::memcmp(at, CLOSING + skipped, closing) == 0;
}

size_t whole_part(View bytes, unsigned& kind) {
    if (bytes.size < PART_HEADER) return 0;
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.at);
    const uint64_t size = 4 + big(at, 4);
    kind = at[4];
    return size >= PART_HEADER && size <= bytes.size ? static_cast<size_t>(size) : 0;
}

bool is_sound(View bytes, size_t limit) {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.at);
    size_t left = bytes.size;
    while (left >= PART_HEADER) {
        const uint64_t length = big(at, 4);
        if (length == 0 || length > limit || at[4] >= KINDS_OF_PARTS) return false;
        if (4 + length > left) break;
        at += 4 + length;
        left -= 4 + static_cast<size_t>(length);
    }
    return true;
}

void put_number(std::string& into, uint64_t number) {
    if (number < 0x80) {
        into.push_back(static_cast<char>(number));
        return;
    }
    const int power = number <= UINT8_MAX ? 0 : number <= UINT16_MAX ? 1 : number <= UINT32_MAX ? 2 : 3;
    into.push_back(static_cast<char>(0xCC + power));
    put_big(into, number, 1 << power);
}

void put_bytes(std::string& into, View bytes) {
    const int power = bytes.size <= UINT8_MAX ? 0 : bytes.size <= UINT16_MAX ? 1 : 2;
    into.push_back(static_cast<char>(0xC4 + power));
    put_big(into, bytes.size, 1 << power);
    into.append(bytes.at, bytes.size);
}

void put_part(std::string& into, std::initializer_list<View> pieces) {
    size_t size = 1;
    for (const View piece : pieces) size += piece.size;
    put_big(into, size, 4);
    into.push_back('\0');
    for (const View piece : pieces) into.append(piece.at, piece.size);
}

}  // namespace tidings
