// CAIS's merge unit under Verilator, driven by lines (rtl/bench/sim.h): the accelerators around the switch, among them the home.
//
//   seed N                       begins the random numbers anew
//   pace LOW HIGH                a packet begins so many cycles after the one before it has come
//   stall PERCENT                of cycles, in which nothing is taken that leaves
//   home LOW HIGH                the home answers a read of the unit's so many cycles after it has come; `home` alone: never
//   unit HOME PARTICIPANTS TYPE [MUTATION]   a reset; TYPE: 0 binary32, 1 binary16, 2 bfloat16; MUTATION is a number of merge_control's, 0 is none
//   packet PORT HEX [GAP]        one that is to come; so many cycles after the one before it, whatever the pace
//   run [CYCLES]                 until all have come and nothing happens any more, and so many cycles more
//
// A run is answered by, in the order of time:
//   in FIRST LAST                a packet has come, from cycle to cycle
//   decided AT DROP PORT HEX     a packet, as it was given; DROP is a number of drop_e, 0 is none
//   expired AT                   an entry or a group has timed out
//   out PORT FIRST LAST HEX      a packet has left, from cycle to cycle, of both streams
//   taken N                      entries that are left, at the end

#include <deque>
#include <random>

#include "Vtop.h"
#include "../../bench/sim.h"
#include "verilated.h"

namespace {

using sim::Bytes;
using sim::Words;

constexpr int kPorts = PORTS;
constexpr size_t kFlit = 16;
constexpr int kKindRead = 1;
constexpr int kKindReadResponse = 2;
constexpr int kKindSync = 13;
constexpr int kNode = 64;

struct Packet {
  int port;
  Bytes bytes;
  int64_t gap;
};

struct Bench {
  Vtop top;
  int64_t now = 0;
  std::mt19937_64 random;
  int64_t low = 0, high = 0, home_low = 20, home_high = 60;
  bool home_answers = true;
  uint32_t stall = 0;
  int home = 0;
  std::deque<Packet> told;
  // Answers of the home, and when each may come.
  std::deque<std::pair<int64_t, Packet>> answers;
  // What is coming, from which of its bytes; and what has come and was not decided, merges and syncs.
  bool busy = false;
  Packet current;
  size_t sent = 0;
  int64_t next_at = 0, came = 0;
  std::deque<Packet> merges, syncs;
  // What is leaving by each port, and since when.
  Bytes leaving_by[16];
  int64_t first_of[16] = {};

  int64_t between(int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1)); }

  void reset(Words& words) {
    home = static_cast<int>(words.below(kPorts));
    const auto participants = words.below(kPorts + 1);
    const auto type = words.below(3);
    top.home_i = home;
    top.participants_i = participants;
    top.type_i = type;
    top.mutation_i = words.more() ? words.below(16) : 0;
    top.node_i = kNode;
    top.valid_i = 0;
    top.ready_i = 0;
    top.release_ready_i = 0;
    top.rst_ni = 0;
    for (int i = 0; i < 4; i++) tick();
    top.rst_ni = 1;
    now = 0;
    next_at = 0;
    busy = false;
    told.clear();
    answers.clear();
    merges.clear();
    syncs.clear();
    for (Bytes& leaving : leaving_by) leaving.clear();
  }

  void tick() {
    top.clk_i = 0;
    top.eval();
    top.clk_i = 1;
    top.eval();
    now++;
  }

  static bool is_sync(const Bytes& bytes) { return bytes[0] >> 4 == kKindSync && bytes.size() <= kFlit; }

  // The next packet, if it may come now.
  void choose() {
    const bool answer = !answers.empty() && answers.front().first <= now;
    const bool request = !told.empty() && now >= next_at + (told.front().gap >= 0 ? told.front().gap : 0);
    if (answer && (!request || random() % 2 == 0)) {
      current = answers.front().second;
      answers.pop_front();
    } else if (request) {
      current = told.front();
      told.pop_front();
    } else {
      return;
    }
    busy = true;
    sent = 0;
  }

  void left(int port, int64_t first, const Bytes& flits) {
    const size_t length = static_cast<size_t>(flits[10]) << 8 | flits[11];
    const int kind = flits[0] >> 4;
    const size_t body = kind == kKindRead || kind == 14 ? 0 : length;
    Bytes bytes(flits.begin(), flits.begin() + static_cast<int64_t>(std::min(flits.size(), kFlit + body)));
    if (flits.size() != kFlit * (1 + (body + kFlit - 1) / kFlit)) std::cout << "fault a packet of " << flits.size() << " bytes for " << body << "\n";
    std::cout << "out " << port << " " << first << " " << now << " " << sim::hex(bytes) << "\n";
    const int source = flits[1] << 4 | flits[2] >> 4;
    if (kind == kKindRead && source == kNode && home_answers) {
      Bytes answer(kFlit + length);
      // From the home, to the switch, without the CAIS bit; address, length and tag are the read's.
      answer[0] = kKindReadResponse << 4;
      answer[1] = static_cast<uint8_t>(home >> 4);
      answer[2] = static_cast<uint8_t>(home << 4 | kNode >> 8);
      answer[3] = kNode & 255;
      for (size_t i = 4; i < 15; i++) answer[i] = flits[i];
      for (size_t i = kFlit; i < answer.size(); i++) answer[i] = static_cast<uint8_t>(random());
      answers.push_back({now + between(home_low, home_high), {home, answer, -1}});
    }
  }

  void cycle() {
    if (!busy) choose();
    const bool shown = busy;
    top.valid_i = shown;
    if (shown) {
      const size_t end = std::min(current.bytes.size(), sent + kFlit);
      for (size_t i = 0; i < kFlit; i++) sim::set(top.flit_i, static_cast<int>(8 * i), 8, sent + i < end ? current.bytes[sent + i] : 0);
      top.last_i = end == current.bytes.size();
      top.port_i = current.port;
    }
    top.ready_i = random() % 100 >= stall;
    top.release_ready_i = random() % 100 >= stall;
    top.clk_i = 0;
    top.eval();
    if (shown && top.ready_o) {
      if (sent == 0) came = now;
      sent += kFlit;
      if (sent == kFlit) (is_sync(current.bytes) ? syncs : merges).push_back(current);
      if (sent >= current.bytes.size()) {
        busy = false;
        std::cout << "in " << came << " " << now << "\n";
        next_at = now + 1 + between(low, high);
      }
    }
    if (top.expired_o) std::cout << "expired " << top.at_o << "\n";
    if (top.sync_expired_o) std::cout << "expired " << top.sync_at_o << "\n";
    if (top.decided_o) said(merges, top.at_o, top.drop_o);
    // At a boundary the rest of the switch has gone on meanwhile: what is cached is forgotten now.
    if (top.sync_decided_o) said(syncs, top.forgotten_o ? static_cast<uint32_t>(now) : top.sync_at_o, top.sync_drop_o);
    if (top.valid_o && top.ready_i) {
      for (int port = 0; port < 16; port++) {
        if ((top.ports_o >> port & 1) == 0) continue;
        Bytes& leaving = leaving_by[port];
        if (leaving.empty()) first_of[port] = now;
        for (size_t i = 0; i < kFlit; i++) leaving.push_back(static_cast<uint8_t>(sim::get(top.flit_o, static_cast<int>(8 * i), 8)));
        if (top.last_o) {
          left(port, first_of[port], leaving);
          leaving.clear();
        }
      }
    }
    if (top.release_valid_o && top.release_ready_i) {
      Bytes flit(kFlit);
      for (size_t i = 0; i < kFlit; i++) flit[i] = static_cast<uint8_t>(sim::get(top.release_flit_o, static_cast<int>(8 * i), 8));
      std::cout << "out " << static_cast<int>(top.release_port_o) << " " << now << " " << now << " " << sim::hex(flit) << "\n";
    }
    top.clk_i = 1;
    top.eval();
    now++;
  }

  static void said(std::deque<Packet>& waiting, uint32_t at, int drop) {
    if (waiting.empty()) {
      std::cout << "fault a decision of nothing\n";
      return;
    }
    std::cout << "decided " << at << " " << drop << " " << waiting.front().port << " " << sim::hex(waiting.front().bytes) << "\n";
    waiting.pop_front();
  }

  void run(Words& words) {
    const int64_t more = words.more() ? words.number() : 0;
    const int64_t limit = now + 2000000;
    int64_t quiet = 0;
    while (quiet <= 40 + more && now < limit) {
      const bool still = told.empty() && answers.empty() && !busy && merges.empty() && syncs.empty() && top.idle_o;
      quiet = still ? quiet + 1 : 0;
      cycle();
    }
    if (now >= limit) std::cout << "fault no end\n";
    for (const Bytes& leaving : leaving_by) {
      if (!leaving.empty()) std::cout << "fault a packet without an end\n";
    }
    std::cout << "taken " << top.taken_o << "\n";
  }
};

}  // namespace

int main() {
  static Bench bench;
  return sim::serve(bench.now, {
      {"seed", [](Words& words) { bench.random.seed(static_cast<uint64_t>(words.number())); }},
      {"pace", [](Words& words) {
         bench.low = words.number();
         bench.high = words.number();
       }},
      {"stall", [](Words& words) { bench.stall = static_cast<uint32_t>(words.below(100)); }},
      {"home", [](Words& words) {
         bench.home_answers = words.more();
         if (!bench.home_answers) return;
         bench.home_low = words.number();
         bench.home_high = words.number();
       }},
      {"unit", [](Words& words) { bench.reset(words); }},
      {"packet", [](Words& words) {
         const auto port = static_cast<int>(words.below(16));
         Bytes bytes = words.bytes();
         if (bytes.size() < kFlit) throw std::invalid_argument("a header of 16 bytes");
         const int64_t gap = words.more() ? words.number() : -1;
         bench.told.push_back({port, std::move(bytes), gap});
       }},
      {"run", [](Words& words) { bench.run(words); }},
  });
}
