// Moves what decisions say: payload into the Content Array, through the adders, out. A flit a cycle
// is begun, and all take the same nine cycles, so that what leaves keeps its order. Before data are
// cached an entry holds who waits for them (CAIS III-A3).
`default_nettype none

module packet_mover #(
    parameter int PORTS = 8,
    parameter int ENTRIES = 320,
    parameter int PAYLOAD_BYTES = 128
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [1:0] type_i,
    // What to do, in order.
    input wire logic move_valid_i,
    output logic move_ready_o,
    input wire cais_pkg::move_t move_i,
    // Payload of what has come.
    input wire logic data_valid_i,
    output logic data_ready_o,
    input wire logic data_last_i,
    input wire logic [cais_pkg::FlitW-1:0] data_i,
    // What leaves, and for which ports: those who have waited for data get them at once, each behind
    // a header of its own.
    output logic valid_o,
    input wire logic ready_i,
    output logic last_o,
    output logic [15:0] ports_o,
    output logic [cais_pkg::FlitW-1:0] flit_o,
    // Nothing is under way.
    output logic idle_o
);
  localparam int Flits = PAYLOAD_BYTES / 16;
  localparam int FlitNumberW = $clog2(Flits);
  localparam int NumberW = $clog2(ENTRIES);
  localparam int PlaceW = NumberW + FlitNumberW;
  // From the memory, and through the adder.
  localparam int Read = 2;
  localparam int Stages = Read + 7;
  localparam int Out = 32;

  if (PAYLOAD_BYTES < 32 || PAYLOAD_BYTES > 256 || $countones(PAYLOAD_BYTES) != 1) begin : gen_size
    expected_a_power_of_two_from_32_to_256_as_PAYLOAD_BYTES u_stop ();
  end
  if (PAYLOAD_BYTES < 8 * PORTS) begin : gen_waiting
    expected_room_for_who_waits_in_PAYLOAD_BYTES u_stop ();
  end

  // What is done with a flit at the end of its way, beside what is written.
  typedef struct packed {
    logic        leaves;
    logic        last;
    logic [15:0] ports;
    logic        add;
  } way_t;

  localparam int WayW = 19;

  // Of a fill: who waits is read, hears headers, and gets what has come; who waits twice gets it
  // from the Content Array, in another round.
  typedef enum logic [1:0] {
    List,
    Heads,
    Data
  } phase_e;

  phase_e                 phase_q, phase_d;
  logic [FlitNumberW-1:0] flit_q, flit_d, last_flit;
  // Loads that have a header, the ports of this round, whether a round has had what has come.
  logic [5:0]             answered_q, answered_d;
  logic [15:0]            round_q, round_d, told_q, told_d, left, next, waits;
  logic                   stored_q, stored_d;
  logic                   head_q, head_d;
  logic                   go, take, done, counts, reads, list, hazard, room;
  logic                   has_head, has_body, is_last_flit, is_last_list;
  logic [3:0]             next_member;
  logic [PlaceW-1:0]      read_address;
  logic [cais_pkg::FlitW-1:0] raw;
  way_t                   way, way_end;
  logic [WayW-1:0]        way_q[1:Stages];
  // Whether what is kept leaves, as that is read.
  logic                   leaves_kept, kept_q[1:Read];
  // Words of the Content Array that it writes, and where.
  logic [3:0]             write, write_q[1:Stages];
  logic [PlaceW-1:0]      place, place_q[1:Stages];
  prim_flit_pkg::header_t asked, head;
  // Who waits, as it is read.
  logic [31:0]            waiting_q[0:2*PORTS-1];
  logic                   list_q[1:Read];
  logic [FlitNumberW-1:0] list_flit_q[1:Read];
  logic [31:0]            answered;
  logic [5:0]             credit_q;
  logic                   unused;

  assign unused = ^{answered[31:28], move_i.requester[7:4]};

  assign asked    = move_i.header;
  assign way_end  = way_q[Stages];

  // What a move begins with, and whether flits come after it.
  always_comb begin
    unique case (move_i.op)
      cais_pkg::OpHeader, cais_pkg::OpPass, cais_pkg::OpAddOut,
      cais_pkg::OpReadOut, cais_pkg::OpWaitAsk: has_head = 1'b1;
      default: has_head = 1'b0;
    endcase
  end
  assign has_body     = move_i.op != cais_pkg::OpHeader;
  assign last_flit    = FlitNumberW'((asked.length - 16'd1) >> 4);
  assign is_last_flit = flit_q == last_flit;
  assign is_last_list = 32'(flit_q) == (32'(move_i.waiting) - 1) >> 2;
  assign answered     = waiting_q[$clog2(2*PORTS)'(answered_q)];
  assign waits        = 16'd1 << answered[27:24];
  assign left         = move_i.mask & ~told_q;
  assign next_member  = cais_pkg::first(left);
  assign next         = 16'd1 << next_member;

  // What is read must have been written: nothing of it is on its way, but for what is at its end.
  always_comb begin
    hazard = 1'b0;
    for (int s = 1; s < Stages - 1; s++) begin
      if (write_q[s] != '0 && place_q[s] == read_address) hazard = 1'b1;
    end
  end
  assign room         = credit_q != '0;
  assign read_address = {move_i.number[NumberW-1:0], flit_q};

  always_comb begin
    phase_d    = phase_q;
    flit_d     = flit_q;
    answered_d = answered_q;
    told_d     = told_q;
    round_d    = round_q;
    stored_d   = stored_q;
    head_d     = head_q;
    head       = asked;
    go         = 1'b0;
    take       = 1'b0;
    done       = 1'b0;
    reads      = 1'b0;
    list       = 1'b0;
    counts     = 1'b0;
    raw        = data_i;
    way        = '0;
    leaves_kept = 1'b0;
    way.ports  = 16'd1 << asked.destination[3:0];
    write      = '0;
    place      = read_address;
    if (move_valid_i) begin
      if (has_head && !head_q) begin
        raw        = prim_flit_pkg::swap(head);
        way.leaves = 1'b1;
        way.last   = move_i.op == cais_pkg::OpHeader || move_i.op == cais_pkg::OpWaitAsk;
        go         = room;
        done       = go && !has_body;
        head_d     = go && has_body;
      end else begin
        unique case (move_i.op)
          cais_pkg::OpPass: begin
            go         = room && data_valid_i;
            take       = go;
            way.leaves = 1'b1;
            way.last   = data_last_i;
            done       = go && data_last_i;
          end
          cais_pkg::OpDrain: begin
            take = data_valid_i;
            done = take && data_last_i;
          end
          cais_pkg::OpStore: begin
            go        = data_valid_i;
            take      = go;
            counts    = 1'b1;
            write     = '1;
            done      = go && is_last_flit;
          end
          cais_pkg::OpAdd: begin
            reads     = 1'b1;
            go        = data_valid_i && !hazard;
            take      = go;
            counts    = 1'b1;
            write     = '1;
            way.add   = 1'b1;
            done      = go && is_last_flit;
          end
          cais_pkg::OpAddOut: begin
            reads      = 1'b1;
            go         = room && data_valid_i && !hazard;
            take       = go;
            way.leaves = 1'b1;
            counts     = 1'b1;
            way.last   = is_last_flit;
            way.add    = 1'b1;
            done       = go && is_last_flit;
          end
          cais_pkg::OpReadOut: begin
            reads      = 1'b1;
            go         = room && !hazard;
            way.leaves = 1'b1;
            counts     = 1'b1;
            way.last   = is_last_flit;
            leaves_kept = 1'b1;
            done       = go && is_last_flit;
          end
          cais_pkg::OpWait, cais_pkg::OpWaitAsk: begin
            go                         = 1'b1;
            done                       = 1'b1;
            raw                        = {4{4'd0, move_i.requester[3:0], move_i.tag}};
            write[move_i.waiting[1:0]] = 1'b1;
            place[FlitNumberW-1:0]     = FlitNumberW'(move_i.waiting >> 2);
          end
          cais_pkg::OpFill: begin
            unique case (phase_q)
              List: begin
                reads  = 1'b1;
                list   = 1'b1;
                counts = 1'b1;
                go     = !hazard;
                if (go && is_last_list) phase_d = Heads;
              end
              Heads: begin
                head.destination = 12'(answered[27:24]);
                head.tag         = answered[23:0];
                raw                = prim_flit_pkg::swap(head);
                way.leaves         = 1'b1;
                way.ports          = waits;
                if (answered_q == move_i.waiting || (round_q & waits) != '0) begin
                  phase_d = Data;
                end else begin
                  go = room && !list_q[1] && !list_q[Read];
                  if (go) begin
                    answered_d = answered_q + 6'd1;
                    round_d    = round_q | waits;
                  end
                end
              end
              default: begin
                counts     = 1'b1;
                reads      = stored_q;
                take       = room && data_valid_i && !stored_q;
                go         = stored_q ? room && !hazard : take;
                write      = stored_q ? '0 : '1;
                leaves_kept = stored_q;
                way.leaves = 1'b1;
                way.ports  = round_q;
                way.last   = is_last_flit;
                if (go && is_last_flit) begin
                  phase_d  = Heads;
                  round_d  = '0;
                  stored_d = 1'b1;
                  done     = answered_q == move_i.waiting;
                end
              end
            endcase
          end
          default: begin
            head.destination = 12'(next_member);
            raw                = prim_flit_pkg::swap(head);
            way.leaves         = 1'b1;
            way.last           = 1'b1;
            way.ports          = next;
            go                 = room;
            if (go) told_d = told_q | next;
            done               = go && left == next;
          end
        endcase
        if (go && counts) flit_d = flit_q + 1'b1;
        if (phase_d != phase_q) flit_d = '0;
      end
    end
    if (done) begin
      phase_d    = List;
      flit_d     = '0;
      answered_d = '0;
      round_d    = '0;
      stored_d   = 1'b0;
      told_d     = '0;
      head_d     = 1'b0;
    end
    if (!go) begin
      way   = '0;
      write = '0;
    end
  end

  assign move_ready_o = done;
  assign data_ready_o = take;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      phase_q    <= List;
      flit_q     <= '0;
      answered_q <= '0;
      round_q    <= '0;
      stored_q   <= 1'b0;
      told_q     <= '0;
      head_q     <= 1'b0;
      credit_q   <= 6'(Out);
      for (int s = 1; s <= Stages; s++) begin
        way_q[s]   <= '0;
        write_q[s] <= '0;
      end
    end else begin
      phase_q    <= phase_d;
      flit_q     <= flit_d;
      answered_q <= answered_d;
      round_q    <= round_d;
      stored_q   <= stored_d;
      told_q     <= told_d;
      head_q     <= head_d;
      credit_q   <= credit_q - 6'(go && way.leaves) + 6'(valid_o && ready_i);
      way_q[1]   <= way;
      write_q[1] <= write;
      for (int s = 2; s <= Stages; s++) begin
        way_q[s]   <= way_q[s-1];
        write_q[s] <= write_q[s-1];
      end
    end
  end

  // The Content Array: four words a flit. What was written in the cycle of a read, or the next one,
  // the memory does not give yet.
  logic [cais_pkg::FlitW-1:0] stored, kept, end_flit, sum;
  logic [cais_pkg::FlitW-1:0] raw_q[1:Stages];
  logic [cais_pkg::FlitW-1:0] end_q[1:2];
  logic [3:0]       now_d, next_d, now_q[1:Read], next_q[1:Read];

  always_comb begin
    now_d  = '0;
    next_d = '0;
    if (place_q[Stages] == read_address) now_d = write_q[Stages];
    if (place_q[Stages-1] == read_address) next_d = write_q[Stages-1];
  end

  always_ff @(posedge clk_i) begin
    now_q[1]  <= now_d;
    now_q[2]  <= now_q[1];
    next_q[1] <= next_d;
    next_q[2] <= next_q[1];
    end_q[1]  <= end_flit;
    end_q[2]  <= end_q[1];
  end

  for (genvar w = 0; w < 4; w++) begin : gen_word
    prim_ram_1r1w #(
        .WIDTH(32),
        .DEPTH(ENTRIES * Flits)
    ) u_content (
        .clk_i,
        .we_i   (write_q[Stages][w]),
        .waddr_i(place_q[Stages]),
        .wdata_i(end_flit[32*w+:32]),
        .re_i   (reads),
        .raddr_i(read_address),
        .rdata_o(stored[32*w+:32])
    );
    assign kept[32*w+:32] = next_q[Read][w] ? end_q[1][32*w+:32]
        : now_q[Read][w] ? end_q[2][32*w+:32] : stored[32*w+:32];
    prim_add_lane u_lane (
        .clk_i,
        .type_i,
        .a_i  (kept[32*w+:32]),
        .b_i  (raw_q[Read][32*w+:32]),
        .sum_o(sum[32*w+:32])
    );
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int s = 1; s <= Read; s++) list_q[s] <= 1'b0;
    end else begin
      list_q[1] <= list && go;
      for (int s = 2; s <= Read; s++) list_q[s] <= list_q[s-1];
    end
  end
  always_ff @(posedge clk_i) begin
    kept_q[1] <= leaves_kept;
    for (int s = 2; s <= Read; s++) kept_q[s] <= kept_q[s-1];
    list_flit_q[1] <= flit_q;
    for (int s = 2; s <= Read; s++) list_flit_q[s] <= list_flit_q[s-1];
    if (list_q[Read]) begin
      for (int i = 0; i < 2 * PORTS; i++) begin
        if (list_flit_q[Read] == FlitNumberW'(i / 4)) waiting_q[i] <= kept[32*(i%4)+:32];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    place_q[1] <= place;
    for (int s = 2; s <= Stages; s++) place_q[s] <= place_q[s-1];
    raw_q[1] <= raw;
    for (int s = 2; s <= Stages; s++) begin
      raw_q[s] <= (s == Read + 1 && kept_q[Read]) ? kept : raw_q[s-1];
    end
  end
  assign end_flit = way_end.add ? sum : raw_q[Stages];

  // What leaves has a place kept for it since it was begun.
  logic                unused_ready;
  logic [$clog2(Out):0] unused_free;

  prim_fifo_sync #(
      .WIDTH(cais_pkg::FlitW + 17),
      .DEPTH(Out)
  ) u_out (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(way_end.leaves),
      .ready_o(unused_ready),
      .data_i ({way_end.last, way_end.ports, end_flit}),
      .valid_o,
      .ready_i,
      .data_o ({last_o, ports_o, flit_o}),
      .free_o (unused_free)
  );

  always_comb begin
    idle_o = !move_valid_i && credit_q == 6'(Out);
    for (int s = 1; s <= Stages; s++) begin
      if (way_q[s] != '0 || write_q[s] != '0) idle_o = 1'b0;
    end
  end
endmodule

`default_nettype wire
