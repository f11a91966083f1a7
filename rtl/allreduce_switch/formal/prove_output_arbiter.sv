// What output_arbiter promises: frames leave whole, one after the other, each beat is that of the source that is asked to go on, and a
// source that has a frame waits for a bounded number of others.
module prove_output_arbiter (
    input logic         clk_i,
    input logic         rst_ni,
    input logic [1:0]   fwd_valid_i,
    input logic [135:0] fwd_beat_i,
    input logic [1:0]   agg_valid_i,
    input logic [135:0] agg_beat_i,
    input logic         ready_i
);
  logic [1:0]  fwd_ready, agg_ready;
  logic        valid;
  logic [67:0] beat;

  output_arbiter #(
      .PORTS(2)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .fwd_valid_i,
      .fwd_ready_o(fwd_ready),
      .fwd_beat_i,
      .agg_valid_i,
      .agg_ready_o(agg_ready),
      .agg_beat_i,
      .valid_o    (valid),
      .ready_i,
      .beat_o     (beat)
  );

  (* anyconst *) logic [1:0] chosen;
  logic         past_q = 1'b0;
  logic [3:0]   sources, ready, taken, last, waiting_q;
  logic [271:0] beats;
  // A frame has begun, and whose.
  logic         inside_q;
  logic [3:0]   whose_q;
  // Frames of others since the chosen source has had one to send.
  logic [3:0]   others_q;

  assign sources = {agg_valid_i, fwd_valid_i};
  assign ready   = {agg_ready, fwd_ready};
  assign taken   = sources & ready;
  assign beats   = {agg_beat_i, fwd_beat_i};
  assign last    = {beats[271], beats[203], beats[135], beats[67]};

  always_ff @(posedge clk_i) begin
    past_q    <= 1'b1;
    waiting_q <= rst_ni ? sources & ~ready : '0;
    if (!rst_ni) begin
      inside_q <= 1'b0;
      others_q <= '0;
    end else begin
      if (taken != '0) begin
        inside_q <= (taken & last) == '0;
        whose_q  <= taken;
      end
      if (!sources[chosen] || taken[chosen]) others_q <= '0;
      else if ((taken & last) != '0) others_q <= others_q + 4'd1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    // What a source offers it goes on offering; of a frame that has begun, the next beat is there.
    assume ((waiting_q & ~sources) == '0);
    assume (!inside_q || (sources & whose_q) != '0);
    if (past_q) begin
      assert ((ready & (ready - 4'd1)) == '0);
      assert (!inside_q || taken == '0 || taken == whose_q);
      assert ((taken != '0) == (valid && ready_i));
      if (taken[chosen]) assert (beat == beats[chosen*68+:68]);
      // Two forwarding branches and a turn for each of the aggregation: three others of a round, twice where the round is the aggregation's.
      assert (others_q <= 4'd6);
    end
  end
endmodule
