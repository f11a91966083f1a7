// What page_pool promises: a page is given out once at a time, and not before both readers have done
// what was asked of them before it was left: what is read is never written meanwhile, though nobody
// waits; and a page that was left is given out again.
`default_nettype none

module prove_page_pool (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic take_i,
    input wire logic release_i,
    input wire logic [7:0] release_page_i,
    input wire logic fold_i,
    input wire logic forward_i,
    input wire logic fold_done_i,
    input wire logic forward_done_i
);
  logic       valid;
  logic [7:0] page;
  logic [3:0] fold_made_q, fold_read_q, forward_made_q, forward_read_q;

  page_pool #(
      .SLOTS(1),
      .SPARE(2),
      .MARKW(4)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .valid_o       (valid),
      .page_o        (page),
      .take_i,
      .release_i,
      .release_page_i,
      .fold_made_i   (fold_made_q + 4'(fold_i)),
      .forward_made_i(forward_made_q + 4'(forward_i)),
      .fold_read_i   (fold_read_q),
      .forward_read_i(forward_read_q)
  );

  // One page, whichever: whether it is out of the pool; and how many requests of each reader from
  // before it was left are still to be read.
  (* anyconst *) logic [7:0] chosen;
  logic past_q = 1'b0;
  logic out_q;
  logic [3:0] fold_owed_q, forward_owed_q, fold_open, forward_open;
  // Pages that are out: the one of the slot, and those taken.
  logic [1:0] outside_q;

  assign fold_open    = fold_made_q - fold_read_q;
  assign forward_open = forward_made_q - forward_read_q;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      fold_made_q    <= '0;
      fold_read_q    <= '0;
      forward_made_q <= '0;
      forward_read_q <= '0;
      fold_owed_q    <= '0;
      forward_owed_q <= '0;
      out_q          <= chosen == 8'd0;
      outside_q      <= 2'd1;
    end else begin
      fold_made_q    <= fold_made_q + 4'(fold_i);
      fold_read_q    <= fold_read_q + 4'(fold_done_i);
      forward_made_q <= forward_made_q + 4'(forward_i);
      forward_read_q <= forward_read_q + 4'(forward_done_i);
      if (fold_owed_q != 4'd0) fold_owed_q <= fold_owed_q - 4'(fold_done_i);
      if (forward_owed_q != 4'd0) forward_owed_q <= forward_owed_q - 4'(forward_done_i);
      if (release_i && release_page_i == chosen) begin
        out_q          <= 1'b0;
        fold_owed_q    <= fold_open + 4'(fold_i) - 4'(fold_done_i);
        forward_owed_q <= forward_open + 4'(forward_i) - 4'(forward_done_i);
      end else if (take_i && page == chosen) begin
        out_q <= 1'b1;
      end
      outside_q <= outside_q + 2'(take_i) - 2'(release_i);
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (chosen < 8'd3);
    if (past_q) begin
      assume (!take_i || valid);
      assume (!release_i || (release_page_i < 8'd3 && outside_q > 2'd1));
      // Only what is out is left; the slot has a page at any time.
      assume (!release_i || release_page_i != chosen || out_q);
      // Readers have few requests, and do none that was not made.
      assume (fold_open < 4'd3 || !fold_i);
      assume (forward_open < 4'd3 || !forward_i);
      assume (fold_open != 4'd0 || !fold_done_i);
      assume (forward_open != 4'd0 || !forward_done_i);

      if (valid && page == chosen) begin
        assert (!out_q);
        assert (fold_owed_q == 4'd0);
        assert (forward_owed_q == 4'd0);
      end
    end
  end
endmodule

`default_nettype wire
