// The CAM lookup table (CAIS III-A2): which entry has a key. A search takes two cycles; no key is
// there twice.
`default_nettype none

module lookup_table #(
    parameter int ENTRIES = 320,
    parameter int KEY_W = 49
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [KEY_W-1:0] key_i,
    output logic hit_o,
    output logic [$clog2(ENTRIES)-1:0] hit_number_o,
    // Files the key, or takes out what is there.
    input wire logic write_i,
    input wire logic clear_i,
    input wire logic [$clog2(ENTRIES)-1:0] number_i
);
  localparam int NumberW = $clog2(ENTRIES);

  // A register each, as all are read at once.
  (* mem2reg *)
  logic [KEY_W-1:0]   key_q[0:ENTRIES-1];
  logic [ENTRIES-1:0] valid_q, match_d, match_q;
  logic [NumberW-1:0] number;

  always_comb begin
    for (int e = 0; e < ENTRIES; e++) match_d[e] = valid_q[e] && key_q[e] == key_i;
  end

  always_comb begin
    number = '0;
    for (int e = 0; e < ENTRIES; e++) if (match_q[e]) number = number | NumberW'(e);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q      <= '0;
      match_q      <= '0;
      hit_o        <= 1'b0;
      hit_number_o <= '0;
    end else begin
      if (write_i) valid_q[number_i] <= 1'b1;
      else if (clear_i) valid_q[number_i] <= 1'b0;
      match_q      <= match_d;
      hit_o        <= match_q != '0;
      hit_number_o <= number;
    end
  end
  always_ff @(posedge clk_i) if (write_i) key_q[number_i] <= key_i;
endmodule

`default_nettype wire
