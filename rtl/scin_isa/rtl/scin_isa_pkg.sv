// Numbers that SCIN's modules share.
`default_nettype none

package scin_isa_pkg;
  // The prototype's flit (3.5): 32 bytes; a packet's header takes one, whose first 16 bytes count.
  localparam int FlitW = 256;

  // Bits of an instruction's ID, length and flags; behind them are addresses and two masks.
  localparam int InstructionHeadW = 56;

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
endpackage

`default_nettype wire
