// Grants one of several requests, each in turn: the first one after the one that was granted last.
module prim_arbiter_rr #(
    parameter int N = 4
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    input  logic [N-1:0]    req_i,
    // The grant is taken: the turn goes on.
    input  logic            take_i,
    output logic            valid_o,
    output logic [N-1:0]    gnt_o,
    output logic [((N > 1) ? $clog2(N) : 1)-1:0] idx_o
);
  localparam int IdxW = (N > 1) ? $clog2(N) : 1;

  if (N < 1) begin : gen_check
    expected_at_least_one_request u_stop ();
  end

  // Those that come before the first in any case: below the one that was granted last, and itself.
  logic [N-1:0] done_q, done_d;
  logic [N-1:0] ahead, chosen;

  assign ahead  = req_i & ~done_q;
  assign chosen = (ahead != '0) ? ahead : req_i;
  // The lowest bit that is set.
  assign gnt_o   = chosen & (~chosen + 1'b1);
  assign valid_o = req_i != '0;

  always_comb begin
    idx_o = '0;
    for (int i = 0; i < N; i++) begin
      if (gnt_o[i]) idx_o = IdxW'(i);
    end
  end

  always_comb begin
    done_d = done_q;
    if (take_i && valid_o) done_d = gnt_o | (gnt_o - 1'b1);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) done_q <= '0;
    else done_q <= done_d;
  end
endmodule
