// Registers of table VII behind SPI, mode 0: {write, address (7), value (32)}, highest bit first; a read answers in the value's place.
module spi_registers #(
    parameter int PORTS = 8
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    // Sampled by the processing clock: eight times slower than that, or more.
    input  logic             spi_sck_i,
    input  logic             spi_cs_ni,
    input  logic             spi_mosi_i,
    output logic             spi_miso_o,
    output logic             float_o,
    output logic [PORTS-1:0] port_en_o,
    output logic [4:0]       port_num_o,
    // A register was written: aggregation begins anew.
    output logic             clear_o,
    // Frames that were dropped at the entry for want of room, to be read at 0x10 and up.
    input  logic [PORTS-1:0] overrun_i
);
  logic [2:0]          pins;
  logic                sck, cs_n, mosi, sck_q, rise, fall;
  logic [5:0]          count_q, count_d;
  logic [38:0]         in_q, in_d;
  logic [31:0]         out_q, out_d, read, value;
  logic                float_q, float_d;
  logic [PORTS-1:0]    en_q, en_d;
  logic [4:0]          num_q, num_d;
  logic                accept;
  logic [PORTS*32-1:0] overruns_q, overruns_d;
  logic [5:0]          enabled;
  logic [6:0]          address;

  prim_sync #(
      .WIDTH(3)
  ) u_sync (
      .clk_i,
      .rst_ni,
      .d_i({spi_sck_i, spi_cs_ni, spi_mosi_i}),
      .q_o(pins)
  );

  assign {sck, cs_n, mosi} = pins;
  assign rise    = sck && !sck_q && !cs_n;
  assign fall    = !sck && sck_q && !cs_n;
  assign value   = {in_q[30:0], mosi};
  assign address = in_q[37:31];

  always_comb begin
    enabled = '0;
    for (int i = 0; i < 26; i++) enabled = enabled + 6'(value[i]);
  end

  // With the command's eighth bit the address is there.
  always_comb begin
    read = '0;
    case ({in_q[5:0], mosi})
      7'h00: read[0] = float_q;
      7'h01: begin
        read[31:27]     = num_q;
        read[PORTS-1:0] = en_q;
      end
      default: begin
        for (int p = 0; p < PORTS; p++) begin
          if ({in_q[5:0], mosi} == 7'h10 + 7'(p)) read = overruns_q[p*32+:32];
        end
      end
    endcase
  end

  always_comb begin
    count_d = count_q;
    in_d    = in_q;
    out_d   = out_q;
    float_d = float_q;
    en_d    = en_q;
    num_d   = num_q;
    accept  = 1'b0;
    if (cs_n) begin
      count_d = '0;
    end else if (rise) begin
      in_d = {in_q[37:0], mosi};
      if (count_q != 6'd40) count_d = count_q + 6'd1;
      if (count_q == 6'd7) out_d = read;
      if (count_q == 6'd39 && in_q[38]) begin
        if (address == 7'h00) begin
          float_d = value[0];
          accept  = 1'b1;
        end else if (address == 7'h01) begin
          // The count must be that of the ports, two at least, and no port may be named that is not there.
          accept = !value[26] && {1'b0, value[31:27]} == enabled && enabled >= 6'd2 && value[25:PORTS] == '0;
          if (accept) begin
            en_d  = value[PORTS-1:0];
            num_d = value[31:27];
          end
        end
      end
    end else if (fall && count_q > 6'd8) begin
      out_d = {out_q[30:0], 1'b0};
    end
  end

  always_comb begin
    overruns_d = overruns_q;
    for (int p = 0; p < PORTS; p++) begin
      if (overrun_i[p]) overruns_d[p*32+:32] = overruns_q[p*32+:32] + 32'd1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sck_q      <= 1'b0;
      count_q    <= '0;
      in_q       <= '0;
      out_q      <= '0;
      float_q    <= 1'b0;
      en_q       <= '1;
      num_q      <= 5'(PORTS);
      clear_o    <= 1'b0;
      overruns_q <= '0;
    end else begin
      sck_q      <= sck;
      count_q    <= count_d;
      in_q       <= in_d;
      out_q      <= out_d;
      float_q    <= float_d;
      en_q       <= en_d;
      num_q      <= num_d;
      clear_o    <= accept;
      overruns_q <= overruns_d;
    end
  end

  assign spi_miso_o = out_q[31];
  assign float_o    = float_q;
  assign port_en_o  = en_q;
  assign port_num_o = num_q;
endmodule
