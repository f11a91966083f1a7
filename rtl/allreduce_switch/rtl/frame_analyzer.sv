// First half of the Frame Parsing Stage (IV.C.1): DEC_FSM reads a frame's header and checks its ICRC while the frame goes into the Proc FIFO;
// PROC_FSM then sends it to the Output Stage or to the Aggregation Frame Handler.
module frame_analyzer #(
    parameter int PORTS = 8,
    parameter int FIFO_DEPTH = 512
) (
    input  logic               clk_i,
    input  logic               rst_ni,
    // Aggregation is enabled at this port; the state of aggregation is cleared.
    input  logic               agg_en_i,
    input  logic               clear_i,
    // From the Port FIFO.
    input  logic               valid_i,
    output logic               ready_o,
    // {last, bytes - 1, data}
    input  logic [67:0]        beat_i,
    input  logic               known_i,
    input  logic [PORTS-1:0]   mask_i,
    // To the Output Stage: a frame begins only where each of its ports has room for the whole of it.
    output logic [PORTS-1:0]   fwd_valid_o,
    output logic [67:0]        fwd_beat_o,
    // Free beats of each port's FIFO.
    input  logic [PORTS*10-1:0] fwd_free_i,
    // To the Aggregation Frame Handler, with what the frame's header says.
    output logic               agg_valid_o,
    input  logic               agg_ready_i,
    // {last, data}
    output logic [64:0]        agg_beat_o,
    output logic               agg_fresh_o,
    output logic [1:0]         agg_form_o,
    output logic [23:0]        agg_psn_o,
    output logic [PORTS-1:0]   agg_dest_o,
    // It was judged before the state was cleared.
    output logic               agg_stale_o,
    output logic               bad_icrc_o,
    output logic               no_destination_o,
    // A First of another connection that is not its first message.
    output logic               gap_o,
    // Not a First, of a QP that is not the port's, and with the flow label of aggregation.
    output logic               unknown_o
);
  localparam int LenW = $clog2(allreduce_switch_pkg::MaxBeats) + 1;
  localparam int InfoW = 2 + PORTS + 1 + 2 + 24 + LenW;
  localparam int InfoDepth = FIFO_DEPTH / 8;
  // Frames that are judged and have not begun: those in the FIFO and the one at its output.
  localparam int WaitW = $clog2(InfoDepth + 2);

  // ---- DEC_FSM
  typedef enum logic {
    Dec,
    Info
  } dec_state_e;

  dec_state_e      dec_state_q, dec_state_d;
  logic            take;
  logic [LenW-1:0] count_q;
  logic [15:0]     held_q;
  logic            is_roce_q, is_grh_q, is_next_q, is_field_q, is_begin_q, is_labelled_q;
  logic [7:0]      opcode_q;
  logic [23:0]     qp_q, psn_q;
  logic [2:0]      bytes_q;
  logic            known_q;
  logic [PORTS-1:0] mask_q;
  logic [31:0]     crc_q, crc_next64, crc_next32;
  logic [63:0]     word, masked;
  logic            is_form, is_first, is_candidate, is_agg, is_unknown, icrc_good, is_fresh;
  logic [1:0]      form;
  // The QP of this port's connection for aggregation.
  logic            own_valid_q, own_valid_d;
  logic [23:0]     own_qp_q, own_qp_d;
  logic            same_qp;

  logic             info_valid, info_ready;
  logic [InfoW-1:0] info;
  logic [1:0]       info_kind;
  logic             proc_write_ready;

  assign take    = valid_i && ready_o;
  assign ready_o = dec_state_q == Dec && proc_write_ready;

  // Words of the ICRC begin with the GRH, at byte 14: two bytes of a beat and six of the next.
  assign word = {beat_i[47:0], held_q};

  always_comb begin
    masked = word;
    // Traffic class, flow label and hop limit.
    if (count_q == LenW'(2)) masked = word | 64'hFF000000_FFFFFF0F;
    // Byte 4 of the BTH.
    if (count_q == LenW'(7)) masked = word | 64'h000000FF_00000000;
  end

  prim_crc32 #(
      .WIDTH(64)
  ) u_crc64 (
      .crc_i (crc_q),
      .data_i(masked),
      .crc_o (crc_next64)
  );

  prim_crc32 #(
      .WIDTH(32)
  ) u_crc32 (
      .crc_i (crc_q),
      .data_i(masked[31:0]),
      .crc_o (crc_next32)
  );

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      count_q <= '0;
    end else if (dec_state_q == Info) begin
      if (info_ready) count_q <= '0;
    end else if (take) begin
      count_q <= count_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      held_q <= beat_i[63:48];
      if (count_q < LenW'(2)) crc_q <= allreduce_switch_pkg::IcrcStart;
      // A frame of 8n + 2 bytes ends with four bytes more.
      else if (beat_i[67] && beat_i[66:64] == 3'd1) crc_q <= crc_next32;
      else crc_q <= crc_next64;
      bytes_q <= beat_i[66:64];
      known_q <= known_i;
      mask_q  <= mask_i;
      case (count_q)
        LenW'(1): begin
          is_roce_q <= beat_i[47:32] == 16'h1589;
          is_grh_q  <= beat_i[55:52] == 4'd6;
          // The flow label 0x4E521 ends in the next beat.
          is_labelled_q <= beat_i[59:56] == 4'h4;
        end
        LenW'(2): begin
          is_next_q     <= beat_i[39:32] == 8'h1B;
          is_labelled_q <= is_labelled_q && beat_i[15:0] == 16'h21E5;
        end
        LenW'(6): opcode_q <= beat_i[55:48];
        LenW'(7): begin
          qp_q         <= {beat_i[31:24], beat_i[39:32], beat_i[47:40]};
          psn_q[23:16] <= beat_i[63:56];
        end
        LenW'(8): psn_q[15:0] <= {beat_i[7:0], beat_i[15:8]};
        // "QNR1"
        LenW'(10): begin
          is_field_q <= beat_i[47:16] == 32'h31524E51;
          is_begin_q <= beat_i[63:48] == 16'd0;
        end
        // Message ID 0.
        LenW'(11): is_begin_q <= is_begin_q && beat_i[15:0] == 16'd0;
        default: ;
      endcase
    end
  end

  // Table VI. An opcode is one for aggregation in exactly its length.
  always_comb begin
    form    = allreduce_switch_pkg::FormPlain;
    is_form = 1'b0;
    case (opcode_q)
      8'h06: begin
        form    = allreduce_switch_pkg::FormFirst;
        is_form = count_q == LenW'(139) && bytes_q == 3'd5;
      end
      8'h07, 8'h08: is_form = count_q == LenW'(137) && bytes_q == 3'd5;
      8'h09: begin
        form    = allreduce_switch_pkg::FormImmediate;
        is_form = count_q == LenW'(138) && bytes_q == 3'd1;
      end
      default: ;
    endcase
  end

  assign same_qp   = own_valid_q && own_qp_q == qp_q;
  assign is_first  = form == allreduce_switch_pkg::FormFirst;
  assign is_candidate = is_form && is_roce_q && is_grh_q && is_next_q && agg_en_i;
  assign is_agg       = is_candidate && (is_first ? is_field_q : same_qp);
  assign is_unknown   = is_candidate && !is_first && !same_qp && is_labelled_q;
  assign is_fresh  = is_first && !same_qp;
  assign icrc_good = crc_q == allreduce_switch_pkg::IcrcResidue;

  always_comb begin
    dec_state_d      = dec_state_q;
    info_kind        = allreduce_switch_pkg::KindDrop;
    info_valid       = 1'b0;
    own_valid_d      = own_valid_q;
    own_qp_d         = own_qp_q;
    bad_icrc_o       = 1'b0;
    no_destination_o = 1'b0;
    gap_o            = 1'b0;
    unknown_o        = 1'b0;
    case (dec_state_q)
      Dec: if (take && beat_i[67]) dec_state_d = Info;
      default: begin
        info_valid = 1'b1;
        if (mask_q != '0) begin
          if (!is_agg && !is_unknown) info_kind = allreduce_switch_pkg::KindForward;
          else if (!is_unknown && icrc_good && known_q && !(is_fresh && !is_begin_q)) info_kind = allreduce_switch_pkg::KindAggregate;
        end
        if (info_ready) begin
          dec_state_d      = Dec;
          bad_icrc_o       = mask_q != '0 && is_agg && !icrc_good;
          no_destination_o = mask_q != '0 && is_agg && icrc_good && !known_q;
          unknown_o        = mask_q != '0 && is_unknown;
          gap_o            = mask_q != '0 && is_agg && icrc_good && known_q && is_fresh && !is_begin_q;
          if (info_kind == allreduce_switch_pkg::KindAggregate && is_first) begin
            own_valid_d = 1'b1;
            own_qp_d    = qp_q;
          end
        end
      end
    endcase
    if (clear_i) own_valid_d = 1'b0;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      dec_state_q <= Dec;
      own_valid_q <= 1'b0;
      own_qp_q    <= '0;
    end else begin
      dec_state_q <= dec_state_d;
      own_valid_q <= own_valid_d;
      own_qp_q    <= own_qp_d;
    end
  end

  assign info = {info_kind, mask_q, is_fresh, form, psn_q, count_q};

  // ---- Decoder Information FIFO and Proc FIFO
  logic                           head_valid, head_ready;
  logic [InfoW-1:0]               head;
  logic                           proc_valid, proc_ready;
  logic [67:0]                    proc_beat;
  logic [$clog2(InfoDepth):0]     info_free;
  logic [$clog2(FIFO_DEPTH):0]    unused_proc_free;

  prim_fifo_sync #(
      .WIDTH(InfoW),
      .DEPTH(InfoDepth)
  ) u_decoder_info_fifo (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(info_valid),
      .ready_o(info_ready),
      .data_i (info),
      .valid_o(head_valid),
      .ready_i(head_ready),
      .data_o (head),
      .free_o (info_free)
  );

  prim_fifo_sync #(
      .WIDTH(68),
      .DEPTH(FIFO_DEPTH)
  ) u_proc_fifo (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(take),
      .ready_o(proc_write_ready),
      .data_i (beat_i),
      .valid_o(proc_valid),
      .ready_i(proc_ready),
      .data_o (proc_beat),
      .free_o (unused_proc_free)
  );

  // ---- PROC_FSM
  // Idle and Judge are the paper's.
  typedef enum logic [2:0] {
    Idle,
    Judge,
    Forward,
    Aggregate,
    Throw
  } proc_state_e;

  proc_state_e      proc_state_q, proc_state_d;
  logic [InfoW-1:0] frame_q, frame_d;
  logic [1:0]       kind;
  logic [PORTS-1:0] mask, room;
  logic [LenW-1:0]  length;

  assign {kind, mask, agg_fresh_o, agg_form_o, agg_psn_o, length} = frame_q;
  assign agg_valid_o = proc_state_q == Aggregate && proc_valid;
  assign agg_dest_o = mask;
  assign fwd_beat_o = proc_beat;
  assign agg_beat_o = {proc_beat[67], proc_beat[63:0]};

  always_comb begin
    for (int p = 0; p < PORTS; p++) room[p] = fwd_free_i[p*10+:10] >= 10'(length);
  end

  always_comb begin
    proc_state_d = proc_state_q;
    frame_d      = frame_q;
    head_ready   = 1'b0;
    proc_ready   = 1'b0;
    fwd_valid_o  = '0;
    case (proc_state_q)
      Idle: begin
        head_ready = 1'b1;
        if (head_valid) begin
          frame_d      = head;
          proc_state_d = Judge;
        end
      end
      Judge: begin
        if (kind == allreduce_switch_pkg::KindDrop) proc_state_d = Throw;
        else if (kind == allreduce_switch_pkg::KindAggregate) proc_state_d = Aggregate;
        else if ((mask & ~room) == '0) proc_state_d = Forward;
      end
      Forward: begin
        proc_ready = 1'b1;
        if (proc_valid) fwd_valid_o = mask;
      end
      Aggregate: begin
        proc_ready = agg_ready_i;
      end
      default: proc_ready = 1'b1;
    endcase
    if (proc_valid && proc_ready && proc_beat[67]) proc_state_d = Idle;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) proc_state_q <= Idle;
    else proc_state_q <= proc_state_d;
  end

  always_ff @(posedge clk_i) frame_q <= frame_d;

  // ---- What was judged before the state of aggregation was cleared: all that waits then, however often it is cleared until they begin.
  logic [WaitW-1:0] old_q, old_d, waiting;
  logic             stale_q, stale_d, begin_frame;

  assign begin_frame = head_valid && head_ready;
  assign waiting     = WaitW'(InfoDepth) - WaitW'(info_free) + WaitW'(head_valid) + WaitW'(info_valid && info_ready);

  always_comb begin
    stale_d = begin_frame ? old_q != '0 : stale_q;
    old_d   = old_q;
    if (clear_i) begin
      stale_d = 1'b1;
      old_d   = waiting - WaitW'(begin_frame);
    end else if (begin_frame && old_q != '0) begin
      old_d = old_q - 1'b1;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      old_q   <= '0;
      stale_q <= 1'b0;
    end else begin
      old_q   <= old_d;
      stale_q <= stale_d;
    end
  end

  assign agg_stale_o = stale_q;
endmodule
