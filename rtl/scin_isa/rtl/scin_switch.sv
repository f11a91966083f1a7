// A switch's ports around the in-switch accelerator (figure 4): its traffic goes to the
// accelerator, all other to the switch core outside.
`default_nettype none

module scin_switch #(
    parameter int PORTS = 4,
    parameter int WAVES = 8,
    parameter int WAVE_BYTES = 4096,
    parameter int PAYLOAD_BYTES = 4096,
    parameter int SLOTS = 8,
    parameter int INSTRUCTIONS = 16,
    parameter int QUANT = 0,
    parameter int PEER_CREDITS = 8,
    parameter int DATA_FLITS = 1024,
    parameter int HEADER_FLITS = 16
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [11:0] node_i,
    input wire logic [1:0] type_i,
    input wire logic [15:0] flag_word_i,
    input wire logic instruction_valid_i,
    output logic instruction_ready_o,
    input wire logic [56+50*PORTS-1:0] instruction_i,
    // The links.
    input wire logic [PORTS-1:0] rx_valid_i,
    input wire logic [PORTS-1:0] rx_last_i,
    input wire logic [PORTS*256-1:0] rx_flit_i,
    output logic [PORTS*8-1:0] rx_credit_o,
    output logic [PORTS-1:0] tx_valid_o,
    output logic [PORTS-1:0] tx_last_o,
    output logic [PORTS*256-1:0] tx_flit_o,
    input wire logic [PORTS*6-1:0] tx_credit_i,
    // The switch core, by port and class.
    output logic [PORTS*4-1:0] core_rx_valid_o,
    input wire logic [PORTS*4-1:0] core_rx_ready_i,
    output logic [PORTS*4-1:0] core_rx_last_o,
    output logic [PORTS*1024-1:0] core_rx_flit_o,
    input wire logic [PORTS*4-1:0] core_tx_valid_i,
    output logic [PORTS*4-1:0] core_tx_ready_o,
    input wire logic [PORTS*4-1:0] core_tx_last_i,
    input wire logic [PORTS*1024-1:0] core_tx_flit_i,
    // What happens.
    output logic started_o,
    output logic refused_o,
    output logic [15:0] id_o,
    output logic quiet_o,
    output logic [PORTS*3-1:0] drop_o
);
  logic [PORTS-1:0]     isa_rx_valid, isa_rx_last;
  logic [PORTS*256-1:0] isa_rx_flit;
  logic [PORTS*2-1:0]   isa_tx_valid, isa_tx_last, isa_tx_ready;
  logic [PORTS*512-1:0] isa_tx_flit;

  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    switch_port #(
        .PAYLOAD_BYTES(PAYLOAD_BYTES),
        .PEER_CREDITS (PEER_CREDITS),
        .DATA_FLITS   (DATA_FLITS),
        .HEADER_FLITS (HEADER_FLITS)
    ) u_port (
        .clk_i,
        .rst_ni,
        .rx_valid_i     (rx_valid_i[p]),
        .rx_last_i      (rx_last_i[p]),
        .rx_flit_i      (rx_flit_i[256*p+:256]),
        .rx_credit_o    (rx_credit_o[8*p+:8]),
        .tx_valid_o     (tx_valid_o[p]),
        .tx_last_o      (tx_last_o[p]),
        .tx_flit_o      (tx_flit_o[256*p+:256]),
        .tx_credit_i    (tx_credit_i[6*p+:6]),
        .isa_rx_valid_o (isa_rx_valid[p]),
        .isa_rx_last_o  (isa_rx_last[p]),
        .isa_rx_flit_o  (isa_rx_flit[256*p+:256]),
        .isa_tx_valid_i (isa_tx_valid[2*p+:2]),
        .isa_tx_last_i  (isa_tx_last[2*p+:2]),
        .isa_tx_ready_o (isa_tx_ready[2*p+:2]),
        .isa_tx_flit_i  (isa_tx_flit[512*p+:512]),
        .core_rx_valid_o(core_rx_valid_o[4*p+:4]),
        .core_rx_ready_i(core_rx_ready_i[4*p+:4]),
        .core_rx_last_o (core_rx_last_o[4*p+:4]),
        .core_rx_flit_o (core_rx_flit_o[1024*p+:1024]),
        .core_tx_valid_i(core_tx_valid_i[4*p+:4]),
        .core_tx_ready_o(core_tx_ready_o[4*p+:4]),
        .core_tx_last_i (core_tx_last_i[4*p+:4]),
        .core_tx_flit_i (core_tx_flit_i[1024*p+:1024])
    );
  end

  scin_isa #(
      .PORTS        (PORTS),
      .WAVES        (WAVES),
      .WAVE_BYTES   (WAVE_BYTES),
      .PAYLOAD_BYTES(PAYLOAD_BYTES),
      .SLOTS        (SLOTS),
      .INSTRUCTIONS (INSTRUCTIONS),
      .QUANT        (QUANT)
  ) u_isa (
      .clk_i,
      .rst_ni,
      .node_i,
      .type_i,
      .flag_word_i,
      .instruction_valid_i,
      .instruction_ready_o,
      .instruction_i,
      .rx_valid_i(isa_rx_valid),
      .rx_last_i (isa_rx_last),
      .rx_flit_i (isa_rx_flit),
      .tx_valid_o(isa_tx_valid),
      .tx_last_o (isa_tx_last),
      .tx_ready_i(isa_tx_ready),
      .tx_flit_o (isa_tx_flit),
      .started_o,
      .refused_o,
      .id_o,
      .quiet_o,
      .drop_o
  );
endmodule

`default_nettype wire
