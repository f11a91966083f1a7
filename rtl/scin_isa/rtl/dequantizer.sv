// The binary32 number that a code of eight bits and a binary16 scale stand for, exactly, a cycle
// later; NaN if the scale is no finite number.
`default_nettype none

module dequantizer (
    input wire logic clk_i,
    // Otherwise minus zero, which adds nothing.
    input wire logic there_i,
    input wire logic [7:0] code_i,
    input wire logic [15:0] scale_i,
    output logic [31:0] value_o
);
  logic [7:0]  magnitude;
  logic [10:0] significand;
  logic [4:0]  exponent;
  logic [18:0] product;
  logic [4:0]  place;
  logic [22:0] fraction;

  assign magnitude   = code_i[7] ? 8'd0 - code_i : code_i;
  assign significand = {scale_i[14:10] != 5'd0, scale_i[9:0]};
  assign exponent    = (scale_i[14:10] == 5'd0) ? 5'd1 : scale_i[14:10];
  assign product     = 19'(magnitude) * 19'(significand);

  always_comb begin
    place = 5'd0;
    for (int i = 0; i < 19; i++) if (product[i]) place = 5'(i);
    // The leading one falls off at the upper end.
    fraction = {4'd0, product} << (5'd23 - place);
  end

  always_ff @(posedge clk_i) begin
    if (!there_i) value_o <= 32'h80000000;
    else if (scale_i[14:10] == 5'h1F) value_o <= 32'h7FC00000;
    else if (product == 19'd0) value_o <= {scale_i[15] ^ code_i[7], 31'd0};
    // The product's last place is of 2^(exponent - 25).
    else value_o <= {scale_i[15] ^ code_i[7], 8'd102 + 8'(exponent) + 8'(place), fraction};
  end
endmodule

`default_nettype wire
