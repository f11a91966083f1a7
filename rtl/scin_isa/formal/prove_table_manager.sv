// What table_manager promises: an entry is taken only while it is idle and no tag of it is in use,
// a response is taken once and only if it was asked for, a piece is read once and only when all of
// it has come, none is forgotten, and an entry is idle again when all has been read.
`default_nettype none

module prove_table_manager (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic take_i,
    input wire logic [1:0] take_sources_i,
    input wire logic [2:0] take_places_i,
    input wire logic take_whole_i,
    input wire logic [1:0] entry_i,
    input wire logic [3:0] place_i,
    input wire logic [1:0] come_i,
    input wire logic read_i,
    input wire logic done_i
);
  // Two ports, two waves, two packets of data and one of scales.
  logic       idle, idle_entry, ready, ready_entry, ready_piece;
  logic [1:0] awaited, busy;

  table_manager #(
      .PORTS  (2),
      .WAVES  (2),
      .PACKETS(2),
      .SCALES (1)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .idle_o        (idle),
      .idle_entry_o  (idle_entry),
      .take_i,
      .take_sources_i,
      .take_places_i,
      .take_whole_i,
      .entry_i,
      .place_i,
      .awaited_o     (awaited),
      .come_i,
      .ready_o       (ready),
      .ready_entry_o (ready_entry),
      .ready_piece_o (ready_piece),
      .read_i,
      .done_i,
      .done_entry_i  (reading_entry_q),
      .busy_o        (busy)
  );

  // One entry, whichever, is followed through, by a list of what has been asked for and a list of
  // what has been read.
  (* anyconst *) logic chosen;
  logic       past_q = 1'b0;
  logic [5:0] out_q, out_d;
  logic [1:0] unread_q, unread_d;
  logic       holds_q, holds_d, whole_q;
  logic       reading_q, reading_entry_q;
  // Cycles for which the reader could have read and a piece of the entry was complete.
  logic [2:0] waits_q;
  logic [1:0] complete;

  always_comb begin
    out_d    = out_q;
    unread_d = unread_q;
    holds_d  = holds_q;
    for (int p = 0; p < 2; p++) begin
      for (int k = 0; k < 3; k++) begin
        if (come_i[p] && entry_i[p] == chosen && place_i[2*p+:2] == 2'(k)) out_d[3*p+k] = 1'b0;
      end
    end
    if (read_i && ready_entry == chosen) unread_d[ready_piece] = 1'b0;
    if (done_i && reading_entry_q == chosen && unread_q == 2'd0) holds_d = 1'b0;
    if (take_i && idle_entry == chosen) begin
      out_d = {take_sources_i[1] ? take_places_i : 3'd0, take_sources_i[0] ? take_places_i : 3'd0};
      unread_d = take_whole_i ? 2'd1 : take_places_i[1:0];
      holds_d  = 1'b1;
    end
    for (int k = 0; k < 2; k++) begin
      complete[k] = unread_q[k] && (whole_q ? out_q == 6'd0 : !out_q[k] && !out_q[3+k]);
    end
  end

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      out_q     <= '0;
      unread_q  <= '0;
      holds_q   <= 1'b0;
      whole_q   <= 1'b0;
      reading_q <= 1'b0;
      waits_q   <= '0;
    end else begin
      out_q    <= out_d;
      unread_q <= unread_d;
      holds_q  <= holds_d;
      if (take_i && idle_entry == chosen) whole_q <= take_whole_i;
      if (read_i) begin
        reading_q       <= 1'b1;
        reading_entry_q <= ready_entry;
      end else if (done_i) begin
        reading_q <= 1'b0;
      end
      if (complete == 2'd0 || (read_i && ready_entry == chosen)) waits_q <= '0;
      else if (read_i) waits_q <= waits_q + 3'd1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      // The wave controller: waves for idle entries, of some sources and packets; scales belong to
      // quantised waves.
      assume (!take_i || (idle && take_sources_i != 2'd0 && take_places_i[0]));
      assume (!take_i || take_whole_i == take_places_i[2]);
      // The receivers: what is not awaited is dropped.
      assume ((come_i & ~awaited) == 2'd0);
      // The reader: one piece after the other.
      assume (!read_i || (ready && (!reading_q || done_i)));
      assume (!done_i || reading_q);

      // No overflow of the table, and no tag in use twice.
      if (take_i && idle_entry == chosen) assert (!holds_q && out_q == 6'd0 && unread_q == 2'd0);
      assert (busy[chosen] == holds_q);
      assert (idle || busy == 2'b11);
      for (int p = 0; p < 2; p++) begin
        if (entry_i[p] == chosen && place_i[2*p+:2] == 2'd3) assert (!awaited[p]);
        else if (entry_i[p] == chosen) assert (awaited[p] == out_q[3*p+32'(place_i[2*p+:2])]);
      end
      // A piece that is read is complete, and one that is complete is offered, after one of the
      // other entry at most.
      if (read_i && ready_entry == chosen) assert (complete[ready_piece]);
      if (complete != 2'd0) assert (ready);
      assert (waits_q <= 3'd1);
      // The entry goes when all of it is read, not before.
      if (!holds_q) assert (out_q == 6'd0 && unread_q == 2'd0);
    end
  end
endmodule

`default_nettype wire
