// What prim_arbiter_weighted promises: one grant, to one that asks; who goes on asking has it before the others have had two rounds; and
// between two grants of one of them, no other has more than twice its weight; while all ask, each has its weight in each round.
module prove_arbiter_weighted (
    input logic       clk_i,
    input logic       rst_ni,
    input logic [2:0] req_i,
    input logic       take_i
);
  // Of request 0, 1 and 2.
  localparam logic [8:0] Weights = {3'd1, 3'd3, 3'd2};
  localparam int Sum = 6;

  logic       valid;
  logic [2:0] gnt;
  logic [1:0] idx;

  prim_arbiter_weighted #(
      .N       (3),
      .WEIGHT_W(3),
      .WEIGHTS (Weights)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .req_i,
      .take_i,
      .valid_o(valid),
      .gnt_o  (gnt),
      .idx_o  (idx)
  );

  (* anyconst *) logic [1:0] chosen;
  (* anyconst *) logic [1:0] other;
  logic       past_q = 1'b0;
  logic [4:0] others_q, other_q;
  logic [2:0] weight, other_weight;
  // All have asked ever since reset; grants of this round, and those to the chosen one.
  logic       all_q;
  logic [2:0] round_q, own_q;

  assign weight       = Weights[3*chosen+:3];
  assign other_weight = Weights[3*other+:3];

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) all_q <= 1'b1;
    else all_q <= all_q && req_i == 3'b111;
    if (!rst_ni || round_q == 3'(Sum)) begin
      round_q <= 3'(rst_ni && take_i && valid);
      own_q   <= 3'(rst_ni && take_i && gnt[chosen]);
    end else if (take_i && valid) begin
      round_q <= round_q + 3'd1;
      own_q   <= own_q + 3'(gnt[chosen]);
    end
    if (!rst_ni || !req_i[chosen] || (take_i && gnt[chosen])) begin
      others_q <= '0;
      other_q  <= '0;
    end else if (take_i && valid) begin
      others_q <= others_q + 5'd1;
      if (gnt[other]) other_q <= other_q + 5'd1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (chosen < 2'd3 && other < 2'd3 && other != chosen);
    if (past_q) begin
      assert ((gnt & ~req_i) == '0);
      assert ((gnt & (gnt - 3'd1)) == '0);
      assert (valid == (req_i != '0) && valid == (gnt != '0));
      assert (!valid || gnt[idx]);
      assert (others_q <= 5'(2 * (Sum - weight)));
      if (all_q && round_q == 3'(Sum)) assert (own_q == weight);
      assert (other_q <= 5'(2 * other_weight));
    end
  end
endmodule
