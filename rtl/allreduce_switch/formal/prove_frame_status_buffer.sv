// What frame_status_buffer promises of every sequence of frames: a place is taken once and after the one before it, a column is cleared
// before it is used again, a sum is asked for only where there is one and sent only while it is there, and every frame has one answer.
module prove_frame_status_buffer #(
    parameter int FLOWS = 2,
    parameter int FRAMES = 2,
    // Bits of a PSN: half of its numbers are more than there are places.
    parameter int PSN_W = 5,
    parameter int TURN_W = 2
) (
    input logic                            clk_i,
    input logic                            rst_ni,
    input logic                            clear_i,
    input logic                            judge_i,
    input logic                            first_i,
    input logic                            fresh_i,
    input logic [PSN_W-1:0]                psn_i,
    input logic                            sum_i,
    input logic [$clog2(FLOWS*FRAMES)-1:0] sum_index_i,
    input logic [$clog2(FLOWS*FRAMES)-1:0] again_index_i,
    input logic [TURN_W-1:0]               again_turn_i
);
  localparam int FlowW = $clog2(FLOWS);
  localparam int FrameW = $clog2(FRAMES);
  localparam int Places = FLOWS * FRAMES;

  logic                      done, store, again, gap, too_long, forgotten, pending, again_there;
  logic [FlowW+FrameW-1:0]   index;
  logic [TURN_W-1:0]         turn;

  frame_status_buffer #(
      .FLOWS (FLOWS),
      .FRAMES(FRAMES),
      .PSN_W (PSN_W),
      .TURN_W(TURN_W)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .clear_i,
      .judge_i,
      .first_i,
      .fresh_i,
      .psn_i,
      .sum_i,
      .sum_index_i,
      .again_index_i,
      .again_turn_i,
      .again_there_o(again_there),
      .done_o     (done),
      .store_o    (store),
      .again_o    (again),
      .gap_o      (gap),
      .too_long_o (too_long),
      .forgotten_o(forgotten),
      .pending_o  (pending),
      .index_o    (index),
      .turn_o     (turn)
  );

  // What has been stored, and where sums are, as its answers have it.
  logic        past_q = 1'b0;
  logic [1:0]  judged_q;
  logic        known_q;
  logic        first_q, fresh_q, before_first_q, before_fresh_q;
  logic [PSN_W-1:0]  psn_q, before_psn_q, last_psn_q;
  logic [Places-1:0] taken_q, taken_d, summed_q, summed_d;
  logic              opens;
  logic [FlowW-1:0]  column_q;

  // How often each column has been opened.
  logic [FLOWS*TURN_W-1:0] turns_q, turns_d;
  logic [TURN_W-1:0]       again_turn;

  assign opens = done && store && before_first_q;
  assign again_turn = turns_q[again_index_i[FrameW+:FlowW]*TURN_W+:TURN_W];

  always_comb begin
    taken_d  = taken_q;
    summed_d = summed_q;
    turns_d  = turns_q;
    if (opens) begin
      for (int c = 0; c < FLOWS; c++) begin
        if (index[FrameW+:FlowW] == FlowW'(c)) begin
          taken_d[c*FRAMES+:FRAMES]  = '0;
          summed_d[c*FRAMES+:FRAMES] = '0;
          turns_d[c*TURN_W+:TURN_W]  = turns_q[c*TURN_W+:TURN_W] + 1'b1;
        end
      end
    end
    if (done && store) taken_d[index] = 1'b1;
    if (sum_i) summed_d[sum_index_i] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    past_q         <= 1'b1;
    judged_q       <= {judged_q[0], judge_i};
    first_q        <= first_i;
    fresh_q        <= fresh_i;
    psn_q          <= psn_i;
    before_first_q <= first_q;
    before_fresh_q <= fresh_q;
    before_psn_q   <= psn_q;
    taken_q        <= taken_d;
    // Columns are opened one after the other, from the first.
    if (opens) column_q <= column_q + 1'b1;
    summed_q       <= summed_d;
    turns_q        <= turns_d;
    if (done && store) begin
      known_q    <= 1'b1;
      last_psn_q <= before_psn_q;
    end
    if (!rst_ni || clear_i) begin
      judged_q <= '0;
      known_q  <= 1'b0;
      column_q <= '0;
      taken_q  <= '0;
      summed_q <= '0;
      turns_q  <= '0;
    end
  end

  always_comb begin
    assume (rst_ni == past_q);
    // A frame at a time; a sum only of what has been stored, and not while its column may be opened.
    assume (!judge_i || !judged_q[0]);
    assume (!sum_i || (taken_q[sum_index_i] && !judge_i && judged_q == '0));
    // After a clearing, a port's first frame is a First of a new connection.
    assume (!judge_i || known_q || (first_i && fresh_i));
    assume (!fresh_i || first_i);
    if (past_q && rst_ni) begin
      assert (done == judged_q[1]);
      // From the cycle on in which its column is opened anew, a place is not there until it has a sum of the new message.
      if (again_there) assert (taken_q[again_index_i] && summed_q[again_index_i]);
      if (again_there && opens) assert (again_index_i[FrameW+:FlowW] != index[FrameW+:FlowW]);
      if (again_there) assert (again_turn_i == again_turn);
      if (!again_there && judged_q == '0) assert (!taken_q[again_index_i] || !summed_q[again_index_i] || again_turn_i != again_turn);
      if (done) begin
        assert (3'(store) + 3'(again) + 3'(gap) + 3'(too_long) + 3'(forgotten) + 3'(pending) == 3'd1);
        // In its turn, or the begin of a connection.
        if (store && !before_fresh_q) assert (before_psn_q == last_psn_q + 1'b1);
        if (store && !before_first_q) assert (index[FrameW-1:0] != '0 && !taken_q[index] && taken_q[index-1'b1]);
        if (opens) assert (index == {column_q, FrameW'(0)});
        if (again) assert (taken_q[index] && summed_q[index]);
        // What asks for its sum takes the turn of its column along.
        if (again) assert (turn == turns_q[index[FrameW+:FlowW]*TURN_W+:TURN_W]);
        if (pending) assert (taken_q[index] && !summed_q[index]);
      end
    end
  end
endmodule
