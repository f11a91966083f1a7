// Cross FIFO of a transmitter: brings frames from the processing clock into the port's clock.
module cross_fifo_tx #(
    parameter int DEPTH = 32
) (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        valid_i,
    output logic        ready_o,
    // {last, bytes - 1, data}
    input  logic [67:0] beat_i,
    input  logic        port_clk_i,
    input  logic        port_rst_ni,
    output logic        tx_tvalid_o,
    input  logic        tx_tready_i,
    output logic [63:0] tx_tdata_o,
    output logic [7:0]  tx_tkeep_o,
    output logic        tx_tlast_o
);
  logic [67:0]            beat;
  logic [$clog2(DEPTH):0] unused_free;

  prim_fifo_async #(
      .WIDTH(68),
      .DEPTH(DEPTH)
  ) u_fifo (
      .wclk_i  (clk_i),
      .wrst_ni (rst_ni),
      .wvalid_i(valid_i),
      .wready_o(ready_o),
      .wdata_i (beat_i),
      .wfree_o (unused_free),
      .rclk_i  (port_clk_i),
      .rrst_ni (port_rst_ni),
      .rvalid_o(tx_tvalid_o),
      .rready_i(tx_tready_i),
      .rdata_o (beat)
  );

  assign tx_tdata_o = beat[63:0];
  assign tx_tkeep_o = 8'hFF >> (3'd7 - beat[66:64]);
  assign tx_tlast_o = beat[67];
endmodule
