// The scale of a block, four cycles later: the smallest binary16 number that times 127 is no less
// than the block's largest magnitude. It is zero of zeros, and the quiet NaN where no finite one
// reaches.
`default_nettype none

module block_scale (
    input wire logic clk_i,
    // A binary32 number without its sign.
    input wire logic [30:0] magnitude_i,
    output logic [15:0] scale_o
);
  // Stage 1: of M = 128 a + b, 127 goes a times into M, and a + b is left.
  logic [23:0] whole;
  logic        s1_zero_q, s1_nan_q, s2_zero_q, s2_nan_q, s3_zero_q, s3_nan_q;
  logic [7:0]  s1_exp_q, s2_exp_q;
  logic [16:0] s1_a_q;
  logic [17:0] s1_rest_q;

  assign whole = {1'b1, magnitude_i[22:0]};
  always_ff @(posedge clk_i) begin
    s1_zero_q <= magnitude_i == 31'd0;
    s1_nan_q  <= magnitude_i[30:23] == 8'hFF;
    s1_exp_q  <= magnitude_i[30:23];
    s1_a_q    <= whole[23:7];
    s1_rest_q <= {1'b0, whole[23:7]} + 18'(whole[6:0]);
  end

  // Stage 2: the same of what is left, twice, and once more or not: the quotient, of 17 or 18 bits,
  // and whether all is divided.
  logic [11:0] second;
  logic [7:0]  third;
  logic [17:0] s2_quotient_q;
  logic        s2_rest_q;

  assign second = 12'(s1_rest_q[17:7]) + 12'(s1_rest_q[6:0]);
  assign third  = 8'(second[11:7]) + 8'(second[6:0]);
  always_ff @(posedge clk_i) begin
    s2_zero_q     <= s1_zero_q;
    s2_nan_q      <= s1_nan_q;
    s2_exp_q      <= s1_exp_q;
    s2_quotient_q <= 18'(s1_a_q) + 18'(s1_rest_q[17:7]) + 18'(second[11:7]) + 18'(third >= 8'd127);
    s2_rest_q     <= third != 8'd0 && third != 8'd127;
  end

  // Stage 3: eleven bits of a normal number are kept, of a smaller one what is left down to 2^-24;
  // anything below rounds up.
  logic [8:0]  exponent;
  logic        normal;
  logic [7:0]  drop;
  logic [17:0] kept;
  logic [10:0] s3_kept_q;
  logic        s3_up_q;
  logic [8:0]  s3_exp_q;

  // The quotient's last place is of 2^(exp - 150), its leading one of 2^(exp - 133) or a half of
  // it. The scale's exponent field:
  assign exponent = {1'b0, s2_exp_q} - (s2_quotient_q[17] ? 9'd118 : 9'd119);
  assign normal   = {1'b0, s2_exp_q} > (s2_quotient_q[17] ? 9'd118 : 9'd119);
  assign drop     = normal ? (s2_quotient_q[17] ? 8'd7 : 8'd6) : 8'd126 - s2_exp_q;
  assign kept     = (drop >= 8'd18) ? 18'd0 : s2_quotient_q >> drop[4:0];
  always_ff @(posedge clk_i) begin
    s3_zero_q <= s2_zero_q;
    s3_nan_q  <= s2_nan_q || (normal && exponent > 9'd30);
    s3_kept_q <= kept[10:0];
    if (drop >= 8'd18) s3_up_q <= 1'b1;
    else s3_up_q <= s2_rest_q || (kept << drop[4:0]) != s2_quotient_q;
    // The leading one of a normal number adds one to it.
    s3_exp_q <= normal ? exponent - 9'd1 : 9'd0;
  end

  // Stage 4: a carry goes on into the exponent, and from the largest number to none.
  logic [15:0] bits;

  assign bits = {1'b0, s3_exp_q[4:0], 10'd0} + 16'(s3_kept_q) + 16'(s3_up_q);
  always_ff @(posedge clk_i) begin
    if (s3_zero_q) scale_o <= 16'd0;
    else if (s3_nan_q || bits >= 16'h7C00) scale_o <= 16'h7E00;
    else scale_o <= bits;
  end

  logic unused_bits;
  assign unused_bits = ^{kept[17:11], s3_exp_q[8:5]};
endmodule

`default_nettype wire
