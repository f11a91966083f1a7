// Output Arbiter of a port (IV.E): whole frames, in turn from the aggregation and from the forwarding branch of every port.
module output_arbiter #(
    parameter int PORTS = 8
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic [PORTS-1:0]    fwd_valid_i,
    output logic [PORTS-1:0]    fwd_ready_o,
    input  logic [PORTS*68-1:0] fwd_beat_i,
    // Frame FIFOs whose next frame leaves by this port.
    input  logic [PORTS-1:0]    agg_valid_i,
    output logic [PORTS-1:0]    agg_ready_o,
    input  logic [PORTS*68-1:0] agg_beat_i,
    output logic                valid_o,
    input  logic                ready_i,
    // {last, bytes - 1, data}
    output logic [67:0]         beat_o
);
  typedef enum logic {
    Check,
    Send
  } state_e;

  state_e             state_q, state_d;
  // The source: forwarding branches, then those of the aggregation.
  logic [2*PORTS-1:0] source_q, source_d, valid;
  logic [PORTS:0]     grant;
  logic [PORTS-1:0]   agg_grant;
  logic               any, agg_any, take;
  logic [$clog2(PORTS+1)-1:0]                   unused_idx;
  logic [((PORTS > 1) ? $clog2(PORTS) : 1)-1:0] unused_agg_idx;

  assign valid = {agg_valid_i, fwd_valid_i};
  assign take  = state_q == Check && any;

  prim_arbiter_rr #(
      .N(PORTS + 1)
  ) u_turn (
      .clk_i,
      .rst_ni,
      .req_i  ({agg_any, fwd_valid_i}),
      .take_i (take),
      .valid_o(any),
      .gnt_o  (grant),
      .idx_o  (unused_idx)
  );

  prim_arbiter_rr #(
      .N(PORTS)
  ) u_agg_turn (
      .clk_i,
      .rst_ni,
      .req_i  (agg_valid_i),
      .take_i (take && grant[PORTS]),
      .valid_o(agg_any),
      .gnt_o  (agg_grant),
      .idx_o  (unused_agg_idx)
  );

  always_comb begin
    beat_o = '0;
    for (int p = 0; p < PORTS; p++) begin
      if (source_q[p]) beat_o = beat_o | fwd_beat_i[p*68+:68];
      if (source_q[PORTS+p]) beat_o = beat_o | agg_beat_i[p*68+:68];
    end
  end

  always_comb begin
    state_d     = state_q;
    source_d    = source_q;
    valid_o     = 1'b0;
    fwd_ready_o = '0;
    agg_ready_o = '0;
    case (state_q)
      Check: begin
        source_d = {grant[PORTS] ? agg_grant : {PORTS{1'b0}}, grant[PORTS-1:0]};
        if (any) state_d = Send;
      end
      default: begin
        valid_o = (valid & source_q) != '0;
        if (ready_i) {agg_ready_o, fwd_ready_o} = source_q;
        if (valid_o && ready_i && beat_o[67]) state_d = Check;
      end
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= Check;
      source_q <= '0;
    end else begin
      state_q  <= state_d;
      source_q <= source_d;
    end
  end
endmodule
