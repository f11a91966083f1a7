// What comes in goes out a number of cycles later: a ring in a memory.
`default_nettype none

module delay_line #(
    parameter int WIDTH = 8,
    parameter int CYCLES = 2
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [WIDTH-1:0] data_i,
    output logic [WIDTH-1:0] data_o
);
  if (CYCLES < 2) begin : gen_check
    expected_two_or_more_as_CYCLES u_stop ();
  end

  // The last cycle is that of the memory's output.
  localparam int Depth = CYCLES - 1;
  localparam int AddressW = (Depth > 1) ? $clog2(Depth) : 1;

  logic [WIDTH-1:0]    mem_q[0:Depth-1];
  logic [AddressW-1:0] place_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) place_q <= '0;
    else place_q <= (place_q == AddressW'(Depth - 1)) ? '0 : place_q + 1'b1;
  end
  always_ff @(posedge clk_i) begin
    mem_q[place_q] <= data_i;
    data_o         <= mem_q[place_q];
  end
endmodule

`default_nettype wire
