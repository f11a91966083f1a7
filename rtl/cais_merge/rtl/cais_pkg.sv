// Numbers and types that the modules of CAIS's merge unit share.
`default_nettype none

package cais_pkg;
  // A flit of 16 bytes (V-A2); a packet's header takes one.
  localparam int FlitW = 128;

  // Points of a release that no sync asks for (III-B2): all have loaded from an address, or added
  // to it. And the tag of a sync at the boundary of a stream.
  localparam logic [23:0] PointLoaded = 24'd2;
  localparam logic [23:0] PointAdded = 24'd3;
  localparam logic [23:0] Boundary = 24'hFFFFFF;

  // What an entry is in (III-A2).
  typedef enum logic [1:0] {
    LoadWait,
    LoadReady,
    Reduction
  } status_e;

  // Bits of an entry, and of what the mover is told.
  localparam int EntryW = 110;
  localparam int MoveW = 196;

  // An entry of the merging table but for its data. Masks are of accelerators, by port.
  typedef struct packed {
    status_e     status;
    // Requests of a load, contributions to a sum.
    logic [5:0]  count;
    logic [15:0] seen;
    logic [15:0] notify;
    // Loads that wait for data.
    logic [5:0]  waiting;
    // Bytes.
    logic [15:0] length;
    logic [47:0] address;
  } entry_t;

  // What the mover is told to do with a packet's data and the Content Array.
  typedef enum logic [3:0] {
    // A header leaves.
    OpHeader,
    // A header leaves, and what has come behind it.
    OpPass,
    // What has come is of no use.
    OpDrain,
    // What has come is kept, added to what is kept, or leaves with that added to it.
    OpStore,
    OpAdd,
    OpAddOut,
    // A header leaves, and what is kept behind it.
    OpReadOut,
    // Who waits is kept, in the place of data; the home is asked for these or has been.
    OpWait,
    OpWaitAsk,
    // Data have come for all who wait.
    OpFill,
    // All of a mask hear a header.
    OpRelease
  } op_e;

  typedef struct packed {
    op_e                    op;
    logic [9:0]             number;
    // Who is released.
    logic [15:0]            mask;
    // Loads that wait; with OpWait the place of this one.
    logic [5:0]             waiting;
    // Who waits, and its tag.
    logic [7:0]             requester;
    logic [23:0]            tag;
    // A prim_flit_pkg::header_t.
    logic [127:0]           header;
  } move_t;

  // Why a packet was dropped (drops.rs); nothing of it is left then.
  typedef enum logic [2:0] {
    Taken,
    DropSource,
    DropHome,
    DropLength,
    DropContributions,
    DropResponse,
    DropSync,
    DropTransaction
  } drop_e;

  // A prim_flit_pkg::header_t.
  function automatic logic [127:0] header(
      input logic [3:0] kind, input logic inc, input logic [11:0] source,
      input logic [11:0] destination, input logic [47:0] address, input logic [15:0] length,
      input logic [23:0] tag);
    // In the order of the fields; no wish to hear of the others, and no credits.
    header = {kind, inc, 3'd0, source, destination, address, length, tag, 8'd0};
  endfunction

  // The first of a mask.
  function automatic logic [3:0] first(input logic [15:0] mask);
    first = '0;
    for (int i = 15; i >= 0; i--) if (mask[i]) first = 4'(i);
  endfunction

  // How many of a mask there are.
  function automatic logic [5:0] ones(input logic [15:0] mask);
    ones = '0;
    for (int i = 0; i < 16; i++) ones = ones + 6'(mask[i]);
  endfunction
endpackage

`default_nettype wire
