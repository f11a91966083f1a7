// What the main programs of all simulators have in common: the bits of ports as Verilator keeps them, bytes as hexadecimal digits, and the lines.
//
// A program is told lines on standard input. Each is a command and its words, and is answered by any number of lines and one `end TIME`. A line that
// makes no sense is answered by `error WHY`, and what must never be, whenever it is seen, by `fault WHAT`. The engines' examples `answers` speak
// so, too, without a time; rtl/bench/lines.py is the other end.

#pragma once

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace sim {

using Bytes = std::vector<uint8_t>;

// Bits of a port of any width: a number up to 64, an array of words beyond.
template <typename T>
uint64_t get(const T& port, int low, int width) {
  uint64_t value = 0;
  if constexpr (std::is_integral_v<T>) {
    value = static_cast<uint64_t>(port) >> low;
  } else {
    for (int i = 0; i < width; i++) value |= static_cast<uint64_t>(port[(low + i) / 32] >> ((low + i) % 32) & 1) << i;
  }
  return width == 64 ? value : value & ((1ULL << width) - 1);
}

template <typename T>
void set(T& port, int low, int width, uint64_t value) {
  if constexpr (std::is_integral_v<T>) {
    const uint64_t mask = (width == 64 ? ~0ULL : (1ULL << width) - 1) << low;
    port = static_cast<T>((static_cast<uint64_t>(port) & ~mask) | ((value << low) & mask));
  } else {
    for (int i = 0; i < width; i++) {
      uint32_t& word = port[(low + i) / 32];
      const uint32_t bit = 1u << ((low + i) % 32);
      word = (value >> i) & 1 ? word | bit : word & ~bit;
    }
  }
}

inline std::string hex(const Bytes& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// The words of a line behind its command.
class Words {
 public:
  explicit Words(const std::string& line) : line_(line) {}

  std::string text() {
    std::string word;
    if (!(line_ >> word)) throw std::invalid_argument("another word");
    return word;
  }
  // In decimal digits, or in hexadecimal ones behind 0x.
  int64_t number() {
    const std::string word = text();
    try {
      size_t end = 0;
      const auto value = static_cast<int64_t>(std::stoull(word, &end, 0));
      if (end == word.size()) return value;
    } catch (const std::exception&) {
    }
    throw std::invalid_argument("a number in place of " + word);
  }
  // From 0, and less than `end`.
  int64_t below(int64_t end) {
    const int64_t value = number();
    if (value < 0 || value >= end) throw std::invalid_argument("a number below " + std::to_string(end) + " in place of " + std::to_string(value));
    return value;
  }
  Bytes bytes() {
    const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    const std::string word = text();
    Bytes found(word.size() / 2);
    for (size_t i = 0; i < word.size(); i++) {
      if (digit(word[i]) < 0 || word.size() % 2 != 0) throw std::invalid_argument("pairs of hexadecimal digits in place of " + word);
      found[i / 2] = static_cast<uint8_t>(found[i / 2] << 4 | digit(word[i]));
    }
    return found;
  }
  bool more() { return !(line_ >> std::ws).eof(); }

 private:
  std::istringstream line_;
};

using Commands = std::map<std::string, std::function<void(Words&)>>;

// Answers lines until there are no more.
inline int serve(const int64_t& now, const Commands& commands) {
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  std::string line;
  while (std::getline(std::cin, line)) {
    Words words(line);
    try {
      const auto found = commands.find(words.text());
      if (found == commands.end()) throw std::invalid_argument("a command");
      found->second(words);
      if (words.more()) throw std::invalid_argument("no more words");
    } catch (const std::invalid_argument& error) {
      std::cout << "error expected " << error.what() << ", found: " << line.substr(0, 100) << "\n";
    }
    std::cout << "end " << now << "\n";
    // Whoever waits for the answer before he tells more.
    if (std::cin.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  return 0;
}

}  // namespace sim
