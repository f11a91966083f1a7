// What cross_fifo_rx promises of a receiver that cannot be paused: a frame comes out whole or with a mark at its end, or not at all, and each
// that does not come out whole is counted once. Both sides have one clock here; prove_fifo_async has two.
module prove_cross_fifo_rx (
    input logic clk_i,
    input logic rst_ni,
    input logic rx_tvalid_i,
    input logic rx_tlast_i,
    input logic ready_i
);
  logic        overrun, giant, valid;
  logic [68:0] beat;
  logic [63:0] word;

  // Each beat says which one of its frame it is, of which frame, and whether it is the last one.
  logic [2:0] number_q;
  logic [3:0] frame_q;

  assign word = {56'd0, rx_tlast_i, number_q, frame_q};

  cross_fifo_rx #(
      .DEPTH    (4),
      .MAX_BEATS(4)
  ) u_dut (
      .port_clk_i (clk_i),
      .port_rst_ni(rst_ni),
      .rx_tvalid_i,
      .rx_tdata_i (word),
      .rx_tkeep_i (8'hFF),
      .rx_tlast_i,
      .overrun_o  (overrun),
      .giant_o    (giant),
      .clk_i,
      .rst_ni,
      .valid_o    (valid),
      .ready_i,
      .beat_o     (beat)
  );

  logic       past_q = 1'b0;
  logic       abort, last, said_last;
  logic [2:0] number, next_q;
  logic [3:0] frame, now_q;
  logic       inside_q, begun_q;
  // Frames that came, and that are accounted for: whole, or dropped and counted.
  logic [3:0] whole_q, dropped_q;
  // Cycles without a beat, up to as many as one takes to come through.
  logic [2:0] quiet_q;

  assign {abort, last} = beat[68:67];
  assign {said_last, number, frame} = beat[7:0];

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      number_q  <= '0;
      frame_q   <= '0;
      next_q    <= '0;
      inside_q  <= 1'b0;
      begun_q   <= 1'b0;
      whole_q   <= '0;
      dropped_q <= '0;
      quiet_q   <= '0;
    end else begin
      if (rx_tvalid_i) begin
        number_q <= rx_tlast_i ? 3'd0 : (number_q == 3'd7 ? 3'd7 : number_q + 3'd1);
        if (rx_tlast_i) frame_q <= frame_q + 4'd1;
        begun_q <= !rx_tlast_i;
      end
      dropped_q <= dropped_q + 4'(overrun) + 4'(giant);
      quiet_q   <= (rx_tvalid_i || valid) ? 3'd0 : (quiet_q == 3'd5 ? 3'd5 : quiet_q + 3'd1);
      if (valid && ready_i) begin
        inside_q <= !last;
        next_q   <= last ? 3'd0 : next_q + 3'd1;
        now_q    <= frame;
        if (last && !abort) whole_q <= whole_q + 4'd1;
      end
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assert (!(overrun && giant));
      if (valid) begin
        if (!abort) assert (number == next_q && said_last == last);
        assert (!abort || last);
        if (inside_q) assert (frame == now_q);
        // No frame is longer than the longest, nor a mark without a frame.
        assert (number <= 3'd3 || abort);
        assert (!abort || inside_q);
      end
      // When all has come out, each frame has been told of once; one that is being dropped may not have ended yet.
      if (quiet_q == 3'd5 && !begun_q) assert (frame_q == whole_q + dropped_q);
    end
  end
endmodule
