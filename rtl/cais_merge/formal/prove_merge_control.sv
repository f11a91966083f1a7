// What merge_control promises of reductions: a contribution leaves for the home once, whether its
// sum is whole, is evicted, times out or goes past; and what has not left is in an entry.
`default_nettype none

module prove_merge_control (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic valid_i,
    input wire logic load_i,
    input wire logic second_i,
    input wire logic notify_i,
    input wire logic [1:0] line_i
);
  logic ready, forgotten, move_valid, decided, expired, idle;
  logic [127:0] header;
  logic [195:0] move;
  logic [31:0]  at;
  logic [2:0]   drop;
  logic [10:0]  taken;
  logic [3:0]   port;

  // A load or a reduction of four bytes, of accelerator 1 or 2; the home is 0.
  assign port   = second_i ? 4'd2 : 4'd1;
  assign header = {
    load_i ? 4'd1 : 4'd11, 1'b1, notify_i, 2'd0, 8'd0, port, 12'd0, 46'd0, line_i, 16'd4, 24'd1, 8'd0
  };

  merge_control #(
      .PORTS(3),
      .ENTRIES(2),
      .PAYLOAD_BYTES(32),
      .TIMEOUT(16)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .node_i        (12'd64),
      .home_i        (4'd0),
      .participants_i(5'd2),
      .type_i        (2'd0),
      .mutation_i    (4'd0),
      .header_valid_i(valid_i),
      .header_ready_o(ready),
      .header_i      (header),
      .has_data_i    (!load_i),
      .port_i        (port),
      .forget_i      (1'b0),
      .forgotten_o   (forgotten),
      .move_valid_o  (move_valid),
      .move_room_i   (1'b1),
      .move_o        (move),
      .decided_o     (decided),
      .expired_o     (expired),
      .at_o          (at),
      .drop_o        (drop),
      .taken_o       (taken),
      .idle_o        (idle)
  );

  // Contributions that have come and have not left: of one line, whichever, and of all.
  (* anyconst *) logic [1:0] chosen;
  logic       past_q = 1'b0;
  logic [3:0] owed_q, all_q;
  logic       loads_q;
  logic       comes, leaves, ours;
  logic [3:0] op, sent;

  assign op     = move[195:192];
  // Of what is moved: with a header of a reduction for the home, in one of the ways in which data leave.
  assign leaves = move_valid && (op == 4'd1 || op == 4'd5 || op == 4'd6) && move[127:124] == 4'd11;
  assign ours   = leaves && move[49:48] == chosen;
  assign sent   = move[11:8];
  assign comes  = valid_i && ready && !load_i;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      owed_q  <= 4'd0;
      all_q   <= 4'd0;
      loads_q <= 1'b0;
    end else begin
      owed_q <= owed_q + 4'(comes && line_i == chosen) - (ours ? sent : 4'd0);
      all_q  <= all_q + 4'(comes) - (leaves ? sent : 4'd0);
      if (valid_i && ready && load_i) loads_q <= 1'b1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assert (drop == 3'd0);
      if (leaves) assert (sent != 4'd0 && sent <= 4'd2);
      if (ours) assert (sent <= owed_q);
      // An entry of a reduction has one contribution: with the second one the sum is whole.
      if (idle) assert (11'(all_q) <= taken);
      if (idle && !loads_q) assert (11'(all_q) == taken);
    end
  end
endmodule

`default_nettype wire
