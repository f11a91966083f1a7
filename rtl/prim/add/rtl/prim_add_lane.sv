// Sum of two words of 32 bits, seven cycles later: a binary32 number, or two of binary16 or
// bfloat16, which are added in binary32 and rounded back to nearest, ties to even. Every NaN that
// comes out is the positive quiet one without payload.
`default_nettype none

module prim_add_lane (
    input wire logic clk_i,
    input wire logic [1:0] type_i,
    input wire logic [31:0] a_i,
    input wire logic [31:0] b_i,
    output logic [31:0] sum_o
);
  logic [31:0] low_a_q, low_b_q, high_a_q, high_b_q, low, high;

  always_ff @(posedge clk_i) begin
    unique case (type_i)
      prim_half_pkg::TypeF16: begin
        low_a_q  <= prim_half_pkg::widen_f16(a_i[15:0]);
        low_b_q  <= prim_half_pkg::widen_f16(b_i[15:0]);
        high_a_q <= prim_half_pkg::widen_f16(a_i[31:16]);
        high_b_q <= prim_half_pkg::widen_f16(b_i[31:16]);
      end
      prim_half_pkg::TypeBf16: begin
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
      prim_half_pkg::TypeF16: begin
        sum_o <= {prim_half_pkg::narrow_f16(high), prim_half_pkg::narrow_f16(low)};
      end
      prim_half_pkg::TypeBf16: begin
        sum_o <= {prim_half_pkg::narrow_bf16(high), prim_half_pkg::narrow_bf16(low)};
      end
      default: sum_o <= low;
    endcase
  end
endmodule

`default_nettype wire
