// What group_sync_table promises, where it has room and nobody is awaited for too long: who is
// released had come and was not released before, and all of its group had come.
`default_nettype none

module prove_group_sync_table (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic valid_i,
    input wire logic port_i,
    input wire logic address_i,
    input wire logic ready_i
);
  logic ready, forget, release_valid, decided, expired, idle;
  logic [3:0]   release_port;
  logic [127:0] flit, told, header;
  logic [31:0]  at;
  logic [2:0]   drop;

  // A sync of accelerator `port_i` at group `address_i`.
  assign header = {4'd13, 1'b1, 3'd0, 11'd0, port_i, 12'd64, 47'd0, address_i, 16'd0, 24'd0, 8'd0};

  group_sync_table #(
      .PORTS(2),
      .GROUPS(2),
      .STREAMS(1)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .node_i          (12'd64),
      .forgets_last_i  (1'b0),
      .boundary_short_i(1'b0),
      .header_valid_i  (valid_i),
      .header_ready_o  (ready),
      .header_i        (header),
      .port_i          ({3'd0, port_i}),
      .forget_o        (forget),
      .forgotten_i     (1'b0),
      .valid_o         (release_valid),
      .ready_i,
      .port_o          (release_port),
      .flit_o          (flit),
      .decided_o       (decided),
      .expired_o       (expired),
      .at_o            (at),
      .drop_o          (drop),
      .idle_o          (idle)
  );

  // One of both groups, whichever: who of it has come and was not released; whether all had.
  (* anyconst *) logic chosen;
  logic       past_q = 1'b0;
  logic [1:0] there_q;
  logic       all_q;
  logic       comes, released;

  for (genvar b = 0; b < 16; b++) begin : gen_swap
    assign told[8*b+:8] = flit[8*(15-b)+:8];
  end
  assign comes    = valid_i && ready && address_i == chosen;
  assign released = release_valid && told[48] == chosen;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      there_q <= 2'd0;
      all_q   <= 1'b0;
    end else begin
      if (comes) begin
        there_q[port_i] <= 1'b1;
        all_q           <= all_q || there_q[!port_i];
      end else if (released && ready_i) begin
        there_q[release_port[0]] <= 1'b0;
        if (!there_q[!release_port[0]]) all_q <= 1'b0;
      end
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assert (!forget);
      assert (!(release_valid && release_port > 4'd1));
      if (released) begin
        assert (there_q[release_port[0]]);
        assert (all_q);
        // To whom it goes, as the header says.
        assert (told[107:96] == {8'd0, release_port});
      end
    end
  end
endmodule

`default_nettype wire
