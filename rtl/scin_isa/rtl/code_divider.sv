// The code of a value, six cycles later: the whole number nearest to value over scale, ties to
// even. The value is at most 127 scales; of a scale that is zero or no number the code is zero.
`default_nettype none

module code_divider (
    input wire logic clk_i,
    input wire logic [31:0] value_i,
    input wire logic [15:0] scale_i,
    output logic [7:0] code_o
);
  // Stage 1: twice the value in units of the scale's last place, and whether there is more behind
  // it.
  logic [4:0]  exponent;
  logic [23:0] whole, shifted;
  logic [8:0]  shift;
  logic        fits;

  assign exponent = (scale_i[14:10] == 5'd0) ? 5'd1 : scale_i[14:10];
  assign whole    = {value_i[30:23] != 8'd0, value_i[22:0]};
  assign shift    = 9'd124 + 9'(exponent) - {1'b0, value_i[30:23]};
  assign fits     = shift < 9'd24;
  assign shifted  = fits ? whole >> shift[4:0] : 24'd0;

  // Stages 2 to 5: eight bits of the quotient, two a stage; what is left stands above the bits that
  // are still to come.
  logic [4:0]  sign_q, more_q, none_q;
  logic [10:0] scale_q[0:4];
  // {rest (11), dividend's bits and quotient's bits (8)}.
  logic [18:0] work_q[0:4];

  function automatic logic [18:0] step(input logic [18:0] work, input logic [10:0] scale);
    logic [11:0] top;
    top  = work[18:7];
    step = {top[10:0], work[6:0], 1'b0};
    if (top >= {1'b0, scale}) step = {top[10:0] - scale, work[6:0], 1'b1};
  endfunction

  always_ff @(posedge clk_i) begin
    sign_q    <= {sign_q[3:0], value_i[31]};
    more_q    <= {more_q[3:0], (fits ? (shifted << shift[4:0]) != whole : whole != 24'd0)};
    none_q    <= {none_q[3:0], scale_i[14:0] == 15'd0 || scale_i[14:10] == 5'h1F};
    scale_q[0] <= {scale_i[14:10] != 5'd0, scale_i[9:0]};
    work_q[0]  <= shifted[18:0];
    for (int i = 0; i < 4; i++) begin
      scale_q[i+1] <= scale_q[i];
      work_q[i+1]  <= step(step(work_q[i], scale_q[i]), scale_q[i]);
    end
  end

  // Stage 6: the quotient's last bit is a half.
  logic       half, up;
  logic [6:0] number;

  assign half   = work_q[4][0];
  assign up     = half && (work_q[4][1] || more_q[4] || work_q[4][18:8] != 11'd0);
  assign number = work_q[4][7:1] + 7'(up);
  always_ff @(posedge clk_i) begin
    if (none_q[4]) code_o <= 8'd0;
    else code_o <= sign_q[4] ? 8'd0 - {1'b0, number} : {1'b0, number};
  end

  logic unused_high;
  assign unused_high = ^{shifted[23:19], scale_i[15]};
endmodule

`default_nettype wire
