// CRC-32 of Ethernet of a beat of 64 bytes, lowest byte first, from a remainder of zero: what is
// before it is put into its first four bytes. Zeros before a message do not change it.
`default_nettype none

module crc_block (
    input wire logic [511:0] data_i,
    output logic [31:0] crc_o
);
  localparam logic [31:0] Poly = 32'hEDB88320;

  // Each bit of the remainder is the parity of some bits of the beat: those whose own remainder has
  // it. The last bit's is the polynomial, and each before it is one step further.
  function automatic logic [32*512-1:0] parities_of();
    logic [31:0] remainder;
    remainder = Poly;
    for (int place = 511; place >= 0; place--) begin
      for (int power = 0; power < 32; power++) parities_of[512*power+place] = remainder[power];
      remainder = {1'b0, remainder[31:1]} ^ (Poly & {32{remainder[0]}});
    end
  endfunction

  localparam logic [32*512-1:0] Parities = parities_of();

  always_comb begin
    for (int b = 0; b < 32; b++) crc_o[b] = ^(data_i & Parities[512*b+:512]);
  end
endmodule

`default_nettype wire
