// Sum of a word of every port, in pairs: ((0+1)+(2+3))+..., fixed point or floating point in two lanes of 32 bits.
module aggregation_adder #(
    parameter int PORTS = 8,
    // Bits that go along with a word.
    parameter int TAG_W = 16
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                clear_i,
    input  logic                float_i,
    input  logic [PORTS-1:0]    port_en_i,
    input  logic                valid_i,
    input  logic [TAG_W-1:0]    tag_i,
    input  logic [PORTS*64-1:0] data_i,
    output logic                valid_o,
    output logic [TAG_W-1:0]    tag_o,
    output logic [63:0]         data_o
);
  localparam int Levels = $clog2(PORTS);
  localparam int Leaves = 1 << Levels;
  localparam int FixedCycles = Levels;
  localparam int FloatCycles = 5 * Levels;

  // A heap: node 1 is the sum, node n that of 2n and 2n + 1, the ports are the last ones; node n has place n - 1.
  logic [(2*Leaves-1)*64-1:0] fixed, float;

  // A port that takes no part is zero, or minus zero: what adds nothing, be it to minus zero.
  for (genvar p = 0; p < Leaves; p++) begin : gen_leaf
    if (p < PORTS) begin : gen_port
      assign fixed[(Leaves+p-1)*64+:64] = port_en_i[p] ? data_i[p*64+:64] : 64'd0;
      assign float[(Leaves+p-1)*64+:64] = port_en_i[p] ? data_i[p*64+:64] : 64'h80000000_80000000;
    end else begin : gen_none
      assign fixed[(Leaves+p-1)*64+:64] = 64'd0;
      assign float[(Leaves+p-1)*64+:64] = 64'h80000000_80000000;
    end
  end

  for (genvar n = 1; n < Leaves; n++) begin : gen_node
    for (genvar l = 0; l < 2; l++) begin : gen_lane
      prim_add_fixed u_fixed (
          .clk_i,
          .a_i  (fixed[(2*n-1)*64+l*32+:32]),
          .b_i  (fixed[(2*n)*64+l*32+:32]),
          .sum_o(fixed[(n-1)*64+l*32+:32])
      );
      prim_add_fp32 u_float (
          .clk_i,
          .a_i  (float[(2*n-1)*64+l*32+:32]),
          .b_i  (float[(2*n)*64+l*32+:32]),
          .sum_o(float[(n-1)*64+l*32+:32])
      );
    end
  end

  logic [FloatCycles-1:0]       valid_q;
  logic [FloatCycles*TAG_W-1:0] tag_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else if (clear_i) valid_q <= '0;
    else valid_q <= {valid_q[FloatCycles-2:0], valid_i};
  end

  always_ff @(posedge clk_i) tag_q <= {tag_q[(FloatCycles-1)*TAG_W-1:0], tag_i};

  // As the mode changes, what has left in the one mode is still under way in the other.
  assign valid_o = !clear_i && (float_i ? valid_q[FloatCycles-1] : valid_q[FixedCycles-1]);
  assign tag_o   = float_i ? tag_q[(FloatCycles-1)*TAG_W+:TAG_W] : tag_q[(FixedCycles-1)*TAG_W+:TAG_W];
  assign data_o  = float_i ? float[63:0] : fixed[63:0];
endmodule
