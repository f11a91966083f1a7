// AllReduce-Switch: an Ethernet switch that adds up RoCE v1 frames as they pass (figure 8). README.md says what becomes of each frame.
module allreduce_switch #(
    parameter int PORTS = 8,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    // AXI streams of the ports' MACs, first byte in the lowest lane, without frame check sequence; a receiver cannot be paused.
    input  logic [PORTS-1:0]    port_clk_i,
    input  logic [PORTS-1:0]    rx_tvalid_i,
    input  logic [PORTS*64-1:0] rx_tdata_i,
    input  logic [PORTS*8-1:0]  rx_tkeep_i,
    input  logic [PORTS-1:0]    rx_tlast_i,
    output logic [PORTS-1:0]    tx_tvalid_o,
    input  logic [PORTS-1:0]    tx_tready_i,
    output logic [PORTS*64-1:0] tx_tdata_o,
    output logic [PORTS*8-1:0]  tx_tkeep_o,
    output logic [PORTS-1:0]    tx_tlast_o,
    input  logic                spi_sck_i,
    input  logic                spi_cs_ni,
    input  logic                spi_mosi_i,
    output logic                spi_miso_o,
    // Of each port, a pulse for a frame that was dropped: allreduce_switch_pkg names the places.
    output logic [PORTS*allreduce_switch_pkg::Reasons-1:0] drop_o
);
  localparam int IndexW = $clog2(FLOWS * FRAMES);
  localparam int MetaW = PORTS + 2;
  localparam int CrossDepth = 64;
  localparam int PortDepth = 16;
  localparam int FrameDepth = 512;

  if (PORTS < 2 || PORTS > 8) begin : gen_check_ports
    expected_2_to_8_PORTS u_stop ();
  end

  logic                 rst_n;
  logic [PORTS-1:0]     port_rst_n;
  logic                 use_float, clear;
  logic [PORTS-1:0]     port_en;
  logic [4:0]           port_num;

  logic [PORTS-1:0]     entry_overrun, entry_giant, overrun;
  logic [PORTS-1:0]     learn, known;
  logic [PORTS*48-1:0]  src, dst;
  logic [PORTS*PORTS-1:0] behind;

  // Forwarded frames: FIFO (from, to) at place from * PORTS + to.
  logic [PORTS*PORTS-1:0]    fwd_write, fwd_valid, fwd_ready;
  logic [PORTS*68-1:0]       fwd_in;
  logic [PORTS*PORTS*68-1:0] fwd_beat;
  logic [PORTS*PORTS*10-1:0] fwd_free;

  // Who writes has looked at the free places.
  logic [PORTS*PORTS-1:0]    unused_fwd_space;
  logic [PORTS-1:0]          unused_frame_space;

  logic [PORTS-1:0]          index_write, index_space, index_valid, index_ready;
  logic [PORTS-1:0]          again_write, again_space, again_valid, again_ready;
  logic [PORTS*IndexW-1:0]   index_in, index_head, again_head;

  logic                      payload_re;
  logic [IndexW+6:0]         payload_addr;
  logic [PORTS*64-1:0]       payload;
  logic                      result_we;
  logic [IndexW+6:0]         result_waddr, result_raddr;
  logic [63:0]               result_in, result;
  logic                      done_valid, done_ready;
  logic [IndexW-1:0]         done_index;
  logic                      read;
  logic [IndexW-1:0]         meta_addr;
  logic [PORTS*MetaW-1:0]    meta;
  logic [IndexW+3:0]         header_addr;
  logic [PORTS*64-1:0]       header;

  logic [PORTS-1:0]          frame_write, frame_valid, frame_ready;
  logic [PORTS*68-1:0]       frame_in, frame_beat;
  logic [PORTS*PORTS-1:0]    frame_in_dest, frame_dest;
  logic [PORTS*10-1:0]       frame_free;
  // By output port, then by branch.
  logic [PORTS*PORTS-1:0]    agg_ready;

  prim_sync_reset u_reset (
      .clk_i,
      .rst_ni,
      .rst_no(rst_n)
  );

  spi_registers #(
      .PORTS(PORTS)
  ) u_spi_registers (
      .clk_i,
      .rst_ni    (rst_n),
      .spi_sck_i,
      .spi_cs_ni,
      .spi_mosi_i,
      .spi_miso_o,
      .float_o   (use_float),
      .port_en_o (port_en),
      .port_num_o(port_num),
      .clear_o   (clear),
      .overrun_i (overrun)
  );

  forwarding_table #(
      .PORTS(PORTS)
  ) u_forwarding_table (
      .clk_i,
      .rst_ni (rst_n),
      .learn_i(learn),
      .src_i  (src),
      .dst_i  (dst),
      .known_o(known),
      .port_o (behind)
  );

  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    logic                        cross_valid, cross_ready;
    logic [68:0]                 cross_beat;
    logic                        analyzed_valid, analyzed_ready, analyzed_known;
    logic [67:0]                 analyzed_beat;
    logic [PORTS-1:0]            analyzed_mask;
    logic                        port_valid, port_ready, port_known;
    logic [67:0]                 port_beat;
    logic [PORTS-1:0]            port_mask;
    logic                        agg_valid, agg_ready_in, agg_fresh;
    logic [64:0]                 agg_beat;
    logic [1:0]                  agg_form;
    logic                        agg_stale;
    logic                        next_again_valid, next_again_there, next_again_drop;
    logic [allreduce_switch_pkg::TurnW-1:0] again_turn_in, next_again_turn;
    logic [23:0]                 agg_psn;
    logic [PORTS-1:0]            agg_dest;
    logic                        analyzer_gap, handler_gap;
    logic                        header_we, payload_we, meta_we;
    logic [IndexW+3:0]           header_waddr;
    logic [IndexW+6:0]           payload_waddr;
    logic [63:0]                 header_in, payload_in;
    logic [IndexW-1:0]           meta_waddr;
    logic [MetaW-1:0]            meta_in;
    logic                        out_valid, out_ready;
    logic [67:0]                 out_beat;
    logic [$clog2(PortDepth):0]  unused_port_free;
    logic [4:0]                  unused_index_free, unused_again_free;
    logic [PORTS-1:0]            to_here, fwd_valid_here, fwd_ready_here;
    logic [PORTS*68-1:0]         fwd_beat_here;

    prim_sync_reset u_port_reset (
        .clk_i (port_clk_i[p]),
        .rst_ni,
        .rst_no(port_rst_n[p])
    );

    // ---- Port Learning Stage
    cross_fifo_rx #(
        .DEPTH    (CrossDepth),
        .MAX_BEATS(allreduce_switch_pkg::MaxBeats)
    ) u_cross_fifo_rx (
        .port_clk_i (port_clk_i[p]),
        .port_rst_ni(port_rst_n[p]),
        .rx_tvalid_i(rx_tvalid_i[p]),
        .rx_tdata_i (rx_tdata_i[p*64+:64]),
        .rx_tkeep_i (rx_tkeep_i[p*8+:8]),
        .rx_tlast_i (rx_tlast_i[p]),
        .overrun_o  (entry_overrun[p]),
        .giant_o    (entry_giant[p]),
        .clk_i,
        .rst_ni     (rst_n),
        .valid_o    (cross_valid),
        .ready_i    (cross_ready),
        .beat_o     (cross_beat)
    );

    prim_sync_pulse #(
        .WIDTH(2)
    ) u_entry_drops (
        .src_clk_i (port_clk_i[p]),
        .src_rst_ni(port_rst_n[p]),
        .pulse_i   ({entry_giant[p], entry_overrun[p]}),
        .dst_clk_i (clk_i),
        .dst_rst_ni(rst_n),
        .pulse_o   ({drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Giant], drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Overrun]})
    );
    assign overrun[p] = drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Overrun];

    port_analyzer #(
        .PORTS(PORTS),
        .PORT (p)
    ) u_port_analyzer (
        .clk_i,
        .rst_ni    (rst_n),
        .valid_i   (cross_valid),
        .ready_o   (cross_ready),
        .beat_i    (cross_beat),
        .learn_o   (learn[p]),
        .src_o     (src[p*48+:48]),
        .dst_o     (dst[p*48+:48]),
        .known_i   (known[p]),
        .port_i    (behind[p*PORTS+:PORTS]),
        .valid_o   (analyzed_valid),
        .ready_i   (analyzed_ready),
        .beat_o    (analyzed_beat),
        .known_o   (analyzed_known),
        .mask_o    (analyzed_mask),
        .runt_o    (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Runt]),
        .filtered_o(drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Filtered])
    );

    prim_fifo_sync #(
        .WIDTH(PORTS + 1 + 68),
        .DEPTH(PortDepth)
    ) u_port_fifo (
        .clk_i,
        .rst_ni (rst_n),
        .clear_i(1'b0),
        .valid_i(analyzed_valid),
        .ready_o(analyzed_ready),
        .data_i ({analyzed_mask, analyzed_known, analyzed_beat}),
        .valid_o(port_valid),
        .ready_i(port_ready),
        .data_o ({port_mask, port_known, port_beat}),
        .free_o (unused_port_free)
    );

    // ---- Frame Parsing Stage
    frame_analyzer #(
        .PORTS     (PORTS),
        .FIFO_DEPTH(FrameDepth)
    ) u_frame_analyzer (
        .clk_i,
        .rst_ni          (rst_n),
        .agg_en_i        (port_en[p]),
        .clear_i         (clear),
        .valid_i         (port_valid),
        .ready_o         (port_ready),
        .beat_i          (port_beat),
        .known_i         (port_known),
        .mask_i          (port_mask),
        .fwd_valid_o     (fwd_write[p*PORTS+:PORTS]),
        .fwd_beat_o      (fwd_in[p*68+:68]),
        .fwd_free_i      (fwd_free[p*PORTS*10+:PORTS*10]),
        .agg_valid_o     (agg_valid),
        .agg_ready_i     (agg_ready_in),
        .agg_beat_o      (agg_beat),
        .agg_fresh_o     (agg_fresh),
        .agg_form_o      (agg_form),
        .agg_psn_o       (agg_psn),
        .agg_dest_o      (agg_dest),
        .agg_stale_o     (agg_stale),
        .bad_icrc_o      (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::BadIcrc]),
        .no_destination_o(drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::NoDestination]),
        .gap_o           (analyzer_gap),
        .unknown_o       (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Unknown])
    );

    aggregation_frame_handler #(
        .PORTS (PORTS),
        .FLOWS (FLOWS),
        .FRAMES(FRAMES)
    ) u_aggregation_frame_handler (
        .clk_i,
        .rst_ni        (rst_n),
        .clear_i       (clear),
        .valid_i       (agg_valid),
        .ready_o       (agg_ready_in),
        .beat_i        (agg_beat),
        .fresh_i       (agg_fresh),
        .form_i        (agg_form),
        .psn_i         (agg_psn),
        .dest_i        (agg_dest),
        .old_i         (agg_stale),
        .sum_i         (done_valid && done_ready && port_en[p]),
        .sum_index_i   (done_index),
        .next_again_valid_i(next_again_valid),
        .next_again_i  (again_head[p*IndexW+:IndexW]),
        .next_again_turn_i(next_again_turn),
        .next_again_there_o(next_again_there),
        .next_again_drop_o (next_again_drop),
        .header_we_o   (header_we),
        .header_addr_o (header_waddr),
        .header_o      (header_in),
        .payload_we_o  (payload_we),
        .payload_addr_o(payload_waddr),
        .payload_o     (payload_in),
        .meta_we_o     (meta_we),
        .meta_addr_o   (meta_waddr),
        .meta_o        (meta_in),
        .index_valid_o (index_write[p]),
        .index_ready_i (index_space[p]),
        .again_valid_o (again_write[p]),
        .again_ready_i (again_space[p]),
        .index_o       (index_in[p*IndexW+:IndexW]),
        .turn_o        (again_turn_in),
        .gap_o         (handler_gap),
        .too_long_o    (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::TooLong]),
        .forgotten_o   (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Forgotten]),
        .pending_o     (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Pending]),
        .stale_o       (drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Stale])
    );

    assign again_valid[p] = next_again_valid && next_again_there;
    assign drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Gap] = analyzer_gap || handler_gap;

    prim_ram_1r1w #(
        .WIDTH(64),
        .DEPTH(FLOWS * FRAMES * 16)
    ) u_frame_header_buffer (
        .clk_i,
        .we_i   (header_we),
        .waddr_i(header_waddr),
        .wdata_i(header_in),
        .re_i   (read),
        .raddr_i(header_addr),
        .rdata_o(header[p*64+:64])
    );

    prim_ram_1r1w #(
        .WIDTH(MetaW),
        .DEPTH(FLOWS * FRAMES)
    ) u_frame_meta_buffer (
        .clk_i,
        .we_i   (meta_we),
        .waddr_i(meta_waddr),
        .wdata_i(meta_in),
        .re_i   (read),
        .raddr_i(meta_addr),
        .rdata_o(meta[p*MetaW+:MetaW])
    );

    prim_ram_1r1w #(
        .WIDTH(64),
        .DEPTH(FLOWS * FRAMES * 128)
    ) u_frame_payload_buffer (
        .clk_i,
        .we_i   (payload_we),
        .waddr_i(payload_waddr),
        .wdata_i(payload_in),
        .re_i   (payload_re),
        .raddr_i(payload_addr),
        .rdata_o(payload[p*64+:64])
    );

    prim_fifo_sync #(
        .WIDTH(IndexW),
        .DEPTH(16)
    ) u_frame_idx_fifo (
        .clk_i,
        .rst_ni (rst_n),
        .clear_i(clear),
        .valid_i(index_write[p]),
        .ready_o(index_space[p]),
        .data_i (index_in[p*IndexW+:IndexW]),
        .valid_o(index_valid[p]),
        .ready_i(index_ready[p]),
        .data_o (index_head[p*IndexW+:IndexW]),
        .free_o (unused_index_free)
    );

    prim_fifo_sync #(
        .WIDTH(allreduce_switch_pkg::TurnW + IndexW),
        .DEPTH(16)
    ) u_retransmission_fifo (
        .clk_i,
        .rst_ni (rst_n),
        .clear_i(clear),
        .valid_i(again_write[p]),
        .ready_o(again_space[p]),
        .data_i ({again_turn_in, index_in[p*IndexW+:IndexW]}),
        .valid_o(next_again_valid),
        .ready_i(again_ready[p] || next_again_drop),
        .data_o ({next_again_turn, again_head[p*IndexW+:IndexW]}),
        .free_o (unused_again_free)
    );

    // ---- Output Stage
    for (genvar q = 0; q < PORTS; q++) begin : gen_to
      if (q == p) begin : gen_none
        // Nothing goes back to where it came from.
        assign unused_fwd_space[p*PORTS+q] = 1'b0;
        assign fwd_valid[p*PORTS+q]       = 1'b0;
        assign fwd_beat[(p*PORTS+q)*68+:68] = '0;
        assign fwd_free[(p*PORTS+q)*10+:10] = '0;
      end else begin : gen_fifo
        prim_fifo_sync #(
            .WIDTH(68),
            .DEPTH(FrameDepth)
        ) u_forward_fifo (
            .clk_i,
            .rst_ni (rst_n),
            .clear_i(1'b0),
            .valid_i(fwd_write[p*PORTS+q]),
            .ready_o(unused_fwd_space[p*PORTS+q]),
            .data_i (fwd_in[p*68+:68]),
            .valid_o(fwd_valid[p*PORTS+q]),
            .ready_i(fwd_ready[p*PORTS+q]),
            .data_o (fwd_beat[(p*PORTS+q)*68+:68]),
            .free_o (fwd_free[(p*PORTS+q)*10+:10])
        );
      end
      // Branch q of what is forwarded and of the aggregation, as this port sees it.
      assign fwd_valid_here[q]           = fwd_valid[q*PORTS+p];
      assign fwd_beat_here[q*68+:68]     = fwd_beat[(q*PORTS+p)*68+:68];
      assign fwd_ready[q*PORTS+p]        = fwd_ready_here[q];
      assign to_here[q]                  = frame_valid[q] && frame_dest[q*PORTS+p];
    end

    prim_fifo_sync #(
        .WIDTH(PORTS + 68),
        .DEPTH(FrameDepth)
    ) u_frame_fifo (
        .clk_i,
        .rst_ni (rst_n),
        .clear_i(1'b0),
        .valid_i(frame_write[p]),
        .ready_o(unused_frame_space[p]),
        .data_i ({frame_in_dest[p*PORTS+:PORTS], frame_in[p*68+:68]}),
        .valid_o(frame_valid[p]),
        .ready_i(frame_ready[p]),
        .data_o ({frame_dest[p*PORTS+:PORTS], frame_beat[p*68+:68]}),
        .free_o (frame_free[p*10+:10])
    );

    output_arbiter #(
        .PORTS(PORTS)
    ) u_output_arbiter (
        .clk_i,
        .rst_ni     (rst_n),
        .fwd_valid_i(fwd_valid_here),
        .fwd_ready_o(fwd_ready_here),
        .fwd_beat_i (fwd_beat_here),
        .agg_valid_i(to_here),
        .agg_ready_o(agg_ready[p*PORTS+:PORTS]),
        .agg_beat_i (frame_beat),
        .valid_o    (out_valid),
        .ready_i    (out_ready),
        .beat_o     (out_beat)
    );

    cross_fifo_tx u_cross_fifo_tx (
        .clk_i,
        .rst_ni     (rst_n),
        .valid_i    (out_valid),
        .ready_o    (out_ready),
        .beat_i     (out_beat),
        .port_clk_i (port_clk_i[p]),
        .port_rst_ni(port_rst_n[p]),
        .tx_tvalid_o(tx_tvalid_o[p]),
        .tx_tready_i(tx_tready_i[p]),
        .tx_tdata_o (tx_tdata_o[p*64+:64]),
        .tx_tkeep_o (tx_tkeep_o[p*8+:8]),
        .tx_tlast_o (tx_tlast_o[p])
    );
  end

  always_comb begin
    frame_ready = '0;
    for (int p = 0; p < PORTS; p++) frame_ready = frame_ready | agg_ready[p*PORTS+:PORTS];
  end

  // ---- Aggregation Stage
  aggregation_processor #(
      .PORTS (PORTS),
      .FLOWS (FLOWS),
      .FRAMES(FRAMES)
  ) u_aggregation_processor (
      .clk_i,
      .rst_ni        (rst_n),
      .clear_i       (clear),
      .float_i       (use_float),
      .port_en_i     (port_en),
      .port_num_i    (port_num),
      .index_valid_i (index_valid),
      .index_ready_o (index_ready),
      .index_i       (index_head),
      .payload_re_o  (payload_re),
      .payload_addr_o(payload_addr),
      .payload_i     (payload),
      .result_we_o   (result_we),
      .result_addr_o (result_waddr),
      .result_o      (result_in),
      .done_valid_o  (done_valid),
      .done_ready_i  (done_ready),
      .done_index_o  (done_index)
  );

  prim_ram_1r1w #(
      .WIDTH(64),
      .DEPTH(FLOWS * FRAMES * 128)
  ) u_aggregation_result_buffer (
      .clk_i,
      .we_i   (result_we),
      .waddr_i(result_waddr),
      .wdata_i(result_in),
      .re_i   (read),
      .raddr_i(result_raddr),
      .rdata_o(result)
  );

  aggregation_output_arbiter #(
      .PORTS (PORTS),
      .FLOWS (FLOWS),
      .FRAMES(FRAMES)
  ) u_aggregation_output_arbiter (
      .clk_i,
      .rst_ni       (rst_n),
      .clear_i      (clear),
      .port_en_i    (port_en),
      .done_valid_i (done_valid),
      .done_ready_o (done_ready),
      .done_index_i (done_index),
      .again_valid_i(again_valid),
      .again_ready_o(again_ready),
      .again_index_i(again_head),
      .read_o       (read),
      .meta_addr_o  (meta_addr),
      .meta_i       (meta),
      .header_addr_o(header_addr),
      .header_i     (header),
      .sum_addr_o   (result_raddr),
      .sum_i        (result),
      .valid_o      (frame_write),
      .beat_o       (frame_in),
      .dest_o       (frame_in_dest),
      .free_i       (frame_free)
  );
endmodule
