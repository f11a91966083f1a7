// Which addresses lie behind which port: four a port, learned from the sources of frames by all Port Analyzers at once.
module forwarding_table #(
    parameter int PORTS = 8
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic [PORTS-1:0]       learn_i,
    input  logic [PORTS*48-1:0]    src_i,
    input  logic [PORTS*48-1:0]    dst_i,
    // Of each port: whether the destination is known, and the port it lies behind.
    output logic [PORTS-1:0]       known_o,
    output logic [PORTS*PORTS-1:0] port_o
);
  localparam int Entries = 4;

  logic [PORTS*Entries*48-1:0] address_q;
  logic [PORTS*Entries-1:0]    valid_q, valid_d, write;
  logic [PORTS*2-1:0]          next_q, next_d;
  logic [PORTS-1:0]            learn;
  logic                        has;

  // Of two ports with one address the lower one learns it.
  always_comb begin
    for (int p = 0; p < PORTS; p++) begin
      learn[p] = learn_i[p];
      for (int q = 0; q < PORTS; q++) begin
        if (q < p && learn_i[q] && src_i[q*48+:48] == src_i[p*48+:48]) learn[p] = 1'b0;
      end
    end
  end

  always_comb begin
    valid_d = valid_q;
    next_d  = next_q;
    write   = '0;
    has     = 1'b0;
    // What another port learns goes from here.
    for (int p = 0; p < PORTS; p++) begin
      for (int e = 0; e < Entries; e++) begin
        for (int q = 0; q < PORTS; q++) begin
          if (q != p && learn[q] && src_i[q*48+:48] == address_q[(p*Entries+e)*48+:48]) valid_d[p*Entries+e] = 1'b0;
        end
      end
    end
    for (int p = 0; p < PORTS; p++) begin
      has = 1'b0;
      for (int e = 0; e < Entries; e++) begin
        if (valid_q[p*Entries+e] && src_i[p*48+:48] == address_q[(p*Entries+e)*48+:48]) has = 1'b1;
      end
      if (learn[p] && !has) begin
        for (int e = 0; e < Entries; e++) begin
          if (next_q[p*2+:2] == 2'(e)) begin
            write[p*Entries+e]   = 1'b1;
            valid_d[p*Entries+e] = 1'b1;
          end
        end
        next_d[p*2+:2] = next_q[p*2+:2] + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= '0;
      next_q  <= '0;
    end else begin
      valid_q <= valid_d;
      next_q  <= next_d;
    end
  end

  for (genvar p = 0; p < PORTS; p++) begin : gen_address
    for (genvar e = 0; e < Entries; e++) begin : gen_entry
      always_ff @(posedge clk_i) begin
        if (write[p*Entries+e]) address_q[(p*Entries+e)*48+:48] <= src_i[p*48+:48];
      end
    end
  end

  always_comb begin
    port_o = '0;
    for (int p = 0; p < PORTS; p++) begin
      for (int q = 0; q < PORTS; q++) begin
        for (int e = 0; e < Entries; e++) begin
          if (valid_q[q*Entries+e] && dst_i[p*48+:48] == address_q[(q*Entries+e)*48+:48]) port_o[p*PORTS+q] = 1'b1;
        end
      end
      known_o[p] = port_o[p*PORTS+:PORTS] != '0;
    end
  end
endmodule
