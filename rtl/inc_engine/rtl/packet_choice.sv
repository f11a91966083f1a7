// Which packets are decided next: ports take turns. Those that send the same packet of a sum go
// along with the one that is chosen, and what has been chosen is not chosen again.
`default_nettype none

module packet_choice #(
    parameter int PORTS = 8,
    localparam int PortW = $clog2(PORTS)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Packets that have come, of each port the oldest.
    input wire logic [PORTS-1:0] head_valid_i,
    input wire inc_engine_pkg::descriptor_t [PORTS-1:0] head_i,
    // Ports whose oldest packet is being decided.
    input wire logic [PORTS-1:0] busy_i,
    // What is chosen goes on.
    input wire logic accept_i,
    output logic valid_o,
    output logic [PORTS-1:0] set_o,
    // The one that they go along with.
    output logic [PortW-1:0] lead_o,
    output inc_engine_pkg::descriptor_t packet_o
);
  import inc_engine_pkg::*;

  logic [PORTS-1:0] candidates, with_lead;
  logic [PortW-1:0] lead, turn_q;
  logic             chooses;

  assign candidates = head_valid_i & ~busy_i & ~(valid_o ? set_o : '0);
  assign chooses    = !valid_o || accept_i;

  always_comb begin
    lead = '0;
    for (int p = PORTS - 1; p >= 0; p--) if (candidates[p]) lead = PortW'(p);
    for (int p = PORTS - 1; p >= 0; p--) if (candidates[p] && PortW'(p) >= turn_q) lead = PortW'(p);
    with_lead = '0;
    for (int p = 0; p < PORTS; p++) begin
      with_lead[p] = candidates[p] && (PortW'(p) == lead || (head_i[p].kind == KindData &&
          head_i[lead].kind == KindData && head_i[p].header.psn == head_i[lead].header.psn &&
          head_i[p].header.opcode == head_i[lead].header.opcode &&
          head_i[p].header.word == head_i[lead].header.word &&
          head_i[p].header.length == head_i[lead].header.length));
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_o <= 1'b0;
      turn_q  <= '0;
    end else if (chooses) begin
      valid_o <= candidates != '0;
      if (candidates != '0) turn_q <= (lead == PortW'(PORTS - 1)) ? '0 : lead + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (chooses) begin
      set_o    <= with_lead;
      lead_o   <= lead;
      packet_o <= head_i[lead];
    end
  end
endmodule

`default_nettype wire
