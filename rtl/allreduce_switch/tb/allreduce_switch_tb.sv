// The switch as cocotb drives it: clocks that are never in step, and the streams of each port by themselves (`gen_port[p].u_port`).
`timescale 1ns / 1ps
module allreduce_switch_tb #(
    parameter int PORTS = 3,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) ();
  logic clk, rst_n, spi_sck, spi_cs_n, spi_mosi, spi_miso;
  logic [PORTS-1:0] port_clk, rx_tvalid, rx_tlast, tx_tvalid, tx_tready, tx_tlast;
  logic [PORTS*64-1:0] rx_tdata, tx_tdata;
  logic [PORTS*8-1:0] rx_tkeep, tx_tkeep;
  logic [PORTS*allreduce_switch_pkg::Reasons-1:0] drop;

  initial begin
    clk = 1'b0;
    rst_n = 1'b0;
    spi_sck = 1'b0;
    spi_cs_n = 1'b1;
    spi_mosi = 1'b0;
  end

  // 200 MHz, and 156.25 MHz for each port.
  always #2.5 clk = !clk;

  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    port_streams #(
        .PHASE_PS(700 * p + 100)
    ) u_port ();
    assign port_clk[p]         = u_port.clk;
    assign rx_tvalid[p]        = u_port.rx_tvalid;
    assign rx_tdata[p*64+:64]  = u_port.rx_tdata;
    assign rx_tkeep[p*8+:8]    = u_port.rx_tkeep;
    assign rx_tlast[p]         = u_port.rx_tlast;
    assign tx_tready[p]        = u_port.tx_tready;
    assign u_port.tx_tvalid    = tx_tvalid[p];
    assign u_port.tx_tdata     = tx_tdata[p*64+:64];
    assign u_port.tx_tkeep     = tx_tkeep[p*8+:8];
    assign u_port.tx_tlast     = tx_tlast[p];
  end

  allreduce_switch #(
      .PORTS (PORTS),
      .FLOWS (FLOWS),
      .FRAMES(FRAMES)
  ) u_switch (
      .clk_i      (clk),
      .rst_ni     (rst_n),
      .port_clk_i (port_clk),
      .rx_tvalid_i(rx_tvalid),
      .rx_tdata_i (rx_tdata),
      .rx_tkeep_i (rx_tkeep),
      .rx_tlast_i (rx_tlast),
      .tx_tvalid_o(tx_tvalid),
      .tx_tready_i(tx_tready),
      .tx_tdata_o (tx_tdata),
      .tx_tkeep_o (tx_tkeep),
      .tx_tlast_o (tx_tlast),
      .spi_sck_i  (spi_sck),
      .spi_cs_ni  (spi_cs_n),
      .spi_mosi_i (spi_mosi),
      .spi_miso_o (spi_miso),
      .drop_o     (drop)
  );
endmodule

// A port's clock and its two streams.
module port_streams #(
    parameter int PHASE_PS = 0
) ();
  logic clk, rx_tvalid, rx_tlast, tx_tready;
  logic [63:0] rx_tdata;
  logic [7:0] rx_tkeep;
  wire tx_tvalid, tx_tlast;
  wire [63:0] tx_tdata;
  wire [7:0] tx_tkeep;

  initial begin
    clk = 1'b0;
    rx_tvalid = 1'b0;
    rx_tlast = 1'b0;
    rx_tdata = '0;
    rx_tkeep = '0;
    tx_tready = 1'b0;
    #(PHASE_PS / 1000.0);
    forever #3.2 clk = !clk;
  end
endmodule
