// Conversions between binary32 and the two 16-bit formats: exact one way, to nearest with ties to
// even the other. Every NaN that is narrowed is the positive quiet one without payload.
// They stay functions in simulation, so that what calls them is the same text everywhere.
`default_nettype none

package prim_half_pkg;
  // Element types of an adder.
  typedef enum logic [1:0] {
    TypeF32  = 2'd0,
    TypeF16  = 2'd1,
    TypeBf16 = 2'd2
  } type_e;

  // Widens a binary16 number; a denormal's leading one is looked for.
  function automatic logic [31:0] widen_f16(input logic [15:0] half);
    /* verilator no_inline_task */
    logic [4:0] place;
    logic [9:0] fraction;
    place    = 5'd0;
    fraction = half[9:0];
    for (int i = 0; i < 10; i++) if (half[i]) place = 5'(i);
    if (half[14:10] == 5'h1F) widen_f16 = {half[15], 8'hFF, half[9:0], 13'd0};
    else if (half[14:10] != 5'd0) widen_f16 = {half[15], 8'(half[14:10]) + 8'd112, half[9:0], 13'd0};
    else if (half[9:0] == 10'd0) widen_f16 = {half[15], 31'd0};
    else begin
      // The leading one, which is of 2^(place - 24), falls off at the upper end.
      fraction  = fraction << (5'd10 - place);
      widen_f16 = {half[15], 8'd103 + 8'(place), fraction, 13'd0};
    end
  endfunction

  function automatic logic [15:0] narrow_f16(input logic [31:0] single);
    /* verilator no_inline_task */
    logic [24:0] kept;
    logic [7:0]  shift;
    logic [15:0] rounded;
    if (single[30:0] > 31'h7F800000) begin
      narrow_f16 = 16'h7E00;
    end else if (single[30:23] >= 8'd143) begin
      narrow_f16 = {single[31], 15'h7C00};
    end else begin
      // Eleven bits of a normal number are kept, of one below 2^-14 those down to 2^-24.
      shift   = (single[30:23] >= 8'd113) ? 8'd0 : 8'd113 - single[30:23];
      kept    = {1'b1, single[22:0], 1'b0};
      // A number below 2^-25 rounds to zero; so does half of the last place.
      if (shift > 8'd11) kept = {24'd0, single[30:0] != 31'd0};
      else kept = (kept >> shift[3:0]) | {24'd0, (kept & ((25'd1 << shift[3:0]) - 25'd1)) != 25'd0};
      rounded = 16'(kept[24:14]) + 16'(kept[13] && (kept[12:0] != 13'd0 || kept[14]));
      if (single[30:23] >= 8'd113) rounded = rounded + {single[28:23] - 6'd49, 10'd0};
      narrow_f16 = {single[31], rounded[14:0]};
    end
  endfunction

  function automatic logic [15:0] narrow_bf16(input logic [31:0] single);
    /* verilator no_inline_task */
    logic carry;
    // Half of the last place and more goes up; a half alone where that makes it even.
    carry       = single[15] && (single[14:0] != 15'd0 || single[16]);
    narrow_bf16 = (single[30:0] > 31'h7F800000) ? 16'h7FC0 : single[31:16] + {15'd0, carry};
  endfunction
endpackage

`default_nettype wire
