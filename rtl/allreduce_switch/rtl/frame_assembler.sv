// A branch's part of TX_OUT (IV.D.2): puts a stored header, a sum and a new ICRC together to a frame.
module frame_assembler #(
    parameter int PORTS = 8
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    // A beat of the frame: its number, the header's word of that number, and the sum's word that ends in it. Form and destination are those
    // that come with the first beat: the next frame of that place may be on its way in.
    input  logic             valid_i,
    input  logic [7:0]       count_i,
    input  logic [1:0]       form_i,
    input  logic [PORTS-1:0] dest_i,
    input  logic [63:0]      header_i,
    input  logic [63:0]      sum_i,
    output logic             valid_o,
    // {last, bytes - 1, data}
    output logic [67:0]      beat_o,
    output logic [PORTS-1:0] dest_o
);
  logic        six;
  logic [1:0]  form;
  logic [7:0]  lead, tail;
  logic [63:0] data_d, data_q, word;
  logic [47:0] sum_q;
  logic        valid_d, valid_q;
  logic [31:0] crc_q, crc_next64, crc_next32, icrc;
  // The beat in which the ICRC begins, and one after it.
  logic        at_tail_q, past_tail_q;
  logic [1:0]  form_q;
  logic [PORTS-1:0] dest_q;

  assign form = (count_i == '0) ? form_i : form_q;
  assign six  = form != allreduce_switch_pkg::FormPlain;
  assign lead = (form == allreduce_switch_pkg::FormFirst) ? 8'd12 : 8'd8;
  assign tail = (form == allreduce_switch_pkg::FormFirst) ? 8'd138 : 8'd136;

  // The sum begins at byte 6 of beat `lead`, or at byte 2.
  always_comb begin
    if (count_i < lead) data_d = header_i;
    else if (count_i == lead) data_d = six ? {sum_i[15:0], header_i[47:0]} : {sum_i[47:0], header_i[15:0]};
    else data_d = six ? {sum_i[15:0], sum_q} : {sum_i[47:0], sum_q[47:32]};
  end

  // Only a frame with immediate has a beat after the one in which the ICRC begins.
  assign valid_d = valid_i && (count_i <= tail || form == allreduce_switch_pkg::FormImmediate);

  // Words of the ICRC begin with the GRH, at byte 14.
  always_comb begin
    word = {data_d[47:0], data_q[63:48]};
    if (count_i == 8'd2) word = word | 64'hFF000000_FFFFFF0F;
    if (count_i == 8'd7) word = word | 64'h000000FF_00000000;
  end

  prim_crc32 #(
      .WIDTH(64)
  ) u_crc64 (
      .crc_i (crc_q),
      .data_i(word),
      .crc_o (crc_next64)
  );

  prim_crc32 #(
      .WIDTH(32)
  ) u_crc32 (
      .crc_i (crc_q),
      .data_i(word[31:0]),
      .crc_o (crc_next32)
  );

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      data_q      <= data_d;
      sum_q       <= sum_i[63:16];
      form_q      <= form;
      if (count_i == '0) dest_q <= dest_i;
      at_tail_q   <= count_i == tail;
      past_tail_q <= count_i > tail;
      if (count_i < 8'd2) crc_q <= allreduce_switch_pkg::IcrcStart;
      else if (count_i < tail || (count_i == tail && form == allreduce_switch_pkg::FormImmediate)) crc_q <= crc_next64;
      else if (count_i == tail) crc_q <= crc_next32;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= valid_d;
  end

  // The ICRC, now that all before it is in it.
  assign icrc = ~crc_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_o <= 1'b0;
    else valid_o <= valid_q;
  end

  always_ff @(posedge clk_i) begin
    dest_o <= dest_q;
    if (past_tail_q) beat_o <= {1'b1, 3'd1, 48'd0, icrc[31:16]};
    else if (at_tail_q && form_q == allreduce_switch_pkg::FormImmediate) beat_o <= {1'b0, 3'd7, icrc[15:0], data_q[47:0]};
    else if (at_tail_q) beat_o <= {1'b1, 3'd5, 16'd0, icrc, data_q[15:0]};
    else beat_o <= {1'b0, 3'd7, data_q};
  end

endmodule
