// Tree-based accumulator (3.4): adds up a flit of each source, those next to each other first, and
// one that is left over later. What comes of one source alone passes unchanged.
`default_nettype none

module tree_accumulator #(
    parameter int PORTS = 4
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [1:0] type_i,
    input wire logic valid_i,
    input wire logic [PORTS-1:0] sources_i,
    input wire logic [PORTS-1:0] destinations_i,
    input wire logic [PORTS*256-1:0] data_i,
    output logic valid_o,
    output logic [PORTS-1:0] destinations_o,
    output logic [255:0] data_o,
    // Nothing is on its way.
    output logic empty_o
);
  localparam int Levels = $clog2(PORTS);
  localparam int Leaves = 1 << Levels;
  // Cycles of an addition.
  localparam int NodeCycles = 7;
  localparam int Cycles = 1 + Levels * NodeCycles;

  // How many sources there are before a port.
  function automatic int preceding(input logic [PORTS-1:0] mask, input int port);
    preceding = 0;
    for (int p = 0; p < PORTS; p++) if (p < port && mask[p]) preceding = preceding + 1;
  endfunction

  // The sources' flits side by side, so that neighbours are those of the mask.
  logic [Leaves*256-1:0] packed_d, packed_q;
  logic [Leaves-1:0]     there_d, there_q;

  always_comb begin
    packed_d = '0;
    there_d  = '0;
    for (int i = 0; i < PORTS; i++) begin
      // The source before which i others are.
      for (int p = i; p < PORTS; p++) begin
        if (sources_i[p] && preceding(sources_i, p) == i) begin
          packed_d[256*i+:256] = data_i[256*p+:256];
          there_d[i]           = 1'b1;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    packed_q <= packed_d;
    there_q  <= there_d;
  end

  // Nodes by number as in a heap: the root is 1, children of n are 2n and 2n + 1.
  logic [2*Leaves*256-1:256] word;
  logic [2*Leaves-1:1]       there;

  assign word[Leaves*256+:Leaves*256] = packed_q;
  assign there[Leaves+:Leaves]        = there_q;

  for (genvar n = 1; n < Leaves; n++) begin : gen_node
    logic [255:0]            left, right, sum;
    logic [NodeCycles*256-1:0] alone_q;
    logic [NodeCycles-1:0]   both_q, any_q;

    assign left  = word[256*(2*n)+:256];
    assign right = word[256*(2*n+1)+:256];

    for (genvar i = 0; i < 8; i++) begin : gen_lane
      prim_add_lane u_lane (
          .clk_i,
          .type_i,
          .a_i  (left[32*i+:32]),
          .b_i  (right[32*i+:32]),
          .sum_o(sum[32*i+:32])
      );
    end

    always_ff @(posedge clk_i) begin
      alone_q <= {alone_q[(NodeCycles-1)*256-1:0], left};
      both_q  <= {both_q[NodeCycles-2:0], there[2*n+1]};
      any_q   <= {any_q[NodeCycles-2:0], there[2*n]};
    end

    assign word[256*n+:256] = both_q[NodeCycles-1] ? sum : alone_q[(NodeCycles-1)*256+:256];
    assign there[n]         = any_q[NodeCycles-1];
  end

  logic [Cycles-1:0]       valid_q;
  logic [Cycles*PORTS-1:0] destinations_q;
  logic                    unused_there;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Cycles-2:0], valid_i};
  end
  always_ff @(posedge clk_i) begin
    destinations_q <= {destinations_q[(Cycles-1)*PORTS-1:0], destinations_i};
  end

  assign valid_o        = valid_q[Cycles-1];
  assign destinations_o = destinations_q[(Cycles-1)*PORTS+:PORTS];
  assign data_o         = word[256+:256];
  assign empty_o        = valid_q == '0;
  assign unused_there   = there[1];
endmodule

`default_nettype wire
