// Parser: reads RoCE v2 frames of a port, a beat a cycle. What is not whole, not for this end of
// the edge or has a wrong invariant CRC is refused. The payload goes to a free page of the port's
// memory while it comes, aligned to beats; its descriptor follows when the CRC is known to be
// right, so what is damaged is never added. A page that was not taken is written again.
`default_nettype none

module port_receiver #(
    parameter int MTU = 4096,
    parameter int QUEUE = 8,
    localparam int BeatsW = $clog2(MTU / 64) > 0 ? $clog2(MTU / 64) : 1
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire inc_engine_pkg::edge_t edge_i,
    // There is no back-pressure. Bytes count from 1 to 64 in the last beat.
    input wire logic rx_valid_i,
    input wire logic rx_last_i,
    input wire logic [6:0] rx_bytes_i,
    input wire logic [511:0] rx_data_i,
    // The page that is free.
    input wire logic page_valid_i,
    input wire logic [7:0] page_i,
    output logic page_take_o,
    output logic we_o,
    output logic [BeatsW-1:0] wbeat_o,
    output logic [511:0] wdata_o,
    // The oldest packet that waits.
    output logic head_valid_o,
    output inc_engine_pkg::descriptor_t head_o,
    input wire logic pop_i,
    // A frame has ended: its descriptor waits, or it was refused, or there was no room for it.
    output logic ended_o,
    output logic refused_o,
    output logic lost_o
);
  import inc_engine_pkg::*;

  localparam int PageBeats = MTU / 64;

  // The remainder over a right frame, and zeros behind it to the end of its last beat.
  function automatic logic [31:0] residue(input int zeros);
    residue = 32'hDEBB20E3;
    for (int i = 0; i < 8 * zeros; i++) begin
      residue = {1'b0, residue[31:1]} ^ (32'hEDB88320 & {32{residue[0]}});
    end
  endfunction

  function automatic logic [16*32-1:0] all_residues();
    for (int i = 0; i < 16; i++) all_residues[32*i+:32] = residue(2 + 4 * i);
  endfunction
  localparam logic [16*32-1:0] Residues = all_residues();

  // Bytes from the front, highest first, as headers have them.
  function automatic logic [15:0] half(input logic [511:0] data, input int at);
    half = {data[8*at+:8], data[8*at+8+:8]};
  endfunction
  function automatic logic [23:0] three(input logic [511:0] data, input int at);
    three = {data[8*at+:8], data[8*at+8+:8], data[8*at+16+:8]};
  endfunction
  function automatic logic [31:0] four(input logic [511:0] data, input int at);
    four = {half(data, at), half(data, at + 2)};
  endfunction

  // Beat 0: the headers.
  logic        first_q;
  logic [10:0] beat_q;
  logic [15:0] total, body;
  logic [19:0] sum;
  logic [7:0]  opcode;
  logic        has_word, carries, knows;
  logic        bad_d, bad_q, word_q;
  logic [1:0]  kind_d, kind_q;
  header_t     header_d, header_q;
  // Bytes to the frame's end, its check sequence not counted.
  logic [16:0] end_d, end_q;

  always_comb begin
    total = half(rx_data_i, 16);
    sum   = '0;
    for (int i = 0; i < 10; i++) sum = sum + 20'(half(rx_data_i, 14 + 2 * i));
    // At most 10 times 0xFFFF: the second fold has no carry that counts.
    sum      = 20'(sum[15:0]) + 20'(sum[19:16]);
    sum      = 20'(sum[15:0]) + 20'(sum[19:16]);
    opcode   = rx_data_i[8*42+:8];
    kind_d   = KindOther;
    has_word = 1'b0;
    carries  = 1'b1;
    knows    = 1'b1;
    unique case (opcode)
      SendFirst, SendMiddle, SendLast, SendOnly: kind_d = KindData;
      SendOnlyImmediate: begin
        kind_d   = KindData;
        has_word = 1'b1;
      end
      Acknowledge: begin
        kind_d   = KindAck;
        has_word = 1'b1;
        carries  = 1'b0;
      end
      8'h03, 8'h06, 8'h07, 8'h08, 8'h09, 8'h0A, 8'h0B, 8'h0C, 8'h0D, 8'h0E, 8'h0F, 8'h10, 8'h12,
      8'h13, 8'h14, 8'h64, 8'h65, 8'h81: ;
      default: knows = 1'b0;
    endcase
    body = total - (has_word ? 16'd48 : 16'd44);
    header_d = '{
        opcode: opcode,
        word: four(rx_data_i, 54),
        psn: three(rx_data_i, 51),
        ack_request: rx_data_i[8*50+7],
        length: body - 16'(rx_data_i[8*43+4+:2])
    };
    if (!has_word) header_d.word = '0;
    end_d = 17'(total) + 17'd14;
    bad_d = half(rx_data_i, 12) != 16'h0800 || rx_data_i[8*14+:8] != 8'h45 ||
        (half(rx_data_i, 20) & 16'hBFFF) != 16'd0 || rx_data_i[8*23+:8] != 8'd17 ||
        sum[15:0] != 16'hFFFF || half(rx_data_i, 36) != RocePort ||
        half(rx_data_i, 38) != total - 16'd20 || rx_data_i[8*43+:4] != 4'd0 || !knows ||
        four(rx_data_i, 26) != edge_i.remote_ip || four(rx_data_i, 30) != edge_i.local_ip ||
        three(rx_data_i, 47) != edge_i.local_qp ||
        // Lengths are whole words, of which a pad is a part.
        total < (has_word ? 16'd48 : 16'd44) || total[1:0] != 2'd0 ||
        16'(rx_data_i[8*43+4+:2]) > body || (!carries && body != 16'd0);
    if (kind_d == KindAck) begin
      unique case (rx_data_i[8*54+5+:3])
        3'd0, 3'd1: ;
        3'd3: bad_d = bad_d || rx_data_i[8*54+:5] > 5'd3;
        default: bad_d = 1'b1;
      endcase
    end
  end

  // The invariant CRC, with ones for what may change on the way and for the local route header.
  logic [511:0] masked;
  logic [31:0]  crc_q, crc_d, mixed;
  logic [16:0]  left;
  logic [10:0]  beat;
  logic         covered;

  assign beat    = first_q ? 11'd0 : beat_q;
  assign left    = (first_q ? end_d : end_q) - {beat, 6'd0};
  assign covered = (first_q ? end_d : end_q) > {beat, 6'd0};

  always_comb begin
    masked = rx_data_i;
    if (first_q) begin
      masked[8*14-1:0]   = {32'hFFFFFFFF, 80'd0};
      masked[8*15+:8]    = 8'hFF;
      masked[8*22+:8]    = 8'hFF;
      masked[8*24+:16]   = 16'hFFFF;
      masked[8*40+:16]   = 16'hFFFF;
      masked[8*46+:8]    = 8'hFF;
    end
    for (int i = 0; i < 64; i++) if (17'(i) >= left) masked[8*i+:8] = 8'd0;
    mixed        = first_q ? 32'd0 : crc_q;
    masked[31:0] = masked[31:0] ^ mixed;
  end

  crc_block u_crc (
      .data_i(masked),
      .crc_o (crc_d)
  );

  logic       done_q, short_q, no_page_q, flush_q;
  logic [5:0] zeros_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      done_q  <= 1'b0;
      flush_q <= 1'b0;
    end else begin
      done_q  <= rx_valid_i && rx_last_i;
      flush_q <= rx_valid_i && rx_last_i;
      if (rx_valid_i) first_q <= rx_last_i;
    end
  end

  logic [79:0] carry_q;
  logic [10:0] wbeat;

  always_ff @(posedge clk_i) begin
    if (rx_valid_i) begin
      beat_q  <= beat + 11'd1;
      short_q <= {beat, 6'd0} + 17'(rx_bytes_i) < (first_q ? end_d : end_q);
      carry_q <= (first_q ? has_word : word_q) ? {32'd0, rx_data_i[511-:48]} : rx_data_i[511-:80];
      if (covered) begin
        crc_q   <= crc_d;
        zeros_q <= 6'(17'd64 - left);
      end
      if (first_q) begin
        bad_q    <= bad_d;
        kind_q   <= kind_d;
        header_q <= header_d;
        word_q   <= has_word;
        end_q    <= end_d;
      end
    end
    // The page is one for the whole frame, from its first beat of payload on.
    if (rx_valid_i && first_q) no_page_q <= 1'b0;
    else if ((we_o || done_q) && !page_valid_i) no_page_q <= 1'b1;
  end

  // The payload, aligned: a beat of it is complete when the next beat of the frame is here.
  assign wbeat   = beat_q - 11'd1;
  assign wbeat_o = BeatsW'(wbeat);
  assign we_o    = (flush_q || (rx_valid_i && !first_q)) && 32'(wbeat) < PageBeats &&
      {wbeat, 6'd0} < 17'(header_q.length) && kind_q == KindData;
  assign wdata_o = word_q ? {rx_data_i[511-48:0], carry_q[47:0]} : {rx_data_i[511-80:0], carry_q};

  logic unused_bits;
  assign unused_bits = ^{edge_i.local_mac, edge_i.remote_mac, edge_i.remote_qp, zeros_q[1:0]};

  // The verdict, a cycle after the last beat.
  logic        good, needs_page, full, push;
  descriptor_t descriptor;

  assign good = !bad_q && !short_q && crc_q == Residues[32*32'(zeros_q[5:2])+:32];
  assign needs_page  = kind_q == KindData && header_q.length != 16'd0;
  assign push        = done_q && good && !full && !(needs_page && (no_page_q || !page_valid_i));
  assign page_take_o = push && needs_page;
  assign ended_o     = done_q;
  assign refused_o   = done_q && !good;
  assign lost_o      = done_q && good && !push;
  assign descriptor  = '{kind: kind_q, header: header_q, page: page_i};

  // Descriptors that wait. One that has nothing to wait for is chosen in the cycle of its verdict.
  logic room;
  assign full = !room;

  show_ahead_queue #(
      .WIDTH  ($bits(descriptor_t)),
      .DEPTH  (QUEUE),
      .AT_ONCE(1)
  ) u_queue (
      .clk_i,
      .rst_ni,
      .push_i (push),
      .data_i (descriptor),
      .room_o (room),
      .valid_o(head_valid_o),
      .data_o (head_o),
      .pop_i
  );
endmodule

`default_nettype wire
