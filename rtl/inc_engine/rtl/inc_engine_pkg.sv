// What the modules of IncEngine share: descriptors of packets that have come, requests for
// packets that leave, the control message (crates/engines/epic/src/control.rs), and why packets
// are dropped.
`default_nettype none

package inc_engine_pkg;

  localparam logic [15:0] RocePort = 16'd4791;

  // Numbers of packets inside: counts whose low 24 bits are the PSN.
  localparam int SeqW = 32;

  // Opcodes of reliable connections (crates/base/wire/src/operation.rs).
  localparam logic [7:0] SendFirst = 8'h00;
  localparam logic [7:0] SendMiddle = 8'h01;
  localparam logic [7:0] SendLast = 8'h02;
  localparam logic [7:0] SendOnly = 8'h04;
  localparam logic [7:0] SendOnlyImmediate = 8'h05;
  localparam logic [7:0] Acknowledge = 8'h11;

  localparam logic [7:0] SyndromeAck = 8'h1F;
  localparam logic [7:0] SyndromeNak = 8'h60;

  // What a packet is to the group.
  localparam logic [1:0] KindData = 2'd0;
  localparam logic [1:0] KindAck = 2'd1;
  localparam logic [1:0] KindOther = 2'd2;

  // One of the tree's edges: both ends of its connection.
  typedef struct packed {
    logic [47:0] local_mac;
    logic [47:0] remote_mac;
    logic [31:0] local_ip;
    logic [31:0] remote_ip;
    logic [23:0] local_qp;
    logic [23:0] remote_qp;
  } edge_t;

  // What a packet's header says that stays the same on its way through the switch.
  typedef struct packed {
    logic [7:0]  opcode;
    // Immediate data, or the AETH.
    logic [31:0] word;
    logic [23:0] psn;
    logic        ack_request;
    // Bytes of payload, without pad.
    logic [15:0] length;
  } header_t;

  // A packet that has come: its header, and where its payload lies.
  typedef struct packed {
    logic [1:0] kind;
    header_t    header;
    logic [7:0] page;
  } descriptor_t;

  // How elements combine.
  localparam logic [1:0] OpSum = 2'd0;
  localparam logic [1:0] OpMin = 2'd1;
  localparam logic [1:0] OpMax = 2'd2;
  localparam logic [1:0] OpOr = 2'd3;

  localparam logic [1:0] TypeF32 = 2'd0;
  localparam logic [1:0] TypeF16 = 2'd1;
  localparam logic [1:0] TypeBf16 = 2'd2;
  localparam logic [1:0] TypeI32 = 2'd3;

  typedef struct packed {
    logic [1:0] op;
    logic [1:0] data_type;
  } reduction_t;

  // How data flows: the three that all else is made of.
  localparam logic [1:0] AllReduce = 2'd0;
  localparam logic [1:0] Reduce = 2'd1;
  localparam logic [1:0] Broadcast = 2'd2;

  // A control message, read.
  typedef struct packed {
    logic        valid;
    logic [1:0]  pattern;
    logic [9:0]  root;
    reduction_t  reduction;
    // Bytes of an element less one: lengths have none of these bits.
    logic [1:0]  grain;
    // A confirmation carries no data, nor a Barrier of what the hardware cannot add up.
    logic        empty;
    logic [12:0] packets;
  } control_t;

  // Which operations are defined for which types; the engine's lists have them in this order.
  function automatic logic defined(input logic [2:0] op, input logic [3:0] data_type);
    unique case (data_type)
      4'd0, 4'd1, 4'd2, 4'd4, 4'd11, 4'd12: defined = op < 3'd4;
      4'd13, 4'd14: defined = op == 3'd0;
      4'd15: defined = 1'b0;
      default: defined = op < 3'd7;
    endcase
  endfunction

  // What 32 bits of immediate data say. Reductions that the hardware has no unit for are refused.
  function automatic control_t control_of(input logic [31:0] word);
    logic gathers;
    gathers = word[31:30] == AllReduce && word[22];
    control_of.pattern             = word[31:30];
    control_of.root                = word[22:13];
    control_of.packets             = word[12:0];
    control_of.empty               = 1'b0;
    control_of.reduction.op        = word[28:27];
    control_of.reduction.data_type = word[24:23];
    unique case (word[24:23])
      TypeF16, TypeBf16: control_of.grain = 2'd1;
      default: control_of.grain = 2'd3;
    endcase
    control_of.valid = defined(word[29:27], word[26:23]);
    if (word[31:30] == 2'd3) begin
      control_of.valid     = 1'b1;
      control_of.pattern   = AllReduce;
      control_of.empty     = 1'b1;
      control_of.packets   = '0;
      control_of.reduction = '{op: OpSum, data_type: TypeF32};
    end else if (word[31:30] == Broadcast) begin
      control_of.grain = 2'd0;
    end else if (gathers) begin
      control_of.valid     = word[29:27] == 3'd5 && !word[21] && word[26:23] != 4'd15;
      control_of.grain     = 2'd0;
      control_of.reduction = '{op: OpOr, data_type: TypeI32};
    end else begin
      control_of.valid = word[29:27] < 3'd3 && word[26:25] == 2'd0;
      // A Barrier has no numbers: it need not be known how they would add up.
      if (!control_of.valid && word[31:30] == AllReduce && word[20] && word[12:0] == '0) begin
        control_of.valid = defined(word[29:27], word[26:23]);
        control_of.empty = 1'b1;
      end
    end
  endfunction

  // What senders are told: of all that has arrived; the same again, no further than a number; that
  // a number is asked for; the same on behalf of many.
  typedef enum logic [1:0] {
    Tell,
    TellAgain,
    PassOn,
    PassOnForMany
  } answer_e;

  // Why a packet was dropped, as in crates/engines/epic/src/drops.rs; 0 if it was not.
  typedef enum logic [3:0] {
    Accepted,
    UnexpectedOperation,
    Malformed,
    NoCollective,
    TableFull,
    WrongDirection,
    Duplicate,
    Stale,
    AheadOfRange,
    Mismatch,
    Disagreement,
    BadAcknowledge
  } reason_e;

  // Rules of the protocol that can be broken on purpose, as in crates/engines/epic/src/mutation.rs.
  typedef enum logic [4:0] {
    Unbroken,
    WindowShort,
    NoDuplicateCheck,
    PsnNoWrap,
    NakAsAck,
    StaleCollective,
    OneBitVersion,
    ReduceRecycledByCompletion,
    NakForwarded,
    AckOnlyIfNews,
    AnswersNextSlot,
    NeverCleared,
    PayloadNotCleared,
    ArrivedNeverCleared,
    RecyclesStart,
    WindowInMessages,
    ChangesAnElement,
    AddsWhateverComes
  } mutation_e;

  // Whether a number lies before another one, as counts that wrap.
  function automatic logic precedes(input logic [SeqW-1:0] a, input logic [SeqW-1:0] b);
    logic [SeqW-1:0] difference;
    difference = a - b;
    precedes   = difference[SeqW-1];
  endfunction

  function automatic logic [SeqW-1:0] earlier(input logic [SeqW-1:0] a, input logic [SeqW-1:0] b);
    earlier = precedes(a, b) ? a : b;
  endfunction

  function automatic logic [SeqW-1:0] later(input logic [SeqW-1:0] a, input logic [SeqW-1:0] b);
    later = precedes(a, b) ? b : a;
  endfunction
endpackage

`default_nettype wire
