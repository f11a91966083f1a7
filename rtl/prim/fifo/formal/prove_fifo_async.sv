// What prim_fifo_async promises whatever its clocks do: words come out once, in order and unchanged, and never more go in than there are places for.
module prove_fifo_async (
    input logic       wclk_i,
    input logic       wvalid_i,
    input logic [1:0] wdata_i,
    input logic       rclk_i,
    input logic       rready_i
);
  localparam int Depth = 4;

  // Both sides leave reset before the first edge.
  logic rst_n;
  assign rst_n = !$initstate;

  logic       wready, rvalid;
  logic [1:0] rdata;
  logic [2:0] wfree;

  prim_fifo_async #(
      .WIDTH(2),
      .DEPTH(Depth)
  ) u_dut (
      .wclk_i,
      .wrst_ni (rst_n),
      .wvalid_i,
      .wready_o(wready),
      .wdata_i,
      .wfree_o (wfree),
      .rclk_i,
      .rrst_ni (rst_n),
      .rvalid_o(rvalid),
      .rready_i,
      .rdata_o (rdata)
  );

  (* anyconst *) logic [3:0] chosen;
  logic [3:0] written_q, taken_q;
  logic [1:0] word_q;

  initial begin
    written_q = '0;
    taken_q   = '0;
  end

  always_ff @(posedge wclk_i) begin
    if (wvalid_i && wready && rst_n) begin
      written_q <= written_q + 4'd1;
      if (written_q == chosen) word_q <= wdata_i;
    end
  end

  always_ff @(posedge rclk_i) begin
    if (rvalid && rready_i && rst_n) taken_q <= taken_q + 4'd1;
  end

  always_comb begin
    if (rst_n) begin
      assert (4'(written_q - taken_q) <= 4'(Depth + 1));
      assert (!rvalid || written_q != taken_q);
      assert (wfree <= 3'(Depth));
      if (rvalid && taken_q == chosen) assert (rdata == word_q);
    end
  end
endmodule
