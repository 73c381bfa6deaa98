#include "text.hpp"

namespace tidings {

bool is_utf8(View bytes) {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.at);
    const auto* end = at + bytes.size;
    while (at < end) {
        if (end - at >= 8) {
            uint64_t word;
            std::memcpy(&word, at, 8);
            if (!(word & 0x8080808080808080ull)) {
                at += 8;
                continue;
            }
        }
        const unsigned first = *at;
        if (first < 0x80) {
            ++at;
            continue;
        }
        const int more = first >= 0xC2 && first < 0xE0 ? 1 : (first & 0xF0) == 0xE0 ? 2 : first >= 0xF0 && first < 0xF5 ? 3 : 0;
        if (!more || end - at <= more) return false;
        for (int i = 1; i <= more; ++i)
            if ((at[i] & 0xC0) != 0x80) return false;
        const unsigned second = at[1];
        if (first == 0xE0 && second < 0xA0) return false;  // longer than it must be
        if (first == 0xED && second > 0x9F) return false;  // a surrogate
        if (first == 0xF0 && second < 0x90) return false;
        if (first == 0xF4 && second > 0x8F) return false;  // beyond U+10FFFF
        at += more + 1;
    }
    return true;
}

size_t found(View text, View part, size_t from) {
    if (part.size == 0) return from;
    if (part.size > text.size) return text.size;
    const char* last = text.at + (text.size - part.size);
    for (const char* at = text.at + from; at <= last; ++at) {
        at = static_cast<const char*>(std::memchr(at, part.at[0], static_cast<size_t>(last - at) + 1));
        if (at == nullptr) break;
        if (!std::memcmp(at, part.at, part.size)) return static_cast<size_t>(at - text.at);
    }
    return text.size;
}

namespace {

// One token of a pattern; `next` is where the following one begins.
struct Step {
    Pattern::Token token;
    View literal;
    size_t next;
};

Step step(View pattern, size_t at) {
    const auto token = static_cast<Pattern::Token>(pattern.at[at]);
    if (token != Pattern::Literal) return {token, {nullptr, 0}, at + 1};
    uint32_t size;
    std::memcpy(&size, pattern.at + at + 1, sizeof size);
    const size_t begin = at + 1 + sizeof size;
    return {token, {pattern.at + begin, size}, begin + size};
}

inline bool is_inner(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

inline size_t after(View text, size_t at) {
    do ++at;
    while (at < text.size && is_inner(text.at[at]));
    return at;
}

constexpr size_t NOWHERE = SIZE_MAX;

// Where a part without `%` that begins here ends, or NOWHERE.
size_t fitted(View pattern, size_t begin, size_t end, View text, size_t at) {
    while (begin < end) {
        const Step next = step(pattern, begin);
        if (next.token == Pattern::One) {
            if (at >= text.size) return NOWHERE;
            at = after(text, at);
        } else {
            if (text.size - at < next.literal.size) return NOWHERE;
            if (std::memcmp(text.at + at, next.literal.at, next.literal.size)) return NOWHERE;
            at += next.literal.size;
        }
        begin = next.next;
    }
    return at;
}

// Where a part without `%` would have to begin in order to end with the text, or NOWHERE.
size_t last_place(View pattern, size_t begin, size_t end, View text) {
    size_t points = 0, bytes = 0;  // wildcards, and bytes of literals
    for (size_t at = begin; at < end;) {
        const Step next = step(pattern, at);
        if (next.token == Pattern::One) {
            ++points;
        } else {
            for (size_t i = 0; i < next.literal.size; ++i) points += !is_inner(next.literal.at[i]);
            bytes += next.literal.size;
        }
        at = next.next;
    }
    if (bytes > text.size) return NOWHERE;
    size_t at = text.size;
    for (; points; --points) {
        if (at == 0) return NOWHERE;
        do --at;
        while (at > 0 && is_inner(text.at[at]));
    }
    return at;
}

}  // namespace

void Pattern::append(std::string& pattern, Token token, View literal) {
    pattern.push_back(token);
    if (token != Literal) return;
    const auto size = static_cast<uint32_t>(literal.size);
    pattern.append(reinterpret_cast<const char*>(&size), sizeof size);
    pattern.append(literal.at, literal.size);
}

bool Pattern::fits(View pattern, View text) {
    // What stands between two `%` is best found as early as possible, so each finding is final.
    size_t begin = 0, at = 0;
    for (bool first = true;; first = false) {
        size_t end = begin;
        bool plain = true;
        while (end < pattern.size && pattern.at[end] != Any) {
            plain = plain && pattern.at[end] == Literal;
            end = step(pattern, end).next;
        }
        const bool last = end >= pattern.size;
        if (first) {
            at = fitted(pattern, begin, end, text, 0);
            if (at == NOWHERE) return false;
            if (last) return at == text.size;
        } else if (last) {
            const size_t place = last_place(pattern, begin, end, text);
            return place != NOWHERE && place >= at && fitted(pattern, begin, end, text, place) == text.size;
        } else if (begin < end) {
            size_t reached = NOWHERE;
            while (true) {
                if (plain) {  // adjacent literals are one token, so the first is the part
                    const Step literal = step(pattern, begin);
                    at = found(text, literal.literal, at);
                    if (at >= text.size && literal.literal.size) return false;
                }
                reached = fitted(pattern, begin, end, text, at);
                if (reached != NOWHERE || at >= text.size) break;
                at = after(text, at);
            }
            if (reached == NOWHERE) return false;
            at = reached;
        }
        begin = end + 1;
    }
}

View Pattern::head(View pattern) {
    if (!pattern.size || pattern.at[0] != Literal) return {nullptr, 0};
    return step(pattern, 0).literal;
}

View Pattern::tail(View pattern) {
    View tail{nullptr, 0};
    for (size_t at = 0; at < pattern.size;) {
        const Step next = step(pattern, at);
        tail = next.literal;
        at = next.next;
    }
    return tail;
}

View Pattern::longest(View pattern) {
    View longest{nullptr, 0};
    for (size_t at = 0; at < pattern.size;) {
        const Step next = step(pattern, at);
        if (next.literal.size > longest.size) longest = next.literal;
        at = next.next;
    }
    return longest;
}

}  // namespace tidings
