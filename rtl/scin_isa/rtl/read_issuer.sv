// Read requests to one accelerator: cuts the waves that it is a source of into packets, scales
// before data (3.4).
`default_nettype none

module read_issuer #(
    parameter int WAVES = 8,
    parameter int WAVE_BYTES = 4096,
    parameter int PAYLOAD_BYTES = 4096,
    parameter int SCALE_BYTES = 0,
    // Bits of a tag that say which packet of an entry.
    parameter int OFFSET_W = 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The switch, and the accelerator, whose number is the port's.
    input wire logic [prim_flit_pkg::NodeW-1:0] node_i,
    input wire logic [prim_flit_pkg::NodeW-1:0] port_i,
    // A wave; there is room for as many as there are entries.
    input wire logic take_i,
    input wire logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] entry_i,
    input wire logic [$clog2(WAVE_BYTES):0] length_i,
    input wire logic quantised_i,
    input wire logic [47:0] address_i,
    input wire logic [47:0] scale_address_i,
    // Packets of one flit.
    output logic valid_o,
    input wire logic ready_i,
    output logic [scin_isa_pkg::FlitW-1:0] flit_o
);
  localparam int EntryW = (WAVES > 1) ? $clog2(WAVES) : 1;
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int Packets = WAVE_BYTES / PAYLOAD_BYTES;
  localparam int Depth = (WAVES > 1) ? 1 << $clog2(WAVES) : 2;

  typedef struct packed {
    logic [EntryW-1:0]  entry;
    logic [LengthW-1:0] length;
    logic               quantised;
    logic [47:0]        address;
    logic [47:0]        scale_address;
  } burst_t;

  burst_t                  pushed, burst;
  logic                    valid, pop, scales, last, unused_ready;
  logic [$clog2(Depth):0]  unused_free;
  // Bytes of the burst, or of its scales, that have been asked for.
  logic [LengthW-1:0]      sent_q, sent_d, whole, rest, piece, scale_length;
  logic                    scaled_q, scaled_d;
  logic [OFFSET_W-1:0]     offset_q, offset_d, place;
  prim_flit_pkg::header_t   header;

  assign pushed = {entry_i, length_i, quantised_i, address_i, scale_address_i};

  prim_fifo_sync #(
      .WIDTH(EntryW + LengthW + 97),
      .DEPTH(Depth)
  ) u_bursts (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(take_i),
      .ready_o(unused_ready),
      .data_i (pushed),
      .valid_o(valid),
      .ready_i(pop),
      .data_o (burst),
      .free_o (unused_free)
  );

  // Two bytes of scale for each block that is begun.
  assign scale_length = LengthW'(((32'(burst.length) + 32'd63) >> 6) << 1);
  assign scales = SCALE_BYTES > 0 && burst.quantised && !scaled_q;
  assign whole  = scales ? scale_length : burst.length;
  assign rest   = whole - sent_q;
  assign last   = 32'(rest) <= PAYLOAD_BYTES;
  assign piece  = last ? rest : LengthW'(PAYLOAD_BYTES);

  // Scales have the places behind those of a full wave's data.
  assign place = offset_q + (scales ? OFFSET_W'(Packets) : OFFSET_W'(0));

  always_comb begin
    header             = '0;
    header.kind        = prim_flit_pkg::KindRead;
    header.inc         = 1'b1;
    header.source      = node_i;
    header.destination = port_i;
    header.address     = (scales ? burst.scale_address : burst.address) + 48'(sent_q);
    header.length      = 16'(piece);
    header.tag = prim_flit_pkg::TagW'({burst.entry, place});
  end
  assign valid_o = valid;
  assign flit_o  = {128'd0, prim_flit_pkg::swap(header)};

  always_comb begin
    sent_d   = sent_q;
    offset_d = offset_q;
    scaled_d = scaled_q;
    pop      = 1'b0;
    if (valid && ready_i) begin
      sent_d   = sent_q + piece;
      offset_d = offset_q + 1'b1;
      if (last) begin
        sent_d   = '0;
        offset_d = '0;
        scaled_d = scales;
        pop      = !scales;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      sent_q   <= '0;
      offset_q <= '0;
      scaled_q <= 1'b0;
    end else begin
      sent_q   <= sent_d;
      offset_q <= offset_d;
      scaled_q <= scaled_d;
    end
  end
endmodule

`default_nettype wire
