// A queue of a port for packets of one class of the switch core (3.2); a packet is shown once the
// whole of it is there.
`default_nettype none

module core_queue #(
    // Flits.
    parameter int DEPTH = 16
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic valid_i,
    output logic ready_o,
    input wire logic last_i,
    input wire logic [255:0] flit_i,
    output logic valid_o,
    input wire logic ready_i,
    output logic last_o,
    output logic [255:0] flit_o
);
  logic                 shown;
  logic [$clog2(DEPTH):0] unused_free;
  // Whole packets.
  logic [$clog2(DEPTH)+1:0] packets_q;
  logic                 in, out;

  prim_fifo_sync #(
      .WIDTH(257),
      .DEPTH(DEPTH)
  ) u_fifo (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i,
      .ready_o,
      .data_i ({last_i, flit_i}),
      .valid_o(shown),
      .ready_i(ready_i && packets_q != '0),
      .data_o ({last_o, flit_o}),
      .free_o (unused_free)
  );

  assign valid_o = shown && packets_q != '0;
  assign in      = valid_i && ready_o && last_i;
  assign out     = valid_o && ready_i && last_o;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) packets_q <= '0;
    else if (in && !out) packets_q <= packets_q + 1'b1;
    else if (out && !in) packets_q <= packets_q - 1'b1;
  end
endmodule

`default_nettype wire
