// Combines two words of 32 bits, five cycles later: a number of 32 bits, or two of 16, which are
// binary32 inside. Sums of 16-bit numbers are rounded back each time, unless INSIDE_F32.
`default_nettype none

module reduce_lane #(
    parameter int INSIDE_F32 = 0
) (
    input wire logic clk_i,
    input wire inc_engine_pkg::reduction_t reduction_i,
    // What comes passes: there is nothing to combine it with.
    input wire logic pass_i,
    input wire logic [63:0] a_i,
    input wire logic [63:0] b_i,
    output logic [63:0] c_o
);
  import inc_engine_pkg::*;

  // Numbers of one sign have the order of their bits, and minus zero is less than plus zero.
  function automatic logic [31:0] pick(input logic [31:0] a, input logic [31:0] b, input logic max);
    /* verilator no_inline_task */
    logic a_less;
    a_less = (a[31] != b[31]) ? a[31] : (a[31] ? a[30:0] > b[30:0] : a[30:0] < b[30:0]);
    if (a[30:0] > 31'h7F800000 || b[30:0] > 31'h7F800000) pick = 32'h7FC00000;
    else pick = (a_less != max) ? a : b;
  endfunction

  logic [63:0] other, sum, rounded;
  logic        adds;

  always_comb begin
    adds  = !pass_i && reduction_i.op == OpSum && reduction_i.data_type != TypeI32;
    other = a_i;
    if (!pass_i) begin
      unique case (reduction_i.op)
        OpSum: other = {32'd0, a_i[31:0] + b_i[31:0]};
        OpOr: other = {32'd0, a_i[31:0] | b_i[31:0]};
        default: begin
          if (reduction_i.data_type == TypeI32) begin
            other = (($signed(a_i[31:0]) < $signed(b_i[31:0])) == (reduction_i.op == OpMin))
                ? a_i : b_i;
          end else begin
            other = {pick(a_i[63:32], b_i[63:32], reduction_i.op == OpMax),
                     pick(a_i[31:0], b_i[31:0], reduction_i.op == OpMax)};
          end
        end
      endcase
    end
  end

  prim_add_fp32 u_low (
      .clk_i,
      .a_i  (a_i[31:0]),
      .b_i  (b_i[31:0]),
      .sum_o(sum[31:0])
  );

  prim_add_fp32 u_high (
      .clk_i,
      .a_i  (a_i[63:32]),
      .b_i  (b_i[63:32]),
      .sum_o(sum[63:32])
  );

  localparam int Cycles = 5;
  logic [Cycles*64-1:0] other_q;
  logic [Cycles-1:0]    adds_q;
  logic [Cycles*2-1:0]  type_q;

  always_ff @(posedge clk_i) begin
    other_q <= {other_q[(Cycles-1)*64-1:0], other};
    adds_q  <= {adds_q[Cycles-2:0], adds};
    type_q  <= {type_q[(Cycles-1)*2-1:0], reduction_i.data_type};
  end

  always_comb begin
    rounded = sum;
    if (INSIDE_F32 == 0) begin
      unique case (type_q[(Cycles-1)*2+:2])
        TypeF16: begin
          rounded = {prim_half_pkg::widen_f16(prim_half_pkg::narrow_f16(sum[63:32])),
                     prim_half_pkg::widen_f16(prim_half_pkg::narrow_f16(sum[31:0]))};
        end
        TypeBf16: begin
          rounded = {prim_half_pkg::narrow_bf16(sum[63:32]), 16'd0,
                     prim_half_pkg::narrow_bf16(sum[31:0]), 16'd0};
        end
        default: rounded = sum;
      endcase
    end
    c_o = adds_q[Cycles-1] ? rounded : other_q[(Cycles-1)*64+:64];
  end
endmodule

`default_nettype wire
