// Frame Status Buffer of a port (IV.C.2, figure 13): which place a frame for aggregation belongs to, and what has become of it.
module frame_status_buffer #(
    parameter int FLOWS = 4,
    parameter int FRAMES = 128,
    // Bits of a PSN, and of the number of times that a column was opened; fewer for proofs.
    parameter int PSN_W = 24,
    parameter int TURN_W = 8
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            clear_i,
    // A frame to judge; the answer comes with done_o two cycles later. The next one waits until then.
    input  logic                            judge_i,
    input  logic                            first_i,
    // A First of a connection that this port did not have.
    input  logic                            fresh_i,
    input  logic [PSN_W-1:0]                     psn_i,
    // The sum of an index is there, and has begun to leave.
    input  logic                            sum_i,
    input  logic [$clog2(FLOWS*FRAMES)-1:0] sum_index_i,
    output logic                            done_o,
    // Whether the frame and the sum are there still that a place had when its column was in that turn.
    input  logic [$clog2(FLOWS*FRAMES)-1:0] again_index_i,
    input  logic [TURN_W-1:0]               again_turn_i,
    output logic                            again_there_o,
    // One of them, with done_o: in its turn, asks for its sum once more, or why it is dropped.
    output logic                            store_o,
    output logic                            again_o,
    output logic                            gap_o,
    output logic                            too_long_o,
    output logic                            forgotten_o,
    output logic                            pending_o,
    output logic [$clog2(FLOWS*FRAMES)-1:0] index_o,
    output logic [TURN_W-1:0]               turn_o
);
  localparam int FlowW = $clog2(FLOWS);
  localparam int FrameW = $clog2(FRAMES);
  localparam int IndexW = FlowW + FrameW;

  if (FLOWS < 2 || (FLOWS & (FLOWS - 1)) != 0) begin : gen_check_flows
    expected_a_power_of_two_as_FLOWS u_stop ();
  end
  if (FRAMES < 2 || FRAMES > 128 || (FRAMES & (FRAMES - 1)) != 0) begin : gen_check_frames
    expected_a_power_of_two_up_to_128_as_FRAMES u_stop ();
  end

  logic [FLOWS*PSN_W-1:0]       base_q, base_d;
  logic [FLOWS-1:0]          valid_q, valid_d;
  // The column that is opened next (pnext).
  logic [FlowW-1:0]          next_q, next_d;
  logic [PSN_W-1:0]               expected_q, expected_d;
  logic [FLOWS*FRAMES-1:0]   status_q, status_d, sum_q, sum_d;
  // How often each column has been opened. A retransmission that waits sees its column opened anew as often as its neighbours' results leave before
  // it: some thirty times with 8 ports and 2 flows.
  logic [FLOWS*TURN_W-1:0]   turn_q, turn_d;
  logic                      is_turn;

  // First cycle: distances from what is expected, and from each base.
  logic                      s1_q, s1_first_q, s1_fresh_q;
  logic [PSN_W-1:0]               s1_psn_q, s1_ahead_q;
  logic [FLOWS-1:0]          s1_near_q;
  logic [FLOWS*FrameW-1:0]   s1_offset_q;
  logic [FLOWS*PSN_W-1:0]       distance;

  always_comb begin
    for (int c = 0; c < FLOWS; c++) distance[c*PSN_W+:PSN_W] = psn_i - base_q[c*PSN_W+:PSN_W];
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) s1_q <= 1'b0;
    else s1_q <= judge_i && !clear_i;
  end

  always_ff @(posedge clk_i) begin
    s1_first_q <= first_i;
    s1_fresh_q <= fresh_i;
    s1_psn_q   <= psn_i;
    s1_ahead_q <= psn_i - expected_q;
    for (int c = 0; c < FLOWS; c++) begin
      s1_near_q[c]                   <= valid_q[c] && distance[c*PSN_W+FrameW+:PSN_W-FrameW] == '0;
      s1_offset_q[c*FrameW+:FrameW] <= distance[c*PSN_W+:FrameW];
    end
  end

  // Second cycle: the place, and the verdict.
  logic [FlowW-1:0]  newest, column;
  // By age: the column is near enough.
  logic [FLOWS-1:0]  hit;
  logic              found;
  logic [IndexW-1:0] index, opened;
  logic              open, in_turn, earlier, store, again, gap, too_long, forgotten, pending;

  assign newest  = next_q - 1'b1;
  assign opened  = {next_q, FrameW'(0)};
  assign in_turn = s1_ahead_q == '0;
  assign earlier = s1_ahead_q[PSN_W-1];
  assign open    = s1_first_q && (s1_fresh_q || in_turn);

  // An earlier frame belongs to the newest column that is near enough, another one to the newest of all.
  always_comb begin
    for (int k = 0; k < FLOWS; k++) hit[k] = s1_near_q[newest-FlowW'(k)] && (k == 0 || (earlier && !open));
  end

  always_comb begin
    column = newest;
    for (int k = FLOWS - 1; k >= 0; k--) begin
      if (hit[k]) column = newest - FlowW'(k);
    end
  end

  assign found = hit != '0;
  assign index = open ? opened : {column, s1_offset_q[column*FrameW+:FrameW]};

  always_comb begin
    store     = 1'b0;
    again     = 1'b0;
    gap       = 1'b0;
    too_long  = 1'b0;
    forgotten = 1'b0;
    pending   = 1'b0;
    if (open) store = 1'b1;
    else if (in_turn) begin
      store    = found;
      too_long = !found;
    end else if (!earlier) gap = 1'b1;
    else if (!found) forgotten = 1'b1;
    else if (status_q[index] && sum_q[index]) again = 1'b1;
    else pending = 1'b1;
  end

  always_comb begin
    base_d     = base_q;
    valid_d    = valid_q;
    next_d     = next_q;
    expected_d = expected_q;
    status_d   = status_q;
    sum_d      = sum_q;
    turn_d     = turn_q;
    if (sum_i) sum_d[sum_index_i] = 1'b1;
    if (s1_q && open) begin
      if (s1_fresh_q) valid_d = '0;
      for (int c = 0; c < FLOWS; c++) begin
        if (next_q == FlowW'(c)) begin
          base_d[c*PSN_W+:PSN_W]         = s1_psn_q;
          valid_d[c]               = 1'b1;
          status_d[c*FRAMES+:FRAMES] = '0;
          sum_d[c*FRAMES+:FRAMES]  = '0;
          turn_d[c*TURN_W+:TURN_W] = turn_q[c*TURN_W+:TURN_W] + 1'b1;
        end
      end
      next_d = next_q + 1'b1;
    end
    if (s1_q && store) begin
      expected_d      = s1_psn_q + 1'b1;
      status_d[index] = 1'b1;
    end
    if (clear_i) begin
      valid_d  = '0;
      next_d   = '0;
      status_d = '0;
      sum_d    = '0;
      turn_d   = '0;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q    <= '0;
      next_q     <= '0;
      expected_q <= '0;
      status_q   <= '0;
      sum_q      <= '0;
      turn_q     <= '0;
    end else begin
      valid_q    <= valid_d;
      next_q     <= next_d;
      expected_q <= expected_d;
      status_q   <= status_d;
      sum_q      <= sum_d;
      turn_q     <= turn_d;
    end
  end

  always_ff @(posedge clk_i) base_q <= base_d;

  // Another message's sum may lie there by now.
  assign is_turn       = turn_q[again_index_i[IndexW-1:FrameW]*TURN_W+:TURN_W] == again_turn_i;
  assign again_there_o = status_q[again_index_i] && sum_q[again_index_i] && is_turn;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_o <= 1'b0;
    else done_o <= s1_q && !clear_i;
  end

  // The index stays until the next frame.
  always_ff @(posedge clk_i) begin
    if (s1_q) begin
      store_o     <= store;
      again_o     <= again;
      gap_o       <= gap;
      too_long_o  <= too_long;
      forgotten_o <= forgotten;
      pending_o   <= pending;
      index_o     <= index;
      turn_o      <= turn_d[index[IndexW-1:FrameW]*TURN_W+:TURN_W];
    end
  end
endmodule
