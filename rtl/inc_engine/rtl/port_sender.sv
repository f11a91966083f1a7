// TranslateHeader and Forward: makes frames of a port from headers and beats of payload, with the
// addresses of the edge and a new invariant CRC; and the acknowledges, which go first. A frame
// takes a cycle for its headers and one for each beat of its payload, of which each completes one
// of the frame; what is left of it leaves while the next frame's headers are made.
`default_nettype none

module port_sender #(
    // Beats of payload that may wait, and frames.
    parameter int BEATS = 128,
    parameter int FRAMES = 16,
    parameter int ACKS = 16
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire inc_engine_pkg::edge_t edge_i,
    input wire logic header_push_i,
    input wire inc_engine_pkg::header_t header_i,
    input wire logic beat_push_i,
    input wire logic [511:0] beat_i,
    // A beat, or a frame's header, has left its queue.
    output logic beat_pop_o,
    output logic header_pop_o,
    output logic ack_ready_o,
    input wire logic ack_push_i,
    input wire logic [23:0] ack_psn_i,
    input wire logic [7:0] ack_syndrome_i,
    output logic tx_valid_o,
    output logic tx_last_o,
    output logic [6:0] tx_bytes_o,
    output logic [511:0] tx_data_o,
    input wire logic tx_ready_i
);
  import inc_engine_pkg::*;

  logic         advance, header_valid, beat_valid, ack_valid, ack_pop;
  header_t      header, chosen;
  logic [511:0] beat;
  logic [31:0]  ack;
  // Who puts something in has counted what is there.
  logic         unused_header_room, unused_beat_room;

  show_ahead_queue #(
      .WIDTH($bits(header_t)),
      .DEPTH(FRAMES)
  ) u_headers (
      .clk_i,
      .rst_ni,
      .push_i (header_push_i),
      .data_i (header_i),
      .room_o (unused_header_room),
      .valid_o(header_valid),
      .data_o (header),
      .pop_i  (header_pop_o)
  );

  show_ahead_queue #(
      .WIDTH(512),
      .DEPTH(BEATS)
  ) u_beats (
      .clk_i,
      .rst_ni,
      .push_i (beat_push_i),
      .data_i (beat_i),
      .room_o (unused_beat_room),
      .valid_o(beat_valid),
      .data_o (beat),
      .pop_i  (beat_pop_o)
  );

  show_ahead_queue #(
      .WIDTH(32),
      .DEPTH(ACKS)
  ) u_acks (
      .clk_i,
      .rst_ni,
      .push_i (ack_push_i),
      .data_i ({ack_syndrome_i, ack_psn_i}),
      .room_o (ack_ready_o),
      .valid_o(ack_valid),
      .data_o (ack),
      .pop_i  (ack_pop)
  );

  // What comes next: headers, a beat of payload, or the end of a frame that has none.
  typedef enum logic [1:0] {
    Headers,
    Payload,
    End
  } part_e;

  logic        inside_q, empty_q, starts, takes;
  logic [15:0] left_q, words;
  logic        part_valid_q, part_last_q, has_word_q;
  part_e       part_q;
  logic [4:0]  part_words_q;
  logic [511:0] part_data_q;

  assign starts       = advance && !inside_q && (ack_valid || header_valid);
  assign ack_pop      = starts && ack_valid;
  assign header_pop_o = starts && !ack_valid;
  assign takes        = advance && inside_q && (empty_q || beat_valid);
  assign beat_pop_o   = takes && !empty_q;
  assign chosen       = ack_valid ? '{
          opcode: Acknowledge,
          word: {ack[31:24], 24'd0},
          psn: ack[23:0],
          ack_request: 1'b0,
          length: 16'd0
      } : header;

  // The frame's first bytes, highest first, and their form under the CRC.
  logic [15:0]  total, sum;
  logic [19:0]  long_sum;
  logic [1:0]   pad;
  logic         has_word;
  logic [58*8-1:0] ordered, bytes;
  logic [64*8-1:0] covered, covered_bytes;
  logic [11*8-1:0] transport;

  logic unused_qp;
  assign unused_qp = ^edge_i.local_qp;
  assign has_word = chosen.opcode == SendOnlyImmediate || chosen.opcode == Acknowledge;
  assign pad      = 2'd0 - chosen.length[1:0];
  assign total    = 16'd44 + (has_word ? 16'd4 : 16'd0) + chosen.length + 16'(pad);
  assign words    = (chosen.length + 16'd3) >> 2;

  always_comb begin
    long_sum = 20'h04500 + 20'h04000 + 20'h04011 + 20'(total) + 20'(edge_i.local_ip[31:16]) +
        20'(edge_i.local_ip[15:0]) + 20'(edge_i.remote_ip[31:16]) + 20'(edge_i.remote_ip[15:0]);
    long_sum = 20'(long_sum[15:0]) + 20'(long_sum[19:16]);
    sum      = ~(long_sum[15:0] + 16'(long_sum[19:16]));
    // From the queue pair's number on.
    transport = {edge_i.remote_qp, chosen.ack_request, 7'd0, chosen.psn, chosen.word};
    ordered = {
        edge_i.remote_mac, edge_i.local_mac, 16'h0800,
        16'h4500, total, 16'h0000, 16'h4000, 8'd64, 8'd17, sum, edge_i.local_ip, edge_i.remote_ip,
        RocePort, RocePort, total - 16'd20, 16'h0000,
        chosen.opcode, 2'b01, pad, 4'd0, 16'hFFFF, 8'h00, transport
    };
    covered = {
        192'd0,
        16'h45FF, total, 16'h0000, 16'h4000, 8'hFF, 8'd17, 16'hFFFF, edge_i.local_ip,
        edge_i.remote_ip, RocePort, RocePort, total - 16'd20, 16'hFFFF,
        chosen.opcode, 2'b01, pad, 4'd0, 16'hFFFF, 8'hFF, transport[11*8-1:32]
    };
    if (has_word) covered = {covered[60*8-1:0], chosen.word};
    // The local route header's ones; those that the CRC begins with are their first half.
    covered[8*(has_word ? 44 : 40)+:32] = 32'hFFFFFFFF;
    for (int i = 0; i < 58; i++) bytes[8*i+:8] = ordered[8*(57-i)+:8];
    for (int i = 0; i < 64; i++) covered_bytes[8*i+:8] = covered[8*(63-i)+:8];
    if (!has_word) bytes[8*54+:32] = '0;
  end

  logic [58*8-1:0] part_bytes_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q     <= 1'b0;
      part_valid_q <= 1'b0;
    end else if (advance) begin
      part_valid_q <= starts || takes;
      if (starts) inside_q <= 1'b1;
      else if (takes && left_q <= 16'd16) inside_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (advance) begin
      if (starts) begin
        left_q       <= words;
        empty_q      <= words == 16'd0;
        part_q       <= Headers;
        part_data_q  <= covered_bytes;
        part_words_q <= 5'd16;
        part_last_q  <= 1'b0;
        has_word_q   <= has_word;
        part_bytes_q <= bytes;
      end else if (takes) begin
        left_q       <= left_q - 16'd16;
        part_q       <= empty_q ? End : Payload;
        part_last_q  <= left_q <= 16'd16;
        part_words_q <= (left_q < 16'd16) ? 5'(left_q) : 5'd16;
        part_data_q  <= beat;
        // Nothing is behind the payload; its pad is zeros.
        if (left_q <= 16'd16) begin
          for (int i = 0; i < 64; i++) begin
            if (16'(i) >= tail_bytes_q) part_data_q[8*i+:8] <= 8'd0;
          end
        end
      end
      if (starts) begin
        tail_bytes_q <= (chosen.length[5:0] == 6'd0) ? 16'd64 : {10'd0, chosen.length[5:0]};
      end
    end
  end
  logic [15:0] tail_bytes_q;

  // The CRC: a last beat that is not full is moved to the end, behind zeros.
  logic [31:0]  crc_q, crc;
  logic [511:0] mixed;

  always_comb begin
    mixed = part_data_q;
    if (part_q != Headers) mixed[31:0] = mixed[31:0] ^ crc_q;
    mixed = mixed << {5'd16 - part_words_q, 5'd0};
  end

  crc_block u_crc (
      .data_i(mixed),
      .crc_o (crc)
  );

  logic         made_valid_q, made_last_q, word_q;
  part_e        made_q;
  logic [4:0]   made_words_q;
  logic [511:0] made_data_q;
  logic [58*8-1:0] made_bytes_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) made_valid_q <= 1'b0;
    else if (advance) made_valid_q <= part_valid_q;
  end
  always_ff @(posedge clk_i) begin
    if (advance && part_valid_q) begin
      made_q       <= part_q;
      made_last_q  <= part_last_q;
      made_words_q <= part_words_q;
      made_data_q  <= part_data_q;
      made_bytes_q <= part_bytes_q;
      word_q       <= has_word_q;
      if (part_q != End) crc_q <= crc;
    end
  end

  // Beats of the frame: what is left of the one before, the payload, the CRC behind it.
  // Up to 58 bytes of payload and the CRC.
  logic [62*8-1:0] rest_q;
  logic            tail_q;
  logic [6:0]      tail_left_q;
  logic [1023:0]   whole;
  logic [7:0]      at, ends;
  logic            emits;

  always_comb begin
    at    = word_q ? 8'd58 : 8'd54;
    whole = 1024'(rest_q);
    if (made_q == Payload) begin
      whole = whole | (1024'(made_data_q) << (word_q ? 58 * 8 : 54 * 8));
      at    = at + {1'b0, made_words_q, 2'd0};
    end
    if (made_last_q || made_q == End) whole = whole | ({992'd0, ~crc_q} << {at, 3'd0});
    ends  = at + 8'd4;
    emits = made_valid_q && made_q != Headers;
  end

  assign tx_valid_o = tail_q || emits;
  assign tx_data_o  = tail_q ? 512'(rest_q) : whole[511:0];
  assign tx_last_o  = tail_q || ((made_last_q || made_q == End) && ends <= 8'd64);
  assign tx_bytes_o = tail_q ? tail_left_q : (tx_last_o ? 7'(ends) : 7'd64);
  assign advance    = !tx_valid_o || tx_ready_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) tail_q <= 1'b0;
    else if (advance) tail_q <= emits && made_last_q && ends > 8'd64;
  end
  always_ff @(posedge clk_i) begin
    if (advance && made_valid_q) begin
      tail_left_q <= 7'(ends - 8'd64);
      rest_q      <= (made_q == Headers) ? {32'd0, made_bytes_q} : whole[512+:62*8];
    end
  end
endmodule

`default_nettype wire
