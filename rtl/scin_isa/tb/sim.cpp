// SCIN's switch under Verilator, driven by lines (rtl/bench/sim.h): accelerators with memories at its ports, links with a latency and credits.
//
//   type N                       element type: 0 binary32, 1 binary16, 2 bfloat16; only while nothing runs
//   seed N                       begins the random numbers anew
//   link N, transport N          cycles of a link, and of the transport layer at an accelerator, each way
//   read LOW HIGH, write LOW HIGH   cycles until a memory answers; random where they differ, so that answers overtake each other
//   hold PERCENT                 of packets, the place of which an accelerator gives free late
//   bubble PERCENT               of cycles, in which a link to the switch rests, within packets too
//   core PERCENT                 of cycles, in which the switch core takes a flit
//   memory PORT ADDRESS HEX      writes an accelerator's memory;   fill PORT ADDRESS LENGTH SEED   the same with small numbers by chance
//   dump PORT ADDRESS LENGTH     answers `memory PORT ADDRESS HEX`
//   instruction ID LENGTH FLAGS SOURCES DESTINATIONS ADDRESS...
//   add PORT OPERAND             an accelerator arrives at the barrier
//   raw PORT HEX                 an accelerator sends a packet: a header of 16 bytes, and a payload
//   send FROM TO KIND LENGTH COUNT   accelerators send packets to each other, through the switch core
//   trace                        from now on tells of packets of the in-switch accelerator
//   cycles N                     runs so many cycles
//   run                          runs until nothing has happened for long
//
// Answers of run, with cycles: `started ID CYCLE`, `refused ID CYCLE`, `flag PORT ADDRESS VALUE CYCLE`, `drop PORT REASON CYCLE`,
// `core FROM TO KIND COUNT LAST`. What is left is a fault. With `trace`:
// `leave PORT KIND FIRST LAST` and `come PORT KIND FIRST LAST` at the switch.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "../../bench/sim.h"
#include "Vtop.h"

namespace {

constexpr int kPorts = PORTS;
constexpr int kPayload = PAYLOAD_BYTES;
constexpr int kTableBytes = WAVES * WAVE_BYTES;
constexpr int kPeerCredits = PEER_CREDITS;
// Packets for which a queue of the switch core has room.
constexpr int kDataCredits = DATA_FLITS / (1 + PAYLOAD_BYTES / 32);
constexpr int kHeaderCredits = 16;
constexpr int kNode = 9;
constexpr uint64_t kWords = 1ULL << 47;
enum Kind { kRead = 1, kReadResponse = 2, kWrite = 3, kWriteResponse = 4, kAdd = 5, kStore = 6 };
const char* const kKinds[] = {"credit", "read", "read-response", "write", "write-response", "add", "store"};
const char* const kReasons[] = {"source", "response", "transaction"};

using sim::get, sim::set, sim::Bytes, sim::Words;
using Flit = std::array<uint8_t, 32>;

template <typename T>
Flit get_flit(const T& port, int index) {
  Flit flit;
  std::memcpy(flit.data(), &port[8 * index], 32);
  return flit;
}

template <typename T>
void set_flit(T& port, int index, const Flit& flit) {
  std::memcpy(&port[8 * index], flit.data(), 32);
}

// The fields of a header, which are big-endian (crates/base/wire/src/flit.rs).
struct Header {
  int kind = 0;
  bool inc = false;
  int source = 0, destination = 0;
  uint64_t address = 0;
  int length = 0;
  uint32_t tag = 0;

  static Header parse(const Bytes& bytes) {
    const auto field = [&](int from, int count) {
      uint64_t value = 0;
      for (int i = 0; i < count; i++) value = value << 8 | bytes[from + i];
      return value;
    };
    Header header;
    header.kind = bytes[0] >> 4;
    header.inc = bytes[0] >> 3 & 1;
    header.source = static_cast<int>(field(1, 3) >> 12);
    header.destination = static_cast<int>(field(1, 3) & 0xfff);
    header.address = field(4, 6);
    header.length = static_cast<int>(field(10, 2));
    header.tag = static_cast<uint32_t>(field(12, 3));
    return header;
  }

  // A packet's flits: the header has one to itself.
  std::vector<Flit> flits(const Bytes& payload) const {
    std::vector<Flit> all(1 + (payload.size() + 31) / 32);
    // What is behind a header or the end of a payload is nobody's, and must not count.
    for (Flit& flit : all) flit.fill(0x5a);
    Flit& first = all[0];
    const auto field = [&](int from, int count, uint64_t value) {
      for (int i = 0; i < count; i++) first[from + i] = static_cast<uint8_t>(value >> 8 * (count - 1 - i));
    };
    first[0] = static_cast<uint8_t>(kind << 4 | (inc ? 8 : 0));
    field(1, 3, static_cast<uint64_t>(source) << 12 | static_cast<uint64_t>(destination));
    field(4, 6, address);
    field(10, 2, static_cast<uint64_t>(length));
    field(12, 3, tag);
    field(15, 1, 0);
    for (size_t i = 0; i < payload.size(); i++) all[1 + i / 32][i % 32] = payload[i];
    return all;
  }

  int channel() const {
    const int kinds[] = {1, 0, 2, 1, 3, 1, 1};
    return (kind < 7 ? kinds[kind] : 1) + (inc ? 4 : 0);
  }
};

// A memory of 48-bit addresses, in pages.
struct Memory {
  std::unordered_map<uint64_t, std::array<uint8_t, 4096>> pages;

  uint8_t& at(uint64_t address) {
    auto [page, fresh] = pages.try_emplace(address >> 12);
    if (fresh) page->second.fill(0);
    return page->second[address & 4095];
  }
  void write(uint64_t address, const uint8_t* bytes, size_t length) {
    for (size_t i = 0; i < length; i++) at(address + i) = bytes[i];
  }
  Bytes read(uint64_t address, size_t length) {
    Bytes bytes(length);
    for (size_t i = 0; i < length; i++) bytes[i] = at(address + i);
    return bytes;
  }
};

struct Later {
  int64_t at;
  Header header;
  Bytes payload;
};

struct InFlight {
  int64_t at;
  bool last;
  Flit flit;
};

struct Accelerator {
  Memory memory;
  // What it sends, by channel; the packet that it is sending; credits of the switch.
  std::deque<std::vector<Flit>> queues[8];
  std::deque<Flit> sending;
  int turn = 0;
  int credits[8];
  std::deque<InFlight> to_switch, from_switch;
  std::deque<std::pair<int64_t, int>> credits_to_switch, credits_from_switch;
  // What it is receiving, and what its memory has not done.
  std::vector<Flit> receiving;
  std::vector<Later> pending;
  int occupied[8] = {};
  std::vector<std::pair<int64_t, int>> held;
  // Tags of the in-switch accelerator that are in use, by kind.
  std::map<uint32_t, int> reads;
  std::set<uint32_t> writes;
  int read_bytes = 0;
  int64_t last_read = 0, last_write = 0;
  // What is being traced each way.
  int64_t leave_first = 0, come_first = 0;
  int leave_kind = -1, come_kind = -1;
  Header leaving, coming;
};

struct Core {
  std::deque<std::vector<Flit>> packets;
  std::vector<Flit> taking;
};

struct Bench {
  Vtop top;
  Accelerator accelerators[kPorts];
  Core core[kPorts][4];
  std::deque<std::vector<uint64_t>> instructions;
  std::mt19937_64 random{1};
  int64_t now = 0, active_at = 0;
  int link = 70, transport = 0, read_low = 0, read_high = 0, write_low = 0, write_high = 0;
  uint32_t hold = 0, bubble = 0, core_percent = 100;
  bool tracing = false;
  std::map<std::array<int, 3>, std::array<int64_t, 2>> core_counts;
  std::map<std::array<int, 3>, uint32_t> core_sent, core_expected;

  Bench() {
    top.clk_i = 0;
    top.rst_ni = 0;
    top.node_i = kNode;
    top.type_i = 0;
    top.flag_word_i = 5;
    top.instruction_valid_i = 0;
    top.rx_valid_i = 0;
    top.tx_credit_i = 0;
    top.core_tx_valid_i = 0;
    top.core_rx_ready_i = 0;
    for (Accelerator& each : accelerators) {
      for (int c = 0; c < 8; c++) each.credits[c] = c >= 4 ? 8 : c == 1 || c == 2 ? kDataCredits : kHeaderCredits;
    }
    for (int i = 0; i < 8; i++) edge();
    top.rst_ni = 1;
    for (int i = 0; i < 4; i++) edge();
  }

  void edge() {
    top.clk_i = 0;
    top.eval();
    top.clk_i = 1;
    top.eval();
  }

  bool chance(uint32_t percent) { return percent > 0 && random() % 100 < percent; }
  int between(int low, int high) { return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1)); }

  void fault(const std::string& what) { std::cout << "fault " << what << " " << now << "\n"; }

  void queue(Accelerator& from, const Header& header, const Bytes& payload) {
    from.queues[header.channel()].push_back(header.flits(payload));
  }

  // A packet has come to an accelerator whole.
  void receive(int p) {
    Accelerator& me = accelerators[p];
    Bytes bytes;
    for (const Flit& flit : me.receiving) bytes.insert(bytes.end(), flit.begin(), flit.end());
    me.receiving.clear();
    const Header header = Header::parse(bytes);
    const Bytes payload(bytes.begin() + 32, bytes.end());
    const int channel = header.channel();
    if (++me.occupied[channel] > kPeerCredits) fault("more packets than credits at port " + std::to_string(p));
    const int64_t free_at = now + (chance(hold) ? between(1, 400) : 0);
    me.held.emplace_back(free_at, channel);
    if (header.kind != kWrite && header.kind != kReadResponse && header.kind != kStore && !payload.empty()) fault("a payload after a header that has none");
    if ((header.kind == kWrite || header.kind == kReadResponse) && payload.size() / 32 != static_cast<size_t>(header.length + 31) / 32)
      fault("a payload of another length than its header says");
    if (!header.inc) {
      const std::array<int, 3> way{header.source, header.destination, header.kind};
      if (header.destination != p) fault("a packet at another port than its destination");
      if (header.tag != core_expected[way]++) fault("a packet of the switch core out of its order");
      for (size_t i = 0; i < static_cast<size_t>(header.kind == kRead ? 0 : header.length); i++) {
        if (payload[i] != static_cast<uint8_t>(header.tag * 31 + i * 7 + 1)) fault("a packet of the switch core with another payload");
      }
      core_counts[way][0]++;
      core_counts[way][1] = now;
      return;
    }
    if (header.source != kNode || header.destination != p) fault("a packet with strange nodes");
    if (header.kind == kStore) {
      uint64_t value = 0;
      for (int i = 0; i < 8; i++) value = value << 8 | payload[i];
      std::cout << "flag " << p << " " << header.address << " " << value << " " << now << "\n";
      return;
    }
    Later later{0, header, payload};
    later.header.source = p;
    later.header.destination = kNode;
    if (header.kind == kRead) {
      later.at = now + between(read_low, read_high);
      if (read_low == read_high) later.at = std::max(later.at, me.last_read);
      me.last_read = later.at;
      later.header.kind = kReadResponse;
    } else if (header.kind == kWrite) {
      later.at = now + between(write_low, write_high);
      me.last_write = later.at;
      later.header.kind = kWriteResponse;
    } else {
      fault("a packet of a strange kind");
      return;
    }
    me.pending.push_back(later);
  }

  // What leaves the switch; rules that hold for every packet as it begins.
  void leaves(int p, const Flit& flit, bool last) {
    Accelerator& me = accelerators[p];
    if (me.leave_kind < 0) {
      me.leaving = Header::parse(Bytes(flit.begin(), flit.end()));
      me.leave_kind = me.leaving.kind;
      me.leave_first = now;
      const Header& header = me.leaving;
      if (header.inc && header.kind == kRead) {
        if (!me.reads.emplace(header.tag, header.length).second) fault("a read tag in use twice");
        me.read_bytes += header.length;
        if (me.read_bytes > kTableBytes + kTableBytes / 32) fault("more asked for than the wave table holds");
      }
      if (header.inc && header.kind == kWrite && !me.writes.insert(header.tag).second) fault("a write tag in use twice");
      if (header.inc && header.kind == kStore) {
        for (const Accelerator& each : accelerators) {
          if (!each.writes.empty() || !each.reads.empty()) fault("a flag before all responses");
        }
      }
    }
    if (last) {
      if (tracing && me.leaving.inc) std::cout << "leave " << p << " " << kKinds[me.leave_kind] << " " << me.leave_first << " " << now << "\n";
      me.leave_kind = -1;
    }
    me.from_switch.push_back({now + link + transport, last, flit});
  }

  void comes(int p, const Flit& flit, bool last) {
    Accelerator& me = accelerators[p];
    if (me.come_kind < 0) {
      me.coming = Header::parse(Bytes(flit.begin(), flit.end()));
      me.come_kind = std::min(me.coming.kind, 6);
      me.come_first = now;
    }
    if (!last) return;
    if (me.coming.inc && me.coming.source == p && me.coming.destination == kNode) {
      const auto found = me.reads.find(me.coming.tag);
      if (me.come_kind == kReadResponse && found != me.reads.end() && found->second == me.coming.length) {
        me.read_bytes -= found->second;
        me.reads.erase(found);
      }
      if (me.come_kind == kWriteResponse) me.writes.erase(me.coming.tag);
    }
    if (tracing && me.coming.inc) std::cout << "come " << p << " " << kKinds[me.come_kind] << " " << me.come_first << " " << now << "\n";
    me.come_kind = -1;
  }

  void accelerator_cycle(int p) {
    Accelerator& me = accelerators[p];
    // From the switch.
    while (!me.from_switch.empty() && me.from_switch.front().at <= now) {
      me.receiving.push_back(me.from_switch.front().flit);
      const bool last = me.from_switch.front().last;
      me.from_switch.pop_front();
      active_at = now;
      if (last) receive(p);
    }
    for (size_t i = 0; i < me.held.size();) {
      if (me.held[i].first <= now) {
        me.occupied[me.held[i].second]--;
        me.credits_to_switch.emplace_back(now + link, me.held[i].second);
        me.held.erase(me.held.begin() + static_cast<long>(i));
      } else {
        i++;
      }
    }
    // What the memory has done.
    for (size_t i = 0; i < me.pending.size();) {
      if (me.pending[i].at <= now) {
        Later& done = me.pending[i];
        if (done.header.kind == kReadResponse) {
          queue(me, done.header, me.memory.read(done.header.address, static_cast<size_t>(done.header.length)));
        } else {
          me.memory.write(done.header.address, done.payload.data(), static_cast<size_t>(done.header.length));
          done.header.length = 0;
          queue(me, done.header, {});
        }
        me.pending.erase(me.pending.begin() + static_cast<long>(i));
        active_at = now;
      } else {
        i++;
      }
    }
    while (!me.credits_from_switch.empty() && me.credits_from_switch.front().first <= now) {
      const int channel = me.credits_from_switch.front().second;
      const int most = channel >= 4 ? 8 : channel == 1 || channel == 2 ? kDataCredits : kHeaderCredits;
      if (++me.credits[channel] > most) fault("a credit too many from port " + std::to_string(p));
      me.credits_from_switch.pop_front();
    }
    // To the switch.
    if (me.sending.empty()) {
      for (int i = 0; i < 8; i++) {
        const int channel = (me.turn + i) % 8;
        if (me.queues[channel].empty() || me.credits[channel] == 0) continue;
        me.credits[channel]--;
        for (const Flit& flit : me.queues[channel].front()) me.sending.push_back(flit);
        me.queues[channel].pop_front();
        me.turn = (channel + 1) % 8;
        break;
      }
    }
    if (!me.sending.empty() && !chance(bubble)) {
      me.to_switch.push_back({now + link + transport, me.sending.size() == 1, me.sending.front()});
      me.sending.pop_front();
      active_at = now;
    }
  }

  void cycle() {
    for (int p = 0; p < kPorts; p++) accelerator_cycle(p);
    // Inputs.
    for (int p = 0; p < kPorts; p++) {
      Accelerator& me = accelerators[p];
      const bool comes_now = !me.to_switch.empty() && me.to_switch.front().at <= now;
      set(top.rx_valid_i, p, 1, comes_now);
      if (comes_now) {
        const InFlight& flit = me.to_switch.front();
        set(top.rx_last_i, p, 1, flit.last);
        set_flit(top.rx_flit_i, p, flit.flit);
        comes(p, flit.flit, flit.last);
        me.to_switch.pop_front();
      }
      uint64_t credits = 0;
      for (auto credit = me.credits_to_switch.begin(); credit != me.credits_to_switch.end() && credit->first <= now;) {
        // One of each channel in a cycle.
        if (credits >> credit->second & 1) {
          ++credit;
          continue;
        }
        credits |= 1ULL << credit->second;
        credit = me.credits_to_switch.erase(credit);
      }
      set(top.tx_credit_i, 6 * p, 6, credits);
      for (int c = 0; c < 4; c++) {
        set(top.core_rx_ready_i, 4 * p + c, 1, core_percent == 100 || chance(core_percent));
        Core& queue = core[p][c];
        const bool there = !queue.packets.empty();
        set(top.core_tx_valid_i, 4 * p + c, 1, there);
        if (there) {
          set(top.core_tx_last_i, 4 * p + c, 1, queue.packets.front().size() == 1);
          set_flit(top.core_tx_flit_i, 4 * p + c, queue.packets.front().front());
        }
      }
    }
    top.instruction_valid_i = !instructions.empty();
    if (!instructions.empty()) {
      // {ID, length, flags, addresses, sources, destinations}.
      const std::vector<uint64_t>& words = instructions.front();
      set(top.instruction_i, 0, kPorts, words[4]);
      set(top.instruction_i, kPorts, kPorts, words[3]);
      for (int p = 0; p < kPorts; p++) set(top.instruction_i, 2 * kPorts + 48 * p, 48, words[5 + p]);
      set(top.instruction_i, 50 * kPorts, 8, words[2]);
      set(top.instruction_i, 50 * kPorts + 8, 32, words[1]);
      set(top.instruction_i, 50 * kPorts + 40, 16, words[0]);
    }
    top.clk_i = 0;
    top.eval();
    // Outputs, as the edge takes them.
    if (!instructions.empty() && top.instruction_ready_o) instructions.pop_front();
    if (top.started_o) std::cout << "started " << top.id_o << " " << now << "\n";
    if (top.refused_o) std::cout << "refused " << top.id_o << " " << now << "\n";
    if (top.started_o || top.refused_o || !top.quiet_o) active_at = now;
    for (int p = 0; p < kPorts; p++) {
      Accelerator& me = accelerators[p];
      for (int reason = 0; reason < 3; reason++) {
        if (get(top.drop_o, 3 * p + reason, 1)) std::cout << "drop " << p << " " << kReasons[reason] << " " << now << "\n";
      }
      if (get(top.tx_valid_o, p, 1)) {
        leaves(p, get_flit(top.tx_flit_o, p), get(top.tx_last_o, p, 1));
        active_at = now;
      }
      const uint64_t credits = get(top.rx_credit_o, 8 * p, 8);
      for (int c = 0; c < 8; c++) {
        if (credits >> c & 1) me.credits_from_switch.emplace_back(now + link, c);
      }
      for (int c = 0; c < 4; c++) {
        Core& mine = core[p][c];
        if (get(top.core_rx_valid_o, 4 * p + c, 1) && get(top.core_rx_ready_i, 4 * p + c, 1)) {
          mine.taking.push_back(get_flit(top.core_rx_flit_o, 4 * p + c));
          active_at = now;
          if (get(top.core_rx_last_o, 4 * p + c, 1)) {
            const Header header = Header::parse(Bytes(mine.taking[0].begin(), mine.taking[0].end()));
            if (header.inc || header.channel() != c || header.destination >= kPorts) fault("a packet in a strange queue of the switch core");
            else taken.emplace_back(header.destination, c, mine.taking);
            mine.taking.clear();
          }
        }
        if (get(top.core_tx_valid_i, 4 * p + c, 1) && get(top.core_tx_ready_o, 4 * p + c, 1)) {
          mine.packets.front().erase(mine.packets.front().begin());
          if (mine.packets.front().empty()) mine.packets.pop_front();
          active_at = now;
        }
      }
    }
    for (auto& [to, c, flits] : taken) core[to][c].packets.push_back(std::move(flits));
    taken.clear();
    top.clk_i = 1;
    top.eval();
    now++;
  }
  std::vector<std::tuple<int, int, std::vector<Flit>>> taken;

  bool idle() const {
    for (const Accelerator& each : accelerators) {
      if (!each.pending.empty() || !each.to_switch.empty() || !each.from_switch.empty() || !each.sending.empty() || !each.reads.empty() || !each.writes.empty())
        return false;
      for (const auto& queue : each.queues)
        if (!queue.empty()) return false;
    }
    for (const auto& port : core)
      for (const Core& queue : port)
        if (!queue.packets.empty() || !queue.taking.empty()) return false;
    return true;
  }

  void run() {
    active_at = now;
    const int64_t rest = 200 + 2 * (link + transport);
    const int64_t hung = 3000 + 4 * (link + transport) + 2 * (read_high + write_high);
    while (now - active_at < rest || (now - active_at < hung && !(idle() && top.quiet_o))) {
      cycle();
      // What is not quiet though nothing moves is stuck.
      if (!top.quiet_o && moved_at_ + hung < now) break;
      if (moved()) moved_at_ = now;
    }
    if (!idle() || !top.quiet_o || !instructions.empty()) fault("something is left");
    for (const auto& [way, count] : core_counts)
      std::cout << "core " << way[0] << " " << way[1] << " " << kKinds[way[2]] << " " << count[0] << " " << count[1] << "\n";
    core_counts.clear();
  }

  int64_t moved_at_ = 0;
  bool moved() const {
    if (top.tx_valid_o || top.rx_valid_i || top.started_o) return true;
    for (const Accelerator& each : accelerators)
      if (!each.pending.empty() || !each.to_switch.empty() || !each.from_switch.empty()) return true;
    return false;
  }
};

}  // namespace

int main(int argc, char** argv) {
  Verilated::commandArgs(argc, argv);
  static Bench bench;
  const auto port = [](Words& words) { return static_cast<int>(words.below(kPorts)); };
  const auto count = [](int& value) { return [&value](Words& words) { value = static_cast<int>(words.below(1 << 30)); }; };
  const auto percent = [](uint32_t& value) { return [&value](Words& words) { value = static_cast<uint32_t>(words.below(101)); }; };
  const auto range = [](int& low, int& high) {
    return [&low, &high](Words& words) {
      low = static_cast<int>(words.below(1 << 30));
      high = static_cast<int>(words.below(1 << 30));
      if (high < low) throw std::invalid_argument("the lower number first");
    };
  };
  return sim::serve(bench.now, {
      {"type", [](Words& words) { bench.top.type_i = static_cast<uint8_t>(words.below(3)); }},
      {"seed", [](Words& words) { bench.random.seed(static_cast<uint64_t>(words.number())); }},
      {"link", count(bench.link)},
      {"transport", count(bench.transport)},
      {"read", range(bench.read_low, bench.read_high)},
      {"write", range(bench.write_low, bench.write_high)},
      {"hold", percent(bench.hold)},
      {"bubble", percent(bench.bubble)},
      {"core", percent(bench.core_percent)},
      {"memory", [&](Words& words) {
         Memory& memory = bench.accelerators[port(words)].memory;
         const auto address = static_cast<uint64_t>(words.number());
         const Bytes bytes = words.bytes();
         memory.write(address, bytes.data(), bytes.size());
       }},
      {"fill", [&](Words& words) {
         Memory& memory = bench.accelerators[port(words)].memory;
         const auto address = static_cast<uint64_t>(words.number()), length = static_cast<uint64_t>(words.number());
         // Whole numbers from 0 to 255, the sums of which are exact.
         std::mt19937_64 random(static_cast<uint64_t>(words.number()));
         for (uint64_t i = 0; i + 4 <= length; i += 4) {
           const float value = static_cast<float>(random() & 255);
           uint8_t bytes[4];
           std::memcpy(bytes, &value, 4);
           memory.write(address + i, bytes, 4);
         }
       }},
      {"dump", [&](Words& words) {
         const int at = port(words);
         const auto address = static_cast<uint64_t>(words.number()), length = static_cast<uint64_t>(words.number());
         std::cout << "memory " << at << " " << address << " " << sim::hex(bench.accelerators[at].memory.read(address, length)) << "\n";
       }},
      {"instruction", [](Words& words) {
         std::vector<uint64_t> fields(5 + kPorts);
         for (uint64_t& field : fields) field = static_cast<uint64_t>(words.number());
         bench.instructions.push_back(fields);
       }},
      {"add", [&](Words& words) {
         Header header;
         header.kind = kAdd;
         header.inc = true;
         header.source = port(words);
         header.destination = kNode;
         header.address = kWords;
         header.length = 8;
         const auto value = static_cast<uint64_t>(words.number());
         Bytes operand(8);
         for (int i = 0; i < 8; i++) operand[i] = static_cast<uint8_t>(value >> 8 * (7 - i));
         bench.queue(bench.accelerators[header.source], header, operand);
       }},
      {"raw", [&](Words& words) {
         const int from = port(words);
         Bytes bytes = words.bytes();
         bytes.resize(std::max<size_t>(16, bytes.size()));
         bench.queue(bench.accelerators[from], Header::parse(bytes), Bytes(bytes.begin() + 16, bytes.end()));
       }},
      {"send", [&](Words& words) {
         Header header;
         header.source = port(words);
         header.destination = port(words);
         header.kind = static_cast<int>(words.below(kAdd));
         header.length = static_cast<int>(words.below(kPayload + 1));
         Bytes payload(header.kind == kWrite || header.kind == kReadResponse ? header.length : 0);
         if (payload.empty()) header.length = 0;
         for (int64_t left = words.number(); left > 0; left--) {
           header.tag = bench.core_sent[{header.source, header.destination, header.kind}]++;
           for (size_t k = 0; k < payload.size(); k++) payload[k] = static_cast<uint8_t>(header.tag * 31 + k * 7 + 1);
           bench.queue(bench.accelerators[header.source], header, payload);
         }
       }},
      {"cycles", [](Words& words) {
         for (int64_t left = words.number(); left > 0; left--) bench.cycle();
       }},
      {"trace", [](Words&) { bench.tracing = true; }},
      {"run", [](Words&) { bench.run(); }},
  });
}
