// What comes from one accelerator for the in-switch accelerator: read responses go where their tag
// says (3.4), write responses and arrivals are counted, all else is dropped. It takes a flit a
// cycle, for there is room for whatever has been asked for.
`default_nettype none

module isa_receiver #(
    parameter int WAVES = 8,
    parameter int WAVE_BYTES = 4096,
    parameter int PAYLOAD_BYTES = 4096,
    parameter int SCALE_BYTES = 0,
    parameter int SLOTS = 8,
    parameter int OFFSET_W = 1,
    parameter int SLOT_OFFSET_W = 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The switch, and the accelerator, whose number is the port's.
    input wire logic [prim_flit_pkg::NodeW-1:0] node_i,
    input wire logic [prim_flit_pkg::NodeW-1:0] port_i,
    // Flits of packets with the INC bit.
    input wire logic valid_i,
    input wire logic last_i,
    input wire logic [scin_isa_pkg::FlitW-1:0] flit_i,
    // Bytes of each entry's wave.
    input wire logic [WAVES*($clog2(WAVE_BYTES)+1)-1:0] lengths_i,
    // The table manager: whether a response is awaited, and that it has come.
    output logic [((WAVES > 1) ? $clog2(WAVES) : 1)-1:0] entry_o,
    output logic [OFFSET_W-1:0] place_o,
    input wire logic awaited_i,
    output logic come_o,
    // The same of the result manager.
    output logic [((SLOTS > 1) ? $clog2(SLOTS) : 1)-1:0] slot_o,
    output logic [SLOT_OFFSET_W-1:0] slot_place_o,
    input wire logic answer_awaited_i,
    output logic answer_o,
    // The wave table, data and scales; words by entry and flit.
    output logic write_o,
    output logic write_scales_o,
    output logic [$clog2(WAVES*WAVE_BYTES/32)-1:0] address_o,
    output logic [scin_isa_pkg::FlitW-1:0] data_o,
    // The barrier manager.
    output logic add_o,
    output logic [15:0] operand_o,
    output logic [scin_isa_pkg::Drops-1:0] drop_o
);
  localparam int EntryW = (WAVES > 1) ? $clog2(WAVES) : 1;
  localparam int SlotW = (SLOTS > 1) ? $clog2(SLOTS) : 1;
  localparam int LengthW = $clog2(WAVE_BYTES) + 1;
  localparam int Packets = WAVE_BYTES / PAYLOAD_BYTES;
  localparam int WaveFlits = WAVE_BYTES / 32;
  localparam int FlitAddressW = $clog2(WAVES * WaveFlits);
  localparam int PacketFlits = PAYLOAD_BYTES / 32;
  localparam int ScaleFlits = (SCALE_BYTES > 32) ? SCALE_BYTES / 32 : 1;
  localparam int TagRestW = prim_flit_pkg::TagW - EntryW - OFFSET_W;
  localparam int SlotRestW = prim_flit_pkg::TagW - SlotW - SLOT_OFFSET_W;
  localparam logic [47:0] Counter = 48'h8000_0000_0000;

  typedef enum logic [1:0] {
    Header,
    Data,
    Word,
    Rest
  } state_e;

  state_e                state_q, state_d;
  prim_flit_pkg::header_t header;
  logic                  ours, is_scales, fits, tag_fits, slot_fits;
  logic [LengthW-1:0]    whole, length, expected;
  logic [31:0]           start, left, behind;
  logic [TagRestW-1:0]   tag_rest;
  logic [SlotRestW-1:0]  slot_rest;
  // Of the packet whose data comes.
  logic [EntryW-1:0]     entry_q;
  logic [OFFSET_W-1:0]   place_q;
  logic                  scales_q;
  logic [FlitAddressW-1:0] address_q, address_d, first;
  logic [15:0]           flits_q, flits_d;
  logic [63:0]           word;
  logic                  unused_header;

  assign header = prim_flit_pkg::swap(flit_i[127:0]);
  assign unused_header = ^{header.inc, header.notify, header.reserved, header.credit};
  assign word   = prim_flit_pkg::swap_word(flit_i[63:0]);
  assign ours   = header.source == port_i && header.destination == node_i;

  // As a packet begins, its tag is asked about; afterwards the one whose data comes.
  assign {tag_rest, entry_o, place_o} =
      (state_q == Header) ? header.tag : {TagRestW'(0), entry_q, place_q};
  assign {slot_rest, slot_o, slot_place_o}   = header.tag;
  assign tag_fits  = tag_rest == '0 && (EntryW == $clog2(WAVES) || entry_o == '0);
  assign slot_fits = slot_rest == '0 && (SlotW == $clog2(SLOTS) || slot_o == '0);

  // What the entry's wave has at that place.
  assign whole     = lengths_i[32'(entry_o)*LengthW+:LengthW];
  assign is_scales = 32'(place_o) >= Packets;
  assign start     = (is_scales ? 32'(place_o) - Packets : 32'(place_o)) * PAYLOAD_BYTES;
  assign length    = is_scales ? LengthW'(((32'(whole) + 32'd63) >> 6) << 1) : whole;
  assign left     = 32'(length) - start;
  assign expected = (left > PAYLOAD_BYTES) ? LengthW'(PAYLOAD_BYTES) : LengthW'(left);
  assign fits      = tag_fits && awaited_i && header.length == 16'(expected);
  assign behind = 32'(place_o) - Packets;
  assign first  = is_scales
      ? FlitAddressW'(32'(entry_o) * ScaleFlits + behind * PacketFlits)
      : FlitAddressW'(32'(entry_o) * WaveFlits + 32'(place_o) * PacketFlits);

  assign address_o      = address_q;
  assign data_o         = flit_i;
  assign write_scales_o = scales_q;
  // What more than sixteen bits hold is more than there are accelerators.
  assign operand_o      = (word[63:16] != '0) ? '1 : word[15:0];

  always_comb begin
    state_d   = state_q;
    flits_d   = flits_q;
    address_d = address_q;
    come_o    = 1'b0;
    answer_o  = 1'b0;
    write_o   = 1'b0;
    add_o     = 1'b0;
    drop_o    = '0;
    if (valid_i) begin
      unique case (state_q)
        Header: begin
          if (!last_i) state_d = Rest;
          flits_d   = 16'((32'(header.length) + 32'd31) >> 5);
          address_d = first;
          if (!ours) begin
            drop_o[scin_isa_pkg::DropSource] = 1'b1;
          end else begin
            unique case (header.kind)
              prim_flit_pkg::KindReadResponse: begin
                if (!fits || last_i) drop_o[scin_isa_pkg::DropResponse] = 1'b1;
                else state_d = Data;
              end
              prim_flit_pkg::KindWriteResponse: begin
                answer_o = slot_fits && answer_awaited_i;
                drop_o[scin_isa_pkg::DropResponse] = !answer_o;
              end
              prim_flit_pkg::KindAdd: begin
                if (header.address == Counter && !last_i) state_d = Word;
                else drop_o[scin_isa_pkg::DropTransaction] = 1'b1;
              end
              default: drop_o[scin_isa_pkg::DropTransaction] = 1'b1;
            endcase
          end
        end
        Data: begin
          // A packet of another length than its header says is as good as lost.
          write_o   = flits_q != '0;
          flits_d   = flits_q - 16'(write_o);
          address_d = address_q + 1'b1;
          if (last_i) begin
            state_d = Header;
            come_o  = flits_q == 16'd1;
            drop_o[scin_isa_pkg::DropResponse] = !come_o;
          end
        end
        Word: begin
          add_o   = 1'b1;
          state_d = last_i ? Header : Rest;
        end
        default: if (last_i) state_d = Header;
      endcase
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Header;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    flits_q   <= flits_d;
    address_q <= address_d;
    if (valid_i && state_q == Header) begin
      entry_q  <= entry_o;
      place_q  <= place_o;
      scales_q <= is_scales;
    end
  end
endmodule

`default_nettype wire
