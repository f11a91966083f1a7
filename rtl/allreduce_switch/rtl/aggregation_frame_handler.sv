// Second half of the Frame Parsing Stage (IV.C.2): has a frame for aggregation judged by the Frame Status Buffer, and stores it or asks for its sum once more.
module aggregation_frame_handler #(
    parameter int PORTS = 8,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) (
    input  logic                                 clk_i,
    input  logic                                 rst_ni,
    input  logic                                 clear_i,
    // From the Frame Analyzer; what its header says stays until the frame's end.
    input  logic                                 valid_i,
    output logic                                 ready_o,
    // {last, data}
    input  logic [64:0]                          beat_i,
    input  logic                                 fresh_i,
    input  logic [1:0]                           form_i,
    input  logic [23:0]                          psn_i,
    input  logic [PORTS-1:0]                     dest_i,
    input  logic                                 old_i,
    // From the Aggregation Output Arbiter: the sum of an index begins to leave. Not before may it be asked for: who has it that way would open the
    // column anew, and the sum would leave with another message's header.
    input  logic                                 sum_i,
    input  logic [$clog2(FLOWS*FRAMES)-1:0]      sum_index_i,
    // The retransmission that is next, and its column's turn: whether its frame and sum are still there; if not, it is dropped.
    input  logic                                 next_again_valid_i,
    input  logic [$clog2(FLOWS*FRAMES)-1:0]      next_again_i,
    input  logic [allreduce_switch_pkg::TurnW-1:0] next_again_turn_i,
    output logic                                 next_again_there_o,
    output logic                                 next_again_drop_o,
    // To the Frame Header Buffer, 16 words a frame; to the Frame Payload Buffer, 128 words a frame; where the frame goes and its form.
    output logic                                 header_we_o,
    output logic [$clog2(FLOWS*FRAMES*16)-1:0]   header_addr_o,
    output logic [63:0]                          header_o,
    output logic                                 payload_we_o,
    output logic [$clog2(FLOWS*FRAMES*128)-1:0]  payload_addr_o,
    output logic [63:0]                          payload_o,
    output logic                                 meta_we_o,
    output logic [$clog2(FLOWS*FRAMES)-1:0]      meta_addr_o,
    output logic [PORTS+1:0]                     meta_o,
    // To the Frame IDX FIFO, and to that of retransmissions.
    output logic                                 index_valid_o,
    input  logic                                 index_ready_i,
    output logic                                 again_valid_o,
    input  logic                                 again_ready_i,
    output logic [$clog2(FLOWS*FRAMES)-1:0]      index_o,
    output logic [allreduce_switch_pkg::TurnW-1:0] turn_o,
    output logic                                 gap_o,
    output logic                                 too_long_o,
    output logic                                 forgotten_o,
    output logic                                 pending_o,
    output logic                                 stale_o
);
  localparam int IndexW = $clog2(FLOWS * FRAMES);

  // Idle and Judge are the paper's.
  typedef enum logic [2:0] {
    Idle,
    Judge,
    Store,
    // It asks for its sum once more, or is stale.
    Throw,
    // Dropped, and told why.
    Refuse,
    TellIndex,
    TellAgain
  } state_e;

  state_e            state_q, state_d;
  logic [7:0]        count_q, count_d;
  logic [47:0]       held_q;
  logic              again_q, again_d, stale_q, stale_d;
  logic              judge, judged, store, again, gap, too_long, forgotten, pending;
  logic [IndexW-1:0] index;
  logic              take, first, six, is_forgotten;
  // Beats before the one with the payload's first byte.
  logic [7:0]        lead;
  logic              header_we_d, payload_we_d;
  logic [7:0]        word;

  frame_status_buffer #(
      .FLOWS (FLOWS),
      .FRAMES(FRAMES),
      .TURN_W(allreduce_switch_pkg::TurnW)
  ) u_frame_status_buffer (
      .clk_i,
      .rst_ni,
      .clear_i,
      .judge_i    (judge),
      .first_i    (first),
      .fresh_i,
      .psn_i,
      .sum_i,
      .sum_index_i,
      .again_index_i(next_again_i),
      .again_turn_i (next_again_turn_i),
      .again_there_o(next_again_there_o),
      .done_o     (judged),
      .store_o    (store),
      .again_o    (again),
      .gap_o      (gap),
      .too_long_o (too_long),
      .forgotten_o(forgotten),
      .pending_o  (pending),
      .index_o    (index),
      .turn_o
  );

  assign first = form_i == allreduce_switch_pkg::FormFirst;
  assign lead  = first ? 8'd12 : 8'd8;
  // The payload begins at byte 6 of a beat, or at byte 2.
  assign six   = form_i != allreduce_switch_pkg::FormPlain;
  assign take  = valid_i && ready_o;
  assign ready_o = state_q == Store || state_q == Throw || state_q == Refuse;

  always_comb begin
    state_d       = state_q;
    count_d       = count_q;
    again_d       = again_q;
    stale_d       = stale_q || clear_i;
    judge         = 1'b0;
    index_valid_o = 1'b0;
    again_valid_o = 1'b0;
    gap_o         = 1'b0;
    too_long_o    = 1'b0;
    is_forgotten  = 1'b0;
    pending_o     = 1'b0;
    stale_o       = 1'b0;
    case (state_q)
      Idle: begin
        count_d = '0;
        again_d = 1'b0;
        stale_d = 1'b0;
        if (valid_i) begin
          if (clear_i || old_i) begin
            stale_d = 1'b1;
            state_d = Throw;
          end else begin
            judge   = 1'b1;
            state_d = Judge;
          end
        end
      end
      Judge: begin
        if (stale_d) begin
          state_d = Throw;
        end else if (judged) begin
          gap_o       = gap;
          too_long_o  = too_long;
          is_forgotten = forgotten;
          pending_o   = pending;
          again_d     = again;
          if (store) state_d = Store;
          else if (again) state_d = Throw;
          else state_d = Refuse;
        end
      end
      Store: begin
        if (take) begin
          count_d = count_q + 1'b1;
          if (beat_i[64]) state_d = TellIndex;
        end
      end
      Throw: begin
        if (take && beat_i[64]) begin
          if (again_q) state_d = TellAgain;
          else state_d = Idle;
          // One that asks is counted where it does.
          stale_o = !again_q;
        end
      end
      Refuse: if (take && beat_i[64]) state_d = Idle;
      TellIndex: begin
        index_valid_o = !stale_q;
        stale_o       = stale_q;
        if (stale_q || index_ready_i) state_d = Idle;
      end
      default: begin
        again_valid_o = !stale_q;
        stale_o       = stale_q;
        if (stale_q || again_ready_i) state_d = Idle;
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Idle;
      count_q <= '0;
      again_q <= 1'b0;
      stale_q <= 1'b0;
    end else begin
      state_q <= state_d;
      count_q <= count_d;
      again_q <= again_d;
      stale_q <= stale_d;
    end
  end

  // Word w of the payload ends in beat lead + 1 + w. With immediate there is a beat more, of the ICRC alone.
  assign header_we_d  = take && state_q == Store && count_q <= lead;
  assign payload_we_d = take && state_q == Store && count_q > lead && !word[7];
  assign word         = count_q - lead - 8'd1;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      header_we_o  <= 1'b0;
      payload_we_o <= 1'b0;
    end else begin
      header_we_o  <= header_we_d;
      payload_we_o <= payload_we_d;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) held_q <= beat_i[63:16];
    header_addr_o  <= {index, count_q[3:0]};
    header_o       <= beat_i[63:0];
    payload_addr_o <= {index, word[6:0]};
    payload_o      <= six ? {beat_i[47:0], held_q[47:32]} : {beat_i[15:0], held_q};
  end

  assign meta_we_o   = judged && store && state_q == Judge;
  assign meta_addr_o = index;
  assign meta_o      = {form_i, dest_i};
  assign index_o     = index;

  // Where a column has been opened anew since, another header lies, or will. One is counted at a time.
  assign next_again_drop_o = next_again_valid_i && !next_again_there_o && !is_forgotten;
  assign forgotten_o       = is_forgotten || next_again_drop_o;
endmodule
