// IncEngine in Mode-II (connection translated): RoCE v2 frames of a group come in by each port,
// are added up or replicated, and leave under the addresses of the edges they go out of. Each
// port is an edge of the group's tree. Frames come and leave as beats of 64 bytes, without their
// frame check sequence.
`default_nettype none

module inc_engine #(
    parameter int PORTS = 8,
    // Twice the window of packets that a rank may have in flight.
    parameter int SLOTS = 32,
    parameter int MTU = 4096,
    parameter int COLLECTIVES = 8,
    parameter int RANKS = 16,
    parameter int INSIDE_F32 = 0,
    parameter int BREAKABLE = 0,
    // Packets of a port that wait for their decisions.
    parameter int QUEUE = 8,
    localparam int PortW = $clog2(PORTS)
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // The group: it stays as it is while the reset is off.
    input wire inc_engine_pkg::edge_t [PORTS-1:0] edge_i,
    input wire logic [PORTS-1:0] edges_i,
    // Edges that do not lead to switches in Mode-II.
    input wire logic [PORTS-1:0] ends_i,
    input wire logic parent_valid_i,
    input wire logic [PortW-1:0] parent_i,
    input wire logic [9:0] ranks_i,
    // The edge toward each rank.
    input wire logic [RANKS*PortW-1:0] toward_i,
    input wire logic [12:0] mtu_i,
    input wire logic [23:0] psn_i,
    // Contributions are added up in the order of the edges, not of arrival.
    input wire logic reproducible_i,
    input wire inc_engine_pkg::mutation_e mutation_i,
    input wire logic [PORTS-1:0] rx_valid_i,
    input wire logic [PORTS-1:0] rx_last_i,
    input wire logic [PORTS*7-1:0] rx_bytes_i,
    input wire logic [PORTS*512-1:0] rx_data_i,
    output logic [PORTS-1:0] tx_valid_o,
    output logic [PORTS-1:0] tx_last_o,
    output logic [PORTS*7-1:0] tx_bytes_o,
    output logic [PORTS*512-1:0] tx_data_o,
    input wire logic [PORTS-1:0] tx_ready_i,
    // What became of frames: ended at the entry, refused or lost there; decided, and why dropped.
    output logic [PORTS-1:0] ended_o,
    output logic [PORTS-1:0] refused_o,
    output logic [PORTS-1:0] lost_o,
    output logic [PORTS-1:0] done_o,
    output logic [3:0] reason_o
);
  import inc_engine_pkg::*;

  localparam int Spare = 16;
  localparam int PageBeats = MTU / 64;
  localparam int BeatsW = $clog2(PageBeats) > 0 ? $clog2(PageBeats) : 1;
  localparam int Pages = SLOTS + Spare;
  localparam int AddressW = $clog2(Pages * PageBeats);
  // A packet's room is taken when it begins, and for as long as it is being added up.
  localparam int OutBeats = (PageBeats * 4 > 64) ? PageBeats * 4 : 64;
  localparam int OutFrames = 16;
  localparam int MarkW = 32;
  localparam int HeaderW = $bits(header_t);

  if (PORTS < 2 || PORTS > 16) begin : gen_check_ports
    expected_2_to_16_as_PORTS u_stop ();
  end
  if (SLOTS < 2 || SLOTS > 128 || (SLOTS & (SLOTS - 1)) != 0) begin : gen_check_slots
    expected_a_power_of_two_to_128_as_SLOTS u_stop ();
  end
  if (MTU < 64 || MTU > 4096 || (MTU & (MTU - 1)) != 0) begin : gen_check_mtu
    expected_a_power_of_two_from_64_to_4096_as_MTU u_stop ();
  end
  if (COLLECTIVES < 2 || COLLECTIVES > 16) begin : gen_check_collectives
    expected_2_to_16_as_COLLECTIVES u_stop ();
  end

  // ---- Entry: parsers, and the memory of each port.
  logic [PORTS-1:0]       head_valid, pop, release_page, take_page, has_page;
  descriptor_t [PORTS-1:0] head;
  logic [PORTS*8-1:0]     released, free_page;
  logic [MarkW-1:0]       fold_made_q, fold_read_q, fold_sent_q;
  logic [MarkW-1:0]       forward_made_q, forward_read_q, forward_sent_q;
  logic                   fold, forward;
  logic [PORTS*512-1:0]   read_data;
  logic [PORTS*8-1:0]     fold_pages, forward_pages;
  logic [BeatsW-1:0]      fold_beat, forward_beat;
  logic                   fold_read, forward_read;
  logic [PORTS-1:0]       fold_sources, forward_sources;

  for (genvar p = 0; p < PORTS; p++) begin : gen_entry
    logic              we;
    logic [BeatsW-1:0] wbeat;
    logic [511:0]      wdata;
    logic [AddressW-1:0] raddr, waddr;
    logic [511:0]      mem_q[0:Pages*PageBeats-1];
    logic [511:0]      read_q;

    port_receiver #(
        .MTU  (MTU),
        .QUEUE(QUEUE)
    ) u_receiver (
        .clk_i,
        .rst_ni,
        .edge_i      (edge_i[p]),
        .rx_valid_i  (rx_valid_i[p]),
        .rx_last_i   (rx_last_i[p]),
        .rx_bytes_i  (rx_bytes_i[7*p+:7]),
        .rx_data_i   (rx_data_i[512*p+:512]),
        .page_valid_i(has_page[p]),
        .page_i      (free_page[8*p+:8]),
        .page_take_o (take_page[p]),
        .we_o        (we),
        .wbeat_o     (wbeat),
        .wdata_o     (wdata),
        .head_valid_o(head_valid[p]),
        .head_o      (head[p]),
        .pop_i       (pop[p]),
        .ended_o     (ended_o[p]),
        .refused_o   (refused_o[p]),
        .lost_o      (lost_o[p])
    );

    page_pool #(
        .SLOTS(SLOTS),
        .SPARE(Spare),
        .MARKW(MarkW)
    ) u_pool (
        .clk_i,
        .rst_ni,
        .valid_o       (has_page[p]),
        .page_o        (free_page[8*p+:8]),
        .take_i        (take_page[p]),
        .release_i     (release_page[p]),
        .release_page_i(released[8*p+:8]),
        .fold_made_i   (fold_made_q + MarkW'(fold)),
        .forward_made_i(forward_made_q + MarkW'(forward)),
        .fold_read_i   (fold_read_q),
        .forward_read_i(forward_read_q)
    );

    // One of the two readers, which never want the same port at once.
    assign waddr = AddressW'(32'(free_page[8*p+:8]) * PageBeats + 32'(wbeat));
    assign raddr = (forward_read && forward_sources[p])
        ? AddressW'(32'(forward_pages[8*p+:8]) * PageBeats + 32'(forward_beat))
        : AddressW'(32'(fold_pages[8*p+:8]) * PageBeats + 32'(fold_beat));

    always_ff @(posedge clk_i) begin
      if (we) mem_q[waddr] <= wdata;
      if (fold_read || forward_read) read_q <= mem_q[raddr];
    end
    assign read_data[512*p+:512] = read_q;
  end

  // ---- Decisions.
  logic                    ready, fold_ready, forward_ready;
  logic [PORTS-1:0]        outs, ack_ready, ack;
  header_t                 header;
  reduction_t              reduction;
  logic [PortW:0]          count;
  logic [PORTS*PortW-1:0]  order;
  logic [PORTS*8-1:0]      pages;
  logic [23:0]             ack_psn;
  logic [7:0]              ack_syndrome;
  reason_e                 reason;

  assign ready    = fold_ready && forward_ready;
  assign reason_o = reason;

  group_control #(
      .PORTS      (PORTS),
      .SLOTS      (SLOTS),
      .COLLECTIVES(COLLECTIVES),
      .RANKS      (RANKS),
      .BREAKABLE  (BREAKABLE)
  ) u_control (
      .clk_i,
      .rst_ni,
      .parent_valid_i,
      .parent_i,
      .edges_i,
      .ends_i,
      .ranks_i,
      .toward_i,
      .mtu_i,
      .psn_i,
      .reproducible_i,
      .mutation_i,
      .head_valid_i  (head_valid),
      .head_i        (head),
      .pop_o         (pop),
      .release_o     (release_page),
      .release_page_o(released),
      .ready_i       (ready),
      .fold_o        (fold),
      .forward_o     (forward),
      .outs_o        (outs),
      .header_o      (header),
      .reduction_o   (reduction),
      .count_o       (count),
      .order_o       (order),
      .pages_o       (pages),
      .ack_ready_i   (ack_ready),
      .ack_o         (ack),
      .ack_psn_o     (ack_psn),
      .ack_syndrome_o(ack_syndrome),
      .done_o,
      .reason_o      (reason)
  );

  // ---- Readers. Packets of both that leave by the same port keep the order of their decisions.
  localparam int TagW = HeaderW + 4 + PortW + 1 + PORTS * PortW;
  logic [PORTS-1:0]    sources, fold_outs, forward_outs, fold_behind, forward_behind;
  logic [5*PORTS-1:0]  fold_open_q, forward_open_q;
  logic                fold_wants, fold_inside, fold_may, fold_first, fold_last;
  logic                unused_forward_wants, forward_inside, forward_may;
  logic                forward_first, forward_last;
  logic [15:0]         fold_beats, forward_beats;
  logic [TagW-1:0]     fold_tag, forward_tag;
  logic                fold_fits, forward_fits;
  logic [PORTS-1:0]    fold_sent, forward_sent;

  always_comb begin
    sources = '0;
    for (int k = 0; k < PORTS; k++) begin
      if (k < 32'(count)) sources[order[PortW*k+:PortW]] = 1'b1;
    end
    for (int p = 0; p < PORTS; p++) begin
      fold_behind[p]    = outs[p] && forward_open_q[5*p+:5] != 5'd0;
      forward_behind[p] = outs[p] && fold_open_q[5*p+:5] != 5'd0;
    end
  end

  packet_reader #(
      .PORTS(PORTS),
      .MTU  (MTU),
      .MARKW(MarkW),
      .TAG  (TagW)
  ) u_fold (
      .clk_i,
      .rst_ni,
      .ready_o     (fold_ready),
      .push_i      (fold),
      .length_i    (header.length),
      .sources_i   (sources),
      .outs_i      (outs),
      .pages_i     (pages),
      .tag_i       ({header, reduction, count, order}),
      .behind_i    ((fold_behind != '0) ? forward_made_q : forward_sent_q),
      .other_done_i(forward_sent_q),
      .wants_o     (fold_wants),
      .inside_o    (fold_inside),
      .sources_o   (fold_sources),
      .outs_o      (fold_outs),
      .beats_o     (fold_beats),
      .may_i       (fold_may),
      .read_o      (fold_read),
      .first_o     (fold_first),
      .last_o      (fold_last),
      .pages_o     (fold_pages),
      .beat_o      (fold_beat),
      .tag_o       (fold_tag)
  );

  packet_reader #(
      .PORTS(PORTS),
      .MTU  (MTU),
      .MARKW(MarkW),
      .TAG  (TagW)
  ) u_forward (
      .clk_i,
      .rst_ni,
      .ready_o     (forward_ready),
      .push_i      (forward),
      .length_i    (header.length),
      .sources_i   (sources),
      .outs_i      (outs),
      .pages_i     (pages),
      .tag_i       ({header, reduction, count, order}),
      .behind_i    ((forward_behind != '0) ? fold_made_q : fold_sent_q),
      .other_done_i(fold_sent_q),
      .wants_o     (unused_forward_wants),
      .inside_o    (forward_inside),
      .sources_o   (forward_sources),
      .outs_o      (forward_outs),
      .beats_o     (forward_beats),
      .may_i       (forward_may),
      .read_o      (forward_read),
      .first_o     (forward_first),
      .last_o      (forward_last),
      .pages_o     (forward_pages),
      .beat_o      (forward_beat),
      .tag_o       (forward_tag)
  );

  // Room in the ports' queues, which is taken when a packet begins.
  logic [16*PORTS-1:0] beats_left_q;
  logic [6*PORTS-1:0]  frames_left_q;
  logic [PORTS-1:0]    beat_pop, header_pop;

  always_comb begin
    fold_fits    = 1'b1;
    forward_fits = 1'b1;
    for (int p = 0; p < PORTS; p++) begin
      if (fold_outs[p] && (beats_left_q[16*p+:16] < fold_beats || frames_left_q[6*p+:6] == 6'd0))
        fold_fits = 1'b0;
      if (forward_outs[p] &&
          (beats_left_q[16*p+:16] < forward_beats || frames_left_q[6*p+:6] == 6'd0))
        forward_fits = 1'b0;
    end
    fold_may    = fold_fits && !(forward_inside && (fold_sources & forward_sources) != '0);
    forward_may = forward_fits && !((fold_inside || (fold_wants && fold_may)) &&
        (fold_sources & forward_sources) != '0);
  end

  // ---- Sums.
  localparam int OutTagW = HeaderW + PORTS + 3;
  logic                   fold_q, forward_q;
  localparam int WayW = 4 + PortW + 1 + PORTS * PortW;
  logic [WayW-1:0]        fold_way_q;
  logic [PortW-1:0]       forward_source_q;
  logic                   unused_forward;
  assign unused_forward = ^forward_tag;
  logic [OutTagW-1:0]     fold_out_q, soon_out, sum_out;
  logic [PORTS-1:0]       forward_outs_q;
  logic                   forward_last_q, forward_data_q;
  logic                   soon, sum_valid;
  logic [511:0]           sum, copy;
  header_t                fold_header, forward_header, soon_header;
  logic [PORTS-1:0]       soon_outs, sum_outs;
  logic                   soon_first, sum_last, sum_data;

  assign fold_header    = fold_tag[TagW-1-:HeaderW];
  assign forward_header = forward_tag[TagW-1-:HeaderW];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fold_q    <= 1'b0;
      forward_q <= 1'b0;
    end else begin
      fold_q    <= fold_read;
      forward_q <= forward_read;
    end
  end
  always_ff @(posedge clk_i) begin
    fold_way_q       <= WayW'(fold_tag);
    forward_source_q <= PortW'(forward_tag);
    fold_out_q     <= {fold_header, fold_outs, fold_first, fold_last, fold_beats != 16'd0};
    forward_outs_q <= forward_outs;
    forward_last_q <= forward_last;
    forward_data_q <= forward_beats != 16'd0;
  end

  reduce_chain #(
      .PORTS     (PORTS),
      .INSIDE_F32(INSIDE_F32),
      .TAG       (OutTagW)
  ) u_chain (
      .clk_i,
      .rst_ni,
      .valid_i    (fold_q),
      .reduction_i(fold_way_q[PORTS*PortW+PortW+1+:4]),
      .count_i    (fold_way_q[PORTS*PortW+:PortW+1]),
      .order_i    (fold_way_q[0+:PORTS*PortW]),
      .data_i     (read_data),
      .tag_i      (fold_out_q),
      .soon_o     (soon),
      .soon_tag_o (soon_out),
      .valid_o    (sum_valid),
      .tag_o      (sum_out),
      .data_o     (sum)
  );

  logic unused_out;
  assign unused_out  = ^{soon_out[1:0], sum_out[OutTagW-1-:HeaderW], sum_out[2]};
  assign soon_header = soon_out[OutTagW-1-:HeaderW];
  assign soon_outs   = soon_out[3+:PORTS];
  assign soon_first  = soon_out[2];
  assign sum_outs    = sum_out[3+:PORTS];
  assign sum_last    = sum_out[1];
  assign sum_data    = sum_out[0];
  assign copy        = read_data[512*32'(forward_source_q)+:512];
  assign fold_sent    = (sum_valid && sum_last) ? sum_outs : '0;
  assign forward_sent = (forward_q && forward_last_q) ? forward_outs_q : '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      fold_made_q    <= '0;
      fold_read_q    <= '0;
      fold_sent_q    <= '0;
      forward_made_q <= '0;
      forward_read_q <= '0;
      forward_sent_q <= '0;
    end else begin
      fold_made_q    <= fold_made_q + MarkW'(fold);
      fold_read_q    <= fold_read_q + MarkW'(fold_read && fold_last);
      fold_sent_q    <= fold_sent_q + MarkW'(sum_valid && sum_last);
      forward_made_q <= forward_made_q + MarkW'(forward);
      forward_read_q <= forward_read_q + MarkW'(forward_read && forward_last);
      forward_sent_q <= forward_sent_q + MarkW'(forward_q && forward_last_q);
    end
  end

  // ---- Exit.
  for (genvar p = 0; p < PORTS; p++) begin : gen_exit
    logic fold_header_push, forward_header_push, fold_beat_push, forward_beat_push;

    assign fold_header_push    = soon && soon_first && soon_outs[p];
    assign forward_header_push = forward_read && forward_first && forward_outs[p];
    assign fold_beat_push      = sum_valid && sum_data && sum_outs[p];
    assign forward_beat_push   = forward_q && forward_data_q && forward_outs_q[p];

    port_sender #(
        .BEATS (OutBeats),
        .FRAMES(OutFrames)
    ) u_sender (
        .clk_i,
        .rst_ni,
        .edge_i        (edge_i[p]),
        .header_push_i (fold_header_push || forward_header_push),
        .header_i      (fold_header_push ? soon_header : forward_header),
        .beat_push_i   (fold_beat_push || forward_beat_push),
        .beat_i        (fold_beat_push ? sum : copy),
        .beat_pop_o    (beat_pop[p]),
        .header_pop_o  (header_pop[p]),
        .ack_ready_o   (ack_ready[p]),
        .ack_push_i    (ack[p]),
        .ack_psn_i     (ack_psn),
        .ack_syndrome_i(ack_syndrome),
        .tx_valid_o    (tx_valid_o[p]),
        .tx_last_o     (tx_last_o[p]),
        .tx_bytes_o    (tx_bytes_o[7*p+:7]),
        .tx_data_o     (tx_data_o[512*p+:512]),
        .tx_ready_i    (tx_ready_i[p])
    );

    logic fold_begins, forward_begins;
    assign fold_begins    = fold_read && fold_first && fold_outs[p];
    assign forward_begins = forward_read && forward_first && forward_outs[p];

    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        beats_left_q[16*p+:16]  <= 16'(OutBeats);
        frames_left_q[6*p+:6]   <= 6'(OutFrames);
        fold_open_q[5*p+:5]     <= '0;
        forward_open_q[5*p+:5]  <= '0;
      end else begin
        beats_left_q[16*p+:16] <= beats_left_q[16*p+:16] + 16'(beat_pop[p]) -
            (fold_begins ? fold_beats : 16'd0) - (forward_begins ? forward_beats : 16'd0);
        frames_left_q[6*p+:6] <= frames_left_q[6*p+:6] + 6'(header_pop[p]) - 6'(fold_begins) -
            6'(forward_begins);
        fold_open_q[5*p+:5] <= fold_open_q[5*p+:5] + 5'(fold && outs[p]) - 5'(fold_sent[p]);
        forward_open_q[5*p+:5] <= forward_open_q[5*p+:5] + 5'(forward && outs[p]) -
            5'(forward_sent[p]);
      end
    end
  end
endmodule

`default_nettype wire
