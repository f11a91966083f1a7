// CRC-32 of Ethernet of a beat of 64 bytes, lowest byte first, from a remainder of zero: what is
// before it is put into its first four bytes. Zeros before a message do not change it.
`default_nettype none

module crc_block (
    input wire logic [511:0] data_i,
    output logic [31:0] crc_o
);
  localparam logic [31:0] Poly = 32'hEDB88320;

  always_comb begin
    crc_o = '0;
    for (int i = 0; i < 512; i++) begin
      crc_o = {1'b0, crc_o[31:1]} ^ (Poly & {32{crc_o[0] ^ data_i[i]}});
    end
  end
endmodule

`default_nettype wire
