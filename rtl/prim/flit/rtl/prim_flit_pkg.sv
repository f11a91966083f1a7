// The packet header of the memory fabric (crates/base/wire/src/flit.rs): 16 bytes, highest byte first.
`default_nettype none

package prim_flit_pkg;
  localparam int AddressW = 48;
  localparam int TagW = 24;
  localparam int NodeW = 12;

  // What packets do to memory.
  typedef enum logic [3:0] {
    KindRead          = 4'd1,
    KindReadResponse  = 4'd2,
    KindWrite         = 4'd3,
    KindWriteResponse = 4'd4,
    KindAdd           = 4'd5,
    KindStore         = 4'd6,
    KindReduce        = 4'd11,
    KindSync          = 4'd13,
    KindRelease       = 4'd14
  } kind_e;

  // Classes, each with buffers of its own: reads, writes, read and write responses. Here those with
  // data; the channel of the accelerator's traffic is four more.
  typedef enum int {
    ClassWrite        = 1,
    ClassReadResponse = 2
  } class_e;

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
