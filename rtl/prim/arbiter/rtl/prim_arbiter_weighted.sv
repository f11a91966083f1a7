// Grants one of several requests; while all of them ask, each has as many grants of a round as its weight says.
module prim_arbiter_weighted #(
    parameter int N = 2,
    // Bits of a weight.
    parameter int WEIGHT_W = 4,
    // Weight of request i in bits i * WEIGHT_W and up, 1 at least.
    parameter logic [N*WEIGHT_W-1:0] WEIGHTS = {N{WEIGHT_W'(1)}}
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    input  logic [N-1:0]    req_i,
    input  logic            take_i,
    output logic            valid_o,
    output logic [N-1:0]    gnt_o,
    output logic [((N > 1) ? $clog2(N) : 1)-1:0] idx_o
);
  if (N < 1) begin : gen_check_n
    expected_at_least_one_request u_stop ();
  end
  for (genvar i = 0; i < N; i++) begin : gen_check
    if (WEIGHTS[i*WEIGHT_W+:WEIGHT_W] == '0) begin : gen_zero
      expected_a_weight_of_1_or_more u_stop ();
    end
  end

  // Grants that are left in this round.
  logic [N*WEIGHT_W-1:0] credit_q, credit_d;
  logic [N-1:0] has_credit, eligible;
  logic         new_round;

  always_comb begin
    for (int i = 0; i < N; i++) has_credit[i] = credit_q[i*WEIGHT_W+:WEIGHT_W] != '0;
  end

  // Nobody who asks has credit: a new round.
  assign new_round = (req_i & has_credit) == '0;
  assign eligible  = new_round ? req_i : (req_i & has_credit);

  prim_arbiter_rr #(
      .N(N)
  ) u_rr (
      .clk_i,
      .rst_ni,
      .req_i  (eligible),
      .take_i,
      .valid_o,
      .gnt_o,
      .idx_o
  );

  always_comb begin
    credit_d = credit_q;
    if (take_i && valid_o) begin
      if (new_round) credit_d = WEIGHTS;
      for (int i = 0; i < N; i++) begin
        if (gnt_o[i]) credit_d[i*WEIGHT_W+:WEIGHT_W] = credit_d[i*WEIGHT_W+:WEIGHT_W] - 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) credit_q <= WEIGHTS;
    else credit_q <= credit_d;
  end
endmodule
