// What port_transmitter and its credit_counters promise: packets leave whole and unchanged, each
// for one credit of its channel, of which there are never more or fewer than at first, counted with
// those that are under way; and a source that may send waits for a bounded number of others.
`default_nettype none

module prove_port_transmitter #(
    // How long a source waits, and nothing else.
    parameter int WAITS = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [1:0] isa_valid_i,
    input wire logic [1:0] isa_last_i,
    input wire logic [3:0] isa_flit_i,
    input wire logic [3:0] core_valid_i,
    input wire logic [3:0] core_last_i,
    input wire logic [7:0] core_flit_i,
    // The receiver empties a place of a channel.
    input wire logic [5:0] give_i
);
  localparam int Credits = 2;

  logic [1:0]   isa_ready;
  logic [3:0]   core_ready;
  logic [5:0]   has, take;
  logic         valid, last;
  logic [1:0]   flit;

  for (genvar c = 0; c < 6; c++) begin : gen_credit
    credit_counter #(
        .CREDITS(Credits)
    ) u_credit (
        .clk_i,
        .rst_ni,
        .take_i(take[c]),
        .give_i(give_i[c]),
        .has_o (has[c])
    );
  end

  port_transmitter #(
      .FLIT_W(2)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .isa_valid_i,
      .isa_last_i,
      .isa_ready_o  (isa_ready),
      .isa_flit_i,
      .core_valid_i,
      .core_last_i,
      .core_ready_o (core_ready),
      .core_flit_i,
      .has_credit_i (has),
      .take_credit_o(take),
      .valid_o      (valid),
      .last_o       (last),
      .flit_o       (flit)
  );

  // One channel, whichever, is followed through.
  (* anyconst *) logic [2:0] chosen;
  logic       past_q = 1'b0;
  // By channel: the classes of the switch core, then the accelerator's reads and writes.
  logic [5:0] offered, ends, ready, taken, waiting_q;
  logic       inside_q, sent_q, sent_last_q;
  logic [1:0] sent_flit_q, sent_flit;
  logic [5:0] whose_q;
  // Packets of the channel that are with the receiver or on their way, and others that began while
  // it could have sent.
  logic [1:0] away_q;
  logic [4:0] others_q;
  logic       begins;

  assign offered = {isa_valid_i, core_valid_i};
  assign ends    = {isa_last_i, core_last_i};
  assign ready   = {isa_ready, core_ready};
  assign taken   = offered & ready;
  assign begins  = taken != '0 && !inside_q;

  always_comb begin
    sent_flit = 2'd0;
    for (int c = 0; c < 4; c++) if (taken[c]) sent_flit = core_flit_i[2*c+:2];
    for (int c = 0; c < 2; c++) if (taken[4+c]) sent_flit = isa_flit_i[2*c+:2];
  end

  always_ff @(posedge clk_i) begin
    past_q      <= 1'b1;
    waiting_q   <= rst_ni ? offered & ~ready : '0;
    sent_last_q <= (taken & ends) != '0;
    sent_flit_q <= sent_flit;
    if (!rst_ni) begin
      inside_q <= 1'b0;
      sent_q   <= 1'b0;
      away_q   <= '0;
      others_q <= '0;
    end else begin
      sent_q <= taken != '0;
      if (taken != '0) begin
        inside_q <= (taken & ends) == '0;
        whose_q  <= taken;
      end
      away_q <= away_q + 2'(begins && taken[chosen]) - 2'(give_i[chosen]);
      if (!offered[chosen] || !has[chosen] || (begins && taken[chosen])) others_q <= '0;
      else if (begins) others_q <= others_q + 5'd1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (chosen < 3'd6);
    if (past_q) begin
      // What a source offers it goes on offering.
      assume ((waiting_q & ~offered) == '0);
      // The receiver gives back what it has been sent.
      assume (!give_i[chosen] || away_q != 2'd0);

      if (WAITS != 0) begin
        // The accelerator's two take turns with each other and with the core's, whose four do among
        // themselves.
        assert (others_q <= ((chosen >= 3'd4) ? 5'd3 : 5'd7));
      end else begin
        assert ((taken & (taken - 6'd1)) == '0);
        assert (!inside_q || taken == '0 || taken == whose_q);
        assert (take == (begins ? taken : 6'd0));
        assert (away_q <= 2'(Credits));
        assert (has[chosen] == (away_q != 2'(Credits)));
        // With that a packet begins only where the receiver has a place.
        if (begins && taken[chosen]) assert (away_q != 2'(Credits));
        assert (valid == sent_q);
        if (valid) assert (last == sent_last_q && flit == sent_flit_q);
      end
    end
  end
endmodule

`default_nettype wire
