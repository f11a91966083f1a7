// A port of the switch (3.2): packets with the INC bit go to the in-switch accelerator, all others
// into the switch core's queues, one of each class; on the way out both are served in turn. Each
// channel has its credits, in packets.
`default_nettype none

module switch_port #(
    parameter int PAYLOAD_BYTES = 4096,
    // Packets that the peer has room for, of each channel.
    parameter int PEER_CREDITS = 8,
    // Flits of a queue of the switch core: of the classes with data, and of the others.
    parameter int DATA_FLITS = 1024,
    parameter int HEADER_FLITS = 16
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The link, a flit a cycle each way; a bit for each channel when a packet's place is free
    // again.
    input wire logic rx_valid_i,
    input wire logic rx_last_i,
    input wire logic [255:0] rx_flit_i,
    output logic [7:0] rx_credit_o,
    output logic tx_valid_o,
    output logic tx_last_o,
    output logic [255:0] tx_flit_o,
    input wire logic [5:0] tx_credit_i,
    // The in-switch accelerator, which takes whatever comes.
    output logic isa_rx_valid_o,
    output logic isa_rx_last_o,
    output logic [255:0] isa_rx_flit_o,
    input wire logic [1:0] isa_tx_valid_i,
    input wire logic [1:0] isa_tx_last_i,
    output logic [1:0] isa_tx_ready_o,
    input wire logic [511:0] isa_tx_flit_i,
    // The switch core, by class.
    output logic [3:0] core_rx_valid_o,
    input wire logic [3:0] core_rx_ready_i,
    output logic [3:0] core_rx_last_o,
    output logic [1023:0] core_rx_flit_o,
    input wire logic [3:0] core_tx_valid_i,
    output logic [3:0] core_tx_ready_o,
    input wire logic [3:0] core_tx_last_i,
    input wire logic [1023:0] core_tx_flit_i
);
  localparam int PacketFlits = 1 + PAYLOAD_BYTES / 32;

  if (DATA_FLITS < PacketFlits) begin : gen_check
    expected_room_for_a_packet_as_DATA_FLITS u_stop ();
  end

  // ---- From the link: the header says for whom all of the packet is.
  logic         in_valid_q, in_last_q, inside_q, inc, inc_q;
  logic [255:0] in_flit_q;
  logic [1:0]   kind_class, kind_class_q;
  logic [3:0]   to_core, core_pop, unused_rx_ready;
  prim_flit_pkg::header_t header;
  logic         unused_header;
  logic [3:0]    tx_valid, tx_last, tx_ready;
  logic [1023:0] tx_flit;

  assign header     = prim_flit_pkg::swap(in_flit_q[127:0]);
  assign unused_header = ^{header.notify, header.reserved, header.source, header.destination,
                           header.address, header.length, header.tag, header.credit};
  assign inc        = inside_q ? inc_q : header.inc;
  assign kind_class = inside_q ? kind_class_q : prim_flit_pkg::class_of(header.kind);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      in_valid_q <= 1'b0;
      inside_q   <= 1'b0;
    end else begin
      in_valid_q <= rx_valid_i;
      if (in_valid_q) inside_q <= !in_last_q;
    end
  end

  always_ff @(posedge clk_i) begin
    in_last_q <= rx_last_i;
    in_flit_q <= rx_flit_i;
    if (in_valid_q) begin
      inc_q        <= inc;
      kind_class_q <= kind_class;
    end
  end

  assign isa_rx_valid_o = in_valid_q && inc;
  assign isa_rx_last_o  = in_last_q;
  assign isa_rx_flit_o  = in_flit_q;

  for (genvar c = 0; c < 4; c++) begin : gen_class
    localparam bit HasData = c == prim_flit_pkg::ClassWrite || c == prim_flit_pkg::ClassReadResponse;
    localparam int Depth = HasData ? DATA_FLITS : HEADER_FLITS;

    assign to_core[c] = in_valid_q && !inc && kind_class == 2'(c);

    core_queue #(
        .DEPTH(Depth)
    ) u_rx (
        .clk_i,
        .rst_ni,
        .valid_i(to_core[c]),
        .ready_o(unused_rx_ready[c]),
        .last_i (in_last_q),
        .flit_i (in_flit_q),
        .valid_o(core_rx_valid_o[c]),
        .ready_i(core_rx_ready_i[c]),
        .last_o (core_rx_last_o[c]),
        .flit_o (core_rx_flit_o[256*c+:256])
    );
    assign core_pop[c] = core_rx_valid_o[c] && core_rx_ready_i[c] && core_rx_last_o[c];

    core_queue #(
        .DEPTH(Depth)
    ) u_tx (
        .clk_i,
        .rst_ni,
        .valid_i(core_tx_valid_i[c]),
        .ready_o(core_tx_ready_o[c]),
        .last_i (core_tx_last_i[c]),
        .flit_i (core_tx_flit_i[256*c+:256]),
        .valid_o(tx_valid[c]),
        .ready_i(tx_ready[c]),
        .last_o (tx_last[c]),
        .flit_o (tx_flit[256*c+:256])
    );
  end

  // ---- To the link.
  logic [5:0]    has_credit, take_credit;

  // The accelerator sends no responses.
  for (genvar c = 0; c < 6; c++) begin : gen_credit
    credit_counter #(
        .CREDITS(PEER_CREDITS)
    ) u_credit (
        .clk_i,
        .rst_ni,
        .take_i(take_credit[c]),
        .give_i(tx_credit_i[c]),
        .has_o (has_credit[c])
    );
  end

  port_transmitter u_transmitter (
      .clk_i,
      .rst_ni,
      .isa_valid_i  (isa_tx_valid_i),
      .isa_last_i   (isa_tx_last_i),
      .isa_ready_o  (isa_tx_ready_o),
      .isa_flit_i   (isa_tx_flit_i),
      .core_valid_i (tx_valid),
      .core_last_i  (tx_last),
      .core_ready_o (tx_ready),
      .core_flit_i  (tx_flit),
      .has_credit_i (has_credit),
      .take_credit_o(take_credit),
      .valid_o      (tx_valid_o),
      .last_o       (tx_last_o),
      .flit_o       (tx_flit_o)
  );

  // ---- Places that are free again: of the accelerator at once, of the core when it has taken the
  // packet.
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rx_credit_o <= '0;
    end else begin
      rx_credit_o <= {4'd0, core_pop};
      if (in_valid_q && in_last_q && inc) rx_credit_o[3'd4+3'(kind_class)] <= 1'b1;
    end
  end
endmodule

`default_nettype wire
