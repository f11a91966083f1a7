// Sum of two words of 32 bits, seven cycles later: a binary32 number, or two of binary16 or
// bfloat16, which are added in binary32 and rounded back to nearest, ties to even. Every NaN that
// comes out is the positive quiet one without payload.
`default_nettype none

module lane_adder (
    input wire logic clk_i,
    input wire logic [1:0] type_i,
    input wire logic [31:0] a_i,
    input wire logic [31:0] b_i,
    output logic [31:0] sum_o
);
  // Widens a binary16 number, exactly; a denormal's leading one is looked for.
  function automatic logic [31:0] widen(input logic [15:0] half);
    logic [4:0] place;
    logic [9:0] fraction;
    place    = 5'd0;
    fraction = half[9:0];
    for (int i = 0; i < 10; i++) if (half[i]) place = 5'(i);
    if (half[14:10] == 5'h1F) widen = {half[15], 8'hFF, half[9:0], 13'd0};
    else if (half[14:10] != 5'd0) widen = {half[15], 8'(half[14:10]) + 8'd112, half[9:0], 13'd0};
    else if (half[9:0] == 10'd0) widen = {half[15], 31'd0};
    else begin
      // The leading one, which is of 2^(place - 24), falls off at the upper end.
      fraction = fraction << (5'd10 - place);
      widen = {half[15], 8'd103 + 8'(place), fraction, 13'd0};
    end
  endfunction

  function automatic logic [15:0] narrow_f16(input logic [31:0] single);
    logic [24:0] kept;
    logic [7:0]  shift;
    logic [15:0] rounded;
    if (single[30:0] > 31'h7F800000) begin
      narrow_f16 = 16'h7E00;
    end else if (single[30:23] >= 8'd143) begin
      narrow_f16 = {single[31], 15'h7C00};
    end else begin
      // Eleven bits of a normal number are kept, of one below 2^-14 those down to 2^-24.
      shift   = (single[30:23] >= 8'd113) ? 8'd0 : 8'd113 - single[30:23];
      kept    = {1'b1, single[22:0], 1'b0};
      // A number below 2^-25 rounds to zero; so does half of the last place.
      if (shift > 8'd11) kept = {24'd0, single[30:0] != 31'd0};
      else kept = (kept >> shift[3:0]) | {24'd0, (kept & ((25'd1 << shift[3:0]) - 25'd1)) != 25'd0};
      rounded = 16'(kept[24:14]) + 16'(kept[13] && (kept[12:0] != 13'd0 || kept[14]));
      if (single[30:23] >= 8'd113) rounded = rounded + {single[28:23] - 6'd49, 10'd0};
      narrow_f16 = {single[31], rounded[14:0]};
    end
  endfunction

  function automatic logic [15:0] narrow_bf16(input logic [31:0] single);
    logic carry;
    // Half of the last place and more goes up; a half alone where that makes it even.
    carry = single[15] && (single[14:0] != 15'd0 || single[16]);
    narrow_bf16 = (single[30:0] > 31'h7F800000) ? 16'h7FC0 : single[31:16] + {15'd0, carry};
  endfunction

  logic [31:0] low_a_q, low_b_q, high_a_q, high_b_q, low, high;

  always_ff @(posedge clk_i) begin
    unique case (type_i)
      scin_isa_pkg::TypeF16: begin
        low_a_q  <= widen(a_i[15:0]);
        low_b_q  <= widen(b_i[15:0]);
        high_a_q <= widen(a_i[31:16]);
        high_b_q <= widen(b_i[31:16]);
      end
      scin_isa_pkg::TypeBf16: begin
        low_a_q  <= {a_i[15:0], 16'd0};
        low_b_q  <= {b_i[15:0], 16'd0};
        high_a_q <= {a_i[31:16], 16'd0};
        high_b_q <= {b_i[31:16], 16'd0};
      end
      default: begin
        low_a_q  <= a_i;
        low_b_q  <= b_i;
        high_a_q <= '0;
        high_b_q <= '0;
      end
    endcase
  end

  prim_add_fp32 u_low (
      .clk_i,
      .a_i  (low_a_q),
      .b_i  (low_b_q),
      .sum_o(low)
  );

  prim_add_fp32 u_high (
      .clk_i,
      .a_i  (high_a_q),
      .b_i  (high_b_q),
      .sum_o(high)
  );

  always_ff @(posedge clk_i) begin
    unique case (type_i)
      scin_isa_pkg::TypeF16: sum_o <= {narrow_f16(high), narrow_f16(low)};
      scin_isa_pkg::TypeBf16: sum_o <= {narrow_bf16(high), narrow_bf16(low)};
      default: sum_o <= low;
    endcase
  end
endmodule

`default_nettype wire
