// What access_order promises: whatever is unlinked and appended, the oldest is the one that was
// appended first of those that are in it, and from each one its newer one is found.
`default_nettype none

module prove_access_order (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic unlink_i,
    input wire logic append_i,
    input wire logic [1:0] number_i
);
  localparam int Entries = 3;

  logic       any, newest;
  logic [1:0] oldest, newer;

  access_order #(
      .ENTRIES(Entries)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .unlink_i,
      .append_i,
      .number_i,
      .any_o   (any),
      .oldest_o(oldest),
      .newest_o(newest),
      .newer_o (newer)
  );

  // The same as a queue: who is in it, in order.
  logic       past_q = 1'b0;
  logic [1:0] first_q, second_q, third_q, count_q, place;
  logic       listed;

  assign listed = (count_q > 2'd0 && first_q == number_i) || (count_q > 2'd1 && second_q == number_i)
      || (count_q > 2'd2 && third_q == number_i);
  assign place = (first_q == number_i) ? 2'd0 : (count_q > 2'd1 && second_q == number_i) ? 2'd1 : 2'd2;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      count_q <= 2'd0;
    end else if (unlink_i) begin
      count_q <= count_q - 2'd1;
      if (place == 2'd0) first_q <= second_q;
      if (place <= 2'd1) second_q <= third_q;
    end else if (append_i) begin
      count_q <= count_q + 2'd1;
      if (count_q == 2'd0) first_q <= number_i;
      if (count_q == 2'd1) second_q <= number_i;
      if (count_q == 2'd2) third_q <= number_i;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assume (number_i < 2'd3);
      assume (!(unlink_i && append_i));
      assume (!unlink_i || listed);
      assume (!append_i || !listed);

      assert (any == (count_q != 2'd0));
      if (any) assert (oldest == first_q);
      if (listed) begin
        assert (newest == (place + 2'd1 == count_q));
        if (place == 2'd0 && count_q > 2'd1) assert (newer == second_q);
        if (place == 2'd1 && count_q > 2'd2) assert (newer == third_q);
      end
    end
  end
endmodule

`default_nettype wire
