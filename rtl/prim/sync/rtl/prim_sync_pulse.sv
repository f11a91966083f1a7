// Pulses of one clock as pulses of another; two need three cycles of the slower clock between them.
module prim_sync_pulse #(
    parameter int WIDTH = 1
) (
    input  logic             src_clk_i,
    input  logic             src_rst_ni,
    input  logic [WIDTH-1:0] pulse_i,
    input  logic             dst_clk_i,
    input  logic             dst_rst_ni,
    output logic [WIDTH-1:0] pulse_o
);
  logic [WIDTH-1:0] toggle_q;
  logic [WIDTH-1:0] seen;
  logic [WIDTH-1:0] before_q;

  always_ff @(posedge src_clk_i or negedge src_rst_ni) begin
    if (!src_rst_ni) toggle_q <= '0;
    else toggle_q <= toggle_q ^ pulse_i;
  end

  prim_sync #(
      .WIDTH(WIDTH)
  ) u_sync (
      .clk_i (dst_clk_i),
      .rst_ni(dst_rst_ni),
      .d_i   (toggle_q),
      .q_o   (seen)
  );

  always_ff @(posedge dst_clk_i or negedge dst_rst_ni) begin
    if (!dst_rst_ni) before_q <= '0;
    else before_q <= seen;
  end

  assign pulse_o = seen ^ before_q;
endmodule
