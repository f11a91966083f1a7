// The switch with what its stages do to frames laid open, so that a bench knows the order of what happens at several ports at once.
module observed_switch #(
    parameter int PORTS = 8,
    parameter int FLOWS = 4,
    parameter int FRAMES = 128
) (
    input  logic                clk_i,
    input  logic                rst_ni,
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
    output logic [PORTS*allreduce_switch_pkg::Reasons-1:0] drop_o,
    // Of the port's clock: the frame that is coming in is dropped at the entry, for want of room or as it is too long.
    output logic [PORTS-1:0]    lost_o,
    // Of the processing clock, by port. A frame's source is learned (of one that was cut at the entry: not), and its destination looked up.
    output logic [PORTS-1:0]    learn_o,
    output logic [PORTS-1:0]    cut_o,
    output logic [PORTS-1:0]    find_o,
    // DEC_FSM has judged a frame: KindDrop, KindForward or KindAggregate.
    output logic [PORTS-1:0]    judge_o,
    output logic [PORTS*2-1:0]  kind_o,
    // The Aggregation Frame Handler has refused a frame (gap, too long, forgotten, pending), is done with one that it stored, with one that asks for
    // its sum once more, or with a stale one.
    output logic [PORTS-1:0]    refuse_o,
    output logic [PORTS-1:0]    store_o,
    output logic [PORTS-1:0]    ask_o,
    output logic [PORTS-1:0]    stale_o,
    // A retransmission is forgotten before it leaves, or begins to leave.
    output logic [PORTS-1:0]    forget_o,
    output logic [PORTS-1:0]    again_o,
    // A sum is there, or begins to leave.
    output logic                sum_o,
    output logic                done_o,
    // A register was written.
    output logic                clear_o,
    // Something is in a buffer, or under way.
    output logic                busy_o
);
  logic [PORTS-1:0] busy;

  allreduce_switch #(
      .PORTS (PORTS),
      .FLOWS (FLOWS),
      .FRAMES(FRAMES)
  ) u_switch (
      .clk_i,
      .rst_ni,
      .port_clk_i,
      .rx_tvalid_i,
      .rx_tdata_i,
      .rx_tkeep_i,
      .rx_tlast_i,
      .tx_tvalid_o,
      .tx_tready_i,
      .tx_tdata_o,
      .tx_tkeep_o,
      .tx_tlast_o,
      .spi_sck_i,
      .spi_cs_ni,
      .spi_mosi_i,
      .spi_miso_o,
      .drop_o
  );

  // States by number, as each module has them in order.
  for (genvar p = 0; p < PORTS; p++) begin : gen_port
    assign lost_o[p]  = u_switch.entry_overrun[p] || u_switch.entry_giant[p];
    assign learn_o[p] = u_switch.gen_port[p].u_port_analyzer.state_q == 2'd1;
    assign cut_o[p]   = u_switch.gen_port[p].u_port_analyzer.abort_q;
    assign find_o[p]  = u_switch.gen_port[p].u_port_analyzer.state_q == 2'd2;

    assign judge_o[p]      = u_switch.gen_port[p].u_frame_analyzer.info_valid && u_switch.gen_port[p].u_frame_analyzer.info_ready;
    assign kind_o[p*2+:2]  = u_switch.gen_port[p].u_frame_analyzer.info_kind;

    assign refuse_o[p] = drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::TooLong]
        || drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Pending]
        || u_switch.gen_port[p].u_aggregation_frame_handler.gap_o
        || u_switch.gen_port[p].u_aggregation_frame_handler.is_forgotten;
    assign store_o[p]  = u_switch.index_write[p] && u_switch.index_space[p];
    assign ask_o[p]    = u_switch.again_write[p] && u_switch.again_space[p];
    assign stale_o[p]  = drop_o[p*allreduce_switch_pkg::Reasons+allreduce_switch_pkg::Stale];
    assign forget_o[p] = u_switch.gen_port[p].next_again_drop;
    assign again_o[p]  = u_switch.again_ready[p];

    assign busy[p] = u_switch.gen_port[p].u_port_analyzer.state_q != 2'd0
        || u_switch.gen_port[p].cross_valid || u_switch.gen_port[p].port_valid
        || u_switch.gen_port[p].u_frame_analyzer.proc_valid || u_switch.gen_port[p].u_frame_analyzer.head_valid
        || u_switch.gen_port[p].u_frame_analyzer.proc_state_q != 3'd0
        || u_switch.gen_port[p].u_aggregation_frame_handler.state_q != 3'd0
        || u_switch.index_valid[p] || u_switch.gen_port[p].next_again_valid
        || u_switch.fwd_valid[p*PORTS+:PORTS] != '0 || u_switch.frame_valid[p] || tx_tvalid_o[p];
  end

  assign sum_o   = u_switch.u_aggregation_processor.out_last;
  assign done_o  = u_switch.done_valid && u_switch.done_ready;
  assign clear_o = u_switch.clear;
  assign busy_o  = busy != '0 || u_switch.done_valid || u_switch.u_aggregation_processor.job_waits || u_switch.u_aggregation_processor.busy_q;
endmodule
