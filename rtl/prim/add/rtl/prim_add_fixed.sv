// Sum of two 32-bit integers that wraps, one cycle later.
module prim_add_fixed (
    input  logic        clk_i,
    input  logic [31:0] a_i,
    input  logic [31:0] b_i,
    output logic [31:0] sum_o
);
  always_ff @(posedge clk_i) sum_o <= a_i + b_i;
endmodule
