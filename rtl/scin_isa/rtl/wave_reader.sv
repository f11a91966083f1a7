// Reads pieces of waves out of the tables of all accelerators, a flit a cycle, once there is a slot
// for the result and room for its writes.
`default_nettype none

module wave_reader #(
    parameter int PORTS = 4,
    parameter int WAVES = 8,
    parameter int WAVE_BYTES = 4096,
    parameter int PAYLOAD_BYTES = 4096,
    parameter int SCALE_BYTES = 0,
    // Packets of data of a wave, and of scales.
    parameter int PACKETS = 1,
    parameter int SCALES = 0,
    parameter int SLOTS = 8
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The table manager.
    input wire logic ready_i,
    input wire logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] entry_i,
    input wire logic [((PACKETS > 1) ? $clog2(PACKETS) : 1)-1:0] piece_i,
    output logic read_o,
    output logic done_o,
    output logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] done_entry_o,
    // Of that entry's wave.
    input wire logic [PORTS-1:0] sources_i,
    input wire logic [PORTS-1:0] destinations_i,
    input wire logic quantised_i,
    input wire logic [$clog2(WAVE_BYTES):0] length_i,
    input wire logic [48*PORTS-1:0] address_i,
    input wire logic [48*PORTS-1:0] scale_address_i,
    // The result manager.
    input wire logic free_i,
    input wire logic [((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] slot_i,
    output logic [PACKETS+SCALES-1:0] places_o,
    // Writes to the destinations, one for each.
    input wire logic [PORTS-1:0] job_ready_i,
    output logic [PORTS-1:0] job_valid_o,
    output logic [((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] job_slot_o,
    output logic [$clog2(WAVE_BYTES):0] job_length_o,
    output logic job_quantised_o,
    output logic [48*PORTS-1:0] job_address_o,
    output logic [48*PORTS-1:0] job_scale_address_o,
    // The wave tables, whose words come two cycles later, with what is said of them here.
    output logic re_o,
    output logic [$clog2(WAVES*WAVE_BYTES/32)-1:0] address_o,
    output logic [$clog2(WAVES*WAVE_BYTES/32)-1:0] scale_word_o,
    output logic valid_o,
    output logic quantised_o,
    output logic last_o,
    output logic [PORTS-1:0] sources_o,
    output logic [PORTS-1:0] destinations_o,
    // Bytes of the flit that count, and which scale it has in its word.
    output logic [5:0] bytes_o,
    output logic [3:0] scale_o,
    // Nothing is on its way through accumulator and quantizer.
    input wire logic drained_i
);
  localparam int EntryW = (WAVES > 1) ? $clog2(WAVES) : 1;
  localparam int SlotW = (SLOTS > 1) ? $clog2(SLOTS) : 1;
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int WaveFlits = WAVE_BYTES / 32;
  localparam int PacketFlits = PAYLOAD_BYTES / 32;
  localparam int ScaleFlits = (SCALE_BYTES > 32) ? SCALE_BYTES / 32 : 1;
  localparam int AddressW = $clog2(WAVES * WaveFlits);

  logic                busy_q, busy_d, first_q, quantised_q, last, same_way, take;
  logic [EntryW-1:0]   entry_q;
  logic [SlotW-1:0]    slot_q;
  logic [PORTS-1:0]    sources_q, destinations_q;
  logic [LengthW-1:0]  length, length_q, left_q;
  logic [31:0]         start, rest, flit_q, base_q;
  logic [48*PORTS-1:0] address_q, scale_address_q;
  logic [31:0]         packets, scale_packets, scale_bytes;

  // The piece's part of the wave.
  assign start  = quantised_i ? 32'd0 : 32'(piece_i) * PAYLOAD_BYTES;
  assign rest   = 32'(length_i) - start;
  assign length = (quantised_i || rest <= PAYLOAD_BYTES) ? LengthW'(rest) : LengthW'(PAYLOAD_BYTES);

  // A quantised piece takes another time to come out than others, so that none of one kind follows
  // one of the other at once.
  assign last     = busy_q && left_q <= LengthW'(32);
  assign same_way = (quantised_i == quantised_q) || (drained_i && !busy_q);
  assign take     = ready_i && free_i && (destinations_i & ~job_ready_i) == '0 && same_way &&
      (!busy_q || (last && !first_q));
  assign read_o   = take;

  // The places of the result's write packets: its data's, behind them those of its scales.
  assign packets       = (32'(length) + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
  assign scale_bytes   = ((32'(length) + 32'd63) >> 6) << 1;
  assign scale_packets = quantised_i ? (scale_bytes + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES : 32'd0;
  always_comb begin
    for (int k = 0; k < PACKETS; k++) places_o[k] = 32'(k) < packets;
    for (int k = 0; k < SCALES; k++) places_o[PACKETS+k] = 32'(k) < scale_packets;
  end

  assign job_valid_o         = (busy_q && first_q) ? destinations_q : '0;
  assign job_slot_o          = slot_q;
  assign job_length_o        = length_q;
  assign job_quantised_o     = quantised_q;
  assign job_address_o       = address_q;
  assign job_scale_address_o = scale_address_q;

  assign done_o       = last;
  assign done_entry_o = entry_q;
  assign re_o         = busy_q;
  assign address_o    = AddressW'(base_q + flit_q);
  // Two flits to a block, sixteen scales to a word.
  assign scale_word_o = AddressW'(32'(entry_q) * ScaleFlits + (flit_q >> 5));

  always_comb begin
    busy_d = busy_q;
    if (last) busy_d = 1'b0;
    if (take) busy_d = 1'b1;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) busy_q <= 1'b0;
    else busy_q <= busy_d;
  end

  always_ff @(posedge clk_i) begin
    first_q <= take;
    left_q  <= left_q - LengthW'(32);
    flit_q  <= flit_q + 32'd1;
    if (take) begin
      entry_q        <= entry_i;
      slot_q         <= slot_i;
      sources_q      <= sources_i;
      destinations_q <= destinations_i;
      quantised_q    <= quantised_i;
      length_q       <= length;
      left_q         <= length;
      flit_q         <= '0;
      base_q <= 32'(entry_i) * WaveFlits + (quantised_i ? 32'd0 : 32'(piece_i) * PacketFlits);
      for (int p = 0; p < PORTS; p++) address_q[48*p+:48] <= address_i[48*p+:48] + 48'(start);
      scale_address_q <= scale_address_i;
    end
  end

  // What is said of a word, for as long as the memory takes.
  typedef struct packed {
    logic             quantised;
    logic             last;
    logic [PORTS-1:0] sources;
    logic [PORTS-1:0] destinations;
    logic [5:0]       bytes;
    logic [3:0]       scale;
  } said_t;

  said_t       now, said_q, said2_q;
  logic [1:0]  valid_q;

  always_comb begin
    now              = '0;
    now.quantised    = quantised_q;
    now.last         = last;
    now.sources      = sources_q;
    now.destinations = destinations_q;
    now.bytes        = last ? 6'(left_q) : 6'd32;
    now.scale        = flit_q[4:1];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[0], busy_q};
  end

  always_ff @(posedge clk_i) begin
    said_q  <= now;
    said2_q <= said_q;
  end

  assign valid_o        = valid_q[1];
  assign quantised_o    = said2_q.quantised;
  assign last_o         = said2_q.last;
  assign sources_o      = said2_q.sources;
  assign destinations_o = said2_q.destinations;
  assign bytes_o        = said2_q.bytes;
  assign scale_o        = said2_q.scale;
endmodule

`default_nettype wire
