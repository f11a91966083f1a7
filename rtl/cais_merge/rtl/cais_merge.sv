// What CAIS adds to a switch (III-A2, III-B3): the merge unit of one home's port, and the group
// sync table. Packets with the CAIS bit come in one stream, as a crossbar hands them to a port, and
// so do the home's answers to the unit's reads; syncs are sorted out of it.
`default_nettype none

module cais_merge #(
    // Accelerators around the switch.
    parameter int PORTS = 8,
    // Of the merging table, each a packet's payload (V-A2: 40 KB a port).
    parameter int ENTRIES = 320,
    parameter int PAYLOAD_BYTES = 128,
    // Of the sync table, and streams that have a boundary of their own.
    parameter int GROUPS = 1024,
    parameter int STREAMS = 8,
    // Cycles after which an entry, and a group, are given up.
    parameter int TIMEOUT = 5000,
    parameter int GROUP_TIMEOUT = 100000,
    // Whether `mutation_i` breaks a rule.
    parameter int BREAKABLE = 0
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic [11:0] node_i,
    input wire logic [3:0] home_i,
    input wire logic [4:0] participants_i,
    input wire logic [1:0] type_i,
    input wire logic [3:0] mutation_i,
    // Packets, flit by flit, and the port that each comes from.
    input wire logic valid_i,
    output logic ready_o,
    input wire logic last_i,
    input wire logic [3:0] port_i,
    input wire logic [cais_pkg::FlitW-1:0] flit_i,
    // What leaves, and for which ports.
    output logic valid_o,
    input wire logic ready_i,
    output logic last_o,
    output logic [15:0] ports_o,
    output logic [cais_pkg::FlitW-1:0] flit_o,
    // Releases of groups, a flit each.
    output logic release_valid_o,
    input wire logic release_ready_i,
    output logic [3:0] release_port_o,
    output logic [cais_pkg::FlitW-1:0] release_flit_o,
    // What has been decided, and when: of merges, and of syncs.
    output logic decided_o,
    output logic expired_o,
    output logic [31:0] at_o,
    output logic [2:0] drop_o,
    output logic sync_decided_o,
    output logic sync_expired_o,
    output logic [31:0] sync_at_o,
    output logic [2:0] sync_drop_o,
    // All that is cached has been forgotten.
    output logic forgotten_o,
    // Entries that are taken.
    output logic [10:0] taken_o,
    output logic idle_o
);
  localparam logic [3:0] ForgetsLast = 4'd13;
  localparam logic [3:0] BoundaryShort = 4'd14;

  logic                   header_valid, header_ready, has_data, is_sync;
  prim_flit_pkg::header_t header_in;
  logic [3:0]             header_port;
  logic                   merge_ready, sync_ready;
  logic                   data_valid, data_ready, data_last;
  logic [cais_pkg::FlitW-1:0] data;
  logic                   forget;
  logic                   pushed, room, move_valid, move_ready;
  cais_pkg::move_t        decided_move, move;
  cais_pkg::drop_e        drop, sync_drop;
  logic                   control_idle, mover_idle, sync_idle;

  packet_splitter u_splitter (
      .clk_i,
      .rst_ni,
      .valid_i,
      .ready_o,
      .last_i,
      .port_i,
      .flit_i,
      .header_valid_o(header_valid),
      .header_ready_i(header_ready),
      .header_o      (header_in),
      .has_data_o    (has_data),
      .port_o        (header_port),
      .data_valid_o  (data_valid),
      .data_ready_i  (data_ready),
      .data_last_o   (data_last),
      .data_o        (data)
  );

  // A sync carries nothing; one that does is none.
  assign is_sync      = header_in.kind == prim_flit_pkg::KindSync && !has_data;
  assign header_ready = is_sync ? sync_ready : merge_ready;

  merge_control #(
      .PORTS(PORTS),
      .ENTRIES(ENTRIES),
      .PAYLOAD_BYTES(PAYLOAD_BYTES),
      .TIMEOUT(TIMEOUT),
      .BREAKABLE(BREAKABLE)
  ) u_control (
      .clk_i,
      .rst_ni,
      .node_i,
      .home_i,
      .participants_i,
      .type_i,
      .mutation_i    ((mutation_i < ForgetsLast) ? mutation_i : 4'd0),
      .header_valid_i(header_valid && !is_sync),
      .header_ready_o(merge_ready),
      .header_i      (header_in),
      .has_data_i    (has_data),
      .port_i        (header_port),
      .forget_i      (forget),
      .forgotten_o,
      .move_valid_o  (pushed),
      .move_room_i   (room),
      .move_o        (decided_move),
      .decided_o,
      .expired_o,
      .at_o,
      .drop_o        (drop),
      .taken_o,
      .idle_o        (control_idle)
  );

  logic [3:0] unused_free;

  prim_fifo_sync #(
      .WIDTH(cais_pkg::MoveW),
      .DEPTH(8)
  ) u_moves (
      .clk_i,
      .rst_ni,
      .clear_i(1'b0),
      .valid_i(pushed),
      .ready_o(room),
      .data_i (decided_move),
      .valid_o(move_valid),
      .ready_i(move_ready),
      .data_o (move),
      .free_o (unused_free)
  );

  packet_mover #(
      .PORTS(PORTS),
      .ENTRIES(ENTRIES),
      .PAYLOAD_BYTES(PAYLOAD_BYTES)
  ) u_mover (
      .clk_i,
      .rst_ni,
      .type_i,
      .move_valid_i(move_valid),
      .move_ready_o(move_ready),
      .move_i      (move),
      .data_valid_i(data_valid),
      .data_ready_o(data_ready),
      .data_last_i (data_last),
      .data_i      (data),
      .valid_o,
      .ready_i,
      .last_o,
      .ports_o,
      .flit_o,
      .idle_o      (mover_idle)
  );

  group_sync_table #(
      .PORTS(PORTS),
      .GROUPS(GROUPS),
      .STREAMS(STREAMS),
      .TIMEOUT(GROUP_TIMEOUT),
      .BREAKABLE(BREAKABLE)
  ) u_groups (
      .clk_i,
      .rst_ni,
      .node_i,
      .forgets_last_i  (mutation_i == ForgetsLast),
      .boundary_short_i(mutation_i == BoundaryShort),
      .header_valid_i  (header_valid && is_sync),
      .header_ready_o  (sync_ready),
      .header_i        (header_in),
      .port_i          (header_port),
      .forget_o        (forget),
      .forgotten_i     (forgotten_o),
      .valid_o         (release_valid_o),
      .ready_i         (release_ready_i),
      .port_o          (release_port_o),
      .flit_o          (release_flit_o),
      .decided_o       (sync_decided_o),
      .expired_o       (sync_expired_o),
      .at_o            (sync_at_o),
      .drop_o          (sync_drop),
      .idle_o          (sync_idle)
  );

  assign drop_o      = drop;
  assign sync_drop_o = sync_drop;
  assign idle_o      = control_idle && mover_idle && sync_idle;
endmodule

`default_nettype wire
