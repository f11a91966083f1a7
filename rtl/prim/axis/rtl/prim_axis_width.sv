// Makes the words of an AXI stream narrower or wider, by a power of two; bytes keep their order, and only a frame's last word is not full.
module prim_axis_width #(
    parameter int S_BYTES = 8,
    parameter int M_BYTES = 4
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    input  logic                 s_tvalid_i,
    output logic                 s_tready_o,
    input  logic [S_BYTES*8-1:0] s_tdata_i,
    input  logic [S_BYTES-1:0]   s_tkeep_i,
    input  logic                 s_tlast_i,
    output logic                 m_tvalid_o,
    input  logic                 m_tready_i,
    output logic [M_BYTES*8-1:0] m_tdata_o,
    output logic [M_BYTES-1:0]   m_tkeep_o,
    output logic                 m_tlast_o
);
  if (S_BYTES < 1 || (S_BYTES & (S_BYTES - 1)) != 0 || M_BYTES < 1 || (M_BYTES & (M_BYTES - 1)) != 0) begin : gen_check
    expected_powers_of_two_as_bytes u_stop ();
  end

  if (S_BYTES == M_BYTES) begin : gen_same
    assign s_tready_o = m_tready_i;
    assign m_tvalid_o = s_tvalid_i;
    assign m_tdata_o  = s_tdata_i;
    assign m_tkeep_o  = s_tkeep_i;
    assign m_tlast_o  = s_tlast_i;
    logic unused_clk;
    assign unused_clk = clk_i ^ rst_ni;
  end else if (S_BYTES > M_BYTES) begin : gen_narrower
    localparam int Parts = S_BYTES / M_BYTES;
    localparam int PartW = $clog2(Parts);

    logic [PartW-1:0] part_q, part_d;
    logic             end_of_word;

    // Nothing is kept in the parts after this one.
    assign end_of_word = part_q == PartW'(Parts - 1) || (s_tkeep_i >> ((32'(part_q) + 1) * M_BYTES)) == '0;
    assign m_tvalid_o  = s_tvalid_i;
    assign m_tdata_o   = s_tdata_i[part_q*M_BYTES*8+:M_BYTES*8];
    assign m_tkeep_o   = s_tkeep_i[part_q*M_BYTES+:M_BYTES];
    assign m_tlast_o   = s_tlast_i && end_of_word;
    assign s_tready_o  = m_tready_i && end_of_word;

    always_comb begin
      part_d = part_q;
      if (s_tvalid_i && m_tready_i) part_d = end_of_word ? '0 : part_q + 1'b1;
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) part_q <= '0;
      else part_q <= part_d;
    end
  end else begin : gen_wider
    localparam int Parts = M_BYTES / S_BYTES;
    localparam int PartW = $clog2(Parts);

    logic [PartW-1:0]     part_q, part_d;
    logic                 valid_q, valid_d, last_q, last_d;
    logic [M_BYTES*8-1:0] data_q, data_d;
    logic [M_BYTES-1:0]   keep_q, keep_d;

    assign s_tready_o = !valid_q || m_tready_i;

    always_comb begin
      part_d  = part_q;
      valid_d = valid_q;
      last_d  = last_q;
      data_d  = data_q;
      keep_d  = keep_q;
      if (valid_q && m_tready_i) begin
        valid_d = 1'b0;
        keep_d  = '0;
      end
      if (s_tvalid_i && s_tready_o) begin
        data_d[part_q*S_BYTES*8+:S_BYTES*8] = s_tdata_i;
        keep_d[part_q*S_BYTES+:S_BYTES]     = s_tkeep_i;
        last_d  = s_tlast_i;
        valid_d = s_tlast_i || part_q == PartW'(Parts - 1);
        part_d  = valid_d ? '0 : part_q + 1'b1;
      end
    end

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        part_q  <= '0;
        valid_q <= 1'b0;
        keep_q  <= '0;
      end else begin
        part_q  <= part_d;
        valid_q <= valid_d;
        keep_q  <= keep_d;
      end
    end

    always_ff @(posedge clk_i) begin
      last_q <= last_d;
      data_q <= data_d;
    end

    assign m_tvalid_o = valid_q;
    assign m_tdata_o  = data_q;
    assign m_tkeep_o  = keep_q;
    assign m_tlast_o  = last_q;
  end
endmodule
