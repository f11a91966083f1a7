// What prim_fifo_sync promises: words come out once, in order and unchanged, and never more go in than there are places for.
module prove_fifo_sync (
    input logic       clk_i,
    input logic       rst_ni,
    input logic       clear_i,
    input logic       valid_i,
    input logic [1:0] data_i,
    input logic       ready_i
);
  localparam int Depth = 4;

  logic       ready, valid;
  logic [1:0] data;
  logic [2:0] free;

  prim_fifo_sync #(
      .WIDTH(2),
      .DEPTH(Depth)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .clear_i,
      .valid_i,
      .ready_o(ready),
      .data_i,
      .valid_o(valid),
      .ready_i,
      .data_o (data),
      .free_o (free)
  );

  // One word, whichever, is followed through.
  (* anyconst *) logic [3:0] chosen;
  logic       past_q = 1'b0;
  logic [3:0] written_q, taken_q;
  logic [1:0] word_q;
  logic [2:0] still_q;

  always_ff @(posedge clk_i) past_q <= 1'b1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      written_q <= '0;
      taken_q   <= '0;
      still_q   <= '0;
    end else begin
      if (valid_i && ready) begin
        written_q <= written_q + 4'd1;
        if (written_q == chosen) word_q <= data_i;
      end
      if (valid && ready_i) taken_q <= taken_q + 4'd1;
      // Cycles in which something is there and nothing is shown.
      still_q <= (written_q != taken_q && !valid) ? still_q + 3'd1 : 3'd0;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      // A place for each word, and one in the register that is shown.
      assert (4'(written_q - taken_q) <= 4'(Depth + 1));
      assert (ready == (free != 3'd0));
      assert (!valid || written_q != taken_q);
      if (valid && taken_q == chosen) assert (data == word_q);
      assert (still_q <= 3'd2);
    end
  end
endmodule
