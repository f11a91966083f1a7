// Decides what becomes of a packet (CAIS III-A3), which entry makes room for another, and which has
// been forgotten by all (III-A4). A packet is decided after the other; what is to be moved for it is
// said to the mover. Sections are the paper's.
`default_nettype none

module merge_control #(
    parameter int PORTS = 8,
    parameter int ENTRIES = 320,
    parameter int PAYLOAD_BYTES = 128,
    // Cycles.
    parameter int TIMEOUT = 5000,
    parameter int BREAKABLE = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The switch, the home whose port this is, how many take part in a merge, the type of elements.
    input wire logic [11:0] node_i,
    input wire logic [3:0] home_i,
    input wire logic [4:0] participants_i,
    input wire logic [1:0] type_i,
    input wire logic [3:0] mutation_i,
    // Headers, whether payload follows, and from which port they come.
    input wire logic header_valid_i,
    output logic header_ready_o,
    input wire prim_flit_pkg::header_t header_i,
    input wire logic has_data_i,
    input wire logic [3:0] port_i,
    // At a boundary all that is cached is forgotten.
    input wire logic forget_i,
    output logic forgotten_o,
    // What the mover has to do.
    output logic move_valid_o,
    input wire logic move_room_i,
    output cais_pkg::move_t move_o,
    // A packet has been decided, an entry has timed out: when that was judged, and how.
    output logic decided_o,
    output logic expired_o,
    output logic [31:0] at_o,
    output cais_pkg::drop_e drop_o,
    output logic [10:0] taken_o,
    output logic idle_o
);
  localparam int NumberW = $clog2(ENTRIES);
  localparam logic [5:0] MostWaiting = 6'(2 * PORTS);

  if (PORTS < 2 || PORTS > 16) begin : gen_ports
    expected_2_to_16_as_PORTS u_stop ();
  end
  if (ENTRIES < 2 || ENTRIES > 1024) begin : gen_entries
    expected_2_to_1024_as_ENTRIES u_stop ();
  end
  if (TIMEOUT < 16) begin : gen_timeout
    expected_16_cycles_or_more_as_TIMEOUT u_stop ();
  end

  // Rules that can be broken (mutation.rs).
  typedef enum logic [3:0] {
    Sound,
    EvictsWaiting,
    EvictionDropsPartial,
    TimeoutDropsPartial,
    SumCountsOne,
    PartialCountsAll,
    KeepsSum,
    AnswersBeforeData,
    BypassEvicts,
    BoundaryKeepsData,
    IgnoresType,
    CountsRequests,
    ReleasesEarly
  } mutation_e;

  typedef enum logic [3:0] {
    Idle,
    Search,
    Fetch,
    Decide,
    Ends,
    FetchOldest,
    Evict,
    Insert,
    Tell,
    Act,
    Unlink,
    Append
  } state_e;

  // Why the state is `Fetch`.
  typedef enum logic [1:0] {
    Packet,
    Expire,
    Forget
  } why_e;

  // What is still to be done, once it is decided.
  typedef struct packed {
    // Those who hear that nobody is awaited any more.
    logic [15:0] tell;
    logic [47:0] address;
    logic [23:0] point;
    logic        act;
    // Out of the orders of accesses, and in again; the second one is of who does not wait for data.
    logic        unlink;
    logic        unsettle;
    logic        append;
    logic        settle;
    // The entry is over.
    logic        free;
    // There is room for a new one now.
    logic        insert;
  } plan_t;

  state_e                 state_q, state_d;
  why_e                   why_q, why_d;
  plan_t                  plan_q, plan_d;
  cais_pkg::move_t        move_q, move_d;
  // From where the plan goes on, if it does.
  state_e                 from;
  logic                   go_on;
  prim_flit_pkg::header_t header_q;
  logic [3:0]             port_q;
  logic                   has_data_q;
  logic [31:0]            time_q, at_q;
  logic [NumberW-1:0]     number_q, number_d;
  logic [3:0]             mutation;

  assign mutation = (BREAKABLE != 0) ? mutation_i : Sound;

  // The merging table but for its data; which entries are taken.
  logic [cais_pkg::EntryW-1:0] entry_mem[0:ENTRIES-1];
  logic [31:0]                 last_mem[0:ENTRIES-1];
  logic [ENTRIES-1:0]          taken_q;
  cais_pkg::entry_t            entry_q, entry_d;
  logic                        entry_write;

  // Numbers that are free: those that were left, the latest first, and those that were never taken.
  logic [NumberW-1:0] left_mem[0:ENTRIES-1];
  logic [NumberW:0]   left_q, fresh_q;
  logic [NumberW-1:0] free_number;
  logic               is_full;

  assign is_full     = left_q == '0 && fresh_q == (NumberW + 1)'(ENTRIES);
  assign free_number = (left_q != '0) ? left_mem[NumberW'(left_q - 1'b1)] : NumberW'(fresh_q);
  assign taken_o     = 11'(fresh_q) - 11'(left_q);

  // Lookup, and the orders of accesses.
  logic               hit, found_q;
  logic [NumberW-1:0] hit_number;
  logic               file, unfile, unlink, append, unsettle, settle;
  logic               unused_any, settled_any, unused_newest, settled_newest;
  logic [NumberW-1:0] oldest, settled_oldest, settled_newer, unused_newer;
  logic               is_taken, kind, is_reduction, is_response;
  logic [47:0]        wanted;

  assign is_reduction = header_q.kind == prim_flit_pkg::KindReduce;
  assign is_response  = header_q.kind == prim_flit_pkg::KindReadResponse;
  // A packet is looked up as it comes; what is filed is of the one that has.
  assign kind     = is_taken ? header_i.kind == prim_flit_pkg::KindReduce : is_reduction;
  assign wanted   = is_taken ? header_i.address : header_q.address;
  assign is_taken = state_q == Idle;

  lookup_table #(
      .ENTRIES(ENTRIES),
      .KEY_W(49)
  ) u_lookup (
      .clk_i,
      .rst_ni,
      .key_i       ({kind && mutation != IgnoresType, wanted}),
      .hit_o       (hit),
      .hit_number_o(hit_number),
      .write_i     (file),
      .clear_i     (unfile),
      .number_i    (number_q)
  );

  access_order #(
      .ENTRIES(ENTRIES)
  ) u_order (
      .clk_i,
      .rst_ni,
      .unlink_i(unlink),
      .append_i(append),
      .number_i(number_q),
      .any_o   (unused_any),
      .oldest_o(oldest),
      .newest_o(unused_newest),
      .newer_o (unused_newer)
  );

  access_order #(
      .ENTRIES(ENTRIES)
  ) u_settled (
      .clk_i,
      .rst_ni,
      .unlink_i(unsettle),
      .append_i(settle),
      .number_i(number_q),
      .any_o   (settled_any),
      .oldest_o(settled_oldest),
      .newest_o(settled_newest),
      .newer_o (settled_newer)
  );

  // Whether the one that was accessed first has not been accessed for too long.
  logic [31:0] age;
  logic        is_due;
  assign age    = time_q - last_mem[settled_oldest];
  assign is_due = settled_any && age >= TIMEOUT;

  // The walk at a boundary: over what is settled, as it was in order then.
  logic               walking_q, walking_d, forgotten_d;
  logic [NumberW-1:0] walk_q, walk_d;

  // What a packet asks for.
  logic               is_f32, from_there, for_home, right_length, right_count;
  logic [15:0]        asks;
  logic [5:0]         all, least, count, served, has_served;
  logic [15:0]        seen, notify;
  logic               is_awaited, is_over, waits_for_data, same_length, waits_full;
  cais_pkg::drop_e    drop_d;
  cais_pkg::move_t    pass;
  logic [23:0]        point, entry_point;

  assign is_f32 = type_i == prim_half_pkg::TypeF32;
  assign from_there = header_q.source == 12'(port_q) && 32'(port_q) < PORTS;
  assign for_home = header_q.inc && header_q.destination == 12'(home_i)
      && header_q.source != 12'(home_i);
  assign right_length = header_q.length != '0 && 32'(header_q.length) <= PAYLOAD_BYTES
      && !(is_reduction && (header_q.length[0] || (is_f32 && header_q.length[1])));
  assign right_count = header_q.tag != '0 && header_q.tag <= 24'(participants_i);
  assign asks = 16'd1 << port_q;
  assign point = is_reduction ? cais_pkg::PointAdded : cais_pkg::PointLoaded;
  assign entry_point = (entry_q.status == cais_pkg::Reduction) ? cais_pkg::PointAdded
      : cais_pkg::PointLoaded;
  assign all = 6'(participants_i);
  assign least = (mutation == ReleasesEarly && participants_i > 5'd1) ? all - 6'd1 : all;

  // The entry with this packet in it.
  assign seen = entry_q.seen | asks;
  assign notify = entry_q.notify | (header_q.notify ? asks : 16'd0);
  assign count = entry_q.count + (is_reduction ? header_q.tag[5:0] : 6'd1);
  assign served = (mutation == CountsRequests) ? count : cais_pkg::ones(seen);
  assign is_over = is_reduction ? count >= least : served >= all;
  // Without it, as its data come.
  assign has_served = (mutation == CountsRequests) ? entry_q.count : cais_pkg::ones(entry_q.seen);
  assign waits_for_data = entry_q.status == cais_pkg::LoadWait;
  assign same_length = entry_q.length == header_q.length;
  assign waits_full = entry_q.waiting >= MostWaiting;
  assign is_awaited = header_q.destination == node_i && !header_q.inc && port_q == home_i
      && header_q.tag < 24'(ENTRIES) && taken_q[number_q] && entry_q.status == cais_pkg::LoadWait
      && entry_q.address == header_q.address && same_length;

  // It goes past: as if the unit were not there.
  always_comb begin
    pass = '0;
    pass.op = is_reduction ? cais_pkg::OpPass : cais_pkg::OpHeader;
    pass.header = cais_pkg::header(header_q.kind, 1'b0, header_q.source, header_q.destination,
        header_q.address, header_q.length, header_q.tag);
  end

  // A sum goes home, with so many contributions in it.
  function automatic logic [127:0] sum_header(
      input logic [47:0] address, input logic [15:0] length, input logic [5:0] contributions);
    logic [5:0] said;
    said = contributions;
    if (mutation == SumCountsOne) said = 6'd1;
    if (mutation == PartialCountsAll || mutation == ReleasesEarly) said = all;
    sum_header = cais_pkg::header(prim_flit_pkg::KindReduce, 1'b0, node_i, 12'(home_i), address,
        length, 24'(said));
  endfunction

  // The end of the entry in `entry_q`: who is told, what of it goes home.
  plan_t end_plan;
  cais_pkg::move_t end_move;
  logic  drops_partial;
  assign drops_partial = (state_q == Evict && mutation == EvictionDropsPartial)
      || (state_q == Ends && mutation == TimeoutDropsPartial);
  always_comb begin
    end_plan          = '0;
    end_plan.tell     = entry_q.notify;
    end_plan.address  = entry_q.address;
    end_plan.point    = entry_point;
    end_plan.unlink   = 1'b1;
    end_plan.unsettle = entry_q.status != cais_pkg::LoadWait;
    end_plan.free     = 1'b1;
    end_move          = '0;
    end_move.op       = cais_pkg::OpReadOut;
    end_move.number   = 10'(number_q);
    end_move.header   = sum_header(entry_q.address, entry_q.length, entry_q.count);
    if (entry_q.status == cais_pkg::Reduction && !drops_partial) end_plan.act = 1'b1;
  end

  always_comb begin
    state_d        = state_q;
    why_d          = why_q;
    plan_d         = plan_q;
    move_d         = move_q;
    number_d       = number_q;
    entry_d        = entry_q;
    entry_write    = 1'b0;
    header_ready_o = 1'b0;
    move_valid_o   = 1'b0;
    move_o         = move_q;
    decided_o      = 1'b0;
    expired_o      = 1'b0;
    drop_d         = cais_pkg::Taken;
    file           = 1'b0;
    unfile         = 1'b0;
    unlink         = 1'b0;
    unsettle       = 1'b0;
    append         = 1'b0;
    settle         = 1'b0;
    walking_d      = walking_q;
    walk_d         = walk_q;
    forgotten_d    = 1'b0;
    from           = Decide;
    go_on          = 1'b0;
    unique case (state_q)
      Idle: begin
        plan_d = '0;
        move_d = '0;
        if (walking_q) begin
          number_d = walk_q;
          why_d    = Forget;
          state_d  = Fetch;
        end else if (is_due) begin
          number_d = settled_oldest;
          why_d    = Expire;
          state_d  = Fetch;
        end else if (forget_i && !forgotten_o) begin
          if (settled_any && mutation != BoundaryKeepsData) begin
            walking_d = 1'b1;
            walk_d    = settled_oldest;
          end else begin
            forgotten_d = 1'b1;
          end
        end else if (header_valid_i) begin
          header_ready_o = 1'b1;
          why_d          = Packet;
          state_d        = Search;
        end
      end

      Search: state_d = Fetch;

      // `hit` is there; a response says its entry itself.
      Fetch: begin
        state_d = (why_q == Packet) ? Decide : Ends;
        if (why_q == Packet) number_d = is_response ? NumberW'(header_q.tag) : hit_number;
      end

      // An entry that is over by itself.
      Ends: begin
        walk_d = settled_newer;
        if (why_q == Expire) begin
          expired_o = 1'b1;
          plan_d    = end_plan;
          move_d    = end_move;
        end else begin
          plan_d = (entry_q.status == cais_pkg::LoadReady) ? end_plan : '0;
          if (settled_newest) begin
            walking_d   = 1'b0;
            forgotten_d = 1'b1;
          end
        end
        go_on = 1'b1;
      end

      Decide: begin
        // What is passed by tells its sender at once, as nobody follows it.
        plan_d.address = header_q.address;
        plan_d.point   = point;
        plan_d.tell    = header_q.notify ? asks : 16'd0;
        plan_d.act     = 1'b1;
        move_d         = pass;
        if (!from_there) drop_d = cais_pkg::DropSource;
        else begin
          unique case (header_q.kind)
            prim_flit_pkg::KindRead, prim_flit_pkg::KindReduce: begin
              if (!for_home) drop_d = cais_pkg::DropHome;
              else if (!right_length) drop_d = cais_pkg::DropLength;
              else if (is_reduction && !right_count) drop_d = cais_pkg::DropContributions;
              else if (!found_q) begin
                if (is_reduction && header_q.tag[5:0] >= least) begin
                  // Nothing to wait for: what comes is whole.
                  move_d.header = sum_header(header_q.address, header_q.length, header_q.tag[5:0]);
                end else begin
                  plan_d     = '0;
                  plan_d.insert = 1'b1;
                end
              end else if (same_length && !(waits_full && !is_reduction)) begin
                plan_d.tell     = is_over ? notify : 16'd0;
                plan_d.unlink   = 1'b1;
                plan_d.unsettle = entry_q.status != cais_pkg::LoadWait;
                plan_d.append   = 1'b1;
                plan_d.settle   = entry_q.status != cais_pkg::LoadWait;
                entry_write     = 1'b1;
                entry_d.count   = count;
                entry_d.seen    = seen;
                entry_d.notify  = is_over ? 16'd0 : notify;
                move_d          = '0;
                move_d.number   = 10'(number_q);
                if (is_reduction) begin
                  move_d.op     = is_over ? cais_pkg::OpAddOut : cais_pkg::OpAdd;
                  move_d.header = header_q;
                  if (is_over) move_d.header = sum_header(header_q.address, header_q.length, count);
                  if (is_over && mutation == KeepsSum) begin
                    entry_d.count = '0;
                    entry_d.seen  = '0;
                  end
                end else if (waits_for_data && mutation != AnswersBeforeData) begin
                  move_d.op        = cais_pkg::OpWait;
                  move_d.waiting   = entry_q.waiting;
                  move_d.requester = 8'(port_q);
                  move_d.tag       = header_q.tag;
                  entry_d.waiting  = entry_q.waiting + 6'd1;
                end else begin
                  move_d.op     = cais_pkg::OpReadOut;
                  move_d.header = cais_pkg::header(prim_flit_pkg::KindReadResponse, 1'b1,
                      12'(home_i), header_q.source, header_q.address, header_q.length, header_q.tag);
                end
                if (is_over && entry_q.status != cais_pkg::LoadWait && mutation != KeepsSum) begin
                  plan_d.append = 1'b0;
                  plan_d.settle = 1'b0;
                  plan_d.free   = 1'b1;
                end
              end
            end
            prim_flit_pkg::KindReadResponse: begin
              if (!is_awaited) drop_d = cais_pkg::DropResponse;
              else begin
                plan_d.tell     = 16'd0;
                plan_d.unlink   = 1'b1;
                plan_d.append   = 1'b1;
                plan_d.settle   = 1'b1;
                entry_write     = 1'b1;
                entry_d.status  = cais_pkg::LoadReady;
                entry_d.waiting = '0;
                move_d          = '0;
                move_d.op       = cais_pkg::OpFill;
                move_d.number   = 10'(number_q);
                move_d.waiting  = entry_q.waiting;
                move_d.header   = cais_pkg::header(prim_flit_pkg::KindReadResponse, 1'b1,
                    12'(home_i), '0, entry_q.address, entry_q.length, '0);
                // All have asked; who alone takes part hears it now.
                if (has_served >= all) begin
                  plan_d.tell   = entry_q.notify;
                  plan_d.append = 1'b0;
                  plan_d.settle = 1'b0;
                  plan_d.free   = 1'b1;
                end
              end
            end
            default: drop_d = cais_pkg::DropTransaction;
          endcase
        end
        if (drop_d != cais_pkg::Taken) begin
          plan_d     = '0;
          plan_d.act = has_data_q;
          move_d     = '0;
          move_d.op  = cais_pkg::OpDrain;
        end
        decided_o = 1'b1;
        if (!plan_d.insert) go_on = 1'b1;
        else if (is_full) state_d = FetchOldest;
        else state_d = Insert;
        if (plan_d.insert && is_full) number_d = oldest;
      end

      FetchOldest: state_d = Evict;

      // Only what waits for its data keeps its place: who would have it goes past (III-A4).
      Evict: begin
        if (entry_q.status == cais_pkg::LoadWait && mutation != EvictsWaiting) begin
          plan_d         = '0;
          plan_d.address = header_q.address;
          plan_d.point   = point;
          plan_d.tell    = header_q.notify ? asks : 16'd0;
          plan_d.act     = 1'b1;
          move_d         = pass;
          if (mutation == BypassEvicts) begin
            plan_d.unlink = 1'b1;
            plan_d.free   = 1'b1;
          end
        end else begin
          plan_d        = end_plan;
          plan_d.insert = 1'b1;
          move_d        = end_move;
        end
        go_on = 1'b1;
      end

      Insert: begin
        number_d       = free_number;
        entry_write    = 1'b1;
        entry_d        = '0;
        entry_d.status = is_reduction ? cais_pkg::Reduction : cais_pkg::LoadWait;
        entry_d.count  = is_reduction ? header_q.tag[5:0] : 6'd1;
        entry_d.seen   = asks;
        entry_d.notify = header_q.notify ? asks : 16'd0;
        entry_d.waiting = is_reduction ? 6'd0 : 6'd1;
        entry_d.length = header_q.length;
        entry_d.address = header_q.address;
        plan_d         = '0;
        plan_d.append  = 1'b1;
        plan_d.settle  = is_reduction;
        move_d         = '0;
        move_d.op      = is_reduction ? cais_pkg::OpStore : cais_pkg::OpWaitAsk;
        move_d.number  = 10'(free_number);
        move_d.requester = 8'(port_q);
        move_d.tag     = header_q.tag;
        move_d.header  = header_q;
        if (!is_reduction) begin
          move_d.header = cais_pkg::header(prim_flit_pkg::KindRead, 1'b0, node_i, 12'(home_i),
              header_q.address, header_q.length, 24'(free_number));
        end
        state_d = Act;
      end

      Tell: begin
        move_o        = '0;
        move_o.op     = cais_pkg::OpRelease;
        move_o.mask   = plan_q.tell;
        move_o.header = cais_pkg::header(prim_flit_pkg::KindRelease, 1'b1, node_i, '0,
            plan_q.address, '0, plan_q.point);
        move_valid_o  = 1'b1;
        from  = Tell;
        go_on = move_room_i;
      end

      Act: begin
        move_valid_o = 1'b1;
        from         = Unlink;
        go_on        = move_room_i;
        unlink       = move_room_i && plan_q.unlink;
        unsettle     = move_room_i && plan_q.unsettle;
        unfile       = move_room_i && plan_q.free;
      end

      // The same, where there is nothing to act.
      Unlink: begin
        unlink   = plan_q.unlink;
        unsettle = plan_q.unsettle;
        unfile   = plan_q.free;
        from     = Unlink;
        go_on    = 1'b1;
      end

      default: begin
        append  = plan_q.append;
        settle  = plan_q.settle;
        // A new one is filed, too.
        file    = !plan_q.unlink;
        state_d = Idle;
      end
    endcase
    // Of what is left of the plan that for which there is anything to do.
    if (go_on) begin
      if (from < Tell && plan_d.tell != '0) state_d = Tell;
      else if (from < Act && plan_d.act) state_d = Act;
      else if (from < Unlink && (plan_d.unlink || plan_d.unsettle)) state_d = Unlink;
      else if (from < Append && (plan_d.append || plan_d.settle)) state_d = Append;
      else if (plan_d.insert) state_d = Insert;
      else state_d = Idle;
    end
  end

  logic is_new;
  assign is_new = state_q == Insert;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q     <= Idle;
      why_q       <= Packet;
      plan_q      <= '0;
      number_q    <= '0;
      time_q      <= '0;
      taken_q     <= '0;
      left_q      <= '0;
      fresh_q     <= '0;
      walking_q   <= 1'b0;
      walk_q      <= '0;
      forgotten_o <= 1'b0;
    end else begin
      state_q     <= state_d;
      why_q       <= why_d;
      plan_q      <= plan_d;
      number_q    <= number_d;
      time_q      <= time_q + 32'd1;
      walking_q   <= walking_d;
      walk_q      <= walk_d;
      forgotten_o <= forgotten_d;
      if (is_new) begin
        taken_q[free_number] <= 1'b1;
        if (left_q != '0) left_q <= left_q - 1'b1;
        else fresh_q <= fresh_q + 1'b1;
      end else if (unfile) begin
        taken_q[number_q] <= 1'b0;
        left_q            <= left_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    move_q  <= move_d;
    found_q <= hit;
    if (header_ready_o) begin
      header_q   <= header_i;
      port_q     <= port_i;
      has_data_q <= has_data_i;
    end
    if (state_q == Idle) at_q <= time_q;
    if (state_q == Fetch || state_q == FetchOldest) entry_q <= entry_mem[number_d];
    if (entry_write) entry_mem[number_d] <= entry_d;
    if (append || settle) last_mem[number_q] <= at_q;
    if (unfile) left_mem[NumberW'(left_q)] <= number_q;
  end

  assign at_o   = at_q;
  assign drop_o = drop_d;
  assign idle_o = state_q == Idle && !header_valid_i && !walking_q && !forget_i;
endmodule

`default_nettype wire
