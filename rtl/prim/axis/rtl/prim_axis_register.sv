// A register in an AXI stream that cuts both ways and passes one beat a cycle: two places.
module prim_axis_register #(
    parameter int WIDTH = 64
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             s_tvalid_i,
    output logic             s_tready_o,
    input  logic [WIDTH-1:0] s_tdata_i,
    output logic             m_tvalid_o,
    input  logic             m_tready_i,
    output logic [WIDTH-1:0] m_tdata_o
);
  logic             valid_q, valid_d, spare_valid_q, spare_valid_d;
  logic [WIDTH-1:0] data_q, data_d, spare_q, spare_d;

  always_comb begin
    valid_d       = valid_q;
    data_d        = data_q;
    spare_valid_d = spare_valid_q;
    spare_d       = spare_q;
    if (!valid_q || m_tready_i) begin
      valid_d       = spare_valid_q || s_tvalid_i;
      data_d        = spare_valid_q ? spare_q : s_tdata_i;
      spare_valid_d = 1'b0;
    end else if (s_tvalid_i && s_tready_o) begin
      spare_valid_d = 1'b1;
      spare_d       = s_tdata_i;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q       <= 1'b0;
      spare_valid_q <= 1'b0;
    end else begin
      valid_q       <= valid_d;
      spare_valid_q <= spare_valid_d;
    end
  end

  always_ff @(posedge clk_i) begin
    data_q  <= data_d;
    spare_q <= spare_d;
  end

  assign s_tready_o = !spare_valid_q;
  assign m_tvalid_o = valid_q;
  assign m_tdata_o  = data_q;
endmodule
