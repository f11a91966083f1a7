// Table manager (3.4): which entries of the wave tables are IDLE, WAITING or READY. Entry e of
// every table holds the same wave.
//
// A wave's pieces are its packets, each ready once it has come from all sources; a quantised wave
// is one piece.
`default_nettype none

module table_manager #(
    parameter int PORTS = 4,
    parameter int WAVES = 8,
    // Packets of data of a wave, and of scales.
    parameter int PACKETS = 1,
    parameter int SCALES = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The lowest idle entry, and the wave that takes it.
    output logic idle_o,
    output logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] idle_entry_o,
    input wire logic take_i,
    input wire logic [PORTS-1:0] take_sources_i,
    input wire logic [PACKETS+SCALES-1:0] take_places_i,
    input wire logic take_whole_i,
    // Responses: by entry and place whether one is awaited, and that all of it is in the table.
    input wire logic [PORTS*((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] entry_i,
    input wire logic [PORTS*((PACKETS + SCALES > 1) ? $clog2(PACKETS + SCALES) : 1)-1:0] place_i,
    output logic [PORTS-1:0] awaited_o,
    input wire logic [PORTS-1:0] come_i,
    // A piece that may be read out, that it is, and that the last flit of it has been read.
    output logic ready_o,
    output logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] ready_entry_o,
    output logic [((PACKETS > 1) ? $clog2(PACKETS) : 1)-1:0] ready_piece_o,
    input wire logic read_i,
    input wire logic done_i,
    input wire logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] done_entry_i,
    output logic [WAVES-1:0] busy_o
);
  localparam int EntryW = (WAVES > 1) ? $clog2(WAVES) : 1;
  localparam int PieceW = (PACKETS > 1) ? $clog2(PACKETS) : 1;
  localparam int Places = PACKETS + SCALES;

  logic [WAVES-1:0]         busy_q, busy_d, whole_q, whole_d;
  // Pieces that have not been read out.
  logic [WAVES*PACKETS-1:0] unread_q, unread_d, pieces;
  logic [WAVES*Places-1:0]  open;
  logic [WAVES-1:0]         ready;
  logic [WAVES-1:0]         unused_grant;

  awaited_packets #(
      .PORTS  (PORTS),
      .ENTRIES(WAVES),
      .PLACES (Places)
  ) u_awaited (
      .clk_i,
      .rst_ni,
      .take_i,
      .take_entry_i (idle_entry_o),
      .take_ports_i (take_sources_i),
      .take_places_i(take_places_i),
      .entry_i,
      .place_i,
      .awaited_o,
      .come_i,
      .open_o       (open)
  );

  always_comb begin
    idle_entry_o = '0;
    for (int e = WAVES - 1; e >= 0; e--) if (!busy_q[e]) idle_entry_o = EntryW'(e);
  end
  assign idle_o = busy_q != '1;
  assign busy_o = busy_q;

  always_comb begin
    for (int e = 0; e < WAVES; e++) begin
      pieces[e*PACKETS+:PACKETS] = unread_q[e*PACKETS+:PACKETS];
      if (!whole_q[e]) begin
        pieces[e*PACKETS+:PACKETS] = unread_q[e*PACKETS+:PACKETS] & ~open[e*Places+:PACKETS];
      end else if (open[e*Places+:Places] != '0) begin
        pieces[e*PACKETS+:PACKETS] = '0;
      end
      ready[e] = pieces[e*PACKETS+:PACKETS] != '0;
    end
  end

  prim_arbiter_rr #(
      .N(WAVES)
  ) u_turn (
      .clk_i,
      .rst_ni,
      .req_i  (ready),
      .take_i (read_i),
      .valid_o(ready_o),
      .gnt_o  (unused_grant),
      .idx_o  (ready_entry_o)
  );

  always_comb begin
    ready_piece_o = '0;
    for (int k = PACKETS - 1; k >= 0; k--) begin
      if (pieces[32'(ready_entry_o)*PACKETS+k]) ready_piece_o = PieceW'(k);
    end
  end

  always_comb begin
    busy_d   = busy_q;
    whole_d  = whole_q;
    unread_d = unread_q;
    if (read_i) unread_d[32'(ready_entry_o)*PACKETS+32'(ready_piece_o)] = 1'b0;
    if (done_i && unread_q[32'(done_entry_i)*PACKETS+:PACKETS] == '0) busy_d[done_entry_i] = 1'b0;
    if (take_i) begin
      busy_d[idle_entry_o]  = 1'b1;
      whole_d[idle_entry_o] = take_whole_i;
      unread_d[32'(idle_entry_o)*PACKETS+:PACKETS] =
          take_whole_i ? PACKETS'(1) : take_places_i[PACKETS-1:0];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      busy_q   <= '0;
      whole_q  <= '0;
      unread_q <= '0;
    end else begin
      busy_q   <= busy_d;
      whole_q  <= whole_d;
      unread_q <= unread_d;
    end
  end
endmodule

`default_nettype wire
