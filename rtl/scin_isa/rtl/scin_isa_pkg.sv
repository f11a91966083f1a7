// Numbers and the packet header of the memory fabric (crates/base/wire/src/flit.rs) that SCIN's
// modules share.
`default_nettype none

package scin_isa_pkg;
  // The prototype's flit (3.5): 32 bytes; a packet's header takes one, whose first 16 bytes count.
  localparam int FlitW = 256;

  localparam int AddressW = 48;
  localparam int TagW = 24;
  localparam int NodeW = 12;
  // Bits of an instruction's ID, length and flags; behind them are addresses and two masks.
  localparam int InstructionHeadW = 56;

  // What packets do to memory.
  localparam logic [3:0] KindRead = 4'd1;
  localparam logic [3:0] KindReadResponse = 4'd2;
  localparam logic [3:0] KindWrite = 4'd3;
  localparam logic [3:0] KindWriteResponse = 4'd4;
  localparam logic [3:0] KindAdd = 4'd5;
  localparam logic [3:0] KindStore = 4'd6;

  // Classes, each with buffers of its own: reads, writes, read and write responses. Here those with
  // data; the channel of the accelerator's traffic is four more.
  localparam int ClassWrite = 1;
  localparam int ClassReadResponse = 2;

  // Element types of the accumulator.
  localparam logic [1:0] TypeF32 = 2'd0;
  localparam logic [1:0] TypeF16 = 2'd1;
  localparam logic [1:0] TypeBf16 = 2'd2;

  // Flags of an instruction.
  localparam int FlagQuantEnable = 0;
  localparam int FlagRegion = 1;
  localparam int FlagWait = 2;
  localparam int FlagNotify = 3;

  // Why a packet was dropped: places in a port's word of drop_o.
  localparam int DropSource = 0;
  localparam int DropResponse = 1;
  localparam int DropTransaction = 2;
  localparam int Drops = 3;

  // A header, as it stands on the wire: highest byte first.
  typedef struct packed {
    logic [3:0]          kind;
    logic                inc;
    logic                notify;
    logic [1:0]          reserved;
    logic [NodeW-1:0]    source;
    logic [NodeW-1:0]    destination;
    logic [AddressW-1:0] address;
    logic [15:0]         length;
    logic [TagW-1:0]     tag;
    logic [7:0]          credit;
  } header_t;

  // The first byte of a flit is its lowest; that of a header is its highest.
  function automatic logic [127:0] swap(input logic [127:0] bytes);
    for (int i = 0; i < 16; i++) swap[8*i+:8] = bytes[8*(15-i)+:8];
  endfunction

  function automatic logic [63:0] swap_word(input logic [63:0] bytes);
    for (int i = 0; i < 8; i++) swap_word[8*i+:8] = bytes[8*(7-i)+:8];
  endfunction

  // The class of a kind that may pass a port; kinds that are not ours go with the writes.
  function automatic logic [1:0] class_of(input logic [3:0] kind);
    unique case (kind)
      4'd1, 4'd7, 4'd13: class_of = 2'd0;
      4'd2: class_of = 2'd2;
      4'd4, 4'd14: class_of = 2'd3;
      default: class_of = 2'd1;
    endcase
  endfunction
endpackage

`default_nettype wire
