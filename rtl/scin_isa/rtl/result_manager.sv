// Slots of results on their way back (3.4): a slot names the writes of a result, and is free when
// every write response has come.
`default_nettype none

module result_manager #(
    parameter int PORTS = 4,
    parameter int SLOTS = 8,
    // Packets of a result.
    parameter int PLACES = 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The lowest free slot, and the result that takes it.
    output logic free_o,
    output logic [((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] free_slot_o,
    input wire logic take_i,
    input wire logic [PORTS-1:0] take_destinations_i,
    input wire logic [PLACES-1:0] take_places_i,
    // Write responses: whether one is awaited, and that it has come.
    input wire logic [PORTS*((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] slot_i,
    input wire logic [PORTS*((PLACES > 1) ? $clog2(PLACES) : 1)-1:0] place_i,
    output logic [PORTS-1:0] awaited_o,
    input wire logic [PORTS-1:0] come_i,
    output logic [SLOTS-1:0] busy_o
);
  localparam int SlotW = (SLOTS > 1) ? $clog2(SLOTS) : 1;

  logic [SLOTS*PLACES-1:0] open;

  awaited_packets #(
      .PORTS  (PORTS),
      .ENTRIES(SLOTS),
      .PLACES (PLACES)
  ) u_awaited (
      .clk_i,
      .rst_ni,
      .take_i,
      .take_entry_i (free_slot_o),
      .take_ports_i (take_destinations_i),
      .take_places_i(take_places_i),
      .entry_i      (slot_i),
      .place_i,
      .awaited_o,
      .come_i,
      .open_o       (open)
  );

  always_comb begin
    free_slot_o = '0;
    for (int s = 0; s < SLOTS; s++) busy_o[s] = open[s*PLACES+:PLACES] != '0;
    for (int s = SLOTS - 1; s >= 0; s--) if (!busy_o[s]) free_slot_o = SlotW'(s);
  end
  assign free_o = busy_o != '1;
endmodule

`default_nettype wire
