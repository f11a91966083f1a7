// One step of the CRC-32 of Ethernet over 32 or 64 bits, lowest byte first; the state is the remainder, not inverted.
module prim_crc32 #(
    parameter int WIDTH = 64
) (
    input  logic [31:0]      crc_i,
    input  logic [WIDTH-1:0] data_i,
    output logic [31:0]      crc_o
);
  if (WIDTH != 32 && WIDTH != 64) begin : gen_check
    expected_32_or_64_as_WIDTH u_stop ();
  end

  // The polynomial of IEEE 802.3, lowest power in the highest bit.
  localparam logic [31:0] Poly = 32'hEDB88320;

  always_comb begin
    crc_o = crc_i;
    for (int i = 0; i < WIDTH; i++) begin
      crc_o = {1'b0, crc_o[31:1]} ^ (Poly & {32{crc_o[0] ^ data_i[i]}});
    end
  end
endmodule
