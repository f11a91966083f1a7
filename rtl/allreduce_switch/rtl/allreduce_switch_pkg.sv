// Numbers of AllReduce-Switch that several of its modules share.
package allreduce_switch_pkg;
  // Beats of 8 bytes: of the longest frame that passes, 2,048 bytes; and of the longest one for aggregation, a Write First.
  localparam int MaxBeats = 256;
  localparam int FirstBeats = 139;

  // Bits of the number of times that a column was opened.
  localparam int TurnW = 8;

  // What becomes of a frame after the Frame Analyzer.
  localparam logic [1:0] KindDrop = 2'd0;
  localparam logic [1:0] KindForward = 2'd1;
  localparam logic [1:0] KindAggregate = 2'd2;

  // Form of a frame for aggregation.
  localparam logic [1:0] FormFirst = 2'd0;
  localparam logic [1:0] FormPlain = 2'd1;
  localparam logic [1:0] FormImmediate = 2'd2;

  // Why a frame was dropped: places in a port's word of drop_o.
  localparam int Overrun = 0;
  localparam int Giant = 1;
  localparam int Runt = 2;
  localparam int Filtered = 3;
  localparam int BadIcrc = 4;
  localparam int NoDestination = 5;
  localparam int Gap = 6;
  localparam int TooLong = 7;
  localparam int Forgotten = 8;
  localparam int Pending = 9;
  // Under way while the registers were written.
  localparam int Stale = 10;
  // Labelled as for aggregation, and of a QP that the port does not know.
  localparam int Unknown = 11;
  localparam int Reasons = 12;

  // The CRC's state after eight bytes of ones.
  localparam logic [31:0] IcrcStart = 32'hDEBB20E3;
  // And after a frame with its ICRC.
  localparam logic [31:0] IcrcResidue = 32'hDEBB20E3;
endpackage
