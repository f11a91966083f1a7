// IncEngine under Verilator, driven by lines (rtl/bench/sim.h): the frames of its neighbours.
//
//   seed N                       begins the random numbers anew
//   pace LOW HIGH                a frame begins so many cycles after the one told before it, or when its port is free
//   serial                       a frame begins when nothing happens any more for the one told before it, and a run ends so
//   stall PERCENT                of cycles, in which a port takes no beat
//   group RANKS EDGES PARENT WINDOW MTU PSN REPRODUCIBLE ENDS TOWARD [MUTATION]   a reset, and the group (the words of the engine's example `answers`)
//   frame EDGE HEX [GAP]         a frame without frame check sequence; so many cycles after the one before it, whatever the pace
//   wire BYTES                   that a port takes a cycle at most, of frames with what a wire adds; 0, as at first: a beat a cycle
//   quiet CYCLES                 without anything after which a run ends, unless it is serial
//   run                          runs what was told, until nothing has happened for long
//
// Frames of a run have numbers from 0. Answers of run: `refused N`, `lost N` at the entry; `done N REASON` in the order of decisions;
// `in N FIRST LAST`, `out EDGE FIRST LAST HEX` with the cycles of the first and last beats. Times are cycles.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../../bench/sim.h"
#include "Vtop.h"

namespace {

constexpr int kPorts = PORTS;
constexpr int kPortBits = kPorts > 8 ? 4 : kPorts > 4 ? 3 : kPorts > 2 ? 2 : 1;
const char* const kReasons[] = {"accepted", "unexpected-operation", "malformed", "no-collective", "table-full", "wrong-direction",
                                "duplicate", "stale", "ahead-of-range", "mismatch", "disagreement", "bad-acknowledge"};
const char* const kMutations[] = {"-", "window-short", "no-duplicate-check", "psn-no-wrap", "nak-as-ack", "stale-collective", "one-bit-version",
                                  "reduce-recycled-by-completion", "nak-forwarded", "ack-only-if-news", "answers-next-slot", "never-cleared",
                                  "payload-not-cleared", "arrived-never-cleared", "recycles-start", "window-in-messages", "changes-an-element",
                                  "adds-whatever-comes"};
// Cycles without anything, after which the next frame comes, or nothing more is expected of many at once; and those that a run may take at most without an end.
constexpr int64_t kPause = 60, kQuiet = 400, kMost = 20'000'000;

// Frame check sequence, preamble and gap.
constexpr size_t kOverhead = 24;

using sim::get, sim::set, sim::Bytes, sim::Words;

struct Frame {
  int number;
  Bytes bytes;
};

struct Told {
  int port;
  Bytes bytes;
  int64_t gap;
};

struct Port {
  std::deque<Frame> waiting;
  size_t sent = 0;
  int64_t first = 0, free_at = 0;
  // At the entry; behind it, not decided.
  std::deque<int> ending, pending;
  Bytes leaving;
  int64_t leave_first = -1;
};

struct Bench {
  Vtop top;
  Port ports[kPorts];
  std::vector<Told> told;
  std::mt19937_64 random{1};
  int64_t now = 0, active_at = 0;
  int64_t low = 0, high = 0, quiet = kQuiet;
  size_t wire = 0;
  bool serial = false;
  uint32_t stall = 0;

  Bench() { std::memset(&top.rx_data_i, 0, sizeof top.rx_data_i); }

  void edge() {
    top.clk_i = 0;
    top.eval();
    top.clk_i = 1;
    top.eval();
  }

  void group(Words& words) {
    const int64_t ranks = words.below(1 << 10), edges = words.below(kPorts + 1);
    const std::string parent = words.text();
    const int64_t window = words.number(), mtu = words.below(MTU + 1), psn = words.below(1 << 24), reproducible = words.below(2);
    const auto ends = static_cast<uint64_t>(words.below(1 << kPorts));
    std::string toward = words.text();
    const std::string mutation = words.more() ? words.text() : kMutations[0];
    if (2 * window != SLOTS || ranks > RANKS) throw std::invalid_argument("a window of " + std::to_string(SLOTS / 2) + " packets, and at most " + std::to_string(RANKS) + " ranks");
    for (int p = 0; p < kPorts; p++) {
      // Highest first: own and neighbour's MAC address, own and neighbour's IP address, own and neighbour's queue pair.
      const int at = 208 * p;
      set(top.edge_i, at, 24, static_cast<uint64_t>(0x200 + p));
      set(top.edge_i, at + 24, 24, static_cast<uint64_t>(0x100 + p));
      set(top.edge_i, at + 48, 32, 0x0a000000u + static_cast<uint64_t>(p) + 1);
      set(top.edge_i, at + 80, 32, 0x0a0000feu);
      set(top.edge_i, at + 112, 48, 0x020000000001u + static_cast<uint64_t>(p));
      set(top.edge_i, at + 160, 48, 0x0200000000feu);
    }
    set(top.edges_i, 0, kPorts, (1u << edges) - 1);
    set(top.ends_i, 0, kPorts, ends);
    top.parent_valid_i = parent != "-";
    top.parent_i = static_cast<uint8_t>(parent == "-" ? 0 : std::stoi(parent));
    top.ranks_i = static_cast<uint16_t>(ranks);
    std::replace(toward.begin(), toward.end(), ',', ' ');
    std::istringstream list(toward);
    for (int rank = 0, port; list >> port; rank++) set(top.toward_i, kPortBits * rank, kPortBits, static_cast<uint64_t>(port));
    top.mtu_i = static_cast<uint16_t>(mtu);
    top.psn_i = static_cast<uint32_t>(psn);
    top.reproducible_i = static_cast<uint8_t>(reproducible);
    const auto* const broken = std::find(std::begin(kMutations), std::end(kMutations), mutation);
    if (broken == std::end(kMutations)) throw std::invalid_argument("a rule in place of " + mutation);
    top.mutation_i = static_cast<uint8_t>(broken - std::begin(kMutations));
    top.rx_valid_i = 0;
    top.tx_ready_i = 0;
    top.rst_ni = 0;
    for (int i = 0; i < 4; i++) edge();
    top.rst_ni = 1;
    for (int i = 0; i < 4; i++) edge();
  }

  // One cycle: beats in, what became of them, beats out.
  void cycle() {
    top.rx_valid_i = 0;
    for (int p = 0; p < kPorts; p++) {
      Port& port = ports[p];
      if (!port.waiting.empty() && (port.sent > 0 || now >= port.free_at)) {
        const Frame& frame = port.waiting.front();
        const size_t count = std::min<size_t>(64, frame.bytes.size() - port.sent);
        uint8_t beat[64];
        // What is behind a frame is nobody's, and must not count.
        std::memset(beat, 0xa5, sizeof beat);
        std::memcpy(beat, &frame.bytes[port.sent], count);
        std::memcpy(&top.rx_data_i[16 * p], beat, 64);
        const bool last = port.sent + count == frame.bytes.size();
        set(top.rx_valid_i, p, 1, 1);
        set(top.rx_last_i, p, 1, last);
        set(top.rx_bytes_i, 7 * p, 7, count);
        if (port.sent == 0) {
          port.first = now;
          if (wire > 0) port.free_at = now + static_cast<int64_t>((frame.bytes.size() + kOverhead + wire - 1) / wire);
        }
        port.sent += count;
        if (last) {
          std::cout << "in " << frame.number << " " << port.first << " " << now << "\n";
          port.ending.push_back(frame.number);
          port.waiting.pop_front();
          port.sent = 0;
        }
        active_at = now;
      }
    }
    uint32_t ready = 0;
    for (int p = 0; p < kPorts; p++) ready |= static_cast<uint32_t>(stall == 0 || random() % 100 >= stall) << p;
    set(top.tx_ready_i, 0, kPorts, ready);
    top.clk_i = 0;
    top.eval();
    for (int p = 0; p < kPorts; p++) {
      Port& port = ports[p];
      if (get(top.done_o, p, 1)) {
        if (port.pending.empty()) {
          std::cout << "fault a decision of no frame at port " << p << "\n";
        } else {
          std::cout << "done " << port.pending.front() << " " << kReasons[top.reason_o] << "\n";
          port.pending.pop_front();
        }
        active_at = now;
      }
      if (get(top.ended_o, p, 1)) {
        const int number = port.ending.front();
        port.ending.pop_front();
        if (get(top.refused_o, p, 1)) std::cout << "refused " << number << "\n";
        else if (get(top.lost_o, p, 1)) std::cout << "lost " << number << "\n";
        else port.pending.push_back(number);
        active_at = now;
      }
      if (get(top.tx_valid_o, p, 1) && (ready >> p & 1)) {
        const auto* beat = reinterpret_cast<const uint8_t*>(&top.tx_data_o[16 * p]);
        if (port.leave_first < 0) port.leave_first = now;
        port.leaving.insert(port.leaving.end(), beat, beat + get(top.tx_bytes_o, 7 * p, 7));
        if (get(top.tx_last_o, p, 1)) {
          std::cout << "out " << p << " " << port.leave_first << " " << now << " " << sim::hex(port.leaving) << "\n";
          port.leaving.clear();
          port.leave_first = -1;
        }
        active_at = now;
      }
    }
    top.clk_i = 1;
    top.eval();
    now++;
  }

  void run() {
    size_t next = 0;
    int64_t begins = now, limit = now + kMost;
    active_at = now;
    while (now < limit) {
      while (next < told.size() && (serial ? now > active_at + kPause || next == 0 : now >= begins)) {
        ports[told[next].port].waiting.push_back({static_cast<int>(next), std::move(told[next].bytes)});
        next++;
        active_at = now;
        const int64_t pause = low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
        begins += next < told.size() && told[next].gap >= 0 ? told[next].gap : pause;
        if (serial) break;
      }
      if (next == told.size() && now > active_at + (serial ? kPause : quiet)) break;
      cycle();
    }
    if (now >= limit) std::cout << "fault no end\n";
    for (const Port& port : ports) {
      if (!port.ending.empty() || !port.pending.empty() || !port.waiting.empty()) std::cout << "fault frames are left\n";
      if (!port.leaving.empty()) std::cout << "fault a frame without an end\n";
    }
    told.clear();
  }
};

}  // namespace

int main() {
  static Bench bench;
  return sim::serve(bench.now, {
      {"seed", [](Words& words) { bench.random.seed(static_cast<uint64_t>(words.number())); }},
      {"pace", [](Words& words) {
         bench.serial = false;
         bench.low = words.number();
         bench.high = words.number();
       }},
      {"serial", [](Words&) { bench.serial = true; }},
      {"wire", [](Words& words) { bench.wire = static_cast<size_t>(words.below(1 << 16)); }},
      {"quiet", [](Words& words) { bench.quiet = words.number(); }},
      {"stall", [](Words& words) { bench.stall = static_cast<uint32_t>(words.below(100)); }},
      {"group", [](Words& words) { bench.group(words); }},
      {"frame", [](Words& words) {
         const auto port = static_cast<int>(words.below(kPorts));
         Bytes bytes = words.bytes();
         const int64_t gap = words.more() ? words.number() : -1;
         bench.told.push_back({port, std::move(bytes), gap});
       }},
      {"run", [](Words&) { bench.run(); }},
  });
}
