// The switch under Verilator, driven by lines (rtl/bench/sim.h): frames go in at line rate, and what leaves is printed with its times.
//
//   frame PORT HEX      queues a frame at a port; frames follow each other as on a 10 Gbit/s wire
//   gap PORT NS         lets the wire rest before the next frame
//   sink PORT wire      takes frames at 10 Gbit/s (what is so at first)
//   sink PORT stop      takes nothing
//   sink PORT random SEED PERCENT   is ready in so many cycles of a hundred
//   spi ADDRESS VALUE   writes a register;   read ADDRESS   answers `reg ADDRESS VALUE`
//   cycles N            runs N cycles of the processing clock
//   flush PORT          takes back the frames of a port that have not begun; answers `flushed PORT COUNT`
//   run                 runs until nothing has come out for long
//   watch               from now on tells what the stages do, too, as observed_switch.sv has it
//
// Answers: `sent PORT FIRST LAST`, `out PORT FIRST LAST HEX` (times of the first and the last beat, in picoseconds), `drop PORT REASON`.
//
// What the stages do: `sent PORT FIRST LAST lost` for a frame that was dropped at the entry, `learn PORT`, `cut PORT` and `find PORT`;
// `judge PORT KIND`, `refuse PORT CYCLE`, `store PORT`, `ask PORT`, `stale PORT`; `forget PORT`, `again PORT`, `sum`, `done CYCLE`; `clear`.
// Lines of one cycle come in the order in which they count: what is judged for aggregation as a
// register is written comes before `clear`, as `judge PORT aggregate clear`, and what is judged otherwise behind it.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "../../bench/sim.h"
#include "Vtop.h"

namespace {

constexpr int kPorts = PORTS;
constexpr int64_t kClock = 5000;      // 200 MHz
constexpr int64_t kPortClock = 6400;  // 156.25 MHz
constexpr int64_t kByte = 800;        // of a 10 Gbit/s wire
constexpr int64_t kOverhead = 24;     // frame check sequence, preamble and gap
constexpr int64_t kIdle = 8'000'000;  // no beat for so long: nothing more will come
const char* const kReasons[] = {"overrun", "giant",     "runt",    "filtered", "bad ICRC", "no destination",
                                "gap",     "too long",  "forgotten", "pending",  "stale",    "unknown"};
constexpr int kReasonCount = 12;
const char* const kKinds[] = {"drop", "forward", "aggregate", "?"};

using sim::get, sim::set, sim::Bytes, sim::Words;

// A 64-bit word of a port's stream.
template <typename T>
uint64_t get_word(const T& port, int index) {
  return static_cast<uint64_t>(port[2 * index]) | static_cast<uint64_t>(port[2 * index + 1]) << 32;
}

struct Item {
  Bytes bytes;
  int64_t rest = 0;
};

struct Source {
  std::deque<Item> queue;
  size_t place = 0;
  bool busy = false;
  bool lost = false;
  int64_t first = 0;
  int64_t free_at = 0;

  // Takes back what has not begun: how many frames.
  int flush() {
    int count = 0;
    while (queue.size() > (busy ? 1 : 0)) {
      count += !queue.back().bytes.empty();
      queue.pop_back();
    }
    return count;
  }
};

struct Sink {
  enum { kWire, kStop, kRandom } mode = kWire;
  std::mt19937 random;
  uint32_t percent = 100;
  Bytes bytes;
  bool ready = false;
  bool busy = false;
  int64_t first = 0;
  int64_t free_at = 0;
};

struct Bench {
  Vtop top;
  Source sources[kPorts];
  Sink sinks[kPorts];
  int64_t now = 0;
  int64_t active_at = 0;
  int64_t next_clock = kClock;
  int64_t next_port[kPorts];
  bool watching = false;

  Bench() {
    top.clk_i = 0;
    top.rst_ni = 0;
    top.port_clk_i = 0;
    top.rx_tvalid_i = 0;
    top.tx_tready_i = 0;
    top.spi_sck_i = 0;
    top.spi_cs_ni = 1;
    top.spi_mosi_i = 0;
    // Edges of no two ports fall together.
    for (int p = 0; p < kPorts; p++) next_port[p] = kPortClock + 700 * p + 100;
    cycles(8);
    top.rst_ni = 1;
    cycles(8);
  }

  // A rising edge of a port's clock: what is there before it is what the edge takes.
  void port_edge(int p) {
    Source& source = sources[p];
    Sink& sink = sinks[p];
    const bool out = get(top.tx_tvalid_o, p, 1);
    if (out && sink.ready) {
      const uint64_t data = get_word(top.tx_tdata_o, p);
      const uint64_t keep = get(top.tx_tkeep_o, 8 * p, 8);
      if (!sink.busy) {
        sink.busy = true;
        sink.first = now;
        sink.bytes.clear();
      }
      for (int i = 0; i < 8; i++) {
        if (keep >> i & 1) sink.bytes.push_back(static_cast<uint8_t>(data >> (8 * i)));
      }
      active_at = now;
      if (get(top.tx_tlast_o, p, 1)) {
        sink.busy = false;
        // As with what is sent: on time on the average.
        const int64_t begin = sink.first - sink.free_at < kPortClock ? sink.free_at : sink.first;
        sink.free_at = begin + (static_cast<int64_t>(sink.bytes.size()) + kOverhead) * kByte;
        std::cout << "out " << p << " " << sink.first << " " << now << " " << sim::hex(sink.bytes) << "\n";
      }
    } else if (!out && sink.ready && sink.busy) {
      std::cout << "fault port " << p << ": expected the beats of a frame one after the other, found a pause\n";
    }
    source.lost |= source.busy && get(top.lost_o, p, 1);
    if (source.busy && get(top.rx_tlast_i, p, 1)) {
      std::cout << "sent " << p << " " << source.first << " " << now << (watching && source.lost ? " lost" : "") << "\n";
      source.busy = source.lost = false;
      source.queue.pop_front();
    }

    set(top.port_clk_i, p, 1, 1);
    top.eval();

    drive(p);
  }

  // What the next edge will find.
  void drive(int p) {
    Source& source = sources[p];
    Sink& sink = sinks[p];
    const int64_t edge = now + kPortClock;
    switch (sink.mode) {
      case Sink::kWire:
        sink.ready = sink.busy || edge >= sink.free_at;
        break;
      case Sink::kStop:
        sink.ready = false;
        break;
      default:
        sink.ready = sink.random() % 100 < sink.percent;
    }
    set(top.tx_tready_i, p, 1, sink.ready);

    while (!source.busy && !source.queue.empty() && source.queue.front().bytes.empty()) {
      source.free_at = std::max(source.free_at, now) + source.queue.front().rest;
      source.queue.pop_front();
    }
    if (!source.busy && !source.queue.empty() && edge >= source.free_at) {
      source.busy = true;
      source.place = 0;
      source.first = edge;
      // Frames begin on time on the average, though an edge is late for each.
      const int64_t begin = edge - source.free_at < kPortClock ? source.free_at : edge;
      source.free_at = begin + (static_cast<int64_t>(source.queue.front().bytes.size()) + kOverhead) * kByte;
    }
    set(top.rx_tvalid_i, p, 1, source.busy);
    if (source.busy) {
      const Bytes& bytes = source.queue.front().bytes;
      uint64_t data = 0;
      uint64_t keep = 0;
      for (int i = 0; i < 8 && source.place < bytes.size(); i++, source.place++) {
        data |= static_cast<uint64_t>(bytes[source.place]) << (8 * i);
        keep |= 1ULL << i;
      }
      top.rx_tdata_i[2 * p] = static_cast<uint32_t>(data);
      top.rx_tdata_i[2 * p + 1] = static_cast<uint32_t>(data >> 32);
      set(top.rx_tkeep_i, 8 * p, 8, keep);
      set(top.rx_tlast_i, p, 1, source.place == bytes.size());
      active_at = now;
    } else {
      set(top.rx_tlast_i, p, 1, 0);
    }
  }

  // To the end of the next rising edge of the processing clock.
  void cycle() {
    const int64_t until = next_clock;
    for (;;) {
      int first = -1;
      int64_t when = until;
      for (int p = 0; p < kPorts; p++) {
        if (next_port[p] < when) {
          when = next_port[p];
          first = p;
        }
      }
      now = when;
      if (first < 0) break;
      port_edge(first);
      // Nothing waits for a falling edge.
      set(top.port_clk_i, first, 1, 0);
      top.eval();
      next_port[first] += kPortClock;
    }
    for (int p = 0; p < kPorts; p++) {
      const uint64_t drops = get(top.drop_o, kReasonCount * p, kReasonCount);
      for (int r = 0; r < kReasonCount; r++) {
        if (drops >> r & 1) std::cout << "drop " << p << " " << kReasons[r] << "\n";
      }
    }
    if (watching) watch();
    top.clk_i = 1;
    top.eval();
    top.clk_i = 0;
    top.eval();
    next_clock += kClock;
  }

  template <typename T>
  void tell(const T& pulses, const char* what) {
    for (int p = 0; p < kPorts; p++) {
      if (get(pulses, p, 1)) std::cout << what << " " << p << "\n";
    }
  }

  // `judge` of the frames that are for aggregation, or of the others.
  void tell_judged(bool aggregated) {
    for (int p = 0; p < kPorts; p++) {
      const uint64_t kind = get(top.kind_o, 2 * p, 2);
      if (get(top.judge_o, p, 1) && (kind == 2) == aggregated) std::cout << "judge " << p << " " << kKinds[kind] << (aggregated && top.clear_o ? " clear" : "") << "\n";
    }
  }

  // What the edge that comes will take.
  void watch() {
    tell(top.find_o, "find");
    for (int p = kPorts - 1; p >= 0; p--) {
      if (get(top.learn_o, p, 1)) std::cout << (get(top.cut_o, p, 1) ? "cut " : "learn ") << p << "\n";
    }
    tell_judged(true);
    if (!top.clear_o) tell_judged(false);
    for (int p = 0; p < kPorts; p++) {
      if (get(top.refuse_o, p, 1)) std::cout << "refuse " << p << " " << now / kClock << "\n";
    }
    tell(top.store_o, "store");
    tell(top.ask_o, "ask");
    tell(top.stale_o, "stale");
    tell(top.forget_o, "forget");
    tell(top.again_o, "again");
    if (top.sum_o) std::cout << "sum\n";
    if (top.done_o) std::cout << "done " << now / kClock << "\n";
    if (!top.clear_o) return;
    std::cout << "clear\n";
    tell_judged(false);
  }

  void cycles(int64_t count) {
    for (int64_t i = 0; i < count; i++) cycle();
  }

  void run() {
    active_at = now;
    for (;;) {
      bool waiting = now - active_at < kIdle;
      for (const Source& source : sources) waiting |= !source.queue.empty();
      if (!waiting) break;
      cycle();
    }
    if (watching && top.busy_o) std::cout << "fault something is left in the buffers\n";
  }

  // A transfer of 40 bits; the value that was read.
  uint32_t spi(bool write, uint32_t address, uint32_t value) {
    const uint64_t out = static_cast<uint64_t>(write) << 39 | static_cast<uint64_t>(address) << 32 | value;
    uint32_t in = 0;
    top.spi_cs_ni = 0;
    cycles(8);
    for (int bit = 39; bit >= 0; bit--) {
      top.spi_mosi_i = out >> bit & 1;
      cycles(8);
      in = in << 1 | (top.spi_miso_o & 1);
      top.spi_sck_i = 1;
      cycles(8);
      top.spi_sck_i = 0;
    }
    cycles(8);
    top.spi_cs_ni = 1;
    cycles(8);
    return in;
  }
};

}  // namespace

int main(int argc, char** argv) {
  Verilated::commandArgs(argc, argv);
  static Bench bench;
  const auto port = [](Words& words) { return static_cast<size_t>(words.below(kPorts)); };
  return sim::serve(bench.now, {
      {"frame", [&](Words& words) {
         const size_t at = port(words);
         bench.sources[at].queue.push_back({words.bytes(), 0});
       }},
      {"gap", [&](Words& words) {
         const size_t at = port(words);
         bench.sources[at].queue.push_back({{}, words.number() * 1000});
       }},
      {"flush", [&](Words& words) {
         const size_t at = port(words);
         std::cout << "flushed " << at << " " << bench.sources[at].flush() << "\n";
       }},
      {"sink", [&](Words& words) {
         Sink& sink = bench.sinks[port(words)];
         const std::string mode = words.text();
         if (mode != "wire" && mode != "stop" && mode != "random") throw std::invalid_argument("wire, stop or random in place of " + mode);
         sink.mode = mode == "wire" ? Sink::kWire : mode == "stop" ? Sink::kStop : Sink::kRandom;
         if (sink.mode == Sink::kRandom) {
           sink.random.seed(static_cast<uint32_t>(words.number()));
           sink.percent = static_cast<uint32_t>(words.below(101));
         }
       }},
      {"spi", [](Words& words) {
         const auto address = static_cast<uint32_t>(words.below(128));
         bench.spi(true, address, static_cast<uint32_t>(words.number()));
       }},
      {"read", [](Words& words) {
         const auto address = static_cast<uint32_t>(words.below(128));
         std::cout << "reg " << address << " " << bench.spi(false, address, 0) << "\n";
       }},
      {"cycles", [](Words& words) { bench.cycles(words.number()); }},
      {"run", [](Words&) { bench.run(); }},
      {"watch", [](Words&) { bench.watching = true; }},
  });
}
