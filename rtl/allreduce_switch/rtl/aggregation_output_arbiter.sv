// Aggregation Output Arbiter (IV.D.2): sends sums to all branches and, in the other half of its turns, one branch's retransmissions after another's.
module aggregation_output_arbiter #(
    parameter int PORTS = 8,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) (
    input  logic                                  clk_i,
    input  logic                                  rst_ni,
    // The registers are another group's: what waits is nobody's any more.
    input  logic                                  clear_i,
    input  logic [PORTS-1:0]                      port_en_i,
    // Sums from the Aggregation Processor.
    input  logic                                  done_valid_i,
    output logic                                  done_ready_o,
    input  logic [$clog2(FLOWS*FRAMES)-1:0]       done_index_i,
    // Retransmissions that the Aggregation Frame Handlers ask for.
    input  logic [PORTS-1:0]                      again_valid_i,
    output logic [PORTS-1:0]                      again_ready_o,
    input  logic [PORTS*$clog2(FLOWS*FRAMES)-1:0] again_index_i,
    // The buffers; words come two cycles later.
    output logic                                  read_o,
    output logic [$clog2(FLOWS*FRAMES)-1:0]       meta_addr_o,
    input  logic [PORTS*(PORTS+2)-1:0]            meta_i,
    output logic [$clog2(FLOWS*FRAMES*16)-1:0]    header_addr_o,
    input  logic [PORTS*64-1:0]                   header_i,
    output logic [$clog2(FLOWS*FRAMES*128)-1:0]   sum_addr_o,
    input  logic [63:0]                           sum_i,
    // To the Frame FIFOs of the branches; free beats there.
    output logic [PORTS-1:0]                      valid_o,
    output logic [PORTS*68-1:0]                   beat_o,
    output logic [PORTS*PORTS-1:0]                dest_o,
    input  logic [PORTS*10-1:0]                   free_i
);
  localparam int IndexW = $clog2(FLOWS * FRAMES);
  localparam int FrameW = $clog2(FRAMES);
  localparam int BranchW = (PORTS > 1) ? $clog2(PORTS) : 1;
  // A whole frame, and the beats that are on their way when the next one is chosen.
  localparam int Room = allreduce_switch_pkg::FirstBeats + 8;

  // Check and TxOut are the paper's CHECK and TX_OUT.
  typedef enum logic {
    Check,
    TxOut
  } state_e;

  state_e              state_q, state_d;
  logic [IndexW-1:0]   index_q, index_d;
  logic [PORTS-1:0]    branches_q, branches_d;
  logic [7:0]          count_q, count_d;
  logic [PORTS-1:0]    room, again, again_grant;
  logic [1:0]          ask, grant;
  logic                any, unused_class, again_any, take;
  logic [BranchW-1:0]  branch;
  logic                first;
  logic [7:0]          lead, last;
  logic [6:0]          word;

  always_comb begin
    for (int p = 0; p < PORTS; p++) room[p] = free_i[p*10+:10] >= 10'(Room);
  end

  assign again  = again_valid_i & room;
  assign ask[0] = done_valid_i && (port_en_i & ~room) == '0;
  assign ask[1] = again_any;
  assign take   = state_q == Check && any && !clear_i;

  // Sums have one half of the turns, retransmissions the other.
  prim_arbiter_weighted #(
      .N       (2),
      .WEIGHT_W(1),
      .WEIGHTS (2'b11)
  ) u_halves (
      .clk_i,
      .rst_ni,
      .req_i  (ask),
      .take_i (take),
      .valid_o(any),
      .gnt_o  (grant),
      .idx_o  (unused_class)
  );

  prim_arbiter_rr #(
      .N(PORTS)
  ) u_branches (
      .clk_i,
      .rst_ni,
      .req_i  (again),
      .take_i (take && grant[1]),
      .valid_o(again_any),
      .gnt_o  (again_grant),
      .idx_o  (branch)
  );

  assign done_ready_o  = take && grant[0];
  assign again_ready_o = (take && grant[1]) ? again_grant : '0;

  // An index at a column's begin is a First's.
  assign first = index_q[FrameW-1:0] == '0;
  assign lead  = first ? 8'd12 : 8'd8;
  // One beat more than most frames have: one with immediate needs it.
  assign last  = first ? 8'd138 : 8'd137;

  always_comb begin
    state_d    = state_q;
    index_d    = index_q;
    branches_d = branches_q;
    count_d    = count_q;
    case (state_q)
      Check: begin
        count_d = 8'd0;
        if (take) begin
          index_d    = grant[0] ? done_index_i : again_index_i[branch*IndexW+:IndexW];
          branches_d = grant[0] ? port_en_i : again_grant;
          state_d    = TxOut;
        end
      end
      default: begin
        count_d = count_q + 8'd1;
        if (count_q == last) state_d = Check;
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Check;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    index_q    <= index_d;
    branches_q <= branches_d;
    count_q    <= count_d;
  end

  assign word          = 7'(count_q - lead);
  // What was read last goes on through its second register, so that reading goes on.
  assign read_o        = 1'b1;
  assign meta_addr_o   = index_q;
  assign header_addr_o = {index_q, count_q[3:0]};
  assign sum_addr_o    = {index_q, word};

  // While the buffers read.
  logic [1:0]         on_q;
  logic [2*PORTS-1:0] branches_s_q;
  logic [15:0]        count_s_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) on_q <= '0;
    else on_q <= {on_q[0], state_q == TxOut};
  end

  always_ff @(posedge clk_i) begin
    branches_s_q <= {branches_s_q[PORTS-1:0], branches_q};
    count_s_q    <= {count_s_q[7:0], count_q};
  end

  for (genvar p = 0; p < PORTS; p++) begin : gen_branch
    frame_assembler #(
        .PORTS(PORTS)
    ) u_assembler (
        .clk_i,
        .rst_ni,
        .valid_i (on_q[1] && branches_s_q[PORTS+p]),
        .count_i (count_s_q[15:8]),
        .form_i  (meta_i[p*(PORTS+2)+PORTS+:2]),
        .dest_i  (meta_i[p*(PORTS+2)+:PORTS]),
        .header_i(header_i[p*64+:64]),
        .sum_i,
        .valid_o (valid_o[p]),
        .beat_o  (beat_o[p*68+:68]),
        .dest_o  (dest_o[p*PORTS+:PORTS])
    );
  end
endmodule
