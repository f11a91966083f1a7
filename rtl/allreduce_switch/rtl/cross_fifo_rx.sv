// Cross FIFO of a receiver: brings frames from the port's clock into the processing clock, and drops whole those for which there is no room.
module cross_fifo_rx #(
    parameter int DEPTH = 64,
    // The longest frame, in beats of 8 bytes.
    parameter int MAX_BEATS = 256
) (
    input  logic        port_clk_i,
    input  logic        port_rst_ni,
    input  logic        rx_tvalid_i,
    input  logic [63:0] rx_tdata_i,
    input  logic [7:0]  rx_tkeep_i,
    input  logic        rx_tlast_i,
    // Pulses of the port's clock: a frame was dropped.
    output logic        overrun_o,
    output logic        giant_o,
    input  logic        clk_i,
    input  logic        rst_ni,
    output logic        valid_o,
    input  logic        ready_i,
    // {abort, last, bytes - 1, data}
    output logic [68:0] beat_o
);
  typedef enum logic [1:0] {
    Idle,
    Frame,
    Discard
  } state_e;

  localparam int CountW = $clog2(MAX_BEATS + 1);

  state_e                 state_q, state_d;
  logic [CountW-1:0]      count_q, count_d;
  logic                   write, abort, ready;
  logic [$clog2(DEPTH):0] free;
  logic [2:0]             bytes;

  always_comb begin
    bytes = 3'd0;
    for (int i = 0; i < 8; i++) begin
      if (rx_tkeep_i[i]) bytes = 3'(i);
    end
  end

  // The last place is kept for the mark that ends a frame which does not fit.
  always_comb begin
    state_d   = state_q;
    count_d   = count_q;
    write     = 1'b0;
    abort     = 1'b0;
    overrun_o = 1'b0;
    giant_o   = 1'b0;
    if (rx_tvalid_i) begin
      case (state_q)
        Idle: begin
          count_d = CountW'(1);
          if (free < 2) overrun_o = 1'b1;
          else write = 1'b1;
          if (!rx_tlast_i && write) state_d = Frame;
          else if (!rx_tlast_i) state_d = Discard;
        end
        Frame: begin
          count_d   = count_q + 1'b1;
          write     = 1'b1;
          overrun_o = free < 2;
          giant_o   = !overrun_o && count_q == CountW'(MAX_BEATS);
          abort     = overrun_o || giant_o;
          if (rx_tlast_i) state_d = Idle;
          else if (abort) state_d = Discard;
        end
        default: if (rx_tlast_i) state_d = Idle;
      endcase
    end
  end

  always_ff @(posedge port_clk_i or negedge port_rst_ni) begin
    if (!port_rst_ni) begin
      state_q <= Idle;
      count_q <= '0;
    end else begin
      state_q <= state_d;
      count_q <= count_d;
    end
  end

  prim_fifo_async #(
      .WIDTH(69),
      .DEPTH(DEPTH)
  ) u_fifo (
      .wclk_i  (port_clk_i),
      .wrst_ni (port_rst_ni),
      .wvalid_i(write),
      .wready_o(ready),
      .wdata_i ({abort, rx_tlast_i || abort, bytes, rx_tdata_i}),
      .wfree_o (free),
      .rclk_i  (clk_i),
      .rrst_ni (rst_ni),
      .rvalid_o(valid_o),
      .rready_i(ready_i),
      .rdata_o (beat_o)
  );

  // There is always room for what is written.
  logic unused_ready;
  assign unused_ready = ready;
endmodule
