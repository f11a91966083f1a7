// Sum of two IEEE 754 binary32 numbers, to nearest even, five cycles later: denormals, signed zeros, every NaN is 0x7FC00000.
module prim_add_fp32 (
    input  logic        clk_i,
    input  logic [31:0] a_i,
    input  logic [31:0] b_i,
    output logic [31:0] sum_o
);
  // Stage 1: the larger magnitude first, and what needs no addition.
  logic        swap;
  logic [31:0] major, minor;
  logic [7:0]  major_exp, minor_exp;
  logic        s1_sign_q, s1_sub_q, s1_special_q;
  logic [31:0] s1_result_q;
  logic [7:0]  s1_exp_q, s1_shift_q;
  logic [23:0] s1_major_q, s1_minor_q;
  logic        a_nan, b_nan, a_inf, b_inf;

  assign swap  = b_i[30:0] > a_i[30:0];
  assign major = swap ? b_i : a_i;
  assign minor = swap ? a_i : b_i;
  // A denormal has the exponent of the smallest normal number, and no leading one.
  assign major_exp = (major[30:23] == 8'd0) ? 8'd1 : major[30:23];
  assign minor_exp = (minor[30:23] == 8'd0) ? 8'd1 : minor[30:23];
  assign a_nan = (a_i[30:23] == 8'hFF) && (a_i[22:0] != 23'd0);
  assign b_nan = (b_i[30:23] == 8'hFF) && (b_i[22:0] != 23'd0);
  assign a_inf = (a_i[30:23] == 8'hFF) && (a_i[22:0] == 23'd0);
  assign b_inf = (b_i[30:23] == 8'hFF) && (b_i[22:0] == 23'd0);

  always_ff @(posedge clk_i) begin
    s1_sign_q    <= major[31];
    s1_sub_q     <= major[31] ^ minor[31];
    s1_exp_q     <= major_exp;
    s1_shift_q   <= major_exp - minor_exp;
    s1_major_q   <= {major[30:23] != 8'd0, major[22:0]};
    s1_minor_q   <= {minor[30:23] != 8'd0, minor[22:0]};
    s1_special_q <= major[30:23] == 8'hFF;
    if (a_nan || b_nan || (a_inf && b_inf && (a_i[31] != b_i[31]))) s1_result_q <= 32'h7FC00000;
    else s1_result_q <= {major[31], 8'hFF, 23'd0};
  end

  // Stage 2: the smaller one shifted to its place, with a guard, a round and a sticky bit.
  logic [49:0] wide, shifted;
  logic        s2_sign_q, s2_sub_q, s2_special_q;
  logic [31:0] s2_result_q;
  logic [7:0]  s2_exp_q;
  logic [26:0] s2_major_q, s2_minor_q;

  assign wide    = {s1_minor_q, 26'd0};
  assign shifted = (s1_shift_q > 8'd26) ? 50'd0 : (wide >> s1_shift_q[4:0]);

  always_ff @(posedge clk_i) begin
    s2_sign_q    <= s1_sign_q;
    s2_sub_q     <= s1_sub_q;
    s2_exp_q     <= s1_exp_q;
    s2_special_q <= s1_special_q;
    s2_result_q  <= s1_result_q;
    s2_major_q   <= {s1_major_q, 3'd0};
    if (s1_shift_q > 8'd26) s2_minor_q <= {26'd0, s1_minor_q != 24'd0};
    else s2_minor_q <= {shifted[49:24], shifted[23:0] != 24'd0};
  end

  // Stage 3: sum or difference, which is not below zero.
  logic        s3_sign_q, s3_sub_q, s3_special_q;
  logic [31:0] s3_result_q;
  logic [7:0]  s3_exp_q;
  logic [27:0] s3_sum_q;

  always_ff @(posedge clk_i) begin
    s3_sign_q    <= s2_sign_q;
    s3_sub_q     <= s2_sub_q;
    s3_exp_q     <= s2_exp_q;
    s3_special_q <= s2_special_q;
    s3_result_q  <= s2_result_q;
    if (s2_sub_q) s3_sum_q <= {1'b0, s2_major_q} - {1'b0, s2_minor_q};
    else s3_sum_q <= {1'b0, s2_major_q} + {1'b0, s2_minor_q};
  end

  // Stage 4: the leading one to its place, as far as the exponent allows.
  logic [4:0]  zeros;
  logic [7:0]  left;
  logic [26:0] moved;
  logic        s4_sign_q, s4_special_q;
  logic [31:0] s4_result_q;
  logic [7:0]  s4_exp_q;
  logic [25:0] s4_sum_q;

  always_comb begin
    zeros = 5'd27;
    for (int i = 0; i < 27; i++) begin
      if (s3_sum_q[i]) zeros = 5'(26 - i);
    end
  end
  assign left  = ({3'd0, zeros} < s3_exp_q) ? {3'd0, zeros} : s3_exp_q - 8'd1;
  assign moved = s3_sum_q[26:0] << left[4:0];

  always_ff @(posedge clk_i) begin
    // What cancels out is plus zero; zeros of one sign keep it.
    s4_sign_q    <= (s3_sum_q == 28'd0 && s3_sub_q) ? 1'b0 : s3_sign_q;
    s4_special_q <= s3_special_q;
    s4_result_q  <= s3_result_q;
    if (s3_sum_q[27]) begin
      s4_sum_q <= {s3_sum_q[26:2], s3_sum_q[1] | s3_sum_q[0]};
      s4_exp_q <= s3_exp_q + 8'd1;
    end else begin
      s4_sum_q <= moved[25:0];
      s4_exp_q <= moved[26] ? s3_exp_q - left : 8'd0;
    end
  end

  // Stage 5: rounding; a carry goes on into the exponent, and from the largest number to infinity.
  logic up;
  assign up = s4_sum_q[2] && (s4_sum_q[1] || s4_sum_q[0] || s4_sum_q[3]);

  always_ff @(posedge clk_i) begin
    if (s4_special_q) sum_o <= s4_result_q;
    else if (s4_exp_q == 8'hFF) sum_o <= {s4_sign_q, 8'hFF, 23'd0};
    else sum_o <= {s4_sign_q, {s4_exp_q, s4_sum_q[25:3]} + {30'd0, up}};
  end
endmodule
