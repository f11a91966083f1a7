// What lookup_table promises: a key is found where it was filed, two cycles after it was asked for,
// and not once it was taken out. Meanwhile nothing is filed, as a packet is decided after the other.
`default_nettype none

module prove_lookup_table (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [1:0] key_i,
    input wire logic write_i,
    input wire logic clear_i,
    input wire logic [1:0] number_i
);
  localparam int Entries = 3;

  logic       hit;
  logic [1:0] hit_number;

  lookup_table #(
      .ENTRIES(Entries),
      .KEY_W(2)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .key_i,
      .hit_o       (hit),
      .hit_number_o(hit_number),
      .write_i,
      .clear_i,
      .number_i
  );

  // One key, whichever: whether it is filed, and where; which numbers are taken; for how many cycles
  // it has been asked for, nothing being filed or taken out.
  (* anyconst *) logic [1:0] chosen;
  logic       past_q = 1'b0;
  logic       there_q;
  logic [1:0] where_q, asked_q;
  logic [2:0] taken_q;

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    if (!rst_ni) begin
      there_q <= 1'b0;
      taken_q <= '0;
      asked_q <= 2'd0;
    end else begin
      if (write_i) begin
        taken_q[number_i] <= 1'b1;
        if (key_i == chosen) begin
          there_q <= 1'b1;
          where_q <= number_i;
        end
      end else if (clear_i) begin
        taken_q[number_i] <= 1'b0;
        if (there_q && where_q == number_i) there_q <= 1'b0;
      end
      if (key_i != chosen || write_i || clear_i) asked_q <= 2'd0;
      else if (asked_q != 2'd2) asked_q <= asked_q + 2'd1;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    if (past_q) begin
      assume (number_i < 2'd3);
      assume (!(write_i && clear_i));
      assume (!write_i || !taken_q[number_i]);
      assume (!write_i || key_i != chosen || !there_q);
      assume (!clear_i || taken_q[number_i]);

      if (asked_q == 2'd2) begin
        assert (hit == there_q);
        if (there_q) assert (hit_number == where_q);
      end
    end
  end
endmodule

`default_nettype wire
