// From which edges' pages a packet that leaves is made, and in which order they are added up: of
// arrival, or of the edges; or it is one port's packet that passes.
`default_nettype none

module addition_order #(
    parameter int PORTS = 8,
    localparam int PortW = $clog2(PORTS)
) (
    // As they have arrived.
    input wire logic [PortW:0] count_i,
    input wire logic [PORTS*PortW-1:0] order_i,
    input wire logic [PORTS*8-1:0] pages_i,
    // In the order of the edges that contribute.
    input wire logic by_edge_i,
    input wire logic [PORTS-1:0] sources_i,
    // One passes: whose, and its page.
    input wire logic passes_i,
    input wire logic [PortW-1:0] port_i,
    input wire logic [7:0] page_i,
    output logic [PortW:0] count_o,
    output logic [PORTS*PortW-1:0] order_o,
    output logic [PORTS*8-1:0] pages_o
);
  always_comb begin
    pages_o = pages_i;
    order_o = order_i;
    count_o = count_i;
    if (by_edge_i) begin
      count_o = '0;
      order_o = '0;
      for (int p = 0; p < PORTS; p++) begin
        if (sources_i[p]) begin
          order_o[PortW*32'(count_o)+:PortW] = PortW'(p);
          count_o = count_o + 1'b1;
        end
      end
    end
    if (passes_i) begin
      count_o = (PortW + 1)'(1);
      order_o = (PORTS * PortW)'(port_i);
      pages_o[8*32'(port_i)+:8] = page_i;
    end
  end
endmodule

`default_nettype wire
