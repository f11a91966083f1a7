// What prim_arbiter_rr promises: one grant, to one that asks; and who goes on asking has it after N - 1 others at most.
module prove_arbiter_rr (
    input logic       clk_i,
    input logic       rst_ni,
    input logic [3:0] req_i,
    input logic       take_i
);
  logic       valid;
  logic [3:0] gnt;
  logic [1:0] idx;

  prim_arbiter_rr #(
      .N(4)
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
  logic       past_q = 1'b0;
  logic [2:0] others_q;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni || !req_i[chosen] || (take_i && gnt[chosen])) others_q <= '0;
    else if (take_i && valid) others_q <= others_q + 3'd1;
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assert ((gnt & ~req_i) == '0);
      assert ((gnt & (gnt - 4'd1)) == '0);
      assert (valid == (req_i != '0));
      assert ((gnt != '0) == valid);
      assert (!valid || gnt[idx]);
      assert (others_q <= 3'd3);
    end
  end
endmodule
