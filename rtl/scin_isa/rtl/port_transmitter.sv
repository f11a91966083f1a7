// What leaves by a port (3.2): whole packets, the accelerator's and the switch core's in turn, and
// the classes of each in turn, where the receiver has room.
`default_nettype none

module port_transmitter #(
    parameter int FLIT_W = 256
) (
    input wire logic clk_i,
    input wire logic rst_ni,
    // Of the in-switch accelerator, reads and writes.
    input wire logic [1:0] isa_valid_i,
    input wire logic [1:0] isa_last_i,
    output logic [1:0] isa_ready_o,
    input wire logic [2*FLIT_W-1:0] isa_flit_i,
    // Of the switch core, by class.
    input wire logic [3:0] core_valid_i,
    input wire logic [3:0] core_last_i,
    output logic [3:0] core_ready_o,
    input wire logic [4*FLIT_W-1:0] core_flit_i,
    // Whether there is a credit for a channel, and that it is taken: four classes of the core, two
    // of the accelerator.
    input wire logic [5:0] has_credit_i,
    output logic [5:0] take_credit_o,
    // The link takes a flit a cycle.
    output logic valid_o,
    output logic last_o,
    output logic [FLIT_W-1:0] flit_o
);
  logic [3:0] core_want, core_grant;
  logic [1:0] isa_want, isa_grant, set_want, set_grant;
  logic       begins, inside_q;
  // Sources: the accelerator's reads and writes, the core's classes.
  logic [5:0] chosen, whose, whose_q, valid, last;
  logic       unused_core_valid, unused_isa_valid, unused_set_valid;
  logic [1:0] unused_core_index;
  logic       unused_isa_index, unused_set_index;

  assign core_want = core_valid_i & has_credit_i[3:0];
  assign isa_want  = isa_valid_i & has_credit_i[5:4];
  assign set_want  = {core_want != '0, isa_want != '0};

  prim_arbiter_rr #(
      .N(2)
  ) u_sets (
      .clk_i,
      .rst_ni,
      .req_i  (set_want),
      .take_i (begins),
      .valid_o(unused_set_valid),
      .gnt_o  (set_grant),
      .idx_o  (unused_set_index)
  );

  prim_arbiter_rr #(
      .N(2)
  ) u_isa (
      .clk_i,
      .rst_ni,
      .req_i  (isa_want),
      .take_i (begins && set_grant[0]),
      .valid_o(unused_isa_valid),
      .gnt_o  (isa_grant),
      .idx_o  (unused_isa_index)
  );

  prim_arbiter_rr #(
      .N(4)
  ) u_core (
      .clk_i,
      .rst_ni,
      .req_i  (core_want),
      .take_i (begins && set_grant[1]),
      .valid_o(unused_core_valid),
      .gnt_o  (core_grant),
      .idx_o  (unused_core_index)
  );

  assign chosen = {set_grant[1] ? core_grant : 4'd0, set_grant[0] ? isa_grant : 2'd0};
  assign begins = !inside_q && set_want != '0;
  assign whose  = inside_q ? whose_q : chosen;
  assign valid  = {core_valid_i, isa_valid_i};
  assign last   = {core_last_i, isa_last_i};

  assign {core_ready_o, isa_ready_o} = whose;
  assign take_credit_o = begins ? {chosen[1:0], chosen[5:2]} : '0;

  logic [FLIT_W-1:0] flit;
  logic              out, out_last;

  always_comb begin
    flit = '0;
    for (int i = 0; i < 2; i++) if (whose[i]) flit |= isa_flit_i[FLIT_W*i+:FLIT_W];
    for (int i = 0; i < 4; i++) if (whose[2+i]) flit |= core_flit_i[FLIT_W*i+:FLIT_W];
  end
  assign out      = (valid & whose) != '0;
  assign out_last = (last & whose) != '0;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      inside_q <= 1'b0;
      valid_o  <= 1'b0;
    end else begin
      if (out) inside_q <= !out_last;
      valid_o <= out;
    end
  end

  always_ff @(posedge clk_i) begin
    if (out) whose_q <= whose;
    last_o <= out_last;
    flit_o <= flit;
  end
endmodule

`default_nettype wire
