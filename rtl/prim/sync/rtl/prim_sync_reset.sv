// A reset that begins at once and ends with this clock.
module prim_sync_reset (
    input  logic clk_i,
    input  logic rst_ni,
    output logic rst_no
);
  logic [1:0] release_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) release_q <= '0;
    else release_q <= {release_q[0], 1'b1};
  end

  assign rst_no = release_q[1];
endmodule
