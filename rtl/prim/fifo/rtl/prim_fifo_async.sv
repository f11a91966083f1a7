// A FIFO between two clocks; its pointers cross as Gray codes, of which one bit changes at a time.
module prim_fifo_async #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 16
) (
    input  logic             wclk_i,
    input  logic             wrst_ni,
    input  logic             wvalid_i,
    output logic             wready_o,
    input  logic [WIDTH-1:0] wdata_i,
    // Places that may be written without a pause.
    output logic [$clog2(DEPTH):0]   wfree_o,
    input  logic             rclk_i,
    input  logic             rrst_ni,
    output logic             rvalid_o,
    input  logic             rready_i,
    output logic [WIDTH-1:0] rdata_o
);
  localparam int AddrW = $clog2(DEPTH);

  if (DEPTH < 4 || (DEPTH & (DEPTH - 1)) != 0) begin : gen_check
    expected_a_power_of_two_of_at_least_4_as_DEPTH u_stop ();
  end

  logic [WIDTH-1:0] mem_q[0:DEPTH-1];
  logic [AddrW:0] wptr_q, wgray_q, wptr_next, wgray_seen;
  logic [AddrW:0] rptr_q, rgray_q, rptr_next, rgray_seen;
  logic [AddrW:0] rptr_seen;
  logic           write, read, empty;
  logic           valid_q;
  logic [WIDTH-1:0] data_q;

  // The writer's side.
  prim_sync #(
      .WIDTH(AddrW + 1)
  ) u_sync_rptr (
      .clk_i (wclk_i),
      .rst_ni(wrst_ni),
      .d_i   (rgray_q),
      .q_o   (rgray_seen)
  );

  for (genvar i = 0; i <= AddrW; i++) begin : gen_rptr_seen
    assign rptr_seen[i] = ^rgray_seen[AddrW:i];
  end

  assign wfree_o   = (AddrW + 1)'(DEPTH) - (wptr_q - rptr_seen);
  assign wready_o  = wfree_o != '0;
  assign write     = wvalid_i && wready_o;
  assign wptr_next = wptr_q + 1'b1;

  always_ff @(posedge wclk_i or negedge wrst_ni) begin
    if (!wrst_ni) begin
      wptr_q  <= '0;
      wgray_q <= '0;
    end else if (write) begin
      wptr_q  <= wptr_next;
      wgray_q <= wptr_next ^ (wptr_next >> 1);
    end
  end

  always_ff @(posedge wclk_i) begin
    if (write) mem_q[wptr_q[AddrW-1:0]] <= wdata_i;
  end

  // The reader's side.
  prim_sync #(
      .WIDTH(AddrW + 1)
  ) u_sync_wptr (
      .clk_i (rclk_i),
      .rst_ni(rrst_ni),
      .d_i   (wgray_q),
      .q_o   (wgray_seen)
  );

  assign empty     = wgray_seen == rgray_q;
  assign read      = !empty && (!valid_q || rready_i);
  assign rptr_next = rptr_q + 1'b1;

  always_ff @(posedge rclk_i or negedge rrst_ni) begin
    if (!rrst_ni) begin
      rptr_q  <= '0;
      rgray_q <= '0;
      valid_q <= 1'b0;
    end else begin
      if (read) begin
        rptr_q  <= rptr_next;
        rgray_q <= rptr_next ^ (rptr_next >> 1);
      end
      if (read) valid_q <= 1'b1;
      else if (rready_i) valid_q <= 1'b0;
    end
  end

  always_ff @(posedge rclk_i) begin
    if (read) data_q <= mem_q[rptr_q[AddrW-1:0]];
  end

  assign rvalid_o = valid_q;
  assign rdata_o  = data_q;
endmodule
