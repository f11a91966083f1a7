// Barrier manager (3.3): counts the accelerators that have arrived, several in one cycle, up to
// what the counter holds.
`default_nettype none

module barrier_manager #(
    parameter int PORTS = 4
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Atomic additions to the counter, one of each port in a cycle.
    input wire logic [PORTS-1:0] add_i,
    input wire logic [PORTS*16-1:0] operand_i,
    // All have come: the count begins anew.
    input wire logic clear_i,
    output logic [15:0] count_o
);
  localparam int SumW = 16 + $clog2(PORTS + 1);

  logic [SumW-1:0] sum;

  always_comb begin
    sum = SumW'(count_o) & {SumW{!clear_i}};
    // Without a choice in between, so that all are added up at once.
    for (int p = 0; p < PORTS; p++) sum = sum + (SumW'(operand_i[16*p+:16]) & {SumW{add_i[p]}});
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) count_o <= '0;
    else count_o <= (sum[SumW-1:16] != '0) ? '1 : sum[15:0];
  end
endmodule

`default_nettype wire
