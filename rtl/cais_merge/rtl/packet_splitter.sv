// Headers of what comes, and the flits of payload behind them, each in a queue: decisions run ahead
// of the data.
`default_nettype none

module packet_splitter #(
    parameter int HEADERS = 4,
    parameter int FLITS = 32
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Packets, flit by flit, and the accelerator that each is from.
    input wire logic valid_i,
    output logic ready_o,
    input wire logic last_i,
    input wire logic [3:0] port_i,
    input wire logic [cais_pkg::FlitW-1:0] flit_i,
    // Headers, whether there is payload behind one, and from where it has come.
    output logic header_valid_o,
    input wire logic header_ready_i,
    output prim_flit_pkg::header_t header_o,
    output logic has_data_o,
    output logic [3:0] port_o,
    // Payload, in the order of the headers.
    output logic data_valid_o,
    input wire logic data_ready_i,
    output logic data_last_o,
    output logic [cais_pkg::FlitW-1:0] data_o
);
  localparam int HeaderW = 128 + 5;
  localparam int DataW = cais_pkg::FlitW + 1;

  logic                        behind_q;
  logic                        header_room, data_room;
  logic [$clog2(HEADERS):0]    unused_headers;
  logic [$clog2(FLITS):0]      unused_flits;

  assign ready_o = behind_q ? data_room : header_room;

  prim_fifo_sync #(
      .WIDTH(HeaderW),
      .DEPTH(HEADERS)
  ) u_headers (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(valid_i && !behind_q),
      .ready_o(header_room),
      .data_i ({port_i, !last_i, prim_flit_pkg::swap(flit_i)}),
      .valid_o(header_valid_o),
      .ready_i(header_ready_i),
      .data_o ({port_o, has_data_o, header_o}),
      .free_o (unused_headers)
  );

  prim_fifo_sync #(
      .WIDTH(DataW),
      .DEPTH(FLITS)
  ) u_data (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(valid_i && behind_q),
      .ready_o(data_room),
      .data_i ({last_i, flit_i}),
      .valid_o(data_valid_o),
      .ready_i(data_ready_i),
      .data_o ({data_last_o, data_o}),
      .free_o (unused_flits)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) behind_q <= 1'b0;
    else if (valid_i && ready_o) behind_q <= !last_i;
  end
endmodule

`default_nettype wire
