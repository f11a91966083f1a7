// Which packets are still to come, of each entry and from each port: what has been asked for once
// is taken once.
`default_nettype none

module awaited_packets #(
    parameter int PORTS = 4,
    parameter int ENTRIES = 8,
    // Packets of an entry.
    parameter int PLACES = 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Takes an entry that awaits nothing, and says what it awaits from now on.
    input wire logic take_i,
    input wire logic [((ENTRIES > 1) ? $clog2(ENTRIES) : 1)-1:0] take_entry_i,
    input wire logic [PORTS-1:0] take_ports_i,
    input wire logic [PLACES-1:0] take_places_i,
    // What each port asks about, whether that is awaited, and that it has come.
    input wire logic [PORTS*((ENTRIES > 1) ? $clog2(ENTRIES) : 1)-1:0] entry_i,
    input wire logic [PORTS*((PLACES > 1) ? $clog2(PLACES) : 1)-1:0] place_i,
    output logic [PORTS-1:0] awaited_o,
    input wire logic [PORTS-1:0] come_i,
    // Of each entry, which places are awaited from any port.
    output logic [ENTRIES*PLACES-1:0] open_o
);
  localparam int EntryW = (ENTRIES > 1) ? $clog2(ENTRIES) : 1;
  localparam int PlaceW = (PLACES > 1) ? $clog2(PLACES) : 1;

  logic [PORTS*ENTRIES*PLACES-1:0] awaited_q, awaited_d;

  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    logic [ENTRIES*PLACES-1:0] mine, chosen, come, taken;

    assign mine = awaited_q[p*ENTRIES*PLACES+:ENTRIES*PLACES];
    // One place of one entry; none if there is no such place.
    for (genvar e = 0; e < ENTRIES; e++) begin : gen_entry
      logic is_entry, is_taken;
      assign is_entry = entry_i[p*EntryW+:EntryW] == EntryW'(e);
      assign is_taken = take_i && take_ports_i[p] && take_entry_i == EntryW'(e);
      for (genvar k = 0; k < PLACES; k++) begin : gen_place
        assign chosen[e*PLACES+k] = is_entry && place_i[p*PlaceW+:PlaceW] == PlaceW'(k);
        assign taken[e*PLACES+k]  = is_taken && take_places_i[k];
      end
    end
    assign awaited_o[p] = (mine & chosen) != '0;
    assign come = come_i[p] ? chosen : '0;
    assign awaited_d[p*ENTRIES*PLACES+:ENTRIES*PLACES] = (mine & ~come) | taken;
  end

  always_comb begin
    open_o = '0;
    for (int p = 0; p < PORTS; p++) open_o |= awaited_q[p*ENTRIES*PLACES+:ENTRIES*PLACES];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) awaited_q <= '0;
    else awaited_q <= awaited_d;
  end
endmodule

`default_nettype wire
