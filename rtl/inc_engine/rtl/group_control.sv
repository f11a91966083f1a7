// What a Mode-II switch decides of a group's packets, one a cycle where nothing has to be looked
// for: the collective of a packet, its direction, fan-in and outs (LookupTable); whether it is a
// duplicate; what leaves for it; what ACKs and NAKs mean; which slots are free again
// (RecycleBuffer). Whose turn it is, and what senders are told, are modules of their own. It is
// crates/engines/epic/src/mode_ii.rs step by step, and names what it does in its words.
//
// A packet is chosen in one cycle, its collective and its slot are looked up in the next, and in
// the third it is acted upon. Control messages, acknowledges and the last packets of collectives
// take more: those go over collectives or edges, one a cycle, while others wait.
`default_nettype none

module group_control #(
    parameter int PORTS = 8,
    parameter int SLOTS = 32,
    parameter int COLLECTIVES = 8,
    parameter int RANKS = 16,
    // Whether rules can be broken.
    parameter int BREAKABLE = 0,
    localparam int SlotW = $clog2(SLOTS),
    localparam int PortW = $clog2(PORTS)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The group, which stays as it is while the reset is off.
    input wire logic parent_valid_i,
    input wire logic [PortW-1:0] parent_i,
    input wire logic [PORTS-1:0] edges_i,
    input wire logic [PORTS-1:0] ends_i,
    input wire logic [9:0] ranks_i,
    input wire logic [RANKS*PortW-1:0] toward_i,
    input wire logic [12:0] mtu_i,
    input wire logic [23:0] psn_i,
    input wire logic reproducible_i,
    input wire inc_engine_pkg::mutation_e mutation_i,
    // Packets that have come, of each port the oldest.
    input wire logic [PORTS-1:0] head_valid_i,
    input wire inc_engine_pkg::descriptor_t [PORTS-1:0] head_i,
    output logic [PORTS-1:0] pop_o,
    // Pages that they have left.
    output logic [PORTS-1:0] release_o,
    output logic [PORTS*8-1:0] release_page_o,
    // Sums to be made, and packets to be sent on.
    input wire logic ready_i,
    output logic fold_o,
    output logic forward_o,
    output logic [PORTS-1:0] outs_o,
    output inc_engine_pkg::header_t header_o,
    output inc_engine_pkg::reduction_t reduction_o,
    // How many are added up, in which order, from which pages.
    output logic [PortW:0] count_o,
    output logic [PORTS*PortW-1:0] order_o,
    output logic [PORTS*8-1:0] pages_o,
    // Answers.
    input wire logic [PORTS-1:0] ack_ready_i,
    output logic [PORTS-1:0] ack_o,
    output logic [23:0] ack_psn_o,
    output logic [7:0] ack_syndrome_o,
    // Packets that are done with, and why they were dropped.
    output logic [PORTS-1:0] done_o,
    output inc_engine_pkg::reason_e reason_o
);
  import inc_engine_pkg::*;

  localparam int K = COLLECTIVES;
  localparam int KW = $clog2(K + 1);
  localparam int Window = SLOTS / 2;
  typedef logic [SeqW-1:0] seq_t;
  typedef logic [PORTS-1:0] set_t;

  // Collectives that are known, oldest first.
  typedef struct packed {
    seq_t       first;
    seq_t       last;
    control_t   message;
    logic [31:0] word;
    // The aggregating and the replicating flow.
    set_t       up_sources;
    set_t       up_outs;
    set_t       down_sources;
    set_t       down_outs;
    set_t       receivers;
    // How far it has come: see CollectiveProgress in mode_ii.rs.
    seq_t       reached;
    set_t       through;
    set_t       open;
    set_t       again;
    logic       holds;
    seq_t       held;
  } entry_t;

  entry_t [K-1:0] table_q;
  logic [KW-1:0]  known_q;
  seq_t           base_q, next;
  seq_t           progress_q, cursor_q, clear_q, start;
  seq_t [PORTS-1:0] acked_q;

  mutation_e broken;
  assign broken = (BREAKABLE != 0) ? mutation_i : Unbroken;
  logic takes_anything;
  assign takes_anything = broken == StaleCollective ||
      broken == WindowInMessages || broken == WindowShort || broken == NeverCleared;

  assign next = (known_q == '0) ? base_q : table_q[KW'(known_q-1'b1)].last + 1'b1;

  // RecycleBuffer: what lies before is free.
  always_comb begin
    start = progress_q - SeqW'(Window);
    if (broken == WindowInMessages) start = progress_q - SeqW'(2 * Window - 1);
    if (broken == WindowShort) start = progress_q - 1'b1;
    if (broken == RecyclesStart) start = progress_q - SeqW'(Window - 1);
    if (broken == NeverCleared) start = {8'd1, psn_i} - SeqW'(Window);
  end

  function automatic set_t bit_of(input logic [PortW-1:0] port);
    bit_of       = '0;
    bit_of[port] = 1'b1;
  endfunction

  function automatic logic [PortW-1:0] lowest(input set_t set);
    lowest = '0;
    for (int p = PORTS - 1; p >= 0; p--) if (set[p]) lowest = PortW'(p);
  endfunction

  // What all of a set have acknowledged of a collective.
  function automatic seq_t acked_by_all(input set_t set, input seq_t first, input seq_t last,
                                        input seq_t [PORTS-1:0] acked);
    acked_by_all = last + 1'b1;
    for (int p = 0; p < PORTS; p++) if (set[p]) acked_by_all = earlier(acked[p], acked_by_all);
    acked_by_all = later(acked_by_all, first);
  endfunction

  // The first known collective that ends with a number or after it.
  function automatic logic [KW-1:0] first_from(input seq_t number, input entry_t [K-1:0] entries,
                                               input logic [KW-1:0] known);
    first_from = known;
    for (int i = K - 1; i >= 0; i--) begin
      if (KW'(i) < known && !precedes(entries[i].last, number)) first_from = KW'(i);
    end
  endfunction

  // A collective as its control message has it.
  function automatic entry_t entry_of(input seq_t first, input logic [31:0] word);
    control_t message;
    set_t     parent, toward;
    message = control_of(word);
    parent  = parent_valid_i ? bit_of(parent_i) : '0;
    toward  = bit_of(toward_i[PortW*32'(message.root[$clog2(RANKS)-1:0])+:PortW]);
    entry_of = '0;
    entry_of.first   = first;
    entry_of.last    = first + SeqW'(message.packets);
    entry_of.message = message;
    entry_of.word    = word;
    entry_of.reached = first;
    unique case (message.pattern)
      Reduce: begin
        entry_of.up_sources = edges_i & ~toward;
        entry_of.up_outs    = toward;
        entry_of.receivers  = toward & ends_i;
      end
      Broadcast: begin
        entry_of.down_sources = toward;
        entry_of.down_outs    = edges_i & ~toward;
        entry_of.receivers    = entry_of.down_outs & ends_i;
      end
      default: begin
        entry_of.up_sources   = edges_i & ~parent;
        entry_of.up_outs      = parent;
        entry_of.down_sources = parent;
        entry_of.down_outs    = edges_i & ~parent;
        entry_of.receivers    = entry_of.down_outs & ends_i;
      end
    endcase
    entry_of.open = entry_of.down_outs & ~ends_i;
  endfunction

  // ---- Choice.
  logic        chosen, looked_q, accept;
  set_t        set, set2_q;
  logic [PortW-1:0] lead;
  descriptor_t chosen_packet;

  packet_choice #(
      .PORTS(PORTS)
  ) u_choice (
      .clk_i,
      .rst_ni,
      .head_valid_i,
      .head_i,
      .busy_i  (looked_q ? set2_q : '0),
      .accept_i(accept),
      .valid_o (chosen),
      .set_o   (set),
      .lead_o  (lead),
      .packet_o(chosen_packet)
  );

  // ---- Lookup: the collective and the slot.
  seq_t          near, number;
  logic          found;
  logic [KW-1:0] place;
  seq_t          number_q, release_q;
  logic          release_look;

  // What waits is looked up again and again, for others may have changed what there is to find.
  always_comb begin
    near   = next;
    number = near + {{8{1'b0}}, 24'(chosen_packet.header.psn - near[23:0])};
    if (24'(chosen_packet.header.psn - near[23:0]) >= 24'h800000) number = number - 32'h01000000;
    if (broken == PsnNoWrap) number = {near[31:24], chosen_packet.header.psn};
    if (!accept) number = number_q;
    if (release_look) number = release_q;
    found = 1'b0;
    place = '0;
    for (int i = 0; i < K; i++) begin
      if (KW'(i) < known_q && !precedes(number, table_q[i].first)) begin
        place = KW'(i) + 1'b1;
        found = !precedes(table_q[i].last, number);
      end
    end
  end

  // ---- What is acted upon.
  logic [PortW-1:0] lead2_q;
  descriptor_t   packet_q;
  logic          found_q;
  logic [KW-1:0] index_q, begun_q;
  entry_t        entry_q;
  logic          hit;
  logic          slot_hit, slot_free;
  logic [SlotW-1:0] slot;
  set_t          slot_arrived;

  // Slots, beside who has contributed: headers, the order of arrival, pages.
  header_t [SLOTS-1:0]             slot_header_q;
  logic [SLOTS-1:0][PORTS*PortW-1:0] slot_order_q;
  logic [SLOTS-1:0][PortW:0]       slot_count_q;
  logic [SLOTS-1:0][PORTS*8-1:0]   slot_page_q;

  logic slot_write, slot_release;
  set_t slot_arrived_d;

  slot_table #(
      .PORTS(PORTS),
      .SLOTS(SLOTS),
      .SEQW (SeqW)
  ) u_slots (
      .clk_i,
      .rst_ni,
      .start_i        (start),
      .shares_i       (takes_anything),
      .number_i       (number),
      .hit_o          (slot_hit),
      .slot_o         (slot),
      .free_o         (slot_free),
      .arrived_o      (slot_arrived),
      .write_i        (slot_write),
      .write_slot_i   (slot),
      .write_number_i (number_q),
      .write_arrived_i(slot_arrived_d),
      .release_i      (slot_release),
      .release_slot_i (slot)
  );

  // ---- Longer steps.
  typedef enum logic [4:0] {
    Run,
    Again,
    Insert,
    InsertMove,
    InsertGates,
    Room,
    Answer,
    Move,
    Gates,
    GatesNext,
    ReleaseLook,
    ReleaseSend,
    GatesAsk,
    Passed,
    Acked,
    AckTell,
    AckGates,
    AckRewind,
    AckOwn,
    AckPass,
    Finish,
    Ended
  } state_e;
  state_e state_q, state_d, answer_ret_q, answer_ret_d, move_ret_q, move_ret_d;
  state_e gates_ret_q, gates_ret_d;

  // Answers to be made, and that they are.
  set_t          answer_d;
  answer_e       answer_mode_d;
  seq_t          answer_seq_d;
  logic [7:0]    answer_syndrome_d;
  logic          answered;
  logic [KW-1:0] step_q, step_d;

  seq_t          gates_next_q, gates_next_d;
  set_t          closed_q, closed_d, opened_q, opened_d, ask_q, ask_d;
  logic          is_open_q, is_open_d;
  seq_t          release_d;
  logic [KW-1:0] gates_step_q, gates_step_d;

  set_t          senders_q, senders_d;
  logic          has_all_q, has_all_d;

  logic          room_known_q, room_known_d, has_room_q, has_room_d;
  seq_t          needed_q, needed_d, room_next_q, room_next_d;
  logic          relook_q, relook_d;

  reason_e       reason_q, reason_d;

  entry_t [K-1:0] table_d;
  logic [KW-1:0] known_d;
  seq_t          base_d, progress_d, cursor_d, clear_d;
  seq_t [PORTS-1:0] acked_d;

  logic          acting, done, positive, is_control, fits, carries, room;
  set_t          lead_bit, taken, news, outs, open, lacking, arrived_now, again_now, closed_now;
  set_t          done_set, opened_now;
  seq_t          through_all, arrived, value;
  control_t      message;
  entry_t        entry, candidate;
  header_t       held_header;
  logic [PortW:0] count_d;
  logic [PORTS*PortW-1:0] order_d;
  logic [PORTS*8-1:0] page_d;
  logic          erred_q, erred_d, is_last, same, has_page;
  logic          ready_q;

  assign acting = looked_q && state_q == Run;
  assign hit    = slot_hit && (takes_anything || !precedes(number_q, start));
  assign accept = (state_q == Run && (!looked_q || (done && state_d == Run))) ||
      state_q == Finish || state_q == Ended;

  always_comb begin
    state_d           = state_q;
    answer_ret_d      = answer_ret_q;
    move_ret_d        = move_ret_q;
    gates_ret_d       = gates_ret_q;
    answer_d          = '0;
    answer_mode_d     = Tell;
    answer_seq_d      = '0;
    answer_syndrome_d = SyndromeAck;
    step_d            = step_q;
    gates_next_d      = gates_next_q;
    closed_d          = closed_q;
    opened_d          = opened_q;
    ask_d             = ask_q;
    is_open_d         = is_open_q;
    release_d         = release_q;
    gates_step_d      = gates_step_q;
    senders_d         = senders_q;
    has_all_d         = has_all_q;
    room_known_d      = room_known_q;
    has_room_d        = has_room_q;
    needed_d          = needed_q;
    room_next_d       = room_next_q;
    relook_d          = 1'b0;
    reason_d          = reason_q;
    table_d           = table_q;
    known_d           = known_q;
    base_d            = base_q;
    progress_d        = progress_q;
    cursor_d          = cursor_q;
    clear_d           = clear_q;
    acked_d           = acked_q;
    erred_d           = erred_q;
    slot_write        = 1'b0;
    slot_release      = 1'b0;
    fold_o            = 1'b0;
    forward_o         = 1'b0;
    done              = 1'b0;
    done_set          = '0;
    outs              = '0;
    reason_o          = Accepted;
    taken             = '0;
    news              = '0;
    is_last           = 1'b0;
    value             = '0;
    open              = '0;
    lacking           = '0;
    again_now         = '0;
    closed_now        = '0;
    opened_now        = '0;
    through_all       = '0;
    candidate         = '0;

    entry       = entry_q;
    lead_bit    = bit_of(lead2_q);
    message     = control_of(packet_q.header.word);
    is_control  = packet_q.header.opcode == SendOnlyImmediate;
    positive    = packet_q.header.word[31:29] == 3'd0 ||
        (broken == NakAsAck && packet_q.header.word[31:24] == SyndromeNak);
    arrived     = positive ? number_q + 1'b1 : number_q;
    arrived_now = (hit || broken == ArrivedNeverCleared) ? slot_arrived : '0;
    if (broken == NoDuplicateCheck) arrived_now = '0;
    held_header = hit ? slot_header_q[slot] : packet_q.header;
    held_header.psn = number_q[23:0];
    fits = !precedes(number_q, base_q) &&
        (precedes(number_q, next + SeqW'(2 * Window)) || number_q == next);
    same    = number_q == entry.first;
    carries = !entry.message.empty && packet_q.header.length <= 16'(mtu_i) &&
        (packet_q.header.length[1:0] & entry.message.grain) == 2'd0 ||
        packet_q.header.length == 16'd0;
    room    = takes_anything || (!precedes(number_q, start) &&
        (precedes(number_q, start + SeqW'(2 * Window)) ? (hit || slot_free) : has_room_q));
    is_last = number_q == entry.last;

    // The order of addition, with who comes now behind who has come.
    count_d = hit ? slot_count_q[slot] : '0;
    order_d = slot_order_q[slot];
    page_d  = slot_page_q[slot];

    unique case (state_q)
      Run: begin
        if (acting) begin
          candidate = entry_of(number_q, packet_q.header.word);
          unique case (packet_q.kind)
            KindAck: begin
              if (!found_q) begin
                done     = 1'b1;
                reason_o = BadAcknowledge;
              end else begin
                senders_d = '0;
                has_all_d = 1'b0;
                reason_d  = Accepted;
                if (precedes(acked_q[lead2_q], arrived)) begin
                  acked_d[lead2_q] = arrived;
                  step_d           = first_from(acked_q[lead2_q], table_q, known_q);
                  state_d          = Acked;
                end else begin
                  state_d = AckRewind;
                end
              end
            end
            KindData: begin
              if (is_control && !message.valid) begin
                done     = 1'b1;
                reason_o = Malformed;
              end else if (is_control && !found_q && fits) begin
                // A collective that is not known.
                if (known_q == KW'(K) && begun_q == '0) begin
                  done     = 1'b1;
                  reason_o = TableFull;
                end else if ((message.pattern != AllReduce && message.root >= ranks_i) ||
                    (packet_q.header.length != 16'd0 && (message.empty ||
                        packet_q.header.length > 16'(mtu_i) ||
                        (packet_q.header.length[1:0] & message.grain) != 2'd0)) ||
                    (begun_q < known_q && !precedes(candidate.last, table_q[begun_q].first))) begin
                  done     = 1'b1;
                  reason_o = Malformed;
                end else if (((candidate.up_sources | candidate.down_sources) & lead_bit) == '0)
                begin
                  done     = 1'b1;
                  reason_o = WrongDirection;
                end else begin
                  state_d = Insert;
                end
              end else if (!found_q) begin
                done     = 1'b1;
                reason_o = NoCollective;
              end else if (is_control && same && packet_q.header.word != entry.word &&
                  broken != AddsWhateverComes) begin
                done     = 1'b1;
                reason_o = Disagreement;
              end else if (is_control != same || !carries ||
                  (!is_control && packet_q.header.length == 16'd0)) begin
                done     = 1'b1;
                reason_o = Malformed;
              end else if ((entry.up_sources & lead_bit) != '0) begin
                // Up. The others in the set go along if nothing is special about one of them.
                if (entry.message.pattern == Reduce &&
                    precedes(number_q, table_q[index_q].reached) &&
                    broken != ReduceRecycledByCompletion) begin
                  reason_d = Duplicate;
                  if (broken == AckOnlyIfNews) begin
                    done     = 1'b1;
                    reason_o = Duplicate;
                  end else begin
                    answer_seq_d = table_q[index_q].reached - 1'b1;
                    state_d      = Answer;
                  end
                end else if (entry.message.pattern == AllReduce && (ends_i & lead_bit) != '0 &&
                    precedes(entry.last + 1'b1, acked_q[lead2_q])) begin
                  reason_d     = Duplicate;
                  answer_seq_d = entry.last;
                  state_d      = Answer;
                end else if (!takes_anything && precedes(number_q, start)) begin
                  done     = 1'b1;
                  reason_o = Stale;
                end else if (!takes_anything && !precedes(number_q, start + SeqW'(2 * Window)) &&
                    !room_known_q) begin
                  state_d = Room;
                end else if (!room) begin
                  // The range may have moved since it was looked.
                  if (!relook_q && !room_known_q) relook_d = 1'b1;
                  else begin
                    done     = 1'b1;
                    reason_o = AheadOfRange;
                  end
                end else if ((arrived_now & lead_bit) != '0) begin
                  done = ready_i;
                  if (((slot_arrived & entry.up_sources) == entry.up_sources) && hit) begin
                    // Whoever asks missed the answer.
                    fold_o   = ready_i;
                    outs     = (entry.message.pattern == AllReduce && !parent_valid_i) ? lead_bit
                        : entry.up_outs;
                    if (broken == AnswersNextSlot) page_d = slot_page_q[SlotW'(slot+1'b1)];
                  end
                end else if (hit && (held_header.length != packet_q.header.length ||
                    (broken != AddsWhateverComes && (held_header.opcode != packet_q.header.opcode ||
                        (is_control && held_header.word != packet_q.header.word))))) begin
                  done     = 1'b1;
                  reason_o = Mismatch;
                end else if (ready_i) begin
                  news = set2_q & entry.up_sources & ~arrived_now;
                  for (int p = 0; p < PORTS; p++) begin
                    if (entry.message.pattern == AllReduce && ends_i[p] &&
                        precedes(entry.last + 1'b1, acked_q[p])) news[p] = 1'b0;
                  end
                  slot_write = 1'b1;
                  done       = 1'b1;
                  taken      = news;
                  for (int p = 0; p < PORTS; p++) begin
                    if (news[p]) begin
                      if (32'(count_d) < PORTS) order_d[PortW*32'(count_d)+:PortW] = PortW'(p);
                      count_d        = count_d + 1'b1;
                      if (has_page) page_d[8*p+:8] = head_i[p].page;
                      held_header.ack_request = held_header.ack_request |
                          head_i[p].header.ack_request;
                    end
                  end
                  if (((arrived_now | news) & entry.up_sources) == entry.up_sources) begin
                    fold_o   = 1'b1;
                    outs     = (entry.message.pattern == AllReduce && !parent_valid_i)
                        ? entry.up_sources : entry.up_outs;
                    if (broken == ChangesAnElement && !erred_q) begin
                      erred_d = 1'b1;
                      order_d[PortW-1:0] = order_d[PortW*(32'(count_d)-1)+:PortW];
                    end
                    if (is_last && (outs & ends_i) != '0) begin
                      table_d[index_q].through = table_q[index_q].through | (outs & ends_i);
                      state_d     = Gates;
                      gates_ret_d = Passed;
                    end else if (entry.message.pattern == AllReduce ||
                        broken == ReduceRecycledByCompletion) begin
                      table_d[index_q].reached = later(table_q[index_q].reached, number_q + 1'b1);
                      if (!precedes(cursor_q, entry.first) && precedes(cursor_q, entry.last)  &&
                          !is_last) begin
                        cursor_d   = later(cursor_q, number_q + 1'b1);
                        progress_d = cursor_d;
                      end else begin
                        state_d    = Move;
                        move_ret_d = Ended;
                      end
                    end
                  end
                end
              end else if ((entry.down_sources & lead_bit) == '0) begin
                done     = 1'b1;
                reason_o = WrongDirection;
              end else begin
                // Down.
                through_all = acked_by_all(entry.down_outs, entry.first, entry.last, acked_q);
                lacking     = entry.down_outs;
                open        = entry.down_outs;
                if (entry.message.pattern == Broadcast) begin
                  for (int p = 0; p < PORTS; p++) begin
                    if (precedes(number_q, acked_q[p])) lacking[p] = 1'b0;
                  end
                  open = table_q[index_q].open & lacking;
                end
                if (entry.message.pattern == Broadcast && precedes(number_q, through_all) &&
                    broken != AckOnlyIfNews) begin
                  reason_d     = Duplicate;
                  answer_seq_d = through_all - 1'b1;
                  state_d      = Answer;
                end else if (open != lacking && !precedes(number_q, start + SeqW'(2 * Window)) &&
                    !takes_anything && !room_known_q) begin
                  state_d = Room;
                end else if (open != lacking && !room && !precedes(number_q, start) && !relook_q &&
                    !room_known_q) begin
                  relook_d = 1'b1;
                end else if (ready_i) begin
                  done = 1'b1;
                  if (open != lacking) begin
                    if (!room) begin
                      reason_o = precedes(number_q, start) ? Stale : AheadOfRange;
                      table_d[index_q].again = table_q[index_q].again | (lacking & ~open);
                    end else if (hit) begin
                      reason_o = Duplicate;
                    end else begin
                      slot_write = 1'b1;
                      taken      = lead_bit;
                      news       = lead_bit;
                      order_d    = (PORTS * PortW)'(lead2_q);
                      count_d    = (PortW + 1)'(1);
                      if (has_page) page_d[8*32'(lead2_q)+:8] = packet_q.page;
                      if (!table_q[index_q].holds ||
                          precedes(table_q[index_q].held, number_q + 1'b1)) begin
                        table_d[index_q].held = number_q + 1'b1;
                      end
                      table_d[index_q].holds = 1'b1;
                    end
                  end
                  if (open != '0) begin
                    reason_o        = Accepted;
                    forward_o       = 1'b1;
                    outs            = open;
                    if (is_last && (open & ends_i) != '0) begin
                      table_d[index_q].through = table_q[index_q].through | (open & ends_i);
                      state_d     = Gates;
                      gates_ret_d = Ended;
                    end
                  end
                end
              end
            end
            default: begin
              done     = 1'b1;
              reason_o = UnexpectedOperation;
            end
          endcase
          if (state_d == Answer) begin
            answer_d      = lead_bit;
            answer_mode_d = TellAgain;
            answer_ret_d  = Finish;
          end
          if (state_d == Room) begin
            needed_d    = '0;
            room_next_d = later(start, base_q);
            step_d      = first_from(room_next_d, table_q, known_q);
          end
        end
      end

      // The collective is taken in; the oldest is forgotten if there is no room.
      Insert: begin
        candidate = entry_of(number_q, packet_q.header.word);
        if (known_q == KW'(K)) begin
          base_d = table_q[0].last + 1'b1;
          for (int i = 0; i < K; i++) begin
            if (KW'(i) + 1'b1 < begun_q) table_d[i] = table_q[(i+1)%K];
            else if (KW'(i) + 1'b1 == begun_q) table_d[i] = candidate;
          end
        end else begin
          for (int i = 0; i < K; i++) begin
            if (KW'(i) == begun_q) table_d[i] = candidate;
            else if (KW'(i) > begun_q) table_d[i] = table_q[(i+K-1)%K];
          end
          known_d = known_q + 1'b1;
        end
        if (begun_q < known_q) begin
          // Later ones were known before: what waited for it may go on.
          answer_d      = edges_i;
          answer_mode_d = Tell;
          answer_ret_d  = InsertMove;
          state_d       = Answer;
        end else begin
          state_d = InsertGates;
        end
      end
      InsertMove: begin
        state_d    = Move;
        move_ret_d = InsertGates;
      end
      InsertGates: begin
        state_d     = Gates;
        gates_ret_d = Again;
      end
      // It is looked up once more.
      Again: state_d = Run;

      // Whether a slot would be left for each packet before this one that may need one.
      Room: begin
        if (32'(step_q) < 32'(known_q) && !precedes(number_q, table_q[step_q].first)) begin
          candidate = table_q[step_q];
          value     = '0;
          if (precedes(room_next_q, candidate.first)) value = candidate.first - room_next_q;
          if (candidate.message.pattern != Broadcast ||
              (candidate.receivers & ~candidate.open) != '0) begin
            value = value + earlier(candidate.last, number_q) + 1'b1 -
                later(candidate.first, room_next_q);
          end
          needed_d    = needed_q + value;
          room_next_d = candidate.last + 1'b1;
          step_d      = step_q + 1'b1;
        end else begin
          value = '0;
          if (precedes(room_next_q, number_q + 1'b1)) value = number_q + 1'b1 - room_next_q;
          has_room_d   = needed_q + value <= SeqW'(2 * Window) && (hit || slot_free);
          room_known_d = 1'b1;
          state_d      = Run;
        end
      end

      Answer: if (answered) state_d = answer_ret_q;

      // RecycleBuffer: the range moves on, over the ends of collectives.
      Move: begin
        value  = later(cursor_q, base_q);
        step_d = first_from(value, table_q, known_q);
        candidate = table_q[step_d];
        cursor_d  = value;
        if (step_d >= known_q || precedes(value, candidate.first)) state_d = move_ret_q;
        else if (candidate.message.pattern == Broadcast) cursor_d = candidate.last + 1'b1;
        else begin
          if (precedes(value, candidate.reached)) begin
            cursor_d   = candidate.reached;
            progress_d = candidate.reached;
          end
          if (!precedes(candidate.last, cursor_d)) state_d = move_ret_q;
        end
      end

      // The gates of Broadcasts that have nothing to wait for any more open.
      Gates: begin
        clear_d      = later(clear_q, base_q);
        gates_next_d = clear_d;
        closed_d     = '0;
        gates_step_d = first_from(clear_d, table_q, known_q);
        state_d      = GatesNext;
      end
      GatesNext: begin
        candidate = table_q[gates_step_q];
        if (gates_step_q >= known_q) state_d = gates_ret_q;
        else begin
          closed_now = precedes(gates_next_q, candidate.first) ? ends_i : closed_q;
          again_now  = candidate.again & ~closed_now;
          opened_now = (candidate.message.pattern == Broadcast)
              ? candidate.receivers & ~closed_now & ~candidate.open : '0;
          table_d[gates_step_q].open = candidate.open | opened_now;
          is_open_d = (candidate.receivers & ~(candidate.open | opened_now)) == '0;
          closed_d  = closed_now;
          ask_d     = again_now;
          opened_d  = opened_now & ~again_now;
          if (opened_now != '0 && candidate.holds) begin
            release_d = later(candidate.first, start);
            state_d   = ReleaseLook;
          end else if (again_now != '0) begin
            state_d = GatesAsk;
          end else begin
            closed_now   = closed_now | (candidate.receivers & ~candidate.through);
            closed_d     = closed_now;
            gates_next_d = candidate.last + 1'b1;
            if (closed_now == '0) clear_d = candidate.last + 1'b1;
            gates_step_d = gates_step_q + 1'b1;
            if (closed_now != '0 && closed_now == ends_i) state_d = gates_ret_q;
          end
        end
      end
      // What is held passes.
      ReleaseLook: begin
        if (!precedes(release_q, table_q[gates_step_q].held)) begin
          if (table_q[gates_step_q].held == table_q[gates_step_q].last + 1'b1) begin
            table_d[gates_step_q].through = table_q[gates_step_q].through | opened_q;
          end
          state_d = GatesAsk;
        end else begin
          state_d = ReleaseSend;
        end
      end
      ReleaseSend: begin
        if (!(slot_hit && !precedes(release_q, start))) begin
          release_d = release_q + 1'b1;
          state_d   = ReleaseLook;
        end else if (ready_i) begin
          forward_o       = opened_q != '0;
          outs            = opened_q;
          held_header     = slot_header_q[slot];
          held_header.psn = release_q[23:0];
          slot_release    = is_open_q;
          release_d       = release_q + 1'b1;
          state_d         = ReleaseLook;
        end
      end
      GatesAsk: begin
        candidate = table_q[gates_step_q];
        table_d[gates_step_q].again = candidate.again & ~ask_q;
        answer_mode_d     = (candidate.message.pattern == Broadcast) ? PassOnForMany : PassOn;
        answer_seq_d      = candidate.first;
        answer_syndrome_d = SyndromeNak;
        unique case (candidate.message.pattern)
          Reduce: answer_d = candidate.up_sources;
          Broadcast: answer_d = candidate.down_sources;
          default: answer_d = ask_q;
        endcase
        if (ask_q == '0) answer_d = '0;
        answer_ret_d = GatesNext;
        // The collective is gone through once more, with nothing to open or to ask for.
        state_d      = Answer;
      end

      // The last packet of a sum has passed.
      Passed: begin
        state_d = Ended;
        if (entry.message.pattern == AllReduce || broken == ReduceRecycledByCompletion) begin
          table_d[index_q].reached = later(table_q[index_q].reached, number_q + 1'b1);
          state_d    = Move;
          move_ret_d = Ended;
        end
      end

      // ReceiveAck: what it means to the senders of every collective that it touches.
      Acked: begin
        candidate = table_q[step_q];
        if (step_q >= known_q || !precedes(candidate.first, arrived)) begin
          state_d    = Move;
          move_ret_d = AckTell;
        end else begin
          step_d = step_q + 1'b1;
          if (precedes(candidate.last, arrived) && (candidate.receivers & lead_bit) != '0) begin
            has_all_d = has_all_q || (candidate.through & lead_bit) == '0;
            table_d[step_q].through = candidate.through | lead_bit;
            table_d[step_q].open    = candidate.open | lead_bit;
            table_d[step_q].again   = candidate.again & ~lead_bit;
          end
          value = candidate.reached;
          if (candidate.message.pattern == Reduce && (candidate.up_outs & lead_bit) != '0) begin
            value = earlier(arrived, candidate.last + 1'b1);
          end
          if (candidate.message.pattern == Broadcast && (candidate.down_outs & lead_bit) != '0)
          begin
            value = acked_by_all(candidate.down_outs, candidate.first, candidate.last,
                                   acked_q);
          end
          if (precedes(candidate.reached, value)) begin
            table_d[step_q].reached = value;
            senders_d = senders_q | ((candidate.message.pattern == Reduce)
                ? candidate.up_sources : candidate.down_sources);
          end
        end
      end
      AckTell: begin
        answer_d      = senders_q;
        answer_mode_d = Tell;
        answer_ret_d  = AckGates;
        state_d       = Answer;
      end
      AckGates: begin
        state_d     = AckRewind;
        gates_ret_d = AckRewind;
        if (has_all_q) state_d = Gates;
      end
      // A rank that asks has dropped what has passed to it since.
      AckRewind: begin
        if (!positive && (ends_i & lead_bit) != '0 && !precedes(number_q, acked_q[lead2_q])) begin
          for (int i = 0; i < K; i++) begin
            if (KW'(i) >= index_q && KW'(i) < known_q && (table_q[i].receivers & lead_bit) != '0)
            begin
              table_d[i].through = table_q[i].through & ~lead_bit;
              if (KW'(i) > index_q) begin
                table_d[i].again = table_q[i].again | (table_q[i].through & lead_bit);
                if (table_q[i].message.pattern == Broadcast) begin
                  table_d[i].open = table_q[i].open & ~lead_bit;
                end
              end
            end
          end
          clear_d = earlier(clear_q, entry.first);
        end
        state_d = AckOwn;
      end
      AckOwn: begin
        state_d = AckPass;
        if (entry.message.pattern != AllReduce && (ends_i & lead_bit) != '0) begin
          answer_d      = lead_bit;
          answer_mode_d = Tell;
          answer_ret_d  = AckPass;
          state_d       = Answer;
        end
      end
      AckPass: begin
        answer_ret_d      = Finish;
        answer_seq_d      = number_q;
        answer_syndrome_d = packet_q.header.word[31:24];
        answer_mode_d     = PassOn;
        answer_d          = '0;
        state_d           = Answer;
        unique case (entry.message.pattern)
          Reduce: begin
            if ((entry.up_outs & lead_bit) == '0) reason_d = WrongDirection;
            else if (!positive) answer_d = entry.up_sources;
          end
          Broadcast: begin
            if ((entry.down_outs & lead_bit) == '0) reason_d = WrongDirection;
            else if (!positive) begin
              answer_d      = entry.down_sources;
              answer_mode_d = (broken == NakForwarded) ? PassOn : PassOnForMany;
              value         = acked_by_all(entry.down_outs, entry.first, entry.last, acked_q);
              if (broken != NakForwarded) answer_seq_d = earlier(number_q, value);
            end
          end
          default: begin
            if ((ends_i & lead_bit) == '0) reason_d = WrongDirection;
            else begin
              answer_d = lead_bit;
              if (packet_q.header.word[31:29] == 3'd0) answer_mode_d = TellAgain;
            end
          end
        endcase
      end
      Finish: begin
        done     = 1'b1;
        reason_o = reason_q;
        state_d  = Run;
      end
      default: state_d = Run;
    endcase

    // Those that are done with: all that were taken together, else the one that leads them.
    if (done) done_set = (news != '0) ? news : lead_bit;
  end

  logic unused_bits;
  assign unused_bits    = ^{message, entry};
  assign release_look   = state_q == ReleaseLook || state_q == ReleaseSend;
  assign has_page       = packet_q.kind == KindData && packet_q.header.length != 16'd0;
  assign slot_arrived_d = (hit ? slot_arrived : '0) | news;
  assign done_o         = done_set;
  assign pop_o          = done_set;
  assign outs_o         = outs;
  assign header_o       = (state_q == Run && forward_o) ? packet_q.header : held_header;
  assign reduction_o    = entry_q.message.reduction;

  // A packet's page, or the one that it has taken the place of.
  always_comb begin
    release_o = has_page ? done_set : '0;
    for (int p = 0; p < PORTS; p++) begin
      release_page_o[8*p+:8] = taken[p] ? slot_page_q[slot][8*p+:8] : head_i[p].page;
    end
  end

  answer_maker #(
      .PORTS      (PORTS),
      .COLLECTIVES(COLLECTIVES),
      .ENTRY      (entry_t)
  ) u_answers (
      .clk_i,
      .rst_ni,
      .begins_i     (!ready_q),
      .first_i      ({8'd1, psn_i}),
      .ends_i,
      .table_i      (table_q),
      .known_i      (known_q),
      .base_i       (base_q),
      .acked_i      (acked_q),
      .start_i      (state_d == Answer && state_q != Answer),
      .senders_i    (answer_d),
      .kind_i       (answer_mode_d),
      .number_i     (answer_seq_d),
      .syndrome_i   (answer_syndrome_d),
      .done_o       (answered),
      .came_i       ((acting && packet_q.kind == KindData) ? lead_bit | news : '0),
      .came_number_i(number_q),
      .ack_ready_i,
      .ack_o,
      .ack_psn_o,
      .ack_syndrome_o
  );

  addition_order #(
      .PORTS(PORTS)
  ) u_order (
      .count_i  (count_d),
      .order_i  (order_d),
      .pages_i  (page_d),
      .by_edge_i(reproducible_i && fold_o),
      .sources_i(entry_q.up_sources),
      .passes_i (state_q == Run && forward_o),
      .port_i   (lead2_q),
      .page_i   (packet_q.page),
      .count_o,
      .order_o,
      .pages_o
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      looked_q      <= 1'b0;
      state_q       <= Run;
      known_q       <= '0;
          relook_q      <= 1'b0;
      room_known_q  <= 1'b0;
      erred_q       <= 1'b0;
      ready_q   <= 1'b0;
    end else begin
      ready_q   <= 1'b1;
      if (accept) looked_q <= chosen;
      state_q       <= state_d;
      known_q       <= known_d;
      relook_q      <= relook_d;
      room_known_q  <= room_known_d && !accept;
      erred_q       <= erred_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      set2_q   <= set;
      lead2_q  <= lead;
      packet_q <= chosen_packet;
      number_q <= number;
    end
    found_q <= found;
    begun_q <= place;
    index_q <= place - 1'b1;
    entry_q <= table_q[KW'(place-1'b1)];

    answer_ret_q      <= answer_ret_d;
    move_ret_q        <= move_ret_d;
    gates_ret_q       <= gates_ret_d;
    step_q            <= step_d;
    gates_next_q      <= gates_next_d;
    gates_step_q      <= gates_step_d;
    closed_q          <= closed_d;
    opened_q          <= opened_d;
    ask_q             <= ask_d;
    is_open_q         <= is_open_d;
    release_q         <= release_d;
    senders_q         <= senders_d;
    has_all_q         <= has_all_d;
    has_room_q        <= has_room_d;
    needed_q          <= needed_d;
    room_next_q       <= room_next_d;
    reason_q          <= reason_d;
    table_q           <= table_d;
    if (slot_write) begin
      slot_header_q[slot] <= held_header;
      slot_order_q[slot]  <= order_d;
      slot_count_q[slot]  <= count_d;
      slot_page_q[slot]   <= page_d;
    end

    base_q     <= base_d;
    progress_q <= progress_d;
    cursor_q   <= cursor_d;
    clear_q    <= clear_d;
    acked_q    <= acked_d;
    // The group begins with its first packet: room below for a window.
    if (!ready_q) begin
      base_q     <= {8'd1, psn_i};
      progress_q <= {8'd1, psn_i};
      cursor_q   <= {8'd1, psn_i};
      clear_q    <= {8'd1, psn_i};
      for (int p = 0; p < PORTS; p++) begin
        acked_q[p]    <= {8'd1, psn_i};
      end
      for (int s = 0; s < SLOTS; s++) slot_page_q[s] <= {PORTS{8'(s)}};
    end
  end
endmodule

`default_nettype wire
