// What result_manager promises: a slot is taken only while it is free, none of its tags is then in
// use, a write response is taken once and only if it is awaited, and a slot is busy for exactly as
// long as one is missing: so nothing is told to be done too early, nor never.
`default_nettype none

module prove_result_manager (
    input wire logic clk_i,
    input wire logic rst_ni,
    input wire logic take_i,
    input wire logic [1:0] take_destinations_i,
    input wire logic [1:0] take_places_i,
    // Slots are three: one number names none.
    input wire logic [3:0] slot_i,
    input wire logic [1:0] place_i,
    input wire logic [1:0] come_i
);
  logic       free;
  logic [1:0] slot, awaited;
  logic [2:0] busy;

  result_manager #(
      .PORTS (2),
      .SLOTS (3),
      .PLACES(2)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .free_o             (free),
      .free_slot_o        (slot),
      .take_i,
      .take_destinations_i,
      .take_places_i,
      .slot_i,
      .place_i,
      .awaited_o          (awaited),
      .come_i,
      .busy_o             (busy)
  );

  // Responses that are missing, of one slot, whichever.
  (* anyconst *) logic [1:0] chosen;
  logic       past_q = 1'b0;
  logic [3:0] out_q, out_d;

  always_comb begin
    out_d = out_q;
    for (int p = 0; p < 2; p++) begin
      if (come_i[p] && slot_i[2*p+:2] == chosen) out_d[2*p+32'(place_i[p])] = 1'b0;
    end
    if (take_i && slot == chosen) begin
      out_d = {take_destinations_i[1] ? take_places_i : 2'd0,
               take_destinations_i[0] ? take_places_i : 2'd0};
    end
  end

  always_ff @(posedge clk_i) begin
    past_q <= 1'b1;
    out_q  <= rst_ni ? out_d : '0;
  end

  always_comb begin
    assume (rst_ni == past_q);
    assume (chosen != 2'd3);
    if (past_q) begin
      assume (!take_i || (free && take_destinations_i != 2'd0 && take_places_i != 2'd0));
      assume ((come_i & ~awaited) == 2'd0);

      if (take_i && slot == chosen) assert (out_q == 4'd0);
      assert (slot != 2'd3);
      assert (busy[chosen] == (out_q != 4'd0));
      assert (free == (busy != 3'b111));
      for (int p = 0; p < 2; p++) begin
        if (slot_i[2*p+:2] == chosen) assert (awaited[p] == out_q[2*p+32'(place_i[p])]);
        if (slot_i[2*p+:2] == 2'd3) assert (!awaited[p]);
      end
    end
  end
endmodule

`default_nettype wire
